//! New bounds, labels or taints of a group. They are in the rows already, and running nodes keep what they have: labels and taints are for
//! nodes to come. What is left is to look whether the group is sound.

use std::sync::Arc;

use model::cluster::status::Status;
use model::nodegroup::NodegroupChange;
use model::operation::OperationState;
use model::store::Conn;

use crate::cluster::rows;
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
    let group = rows.group(&work.payload()?)?;
    let known = rows.stack_of(group);
    let whose = Whose::of(&rows.cluster, group);
    let mut facts = NodegroupChange::default();
    if known.may_exist {
        let session = credentials::for_looking(cx, work, &rows).await?;
        match driver::observe(&known.handle, &session).await? {
            Observed::Building(seen) | Observed::Leaving(seen) => {
                let verb = format!("updating nodegroup {}", group.name);
                return stack::follow(cx, work, whose, &verb, seen, &session).await;
            }
            // What the user asked for is done; that the group is broken stays true.
            Observed::Broken { reason, .. } | Observed::Stuck { reason, .. } => {
                facts = NodegroupChange::status(Status::UpdateFailed, Some(reason));
            }
            Observed::Absent => facts = NodegroupChange::status(Status::UpdateFailed, Some("the group's stack is gone".into())),
            Observed::Ready(_) | Observed::RolledBack { .. } | Observed::Foreign { .. } => {}
        }
    }
    let end = End { state: OperationState::Succeeded, group: Some(group), facts, reason: None };
    let end = &end;
    succeed(cx, work, async |conn: &mut Conn| settle::record(conn, &work.operation, end).await).await
}
