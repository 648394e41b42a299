//! Deleting a nodegroup: its stack, then its row.

use std::sync::Arc;

use model::nodegroup::NodegroupChange;
use model::operation::{OperationState, OutcomeCode};
use model::resource::ResourceKind;
use model::store::{Conn, resource};

use crate::cluster::rows;
use crate::context::Context;
use crate::credentials;
use crate::driver::capi_helm;
use crate::outcome::{Failure, Turn};
use crate::settle::{self, End};
use crate::stack::{self, Whose};
use crate::worker::{Work, succeed};

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    let payload = work.payload()?;
    let group = rows.groups.iter().find(|g| payload.nodegroup.as_ref().is_some_and(|id| g.uuid == id.as_str()));
    let mut stack_name = None;
    if let Some(group) = group {
        if group.is_default() {
            return Err(Failure::fail(OutcomeCode::User, "a default nodegroup goes with its cluster only"));
        }
        let known = rows.stack_of(group);
        // No stack was ever made, or it was seen to be gone: nothing to ask the cloud.
        if known.may_exist {
            let session = credentials::for_looking(cx, work, &rows).await?;
            let whose = Whose::Group(&rows.cluster, group);
            if let Some(turn) = stack::leave(cx, work, whose, &known, &session).await? {
                return Ok(turn);
            }
        }
        stack_name = known.recorded_as;
    }
    let end = End { state: OperationState::Succeeded, group, facts: NodegroupChange::default(), reason: None };
    let (end, id, stack_name) = (&end, &rows.cluster.cluster_id(), &stack_name);
    succeed(cx, work, async |conn: &mut Conn| {
        if let Some(name) = stack_name {
            resource::forget_one(conn, id, ResourceKind::Stack, name).await?;
        }
        settle::record(conn, &work.operation, end).await
    })
    .await
}
