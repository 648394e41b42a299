//! How operations ended, counted: whether the users of many seeds have met everything that they should.

use std::collections::BTreeMap;
use std::fmt;

use model::operation::{Operation, OperationKind, OperationState};

/// Ends that must come in so many seeds, one after the other, or in a multiple of them.
const OFTEN: (u64, &[(OperationKind, OperationState)]) = (
    100,
    &[
        (OperationKind::ClusterCreate, OperationState::Succeeded),
        (OperationKind::ClusterDelete, OperationState::Succeeded),
        (OperationKind::ClusterForceDelete, OperationState::Succeeded),
        (OperationKind::ClusterAbandon, OperationState::Succeeded),
        (OperationKind::ClusterUpdate, OperationState::Succeeded),
        (OperationKind::ClusterResize, OperationState::Succeeded),
        (OperationKind::ClusterResize, OperationState::Cancelled),
        (OperationKind::ClusterUpgrade, OperationState::Succeeded),
        (OperationKind::NodegroupCreate, OperationState::Succeeded),
        (OperationKind::NodegroupUpdate, OperationState::Succeeded),
        (OperationKind::NodegroupDelete, OperationState::Succeeded),
        (OperationKind::CaRotate, OperationState::Succeeded),
        (OperationKind::CredentialRotate, OperationState::Succeeded),
    ],
);

/// Those that are rarer.
const RARELY: (u64, &[(OperationKind, OperationState)]) = (
    1_000,
    &[
        (OperationKind::ClusterCreate, OperationState::Failed),
        (OperationKind::ClusterCreate, OperationState::Cancelled),
        (OperationKind::ClusterCreate, OperationState::Superseded),
        (OperationKind::ClusterDelete, OperationState::Superseded),
        (OperationKind::ClusterResize, OperationState::Failed),
        (OperationKind::ClusterResize, OperationState::Superseded),
        (OperationKind::ClusterUpgrade, OperationState::Failed),
        (OperationKind::NodegroupCreate, OperationState::Cancelled),
        (OperationKind::CaRotate, OperationState::Failed),
    ],
);

/// How many operations of each kind ended in each state, by their words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends(BTreeMap<(String, String), u64>);

impl Ends {
    /// Of these operations.
    pub fn of(rows: &[Operation]) -> Self {
        let mut ends: BTreeMap<(String, String), u64> = BTreeMap::new();
        for row in rows {
            *ends.entry((row.kind.clone(), row.state.clone())).or_default() += 1;
        }
        Self(ends)
    }

    /// All of several seeds.
    pub fn sum<'a>(each: impl Iterator<Item = &'a Self>) -> Self {
        let mut ends: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (end, count) in each.flat_map(|ends| &ends.0) {
            *ends.entry(end.clone()).or_default() += count;
        }
        Self(ends)
    }

    /// What should have come in so many seeds and has not, in words.
    pub fn missing(&self, seeds: u64) -> Vec<String> {
        let due = [OFTEN, RARELY].into_iter().filter(|(within, _)| seeds >= *within).flat_map(|(_, ends)| ends);
        let has_come = |kind: OperationKind, state: OperationState| {
            self.0.iter().any(|((k, s), count)| k == kind.as_str() && s == state.as_str() && *count > 0)
        };
        due.filter(|(kind, state)| !has_come(*kind, *state)).map(|(k, s)| format!("no {} is {}", k.as_str(), s.as_str())).collect()
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((kind, state), count) in &self.0 {
            writeln!(f, "{kind:<21}{state:<12}{count}")?;
        }
        Ok(())
    }
}
