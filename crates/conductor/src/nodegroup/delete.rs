//! Deleting a nodegroup: its stack, then its row.

use std::sync::Arc;

use model::nodegroup::NodegroupChange;
use model::operation::{OperationState, OutcomeCode};
use model::resource::ResourceKind;
use model::store::{Conn, resource};
use provider_clients::Session;

use super::objects;
use crate::cluster::{Rows, rows};
use crate::context::Context;
use crate::driver::capi_helm;
use crate::outcome::{Failure, Turn};
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
            if leaves_objects(&rows, &session).await {
                objects::take_out(cx, work, &rows, (known.handle.name.as_str(), None), &session).await?;
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

/// Whether nobody in the cluster removes what Kubernetes keeps of the group's nodes; where its stack cannot be looked at that may be so.
async fn leaves_objects(rows: &Rows, session: &Session) -> bool {
    match driver::observe(&rows.stack().handle, session).await {
        Ok(observed) => observed.seen().is_some_and(objects::are_left),
        Err(_) => true,
    }
}
