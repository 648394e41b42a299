//! New bounds, labels or taints of a group. They are in the rows already, and running nodes keep what they have: labels and taints are for
//! nodes to come. What is left is to look whether the group is sound; and, as with a resize, to make it where its creation failed while the
//! update waited for it.

use std::sync::Arc;

use model::cluster::status::Status;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationState, Payload};
use model::store::Conn;

use crate::cluster::{resize, rows};
use crate::context::Context;
use crate::driver::capi_helm;
use crate::outcome::{Failure, Turn};
use crate::plan::Observed;
use crate::settle::{self, End};
use crate::stack::{self, Whose};
use crate::worker::{Work, succeed};
use crate::{credentials, driver};

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    let payload = work.payload()?;
    let group = rows.group(&payload)?;
    if makes(&payload, group) {
        return resize::turn(cx, work).await;
    }
    let known = rows.stack_of(group);
    let whose = Whose::of(&rows.cluster, group);
    let broken = |reason: String| NodegroupChange::status(Status::UpdateFailed, Some(reason));
    let facts = if known.may_exist {
        let session = credentials::for_looking(cx, work, &rows).await?;
        match driver::observe(&known.handle, &session).await? {
            Observed::Building(seen) | Observed::Leaving(seen) => {
                let verb = format!("updating nodegroup {}", group.name);
                return stack::follow(cx, work, whose, &verb, seen, &session).await;
            }
            // What the user asked for is done; that the group is broken stays true.
            Observed::Broken { reason, .. } | Observed::Stuck { reason, .. } => broken(reason),
            Observed::Absent => broken("the group's stack is gone".into()),
            Observed::Ready(_) | Observed::RolledBack { .. } | Observed::Foreign { .. } => NodegroupChange::default(),
        }
    } else {
        broken("the group has no stack".into())
    };
    let end = End { state: OperationState::Succeeded, group: Some(group), facts, reason: None };
    let end = &end;
    succeed(cx, work, async |conn: &mut Conn| settle::record(conn, &work.operation, end).await).await
}

/// Whether the operation makes its group, or mends it, as a resize does: the group's creation failed while this one waited for it, or this one
/// failed and is done again.
fn makes(payload: &Payload, group: &Nodegroup) -> bool {
    let before = payload.before.as_ref().and_then(|before| before.group(&group.nodegroup_id()));
    !group.is_default() && (before == Some(Status::CreateFailed) || payload.retry_of.is_some())
}

#[cfg(test)]
mod tests {
    use model::id::{NodegroupId, OperationId};
    use model::operation::Before;

    use super::*;

    #[test]
    fn a_group_is_made_where_its_creation_has_failed_and_where_an_update_that_failed_is_done_again() {
        let group = |is_default| Nodegroup { uuid: "g".into(), is_default: Some(is_default), ..Nodegroup::default() };
        let behind = |status: Status| {
            let before = Before { groups: [(NodegroupId::new("g"), status.as_str().to_owned())].into(), ..Before::default() };
            Payload { before: Some(before), ..Payload::default() }
        };
        for status in Status::ALL.iter().copied() {
            assert_eq!(makes(&behind(status), &group(false)), status == Status::CreateFailed, "{status:?}");
            let again = behind(status).again(OperationId::generate());
            assert!(makes(&again, &group(false)) && !makes(&again, &group(true)), "{status:?}");
        }
        assert!(!makes(&Payload::default(), &group(false)) && !makes(&behind(Status::CreateFailed), &group(true)));
    }
}
