//! Whether the project has room for the nodes that an operation adds: else machines would fail one by one, and be tried for ever. Machines that
//! replace others come and go as the chart says, which may be one before the other, and are not counted.

use model::nodegroup::Nodegroup;
use model::operation::{OperationEvent, OperationKind};
use provider_clients::{Flavor, Session};

use super::{ASKED, Wish, choices, machines, replicas};
use crate::driver::capi_helm::Bench;
use crate::driver::capi_helm::need::{self, Present};
use crate::driver::capi_helm::seen::Seen;
use crate::outcome::{Failure, Turn};
use crate::room;

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
    if matches!(wish.kind, OperationKind::ClusterUpgrade | OperationKind::CaRotate | OperationKind::NodegroupDelete) {
        return Ok(None);
    }
    let concerned = wish.groups.iter().filter(|group| wish.target.is_none_or(|target| target.uuid == group.uuid));
    let present = |group: &Nodegroup| Present {
        wanted: replicas(seen, group),
        machines: machines(seen, group),
        asked: wish.asked_last.get(&group.uuid).copied(),
    };
    let need = need::of(&choices(bench)?, concerned, present)?;
    if need.nodes.is_empty() {
        return Ok(None);
    }
    match room::short(session, &need, flavors).await {
        Some(short) => room::wait(bench.cx, bench.work, events, short).await.map(Some),
        None => Ok(None),
    }
}
