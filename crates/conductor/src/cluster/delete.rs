//! Deleting a cluster, in whatever state it is: the stack, then trust and trustee, then the rows.

use std::sync::Arc;

use model::cluster::ClusterChange;
use model::operation::{OutcomeCode, Progress};
use model::resource::ResourceKind;
use model::store::{Conn, certificate, cluster as clusters, event, nodegroup, operation, resource};
use model::time::now;

use super::{Rows, rows, show_progress};
use crate::context::Context;
use crate::credentials;
use crate::driver;
use crate::outcome::{Failure, Turn};
use crate::plan::{self, DeleteStep, Observed, Seen};
use crate::worker::{Work, succeed};

/// The event that counts requests to delete the stack.
const ASKED: &str = "stack_delete";

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
    let tries = asked(cx, work, &observed).await?;
    match plan::delete(observed, tries) {
        DeleteStep::Remove(seen) => {
            ask(cx, work, &rows, &seen).await?;
            driver::remove(&session, &seen).await?;
            Ok(Turn::Again { after: cx.settings.timing.poll_min })
        }
        DeleteStep::Wait(seen) => {
            show_progress(cx, work, cluster, "stack", "deleting", &seen).await?;
            let age = (now() - work.operation.created()).to_std().unwrap_or_default();
            let pause = plan::next_look(age, cx.settings.timing.poll_min, cx.settings.timing.poll_max);
            Ok(Turn::Again { after: pause.mul_f64(rand::random_range(0.8..1.2)) })
        }
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

async fn asked(cx: &Context, work: &Work, observed: &Observed) -> Result<usize, Failure> {
    if !matches!(observed, Observed::Stuck { .. }) {
        return Ok(0);
    }
    let id = work.operation.operation_id();
    let events = cx.store.read(async |conn: &mut Conn| event::of_operation(conn, &id, EVENTS).await).await?;
    Ok(events.iter().filter(|e| e.kind == ASKED).count())
}

async fn ask(cx: &Context, work: &Work, rows: &Rows, seen: &Seen) -> Result<(), Failure> {
    let progress = Progress { step: "stack", waiting_for: Some(seen.waiting_for()), done: 0, total: seen.total };
    let (operation_id, cluster_id) = (work.operation.operation_id(), rows.cluster.cluster_id());
    let (operation_id, cluster_id, progress) = (&operation_id, &cluster_id, &progress);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            resource::record(conn, cluster_id, ResourceKind::Stack, &seen.stack_name, Some(&seen.stack_id)).await?;
            event::append(conn, operation_id, cluster_id, ASKED, &seen.stack_name).await
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
