//! Whether the project has room for the nodes that an operation adds: else machines would fail one by one, and be tried for ever. Machines that
//! replace others come and go as the chart says, which may be one before the other, and are not counted.

use model::nodegroup::Nodegroup;
use model::operation::{OperationEvent, OperationKind, OutcomeCode};
use provider_clients::{Flavor, Session};

use super::{ASKED, Wish, choices, replicas};
use crate::driver::capi_helm::Bench;
use crate::driver::capi_helm::scaling::{self, Scale};
use crate::driver::capi_helm::seen::Seen;
use crate::outcome::{Failure, Turn};
use crate::room::{self, Need};

/// None where the operation may go on. Else it waits a little: what was deleted just now is counted by Nova until its servers are gone. `flavors`:
/// all that there are, where they have been looked up already.
///
/// # Errors
/// What is short, with what is left of it, when there was no room for a while.
pub(super) async fn room(
    bench: &Bench<'_>,
    session: &Session,
    wish: &Wish<'_>,
    seen: &Seen,
    events: &[OperationEvent],
    flavors: Option<Vec<Flavor>>,
) -> Result<Option<Turn>, Failure> {
    // Once helm was asked, some of what is counted may be the operation's own.
    if events.iter().any(|e| e.kind == ASKED) {
        return Ok(None);
    }
    let nodes = grown(bench, wish, seen)?;
    if nodes.is_empty() {
        return Ok(None);
    }
    match room::short(session, &Need { nodes, ..Need::default() }, flavors).await {
        Some(short) => room::wait(bench.cx, bench.work, events, short).await.map(Some),
        None => Ok(None),
    }
}

/// The servers that are to be made for groups that are to have more nodes than before, each with its flavor.
fn grown(bench: &Bench<'_>, wish: &Wish<'_>, seen: &Seen) -> Result<Vec<(u64, String)>, Failure> {
    if matches!(wish.kind, OperationKind::ClusterUpgrade | OperationKind::NodegroupDelete) {
        return Ok(Vec::new());
    }
    let choices = choices(bench)?;
    let concerned = wish.groups.iter().filter(|group| wish.target.is_none_or(|target| target.uuid == group.uuid));
    let mut grown = Vec::new();
    for group in concerned {
        let wanted = match scaling::of(&choices, group).map_err(|text| Failure::fail(OutcomeCode::User, text))? {
            Scale::Fixed => i64::from(group.node_count()),
            Scale::Between { least, .. } => least,
        };
        let is_more = replicas(seen, group).is_none_or(|before| wanted > i64::from(before));
        let more = usize::try_from(wanted).unwrap_or(0).saturating_sub(machines(seen, group));
        if is_more && more > 0 {
            grown.push((more as u64, group.flavor_id.clone().unwrap_or_default()));
        }
    }
    Ok(grown)
}

/// How many machines a group has. Each may have a server already, which Nova counts as used long before the machine says so.
fn machines(seen: &Seen, group: &Nodegroup) -> usize {
    if group.is_master() { seen.masters().count() } else { seen.machines_of(&group.name).count() }
}
