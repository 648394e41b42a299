//! What was seen of a cluster, and what is said of it: pure.
//!
//! The words are upstream's (`api`, `<node>.Ready`). A cluster that was not reached is UNKNOWN with the reason; one that was reached and did
//! not answer well, or has a node that is not ready, is UNHEALTHY.

use indexmap::IndexMap;
use model::cluster::Cluster;
use model::json::python_json;
use provider_clients::{KubernetesError, Node, Ready};

pub(super) const HEALTHY: &str = "HEALTHY";
pub(super) const UNHEALTHY: &str = "UNHEALTHY";
pub(super) const UNKNOWN: &str = "UNKNOWN";

/// Nodes named at most, and bytes that they take in the column, which holds 64 KiB; of more, those that are ready are left out. The rest is for
/// what the API said.
const NODES: usize = 300;
const ROOM: usize = 60 * 1024;

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
    let all_ready = nodes.iter().all(|node| node.ready == Ready::True);
    let have_room = nodes.len() <= NODES && nodes.iter().map(takes).sum::<usize>() <= ROOM;
    let mut left = ROOM;
    let named = nodes.iter().filter(|node| have_room || node.ready != Ready::True).take(NODES).map_while(|node| {
        left = left.checked_sub(takes(node))?;
        Some((format!("{}.Ready", node.name), node.ready.as_str().to_owned()))
    });
    reason.extend(named);
    if seen.nodes.as_ref().is_ok_and(Vec::is_empty) {
        reason.insert("nodes".to_owned(), "no node has joined".to_owned());
    }
    reason.insert("api".to_owned(), body.clone());
    let is_healthy = body == "ok" && all_ready && !nodes.is_empty();
    Verdict { status: if is_healthy { HEALTHY } else { UNHEALTHY }, reason }
}

/// Bytes of a node in the column.
fn takes(node: &Node) -> usize {
    python_json(&node.name).len() + r#".Ready: "Unknown", "#.len()
}

/// Whether the cluster was made to be reached from outside (conductor.md 8.2).
fn is_public(cluster: &Cluster) -> bool {
    match cluster.master_lb_enabled() {
        true => cluster.labels().flag("master_lb_floating_ip_enabled").unwrap_or_else(|| cluster.floating_ip_enabled()),
        false => cluster.floating_ip_enabled(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::capi_helm::tests::cluster;

    /// Bytes that a column of MariaDB's type TEXT holds.
    const COLUMN: usize = 65_535;

    fn nodes(length: usize, ready: Ready) -> Vec<Node> {
        (0..NODES).map(|number| Node { name: format!("{number:0length$}"), ready }).collect()
    }

    fn judged(healthz: &str, nodes: Vec<Node>) -> Verdict {
        let verdict = verdict(&cluster(), &Seen { healthz: Ok(healthz.to_owned()), nodes: Ok(nodes) });
        assert!(python_json(&verdict.reason).len() <= COLUMN, "{} bytes", python_json(&verdict.reason).len());
        verdict
    }

    #[test]
    fn nodes_with_usual_names_are_named_every_one() {
        let verdict = judged("ok", nodes(63, Ready::True));
        assert_eq!((verdict.status, verdict.reason.len()), (HEALTHY, NODES + 1));
    }

    #[test]
    fn the_reason_fits_its_column_and_who_is_not_ready_goes_first() {
        let worst = "\u{1f4a5}".repeat(200);
        let all = judged(&worst, nodes(253, Ready::Unknown));
        assert_eq!((all.status, all.reason["api"].as_str()), (UNHEALTHY, worst.as_str()));
        assert!(all.reason.len() > 200 && all.reason.len() <= NODES, "{}", all.reason.len());
        let mut most = nodes(253, Ready::True);
        let Some(last) = most.last_mut() else { panic!("no node") };
        last.ready = Ready::False;
        let key = format!("{}.Ready", last.name);
        let one = judged("ok", most);
        assert_eq!(one.status, UNHEALTHY);
        assert_eq!(one.reason, IndexMap::from([(key, "False".to_owned()), ("api".to_owned(), "ok".to_owned())]));
        assert_eq!(judged("ok", nodes(253, Ready::True)).status, HEALTHY);
    }
}
