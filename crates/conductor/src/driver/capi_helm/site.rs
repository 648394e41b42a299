//! Which management cluster a cluster is on: chosen once, together with the name of its release and before anything of it is made; or found,
//! of one that nobody has recorded, where its release is.
//!
//! One that cannot be asked says nothing: a cluster that the others do not have may be there. It is never taken for gone.

use std::sync::Arc;
use std::time::Duration;

use model::capi::new_release;
use model::cluster::{Cluster, ClusterChange};
use model::nodegroup::NodegroupChange;
use model::operation::{OperationKind, OutcomeCode, Progress};
use model::placement::{self as rules, Choice};
use model::resource::ResourceKind;
use model::store::{Conn, StoreError, cluster as clusters, event, nodegroup, operation, placement, resource};
use provider_clients::{CloudError, Management};

use super::door::{Capi, Door};
use super::{objects, secrets};
use crate::cluster::Rows;
use crate::context::Context;
use crate::outcome::Failure;
use crate::worker::Work;

/// The event of the choice; its text is the name of the management cluster.
const CHOSEN: &str = "management_cluster";
/// How long one management cluster may take to tell whether it has a release.
const SEARCH: Duration = Duration::from_secs(5);

/// Chooses a management cluster for a cluster that has none, and gives it the name of its release; it keeps both whatever happens.
pub(super) async fn choose(cx: &Context, work: &Work, rows: &Rows, capi: &Capi) -> Result<(), Failure> {
    let cluster = &rows.cluster;
    // One that has a name keeps it.
    let release = &cluster.stack_id.clone().unwrap_or_else(|| new_release(cluster.display_name()));
    let all: Vec<_> = capi.doors.iter().map(|door| door.cluster.clone()).collect();
    let (labels, project) = (cluster.labels(), cluster.project().0);
    let (all, wanted, project) = (&all, rules::wanted(&labels), project.as_str());
    let progress = Progress { step: "name", ..Progress::default() };
    let change = ClusterChange { stack_id: Some(Some(release.clone())), ..ClusterChange::default() };
    let of_groups = NodegroupChange { stack_id: Some(Some(release.clone())), ..NodegroupChange::default() };
    let (id, progress, change, of_groups) = (&cluster.cluster_id(), &progress, &change, &of_groups);
    let operation_id = &work.operation.operation_id();
    let chosen = cx.store.write(async |conn: &mut Conn| {
        // First of all, so that what is counted below is what it is.
        placement::begin(conn).await?;
        operation::record(conn, work.claim(), progress).await?;
        let placed = placement::counts(conn).await?;
        let standing = |name: &str| {
            let count = placed.get(name).copied().unwrap_or(0);
            capi.door(name).map_or(rules::Standing { placed: count, trouble: None }, |door| door.standing(count))
        };
        let choice = rules::choose(all, wanted, project, standing);
        if let Choice::On(name) = &choice {
            placement::record(conn, id, name).await?;
            resource::record(conn, id, ResourceKind::HelmRelease, release, None).await?;
            nodegroup::record_all(conn, id, of_groups).await?;
            clusters::record(conn, id, change).await?;
            if all.len() > 1 {
                event::append(conn, operation_id, id, CHOSEN, name).await?;
            }
        }
        Ok::<_, StoreError>(choice)
    });
    match chosen.await? {
        Choice::On(name) => {
            tracing::info!(management_cluster = name, release, "the cluster's place was chosen");
            Ok(())
        }
        Choice::Wait(reason) => Err(Failure::retry(reason)),
        Choice::Refused(reason) => Err(Failure::fail(OutcomeCode::User, reason)),
        Choice::Full(reason) => Err(Failure::fail(OutcomeCode::Cloud, reason)),
    }
}

/// What came of looking for a release.
pub(super) enum Found<'a> {
    At(&'a Arc<Door>),
    /// All were asked, and none has it.
    Nowhere,
}

/// Looks for a cluster's release on all management clusters.
///
/// # Errors
/// When some cannot be asked and the others do not have it, or when several have it.
pub(super) async fn look_for<'a>(capi: &'a Capi, cluster: &Cluster, namespace: &str, release: &str) -> Result<Found<'a>, Failure> {
    let asked = futures::future::join_all(capi.doors.iter().map(async |door| (door, has(capi, door, cluster, namespace, release).await)));
    let (mut having, mut silent) = (Vec::new(), Vec::new());
    for (door, has) in asked.await {
        match has {
            Ok(true) => having.push(door),
            Ok(false) => {}
            Err(reason) => silent.push(format!("{}: {reason}", door.cluster.name)),
        }
    }
    match having.as_slice() {
        [only] => Ok(Found::At(only)),
        [] if silent.is_empty() => Ok(Found::Nowhere),
        [] => Err(Failure::retry(format!(
            "looking for release {release}: it may be on a management cluster that cannot be asked: {}",
            silent.join("; ")
        ))),
        several => {
            let names: Vec<&str> = several.iter().map(|door| door.cluster.name.as_str()).collect();
            Err(Failure::retry(format!("release {release} is on several management clusters: {}", names.join(", "))))
        }
    }
}

/// Whether a management cluster has anything of a cluster: its Cluster, a record of helm, or a secret of ours.
async fn has(capi: &Capi, door: &Door, cluster: &Cluster, namespace: &str, release: &str) -> Result<bool, String> {
    // One that does not answer is not waited for.
    if let Some(trouble) = door.trouble() {
        return Err(trouble);
    }
    let management = door.management.borrow().clone().map_err(|reason| reason.to_string())?;
    let asked = tokio::time::timeout(SEARCH, holds(&management, capi, cluster, namespace, release)).await;
    asked.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())
}

async fn holds(management: &Management, capi: &Capi, cluster: &Cluster, namespace: &str, release: &str) -> Result<bool, CloudError> {
    let (kind, within) = (&capi.settings.kinds.cluster, Some(namespace));
    let (secrets, of_helm, of_ours) = (secrets(), format!("owner=helm,name={release}"), objects::secrets_of(cluster));
    let (object, of_helm, of_ours) = futures::try_join!(
        management.get("cluster_get", kind, within, release),
        management.has_any("release_list", &secrets, within, &of_helm),
        management.has_any("secret_list", &secrets, within, &of_ours),
    )?;
    Ok(object.is_some() || of_helm || of_ours)
}

/// Where a cluster is that has a release; whoever has to look for it records what he finds.
pub(super) async fn of<'a>(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    capi: &'a Capi,
    namespace: &str,
    release: &str,
) -> Result<&'a Arc<Door>, Failure> {
    let recorded = rows.management_cluster.as_deref();
    if let Some(door) = capi.known(recorded) {
        return Ok(door);
    }
    let door = match (look_for(capi, &rows.cluster, namespace, release).await?, recorded) {
        (Found::At(door), _) => door,
        // This conductor cannot ask the one that has it: it was taken out of the configuration, or is not in this one yet.
        (Found::Nowhere, Some(name)) => {
            return Err(Failure::retry(format!(
                "management cluster {name}, where release {release} was made, is not in the configuration"
            )));
        }
        (Found::Nowhere, None) => return nowhere(cx, work, rows, capi, release).await,
    };
    let (id, name) = (&rows.cluster.cluster_id(), door.cluster.name.as_str());
    let progress = &Progress { step: "found", ..Progress::default() };
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            placement::record(conn, id, name).await
        })
        .await?;
    tracing::info!(management_cluster = name, release, "the cluster was found");
    Ok(door)
}

/// All were asked and none has it: one that is being made may go anywhere, of one that is to go nothing is there, and any can say so.
async fn nowhere<'a>(cx: &Context, work: &Work, rows: &Rows, capi: &'a Capi, release: &str) -> Result<&'a Arc<Door>, Failure> {
    let any = || capi.doors.first().ok_or_else(|| Failure::fail(OutcomeCode::Internal, super::NONE));
    match work.operation.kind() {
        Some(OperationKind::ClusterCreate) => {
            choose(cx, work, rows, capi).await?;
            Err(Failure::retry("the cluster's place was chosen anew"))
        }
        Some(OperationKind::ClusterDelete | OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon) => any(),
        _ => {
            let names: Vec<&str> = capi.doors.iter().map(|door| door.cluster.name.as_str()).collect();
            let text = format!("release {release} is on none of the management clusters {}", names.join(", "));
            Err(Failure::fail(OutcomeCode::Cloud, text))
        }
    }
}
