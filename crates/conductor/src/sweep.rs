//! The standing sweep: compares what the inventory and the cloud hold with the clusters there are.
//!
//! Two kinds of finds, and the difference matters. What the inventory knows as made for a cluster that is gone, with no operation left to see
//! to it, is removed. What only the cloud knows (a trustee, a stack that bears our tags) is told and left alone: it may be another
//! deployment's, which shares the cloud with this one. Clusters in progress of which no operation tells are taken up. Forgotten operations and leases past due are the scan's.
//!
//! One conductor at a time, under a lease in `task_lease`; nothing begins in the last part of it.

mod found;
mod lent_keys;
mod removal;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::id::ClusterId;
use model::operation::{EventDetails, Thing};
use model::resource::{CloudResource, ResourceKind};
use model::store::{Conn, StoreError, event, resource, task};
use model::time::{millis, now};
use tokio::time::Instant;

use crate::context::Context;
use crate::credentials;
use crate::outcome::Failure;

/// The names of the tasks in `task_lease`: being at it, and the time of the next one.
const TASK: &str = "sweep";
const DUE: &str = "sweep_due";
/// How long one conductor has the task without a sign of life.
const LEASE: Duration = Duration::from_secs(120);
/// The lease is renewed when less than this is left of it: more than the calls on one thing take.
const MARGIN: Duration = Duration::from_secs(75);
/// The first sweep of a conductor comes within this time.
const START: Duration = Duration::from_secs(5);
/// Rows read at once, and clusters asked for at once.
const BATCH: usize = 100;
/// Things removed by one sweep at most; the rest waits for the next.
const MOST_REMOVED: usize = 100;
/// Finds that are told one by one at most.
const MOST_TOLD: usize = 1000;
/// The event of a find.
const FOUND: &str = "sweep_finding";

/// Something that is there without its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    cluster: String,
    kind: ResourceWord,
    name: String,
    id: Option<String>,
    /// What is done about it.
    text: &'static str,
}

type ResourceWord = &'static str;

const REMOVED: &str = "its cluster is gone and it was left behind; it is being removed";
const STAYS: &str = "its cluster is gone and it was left behind; it is not in the inventory and is left alone";
const OUT_OF_REACH: &str = "its cluster is gone and it may have been left behind; the cluster service may not look for it";
/// Of the volumes of a cluster whose stack went before its rows did.
const NOT_LOOKED_FOR: &str =
    "its cluster is gone, and nobody has looked whether any were left behind; they bear its uuid in their metadata";

/// Sweeps until the conductor stops: soon after the start, and then at the interval, with jitter.
pub(crate) async fn run(cx: Arc<Context>, interval: Duration) {
    let mut memory = Memory::default();
    let mut is_asked_for = true;
    let mut pause = START.min(interval);
    let mut failures = 0u32;
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause.mul_f64(model::random::range(0.5..1.0))) => {}
            () = cx.stop.cancelled() => return,
        }
        let swept = tokio::select! {
            biased;
            () = cx.stop.cancelled() => {
                // Whoever comes next need not wait for the end of a lease that nobody uses.
                leave(&cx).await;
                return;
            }
            swept = round(&cx, interval, is_asked_for, &mut memory) => swept,
        };
        match swept {
            Ok(Round::Swept) => {
                failures = 0;
                is_asked_for = !memory.early.is_empty();
            }
            // Whoever is at it may be gone, and what is asked for may be what he left.
            Ok(Round::NotOurs) => {}
            Err(reason) => {
                failures = failures.saturating_add(1);
                is_asked_for |= !memory.early.is_empty();
                cx.metrics.sweep_failed();
                tracing::warn!(reason, "failed to compare the cloud with the tables; trying again later");
            }
        }
        // What fails for good is tried as often as all else in the end, by whoever's turn it is.
        let soon = quiet(&cx).saturating_mul(2u32.saturating_pow(failures));
        is_asked_for &= soon < interval || failures == 0;
        pause = if is_asked_for { soon.min(interval) } else { interval };
    }
}

/// What became of one turn of a conductor's sweeps.
enum Round {
    Swept,
    /// Somebody else is at it, or it is not time.
    NotOurs,
}

/// What a conductor remembers from sweep to sweep.
#[derive(Default)]
struct Memory {
    told: BTreeSet<Finding>,
    early: found::Early,
}

/// One sweep, if nobody else is at it and it is time, or asked for.
async fn round(cx: &Context, interval: Duration, is_asked_for: bool, memory: &mut Memory) -> Result<Round, String> {
    let Memory { told, early } = memory;
    let Some(until) = take(cx, TASK, LEASE).await.map_err(|e| e.to_string())? else { return Ok(Round::NotOurs) };
    // A conductor that has just started looks in any case: what was left may be what the start is to mend.
    let is_due = take(cx, DUE, interval).await.map_err(|e| e.to_string())?.is_some();
    let mut sweep = Sweep { cx, until, findings: Vec::new(), removed: 0, early };
    let swept = if is_due || is_asked_for { sweep.all().await } else { Ok(()) };
    let findings = std::mem::take(&mut sweep.findings);
    leave(cx).await;
    if !(is_due || is_asked_for) {
        // Somebody else sweeps and shows what he finds: an older number beside his would outlast what it tells of.
        cx.metrics.swept(&BTreeMap::new());
        return Ok(Round::NotOurs);
    }
    let mut counts: BTreeMap<&'static str, i64> = BTreeMap::new();
    for finding in &findings {
        *counts.entry(finding.kind).or_default() += 1;
    }
    cx.metrics.swept(&counts);
    let found: BTreeSet<Finding> = findings.into_iter().take(MOST_TOLD).collect();
    for finding in found.difference(told) {
        tracing::warn!(cluster.id = finding.cluster, kind = finding.kind, name = finding.name, id = finding.id, "{}", finding.text);
        tell(cx, finding).await.map_err(|e| e.to_string())?;
    }
    *told = found;
    swept.map(|()| Round::Swept).map_err(|failure| match failure {
        Failure::Stale => "somebody else sweeps".to_owned(),
        Failure::Retry { reason, .. } | Failure::Final { reason, .. } => reason,
    })
}

/// Gives the task back, if it is ours.
async fn leave(cx: &Context) {
    let owner = &cx.owner;
    if let Err(error) = cx.store.write(async |conn: &mut Conn| task::leave(conn, TASK, owner).await).await {
        tracing::debug!(%error, "the sweep was not given back; its lease will run out");
    }
}

/// Takes a task or lengthens its lease; until when it is ours.
async fn take(cx: &Context, name: &str, lease: Duration) -> Result<Option<Instant>, StoreError> {
    let asked = Instant::now();
    let at = millis(now());
    let (owner, end) = (&cx.owner, at.saturating_add(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX)));
    let taken = cx.store.write(async |conn: &mut Conn| task::take(conn, name, owner, at, end).await).await?;
    Ok(taken.then(|| asked + lease))
}

/// Tells of a find among the events of its cluster, where any are kept, once.
async fn tell(cx: &Context, finding: &Finding) -> Result<(), StoreError> {
    let cluster = ClusterId::new(finding.cluster.clone());
    let thing = Thing { kind: finding.kind.to_owned(), name: finding.name.clone(), id: finding.id.clone() };
    let text = format!("{} {}: {}", thing.kind, thing.name, finding.text);
    let details = EventDetails { thing: Some(thing), ..EventDetails::default() };
    let (cluster, text, details) = (&cluster, &text, &details);
    cx.store
        .write(async |conn: &mut Conn| {
            let Some(operation) = event::last_operation(conn, cluster).await? else { return Ok(()) };
            let events = event::of_kinds(conn, &operation, &[FOUND]).await?;
            if events.iter().any(|e| e.message == *text) {
                return Ok(());
            }
            event::append_with(conn, &operation, cluster, FOUND, text, Some(details)).await
        })
        .await
}

/// How long a row must have said the same: what has just been written may belong to somebody who is about to look again.
fn quiet(cx: &Context) -> Duration {
    let timing = &cx.settings.timing;
    timing.settle.max(timing.lease) * 2
}

struct Sweep<'a> {
    cx: &'a Context,
    until: Instant,
    findings: Vec<Finding>,
    removed: usize,
    /// What is looked at again before the next sweep is due.
    early: &'a mut found::Early,
}

impl Sweep<'_> {
    async fn all(&mut self) -> Result<(), Failure> {
        // Each part whatever became of the others.
        let parts = [self.unattended().await, self.inventory().await, self.trustees().await, self.stacks().await];
        parts.into_iter().collect()
    }

    /// Makes sure that the sweep is still ours to do; called before every effect.
    async fn guard(&mut self) -> Result<(), Failure> {
        if Instant::now() + MARGIN < self.until {
            return Ok(());
        }
        self.until = take(self.cx, TASK, LEASE).await?.ok_or(Failure::Stale)?;
        Ok(())
    }

    /// Removes what is recorded for clusters that are gone.
    async fn inventory(&mut self) -> Result<(), Failure> {
        let before = millis(now()).saturating_sub(i64::try_from(quiet(self.cx).as_millis()).unwrap_or(i64::MAX));
        let mut after = 0;
        let mut trouble = None;
        while self.removed < MOST_REMOVED {
            let rows = self.cx.store.read(async |conn: &mut Conn| resource::ownerless(conn, after, before, BATCH as i64).await).await?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            for row in rows.iter().take(MOST_REMOVED - self.removed) {
                self.guard().await?;
                match self.see_off(row).await {
                    Ok(()) => {}
                    Err(Failure::Stale) => return Err(Failure::Stale),
                    // The others all the same.
                    Err(failure) => trouble = Some(failure),
                }
            }
        }
        trouble.map_or(Ok(()), Err)
    }

    /// One step of removing what a row tells of; the row goes when the thing is gone.
    async fn see_off(&mut self, row: &CloudResource) -> Result<(), Failure> {
        let Some(kind) = row.kind() else { return Ok(()) };
        let is_gone = match kind {
            _ if !row.is_to_go() => true,
            _ if row.is_unseen() => {
                self.found(kind, row, NOT_LOOKED_FOR);
                true
            }
            // Heat removes a stack by a trust of its own, which is from the stack's owner or hangs on the cluster's trust, and ends with it.
            ResourceKind::Trustee | ResourceKind::Trust | ResourceKind::StackOwner | ResourceKind::KeyPair
                if self.has_stack(row).await? =>
            {
                return Ok(());
            }
            // The trust goes with its trustee; both are recorded under the trustee's name. There is no user by the name of a former trust, which
            // goes with him, too.
            ResourceKind::Trustee | ResourceKind::Trust | ResourceKind::StackOwner => self.remove_user(kind, row).await?,
            ResourceKind::KeyPair => self.remove_key_pair(row).await?,
            ResourceKind::Certificate => self.remove_certificate(row).await?,
            // What is left of it is told: nobody but the management cluster knows of it, and no credential of the cluster's is left.
            ResourceKind::HelmRelease => {
                self.found(kind, row, OUT_OF_REACH);
                return Ok(());
            }
            ResourceKind::Stack
            | ResourceKind::LoadBalancer
            | ResourceKind::FloatingIp
            | ResourceKind::Volume
            | ResourceKind::ApplicationCredential => {
                let Some(admin) = credentials::service(self.cx).await? else {
                    self.found(kind, row, OUT_OF_REACH);
                    return Ok(());
                };
                self.remove_thing(kind, row, &admin).await?
            }
        };
        if is_gone {
            let cluster = ClusterId::new(row.cluster_uuid.clone());
            let (cluster, name) = (&cluster, &row.name);
            self.cx.store.write(async |conn: &mut Conn| resource::forget_one(conn, cluster, kind, name).await).await?;
        }
        Ok(())
    }

    /// Whether a stack of the same cluster is still to be removed.
    async fn has_stack(&self, row: &CloudResource) -> Result<bool, Failure> {
        let cluster = ClusterId::new(row.cluster_uuid.clone());
        let id = &cluster;
        let rows = self.cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
        Ok(rows.iter().any(|other| other.kind() == Some(ResourceKind::Stack) && other.is_to_go()))
    }

    fn found(&mut self, kind: ResourceKind, row: &CloudResource, text: &'static str) {
        let (cluster, name, id) = (row.cluster_uuid.clone(), row.name.clone(), row.resource_id.clone());
        self.findings.push(Finding { cluster, kind: kind.as_str(), name, id, text });
    }

    fn gone(&mut self, kind: ResourceKind) {
        self.removed += 1;
        self.cx.metrics.sweep_removed(kind.as_str());
    }
}
