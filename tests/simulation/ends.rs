//! How operations ended, which steps they took, and what came of what Kubernetes had made, counted: whether the users of many seeds have met
//! everything that they should.

use std::collections::BTreeMap;
use std::fmt;

use model::id::OperationId;
use model::operation::{Operation, OperationKind, OperationState};
use model::resource::ResourceKind;
use model::store::operation::JOINED;
use model::store::{Conn, Store, StoreError, event};

use crate::older::LEFT;

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
        (OperationKind::CredentialRotate, OperationState::Failed),
    ],
);

/// What else must come: what becomes of things that Kubernetes made for clusters that are removed.
const OF_THINGS: (u64, &[(ResourceKind, &str)]) = (
    100,
    &[
        (ResourceKind::LoadBalancer, "REMOVED"),
        (ResourceKind::FloatingIp, "REMOVED"),
        (ResourceKind::Volume, "REMOVED"),
        (ResourceKind::Volume, "LEFT"),
    ],
);

/// Steps that replacements and resizes take past members that did not become nodes, by the kinds and words of their events.
const STEPS: [(&str, &str, &str); 4] = [
    ("node_replacement", "given up: ", "GIVEN UP"),
    ("node_replacement", "which never joined", "DISCARDED"),
    ("node_replacement", "once more what failed", "TRIED AGAIN"),
    ("nodes_given_up", "", "GIVEN UP"),
];
/// They must come in so many seeds, and what a conductor of an earlier release leaves to others ([`LEFT`]).
const SEEDS_FOR_STEPS: u64 = 1_000;

/// How many operations of each kind ended in each state, by their words, and what else was noted so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends(BTreeMap<(String, String), u64>);

impl Ends {
    /// Of these operations.
    pub fn of(rows: &[Operation]) -> Self {
        let mut ends: BTreeMap<(String, String), u64> = BTreeMap::new();
        // What joined a removal was not cut off by it.
        for row in rows.iter().filter(|row| !row.outcome_reason.as_ref().is_some_and(|reason| reason.starts_with(JOINED))) {
            *ends.entry((row.kind.clone(), row.state.clone())).or_default() += 1;
        }
        Self(ends)
    }

    /// Of the steps that these operations took past members that did not become nodes.
    ///
    /// # Errors
    /// What the store says.
    pub async fn of_steps(store: &Store, operations: &[OperationId]) -> Result<Self, StoreError> {
        let mut ends = Self::default();
        for id in operations {
            let events = store.read(async |conn: &mut Conn| event::of_kinds(conn, id, &[STEPS[0].0, STEPS[3].0]).await).await?;
            for (kind, words, step) in STEPS {
                for _ in events.iter().filter(|event| event.kind == kind && event.message.contains(words)) {
                    ends.note(kind, step);
                }
            }
        }
        Ok(ends)
    }

    /// Notes what came of something, by their words.
    pub fn note(&mut self, what: &str, came_of_it: &str) {
        *self.0.entry((what.to_owned(), came_of_it.to_owned())).or_default() += 1;
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
        let of_operations = [OFTEN, RARELY].into_iter().filter(|(within, _)| seeds >= *within).flat_map(|(_, ends)| ends);
        let of_things = [OF_THINGS].into_iter().filter(|(within, _)| seeds >= *within).flat_map(|(_, ends)| ends);
        let due =
            of_operations.map(|(kind, state)| (kind.as_str(), state.as_str())).chain(of_things.map(|(kind, end)| (kind.as_str(), *end)));
        let steps = STEPS.into_iter().filter(|_| seeds >= SEEDS_FOR_STEPS).map(|(kind, _, step)| (kind, step));
        let left = [LEFT].into_iter().filter(|_| seeds >= SEEDS_FOR_STEPS);
        let due = due.chain(steps).chain(left);
        let has_come = |what: &str, end: &str| self.0.iter().any(|((w, e), count)| w == what && e == end && *count > 0);
        due.filter(|&(what, end)| !has_come(what, end)).map(|(what, end)| format!("no {what} is {end}")).collect()
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((kind, state), count) in &self.0 {
            writeln!(f, "{kind:<23}{state:<12}{count}")?;
        }
        Ok(())
    }
}
