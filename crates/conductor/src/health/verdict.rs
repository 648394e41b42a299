//! What was seen of a cluster, and what is said of it: pure.
//!
//! The words are upstream's (`api`, `<node>.Ready`). A cluster that was not reached is UNKNOWN with the reason; one that was reached and did
//! not answer well, or has a node that is not ready, is UNHEALTHY.

use indexmap::IndexMap;
use model::cluster::Cluster;
use provider_clients::{KubernetesError, Node};

pub(super) const HEALTHY: &str = "HEALTHY";
pub(super) const UNHEALTHY: &str = "UNHEALTHY";
pub(super) const UNKNOWN: &str = "UNKNOWN";

/// Nodes named at most; of more, those that are ready are left out. The column holds 64 KiB.
const NODES: usize = 300;

/// What a cluster answered.
pub(super) struct Seen {
    pub healthz: Result<String, KubernetesError>,
    pub nodes: Result<Vec<Node>, KubernetesError>,
}

impl Seen {
    /// Nothing could be seen.
    pub fn failed(error: KubernetesError) -> Self {
        Self { healthz: Err(error), nodes: Ok(Vec::new()) }
    }
}

/// What is said of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub status: &'static str,
    pub reason: IndexMap<String, String>,
}

/// Judges.
pub(super) fn verdict(cluster: &Cluster, seen: &Seen) -> Verdict {
    let told = |status, text: String| Verdict { status, reason: IndexMap::from([("api".to_owned(), text)]) };
    let body = match &seen.healthz {
        Ok(body) => body,
        Err(KubernetesError::Unreachable(_)) if !is_public(cluster) => {
            return told(UNKNOWN, format!("The cluster {} is not accessible.", cluster.display_name()));
        }
        Err(error @ (KubernetesError::Unreachable(_) | KubernetesError::Options(_))) => return told(UNKNOWN, error.to_string()),
        Err(error @ KubernetesError::Bad(_)) => return told(UNHEALTHY, error.to_string()),
    };
    let mut reason = IndexMap::new();
    let nodes = match &seen.nodes {
        Ok(nodes) => nodes.as_slice(),
        Err(error) => {
            reason.insert("nodes".to_owned(), error.to_string());
            &[]
        }
    };
    let all_ready = nodes.iter().all(|node| node.ready == "True");
    let named = nodes.iter().filter(|node| nodes.len() <= NODES || node.ready != "True").take(NODES);
    reason.extend(named.map(|node| (format!("{}.Ready", node.name), node.ready.clone())));
    if seen.nodes.as_ref().is_ok_and(Vec::is_empty) {
        reason.insert("nodes".to_owned(), "no node has joined".to_owned());
    }
    reason.insert("api".to_owned(), body.clone());
    let is_healthy = body == "ok" && all_ready && !nodes.is_empty();
    Verdict { status: if is_healthy { HEALTHY } else { UNHEALTHY }, reason }
}

/// Whether the cluster was made to be reached from outside (conductor.md 8.2).
fn is_public(cluster: &Cluster) -> bool {
    match cluster.master_lb_enabled() {
        true => cluster.labels().flag("master_lb_floating_ip_enabled").unwrap_or_else(|| cluster.floating_ip_enabled()),
        false => cluster.floating_ip_enabled(),
    }
}
