//! Deleting a cluster: the release, then everything that Cluster API deletes from the Cluster down, then the credential, the secrets and
//! the rows. The secret of the credential goes last of all in the cloud: without it controllers could delete nothing.

mod forced;

use std::time::Duration;

use model::cluster::{Cluster, ClusterChange};
use model::id::OperationId;
use model::json::truth;
use model::labels::DELETE_VOLUMES;
use model::operation::{Leak, OperationKind, Progress, Thing};
use model::resource::ResourceKind;
use model::store::{Conn, cluster as clusters, operation, resource};
use serde_json::json;

use super::release::recorded_place;
use super::seen::{self, Seen};
use super::{Bench, credential, objects, secrets};
use crate::cluster::force::is_over;
use crate::cluster::{Rows, delete, force};
use crate::context::Context;
use crate::leaving::{self, leak};
use crate::outcome::{Failure, Turn};
use crate::stack;
use crate::worker::Work;
use crate::{certificates, credentials};

pub(super) use forced::{by_force, without_management};

/// How long the cluster's credential may be looked after by force.
const REVIVAL: Duration = Duration::from_secs(20);
/// Of the janitor, which removes from the cloud what the cluster's own controllers made.
const VOLUMES_POLICY: &str = "janitor.capi.stackhpc.com/volumes-policy";
/// Why volumes may be left, which nobody but the janitor looks for.
const LABEL_KEEPS: &str = "volumes that Kubernetes made are kept: the cluster's label delete_volumes is not true";
const JANITOR_DECIDES: &str =
    "volumes that Kubernetes made may be left, as the management cluster's janitor is set up: the cluster has no label delete_volumes";

/// One turn.
pub(super) async fn turn(bench: &Bench<'_>) -> Result<Turn, Failure> {
    match step(bench, &mut false).await? {
        Some(turn) => Ok(turn),
        None => {
            let cluster = &bench.rows.cluster;
            remove_beside(bench.cx, bench.work, cluster).await?;
            delete::forget(bench.cx, bench.work, bench.rows, volumes_left(cluster).into_iter().collect()).await
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

/// The next step; none once everything is gone. `needs_credential` is set where controllers delete the cluster, or may.
async fn step(bench: &Bench<'_>, needs_credential: &mut bool) -> Result<Option<Turn>, Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    let kinds = &bench.capi.settings.kinds;
    // Before the look: what may appear after it is not taken for gone.
    let is_settled = work.is_settled(cx);
    let is_asked = is_asked_to_go(cx, &work.operation.operation_id(), &bench.release).await?;
    let seen = seen::look(&bench.management, kinds, &bench.namespace, &bench.release).await?;
    // Where it may be another management cluster, what is known without asking stands.
    if seen.is_nothing() {
        bench.is_the_right_one().await?;
    }
    *needs_credential = is_leaving(&seen) || (is_asked && !(seen.cluster.is_null() && seen.infrastructure.is_null()));
    let thing = Thing { kind: ResourceKind::HelmRelease.as_str().into(), name: bench.release.clone(), id: None };
    // Also where no object is left: helm keeps a record of its own.
    if !is_asked || is_to_be_deleted(&seen) {
        if !is_asked && !seen.is_nothing() {
            revive(bench, &seen).await?;
        }
        keep_or_remove_volumes(bench, &seen).await?;
        // It came after the release was removed: helm deletes what it has a record of, and would never come to it.
        if is_asked && !bench.is_recorded().await? {
            let waiting_for = Some(format!("the removal of the Cluster {}", bench.release));
            work.guard(cx, &Progress { step: "helm", waiting_for, ..Progress::default() }).await?;
            *needs_credential = true;
            bench.delete_cluster().await?;
            return Ok(Some(Turn::Again { after: cx.settings.timing.poll_min }));
        }
        let progress =
            Progress { step: "helm", waiting_for: Some(format!("the removal of release {}", bench.release)), ..Progress::default() };
        leaving::about_to_remove(cx, work, cluster, &progress, thing).await?;
        *needs_credential |= !seen.cluster.is_null();
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
        *needs_credential = true;
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
    // Nobody would know of it, or remove it, once it is forgotten here.
    if may_wait(work) && !is_settled && bench.may_still_appear().await? {
        let waiting_for = Some(format!("what a helm run of release {} asked for without a clear answer", bench.release));
        work.guard(cx, &Progress { step: "helm", waiting_for, ..Progress::default() }).await?;
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

/// Whether an operation has asked for the removal of the release.
async fn is_asked_to_go(cx: &Context, id: &OperationId, release: &str) -> Result<bool, Failure> {
    let events = stack::events_of(cx, id, &[leaving::REMOVE]).await?;
    Ok(events.iter().any(|e| e.details().thing.is_some_and(|t| t.name == release)))
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
    let late = |_| {
        // It may have been cut off in the middle of a request for another one.
        bench.work.has_asked();
        Err(Failure::retry("keystone has not answered in time"))
    };
    match outcome.unwrap_or_else(late) {
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

/// Whether controllers are deleting the cluster, for which they need its credential.
fn is_leaving(seen: &Seen) -> bool {
    [&seen.cluster, &seen.infrastructure].into_iter().any(|object| !object["metadata"]["deletionTimestamp"].is_null())
}

/// What the cluster's label says of volumes that Kubernetes made; none without it.
fn removes_volumes(cluster: &Cluster) -> Option<bool> {
    cluster.labels().get(DELETE_VOLUMES).and_then(truth)
}

/// Tells the janitor what the label says; without the label it does as its operator wants.
async fn keep_or_remove_volumes(bench: &Bench<'_>, seen: &Seen) -> Result<(), Failure> {
    let Some(removes) = removes_volumes(&bench.rows.cluster) else { return Ok(()) };
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
            operation::record(conn, work.claim(), progress).await?;
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
            operation::record(conn, work.claim(), progress).await?;
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

/// What is told of volumes where nothing else is left: nobody here looks for them, and whether the janitor removes them the label says. None of a
/// cluster in which nothing ever ran.
fn volumes_left(cluster: &Cluster) -> Option<Leak> {
    let why = match removes_volumes(cluster) {
        Some(true) => return None,
        Some(false) => LABEL_KEEPS,
        None => JANITOR_DECIDES,
    };
    let reason = format!("project {}: {why}", cluster.project());
    cluster.api_address.is_some().then(|| leak(ResourceKind::Volume, "not known", None, &reason))
}

/// What is told of a cluster's release, and of all that is beside it on the management cluster, where a deletion can go no further: also where
/// the release itself may be gone. None of a cluster that never had one.
pub(crate) fn release_left(cx: &Context, rows: &Rows, reason: &str) -> Option<Leak> {
    rows.cluster.stack_id.is_some().then(|| leak_of(rows, &recorded_place(cx, rows), reason))
}

/// The release stands for all that is under it on the management cluster.
fn leak_of(rows: &Rows, place: &str, reason: &str) -> Leak {
    let reason = format!("{reason}; in {place} its objects and the cluster's secrets may be left");
    leak(ResourceKind::HelmRelease, rows.cluster.stack_id.as_deref().unwrap_or_default(), None, &reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::capi_helm::tests as rows;

    #[test]
    fn volumes_are_told_unless_the_label_has_them_removed_or_nothing_ever_ran() {
        let told = |labels: Option<&str>, address: Option<&str>| {
            let (labels, api_address) = (labels.map(str::to_owned), address.map(str::to_owned));
            volumes_left(&Cluster { labels, api_address, ..rows::cluster() }).map(|leak| (leak.kind, leak.reason))
        };
        let address = Some("https://192.0.2.7:6443");
        let volumes = |why: &str| Some((ResourceKind::Volume.as_str().to_owned(), format!("project p: {why}")));
        assert_eq!(told(Some(r#"{"delete_volumes": "true"}"#), address), None);
        assert_eq!(told(Some(r#"{"delete_volumes": "false"}"#), address), volumes(LABEL_KEEPS));
        assert_eq!(told(None, address), volumes(JANITOR_DECIDES));
        assert_eq!(told(None, None), None);
    }

    #[test]
    fn controllers_need_the_credential_while_the_cluster_or_its_network_is_being_deleted() {
        let object = |at: Option<&str>| json!({"metadata": {"name": "blue", "deletionTimestamp": at}});
        let seen = |cluster, infrastructure| Seen { cluster, infrastructure, ..Seen::default() };
        let (stays, leaves) = (object(None), object(Some("2026-01-01T00:00:00Z")));
        assert!(!is_leaving(&Seen::default()) && !is_leaving(&seen(stays.clone(), stays.clone())));
        assert!(is_leaving(&seen(leaves.clone(), stays)) && is_leaving(&seen(serde_json::Value::Null, leaves)));
    }
}
