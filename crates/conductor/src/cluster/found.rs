//! A change that another service began and did not see the end of: the stack tells what became of it.

use model::cluster::status::Status;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationState, OutcomeCode};
use model::resource::ResourceKind;
use model::store::{Conn, nodegroup as nodegroups, resource};

use super::{Rows, resize};
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
    let reach = credentials::for_removal(cx, work, rows).await?;
    let observed = driver::observe(&known.handle, &reach.session).await?;
    tracing::debug!(?observed, "observed");
    let payload = work.payload()?;
    work.saw_size(observed.seen().and_then(|seen| resize::size(&payload, seen, None, work.is_settled(cx))));
    match plan::found(observed) {
        FoundStep::Wait(seen) => {
            let verb = format!("following {}", group.name);
            stack::follow(cx, work, Whose::of(&rows.cluster, group), &verb, seen, &reach.session).await
        }
        FoundStep::Finish(seen) => nodegroup::finish(cx, work, rows, group, &reach.session, &seen, None).await,
        // Heat tells whom it does not take for an administrator that there is nothing.
        FoundStep::Gone if reach.is_service && known.may_exist => {
            let text = "the cluster's trust does not work, and the cluster service does not see the stack";
            Err(Failure::fail(OutcomeCode::Credentials, text))
        }
        FoundStep::Gone if known.handle.id.is_some() && !group.is_default() => removed(cx, work, rows, group, &known).await,
        FoundStep::Gone => {
            let what = if group.is_default() { "the cluster's stack" } else { "the nodegroup's stack" };
            Err(Failure::fail(OutcomeCode::Cloud, format!("{what} is gone, or was never made")))
        }
        // Whatever its stack is in, it was in before: something else was being changed.
        FoundStep::Fail { .. } if !is_about(rows, group) => ended(cx, work, rows, None, None).await,
        FoundStep::Fail { reason } => Err(Failure::of_stack(reason)),
    }
}

/// Whether what was found is a change of this group; one that no group tells of is of the default ones.
fn is_about(rows: &Rows, group: &Nodegroup) -> bool {
    let is_busy = |g: &Nodegroup| g.status().is_some_and(Status::is_in_progress);
    is_busy(group) || (group.is_default() && !rows.groups.iter().any(is_busy))
}

/// The group was being removed: its stack is gone, and so its row goes.
async fn removed(cx: &Context, work: &Work, rows: &Rows, group: &Nodegroup, known: &Known) -> Result<Turn, Failure> {
    ended(cx, work, rows, Some(group), known.recorded_as.as_deref()).await
}

/// Ends the operation well and writes nothing of the group, but removes it where it is given, with what is recorded of its stack.
async fn ended(cx: &Context, work: &Work, rows: &Rows, gone: Option<&Nodegroup>, stack: Option<&str>) -> Result<Turn, Failure> {
    let end = End { state: OperationState::Succeeded, group: None, facts: NodegroupChange::default(), reason: None };
    let (end, id, gone) = (&end, &rows.cluster.cluster_id(), &gone.map(Nodegroup::nodegroup_id));
    succeed(cx, work, async |conn: &mut Conn| {
        if let Some(name) = stack {
            resource::forget_one(conn, id, ResourceKind::Stack, name).await?;
        }
        if let Some(group) = gone {
            nodegroups::delete(conn, group).await?;
        }
        settle::record(conn, &work.operation, end).await
    })
    .await
}
