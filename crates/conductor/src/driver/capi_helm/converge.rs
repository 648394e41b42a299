//! Making a cluster, or making it different: one road for create, resize, and all that is done with groups.
//!
//! An operation hands its document to helm once (again when it cannot be told what came of it), and from then on only looks. A rotation of
//! authorities does so in each of its phases (`authorities.rs`).

mod finish;
mod marks;
mod quota;
mod wish;

use std::time::Duration;

use model::cluster::{Cluster, ClusterChange};
use model::kubernetes::Version;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationEvent, OperationKind, OutcomeCode, Progress};
use model::resource::ResourceKind;
use model::store::{Conn, cluster as clusters, event, nodegroup, operation, resource};
use serde_json::{Value, json};

use super::labels::Choices;
use super::objects::{self, Place};
use super::scaling::{self, Scale};
use super::seen::{self, Judged, Seen};
use super::values::{self, Input};
use super::{Bench, authorities, credential, lookup, secrets};
use crate::cluster::rotate_ca::PHASE;
use crate::outcome::{Failure, Turn};
use crate::worker::Size;
use crate::{certificates, stack};

pub(super) use finish::facts;

use wish::{Course, Wish};

/// The event of namespace and secrets being there.
const PREPARED: &str = "capi_prepared";
/// The event before helm is run; its text is the chart.
pub(crate) const ASKED: &str = "helm_upgrade";
/// The event after helm has ended well; its text is the version of Kubernetes that the document asks for.
const APPLIED: &str = "helm_done";

/// One turn.
pub(super) async fn turn(bench: &Bench<'_>) -> Result<Turn, Failure> {
    let mut events = stack::events(bench.cx, bench.work).await?;
    if !events.iter().any(|e| e.kind == PREPARED) {
        if bench.work.operation.kind() != Some(OperationKind::ClusterCreate) {
            bench.is_the_right_one().await?;
        }
        prepare(bench).await?;
        return Ok(Turn::NOW);
    }
    // What was done in a former phase is done no more.
    if let Some(at) = events.iter().rposition(|e| e.kind == PHASE) {
        events.drain(..=at);
    }
    let kinds = &bench.capi.settings.kinds;
    let seen = seen::look(&bench.management, kinds, &bench.namespace, &bench.release).await?;
    let has = |kind: &str| events.iter().any(|e| e.kind == kind);
    let rotation = match bench.work.operation.kind() {
        Some(OperationKind::CaRotate) => Some(authorities::in_force(bench).await?.ok_or(Failure::Stale)?),
        _ => None,
    };
    let mut wish = Wish::read(bench, &seen)?;
    wish.aim = rotation.as_ref().map(|stand| authorities::words(stand.phase));
    let course = Course { is_asked: has(ASKED), is_applied: has(APPLIED), is_settled: bench.work.is_settled(bench.cx) };
    bench.work.saw_size(wish.size(&seen, course));
    let Some(applied) = events.iter().rfind(|e| e.kind == APPLIED) else {
        return apply(bench, &wish, &seen, &events).await;
    };
    let wanted = wish.wanted(bench, &applied.message, stack::age(applied.at()))?;
    match seen::judge(&seen, &wanted) {
        Judged::Ready => match &rotation {
            Some(stand) => authorities::advance(bench, stand, &seen).await,
            None => finish::finish(bench, &wish, &seen).await,
        },
        Judged::Failed { reason } => Err(Failure::of_cluster_api(reason)),
        Judged::Waiting { done, total, waiting_for, at_most } => {
            tell(bench, &wish, &seen, done, total, &waiting_for).await?;
            Ok(bench.again(at_most))
        }
    }
}

impl Bench<'_> {
    /// Look again when something has moved, or after `at_most`. While nobody can tell: often at first, less often when it takes longer.
    pub(super) fn again(&self, at_most: Option<Duration>) -> Turn {
        let timing = self.cx.settings.timing;
        let age = stack::age(self.work.operation.begun());
        let poll = (age / 20).clamp(timing.poll_min, timing.poll_max.max(timing.poll_min));
        Turn::Hear { news: self.news.clone(), poll, at_most }
    }
}

fn choices<'a>(bench: &'a Bench<'_>) -> Result<Choices<'a>, Failure> {
    let Some(template) = &bench.rows.template else {
        return Err(Failure::fail(OutcomeCode::User, "the cluster's template is gone"));
    };
    Ok(Choices::new(template.labels(), bench.rows.cluster.labels(), &bench.capi.settings.labels))
}

/// Nodes that a group is to have by the object that makes them.
fn replicas(seen: &Seen, group: &Nodegroup) -> Option<i32> {
    let object = if group.is_master() { Some(&seen.control_plane) } else { seen.deployment(&group.name) };
    object?["spec"]["replicas"].as_i64().and_then(|n| i32::try_from(n).ok())
}

/// How many machines a group has. Each may have a server already, which Nova counts as used long before the machine says so.
fn machines(seen: &Seen, group: &Nodegroup) -> usize {
    machines_of(seen, group).len()
}

/// The machines of a group.
fn machines_of<'s>(seen: &'s Seen, group: &Nodegroup) -> Vec<&'s Value> {
    if group.is_master() { seen.masters().collect() } else { seen.machines_of(&group.name).collect() }
}

/// Namespace, credential, certificates: each is applied, which makes it or leaves it as it is.
async fn prepare(bench: &Bench<'_>) -> Result<(), Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    let waiting_for = Some(format!("namespace {} of the management cluster", bench.namespace));
    work.guard(cx, &Progress { step: "namespace", waiting_for, ..Progress::default() }).await?;
    let kind = provider_clients::KubeKind::new("v1", "Namespace", "namespaces");
    bench.management.apply("namespace_apply", &kind, None, &objects::namespace(&bench.namespace)).await?;
    credential::ensure(bench, false).await?;
    certificates(bench, &cluster.user().0, work.operation.kind() == Some(OperationKind::ClusterCreate)).await?;
    stack::record(cx, work, &Progress { step: "prepared", ..Progress::default() }, &[(PREPARED, &bench.namespace)]).await
}

/// Gives Cluster API the cluster's authorities, which it would make itself otherwise. `always`: also where they are there already.
pub(super) async fn certificates(bench: &Bench<'_>, user_id: &str, always: bool) -> Result<(), Failure> {
    let (cx, work) = (bench.cx, bench.work);
    let name = model::capi::derived(&bench.release, "ca");
    if !always && bench.management.get("secret_get", &secrets(), Some(&bench.namespace), &name).await?.is_some() {
        return Ok(());
    }
    let waiting_for = Some("the secrets of the cluster's certificates".to_owned());
    work.guard(cx, &Progress { step: "certificates", waiting_for, ..Progress::default() }).await?;
    for secret in of_certificates(bench, user_id).await? {
        bench.management.apply("secret_apply", &secrets(), Some(&bench.namespace), &secret).await?;
    }
    Ok(())
}

/// The secrets of the cluster's certificates as they are to be. That of Kubernetes comes last: where it is, the others are.
pub(super) async fn of_certificates(bench: &Bench<'_>, user_id: &str) -> Result<Vec<Value>, Failure> {
    let (cx, cluster) = (bench.cx, &bench.rows.cluster);
    let material = certificates::material(cx, cluster).await?;
    let own = certificates::clients(cx, cluster).await?;
    let place = Place { namespace: &bench.namespace, release: &bench.release, cluster, user_id };
    let all = [("etcd", &material.etcd), ("proxy", &material.front_proxy), ("sa", &own), ("ca", &material.kubernetes)];
    Ok(all.into_iter().map(|(part, pair)| objects::certificate(&place, part, &pair.certificate, &pair.key)).collect())
}

/// Hands the document to helm.
async fn apply(bench: &Bench<'_>, wish: &Wish<'_>, seen: &Seen, events: &[OperationEvent]) -> Result<Turn, Failure> {
    if let Some(turn) = marks::choose(bench, wish, seen, events).await? {
        return Ok(turn);
    }
    // Whatever changes the document while authorities are rotated, and makes machines by it.
    let rotation = match wish.kind {
        OperationKind::ClusterCreate => None,
        _ => authorities::in_force(bench).await?,
    };
    if let Some(stand) = &rotation
        && let Some(turn) = authorities::prepare(bench, stand, seen).await?
    {
        return Ok(turn);
    }
    let held = credential::ensure(bench, false).await?;
    let session = credential::session(bench, &held);
    let mut found = lookup::look_up(bench, &session).await?;
    check_version(seen, &bench.rows.cluster, &found.kube_version)?;
    // Made by a resize or an update where its creation failed.
    let makes = |group: &Nodegroup| wish.kind == OperationKind::NodegroupCreate || seen.deployment(&group.name).is_none();
    let new = wish.target.filter(|group| !group.is_default() && makes(group));
    found.group_images = lookup::own_images(bench, &session, &wish.groups, (&found, seen), new).await?;
    let mut flavors = None;
    // Upstream does not look at flavors that do not change.
    if wish.brings_flavors() {
        let changed: Vec<Nodegroup> = wish.groups.iter().filter(|g| wish.target.is_none_or(|t| t.uuid == g.uuid)).cloned().collect();
        flavors = Some(lookup::check_flavors(bench, &session, &changed).await?);
    }
    if let Some(turn) = quota::room(bench, &session, wish, seen, events, flavors).await? {
        return Ok(turn);
    }
    let target = bench.rows.target(&session)?;
    let choices = choices(bench)?;
    let document = values::values(&Input {
        settings: &bench.capi.settings,
        cluster: target.cluster,
        template: target.template,
        groups: &wish.groups,
        asked_last: &wish.asked_last,
        nodes: target.nodes,
        release: &bench.release,
        found: &found,
        choices: &choices,
        default_boot_volume_type: bench.cx.settings.default_volumes.boot_type.as_deref(),
        default_boot_volume_size: bench.cx.settings.default_volumes.boot_size.into(),
        authorities: rotation.as_ref().and_then(authorities::InForce::document),
    });
    let user_error = |text: String| Failure::fail(OutcomeCode::User, text);
    let document = document.map_err(user_error)?;
    if values::check_nodes(&document, &Value::Null).is_err() {
        values::check_nodes(&document, &bench.released().await?).map_err(user_error)?;
    }
    if let Some(turn) = marks::set(bench, wish, seen, events).await? {
        return Ok(turn);
    }
    let run = bench.run()?;
    let chart = format!("{} {}", run.chart, run.version.unwrap_or_default());
    let progress = Progress { step: "helm", waiting_for: Some(format!("helm, chart {chart}")), ..Progress::default() };
    asked(bench, wish, &progress, chart.trim()).await?;
    if let Err(failure) = bench.upgrade(&document).await {
        if matches!(failure, Failure::Final { .. }) {
            // helm has ended: what it has changed by then is there to be seen.
            let kinds = &bench.capi.settings.kinds;
            let now = seen::look(&bench.management, kinds, &bench.namespace, &bench.release).await.ok();
            // They would go when the group shrinks some other day.
            let is_as_it_was =
                now.as_ref().is_some_and(|now| wish.target.is_some_and(|group| replicas(now, group) == replicas(seen, group)));
            if is_as_it_was && let Err(other) = marks::take_off(bench, seen, events).await {
                if matches!(other, Failure::Stale) {
                    return Err(other);
                }
                tracing::warn!("failed to take back which machines go first");
            }
            bench.work.saw_size(now.and_then(|now| wish.count(&now)).map(Size::Is));
        }
        return Err(failure);
    }
    set_sizes(bench, wish, &choices).await?;
    applied(bench, &found.kube_version).await?;
    Ok(Turn::NOW)
}

/// Refuses before anything moves what Kubernetes does not allow, whatever the operation is for: the version is the image's, which may have
/// changed under its name, and an upgrade that failed may have brought the control plane along. Nothing else would stop it from going back.
fn check_version(seen: &Seen, cluster: &Cluster, wanted: &str) -> Result<(), Failure> {
    let living = seen.control_plane["spec"]["version"].as_str().or(cluster.coe_version.as_deref());
    match (living.and_then(Version::parse), Version::parse(wanted)) {
        (Some(present), Some(wanted)) => present.may_become(wanted).map_err(|rule| Failure::fail(OutcomeCode::User, rule)),
        _ => Ok(()),
    }
}

/// Records that helm is about to be run, and with an upgrade what the cluster is from here on: whatever becomes of it, the next document must
/// not ask for what was before.
async fn asked(bench: &Bench<'_>, wish: &Wish<'_>, progress: &Progress, chart: &str) -> Result<(), Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    work.saw_size(None);
    let is_upgrade = wish.kind == OperationKind::ClusterUpgrade;
    let change = ClusterChange {
        cluster_template_id: wish.brings_all().then(|| cluster.cluster_template_id.clone()),
        labels: wish.brings_all().then(|| cluster.labels.clone()),
        ..ClusterChange::default()
    };
    let concerned = |group: &&Nodegroup| is_upgrade && (wish.brings_all() || wish.target.is_some_and(|t| t.uuid == group.uuid));
    let groups: Vec<_> = bench
        .rows
        .groups
        .iter()
        .filter(concerned)
        .map(|group| {
            let (image_id, labels) = (Some(group.image_id.clone()), Some(group.labels.clone()));
            (group.nodegroup_id(), NodegroupChange { image_id, labels, ..NodegroupChange::default() })
        })
        .collect();
    let (id, operation_id, change, groups) = (&cluster.cluster_id(), &work.operation.operation_id(), &change, &groups);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            event::append(conn, operation_id, id, ASKED, chart).await?;
            for (group, change) in groups {
                nodegroup::record(conn, group, change).await?;
            }
            if wish.brings_all() {
                clusters::record(conn, id, change).await?;
            }
            Ok(())
        })
        .await?;
    Ok(())
}

/// Records that the release is as this operation wants it.
async fn applied(bench: &Bench<'_>, version: &str) -> Result<(), Failure> {
    let (cx, work, release) = (bench.cx, bench.work, &bench.release);
    let progress = Progress { step: "machines", waiting_for: Some("machines".into()), ..Progress::default() };
    let (id, operation_id, progress) = (&bench.rows.cluster.cluster_id(), &work.operation.operation_id(), &progress);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            resource::record(conn, id, ResourceKind::HelmRelease, release, Some(release)).await?;
            event::append(conn, operation_id, id, APPLIED, version).await
        })
        .await?;
    Ok(())
}

/// Gives groups that are of a fixed size the size that they are to have. helm 3 sends what differs between two documents: nothing where somebody else has
/// changed the size since, or where a run that failed had come so far.
async fn set_sizes(bench: &Bench<'_>, wish: &Wish<'_>, choices: &Choices<'_>) -> Result<(), Failure> {
    let kinds = &bench.capi.settings.kinds;
    let seen = seen::look(&bench.management, kinds, &bench.namespace, &bench.release).await?;
    for group in &wish.groups {
        let asked = wish.asked_last.get(&group.uuid).copied();
        let is_fixed = matches!(scaling::of(choices, group, asked), Ok(Scale::Fixed));
        if !is_fixed || replicas(&seen, group).is_none_or(|there| there == group.node_count()) {
            continue;
        }
        let (kind, object) = match group.is_master() {
            true => (&kinds.control_plane, Some(&seen.control_plane)),
            false => (&kinds.machine_deployment, seen.deployment(&group.name)),
        };
        let name = object.map(seen::name_of).unwrap_or_default();
        let waiting_for = Some(format!("the size of {name}"));
        bench.work.guard(bench.cx, &Progress { step: "helm", waiting_for, ..Progress::default() }).await?;
        let patch = json!({"spec": {"replicas": group.node_count()}});
        bench.management.merge("replicas_patch", kind, Some(&bench.namespace), name, &patch).await?;
    }
    Ok(())
}

/// Says how far it is, where every old client shows it; nothing is written when the row says so already.
async fn tell(bench: &Bench<'_>, wish: &Wish<'_>, seen: &Seen, done: i32, total: i32, waiting_for: &str) -> Result<(), Failure> {
    let text = format!("{}: {done} of {total} machines ready, waiting for {waiting_for}", wish.verb());
    let cluster: &Cluster = &bench.rows.cluster;
    // Known long before the end: the user's kubeconfig needs it.
    let address = seen.api_address().filter(|address| cluster.api_address.as_ref() != Some(address));
    if cluster.status_reason.as_deref() == Some(text.as_str()) && address.is_none() {
        return Ok(());
    }
    let progress = Progress { step: "machines", waiting_for: Some(waiting_for.to_owned()), done, total };
    let change = ClusterChange { status_reason: Some(Some(text.clone())), api_address: address.map(Some), ..ClusterChange::default() };
    let of_group = NodegroupChange { status_reason: Some(Some(text)), ..NodegroupChange::default() };
    let group = wish.target.map(Nodegroup::nodegroup_id);
    let (id, progress, change, of_group, group) = (&cluster.cluster_id(), &progress, &change, &of_group, &group);
    bench
        .cx
        .store
        .write(async |conn: &mut Conn| {
            operation::record(conn, bench.work.claim(), progress).await?;
            if let Some(group) = group {
                nodegroup::record(conn, group, of_group).await?;
            }
            clusters::record(conn, id, change).await
        })
        .await?;
    Ok(())
}
