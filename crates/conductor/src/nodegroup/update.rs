//! New bounds, labels or taints of a group in Heat. They are in the rows already, and running nodes keep what they have: labels and taints are for
//! nodes to come. What is left is to look whether the group is sound, and of what size; and, as with a resize, to make it where its creation
//! failed while the update waited for it.

use std::sync::Arc;

use model::cluster::status::Status;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationState, Payload};
use model::store::Conn;

use super::{facts, finish, halfway};
use crate::cluster::{resize, rows};
use crate::context::Context;
use crate::driver::{Missing, PoolKind, capi_helm};
use crate::outcome::{Failure, Turn};
use crate::plan::{Observed, Seen};
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
    let mut note = None;
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
            // What was asked for before may be on its way.
            Observed::Ready(seen) | Observed::RolledBack { seen, .. }
                if !work.is_settled(cx) && (resize::was_left(&payload, group) || has_fewer(&payload, group, &seen)) =>
            {
                return stack::wait_for(cx, work, &resize::stays(&seen)).await;
            }
            Observed::Ready(seen) | Observed::RolledBack { seen, .. } => {
                let excused = if group.is_master() { Vec::new() } else { driver::excused(&session, &seen, PoolKind::Workers).await? };
                let has_fewer = has_fewer(&payload, group, &seen);
                let is_halfway = halfway::is(cx, (&rows.cluster, group), &session, &seen, &excused).await?;
                let told = || resize::notes(&excused, is_halfway);
                match unsound(&payload, group, &excused, is_halfway) {
                    None if has_fewer => return finish(cx, work, &rows, group, &session, &seen, told()).await,
                    None => {
                        note = told();
                        NodegroupChange::default()
                    }
                    Some(reason) => {
                        let found = if has_fewer { facts(&rows, &session, &seen).await? } else { NodegroupChange::default() };
                        let NodegroupChange { status, status_reason, .. } = broken(reason);
                        NodegroupChange { status, status_reason, ..found }
                    }
                }
            }
            Observed::Foreign { .. } => NodegroupChange::default(),
        }
    } else {
        broken("the group has no stack".into())
    };
    let end = End { state: OperationState::Succeeded, group: Some(group), facts, reason: note.as_deref() };
    let end = &end;
    succeed(cx, work, async |conn: &mut Conn| settle::record(conn, &work.operation, end).await).await
}

/// Whether a group has fewer workers than its row says: after a change that ended badly the row says the most that there may be, until somebody
/// sees the stack at rest. (It has more while nodes are replaced, which is no size of a group.)
fn has_fewer(payload: &Payload, group: &Nodegroup, seen: &Seen) -> bool {
    let known = payload.before.as_ref().and_then(|before| before.node_count).unwrap_or_else(|| group.node_count());
    !group.is_master() && seen.settled_workers().is_some_and(|count| count < known)
}

/// Why a group has failed though its stack is complete.
///
/// A replacement of its nodes was cut off, as by the deadline of an upgrade: it is to be done again, which a group that is well does not allow. And of
/// workers that did not become nodes Heat was told to wait no longer, so that others could be replaced past them, and they are members still. One that
/// is known to be no node makes its group a failed one until a resize has another come. Of one that may be a node nobody can say more than what was said
/// when the group came to rest last.
fn unsound(payload: &Payload, group: &Nodegroup, excused: &[Missing], is_halfway: bool) -> Option<String> {
    let absent: Vec<&str> = excused.iter().filter(|m| m.is_absent).map(|m| m.number.as_str()).collect();
    let had_failed = payload.before.as_ref().and_then(|before| before.group(&group.nodegroup_id())) == Some(Status::UpdateFailed);
    if !absent.is_empty() {
        return Some(format!(
            "nodes {} never joined the cluster; a resize, to the size that the group has as well, has others come",
            absent.join(", ")
        ));
    }
    if had_failed && is_halfway {
        return Some(halfway::NOTE.into());
    }
    resize::note(excused).filter(|_| had_failed)
}

/// Whether the operation makes its group, or mends it, as a resize does: the group's creation failed while this one waited for it, or this one
/// failed and is done again. Programs that do not know of this do not take it (`Payload::MAKING`).
fn makes(payload: &Payload, group: &Nodegroup) -> bool {
    let before = payload.before.as_ref().and_then(|before| before.group(&group.nodegroup_id()));
    !group.is_default() && (before == Some(Status::CreateFailed) || payload.retry_of.is_some())
}

#[cfg(test)]
mod tests {
    use model::id::{NodegroupId, OperationId};
    use model::operation::Before;

    use super::*;
    use crate::plan::Workers;

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

    #[test]
    fn a_group_of_a_complete_stack_stays_failed_where_a_member_is_no_node_or_was_not_known_to_be_one_before() {
        let group = Nodegroup { uuid: "g".into(), ..Nodegroup::default() };
        let behind = |status: Status| {
            let before = Before { groups: [(NodegroupId::new("g"), status.as_str().to_owned())].into(), ..Before::default() };
            Payload { before: Some(before), ..Payload::default() }
        };
        let member = |number: &str, is_absent| Missing { kind: PoolKind::Workers, number: number.into(), is_awaited: false, is_absent };
        let (absent, unknown) = (member("2", true), member("4", false));
        for (status, excused, wanted) in [
            (Status::UpdateFailed, vec![], None),
            (Status::UpdateComplete, vec![absent.clone(), unknown.clone()], Some("nodes 2 never joined")),
            (Status::UpdateFailed, vec![unknown.clone(), absent], Some("nodes 2 never joined")),
            (Status::UpdateFailed, vec![unknown.clone()], Some("of nodes 4 nobody knows")),
            // A resize has ended well since, and has told of it.
            (Status::UpdateComplete, vec![unknown], None),
        ] {
            let told = unsound(&behind(status), &group, &excused, false);
            let is_right = match (wanted, &told) {
                (Some(wanted), Some(told)) => told.starts_with(wanted),
                (wanted, told) => wanted.is_none() && told.is_none(),
            };
            assert!(is_right, "{status:?} {excused:?}: {told:?}");
        }
        // A rotation, of which the cluster tells, or a resize has ended well since.
        for (status, wanted) in [(Status::UpdateFailed, true), (Status::UpdateComplete, false)] {
            let told = unsound(&behind(status), &group, &[], true);
            assert_eq!(told.is_some_and(|told| told == halfway::NOTE), wanted, "{status:?}");
        }
    }

    #[test]
    fn a_group_has_fewer_workers_than_was_told_when_its_stack_says_so_at_rest() {
        let group = |role: &str| Nodegroup { role: Some(role.into()), node_count: Some(10), ..Nodegroup::default() };
        let seen = |status: &str, count: i32| {
            let workers = Workers { count: Some(count), removed: Vec::new() };
            Seen { status: status.into(), workers, ..Seen::default() }
        };
        let payload = |node_count: Option<i32>| Payload { before: Some(Before { node_count, ..Before::default() }), ..Payload::default() };
        for (before, role, status, count, wanted) in [
            (Some(10), "worker", "UPDATE_COMPLETE", 3, true),
            (Some(10), "worker", "ROLLBACK_COMPLETE", 3, true),
            (Some(10), "worker", "UPDATE_COMPLETE", 10, false),
            // A replacement of nodes was cut off.
            (Some(10), "worker", "UPDATE_COMPLETE", 11, false),
            // It says what was asked for.
            (Some(10), "worker", "UPDATE_FAILED", 3, false),
            // The row says what another operation wants that waits.
            (Some(3), "worker", "UPDATE_COMPLETE", 3, false),
            (None, "worker", "UPDATE_COMPLETE", 3, true),
            // Of masters the stack says another number.
            (Some(10), "master", "UPDATE_COMPLETE", 3, false),
        ] {
            assert_eq!(has_fewer(&payload(before), &group(role), &seen(status, count)), wanted, "{before:?} {role} {status} {count}");
        }
    }
}
