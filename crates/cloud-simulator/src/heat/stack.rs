//! One stack and its resources, and how far they have come by the clock.
//!
//! Nothing moves by itself: [`Stack::advance`] is called with each request and works out what has happened since.

mod contents;
mod mishap;

use std::{collections::BTreeMap, sync::Arc};

use chrono::TimeDelta;
use serde_json::{Map, Value};

use self::contents::Contents;
pub use self::mishap::Mishap;
pub(crate) use crate::heat::resource::{Action, Event, Phase, Removed, Resource, StackName, status_name};
use crate::{clock::Moment, heat::template::Blueprint, state::dashed_id};

/// Events are kept up to this many, as Heat purges them too.
const MOST_EVENTS: usize = 1_000;

/// What Neutron says of a subnet on which somebody else has a port.
const IN_USE: &str = "Conflict: resources.fixed_subnet: Unable to complete operation on subnet: One or more ports have an IP allocation from \
    this subnet.";

/// A stack.
#[derive(Clone)]
pub(crate) struct Stack {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) project: String,
    pub(crate) owner: String,
    pub(crate) blueprint: Blueprint,
    pub(crate) parameters: Map<String, Value>,
    pub(crate) tags: Vec<String>,
    pub(crate) timeout_mins: Option<u64>,
    pub(crate) disable_rollback: bool,
    pub(crate) created: Moment,
    pub(crate) updated: Option<Moment>,
    pub(crate) deleted: Option<Moment>,
    pub(crate) action: Action,
    pub(crate) phase: Phase,
    pub(crate) reason: String,
    /// Whether the outputs are known: from the first success on.
    pub(crate) has_outputs: bool,
    /// What it is made of, as [`Stack::consist_of`] says.
    pub(crate) resources: Vec<Resource>,
    /// By which to see that it has none of what is asked for; copies of a stack share it.
    contents: Arc<Contents>,
    /// Members of groups that were taken away by name and never come back.
    pub(crate) removed: Removed,
    pub(crate) events: Vec<Event>,
    /// What handles of wait conditions were told, by the path of the handle and the id of the signal.
    pub(crate) signals: BTreeMap<String, BTreeMap<String, Value>>,
    /// What befell members of groups, by their paths.
    mishaps: BTreeMap<String, Mishap>,
    /// The trust Heat made for itself.
    pub(crate) trust: Option<String>,
    /// Numbers the stacks of the cloud, for addresses that do not collide.
    pub(crate) serial: u32,
    /// When it began what it is doing or did last.
    pub(crate) started: Moment,
    duration: TimeDelta,
    /// The resources the present action touches, in order, and how many of them are done.
    pending: Vec<usize>,
    done: usize,
    /// What a failed update goes back to.
    before: Option<Box<Before>>,
}

/// A stack before an update.
#[derive(Clone)]
struct Before {
    blueprint: Blueprint,
    parameters: Map<String, Value>,
    resources: Vec<Resource>,
}

/// What an update wants.
pub(crate) struct Update {
    pub(crate) blueprint: Blueprint,
    pub(crate) parameters: Map<String, Value>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) removed: Removed,
}

/// What is fixed when a stack is made.
pub(crate) struct NewStack {
    pub(crate) named: StackName,
    pub(crate) project: String,
    pub(crate) owner: String,
    pub(crate) blueprint: Blueprint,
    pub(crate) parameters: Map<String, Value>,
    pub(crate) tags: Vec<String>,
    pub(crate) timeout_mins: Option<u64>,
    pub(crate) disable_rollback: bool,
    pub(crate) resources: Vec<Resource>,
    pub(crate) trust: Option<String>,
    pub(crate) serial: u32,
}

impl Stack {
    /// A stack whose creation begins now.
    pub(crate) fn begin(new: NewStack, now: Moment, duration: TimeDelta) -> Self {
        let mut stack = Self {
            id: new.named.id,
            name: new.named.name,
            project: new.project,
            owner: new.owner,
            blueprint: new.blueprint,
            parameters: new.parameters,
            tags: new.tags,
            timeout_mins: new.timeout_mins,
            disable_rollback: new.disable_rollback,
            created: now,
            updated: None,
            deleted: None,
            action: Action::Create,
            phase: Phase::InProgress,
            reason: String::new(),
            has_outputs: false,
            resources: Vec::new(),
            contents: Arc::default(),
            removed: Removed::new(),
            events: Vec::new(),
            signals: BTreeMap::new(),
            mishaps: BTreeMap::new(),
            trust: new.trust,
            serial: new.serial,
            started: now,
            duration,
            pending: Vec::new(),
            done: 0,
            before: None,
        };
        stack.consist_of(new.resources);
        for (number, resource) in (0..).zip(&mut stack.resources) {
            resource.number = number;
        }
        stack.pending = (0..stack.resources.len()).collect();
        stack.enter(Action::Create, now, duration);
        stack
    }

    /// Another stack that is like this one, with an id and a name of its own and some parameters of other values.
    pub(crate) fn copy(&self, own: StackName, parameters: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut copy = self.clone();
        for resource in copy.resources.iter_mut().filter(|resource| resource.stack.id == self.id) {
            resource.stack = own.clone();
        }
        StackName { name: copy.name, id: copy.id } = own;
        copy.parameters.extend(parameters);
        copy
    }

    /// Begins an update: what is in both stays as it is, what is new is made, what is no longer wanted goes at once.
    pub(crate) fn begin_update(&mut self, update: Update, now: Moment, duration: TimeDelta) {
        self.before = Some(Box::new(Before {
            blueprint: std::mem::replace(&mut self.blueprint, update.blueprint),
            parameters: std::mem::replace(&mut self.parameters, update.parameters),
            resources: self.resources.clone(),
        }));
        self.removed = update.removed;
        self.change_to(update.resources);
        self.updated = Some(now);
        self.enter(Action::Update, now, duration);
    }

    fn change_to(&mut self, wanted: Vec<Resource>) {
        let mut next = self.resources.iter().map(|resource| resource.number).max().map_or(0, |number| number + 1);
        let mut pending = Vec::new();
        let mut resources = Vec::new();
        for mut resource in wanted {
            match self.resources.iter().find(|old| old.path == resource.path && old.kind == resource.kind) {
                Some(old) => {
                    let properties = std::mem::take(&mut resource.properties);
                    resource = Resource { properties, ..old.clone() };
                }
                None => {
                    resource.number = next;
                    next += 1;
                }
            }
            // Heat does not look for what it has made: what is gone behind its back stays so.
            if !resource.is_ready() && !resource.gone {
                pending.push(resources.len());
            }
            resources.push(resource);
        }
        self.consist_of(resources);
        self.pending = pending;
        self.forget_the_gone();
    }

    fn consist_of(&mut self, resources: Vec<Resource>) {
        self.contents = Arc::new(Contents::of(&resources));
        self.resources = resources;
    }

    /// Whether it is of this project, if one is given.
    pub(crate) fn is_of(&self, project: Option<&str>) -> bool {
        project.is_none_or(|project| project == self.project)
    }

    /// Begins a delete, unless one runs.
    pub(crate) fn begin_delete(&mut self, now: Moment, duration: TimeDelta) {
        if self.action == Action::Delete && self.phase == Phase::InProgress {
            return;
        }
        self.pending = (0..self.resources.len()).filter(|&index| self.resources[index].exists()).collect();
        self.enter(Action::Delete, now, duration);
    }

    fn enter(&mut self, action: Action, now: Moment, duration: TimeDelta) {
        self.action = action;
        self.phase = Phase::InProgress;
        self.started = now;
        self.duration = duration;
        self.done = 0;
        self.reason = format!("Stack {} started", action.name());
        self.stack_event(now);
        if action != Action::Delete {
            self.touch(now);
        }
    }

    /// Brings the stack up to this moment. `held_at` keeps it from ending, and from having more than so many resources done; while its network
    /// is occupied a delete fails at the subnet.
    pub(crate) fn advance(&mut self, now: Moment, held_at: Option<usize>, is_occupied: bool) {
        if self.phase != Phase::InProgress {
            return;
        }
        let elapsed = now - self.started;
        let is_due = elapsed >= self.duration;
        let subnet = if is_occupied && self.action == Action::Delete { self.next_subnet() } else { None };
        if let Some(subnet) = subnet.filter(|_| is_due && held_at.is_none()) {
            self.reach(subnet, now);
            self.fail(IN_USE, now);
            return;
        }
        let ends = is_due && held_at.is_none();
        let failed = self.failures(ends);
        if !failed.is_empty() {
            self.fail_at(&failed, ends, now);
            return;
        }
        if ends {
            self.complete(now);
            return;
        }
        let limit = self.timeout_mins.map(|minutes| TimeDelta::minutes(i64::try_from(minutes).unwrap_or(i64::from(i32::MAX))));
        if limit.is_some_and(|limit| elapsed >= limit) {
            self.settle(Phase::Failed, format!("{} timed out", self.action.title()), now);
            return;
        }
        let total = self.pending.len();
        let share = if is_due { 1.0 } else { as_seconds(elapsed) / as_seconds(self.duration).max(0.001) };

        let most = held_at.unwrap_or(usize::MAX).min(subnet.unwrap_or(usize::MAX)).min(total.saturating_sub(1));
        let reached = ((share.clamp(0.0, 1.0) * total as f64) as usize).min(most);
        // Nothing has happened since the last look, which is so for nearly every stack at nearly every request.
        if reached > self.done {
            self.reach(reached, now);
        }
    }

    /// The place of a subnet among the resources that the present action has still to touch.
    fn next_subnet(&self) -> Option<usize> {
        let mut rest = self.pending.iter().enumerate().skip(self.done);
        rest.find(|(_, index)| self.resources[**index].acts_as == "OS::Neutron::Subnet").map(|(place, _)| place)
    }

    /// Ends the present action well.
    pub(crate) fn complete(&mut self, now: Moment) {
        self.reach(self.pending.len(), now);
        let now = now.min(self.started + self.duration);
        self.settle(Phase::Complete, format!("Stack {} completed successfully", self.action.name()), now);
        if self.action == Action::Delete {
            self.deleted = Some(now);
        } else {
            self.has_outputs = true;
        }
    }

    /// Ends the present action badly for something that the cloud lacks: not at a wait condition, for a node is what that waits for, but at its
    /// server.
    pub(crate) fn break_off(&mut self, reason: &str, now: Moment) {
        let resource = |place: usize| self.pending.get(place).map(|index| &self.resources[*index]);
        if let Some(condition) = resource(self.done).filter(|r| r.acts_as == "OS::Heat::WaitCondition") {
            let is_server = |r: &Resource| r.acts_as == "OS::Nova::Server" && r.stack.id == condition.stack.id;
            if let Some(server) = (0..self.pending.len()).find(|place| resource(*place).is_some_and(is_server)) {
                self.reach(server, now);
                self.done = server;
            }
        }
        self.fail(reason, now);
    }

    /// Ends the present action badly, at the resource it has come to.
    pub(crate) fn fail(&mut self, reason: &str, now: Moment) {
        if let Some(&index) = self.pending.get(self.done) {
            self.set(index, Phase::Failed, reason, now);
        }
        match self.before.take() {
            Some(before) if self.action == Action::Update && !self.disable_rollback => {
                (self.blueprint, self.parameters) = (before.blueprint, before.parameters);
                self.change_to(before.resources);
                self.enter(Action::Rollback, now, self.duration);
            }
            _ => self.settle(Phase::Failed, format!("Resource {} failed: {reason}", self.action.name()), now),
        }
    }

    fn settle(&mut self, phase: Phase, reason: String, now: Moment) {
        self.phase = phase;
        self.reason = reason;
        self.stack_event(now);
    }

    /// Finishes resources up to a number of them and begins the next, each at the time it was due.
    fn reach(&mut self, count: usize, now: Moment) {
        while self.done < count {
            let when = self.due(self.done + 1, now);
            self.touch(when);
            let index = self.pending[self.done];
            self.set(index, Phase::Complete, "state changed", when);
            self.done += 1;
        }
        self.touch(now);
    }

    /// When so many of the resources are due; not later than now, for a test may end a stack early.
    fn due(&self, count: usize, now: Moment) -> Moment {
        let share = count as f64 / self.pending.len().max(1) as f64;
        let elapsed = (as_seconds(self.duration) * share * 1000.0) as i64;
        now.min(self.started + TimeDelta::milliseconds(elapsed))
    }

    /// Marks the next resource, and what it is nested in, as being worked on.
    fn touch(&mut self, now: Moment) {
        let Some(&next) = self.pending.get(self.done) else {
            return;
        };
        let path = self.resources[next].path.clone();
        for position in self.done..self.pending.len() {
            let index = self.pending[position];
            let own = &self.resources[index].path;
            let is_on_the_way = *own == path || path.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with('/'));
            if is_on_the_way && self.resources[index].status != Some((self.action, Phase::InProgress)) {
                self.set(index, Phase::InProgress, "state changed", now);
            }
        }
    }

    fn set(&mut self, index: usize, phase: Phase, reason: &str, now: Moment) {
        // A resource that an update makes is created, as Heat says it.
        let action = if self.action == Action::Delete { Action::Delete } else { Action::Create };
        let resource = &mut self.resources[index];
        if resource.status == Some((action, phase)) {
            return;
        }
        resource.status = Some((action, phase));
        resource.reason = reason.to_owned();
        resource.changed = Some(now);
        let event = Event {
            id: dashed_id(),
            time: now,
            name: resource.name.clone(),
            physical: resource.physical.clone(),
            status: status_name(action, phase),
            reason: reason.to_owned(),
        };
        self.keep(event);
    }

    fn stack_event(&mut self, now: Moment) {
        let event = Event {
            id: dashed_id(),
            time: now,
            name: self.name.clone(),
            physical: self.id.clone(),
            status: status_name(self.action, self.phase),
            reason: self.reason.clone(),
        };
        self.keep(event);
    }

    fn keep(&mut self, event: Event) {
        if self.events.len() >= MOST_EVENTS {
            self.events.remove(0);
        }
        self.events.push(event);
    }
}

fn as_seconds(delta: TimeDelta) -> f64 {
    delta.num_milliseconds() as f64 / 1000.0
}
