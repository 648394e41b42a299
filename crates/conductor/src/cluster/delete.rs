//! Deleting a cluster, in whatever state it is: the stack, then trust and trustee, then the rows.

use std::sync::Arc;

use model::cluster::ClusterChange;
use model::operation::{OutcomeCode, Progress};
use model::resource::ResourceKind;
use model::store::{Conn, certificate, cluster as clusters, event, nodegroup, operation, resource};
use model::time::{from_millis, now};

use super::{Rows, await_unclear_stack, follow, rows};
use crate::context::Context;
use crate::credentials;
use crate::driver;
use crate::outcome::{Failure, Turn};
use crate::plan::{self, DeleteStep, Observed, Seen};
use crate::worker::{Work, succeed};

/// The event of a request to delete the stack.
const ASKED: &str = "stack_delete";
/// The event of one after a deletion that failed; these are counted.
const ASKED_AGAIN: &str = "stack_delete_again";

/// Events looked through for that count; far more than an operation has.
const EVENTS: i64 = 1000;

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let Some(rows) = rows(cx, work).await? else {
        // Removed by an attempt that did not live to settle: nothing is left to do.
        return succeed(cx, work, async |_: &mut Conn| Ok(())).await;
    };
    let cluster = &rows.cluster;
    // No stack was ever made, or it was seen to be gone by an attempt that did not live to settle: nothing to ask the cloud, which the
    // trust that this attempt may have removed could not do any more.
    if !rows.may_have_stack {
        return remove(cx, work, &rows).await;
    }
    let session = credentials::for_delete(cx, work, cluster).await?;
    let observed = driver::observe_stack(cluster, &session).await?;
    tracing::debug!(?observed, "observed");
    let asked = asked(cx, work, &observed).await?;
    let is_retry = matches!(observed, Observed::Stuck { .. });
    match plan::delete(observed, asked.tries) {
        DeleteStep::Remove(_) | DeleteStep::Fail { .. } if is_retry && asked.is_fresh => {
            // What is seen may still be the failure before the last request.
            work.guard(cx, &Progress { step: "stack", waiting_for: Some("the deletion of the stack".into()), ..Progress::default() })
                .await?;
            Ok(Turn::Again { after: cx.settings.timing.poll_min })
        }
        // A create that gave way to this delete may have asked for a stack that has not appeared yet.
        DeleteStep::Finish if !rows.is_settled(cx) => await_unclear_stack(cx, work).await,
        DeleteStep::Remove(seen) => {
            ask(cx, work, &rows, &seen, if is_retry { ASKED_AGAIN } else { ASKED }).await?;
            driver::remove(&session, &seen).await?;
            Ok(Turn::Again { after: cx.settings.timing.poll_min })
        }
        DeleteStep::Wait(seen) => follow(cx, work, cluster, "deleting", &seen).await,
        DeleteStep::Finish => {
            stack_is_gone(cx, work, &rows).await?;
            remove(cx, work, &rows).await
        }
        DeleteStep::Fail { reason } => Err(Failure::fail(OutcomeCode::Cloud, reason)),
    }
}

/// Records that there is no stack any more, before the trust goes.
async fn stack_is_gone(cx: &Context, work: &Work, rows: &Rows) -> Result<(), Failure> {
    let progress = Progress { step: "stack gone", ..Progress::default() };
    let change = ClusterChange { stack_id: Some(None), ..ClusterChange::default() };
    let id = rows.cluster.cluster_id();
    let (id, progress, change) = (&id, &progress, &change);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            resource::forget(conn, id, ResourceKind::Stack).await?;
            clusters::record(conn, id, change).await
        })
        .await?;
    Ok(())
}

/// What this operation has already asked of Heat.
#[derive(Default)]
struct Asked {
    tries: usize,
    /// The last request is too young for what is seen to be its outcome.
    is_fresh: bool,
}

async fn asked(cx: &Context, work: &Work, observed: &Observed) -> Result<Asked, Failure> {
    if !matches!(observed, Observed::Stuck { .. }) {
        return Ok(Asked::default());
    }
    let id = work.operation.operation_id();
    let events = cx.store.read(async |conn: &mut Conn| event::of_operation(conn, &id, EVENTS).await).await?;
    let tries = events.iter().filter(|e| e.kind == ASKED_AGAIN).count();
    let last = events.iter().rfind(|e| e.kind == ASKED || e.kind == ASKED_AGAIN).map(|e| from_millis(e.at_ms));
    let is_fresh = last.is_some_and(|at| (now() - at).to_std().unwrap_or_default() < cx.settings.timing.settle);
    Ok(Asked { tries, is_fresh })
}

async fn ask(cx: &Context, work: &Work, rows: &Rows, seen: &Seen, event_kind: &'static str) -> Result<(), Failure> {
    let progress = Progress { step: "stack", waiting_for: Some(seen.waiting_for()), done: 0, total: seen.total };
    let (operation_id, cluster_id) = (work.operation.operation_id(), rows.cluster.cluster_id());
    let (operation_id, cluster_id, progress) = (&operation_id, &cluster_id, &progress);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            resource::record(conn, cluster_id, ResourceKind::Stack, &seen.stack_name, Some(&seen.stack_id)).await?;
            event::append(conn, operation_id, cluster_id, event_kind, &seen.stack_name).await
        })
        .await?;
    Ok(())
}

/// The stack is gone: remove what else was made, then the rows.
async fn remove(cx: &Context, work: &Work, rows: &Rows) -> Result<Turn, Failure> {
    credentials::remove(cx, work, &rows.cluster).await?;
    let id = rows.cluster.cluster_id();
    let pairs = rows.cluster.keypair_refs();
    let (id, pairs) = (&id, &pairs);
    succeed(cx, work, async |conn: &mut Conn| {
        certificate::delete(conn, pairs).await?;
        for kind in [ResourceKind::Stack, ResourceKind::Trust, ResourceKind::Trustee] {
            resource::forget(conn, id, kind).await?;
        }
        nodegroup::delete_all(conn, id).await?;
        clusters::delete(conn, id).await
    })
    .await
}
