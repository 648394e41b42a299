//! Members of stacks that failed, and are there all the same: they may not pass for nodes.
//!
//! What has replaced the nodes of a group leaves none of them. A new size of a group leaves those that may be a part of the cluster, and are
//! told; those that said that they are none go. What ended badly may leave any.

use cloud_simulator::{Cloud, Mishap, StackView};
use model::cluster::status::Concerns;
use model::id::ClusterId;
use model::nodegroup::Nodegroup;
use model::operation::{OperationKind, OperationState};

use super::Ended;
use crate::mishaps::ABSENT;
use crate::rows::Rows;

/// Which members of a group may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Any,
    /// None that is known to be no part of the cluster.
    NoStranger,
    NodesOnly,
}

/// Finds the members of a group that should not be there.
pub(super) fn of_group(
    id: &ClusterId,
    rows: &Rows,
    group: &Nodegroup,
    (cloud, stacks): (&Cloud, &[StackView]),
    ended: &[Ended<'_>],
    found: &mut Vec<String>,
) {
    let (name, left) = (&group.name, left(rows, group, ended));
    let Some(stack) = stacks.iter().find(|stack| group.stack_id.as_deref() == Some(stack.id.as_str())) else { return };
    let place = if group.is_master() { "kube_masters/" } else { "kube_minions/" };
    for (member, mishap) in cloud.spoiled_members(&stack.id) {
        let is_stranger = mishap == Mishap::Says(ABSENT.to_owned());
        let may_be = left == Left::Any || (left == Left::NoStranger && !is_stranger);
        if member.starts_with(place) && !may_be {
            found.push(format!("group {name} of cluster {id} has the member {member}, which is no node ({mishap:?})"));
        }
    }
    if group.is_master() && left == Left::NodesOnly {
        let masters = stack.parameters.get("number_of_masters");
        let masters = masters.map(|n| n.as_str().map_or_else(|| n.to_string(), str::to_owned));
        if masters.as_deref() != Some("1") {
            found.push(format!("the stack of cluster {id} has {masters:?} masters, 1 was promised"));
        }
    }
}

fn left(rows: &Rows, group: &Nodegroup, ended: &[Ended<'_>]) -> Left {
    let workers = rows.groups.iter().find(|other| other.is_default() && !other.is_master());
    let mut left = Left::Any;
    for end in ended.iter().filter(|end| !end.changed_nothing()) {
        let kind = end.promise.kind;
        // Masters are replaced with the default workers.
        let with_workers = kind == OperationKind::ClusterUpgrade && group.is_master();
        let is_about = end.promise.is_about(group) || (with_workers && workers.is_some_and(|workers| end.promise.is_about(workers)));
        let replaces = match kind {
            OperationKind::ClusterUpgrade => is_about,
            OperationKind::CaRotate => true,
            OperationKind::CredentialRotate => group.is_master(),
            _ => false,
        };
        let sizes = is_about && matches!(kind, OperationKind::ClusterResize | OperationKind::ClusterUpdate);
        left = match end.state {
            OperationState::Succeeded if replaces => Left::NodesOnly,
            OperationState::Succeeded if sizes => left.max(Left::NoStranger),
            OperationState::Succeeded => left,
            _ if is_about || kind.concerns() != Concerns::OneGroup => Left::Any,
            _ => left,
        };
    }
    left
}
