//! Deleting a cluster: the release, then everything that Cluster API deletes from the Cluster down, then the credential, the secrets and
//! the rows. The secret of the credential goes last of all in the cloud: without it controllers could delete nothing.

use std::time::Duration;

use model::cluster::{Cluster, ClusterChange};
use model::json::truth;
use model::labels::DELETE_VOLUMES;
use model::operation::{Leak, OperationKind, Progress, Thing};
use model::resource::ResourceKind;
use model::store::{Conn, cluster as clusters, operation, resource};
use serde_json::json;

use super::seen::{self, Seen};
use super::{Bench, credential, objects, secrets};
use crate::cluster::force::{is_over, left_to_try};
use crate::cluster::{Rows, delete, force};
use crate::context::Context;
use crate::leaving::{self, leak};
use crate::outcome::{Failure, Turn};
use crate::stack;
use crate::worker::Work;
use crate::{certificates, credentials};

/// Why an abandoned cluster's things are left.
const LEFT_ALONE: &str = "left alone, as was asked for";
/// How long the last look may take that tells whether a cluster was gone in time.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// How long the cluster's credential may be looked after by force.
const REVIVAL: Duration = Duration::from_secs(20);
/// Of the janitor, which removes from the cloud what the cluster's own controllers made.
const VOLUMES_POLICY: &str = "janitor.capi.stackhpc.com/volumes-policy";

/// One turn.
pub(super) async fn turn(bench: &Bench<'_>) -> Result<Turn, Failure> {
    match step(bench).await? {
        Some(turn) => Ok(turn),
        None => {
            remove_beside(bench.cx, bench.work, &bench.rows.cluster).await?;
            delete::forget(bench.cx, bench.work, bench.rows, Vec::new()).await
        }
    }
}

/// What a cluster has beside its release: certificates, and a trustee where upstream made it, whose every cluster has one.
async fn remove_beside(cx: &Context, work: &Work, cluster: &Cluster) -> Result<(), Failure> {
    if has_trustee(cluster) {
        credentials::remove(cx, work, cluster).await?;
    }
    certificates::remove(cx, work, cluster).await
}

/// As [`remove_beside`], as long as there is time; then it is told.
async fn remove_beside_by_force(cx: &Context, work: &Work, cluster: &Cluster, leaks: &mut Vec<Leak>) -> Result<(), Failure> {
    if has_trustee(cluster) {
        force::remove_credentials(cx, work, cluster, leaks).await?;
    }
    force::remove_certificates(cx, work, cluster, leaks).await
}

fn has_trustee(cluster: &Cluster) -> bool {
    cluster.trustee_user_id.is_some() || cluster.trust_id.is_some()
}

/// The next step; none once everything is gone.
async fn step(bench: &Bench<'_>) -> Result<Option<Turn>, Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    let kinds = &bench.capi.settings.kinds;
    let seen = seen::look(&bench.management, kinds, &bench.namespace, &bench.release).await?;
    if seen.is_nothing() {
        bench.is_the_right_one().await?;
    }
    let thing = Thing { kind: ResourceKind::HelmRelease.as_str().into(), name: bench.release.clone(), id: None };
    let events = stack::events(cx, work).await?;
    let is_asked = events.iter().any(|e| e.kind == leaving::REMOVE && e.details().thing.is_some_and(|t| t.name == bench.release));
    // Also where no object is left: helm keeps a record of its own.
    if !is_asked || is_to_be_deleted(&seen) {
        if !is_asked && !seen.is_nothing() {
            revive(bench, &seen).await?;
        }
        keep_or_remove_volumes(bench, &seen).await?;
        let progress =
            Progress { step: "helm", waiting_for: Some(format!("the removal of release {}", bench.release)), ..Progress::default() };
        leaving::about_to_remove(cx, work, cluster, &progress, thing).await?;
        bench.uninstall().await?;
        // One that helm leaves there, again and again, is not asked for in a circle.
        let after = if is_asked { cx.settings.timing.poll_min } else { Duration::ZERO };
        return Ok(Some(Turn::Again { after }));
    }
    if seen.is_orphaned() {
        work.guard(
            cx,
            &Progress { step: "network", waiting_for: Some("the removal of the cluster's network".into()), ..Progress::default() },
        )
        .await?;
        let labels = format!("{}={}", seen::RELEASE, bench.release);
        for (operation, kind) in [("controlplane_delete", &kinds.control_plane), ("openstackcluster_delete", &kinds.openstack_cluster)] {
            bench.management.delete_labelled(operation, kind, Some(&bench.namespace), &labels).await?;
        }
    }
    if !seen.is_gone() {
        tell(bench, &seen).await?;
        return Ok(Some(bench.again(None)));
    }
    // Of a run that was cut off, or failed, after it had deleted all that is looked at: it may have left more of the chart than that.
    if bench.is_recorded().await? {
        let waiting_for = Some(format!("the record of release {}", bench.release));
        work.guard(cx, &Progress { step: "helm", waiting_for, ..Progress::default() }).await?;
        bench.uninstall().await?;
        return Ok(Some(Turn::Again { after: cx.settings.timing.poll_min }));
    }
    forget_release(bench).await?;
    // Before the look that tells which credentials there are.
    if may_wait(work)
        && let Some(turn) = delete::await_unclear(cx, work, bench.rows).await?
    {
        return Ok(Some(turn));
    }
    credential::remove_all_but(cx, work, cluster, None).await?;
    let progress = Progress { step: "secrets", waiting_for: Some("the removal of the cluster's secrets".into()), ..Progress::default() };
    work.guard(cx, &progress).await?;
    let labels = objects::secrets_of(cluster);
    bench.management.delete_labelled("secret_delete", &secrets(), Some(&bench.namespace), &labels).await?;
    Ok(None)
}

/// Gives the controllers another credential where the cluster's is of no use any more, as when its creator has lost a role: with it they could remove
/// nothing, and the deletion would wait for them in vain. Whoever deletes it can make one.
async fn revive(bench: &Bench<'_>, seen: &Seen) -> Result<(), Failure> {
    // Nothing in the cloud: controllers need no credential.
    if seen.infrastructure.is_null() && seen.machines.is_empty() {
        return Ok(());
    }
    if bench.work.operation.kind() == Some(OperationKind::ClusterDelete) {
        return replace_dead(bench).await;
    }
    // By force what can be removed without is removed, whatever Keystone says, and does not say.
    let outcome = tokio::time::timeout(REVIVAL, replace_dead(bench)).await;
    match outcome.unwrap_or_else(|_| Err(Failure::retry("keystone has not answered in time"))) {
        Err(Failure::Stale) => Err(Failure::Stale),
        Err(Failure::Final { reason, .. } | Failure::Retry { reason, .. }) => {
            tracing::warn!(reason, "nothing is known of the cluster's application credential, or it is dead and there is no other");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

async fn replace_dead(bench: &Bench<'_>) -> Result<(), Failure> {
    let is_dead = match credential::stored(bench).await? {
        Some(held) => match credential::session(bench, &held).info().await {
            Ok(_) => false,
            Err(error) if error.is_unauthorized() || error.is_not_found() => true,
            Err(error) if error.repeating_may_mend() => return Err(error.into()),
            Err(_) => false,
        },
        None => true,
    };
    if is_dead { credential::ensure(bench, true).await.map(drop) } else { Ok(()) }
}

/// Whether there is time for what may still appear.
fn may_wait(work: &Work) -> bool {
    work.operation.kind() == Some(OperationKind::ClusterDelete) || !is_over(work)
}

/// Whether a release was removed and the Cluster is there all the same, unmarked: the run was cut off before it came to it.
fn is_to_be_deleted(seen: &Seen) -> bool {
    !seen.cluster.is_null() && seen.cluster["metadata"]["deletionTimestamp"].is_null()
}

/// Tells the janitor what the label says; without the label it does as its operator wants.
async fn keep_or_remove_volumes(bench: &Bench<'_>, seen: &Seen) -> Result<(), Failure> {
    let labels = bench.rows.cluster.labels();
    let Some(removes) = labels.get(DELETE_VOLUMES).and_then(truth) else { return Ok(()) };
    if seen.infrastructure.is_null() {
        return Ok(());
    }
    bench.work.guard(bench.cx, &Progress { step: "volumes", ..Progress::default() }).await?;
    let policy = if removes { "delete" } else { "keep" };
    let patch = json!({"metadata": {"annotations": {VOLUMES_POLICY: policy}}});
    let kind = &bench.capi.settings.kinds.openstack_cluster;
    bench.management.merge("openstackcluster_patch", kind, Some(&bench.namespace), &bench.release, &patch).await?;
    Ok(())
}

/// Says what is still there.
async fn tell(bench: &Bench<'_>, seen: &Seen) -> Result<(), Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    let machines = seen.machines.len();
    let waiting_for = match machines {
        0 => "the cluster's network and load balancer to go".to_owned(),
        1 => format!("machine {} to go", seen.machines.first().map(seen::name_of).unwrap_or_default()),
        many => format!("{many} machines to go"),
    };
    let text = format!("deleting: waiting for {waiting_for}");
    if cluster.status_reason.as_deref() == Some(text.as_str()) {
        return Ok(());
    }
    let progress = Progress { step: "machines", waiting_for: Some(waiting_for), ..Progress::default() };
    let change = ClusterChange { status_reason: Some(Some(text)), ..ClusterChange::default() };
    let (id, progress, change) = (&cluster.cluster_id(), &progress, &change);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            clusters::record(conn, id, change).await
        })
        .await?;
    Ok(())
}

async fn forget_release(bench: &Bench<'_>) -> Result<(), Failure> {
    let progress = Progress { step: "release gone", ..Progress::default() };
    let (id, progress, work) = (&bench.rows.cluster.cluster_id(), &progress, bench.work);
    bench
        .cx
        .store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            resource::forget(conn, id, ResourceKind::HelmRelease).await
        })
        .await?;
    Ok(())
}

/// A cluster that never had a name: nothing was made but rows and certificates.
pub(super) async fn rows_only(cx: &Context, work: &Work, rows: &Rows) -> Result<Turn, Failure> {
    if may_wait(work)
        && let Some(turn) = delete::await_unclear(cx, work, rows).await?
    {
        return Ok(turn);
    }
    let mut leaks = Vec::new();
    match work.operation.kind() {
        Some(OperationKind::ClusterDelete) => remove_beside(cx, work, &rows.cluster).await?,
        _ => remove_beside_by_force(cx, work, &rows.cluster, &mut leaks).await?,
    }
    delete::forget(cx, work, rows, leaks).await
}

/// Being rid of a cluster in a bounded time: tried as long as there is time, then told what is left. Abandoned: the credential only.
pub(super) async fn by_force(bench: &Bench<'_>) -> Result<Turn, Failure> {
    let (cx, work) = (bench.cx, bench.work);
    // Before the step, which may wait until there is no more time: what it waited for may have come since.
    let was_over = is_over(work);
    let mut leaks = Vec::new();
    if work.operation.kind() == Some(OperationKind::ClusterAbandon) {
        leaks.push(leak_of(bench.rows, &bench.place(), LEFT_ALONE));
    } else {
        // A management cluster that does not answer must not use up the time that the rest needs.
        let left = left_to_try(work).max(LAST_LOOK);
        let late = || Err(Failure::retry("the management cluster has not answered in time"));
        match tokio::time::timeout(left, step(bench)).await.unwrap_or_else(|_| late()) {
            Ok(None) => {}
            Ok(Some(Turn::Settled)) => return Ok(Turn::Settled),
            Ok(Some(_)) if was_over => leaks.push(leak_of(bench.rows, &bench.place(), "it was not gone in time")),
            Ok(Some(_)) => return Ok(Turn::Again { after: cx.settings.timing.poll_min }),
            Err(Failure::Stale) => return Err(Failure::Stale),
            Err(Failure::Retry { reason, .. }) if !is_over(work) => return wait(cx, work, &reason).await,
            Err(Failure::Retry { reason, .. } | Failure::Final { reason, .. }) => leaks.push(leak_of(bench.rows, &bench.place(), &reason)),
        }
    }
    the_rest(cx, work, bench.rows, leaks).await
}

/// What needs no management cluster, and the end.
async fn the_rest(cx: &Context, work: &Work, rows: &Rows, mut leaks: Vec<Leak>) -> Result<Turn, Failure> {
    let cluster = &rows.cluster;
    if !is_over(work)
        && let Some(turn) = delete::await_unclear(cx, work, rows).await?
    {
        return Ok(turn);
    }
    if !leaks.is_empty() {
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
pub(super) async fn without_management(cx: &Context, work: &Work, rows: &Rows, failure: Failure) -> Result<Turn, Failure> {
    if work.operation.kind() == Some(OperationKind::ClusterDelete) {
        return Err(failure);
    }
    let reason = match failure {
        Failure::Stale => return Err(Failure::Stale),
        _ if work.operation.kind() == Some(OperationKind::ClusterAbandon) => LEFT_ALONE.to_owned(),
        Failure::Retry { reason, .. } if !is_over(work) => return wait(cx, work, &reason).await,
        Failure::Retry { reason, .. } | Failure::Final { reason, .. } => reason,
    };
    the_rest(cx, work, rows, vec![leak_of(rows, &recorded_place(cx, rows), &reason)]).await
}

/// What is told of a cluster's release, and of all that is beside it on the management cluster, where a deletion can go no further: also where
/// the release itself may be gone. None of a cluster that never had one.
pub(crate) fn release_left(cx: &Context, rows: &Rows, reason: &str) -> Option<Leak> {
    rows.cluster.stack_id.is_some().then(|| leak_of(rows, &recorded_place(cx, rows), reason))
}

impl Bench<'_> {
    /// Where the release is.
    fn place(&self) -> String {
        place(&self.namespace, &self.capi.called(Some(&self.door.cluster.name)))
    }
}

/// Where the release is, as far as the rows tell.
fn recorded_place(cx: &Context, rows: &Rows) -> String {
    let prefix = cx.capi.as_ref().map_or("magnum", |capi| capi.settings.namespace_prefix.as_str());
    let namespace = model::capi::namespace(prefix, &rows.cluster.project().0);
    let known = rows.management_cluster.as_deref();
    let called = cx.capi.as_ref().map_or_else(|| "the management cluster".to_owned(), |capi| capi.called(known));
    place(&namespace, &called)
}

fn place(namespace: &str, called: &str) -> String {
    format!("namespace {namespace} of {called}")
}

async fn wait(cx: &Context, work: &Work, reason: &str) -> Result<Turn, Failure> {
    crate::operation::note_retry(cx, work, reason, None).await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_max })
}

/// The release stands for all that is under it on the management cluster.
fn leak_of(rows: &Rows, place: &str, reason: &str) -> Leak {
    let reason = format!("{reason}; in {place} its objects and the cluster's secrets may be left");
    leak(ResourceKind::HelmRelease, rows.cluster.stack_id.as_deref().unwrap_or_default(), None, &reason)
}
