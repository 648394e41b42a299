//! What was seen of a cluster, and what is said of it: pure.
//!
//! The words are upstream's (`api`, `<node>.Ready`). A cluster that was not reached is UNKNOWN with the reason; one that was reached and did
//! not answer well, or lacks a node that is ready, is UNHEALTHY.

use indexmap::IndexMap;
use model::cluster::Cluster;
use model::json::python_json;
use model::nodegroup::Nodegroup;
use provider_clients::{KubernetesError, Node};

use crate::driver::{Handle, PoolKind};

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

/// Judges. The groups are looked at where a node is not ready; none of them: each node counts.
pub(super) fn verdict(cluster: &Cluster, groups: &[Nodegroup], seen: &Seen) -> Verdict {
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
    let have_room = nodes.len() <= NODES && nodes.iter().map(takes).sum::<usize>() <= ROOM;
    let mut left = ROOM;
    let named = nodes.iter().filter(|node| have_room || !node.is_ready()).take(NODES).map_while(|node| {
        left = left.checked_sub(takes(node))?;
        Some((format!("{}.Ready", node.name), node.ready.as_str().to_owned()))
    });
    reason.extend(named);
    if seen.nodes.as_ref().is_ok_and(Vec::is_empty) {
        reason.insert("nodes".to_owned(), "no node has joined".to_owned());
    }
    reason.insert("api".to_owned(), body.clone());
    let is_healthy = body == "ok" && !nodes.is_empty() && are_well(cluster, groups, nodes);
    Verdict { status: if is_healthy { HEALTHY } else { UNHEALTHY }, reason }
}

/// Whether the nodes that a cluster is to have are ready. One that is not is none of them where its group has as many that are, or where there is no
/// such group: its machine was taken away, and what Kubernetes keeps of it stays until somebody removes it. That can be told by the names that nodes
/// of our stacks have; in a cluster whose masters are called otherwise each node counts.
fn are_well(cluster: &Cluster, groups: &[Nodegroup], nodes: &[Node]) -> bool {
    if nodes.iter().all(Node::is_ready) {
        return true;
    }
    let own = Handle::of_cluster(cluster).name;
    if groups.is_empty() || !nodes.iter().any(|node| PoolKind::Masters.number_in(&own, &node.name).is_some()) {
        return false;
    }
    groups.iter().all(|group| {
        let stack = Handle::of_group(cluster, group).name;
        let kind = if group.is_master() { PoolKind::Masters } else { PoolKind::Workers };
        let members: Vec<&Node> = nodes.iter().filter(|node| kind.number_in(&stack, &node.name).is_some()).collect();
        let ready = members.iter().filter(|node| node.is_ready()).count();
        ready == members.len() || i32::try_from(ready).is_ok_and(|ready| ready >= group.node_count())
    })
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
    use provider_clients::Ready;

    use super::*;
    use crate::driver::capi_helm::tests::cluster;

    /// Bytes that a column of MariaDB's type TEXT holds.
    const COLUMN: usize = 65_535;

    fn node(name: String, ready: Ready) -> Node {
        Node { name, ready, uid: String::new(), version: String::new() }
    }

    fn nodes(length: usize, ready: Ready) -> Vec<Node> {
        (0..NODES).map(|number| node(format!("{number:0length$}"), ready)).collect()
    }

    fn judged(healthz: &str, nodes: Vec<Node>) -> Verdict {
        let verdict = verdict(&cluster(), &[], &Seen { healthz: Ok(healthz.to_owned()), nodes: Ok(nodes) });
        assert!(python_json(&verdict.reason).len() <= COLUMN, "{} bytes", python_json(&verdict.reason).len());
        verdict
    }

    #[test]
    fn a_node_that_no_group_is_to_have_is_left_out_and_one_that_a_group_lacks_is_not() {
        let cluster = cluster();
        let group = |name: &str, role: &str, is_default: bool, count: i32| Nodegroup {
            uuid: "0d1b2c3e-4f50-4617-8283-94a5b6c7d8e9".into(),
            name: name.into(),
            role: Some(role.into()),
            is_default: Some(is_default),
            node_count: Some(count),
            ..Nodegroup::default()
        };
        let groups =
            [group("default-master", "master", true, 1), group("default-worker", "worker", true, 2), group("more", "worker", false, 1)];
        let (own, more) = (Handle::of_cluster(&cluster).name, Handle::of_group(&cluster, &groups[2]).name);
        let judged = |groups: &[Nodegroup], changed: &[(String, Ready)]| {
            let well = [format!("{own}-master-0"), format!("{own}-node-0"), format!("{own}-node-2"), format!("{more}-node-0")];
            let well = well.into_iter().filter(|name| changed.iter().all(|(other, _)| other != name)).map(|name| (name, Ready::True));
            let nodes = well.chain(changed.iter().cloned()).map(|(name, ready)| node(name, ready)).collect();
            verdict(&cluster, groups, &Seen { healthz: Ok("ok".into()), nodes: Ok(nodes) })
        };
        for (changed, wanted) in [
            (vec![], HEALTHY),
            // Taken away: of a group that has as many as it is to have, of one that is gone; and somebody's own.
            (vec![(format!("{own}-node-1"), Ready::Unknown), (format!("{more}-node-1"), Ready::False)], HEALTHY),
            (vec![("mycluster-1-gone-0d1b2c3e4f51-node-0".to_owned(), Ready::Unknown), ("theirs".to_owned(), Ready::Unknown)], HEALTHY),
            (vec![(format!("{own}-master-1"), Ready::Unknown)], HEALTHY),
            // One of those that are to be there.
            (vec![(format!("{own}-node-2"), Ready::False)], UNHEALTHY),
            (vec![(format!("{own}-node-2"), Ready::False), (format!("{own}-node-1"), Ready::Unknown)], UNHEALTHY),
            (vec![(format!("{more}-node-0"), Ready::Unknown)], UNHEALTHY),
            (vec![(format!("{own}-master-0"), Ready::Unknown)], UNHEALTHY),
        ] {
            let verdict = judged(&groups, &changed);
            assert_eq!(verdict.status, wanted, "{changed:?}");
            // What is seen is told all the same.
            assert!(changed.iter().all(|(name, ready)| verdict.reason[&format!("{name}.Ready")] == ready.as_str()), "{:?}", verdict.reason);
        }
        let left = [(format!("{own}-node-1"), Ready::Unknown)];
        assert_eq!(judged(&[], &left).status, UNHEALTHY, "of whose groups nobody knows");
        let elsewhere = [("upstreams-master-0".to_owned(), Ready::True), ("upstreams-node-1".to_owned(), Ready::Unknown)];
        let nodes = elsewhere.map(|(name, ready)| node(name, ready)).to_vec();
        let seen = Seen { healthz: Ok("ok".into()), nodes: Ok(nodes) };
        assert_eq!(verdict(&cluster, &groups, &seen).status, UNHEALTHY, "made by another driver");
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
