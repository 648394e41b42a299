//! What the removal of things that Kubernetes made writes down: found, kept, about to be removed, gone.

use std::collections::{BTreeMap, BTreeSet};

use model::cluster::{Cluster, ClusterChange};
use model::operation::{EventDetails, Leak, OperationEvent, Progress, Thing};
use model::resource::{CloudResource, OnDelete, ResourceKind};
use model::store::{Conn, StoreError, cluster as clusters, event, operation, resource};

use super::report::{FOUND_GONE, KEEP, REMOVE, leak};
use super::unclear::with_marks;
use super::{FOUND, Item};
use crate::cluster::Rows;
use crate::context::Context;
use crate::outcome::Failure;
use crate::worker::Work;

/// How often this operation has asked for the removal of each thing, by its id.
pub(super) struct Tried(BTreeMap<String, usize>);

impl Tried {
    pub(super) fn of(events: &[OperationEvent]) -> Self {
        let mut times = BTreeMap::new();
        for id in events.iter().filter(|e| e.kind == REMOVE).filter_map(|e| e.details().thing?.id) {
            *times.entry(id).or_default() += 1;
        }
        Self(times)
    }

    pub(super) fn times(&self, item: &Item) -> usize {
        self.0.get(&item.id).copied().unwrap_or_default()
    }
}

/// Records what was found and is not in the inventory yet, and what is kept and was not told yet.
pub(super) async fn record(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    events: &[OperationEvent],
    found: &[&Item],
    kept: &[&Leak],
) -> Result<(), Failure> {
    let fresh: Vec<&&Item> = found.iter().filter(|item| !rows.is_recorded(item.kind, &item.id)).collect();
    let told: Vec<Leak> = events.iter().filter(|e| e.kind == KEEP).flat_map(|e| e.details().leaks.unwrap_or_default()).collect();
    let kept: Vec<&&Leak> = kept.iter().filter(|leak| !told.iter().any(|t| t.kind == leak.kind && t.id == leak.id)).collect();
    if fresh.is_empty() && kept.is_empty() {
        return Ok(());
    }
    let id = rows.cluster.cluster_id();
    let progress = Progress { step: "kubernetes", waiting_for: Some("what Kubernetes made".into()), ..Progress::default() };
    let balancers = fresh.iter().filter(|item| item.kind == ResourceKind::LoadBalancer).count();
    let addresses = fresh.iter().filter(|item| item.kind == ResourceKind::FloatingIp).count();
    let text = format!("made by Kubernetes: {balancers} load balancers, {addresses} floating IPs");
    let is_new = balancers + addresses > 0 && !events.iter().any(|e| e.kind == FOUND);
    let (id, operation_id, progress, fresh, kept, text) = (&id, &work.operation.operation_id(), &progress, &fresh, &kept, &text);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            for item in fresh {
                resource::record(conn, id, item.kind, &item.name, Some(&item.id)).await?;
            }
            if is_new {
                event::append(conn, operation_id, id, FOUND, text).await?;
            }
            for leak in kept {
                if let Some(kind) = ResourceKind::parse(&leak.kind).filter(|_| leak.id.is_some()) {
                    resource::record_for(conn, id, kind, &leak.name, leak.id.as_deref(), OnDelete::Keep).await?;
                }
                let details = EventDetails { leaks: Some(vec![(**leak).clone()]), ..EventDetails::default() };
                event::append_with(conn, operation_id, id, KEEP, &leak.name, Some(&details)).await?;
            }
            Ok(())
        })
        .await?;
    Ok(())
}

/// Forgets what is in the inventory and not in the cloud any more.
pub(super) async fn forget_gone(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    tried: &Tried,
    kind: ResourceKind,
    there: &BTreeSet<String>,
) -> Result<(), Failure> {
    let is_gone = |r: &&CloudResource| r.is_to_go() && r.resource_id.as_ref().is_some_and(|id| !there.contains(id));
    for row in rows.made_inside(kind).filter(is_gone) {
        let id = row.resource_id.clone().unwrap_or_default();
        let item = Item { kind, name: row.name.clone(), id, status: String::new() };
        let event = if tried.times(&item) == 0 { Some(FOUND_GONE) } else { None };
        forget(cx, work, &rows.cluster, &item, event).await?;
    }
    Ok(())
}

/// Says that a thing is about to be removed, and makes sure that it is still ours to do.
pub(super) async fn intend(cx: &Context, work: &Work, cluster: &Cluster, item: &Item) -> Result<(), Failure> {
    let progress = Progress { step: "kubernetes", waiting_for: Some(format!("the removal of {}", item.name)), ..Progress::default() };
    let thing = Thing { kind: item.kind.as_str().into(), name: item.name.clone(), id: Some(item.id.clone()) };
    about_to_remove(cx, work, cluster, &progress, thing).await
}

/// As [`Work::guard`], for a removal: it is told in the operation's events.
pub(crate) async fn about_to_remove(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    progress: &Progress,
    thing: Thing,
) -> Result<(), Failure> {
    let (id, operation_id) = (&cluster.cluster_id(), &work.operation.operation_id());
    let text = &format!("{} {}", thing.kind, thing.name);
    let details = &EventDetails { thing: Some(thing), ..EventDetails::default() };
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            event::append_with(conn, operation_id, id, REMOVE, text, Some(details)).await
        })
        .await?;
    Ok(())
}

/// Tells, in the transaction that forgets it, that a thing was to be removed and was not there.
pub(crate) async fn tell_gone(conn: &mut Conn, work: &Work, cluster: &Cluster, thing: &Thing) -> Result<(), StoreError> {
    let details = EventDetails { thing: Some(thing.clone()), ..EventDetails::default() };
    let text = format!("{} {}", thing.kind, thing.name);
    event::append_with(conn, &work.operation.operation_id(), &cluster.cluster_id(), FOUND_GONE, &text, Some(&details)).await
}

pub(super) async fn forget(cx: &Context, work: &Work, cluster: &Cluster, item: &Item, tell: Option<&str>) -> Result<(), Failure> {
    let progress = Progress { step: "kubernetes", ..Progress::default() };
    let thing = Thing { kind: item.kind.as_str().into(), name: item.name.clone(), id: Some(item.id.clone()) };
    let (id, progress, thing, is_told) = (&cluster.cluster_id(), &progress, &thing, tell.is_some());
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            if is_told {
                tell_gone(conn, work, cluster, thing).await?;
            }
            resource::forget_id(conn, id, item.kind, &item.id).await
        })
        .await?;
    Ok(())
}

pub(super) async fn mark(cx: &Context, work: &Work, cluster: &Cluster, step: &'static str, kind: &'static str) -> Result<(), Failure> {
    tell(cx, work, cluster, step, String::new(), Some(kind)).await
}

/// Says on the operation, and in the cluster's `status_reason`, what is waited for (nothing: empty), with an event if there is one to tell.
pub(super) async fn tell(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    step: &'static str,
    waiting_for: String,
    kind: Option<&'static str>,
) -> Result<(), Failure> {
    let waiting = Some(waiting_for).filter(|text| !text.is_empty());
    let reason = waiting.as_ref().map(|text| format!("deleting: waiting for {text}"));
    let change = ClusterChange { status_reason: reason.map(Some), ..ClusterChange::default() };
    let is_told = change.status_reason.is_none() || change.status_reason == Some(cluster.status_reason.clone());
    let progress = Progress { step, waiting_for: waiting, ..Progress::default() };
    let (id, operation_id, progress, change) = (&cluster.cluster_id(), &work.operation.operation_id(), &progress, &change);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            if let Some(kind) = kind {
                event::append(conn, operation_id, id, kind, progress.step).await?;
            }
            if is_told { Ok(()) } else { clusters::record(conn, id, change).await }
        })
        .await?;
    Ok(())
}

/// What may be left of these kinds, by the inventory, and why; of what has no id there nobody knows whether it was made.
pub(crate) async fn left(cx: &Context, cluster: &Cluster, kinds: &[ResourceKind], reason: &str) -> Result<Vec<Leak>, StoreError> {
    let id = cluster.cluster_id();
    let recorded = cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, &id).await).await?;
    let of_kind = |r: &CloudResource| r.kind().filter(|kind| kinds.contains(kind) && r.is_to_go());
    let told = |r: &CloudResource, kind| match &r.resource_id {
        Some(id) => leak(kind, &r.name, Some(id.clone()), reason),
        None => leak(kind, &r.name, None, &with_marks(cluster, kind, reason)),
    };
    Ok(recorded.iter().filter_map(|r| of_kind(r).map(|kind| told(r, kind))).collect())
}
