//! Members of groups that do not become nodes, and what a stack fails at.
//!
//! What befalls a member is said beforehand, and shows when what the stack is doing would end: until then nothing tells it from others.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Action, Phase, Resource, Stack};
use crate::clock::Moment;

const CONDITION: &str = "OS::Heat::WaitCondition";
const HANDLE: &str = "OS::Heat::WaitConditionHandle";
const SERVER: &str = "OS::Nova::Server";

/// How a member of a group does not become a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Its machine says that it failed, and by data what it is. Heat keeps that.
    Says(String),
    /// Its machine says nothing until Heat waits no longer, however often it is waited for.
    Silent,
    /// There is no machine. There is one when the stack is tried again.
    NoServer,
}

/// What the present action fails at.
pub(super) struct Failure {
    /// Its place among what the action touches, and among the resources.
    place: usize,
    index: usize,
    reason: String,
}

impl Stack {
    /// The members of groups that the stack makes or waits for now, by their paths.
    pub(crate) fn awaited_members(&self) -> Vec<String> {
        if self.phase != Phase::InProgress || self.action == Action::Delete {
            return Vec::new();
        }
        let conditions = self.pending.iter().map(|index| &self.resources[*index]).filter(|resource| resource.acts_as == CONDITION);
        conditions.filter_map(|condition| member_of(condition).map(str::to_owned)).collect()
    }

    /// Has a member not become a node. Says whether that can be: that there is such a member, and for one without a machine, that this is to be
    /// made yet.
    pub(crate) fn spoil(&mut self, member: &str, mishap: Mishap) -> bool {
        let is_its = |resource: &Resource, kind: &str| resource.acts_as == kind && member_of(resource) == Some(member);
        let can_be = match mishap {
            Mishap::NoServer => self.pending.iter().any(|index| is_its(&self.resources[*index], SERVER)),
            Mishap::Says(_) | Mishap::Silent => self.resources.iter().any(|resource| is_its(resource, CONDITION)),
        };
        if can_be {
            self.mishaps.insert(member.to_owned(), mishap);
        }
        can_be
    }

    /// Members that are there and have not become nodes, with what befell them; or that will not. Those without a machine are not among them.
    pub(crate) fn spoiled(&self) -> Vec<(String, Mishap)> {
        let spoiled = self.mishaps.iter().filter(|(_, mishap)| **mishap != Mishap::NoServer);
        spoiled.map(|(member, mishap)| (member.clone(), mishap.clone())).collect()
    }

    /// Forgets what befell members that are gone, and what they said: their numbers may come again.
    pub(super) fn forget_the_gone(&mut self) {
        let resources = &self.resources;
        self.mishaps.retain(|member, _| resources.iter().any(|resource| member_of(resource) == Some(member.as_str())));
        self.signals.retain(|handle, _| resources.iter().any(|resource| resource.path == *handle));
    }

    /// What the present action fails at, in the order in which it touches it; `is_due`: otherwise it would end now. A condition that is tried again
    /// finds what its handle was told before. Whoever has said nothing then is waited for no longer, and comes last.
    pub(super) fn failures(&mut self, is_due: bool) -> Vec<Failure> {
        if self.action == Action::Delete || (self.signals.is_empty() && self.mishaps.is_empty()) {
            return Vec::new();
        }
        if is_due {
            self.let_speak();
        }
        let mut failed = self.failing(|resource| self.reason_to_fail(resource, is_due));
        if !failed.is_empty() && !is_due {
            failed.extend(self.failing(|resource| self.reason_to_abort(resource)));
        }
        failed
    }

    /// What there is a reason to fail for, of all that the present action touches.
    fn failing(&self, reason: impl Fn(&Resource) -> Option<String>) -> Vec<Failure> {
        let touched = self.pending.iter().enumerate();
        let failing = touched.filter_map(|(place, index)| Some(Failure { place, index: *index, reason: reason(&self.resources[*index])? }));
        failing.collect()
    }

    /// Ends the present action badly at these; where it would have ended now, all the rest is done.
    pub(super) fn fail_at(&mut self, failed: &[Failure], is_due: bool, now: Moment) {
        let Some(first) = failed.first() else { return };
        self.reach(if is_due { self.pending.len() } else { first.place }, now);
        for failure in failed {
            // Before the stack fails: what it goes back to then has other resources.
            self.set(failure.index, Phase::Failed, &failure.reason, now);
            if self.resources[failure.index].acts_as == SERVER {
                self.befell(failure.index);
            }
        }
        // One that the clock has taken for a success already.
        self.done = first.place;
        self.fail(&first.reason, now);
    }

    /// A member has no machine: nobody waits for it, and it has one the next time.
    fn befell(&mut self, server: usize) {
        let Some(member) = member_of(&self.resources[server]).map(str::to_owned) else { return };
        self.mishaps.remove(&member);
        let condition = self.resources.iter_mut().find(|r| r.acts_as == CONDITION && member_of(r) == Some(member.as_str()));
        if let Some(condition) = condition {
            condition.status = None;
        }
    }

    /// Machines that are waited for say what they have to say, once.
    fn let_speak(&mut self) {
        let mut said = Vec::new();
        for condition in self.pending.iter().map(|index| &self.resources[*index]).filter(|resource| resource.acts_as == CONDITION) {
            let Some(member) = member_of(condition) else { continue };
            if let (Some(Mishap::Says(data)), Some(handle)) = (self.mishaps.get(member), self.handle_of(condition)) {
                said.push((handle.path.clone(), member.to_owned(), data.clone()));
            }
        }
        for (handle, member, data) in said {
            let signals = self.signals.entry(handle).or_default();
            if signals.is_empty() {
                signals.insert(member, json!({"status": "FAILURE", "reason": "kubeadm join failed", "data": data}));
            }
        }
    }

    fn reason_to_fail(&self, resource: &Resource, is_due: bool) -> Option<String> {
        let name = &resource.name;
        let mishap = member_of(resource).and_then(|member| self.mishaps.get(member)).filter(|_| is_due);
        if resource.acts_as == SERVER && mishap == Some(&Mishap::NoServer) {
            return Some(format!(
                "ResourceInError: resources.{name}: Went to status ERROR due to \"Message: No valid host was found., Code: 500\""
            ));
        }
        if resource.acts_as != CONDITION {
            return None;
        }
        let said = self.signals.get(&self.handle_of(resource)?.path);
        if let Some(failed) = said.and_then(|said| said.values().find(|signal| signal["status"] != "SUCCESS")) {
            let reason = failed["reason"].as_str().unwrap_or_default();
            return Some(format!("WaitConditionFailure: resources.{name}: {reason}"));
        }
        let is_silent = mishap == Some(&Mishap::Silent) && said.is_none_or(BTreeMap::is_empty);
        is_silent.then(|| format!("WaitConditionTimeout: resources.{name}: 0 of 1 received"))
    }

    /// Why a member that will be no node is not waited for any longer.
    fn reason_to_abort(&self, resource: &Resource) -> Option<String> {
        let mishap = member_of(resource).and_then(|member| self.mishaps.get(member));
        let waits = resource.acts_as == CONDITION && matches!(mishap, Some(Mishap::Says(_) | Mishap::Silent));
        let said = self.signals.get(&self.handle_of(resource).filter(|_| waits)?.path);
        said.is_none_or(BTreeMap::is_empty).then(|| format!("{} aborted", self.action.name()))
    }

    /// The handle by which a member says that it is a node.
    fn handle_of(&self, condition: &Resource) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.acts_as == HANDLE && resource.stack.id == condition.stack.id)
    }
}

/// The member that a resource is in, by its path: `kube_minions/2` for `kube_minions/2/kube-minion`.
fn member_of(resource: &Resource) -> Option<&str> {
    resource.path.rsplit_once('/').map(|(member, _)| member)
}
