//! The state machine of clusters and nodegroups: the words, which operation may begin in which state, and where its outcome leads.
//!
//! No other file compares statuses to decide whether something is allowed. The functions are exhaustive on purpose: a new operation or
//! status must be answered here before the program compiles.
//!
//! Operations on one cluster run one at a time, in order of acceptance. A request that comes while others are unfinished is refused, waits
//! behind them, adds nothing to the same work, or supersedes them: `begin` says which.

mod exits;
mod found;
mod newer;
mod words;

pub use exits::{Cancel, NoExit, cancel, may_come_to_retry, may_retry, mends, retry};
pub use found::{Found, taken_up};
pub use newer::beside_unknown;
pub use words::Status;

use crate::operation::{OperationKind, OperationState};

/// Operations of one cluster that may be unfinished at once; one more is refused.
pub const MOST_UNFINISHED: usize = 64;

/// What accepting a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Store the operation (behind what is unfinished) and move the cluster or the group to this status.
    Start(Status),
    /// The same work, or work that includes it, is stored already and unfinished: nothing is to be done for it.
    Coalesce,
    /// As `Start`, and whatever else is unfinished on the cluster gives way.
    Supersede(Status),
}

/// The request is refused in this state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} in status {} cannot begin {}{}", .status.map_or("(none)", Status::as_str), .kind.phrase(), self.instead())]
pub struct Refused {
    /// `cluster` or `nodegroup`.
    pub what: &'static str,
    pub status: Option<Status>,
    pub kind: OperationKind,
    /// What could be asked for now.
    pub allowed: Vec<OperationKind>,
    /// Too many operations wait already.
    pub is_full: bool,
}

impl Refused {
    fn instead(&self) -> String {
        if self.is_full {
            return format!(": {MOST_UNFINISHED} operations wait already");
        }
        match &self.allowed[..] {
            [] => String::new(),
            kinds => format!("; possible now: {}", kinds.iter().map(|k| k.phrase()).collect::<Vec<_>>().join(", ")),
        }
    }
}

impl OperationKind {
    /// The kind in words for a user.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::ClusterCreate => "create",
            Self::ClusterDelete => "delete",
            Self::ClusterForceDelete => "force-delete",
            Self::ClusterAbandon => "abandon",
            Self::ClusterUpdate => "update",
            Self::ClusterResize => "resize",
            Self::ClusterUpgrade => "upgrade",
            Self::NodegroupCreate => "nodegroup create",
            Self::NodegroupUpdate => "nodegroup update",
            Self::NodegroupDelete => "nodegroup delete",
            Self::CaRotate => "CA rotation",
            Self::CredentialRotate => "credential rotation",
        }
    }

    /// Which groups an operation changes.
    pub fn concerns(self) -> Concerns {
        match self {
            Self::ClusterCreate | Self::ClusterDelete | Self::ClusterForceDelete | Self::ClusterAbandon => Concerns::AllGroups,
            Self::ClusterUpdate | Self::ClusterResize | Self::NodegroupCreate | Self::NodegroupUpdate | Self::NodegroupDelete => {
                Concerns::OneGroup
            }
            Self::ClusterUpgrade => Concerns::OneGroup,
            Self::CaRotate | Self::CredentialRotate => Concerns::NoGroup,
        }
    }

    /// Whether it replaces nodes by new ones.
    pub fn replaces_nodes(self) -> bool {
        matches!(self, Self::ClusterUpgrade | Self::CaRotate)
    }

    /// Whether it may wait behind others, or begin after a failed one; the rest need a cluster at rest and sound (conductor.md 4).
    fn may_queue(self) -> bool {
        match self {
            Self::ClusterResize | Self::NodegroupCreate | Self::NodegroupUpdate | Self::NodegroupDelete | Self::CredentialRotate => true,
            Self::ClusterCreate | Self::ClusterDelete | Self::ClusterForceDelete | Self::ClusterAbandon => false,
            Self::ClusterUpdate | Self::ClusterUpgrade | Self::CaRotate => false,
        }
    }

    /// How far a kind goes to be rid of the cluster; none for kinds that keep it. One that goes further supersedes one that goes less far.
    pub fn removal(self) -> Option<u8> {
        match (self.deed(), self) {
            (Deed::Create | Deed::Update, _) => None,
            (Deed::Delete, Self::ClusterAbandon) => Some(3),
            (Deed::Delete, Self::ClusterForceDelete) => Some(2),
            (Deed::Delete, _) => Some(1),
        }
    }

    /// What it does to its cluster.
    fn deed(self) -> Deed {
        match self {
            Self::ClusterCreate => Deed::Create,
            Self::ClusterDelete | Self::ClusterForceDelete | Self::ClusterAbandon => Deed::Delete,
            Self::ClusterUpdate | Self::ClusterResize | Self::ClusterUpgrade => Deed::Update,
            Self::NodegroupCreate | Self::NodegroupUpdate | Self::NodegroupDelete => Deed::Update,
            Self::CaRotate | Self::CredentialRotate => Deed::Update,
        }
    }

    /// What it does to the groups that it concerns.
    fn deed_to_group(self) -> Deed {
        match self {
            Self::NodegroupCreate => Deed::Create,
            Self::NodegroupDelete => Deed::Delete,
            other => other.deed(),
        }
    }
}

/// What an operation does to a cluster or a group. Upstream's words come in such threes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Create,
    Update,
    Delete,
}

impl Deed {
    /// The status while it is at work, or waits.
    fn at_work(self) -> Status {
        match self {
            Self::Create => Status::CreateInProgress,
            Self::Update => Status::UpdateInProgress,
            Self::Delete => Status::DeleteInProgress,
        }
    }

    /// The status once it has succeeded; none: the row is gone.
    fn done(self) -> Option<Status> {
        match self {
            Self::Create => Some(Status::CreateComplete),
            Self::Update => Some(Status::UpdateComplete),
            Self::Delete => None,
        }
    }

    /// The status once it has failed.
    fn failed(self) -> Status {
        match self {
            Self::Create => Status::CreateFailed,
            Self::Update => Status::UpdateFailed,
            Self::Delete => Status::DeleteFailed,
        }
    }
}

/// Which groups of its cluster an operation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concerns {
    /// The cluster as a whole.
    AllGroups,
    /// The group that its payload names, else the default worker group.
    OneGroup,
    NoGroup,
}

impl Status {
    /// Upstream's set of statuses in which an existing cluster may be changed (conductor.md 4).
    pub fn is_complete(self) -> bool {
        match self {
            Self::CreateComplete
            | Self::UpdateComplete
            | Self::ResumeComplete
            | Self::RestoreComplete
            | Self::RollbackComplete
            | Self::SnapshotComplete
            | Self::CheckComplete
            | Self::AdoptComplete => true,
            Self::CreateInProgress
            | Self::CreateFailed
            | Self::UpdateInProgress
            | Self::UpdateFailed
            | Self::DeleteInProgress
            | Self::DeleteFailed
            | Self::DeleteComplete
            | Self::ResumeFailed
            | Self::RollbackInProgress
            | Self::RollbackFailed => false,
        }
    }

    fn is_update_failed_or_running(self) -> bool {
        matches!(self, Self::UpdateFailed | Self::UpdateInProgress)
    }
}

/// Whether `kind` may begin on a cluster in `current` (none: the row does not exist yet), while operations of the kinds `unfinished` have
/// not ended, oldest first.
pub fn begin(current: Option<Status>, unfinished: &[OperationKind], kind: OperationKind) -> Result<Begin, Refused> {
    let refuse = |is_full| {
        // What only admins may ask for by default is no advice to a user.
        let is_usual = |k: &OperationKind| k.removal().is_none_or(|_| *k == OperationKind::ClusterDelete);
        let allowed = OperationKind::ALL.iter().copied().filter(|k| is_usual(k) && permits(current, unfinished, *k)).collect();
        Err(Refused { what: "cluster", status: current, kind, allowed, is_full })
    };
    // With the cluster go its groups: who removes both, one after the other, is not held up at the group.
    if kind == OperationKind::NodegroupDelete && unfinished.last().is_some_and(|last| last.removal().is_some()) {
        return Ok(Begin::Coalesce);
    }
    if !permits(current, unfinished, kind) {
        return refuse(false);
    }
    let begun = kind.deed().at_work();
    match kind.deed() {
        Deed::Create => Ok(Begin::Start(begun)),
        // A second one adds nothing while the first is at work, or one that goes further.
        Deed::Delete => Ok(match unfinished.last() {
            None => Begin::Start(begun),
            Some(last) if last.removal() >= kind.removal() => Begin::Coalesce,
            Some(_) => Begin::Supersede(begun),
        }),
        Deed::Update => match unfinished.len() {
            n if n >= MOST_UNFINISHED => refuse(true),
            _ => Ok(Begin::Start(begun)),
        },
    }
}

fn permits(current: Option<Status>, unfinished: &[OperationKind], kind: OperationKind) -> bool {
    match (kind, current) {
        (OperationKind::ClusterCreate, None) => unfinished.is_empty(),
        (OperationKind::ClusterCreate, Some(_)) => false,
        // Accepted in every state.
        (kind, _) if kind.removal().is_some() => true,
        (_, None) => false,
        (_, Some(_)) if unfinished.iter().any(|k| *k == OperationKind::ClusterCreate || k.removal().is_some()) => false,
        (kind, Some(status)) if kind.may_queue() => status.is_complete() || status.is_update_failed_or_running(),
        // One that failed half-way is gone on with by asking for it again.
        (OperationKind::CaRotate, Some(Status::UpdateFailed)) => unfinished.is_empty(),
        (_, Some(status)) => status.is_complete() && unfinished.is_empty(),
    }
}

/// As [`begin`], for the one group that an operation is about: `current` is the group's own status. The cluster has to agree too.
///
/// A group being made may be resized and updated (the wish waits behind its making, and makes it where that fails); one being deleted, or whose
/// deletion failed, can only be deleted.
pub fn begin_group(current: Option<Status>, kind: OperationKind) -> Result<Begin, Refused> {
    let permitted = |kind: OperationKind| match (kind, current) {
        (OperationKind::NodegroupDelete, _) => true,
        (_, Some(Status::DeleteInProgress | Status::DeleteFailed | Status::DeleteComplete)) => false,
        (OperationKind::ClusterResize | OperationKind::ClusterUpdate, _) => true,
        (OperationKind::NodegroupUpdate, Some(Status::CreateInProgress)) => true,
        // Upstream's guard.
        (OperationKind::NodegroupUpdate | OperationKind::ClusterUpgrade, None) => true,
        (OperationKind::NodegroupUpdate | OperationKind::ClusterUpgrade, Some(s)) => s.is_complete() || s.is_update_failed_or_running(),
        // Only to do again what failed: otherwise there is no group to ask about yet.
        (OperationKind::NodegroupCreate, _) => current == Some(Status::CreateFailed),
        (OperationKind::ClusterCreate, _) => true,
        (OperationKind::ClusterDelete | OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon, _) => true,
        (OperationKind::CaRotate | OperationKind::CredentialRotate, _) => true,
    };
    if !permitted(kind) {
        let group_kinds = [OperationKind::ClusterResize, OperationKind::NodegroupUpdate, OperationKind::NodegroupDelete];
        let allowed = group_kinds.into_iter().filter(|k| permitted(*k)).collect();
        return Err(Refused { what: "nodegroup", status: current, kind, allowed, is_full: false });
    }
    match (kind, current) {
        (OperationKind::NodegroupDelete, Some(Status::DeleteInProgress)) => Ok(Begin::Coalesce),
        _ => Ok(Begin::Start(group_at_work(kind))),
    }
}

/// The status of a group while an operation about it waits or is at work.
pub fn group_at_work(kind: OperationKind) -> Status {
    kind.deed_to_group().at_work()
}

/// What else there is on a cluster when one of its operations ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Other operations wait.
    pub others_wait: bool,
    /// A group that the operation did not change is in a failed status.
    pub other_group_failed: bool,
    /// The cluster's status before the request, for one that was cancelled before it had begun.
    pub before: Option<Status>,
}

/// The status in which an ended operation leaves its cluster; none when the row goes or when another operation has taken over.
///
/// While others wait the cluster is still being changed. A sound operation does not hide that another group has failed.
pub fn settle(kind: OperationKind, end: OperationState, rest: Rest) -> Option<Status> {
    let deed = kind.deed();
    match (deed, end) {
        (_, OperationState::Queued | OperationState::Running | OperationState::Superseded) => None,
        (Deed::Update, OperationState::Succeeded | OperationState::Failed | OperationState::Cancelled) => Some(match rest {
            Rest { others_wait: true, .. } => deed.at_work(),
            Rest { other_group_failed: true, .. } => deed.failed(),
            Rest { before, .. } if end == OperationState::Cancelled => undisturbed(before).unwrap_or(Status::UpdateComplete),
            Rest { .. } if end == OperationState::Failed => deed.failed(),
            Rest { .. } => Status::UpdateComplete,
        }),
        (Deed::Create | Deed::Delete, OperationState::Succeeded) => deed.done(),
        (Deed::Create | Deed::Delete, OperationState::Failed) => Some(deed.failed()),
        (Deed::Create, OperationState::Cancelled) => Some(deed.failed()),
        (Deed::Delete, OperationState::Cancelled) => Some(undisturbed(rest.before).unwrap_or(deed.failed())),
    }
}

/// The status of something whose request was cancelled before it had begun: as it was before. What was at work then was superseded by the
/// request, and so has failed.
fn undisturbed(before: Option<Status>) -> Option<Status> {
    before.map(|status| status.given_up().unwrap_or(status))
}

/// The status in which an ended operation leaves the group or groups it concerns; none when the row goes or stays as it is. `before` is the
/// group's status before the request, for one that was cancelled before it had begun.
pub fn settle_group(kind: OperationKind, end: OperationState, before: Option<Status>) -> Option<Status> {
    if kind.concerns() == Concerns::NoGroup {
        return None;
    }
    let deed = kind.deed_to_group();
    match end {
        OperationState::Queued | OperationState::Running | OperationState::Superseded => None,
        OperationState::Succeeded => deed.done(),
        OperationState::Failed => Some(deed.failed()),
        OperationState::Cancelled if deed == Deed::Create => Some(deed.failed()),
        OperationState::Cancelled => undisturbed(before),
    }
}

#[cfg(test)]
mod tests;
