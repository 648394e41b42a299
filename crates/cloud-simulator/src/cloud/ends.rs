//! How what a stack is doing ends, where that is not left to the clock.

use chrono::TimeDelta;
use serde_json::json;

use super::Cloud;
use crate::{clock, heat::Mishap};

impl Cloud {
    /// Ends well what a stack is doing now. Says whether there is such a stack.
    pub fn complete_stack(&self, name_or_id: &str) -> bool {
        let now = clock::now();
        let mut world = self.world();
        let Some(stack) = world.heat.live_mut(name_or_id) else {
            return false;
        };
        stack.complete(now);
        world.advance(now);
        true
    }

    /// Ends badly what a stack is doing now. Says whether there is such a stack.
    pub fn fail_stack(&self, name_or_id: &str, reason: &str) -> bool {
        let mut world = self.world();
        let Some(stack) = world.heat.live_mut(name_or_id) else {
            return false;
        };
        stack.break_off(reason, clock::now());
        true
    }

    /// Has members of groups, by their paths (`kube_masters/1`), say that they did not become nodes: the stack fails at them, now and whenever it is
    /// tried again. Beside each is what it says of itself by data. Says whether there are such members.
    pub fn fail_members(&self, stack: &str, members: &[(&str, &str)], reason: &str) -> bool {
        let now = clock::now();
        let mut world = self.world();
        let Some(stack) = world.heat.live_mut(stack) else {
            return false;
        };
        for (member, data) in members {
            let inside = format!("{member}/");
            let mut handles = stack.resources.iter().filter(|r| r.acts_as == "OS::Heat::WaitConditionHandle");
            let Some(handle) = handles.find(|r| r.path.starts_with(&inside)).map(|r| r.path.clone()) else {
                return false;
            };
            let said = json!({"status": "FAILURE", "reason": reason, "data": data});
            stack.signals.entry(handle).or_default().insert((*member).to_owned(), said);
        }
        world.advance(now);
        true
    }

    /// The members of groups that a stack makes or waits for now, by their paths (`kube_masters/1`); none where it does nothing.
    pub fn awaited_members(&self, stack: &str) -> Vec<String> {
        self.world().heat.live(None, stack).map(|stack| stack.awaited_members()).unwrap_or_default()
    }

    /// Has a member of a group not become a node: the stack fails at it when what it is doing now would end. Says whether that can be.
    pub fn spoil_member(&self, stack: &str, member: &str, mishap: Mishap) -> bool {
        self.world().heat.live_mut(stack).is_some_and(|stack| stack.spoil(member, mishap))
    }

    /// Members of groups of a stack that have not become nodes, by their paths, with what befell them.
    pub fn spoiled_members(&self, stack: &str) -> Vec<(String, Mishap)> {
        self.world().heat.live(None, stack).map(|stack| stack.spoiled()).unwrap_or_default()
    }

    /// Deletes a stack at once, as somebody else might. Says whether there was such a stack.
    pub fn remove_stack(&self, name_or_id: &str) -> bool {
        let now = clock::now();
        let mut world = self.world();
        let Some(stack) = world.heat.live_mut(name_or_id) else {
            return false;
        };
        stack.begin_delete(now, TimeDelta::zero());
        stack.complete(now);
        world.advance(now);
        true
    }
}
