//! The end: what the rows say of a cluster that is as it was wanted.

use model::capi::cleaned;
use model::cluster::ClusterChange;
use model::cluster::status::{Rest, settle};
use model::json::python_json;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationKind, OperationState};
use model::store::{Conn, cluster as clusters, nodegroup};
use serde_json::Value;

use super::{Wish, replicas};
use crate::driver::capi_helm::Bench;
use crate::driver::capi_helm::seen::{self, Seen};
use crate::outcome::{Failure, Turn};
use crate::settle::{self as ends, End};
use crate::worker::succeed;

/// What the end of an operation writes of a group.
pub(in crate::driver::capi_helm) fn facts(seen: &Seen, group: &Nodegroup) -> NodegroupChange {
    let addresses = |machines: &mut dyn Iterator<Item = &Value>| {
        let mut found: Vec<(String, String)> = machines.filter_map(|m| Some((seen::name_of(m).to_owned(), seen::address(m)?))).collect();
        found.sort();
        found.into_iter().map(|(_, address)| address).collect::<Vec<_>>()
    };
    let addresses =
        if group.is_master() { addresses(&mut seen.masters()) } else { addresses(&mut seen.machines_of(&cleaned(&group.name))) };
    NodegroupChange {
        stack_id: Some(Some(seen.release.clone())),
        node_addresses: Some(python_json(&addresses)),
        // An autoscaler may have decided otherwise.
        node_count: replicas(seen, group),
        ..NodegroupChange::default()
    }
}

/// Ends the operation well.
pub(super) async fn finish(bench: &Bench<'_>, wish: &Wish<'_>, seen: &Seen) -> Result<Turn, Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    let id = &cluster.cluster_id();
    let known = ClusterChange {
        stack_id: Some(Some(bench.release.clone())),
        api_address: seen.api_address().map(Some),
        coe_version: Some(seen.version()),
        // Recorded when helm was asked; an earlier release did so at the end, and may have begun what this one ends.
        cluster_template_id: wish.brings_all().then(|| cluster.cluster_template_id.clone()),
        labels: wish.brings_all().then(|| cluster.labels.clone()),
        ..ClusterChange::default()
    };
    if wish.kind != OperationKind::ClusterCreate {
        let is_target = |group: &Nodegroup| wish.target.is_some_and(|t| t.uuid == group.uuid);
        let facts = |group: &Nodegroup| match wish.kind {
            OperationKind::ClusterUpgrade => {
                NodegroupChange { image_id: Some(group.image_id.clone()), labels: Some(group.labels.clone()), ..facts(seen, group) }
            }
            _ => facts(seen, group),
        };
        let of_target = wish.target.filter(|_| wish.gone.is_none()).map(facts).unwrap_or_default();
        // Their sizes are other operations' to say.
        let others = bench.rows.groups.iter().filter(|group| wish.brings_all() && !is_target(group));
        let others: Vec<_> = others.map(|g| (g.nodegroup_id(), NodegroupChange { node_count: None, ..facts(g) })).collect();
        let end = End { state: OperationState::Succeeded, group: wish.target, facts: of_target, reason: None };
        let (end, known, others) = (&end, &known, &others);
        return succeed(cx, work, async |conn: &mut Conn| {
            for (group, change) in others {
                nodegroup::record(conn, group, change).await?;
            }
            clusters::record(conn, id, known).await?;
            ends::record(conn, &work.operation, end).await
        })
        .await;
    }
    let word = settle(wish.kind, OperationState::Succeeded, Rest::default()).map(|s| s.as_str().to_owned());
    let note = model::labels::note(model::driver::DriverName::K8sCapiHelmV1, &cluster.labels());
    let change = ClusterChange { status: word.clone(), status_reason: Some(note), ..known };
    let groups: Vec<_> = bench
        .rows
        .groups
        .iter()
        .map(|group| {
            let change = NodegroupChange { status: word.clone(), status_reason: Some(None), ..facts(seen, group) };
            (group.nodegroup_id(), change)
        })
        .collect();
    let (change, groups) = (&change, &groups);
    succeed(cx, work, async |conn: &mut Conn| {
        for (group, change) in groups {
            nodegroup::record(conn, group, change).await?;
        }
        clusters::record(conn, id, change).await
    })
    .await
}
