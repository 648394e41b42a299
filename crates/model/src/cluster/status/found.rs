//! The part of the table about work that nobody here began: a cluster whose status says that it is being changed, while no operation tells
//! of it. The service that had the database before was stopped in the middle, or is at it still.

use super::Status;
use crate::id::NodegroupId;
use crate::nodegroup::Nodegroup;
use crate::operation::OperationKind;

/// An operation that goes on with what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub kind: OperationKind,
    /// The group that it is about, unless it is about the cluster or its default workers.
    pub group: Option<NodegroupId>,
}

/// What goes on with a cluster found in `status`, in order; nothing for one at rest. `own_stack` is the cluster's.
///
/// What was to be made or removed is, by the operation that a request of ours would have stored. Of a change nobody knows what was wished:
/// the stack of each group is followed to whatever end it comes to. Groups at rest with a stack of their own are among them, behind all
/// others, for upstream stores no status for one that it is removing (conductor.md 6).
pub fn taken_up(status: Status, own_stack: Option<&str>, groups: &[Nodegroup]) -> Vec<Found> {
    let whole = match status {
        Status::DeleteInProgress => return vec![Found { kind: OperationKind::ClusterDelete, group: None }],
        Status::CreateInProgress => OperationKind::ClusterCreate,
        Status::UpdateInProgress | Status::RollbackInProgress => OperationKind::ClusterResize,
        _ => return Vec::new(),
    };
    let (busy, silent): (Vec<&Nodegroup>, Vec<&Nodegroup>) =
        groups.iter().filter(|g| !g.is_default()).partition(|g| g.status().is_some_and(Status::is_in_progress));
    let silent = silent.into_iter().filter(|g| g.stack_id.is_some() && g.stack_id.as_deref() != own_stack);
    let beside = busy.into_iter().chain(silent).map(|group| {
        let kind = match group.status() {
            Some(Status::DeleteInProgress) => OperationKind::NodegroupDelete,
            Some(Status::CreateInProgress) => OperationKind::NodegroupCreate,
            _ => OperationKind::ClusterResize,
        };
        Found { kind, group: Some(group.nodegroup_id()) }
    });
    std::iter::once(Found { kind: whole, group: None }).chain(beside).collect()
}

impl Status {
    /// What it becomes when nobody can go on with what is being done; none when nothing is.
    pub fn given_up(self) -> Option<Self> {
        match self {
            Self::CreateInProgress => Some(Self::CreateFailed),
            Self::UpdateInProgress => Some(Self::UpdateFailed),
            Self::DeleteInProgress => Some(Self::DeleteFailed),
            Self::RollbackInProgress => Some(Self::RollbackFailed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Begin, Refused, begin};
    use super::*;

    /// A worker group beside the default ones.
    fn group(name: &str, status: Option<&str>, stack: Option<&str>) -> Nodegroup {
        Nodegroup { uuid: name.into(), status: status.map(Into::into), stack_id: stack.map(Into::into), ..Nodegroup::default() }
    }

    fn kinds(status: Status, groups: &[Nodegroup]) -> Vec<(OperationKind, Option<String>)> {
        taken_up(status, Some("own"), groups).into_iter().map(|f| (f.kind, f.group.map(|id| id.to_string()))).collect()
    }

    #[test]
    fn whatever_is_in_progress_is_gone_on_with_and_nothing_else() {
        for status in Status::ALL {
            let found = taken_up(*status, None, &[]);
            assert_eq!(found.is_empty(), !status.is_in_progress(), "{status:?}");
            assert_eq!(status.is_in_progress(), status.as_str().ends_with("_IN_PROGRESS"), "{status:?}");
        }
    }

    #[test]
    fn a_cluster_that_is_taken_up_can_be_deleted_and_what_changes_it_waits_or_is_refused() {
        for status in [Status::CreateInProgress, Status::UpdateInProgress, Status::DeleteInProgress, Status::RollbackInProgress] {
            let unfinished: Vec<OperationKind> = taken_up(status, None, &[]).iter().map(|f| f.kind).collect();
            let deleted = begin(Some(status), &unfinished, OperationKind::ClusterDelete);
            assert!(matches!(deleted, Ok(Begin::Supersede(_) | Begin::Coalesce)), "{status:?}: {deleted:?}");
            let upgraded = begin(Some(status), &unfinished, OperationKind::ClusterUpgrade);
            assert!(matches!(upgraded, Err(Refused { .. })), "{status:?}: {upgraded:?}");
        }
    }

    #[test]
    fn groups_are_made_removed_or_followed_by_what_they_say() {
        let default = Nodegroup { is_default: Some(true), ..group("default-worker", Some("UPDATE_IN_PROGRESS"), Some("s")) };
        let groups = [
            default,
            group("made", Some("CREATE_IN_PROGRESS"), None),
            group("silent", Some("CREATE_COMPLETE"), Some("c")),
            group("never made", Some("CREATE_FAILED"), None),
            // As with Cluster API.
            group("in the cluster's", Some("CREATE_COMPLETE"), Some("own")),
            group("removed", Some("DELETE_IN_PROGRESS"), Some("a")),
            group("changed", Some("UPDATE_IN_PROGRESS"), None),
        ];
        let beside = [
            (OperationKind::NodegroupCreate, Some("made".to_owned())),
            (OperationKind::NodegroupDelete, Some("removed".to_owned())),
            (OperationKind::ClusterResize, Some("changed".to_owned())),
            (OperationKind::ClusterResize, Some("silent".to_owned())),
        ];
        let expected = |first| std::iter::once((first, None)).chain(beside.clone()).collect::<Vec<_>>();
        assert_eq!(kinds(Status::UpdateInProgress, &groups), expected(OperationKind::ClusterResize));
        assert_eq!(kinds(Status::CreateInProgress, &groups), expected(OperationKind::ClusterCreate));
        assert_eq!(kinds(Status::DeleteInProgress, &groups), [(OperationKind::ClusterDelete, None)]);
    }
}
