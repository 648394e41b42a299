//! Being rid of a cluster in a bounded time: tried as long as there is time, then told what is left. Abandoned: the credential only.

use std::time::Duration;

use model::capi::credential_prefix;
use model::cluster::Cluster;
use model::operation::{Leak, Operation, OperationKind};
use model::resource::ResourceKind;
use model::store::{Conn, history};

use super::{is_asked_to_go, leak_of, remove_beside_by_force, step, volumes_left};
use crate::cluster::force::{is_over, left_to_try};
use crate::cluster::{Rows, delete, find_rows};
use crate::context::Context;
use crate::driver::capi_helm::release::recorded_place;
use crate::driver::capi_helm::{Bench, credential};
use crate::leaving::{self, leak};
use crate::outcome::{Failure, Turn};
use crate::worker::Work;

/// Why an abandoned cluster's things are left.
const LEFT_ALONE: &str = "left alone, as was asked for";
/// How long the last look may take that tells whether a cluster was gone in time.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// Why the release may be left that was looked for too early.
const MAY_APPEAR: &str = "it was asked for without a clear answer, and may have appeared after it was looked for";

/// One turn.
pub(in crate::driver::capi_helm) async fn by_force(bench: &Bench<'_>) -> Result<Turn, Failure> {
    let (cx, work) = (bench.cx, bench.work);
    // Before the step, which may wait until there is no more time: what it waited for may have come since.
    let was_over = is_over(work);
    let (mut leaks, mut needs_credential) = (Vec::new(), false);
    if work.operation.kind() == Some(OperationKind::ClusterAbandon) {
        leaks.push(leak_of(bench.rows, &bench.place(), LEFT_ALONE));
    } else {
        needs_credential = may_be_leaving(cx, work, &bench.rows.cluster, &bench.release).await?;
        let may_appear = !work.is_settled(cx) && bench.may_still_appear().await?;
        // A management cluster that does not answer must not use up the time that the rest needs.
        let left = left_to_try(work).max(LAST_LOOK);
        let late = || {
            // It may have been cut off in the middle of a request for a credential.
            work.has_asked();
            Err(Failure::retry("the management cluster has not answered in time"))
        };
        let outcome = tokio::time::timeout(left, step(bench, &mut needs_credential)).await.unwrap_or_else(|_| late());
        match outcome {
            // The time was over before, or within the step: nobody has waited for it.
            Ok(None) if may_appear && is_over(work) => leaks.push(leak_of(bench.rows, &bench.place(), MAY_APPEAR)),
            Ok(None) => {}
            Ok(Some(Turn::Settled)) => return Ok(Turn::Settled),
            Ok(Some(_)) if was_over => leaks.push(leak_of(bench.rows, &bench.place(), "it was not gone in time")),
            Ok(Some(_)) => return Ok(Turn::Again { after: cx.settings.timing.poll_min }),
            Err(Failure::Stale) => return Err(Failure::Stale),
            Err(Failure::Retry { reason, .. }) if !is_over(work) => return wait(cx, work, &reason).await,
            Err(Failure::Retry { reason, .. } | Failure::Final { reason, .. }) => leaks.push(leak_of(bench.rows, &bench.place(), &reason)),
        }
    }
    the_rest(cx, work, bench.rows, leaks, needs_credential).await
}

/// What needs no management cluster, and the end. `needs_credential`: controllers are at work there still, and can delete nothing without it.
async fn the_rest(cx: &Context, work: &Work, rows: &Rows, mut leaks: Vec<Leak>, needs_credential: bool) -> Result<Turn, Failure> {
    // What this turn has announced is not among what it read at its beginning.
    let now = find_rows(cx, work).await?;
    let rows = now.as_ref().unwrap_or(rows);
    let cluster = &rows.cluster;
    if !is_over(work)
        && let Some(turn) = delete::await_unclear(cx, work, rows).await?
    {
        return Ok(turn);
    }
    if leaks.is_empty() {
        leaks.extend(volumes_left(cluster));
    } else if needs_credential {
        leaks.extend(credentials_kept(cx, rows).await?);
    } else {
        match credential::remove_all_but(cx, work, cluster, None).await {
            Ok(()) => {}
            Err(Failure::Stale) => return Err(Failure::Stale),
            Err(Failure::Retry { reason, .. }) if !is_over(work) => return wait(cx, work, &reason).await,
            Err(Failure::Retry { reason, .. } | Failure::Final { reason, .. }) => {
                leaks.extend(leaving::left(cx, cluster, &[ResourceKind::ApplicationCredential], &reason).await?);
            }
        }
    }
    remove_beside_by_force(cx, work, cluster, &mut leaks).await?;
    delete::forget(cx, work, rows, leaks).await
}

/// The end where the management cluster cannot even be asked: by force it is only told.
pub(in crate::driver::capi_helm) async fn without_management(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    failure: Failure,
) -> Result<Turn, Failure> {
    let kind = work.operation.kind();
    if kind == Some(OperationKind::ClusterDelete) {
        return Err(failure);
    }
    let is_abandoned = kind == Some(OperationKind::ClusterAbandon);
    let reason = match failure {
        Failure::Stale => return Err(Failure::Stale),
        _ if is_abandoned => LEFT_ALONE.to_owned(),
        Failure::Retry { reason, .. } if !is_over(work) => return wait(cx, work, &reason).await,
        Failure::Retry { reason, .. } | Failure::Final { reason, .. } => reason,
    };
    let needs_credential = match &rows.cluster.stack_id {
        Some(release) if !is_abandoned => may_be_leaving(cx, work, &rows.cluster, release).await?,
        _ => false,
    };
    the_rest(cx, work, rows, vec![leak_of(rows, &recorded_place(cx, rows), &reason)], needs_credential).await
}

/// Whether controllers may be deleting the cluster, for all that is known without asking them: this operation, or a removal before it, has asked
/// for that.
async fn may_be_leaving(cx: &Context, work: &Work, cluster: &Cluster, release: &str) -> Result<bool, Failure> {
    if is_asked_to_go(cx, &work.operation.operation_id(), release).await? {
        return Ok(true);
    }
    let id = &cluster.cluster_id();
    let former = cx.store.read(async |conn: &mut Conn| history::finished(conn, id, history::LOOKED_THROUGH).await).await?;
    for removal in former.iter().filter(|former| is_begun_removal(former)) {
        if is_asked_to_go(cx, &removal.operation_id(), release).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_begun_removal(former: &Operation) -> bool {
    former.started_ms.is_some() && former.kind().is_some_and(|kind| kind.removal().is_some())
}

/// The credentials that are left to the controllers. What an earlier program made is in no inventory, and known by its name.
async fn credentials_kept(cx: &Context, rows: &Rows) -> Result<Vec<Leak>, Failure> {
    let (cluster, kind) = (&rows.cluster, ResourceKind::ApplicationCredential);
    let release = cluster.stack_id.as_deref().unwrap_or_default();
    let reason =
        format!("Cluster API deletes the cluster by it: it can be removed, with its secret, when all of release {release} is gone");
    let mut kept = leaving::left(cx, cluster, &[kind], &reason).await?;
    if kept.is_empty() {
        kept.push(leak(kind, &credential_prefix(&cluster.uuid), None, &reason));
    }
    Ok(kept)
}

async fn wait(cx: &Context, work: &Work, reason: &str) -> Result<Turn, Failure> {
    crate::operation::note_retry(cx, work, reason, None).await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_max })
}
