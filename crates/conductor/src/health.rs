//! The health of clusters: looked at from outside, by one conductor for each cluster and turn, written down when it has changed.
//!
//! A look is claimed by moving the cluster's due time (`model::store::health`), so that the number of looks does not grow with the number of
//! conductors. Every look has a deadline well before the next one is due, and only so many happen at once: clusters that cannot be reached
//! must not hold up the others. How many that is alone bounds how many clusters are looked at in the interval: as long as more are due than can
//! be looked at, the next ones are claimed as soon as there is a place.

mod verdict;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use model::certificate::bundle;
use model::cluster::{Cluster, ClusterChange};
use model::id::KeypairId;
use model::json::python_json;
use model::nodegroup::Nodegroup;
use model::store::health::{Due, Look};
use model::store::{Conn, StoreError, health, nodegroup, placement};
use model::time::{millis, now};
use provider_clients::{Kubernetes, KubernetesError, KubernetesOptions, Node};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use self::verdict::{Seen, Verdict, verdict};
use crate::certificates;
use crate::context::Context;
use crate::driver::capi_helm::health::{self as managed, Admitted, Heard};
use crate::outcome::Failure;

/// What a cluster's row says when all is well.
pub(crate) const HEALTHY: &str = verdict::HEALTHY;

/// Looks at the same time; a management cluster has its share of them for the clusters that are on it.
pub(crate) const AT_ONCE: usize = 32;
/// The longest that a look may take; less when looks are more frequent.
const LONGEST: Duration = Duration::from_secs(10);
/// How long an agent in a cluster may be silent, at least, before somebody else looks: what it reports every half a minute is not to be contradicted
/// between two reports, nor where one or two are lost.
const SILENCE: Duration = Duration::from_secs(90);
/// Clusters taken up or forgotten at once.
const ENROL: i64 = 200;
/// Before a round that is not waited for otherwise: several looks end meanwhile, and the round claims as many, in one transaction.
const BREATH: Duration = Duration::from_millis(200);

/// Looks, each cluster once in `interval`, until the conductor stops.
pub(crate) async fn run(cx: Arc<Context>, interval: Duration) {
    let places = Places::default();
    let mut rounds = Rounds::new(interval, "health");
    let mut left = Left::Nothing;
    while let Some(enrols) = rounds.next_or(&cx, places.room(left)).await {
        let ended = round(&cx, interval, &places, enrols).await;
        left = *ended.as_ref().unwrap_or(&Left::Nothing);
        rounds.ended(enrols, ended.map(|_| ()));
    }
}

/// What a round left that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing, as far as it knows.
    Nothing,
    /// As many looks as it had places for began: more clusters may be due.
    More,
    /// Clusters on management clusters at which no other look could begin.
    AtDoors,
}

/// Where looks have their places.
struct Places {
    free: Arc<Semaphore>,
    /// A look has ended.
    ended: Arc<Notify>,
}

impl Default for Places {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(AT_ONCE)), ended: Arc::default() }
    }
}

impl Places {
    /// Waits until there may be room for what a round has left; for ever, where that is nothing.
    async fn room(&self, left: Left) {
        match left {
            Left::Nothing => std::future::pending::<()>().await,
            Left::More => drop(self.free.acquire().await),
            // The places at a door are all of looks of this conductor. Without this a round would find the same clusters again, at once.
            Left::AtDoors => self.ended.notified().await,
        }
        tokio::time::sleep(BREATH).await;
    }
}

/// When to look which clusters are due, of looks at each once in an interval.
pub(crate) struct Rounds {
    interval: Duration,
    pause: Duration,
    /// What is looked at.
    of: &'static str,
    enrolled: Option<Instant>,
    failing: bool,
}

impl Rounds {
    pub(crate) fn new(interval: Duration, of: &'static str) -> Self {
        let pause = (interval / 10).clamp(Duration::from_millis(200), Duration::from_secs(5));
        Self { interval, pause, of, enrolled: None, failing: false }
    }

    /// Waits for the next round; whether it is to take up new clusters. None: the conductor stops.
    pub(crate) async fn next(&self, cx: &Context) -> Option<bool> {
        self.next_or(cx, std::future::pending()).await
    }

    /// As [`Self::next`], but waits no longer than for `room`.
    async fn next_or(&self, cx: &Context, room: impl Future<Output = ()>) -> Option<bool> {
        tokio::select! {
            biased;
            () = cx.stop.cancelled() => return None,
            () = room => {}
            () = tokio::time::sleep(self.pause.mul_f64(model::random::range(0.5..1.0))) => {}
        }
        // New clusters are looked for less often than due ones: it is the only statement that reads them all.
        Some(self.enrolled.is_none_or(|at| at.elapsed() >= self.interval / 2))
    }

    /// How a round ended.
    pub(crate) fn ended(&mut self, enrols: bool, ended: Result<(), StoreError>) {
        match ended {
            Ok(()) => {
                self.failing = false;
                self.enrolled = if enrols { Some(Instant::now()) } else { self.enrolled };
            }
            Err(error) if self.failing => tracing::debug!(%error, of = self.of, "failed to look for clusters that are due"),
            Err(error) => {
                self.failing = true;
                tracing::warn!(%error, of = self.of, "failed to look for clusters that are due; trying again");
            }
        }
    }
}

async fn round(cx: &Arc<Context>, interval: Duration, places: &Places, enrols: bool) -> Result<Left, StoreError> {
    let free = places.free.available_permits();
    if free == 0 {
        return Ok(Left::More);
    }
    let at_ms = millis(now());
    let span = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2);
    let look = Look { owner: cx.owner.clone(), at_ms, due_ms: at_ms + span(interval) };
    let reported_ms = at_ms - span(interval.max(SILENCE));
    let (claimed, limit) = (&look, i64::try_from(free).unwrap_or(1));
    let busy = managed::busy(cx);
    let busy = busy.as_slice();
    let due = cx.store.write(async |conn: &mut Conn| {
        if enrols {
            health::enrol(conn, claimed.due_ms, ENROL).await?;
        }
        let due = health::claim(conn, claimed, reported_ms, limit, busy).await?;
        let managed: Vec<&str> = due.clusters.iter().filter(|c| managed::is_seen_from_there(c)).map(|c| c.uuid.as_str()).collect();
        let recorded = placement::of_clusters(conn, &managed).await?;
        Ok((due, recorded))
    });
    let (due, mut recorded): (Due, HashMap<String, String>) = due.await?;
    let mut put_off = Vec::new();
    for cluster in due.clusters {
        let recorded = recorded.remove(&cluster.uuid);
        let Admitted::Yes(admitted) = managed::admit(cx, &cluster, recorded.as_deref()) else {
            put_off.push(cluster.uuid);
            continue;
        };
        let Ok(place) = places.free.clone().try_acquire_owned() else { break };
        let (cx2, look, ended) = (cx.clone(), look.clone(), places.ended.clone());
        let deadline = (interval * 2 / 3).min(LONGEST);
        cx.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = check(&cx2, &look, &cluster, recorded.as_deref(), deadline) => {}
                () = cx2.stop.cancelled() => {}
            }
            drop((place, admitted));
            ended.notify_one();
        });
    }
    let left = left(due.may_be_more, free, put_off.len(), !busy.is_empty());
    if put_off.is_empty() {
        return Ok(left);
    }
    // Due at once and behind all others that are due: those that are on other management clusters, or on none, come first.
    let ids: Vec<&str> = put_off.iter().map(String::as_str).collect();
    let (look, ids) = (&look, ids.as_slice());
    cx.store.write(async |conn: &mut Conn| health::put_off(conn, look, ids, at_ms).await).await?;
    Ok(left)
}

/// What is left by a round that could claim `most` looks and put some of them off again. `may_be_more`: so many were due; `is_at_doors`: some
/// management clusters were passed by.
fn left(may_be_more: bool, most: usize, put_off: usize, is_at_doors: bool) -> Left {
    // One that put off all that it claimed would claim the same again.
    if may_be_more && put_off < most {
        Left::More
    } else if is_at_doors || put_off > 0 {
        Left::AtDoors
    } else {
        Left::Nothing
    }
}

/// One look at one cluster.
async fn check(cx: &Context, look: &Look, cluster: &Cluster, recorded: Option<&str>, deadline: Duration) {
    let found = if managed::is_seen_from_there(cluster) {
        let asked = tokio::time::timeout(deadline, managed::health(cx, cluster, recorded)).await;
        match asked.unwrap_or_else(|_| Ok(Heard::Nothing("no answer in time".to_owned()))) {
            Ok(Heard::Unchanged) => {
                cx.metrics.health_looked(verdict::HEALTHY);
                return;
            }
            Ok(Heard::Texts(reason)) => {
                Verdict { status: if managed::is_well(&reason) { verdict::HEALTHY } else { verdict::UNHEALTHY }, reason }
            }
            // As of a cluster whose own API is not reached: what was known of it is nothing that anybody has seen now.
            Ok(Heard::Nothing(why)) => {
                Verdict { status: verdict::UNKNOWN, reason: IndexMap::from([("management_cluster".to_owned(), why)]) }
            }
            // It says nothing of the cluster, and could not be recorded.
            Err(error) => {
                tracing::debug!(cluster.id = %cluster.uuid, %error, "the health of a cluster is not looked at without the database");
                return;
            }
        }
    } else {
        let seen = match cluster.api_address.clone() {
            Some(url) => {
                // The half of it for each call: a slow one still leaves time to say so.
                let seen = tokio::time::timeout(deadline, see(cx, cluster, url, deadline / 2 - deadline / 20)).await;
                seen.unwrap_or_else(|_| Seen::failed(KubernetesError::Bad("no answer in time".into())))
            }
            None => Seen::failed(KubernetesError::Options("no address of the cluster's API is known".into())),
        };
        verdict(cluster, &groups(cx, cluster, &seen).await, &seen)
    };
    cx.metrics.health_looked(found.status);
    let Some(change) = change(cluster, &found) else { return };
    let (id, change) = (&cluster.cluster_id(), &change);
    match cx.store.write(async |conn: &mut Conn| health::record(conn, look, id, change).await).await {
        Ok(()) => tracing::info!(cluster.id = %id, health = found.status, "the health of a cluster has changed"),
        // Somebody else speaks for it, or it is gone.
        Err(StoreError::Stale { .. }) => {}
        Err(error) => tracing::warn!(cluster.id = %id, %error, "failed to record the health of a cluster"),
    }
}

/// Asks the cluster.
async fn see(cx: &Context, cluster: &Cluster, url: String, timeout: Duration) -> Seen {
    let client = match client(cx, cluster, url, timeout).await {
        Ok(client) => client,
        Err(error) => return Seen::failed(error),
    };
    let healthz = client.healthz().await;
    if matches!(healthz, Err(KubernetesError::Unreachable(_) | KubernetesError::Options(_))) {
        return Seen { healthz, nodes: Ok(Vec::new()) };
    }
    Seen { healthz, nodes: client.nodes().await }
}

/// The groups of a cluster, where it depends on them what is said of it: some of its nodes are not ready. Where they cannot be read each node counts.
async fn groups(cx: &Context, cluster: &Cluster, seen: &Seen) -> Vec<Nodegroup> {
    if seen.nodes.as_ref().is_ok_and(|nodes| nodes.iter().all(Node::is_ready)) {
        return Vec::new();
    }
    let id = &cluster.cluster_id();
    cx.store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, id).await).await.unwrap_or_default()
}

/// Where conductors reach the API of a cluster, as far as the last look at its health tells; an agent in the cluster that tells of it is taken for one
/// of theirs. None where it was not reached, and where nobody looks.
pub(crate) fn reached<'a>(cx: &Context, cluster: &'a Cluster) -> Option<&'a str> {
    let was_reached = cluster.health_status.as_deref().is_some_and(|status| status != verdict::UNKNOWN);
    cluster.api_address.as_deref().filter(|_| was_reached && cx.settings.timing.health.is_some())
}

/// A client of the API at an address, each call of which may take so long.
///
/// # Errors
/// [`KubernetesError::Options`] when the cluster's certificates cannot be read or used.
pub(crate) async fn client(cx: &Context, cluster: &Cluster, url: String, timeout: Duration) -> Result<Kubernetes, KubernetesError> {
    let unreadable = |_: Failure| KubernetesError::Options("the cluster's certificates cannot be read".into());
    let load = async |reference: &Option<String>| {
        let reference = KeypairId::new(reference.clone().unwrap_or_default());
        certificates::load(cx, &reference).await.map_err(unreadable)
    };
    let (ca, own) = (load(&cluster.ca_cert_ref).await?, load(&cluster.magnum_cert_ref).await?);
    let mut trusted = ca.pem().to_owned();
    if let Some(beside) = certificates::trusted_beside(cx, cluster).await.map_err(unreadable)? {
        trusted = bundle([trusted.as_str(), &beside]);
    }
    let denied = cx.settings.health_denied_networks.clone();
    // Opening a key and making a TLS client are CPU work.
    let made = model::blocking::run(move || {
        let opened = own.open().and_then(|pair| pair.key_pem());
        let key = opened.map_err(|_| KubernetesError::Options("the cluster's certificates cannot be read".into()))?;
        let certificate = own.pem().to_owned();
        let options = KubernetesOptions { url, ca: trusted, certificate, key, connect_timeout: timeout, timeout, denied };
        Kubernetes::new(&options)
    });
    made.await.map_err(|error| KubernetesError::Options(error.to_string()))?
}

/// What to write, if anything is different.
fn change(cluster: &Cluster, found: &Verdict) -> Option<ClusterChange> {
    let reason = python_json(&found.reason);
    let same = cluster.health_status.as_deref() == Some(found.status) && cluster.health_status_reason.as_deref() == Some(reason.as_str());
    (!same).then(|| ClusterChange {
        health_status: Some(Some(found.status.to_owned())),
        health_status_reason: Some(Some(reason)),
        ..ClusterChange::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long waiting for room took, to the tenth of a second.
    async fn waited(places: &Places, left: Left) -> Duration {
        let begun = Instant::now();
        places.room(left).await;
        Duration::from_millis(u64::try_from(begun.elapsed().as_millis() / 100 * 100).expect("short"))
    }

    #[tokio::test(start_paused = true)]
    async fn where_more_is_due_the_next_round_waits_for_nothing_but_a_place() {
        let places = Places::default();
        assert_eq!(waited(&places, Left::More).await, BREATH);
        let all = places.free.clone().acquire_many_owned(u32::try_from(AT_ONCE).expect("few")).await.expect("never closed");
        let second = Duration::from_secs(1);
        let (after, ()) = tokio::join!(waited(&places, Left::More), async {
            tokio::time::sleep(second).await;
            drop(all);
        });
        assert_eq!(after, second + BREATH);
        // At a management cluster there is room when a look has ended, and not before.
        let (after, ()) = tokio::join!(waited(&places, Left::AtDoors), async {
            tokio::time::sleep(second).await;
            places.ended.notify_one();
        });
        assert_eq!(after, second + BREATH);
        for left in [Left::Nothing, Left::AtDoors] {
            let ended = tokio::time::timeout(Duration::from_secs(3600), places.room(left)).await;
            assert!(ended.is_err(), "{left:?}");
        }
    }

    #[test]
    fn a_round_that_could_begin_nothing_is_not_repeated_at_once() {
        for (may_be_more, most, put_off, is_at_doors, wanted) in [
            (false, 32, 0, false, Left::Nothing),
            (true, 32, 0, false, Left::More),
            (true, 32, 16, true, Left::More),
            (true, 5, 5, true, Left::AtDoors),
            (false, 32, 3, false, Left::AtDoors),
            (false, 32, 0, true, Left::AtDoors),
        ] {
            assert_eq!(left(may_be_more, most, put_off, is_at_doors), wanted, "{may_be_more} {most} {put_off} {is_at_doors}");
        }
    }
}
