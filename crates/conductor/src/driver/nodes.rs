//! Nodes of a stack, as drivers and handlers speak of them.

use crate::plan::{Pool, Seen, Wanted};

/// A node of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its number in the group.
    pub number: String,
    /// Its Nova server, once there is one.
    pub server_id: Option<String>,
    /// On the cluster's network, where they were asked for; more than one with two IP versions. The first is shown.
    pub addresses: Vec<String>,
    /// Outside, the same, where it has one.
    pub floating_ip: Option<String>,
}

/// A node that has not said that it became one, in a stack that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub kind: PoolKind,
    /// Its number in the pool.
    pub number: String,
    /// Heat waits for it still: others of its stack failed before.
    pub is_awaited: bool,
    /// It said itself that it is no part of the cluster: it never tried to join, or was put back after it had. Nothing is lost with its machine.
    pub is_absent: bool,
}

/// Which nodes of a stack are replaced together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    Masters,
    Workers,
}

impl PoolKind {
    /// Its state in a stack; none when its nodes cannot be replaced.
    pub fn of(self, seen: &Seen) -> Option<&Pool> {
        match self {
            Self::Masters => seen.masters.as_deref(),
            Self::Workers => seen.minions.as_deref(),
        }
    }

    /// How the names of its nodes begin in a stack of ours, as the templates have them: servers and nodes in Kubernetes are called alike.
    pub fn prefix(self, stack: &str) -> String {
        match self {
            Self::Masters => format!("{stack}-master-"),
            Self::Workers => format!("{stack}-node-"),
        }
    }

    /// The number of a member, by the name of its node; none of one that is called otherwise.
    pub fn number_in<'a>(self, stack: &str, node: &'a str) -> Option<&'a str> {
        let number = node.strip_prefix(self.prefix(stack).as_str())?;
        number.parse::<u32>().is_ok_and(|parsed| parsed.to_string() == number).then_some(number)
    }
}

/// Workers that new ones are to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Succession<'a> {
    /// The name of the stack that they are in.
    pub stack: &'a str,
    /// Their numbers, in the order in which the stack is told them.
    pub replaces: &'a [String],
    /// How many come in their place.
    pub newcomers: i32,
}

/// What the nodes of a pool are made of from now on. Holds secrets: no `Debug`.
pub(crate) struct NewNodes {
    pub generation: String,
    pub image: String,
    pub user_data: String,
    /// With a leading `v`.
    pub kube_version: String,
}

/// A new number of workers for a stack.
pub(crate) struct Resize {
    pub wanted: Wanted,
    /// The first boot of new workers; none: as the stack has it.
    pub user_data: Option<String>,
    /// How long it may take.
    pub minutes: u32,
    /// Whether the cloud takes back a change that failed.
    pub rollback: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_by_its_name_and_by_nothing_that_is_like_it() {
        for (node, wanted) in [
            ("blue-1-node-0", Some("0")),
            ("blue-1-node-12", Some("12")),
            ("blue-1-node-", None),
            ("blue-1-node-01", None),
            ("blue-1-node-+1", None),
            ("blue-1-node-1x", None),
            ("blue-1-node-99999999999", None),
            ("blue-1-master-0", None),
            ("blue-10-node-0", None),
            ("a-blue-1-node-0", None),
            ("blue-1-node-0-node-1", None),
        ] {
            assert_eq!(PoolKind::Workers.number_in("blue-1", node), wanted, "{node}");
        }
        assert_eq!(PoolKind::Masters.number_in("blue-1", "blue-1-master-3"), Some("3"));
    }
}
