//! What the matrix asks for, and of which effects it is met.

use model::operation::OperationKind;

use super::Effect;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Create,
    /// Once more, after its stack has failed.
    RetryCreate,
    Delete,
    /// While its stack is made: the creation gives way.
    DeleteInMaking,
    ForceDelete,
    Abandon,
    Patch,
    Grow,
    /// Once more, after its stack has failed at it.
    RetryGrow,
    RemoveNode,
    CreateGroup,
    UpdateGroup,
    GrowGroup,
    DeleteGroup,
    RotateCredentials,
    RotateAuthorities,
    Upgrade,
}

/// All of them.
pub(super) const ACTS: [Act; 17] = [
    Act::Create,
    Act::RetryCreate,
    Act::Delete,
    Act::DeleteInMaking,
    Act::ForceDelete,
    Act::Abandon,
    Act::Patch,
    Act::Grow,
    Act::RetryGrow,
    Act::RemoveNode,
    Act::CreateGroup,
    Act::UpdateGroup,
    Act::GrowGroup,
    Act::DeleteGroup,
    Act::RotateCredentials,
    Act::RotateAuthorities,
    Act::Upgrade,
];

impl Act {
    pub(super) fn kind(self) -> OperationKind {
        match self {
            Self::Create | Self::RetryCreate => OperationKind::ClusterCreate,
            Self::Delete | Self::DeleteInMaking => OperationKind::ClusterDelete,
            Self::ForceDelete => OperationKind::ClusterForceDelete,
            Self::Abandon => OperationKind::ClusterAbandon,
            Self::Patch => OperationKind::ClusterUpdate,
            Self::Grow | Self::RetryGrow | Self::RemoveNode | Self::GrowGroup => OperationKind::ClusterResize,
            Self::CreateGroup => OperationKind::NodegroupCreate,
            Self::UpdateGroup => OperationKind::NodegroupUpdate,
            Self::DeleteGroup => OperationKind::NodegroupDelete,
            Self::RotateCredentials => OperationKind::CredentialRotate,
            Self::RotateAuthorities => OperationKind::CaRotate,
            Self::Upgrade => OperationKind::ClusterUpgrade,
        }
    }

    /// Whether the cluster is gone afterwards.
    pub(super) fn removes(self) -> bool {
        self.kind().removal().is_some()
    }

    /// How many of the operations that its cluster has had by its end did not succeed.
    pub(super) fn unsuccessful(self) -> usize {
        usize::from(matches!(self, Self::RetryCreate | Self::RetryGrow | Self::DeleteInMaking))
    }

    /// The effects that are met, of all that it has.
    pub(super) fn thinned(self, mut found: Vec<Effect>) -> Vec<Effect> {
        let last = found.len();
        match self {
            // Three rounds of what an upgrade does: where each begins, and where the last ends.
            Self::RotateAuthorities => found.retain(|effect| [1, 7, 9].contains(&effect.nth) || effect.nth as usize == last),
            // What a deletion does, at each effect of which it is met, in an order of their own or of less: where they begin and where they end.
            Self::DeleteInMaking | Self::ForceDelete | Self::Abandon => {
                drop(found.drain(1.min(last)..last.saturating_sub(1).max(1.min(last))))
            }
            // The failed stack goes and another comes; all else is as in a creation.
            Self::RetryCreate => found.retain(|effect| effect.name.starts_with("heat.")),
            _ => {}
        }
        found
    }
}

#[test]
fn every_kind_of_operation_is_met() {
    for kind in OperationKind::ALL {
        assert!(ACTS.iter().any(|act| act.kind() == *kind), "{kind:?}");
    }
}
