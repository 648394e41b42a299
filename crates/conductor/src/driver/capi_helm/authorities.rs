//! New certificate authorities for a cluster of Cluster API: Kubernetes, etcd, front proxy, and with the first the key of service accounts.
//!
//! Cluster API does not rotate authorities, but each machine is made of the secrets as they are when it is made, and a changed configuration
//! has all machines of a control plane or a group replaced. So a rotation is five passes (`model::certificate::Phase`), each of which
//! changes what the next machines are made of and then, through the chart's document, has some of them made anew: masters that trust the
//! new authorities too, workers that do, masters that the new ones sign for, workers that trust these alone, masters that do.
//!
//! What else must know of it is told before the document changes, whoever changes it: an operation that resizes a cluster whose rotation
//! stands still does the same (`prepare`). Each of these steps looks first and can be repeated:
//! - nodes join by a config map in the cluster, which says whom to trust: Cluster API puts it there (ClusterResourceSet), no conductor has
//!   to reach the cluster;
//! - Cluster API's controllers have a kubeconfig, of which they would make one that trusts a single authority: it gets both, and a client's
//!   certificate of the new one. They read it when they connect, and keep what they made of the secrets for a day. So they are
//!   restarted, once, before masters show what the new authorities signed (`controllers`).
//!
//! Which document and which secrets belong to a phase follows from its row alone. What was written of it by others, who owned the operation before,
//! is read again before each pass and, but for the last one, at its end (`written`).

mod controllers;
mod objects;
mod written;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use model::capi::derived;
use model::certificate::{Phase, Rotation};
use model::cluster::ClusterChange;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationState, OutcomeCode, Progress};
use model::store::{Conn, certificate, cluster as clusters, nodegroup, operation, rotation};
use model::time::now;
use provider_clients::KubeKind;
use serde_json::{Value, json};

use super::objects::{Place, held_text};
use super::seen::{self, Seen};
use super::{Bench, converge, secrets};
use crate::certificates;
use crate::cluster::rotate_ca::{enter, started, unknown};
use crate::outcome::{Failure, Turn};
use crate::settle::{self, End};
use crate::worker::succeed;

/// Cluster API makes a new kubeconfig half a year before the certificate in it ends; one that trusts a single authority is no use meanwhile.
const LEAST_DAYS: u32 = 366;

/// Why a cluster's authorities cannot be replaced.
const NO_CONTROLLERS: &str = "the operator has not named the controllers that connect to clusters: [capi_helm] controller_deployments";

/// What is told of a phase.
pub(super) fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Trust => "rotating certificate authorities 1/5: masters that trust the new ones too",
        Phase::Spread => "rotating certificate authorities 2/5: workers that trust the new ones too",
        Phase::Sign => "rotating certificate authorities 3/5: masters with certificates of the new ones",
        Phase::Leave => "rotating certificate authorities 4/5: workers that trust the new ones alone",
        Phase::Retire => "rotating certificate authorities 5/5: masters that trust the new ones alone",
    }
}

/// A rotation that documents and secrets follow.
pub(super) struct InForce {
    rotation: Rotation,
    pub phase: Phase,
}

impl InForce {
    /// What the chart's document says more.
    pub fn document(&self) -> Option<Value> {
        objects::document(&self.rotation.generation, self.phase)
    }

    /// What the secrets of a phase are written for; phases that replace workers have those of the one before.
    fn mark(&self) -> String {
        let step = match self.phase {
            Phase::Trust | Phase::Spread => Phase::Trust,
            Phase::Sign | Phase::Leave => Phase::Sign,
            Phase::Retire => Phase::Retire,
        };
        format!("{}-{}", self.rotation.generation, step.as_str())
    }
}

/// One turn.
pub(super) async fn turn(bench: &Bench<'_>) -> Result<Turn, Failure> {
    let Some(rotation) = find(bench).await? else { return begin(bench).await };
    let cluster = &bench.rows.cluster;
    if rotation.phase() == Some(Phase::Trust) && certificates::ensure_next(bench.cx, bench.work, cluster, &rotation).await? {
        return Ok(Turn::NOW);
    }
    converge::turn(bench).await
}

async fn find(bench: &Bench<'_>) -> Result<Option<Rotation>, Failure> {
    let id = &bench.rows.cluster.cluster_id();
    Ok(bench.cx.store.read(async |conn: &mut Conn| rotation::find(conn, id).await).await?)
}

/// The rotation of the cluster's authorities, once all of the second set is there.
pub(super) async fn in_force(bench: &Bench<'_>) -> Result<Option<InForce>, Failure> {
    let Some(rotation) = find(bench).await? else { return Ok(None) };
    let Some(phase) = rotation.phase() else { return Err(unknown(&rotation)) };
    let is_whole = rotation.references.is_complete();
    Ok(is_whole.then_some(InForce { rotation, phase }))
}

/// Refuses what cannot be done before anything is, and begins.
async fn begin(bench: &Bench<'_>) -> Result<Turn, Failure> {
    let (cx, settings) = (bench.cx, &bench.capi.settings);
    let wrong = |text: String| Failure::fail(OutcomeCode::User, text);
    if settings.controllers.is_empty() {
        return Err(wrong(NO_CONTROLLERS.to_owned()));
    }
    let days = cx.settings.validity_days;
    if days < LEAST_DAYS {
        return Err(wrong(format!("new certificates would be valid for {days} days, and a rotation needs {LEAST_DAYS}: [x509]")));
    }
    bench.is_the_right_one().await?;
    let seen = seen::look(&bench.management, &settings.kinds, &bench.namespace, &bench.release).await?;
    if seen.control_plane.is_null() || seen.api_address().is_none() {
        return Err(Failure::fail(OutcomeCode::Cloud, format!("cluster {} has no control plane", bench.release)));
    }
    controllers::check(bench).await?;
    let sets = bench.management.list("clusterresourceset_list", &settings.kinds.resource_set, Some(&bench.namespace), "").await?;
    if sets.is_none() {
        let kind = &settings.kinds.resource_set.api_version;
        return Err(wrong(format!("the management cluster has no ClusterResourceSets ({kind}), by which nodes are told whom to trust")));
    }
    let stored = certificates::material(cx, &bench.rows.cluster).await?.kubernetes.certificate;
    let living = held(bench, "ca").await?;
    let living = living.as_ref().and_then(|secret| held_text(secret, "tls.crt")).unwrap_or_default();
    if !objects::is_same(objects::first(&living), objects::first(&stored)) {
        return Err(wrong("the authority that is stored is not the one that the cluster has: they cannot be replaced".to_owned()));
    }
    started(cx, bench.work, &bench.rows.cluster, words(Phase::Trust)).await
}

/// A secret of the release.
async fn held(bench: &Bench<'_>, part: &str) -> Result<Option<Value>, Failure> {
    let name = derived(&bench.release, part);
    Ok(bench.management.get("secret_get", &secrets(), Some(&bench.namespace), &name).await?)
}

/// Brings about, before a phase's document is sent, what must be so by then, and still when the next phase begins; none when it is so. In this
/// order: whoever shows something is trusted by whom he meets, and whoever is trusted no more has gone.
pub(super) async fn prepare(bench: &Bench<'_>, stand: &InForce, seen: &Seen) -> Result<Option<Turn>, Failure> {
    let material = certificates::material(bench.cx, &bench.rows.cluster).await?;
    let both = &material.kubernetes.certificate;
    let alone = objects::first(both);
    match stand.phase {
        Phase::Trust | Phase::Spread => {
            if let Told::Not(turn) = tell_nodes(bench, stand, seen, both, false).await? {
                return Ok(Some(turn));
            }
            let since = write_pairs(bench, stand).await?;
            settled(bench, stand, since).await
        }
        Phase::Sign => {
            if let Told::Not(turn) = tell_nodes(bench, stand, seen, both, false).await? {
                return Ok(Some(turn));
            }
            // Before the secrets, of which a kubeconfig would be made that is near its end.
            write_kubeconfig(bench, both).await?;
            let since = write_pairs(bench, stand).await?;
            if let Some(turn) = settled(bench, stand, since).await? {
                return Ok(Some(turn));
            }
            controllers::restarted(bench, stand, since).await
        }
        Phase::Leave => {
            if let Told::Not(turn) = tell_nodes(bench, stand, seen, alone, false).await? {
                return Ok(Some(turn));
            }
            let since = write_pairs(bench, stand).await?;
            settled(bench, stand, since).await
        }
        Phase::Retire => {
            let told = match tell_nodes(bench, stand, seen, alone, false).await? {
                Told::Not(turn) => return Ok(Some(turn)),
                Told::Since(told) => told,
            };
            // Pods of masters may have tokens by the former key, which they change in time.
            if let Some(left) = left(told, bench.capi.settings.rotation_pause) {
                return wait(bench, stand, "pods to have tokens by the new key", left).await.map(Some);
            }
            let since = write_pairs(bench, stand).await?;
            settled(bench, stand, since).await
        }
    }
}

/// Goes on when all is as the phase wants it.
pub(super) async fn advance(bench: &Bench<'_>, stand: &InForce, seen: &Seen) -> Result<Turn, Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    // What a former owner of the operation asked for last must not come in a later phase.
    if !work.is_settled(cx) {
        return wait(bench, stand, "what was asked for last", cx.settings.timing.settle).await;
    }
    // Nor may what has come while machines were made stay: the next pass takes for granted what this one wants. Not in the last phase, of which
    // the end tells otherwise than the beginning: each of the two would take back what the other has told.
    if stand.phase != Phase::Retire
        && let Some(turn) = prepare(bench, stand, seen).await?
    {
        return Ok(turn);
    }
    let (own, other) = (&cluster.references(), &stand.rotation.references);
    let to = |phase: Phase| (phase, words(phase));
    match stand.phase {
        Phase::Trust => enter(cx, work, cluster, to(Phase::Spread), own, other).await,
        // Those who will sign change places with those who did.
        Phase::Spread => enter(cx, work, cluster, to(Phase::Sign), other, own).await,
        Phase::Sign => enter(cx, work, cluster, to(Phase::Leave), own, other).await,
        Phase::Leave => enter(cx, work, cluster, to(Phase::Retire), own, other).await,
        Phase::Retire => end(bench, stand, seen).await,
    }
}

/// Whether nodes know whom to trust.
enum Told {
    /// Since when they have been told so.
    Since(DateTime<Utc>),
    Not(Turn),
}

/// Has Cluster API tell nodes that join whom to trust. `forgets`: extensions of the API as well, whose authorities are only ever added to;
/// the API servers write anew what they find empty.
async fn tell_nodes(bench: &Bench<'_>, stand: &InForce, seen: &Seen, authorities: &str, forgets: bool) -> Result<Told, Failure> {
    let (kinds, namespace) = (&bench.capi.settings.kinds, &bench.namespace);
    let address = seen.api_address().ok_or_else(|| Failure::retry("the cluster has no address of its API"))?;
    let contents = objects::contents(&address, authorities, forgets);
    let (user, name) = (bench.rows.cluster.user(), derived(&bench.release, objects::PART));
    let place = Place { namespace, release: &bench.release, cluster: &bench.rows.cluster, user_id: &user.0 };
    let (hash, wanted) = (objects::hash(&contents), objects::resources(&place, &contents));
    let held = written::read(bench, &name).await?;
    let strangers = written::strangers(&held, &wanted);
    let since = match written::since(&held, &wanted, &hash).filter(|_| strangers.is_empty()) {
        Some(since) => since,
        None => {
            guard(bench, "what new nodes are told").await?;
            written::drop_keys(bench, &name, &strangers).await?;
            written::give_marked(bench, wanted, &hash).await?
        }
    };
    if bench.management.get("clusterresourceset_get", &kinds.resource_set, Some(namespace), &name).await?.is_none() {
        guard(bench, "what new nodes are told").await?;
        let set = objects::resource_set(&place, &kinds.resource_set, &seen.cluster);
        give(bench, &kinds.resource_set, namespace, &set).await?;
    }
    let kind = &kinds.resource_set_binding;
    let binding = bench.management.get("clusterresourcesetbinding_get", kind, Some(namespace), &bench.release).await?;
    if binding.is_some_and(|binding| objects::is_applied(&binding, &name, &hash)) {
        return Ok(Told::Since(since));
    }
    let turn = wait(bench, stand, "Cluster API to tell the cluster whom new nodes trust", bench.cx.settings.timing.poll_max).await?;
    Ok(Told::Not(turn))
}

/// How much is left of a time that began then.
fn left(since: DateTime<Utc>, length: Duration) -> Option<Duration> {
    let end = since + TimeDelta::from_std(length).unwrap_or_default();
    (end - now()).to_std().ok().filter(|left| !left.is_zero())
}

/// Gives Cluster API the pairs of a phase: since when it has had them. All are read first, whatever the mark says: who wrote the mark may have lost
/// the operation meanwhile, and one that lost it before him may have written last.
async fn write_pairs(bench: &Bench<'_>, stand: &InForce) -> Result<DateTime<Utc>, Failure> {
    let mark = stand.mark();
    let mut all = converge::of_certificates(bench, &bench.rows.cluster.user().0).await?;
    // The last one, that of Kubernetes, says that all are there.
    let Some(last) = all.pop() else { return Err(Failure::Stale) };
    let mut are_there = true;
    for wanted in &all {
        are_there &= written::holds(&written::read(bench, seen::name_of(wanted)).await?, wanted);
    }
    let held = written::read(bench, seen::name_of(&last)).await?;
    if let Some(since) = written::since(&held, &last, &mark).filter(|_| are_there) {
        return Ok(since);
    }
    guard(bench, "the secrets of the cluster's certificates").await?;
    for secret in &all {
        give(bench, &secrets(), &bench.namespace, secret).await?;
    }
    written::give_marked(bench, last, &mark).await
}

/// Has controllers trust these authorities, and show a certificate that the cluster's own signed.
async fn write_kubeconfig(bench: &Bench<'_>, authorities: &str) -> Result<(), Failure> {
    let client = certificates::client(bench.cx, &bench.rows.cluster).await?;
    let secret = held(bench, "kubeconfig").await?.ok_or_else(|| Failure::retry("Cluster API has made no kubeconfig of the cluster"))?;
    let text = held_text(&secret, "value").unwrap_or_default();
    let Some((text, is_another)) = objects::trusting(&text, authorities, &client) else {
        return Err(Failure::fail(OutcomeCode::Cloud, format!("secret {} holds no kubeconfig", seen::name_of(&secret))));
    };
    if !is_another {
        return Ok(());
    }
    guard(bench, "the kubeconfig of Cluster API's controllers").await?;
    let metadata = json!({"name": seen::name_of(&secret), "namespace": bench.namespace});
    let change = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"value": objects::encoded(&text)}});
    give(bench, &secrets(), &bench.namespace, &change).await
}

/// Applies an object. Guarded by the caller.
async fn give(bench: &Bench<'_>, kind: &KubeKind, namespace: &str, object: &Value) -> Result<(), Failure> {
    let given = bench.management.apply("rotation_apply", kind, Some(namespace), object).await;
    if given.is_err() {
        bench.work.has_asked();
    }
    given?;
    Ok(())
}

async fn guard(bench: &Bench<'_>, waiting_for: &str) -> Result<(), Failure> {
    let progress = Progress { step: "authorities", waiting_for: Some(waiting_for.to_owned()), ..Progress::default() };
    Ok(bench.work.guard(bench.cx, &progress).await?)
}

/// None when controllers have had the time to see a change. They see it by watches, each by its own.
async fn settled(bench: &Bench<'_>, stand: &InForce, since: DateTime<Utc>) -> Result<Option<Turn>, Failure> {
    match left(since, bench.cx.settings.timing.settle) {
        Some(left) => wait(bench, stand, "controllers to see the new secrets", left).await.map(Some),
        None => Ok(None),
    }
}

/// Says what is waited for, and looks again after so long at most.
async fn wait(bench: &Bench<'_>, stand: &InForce, waiting_for: &str, at_most: Duration) -> Result<Turn, Failure> {
    let cluster = &bench.rows.cluster;
    let text = format!("{}: waiting for {waiting_for}", words(stand.phase));
    if cluster.status_reason.as_deref() != Some(text.as_str()) {
        let progress = &Progress { step: "authorities", waiting_for: Some(waiting_for.to_owned()), ..Progress::default() };
        let change = &ClusterChange { status_reason: Some(Some(text)), ..ClusterChange::default() };
        let (id, claim) = (&cluster.cluster_id(), bench.work.claim());
        bench
            .cx
            .store
            .write(async |conn: &mut Conn| {
                operation::record(conn, claim, progress).await?;
                clusters::record(conn, id, change).await
            })
            .await?;
    }
    Ok(bench.again(Some(at_most)))
}

/// Has extensions forget the former authorities and controllers trust them no more, removes what told the nodes and the pairs that nobody
/// trusts, and ends the operation.
async fn end(bench: &Bench<'_>, stand: &InForce, seen: &Seen) -> Result<Turn, Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    let authority = certificates::material(cx, cluster).await?.kubernetes.certificate;
    if let Told::Not(turn) = tell_nodes(bench, stand, seen, &authority, true).await? {
        return Ok(turn);
    }
    write_kubeconfig(bench, &authority).await?;
    guard(bench, "what told the nodes to go").await?;
    let (kinds, labels) = (&bench.capi.settings.kinds, objects::labels_of_resources(cluster));
    let namespace = Some(bench.namespace.as_str());
    bench.management.delete_labelled("clusterresourceset_delete", &kinds.resource_set, namespace, &labels).await?;
    bench.management.delete_labelled("secret_delete", &secrets(), namespace, &labels).await?;
    let retired = &stand.rotation.references.all();
    certificates::retire(cx, work, cluster, retired).await?;
    let known = &ClusterChange { api_address: seen.api_address().map(Some), coe_version: Some(seen.version()), ..ClusterChange::default() };
    // Their sizes are other operations' to say.
    let facts = |group: &Nodegroup| NodegroupChange { node_count: None, ..converge::facts(seen, group) };
    let groups = &bench.rows.groups.iter().map(|group| (group.nodegroup_id(), facts(group))).collect::<Vec<_>>();
    let end = &End { state: OperationState::Succeeded, group: None, facts: NodegroupChange::default(), reason: None };
    let id = &cluster.cluster_id();
    succeed(cx, work, async |conn: &mut Conn| {
        certificate::delete(conn, retired).await?;
        rotation::end(conn, id).await?;
        for (group, change) in groups {
            nodegroup::record(conn, group, change).await?;
        }
        clusters::record(conn, id, known).await?;
        settle::record(conn, &work.operation, end).await
    })
    .await
}

#[cfg(test)]
mod tests;
