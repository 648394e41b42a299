//! The resources of a stack as the tree that they are: groups, the nodes in them, and what each node is made of.

use std::collections::HashMap;

use provider_clients::StackResource;

use super::pools;
use crate::driver::PoolKind;

/// A stack by name and id.
type Place = (String, String);

/// Found once for all nodes: a list of some thousand resources is not gone through again for each.
pub(super) struct Tree<'a> {
    resources: &'a [StackResource],
    inside: HashMap<Place, Vec<&'a StackResource>>,
}

impl<'a> Tree<'a> {
    /// Of the resources of a stack and of those that are nested in it, as Heat lists them.
    pub(super) fn new(resources: &'a [StackResource]) -> Self {
        let mut inside: HashMap<Place, Vec<&StackResource>> = HashMap::new();
        for resource in resources {
            if let Some(place) = resource.stack() {
                inside.entry(place).or_default().push(resource);
            }
        }
        Self { resources, inside }
    }

    /// Whether the stack has such a pool, be it empty.
    pub(super) fn has(&self, kind: PoolKind) -> bool {
        self.pool(kind).is_some()
    }

    /// What stands for the members of a pool, one level below the stack.
    pub(super) fn members(&self, kind: PoolKind) -> &[&'a StackResource] {
        self.pool(kind).map_or(&[], |pool| self.parts(pool))
    }

    fn pool(&self, kind: PoolKind) -> Option<&'a StackResource> {
        self.resources.iter().find(|r| r.resource_name == pools::names(kind).group && r.parent_resource.is_none())
    }

    /// What a member is made of.
    pub(super) fn parts(&self, member: &StackResource) -> &[&'a StackResource] {
        member.nested_stack().and_then(|own| self.inside.get(&own)).map_or(&[], Vec::as_slice)
    }

    /// A part of a member, by its type.
    pub(super) fn part(&self, member: &StackResource, of_type: &str) -> Option<&'a StackResource> {
        self.parts(member).iter().copied().find(|r| r.resource_type == of_type)
    }
}

/// What a resource is in its own service, once it is there.
pub(super) fn id(resource: &StackResource) -> Option<&str> {
    Some(resource.physical_resource_id.as_str()).filter(|id| !id.is_empty())
}
