//! Clusters of Cluster API: what the rows say, for the management cluster is not asked.

use std::collections::BTreeMap;

use model::forecast::{Forecast, Intent, Replacement, Thing};
use model::nodegroup::Nodegroup;
use model::operation::{OperationKind, OutcomeCode};
use provider_clients::Session;

use super::{FOREIGN, no_such, quotas};
use crate::cluster::concerned;
use crate::driver::capi_helm::need::{self, Present};
use crate::outcome::Failure;

/// What the need does not hold.
const BESIDE: &str =
    "what Cluster API makes beside servers (networks, ports, volumes, load balancers, addresses, security groups) is not counted";
/// How its nodes are replaced.
const SURGE: &str = "how many machines come before others go is for the chart to say, and is not counted";

pub(super) async fn tell(
    defaults: &BTreeMap<&'static str, String>,
    intent: &Intent,
    session: Option<&Session>,
    told: &mut Forecast,
) -> Result<(), Failure> {
    let Some(template) = &intent.template else {
        return Err(Failure::fail(OutcomeCode::User, "the cluster's template is gone"));
    };
    let rows = (&intent.cluster, template);
    let need = match intent.kind {
        OperationKind::ClusterCreate => {
            told.makes(Thing::HelmRelease, 1);
            told.makes(Thing::ApplicationCredential, 1);
            told.unknown.push(BESIDE.into());
            need::by_rows(rows, defaults, intent.groups.iter(), |_| Present::default())?
        }
        OperationKind::ClusterResize => {
            let before = concerned(&intent.groups, &intent.payload)?;
            let after = Nodegroup { node_count: intent.payload.node_count.or(before.node_count), ..before.clone() };
            let gone = u64::try_from(before.node_count() - after.node_count()).unwrap_or(0);
            told.removes(Thing::Server, gone);
            if gone > 0 && !intent.payload.nodes_to_remove.is_empty() {
                told.unknown
                    .push("which machines nodes_to_remove names is asked of the management cluster when the operation begins".into());
            }
            let machines = usize::try_from(before.node_count()).unwrap_or(0);
            let present = Present { wanted: Some(before.node_count()), machines, asked: None };
            need::by_rows(rows, defaults, [&after].into_iter(), |_| present)?
        }
        OperationKind::ClusterUpgrade => {
            let named = concerned(&intent.groups, &intent.payload)?;
            // With the default group go all: they run what the control plane runs.
            let replaced = intent.groups.iter().filter(|group| named.is_default() || group.uuid == named.uuid);
            told.replaced = replaced
                .map(|group| Replacement {
                    nodegroup: group.name.clone(),
                    nodes: u64::try_from(group.node_count()).unwrap_or(0),
                    at_once: None,
                })
                .collect();
            told.unknown.push(SURGE.into());
            return Ok(());
        }
        other => return Err(no_such(other)),
    };
    for (thing, count) in need.things() {
        told.makes(thing, count);
    }
    match session {
        Some(session) if !need.nodes.is_empty() => quotas(session, &[&need], told).await,
        None if !need.nodes.is_empty() => told.unknown.push(FOREIGN.into()),
        Some(_) | None => {}
    }
    Ok(())
}
