//! A change that another service began and did not see the end of: the stack tells what became of it.

use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationState, OutcomeCode};
use model::resource::ResourceKind;
use model::store::{Conn, nodegroup as nodegroups, resource};

use super::Rows;
use crate::context::Context;
use crate::credentials;
use crate::driver;
use crate::nodegroup;
use crate::outcome::{Failure, Turn};
use crate::plan::{self, FoundStep};
use crate::settle::{self, End};
use crate::stack::{self, Known, Whose};
use crate::worker::{Work, succeed};

/// One turn, for one group and the stack that it is in.
pub(super) async fn turn(cx: &Context, work: &Work, rows: &Rows, group: &Nodegroup) -> Result<Turn, Failure> {
    let known = rows.stack_of(group);
    // Looking is all that is done.
    let reach = credentials::for_removal(cx, work, &rows.cluster).await?;
    let observed = driver::observe(&known.handle, &reach.session).await?;
    tracing::debug!(?observed, "observed");
    match plan::found(observed) {
        FoundStep::Wait(seen) => {
            let verb = format!("following {}", group.name);
            stack::follow(cx, work, Whose::of(&rows.cluster, group), &verb, seen, &reach.session).await
        }
        FoundStep::Finish(seen) => nodegroup::finish(cx, work, rows, group, &reach.session, &seen).await,
        FoundStep::Gone if known.handle.id.is_some() && !group.is_default() => removed(cx, work, rows, group, &known).await,
        FoundStep::Gone => {
            let what = if group.is_default() { "the cluster's stack" } else { "the nodegroup's stack" };
            Err(Failure::fail(OutcomeCode::Cloud, format!("{what} is gone, or was never made")))
        }
        FoundStep::Fail { reason } => Err(Failure::of_stack(reason)),
    }
}

/// The group was being removed: its stack is gone, and so its row goes.
async fn removed(cx: &Context, work: &Work, rows: &Rows, group: &Nodegroup, known: &Known) -> Result<Turn, Failure> {
    let end = End { state: OperationState::Succeeded, group: None, facts: NodegroupChange::default(), reason: None };
    let (end, id, group, name) = (&end, &rows.cluster.cluster_id(), &group.nodegroup_id(), &known.recorded_as);
    succeed(cx, work, async |conn: &mut Conn| {
        if let Some(name) = name {
            resource::forget_one(conn, id, ResourceKind::Stack, name).await?;
        }
        nodegroups::delete(conn, group).await?;
        settle::record(conn, &work.operation, end).await
    })
    .await
}
