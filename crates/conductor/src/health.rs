//! The health of clusters: looked at from outside, by one conductor for each cluster and turn, written down when it has changed.
//!
//! A look is claimed by moving the cluster's due time (`model::store::health`), so that the number of looks does not grow with the number of
//! conductors. Every look has a deadline well before the next one is due, and only so many happen at once: clusters that cannot be reached
//! must not hold up the others.

mod verdict;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::certificate::bundle;
use model::cluster::{Cluster, ClusterChange};
use model::id::KeypairId;
use model::json::python_json;
use model::store::health::Look;
use model::store::{Conn, StoreError, health, placement};
use model::time::{millis, now};
use provider_clients::{Kubernetes, KubernetesError, KubernetesOptions};
use tokio::sync::Semaphore;
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
/// Clusters taken up or forgotten at once.
const ENROL: i64 = 200;

/// Looks, each cluster once in `interval`, until the conductor stops.
pub(crate) async fn run(cx: Arc<Context>, interval: Duration) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut rounds = Rounds::new(interval, "health");
    while let Some(enrols) = rounds.next(&cx).await {
        let ended = round(&cx, interval, &places, enrols).await;
        rounds.ended(enrols, ended);
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
        tokio::select! {
            biased;
            () = tokio::time::sleep(self.pause.mul_f64(model::random::range(0.5..1.0))) => {}
            () = cx.stop.cancelled() => return None,
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

async fn round(cx: &Arc<Context>, interval: Duration, places: &Arc<Semaphore>, enrols: bool) -> Result<(), StoreError> {
    let free = places.available_permits();
    if free == 0 {
        return Ok(());
    }
    let at_ms = millis(now());
    let span = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX / 2);
    let look = Look { owner: cx.owner.clone(), at_ms, due_ms: at_ms + span };
    let (claimed, limit) = (&look, i64::try_from(free).unwrap_or(1));
    let busy = managed::busy(cx);
    let busy = busy.as_slice();
    let due = cx.store.write(async |conn: &mut Conn| {
        if enrols {
            health::enrol(conn, claimed.due_ms, ENROL).await?;
        }
        let due = health::claim(conn, claimed, at_ms - span, limit, busy).await?;
        let managed: Vec<&str> = due.iter().filter(|c| managed::is_seen_from_there(c)).map(|c| c.uuid.as_str()).collect();
        let recorded = placement::of_clusters(conn, &managed).await?;
        Ok((due, recorded))
    });
    let (due, mut recorded): (Vec<Cluster>, HashMap<String, String>) = due.await?;
    let mut put_off = Vec::new();
    for cluster in due {
        let recorded = recorded.remove(&cluster.uuid);
        let Admitted::Yes(admitted) = managed::admit(cx, &cluster, recorded.as_deref()) else {
            put_off.push(cluster.uuid);
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { break };
        let (cx2, look) = (cx.clone(), look.clone());
        let deadline = (interval * 2 / 3).min(LONGEST);
        cx.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = check(&cx2, &look, &cluster, recorded.as_deref(), deadline) => {}
                () = cx2.stop.cancelled() => {}
            }
            drop((place, admitted));
        });
    }
    if put_off.is_empty() {
        return Ok(());
    }
    // Due at once and behind all others that are due: those that are on other management clusters, or on none, come first.
    let ids: Vec<&str> = put_off.iter().map(String::as_str).collect();
    let (look, ids) = (&look, ids.as_slice());
    cx.store.write(async |conn: &mut Conn| health::put_off(conn, look, ids, at_ms).await).await
}

/// One look at one cluster.
async fn check(cx: &Context, look: &Look, cluster: &Cluster, recorded: Option<&str>, deadline: Duration) {
    let found = if managed::is_seen_from_there(cluster) {
        match tokio::time::timeout(deadline, managed::health(cx, cluster, recorded)).await {
            Ok(Ok(Heard::Unchanged)) => {
                cx.metrics.health_looked(verdict::HEALTHY);
                return;
            }
            Ok(Ok(Heard::Texts(reason))) => {
                Verdict { status: if managed::is_well(&reason) { verdict::HEALTHY } else { verdict::UNHEALTHY }, reason }
            }
            // What was known stays: it says nothing of the cluster that its management cluster cannot be asked.
            Ok(Err(_)) | Err(_) => return,
        }
    } else {
        let Some(url) = cluster.api_address.clone() else { return };
        // The half of it for each call: a slow one still leaves time to say so.
        let seen = tokio::time::timeout(deadline, see(cx, cluster, url, deadline / 2 - deadline / 20)).await;
        verdict(cluster, &seen.unwrap_or_else(|_| Seen::failed(KubernetesError::Bad("no answer in time".into()))))
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

async fn client(cx: &Context, cluster: &Cluster, url: String, timeout: Duration) -> Result<Kubernetes, KubernetesError> {
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
