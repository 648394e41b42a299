//! What there is among the resources of a stack: by it one of thousands of stacks is passed over that has nothing of what is asked for.

use std::collections::{HashMap, HashSet};

use super::{Resource, Stack};

/// What there is among the resources of a stack.
#[derive(Default)]
pub(super) struct Contents {
    /// The types that they have after the environment's registry.
    kinds: HashSet<String>,
    /// Their places, by the ids of the things that they are in their own services.
    places: HashMap<String, usize>,
}

impl Contents {
    pub(super) fn of(resources: &[Resource]) -> Self {
        Self {
            kinds: resources.iter().map(|resource| resource.acts_as.clone()).collect(),
            places: resources.iter().enumerate().map(|(place, resource)| (resource.physical.clone(), place)).collect(),
        }
    }
}

impl Stack {
    /// Whether it has resources of one of these types, or had before they were deleted.
    pub(crate) fn has_any(&self, kinds: &[&str]) -> bool {
        kinds.iter().any(|kind| self.contents.kinds.contains(*kind))
    }

    /// What it has that is a thing of this id, or was before it was deleted.
    pub(crate) fn made(&self, id: &str) -> Option<&Resource> {
        self.resources.get(*self.contents.places.get(id)?)
    }
}
