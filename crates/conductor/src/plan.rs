//! Deciding: pure functions from what was observed to the one thing to do next, with its reason.

mod roll;

use std::hash::{DefaultHasher, Hash, Hasher};

pub(crate) use roll::{Pool, Replacement, RollStep, discard, give_up, is_overfull, next as next_replacement};

/// What was seen in the cloud. After a failed call it is `Unknown` until seen again; it is never taken for a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    /// There is no such stack.
    Absent,
    /// A stack of this name exists that we did not make for this cluster.
    Foreign { reason: String },
    /// Being made or changed.
    Building(Seen),
    /// Complete.
    Ready(Seen),
    /// A change failed and was taken back.
    RolledBack { seen: Seen, reason: String },
    /// Failed while being made or changed.
    Broken { seen: Seen, reason: String },
    /// Being deleted.
    Leaving(Seen),
    /// Failed while being deleted.
    Stuck { seen: Seen, reason: String },
}

/// A stack that was seen, and how far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub stack_id: String,
    pub stack_name: String,
    /// Resources complete (or gone, while leaving).
    pub done: i32,
    pub total: i32,
    /// Names of resources at work, a few.
    pub busy: Vec<String>,
    /// Heat's word for what it does and how far it is, such as `CREATE_IN_PROGRESS`.
    pub status: String,
    /// When the stack was last changed, as Heat words it; empty for one that never was.
    pub changed: String,
    pub workers: Workers,
    /// What its new masters and workers come from; none: they are not made by a template of ours, and cannot be replaced.
    pub masters: Option<Box<Pool>>,
    pub minions: Option<Box<Pool>>,
    /// The version of Kubernetes that new nodes get, where the stack says it.
    pub kube_version: Option<String>,
    /// Whether new workers take a first boot that we can give anew.
    pub has_our_workers: bool,
    /// Whether it says that programs of the cloud provider run in its cluster; those that were made before there were any do not.
    pub has_cloud_provider: bool,
    /// The same of the webhook by which users log in with Keystone.
    pub has_keystone_auth: bool,
    /// Whether it keeps a key for what is secret in etcd.
    pub has_secrets_key: bool,
    /// Whether it says that its cluster is watched from inside.
    pub has_monitoring: bool,
    /// Whether it says that nodes, pods and services have addresses of IPv6 beside those of IPv4.
    pub has_ipv6: bool,
    /// The name of the API in DNS, where the stack has a record of it.
    pub api_name: Option<String>,
}

/// What a stack says of its workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workers {
    /// None when the stack has no such parameter.
    pub count: Option<i32>,
    /// Member numbers that were taken away by name the last time.
    pub removed: Vec<String>,
}

impl Observed {
    /// A stack that something could be asked of.
    pub fn at_rest(&self) -> Option<&Seen> {
        match self {
            Self::Ready(seen) | Self::Broken { seen, .. } | Self::RolledBack { seen, .. } => Some(seen),
            Self::Absent | Self::Foreign { .. } | Self::Building(_) | Self::Leaving(_) | Self::Stuck { .. } => None,
        }
    }

    /// The stack, where there is one that is ours.
    pub fn seen(&self) -> Option<&Seen> {
        match self {
            Self::Ready(seen) | Self::Broken { seen, .. } | Self::RolledBack { seen, .. } => Some(seen),
            Self::Building(seen) | Self::Leaving(seen) | Self::Stuck { seen, .. } => Some(seen),
            Self::Absent | Self::Foreign { .. } => None,
        }
    }
}

impl Seen {
    /// A stack that was asked for a moment ago: nothing of it has been counted.
    pub fn begun(stack_id: String, stack_name: String) -> Self {
        Self { stack_id, stack_name, status: "CREATE_IN_PROGRESS".into(), ..Self::default() }
    }

    /// How many workers there are, where the stack's parameters say it: after a change that failed they say what was asked for.
    pub fn settled_workers(&self) -> Option<i32> {
        self.workers.count.filter(|_| self.status.ends_with("_COMPLETE"))
    }

    /// A number that changes with what is told of a stack at work.
    pub fn motion(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.done, self.total, &self.busy).hash(&mut hasher);
        hasher.finish()
    }

    /// What is waited for, in words.
    pub fn waiting_for(&self) -> String {
        match &self.busy[..] {
            [] => format!("stack {}", self.stack_name),
            names => format!("{} of stack {}", names.join(", "), self.stack_name),
        }
    }
}

/// The next thing to do for a create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CreateStep {
    Make,
    Wait(Seen),
    Finish(Seen),
    Fail { seen: Option<Seen>, reason: String },
}

/// The next thing to do for a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeleteStep {
    Remove(Seen),
    Wait(Seen),
    Finish,
    Fail { reason: String },
}

/// Requests to delete one stack that ended in DELETE_FAILED before the operation fails: most such failures are races inside the cloud
/// that a second request survives.
pub(crate) const DELETE_TRIES: usize = 3;

/// What the workers of a stack shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub count: i32,
    /// Member numbers that must go; empty: the cloud may choose.
    pub remove: Vec<String>,
}

impl Wanted {
    fn is_met_by(&self, workers: &Workers) -> bool {
        workers.count == Some(self.count) && self.remove.iter().all(|number| workers.removed.contains(number))
    }
}

/// What an operation has already asked of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// How often.
    pub tries: usize,
    pub before: Before,
    /// So young that what is seen need not be its outcome.
    pub is_fresh: bool,
}

/// How to tell whether the last request has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// [`Seen::changed`] just before it: while the stack still says so, it has not.
    Changed(String),
    /// It has: the stack shows what was asked.
    Taken,
}

impl Before {
    fn is_now(&self, seen: &Seen) -> bool {
        matches!(self, Self::Changed(before) if *before == seen.changed)
    }
}

impl Sent {
    /// Whether what is seen may be what was before the request.
    pub fn may_not_have_begun(&self, seen: &Seen) -> bool {
        self.is_fresh && self.before.is_now(seen)
    }
}

/// The next thing to do for a change of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpdateStep {
    /// There is no stack yet.
    Make,
    Send(Seen),
    Wait(Seen),
    /// Asked for, and not begun yet as far as can be seen.
    WaitForBeginning(Seen),
    Finish(Seen),
    Fail {
        seen: Option<Seen>,
        reason: String,
    },
}

/// Requests for one change before the operation fails: somebody else may be changing the same stack.
pub(crate) const UPDATE_TRIES: usize = 5;

/// Decides for a change of the number of workers; `sent` is what this operation has asked for.
pub(crate) fn update(observed: Observed, wanted: &Wanted, sent: Option<&Sent>) -> UpdateStep {
    let is_met = observed.seen().is_some_and(|seen| wanted.is_met_by(&seen.workers));
    change(observed, is_met, sent)
}

/// Decides for a change of a stack; `is_met`: it is as wanted, once it is at rest.
///
/// A stack that is as wanted needs nothing, also when nobody asked. A stack that failed is asked again by a new operation, and fails the
/// operation whose own request failed.
pub(crate) fn change(observed: Observed, is_met: bool, sent: Option<&Sent>) -> UpdateStep {
    let may_not_have_begun = |seen: &Seen| sent.is_some_and(|s| s.may_not_have_begun(seen));
    let has_begun = |seen: &Seen| sent.is_some_and(|s| !s.before.is_now(seen));
    let tries = sent.map_or(0, |s| s.tries);
    match observed {
        Observed::Absent => UpdateStep::Make,
        Observed::Foreign { reason } => UpdateStep::Fail { seen: None, reason },
        Observed::Building(seen) => UpdateStep::Wait(seen),
        Observed::Leaving(seen) => UpdateStep::Fail { reason: format!("stack {} is being deleted", seen.stack_name), seen: Some(seen) },
        Observed::Stuck { seen, reason } => UpdateStep::Fail { seen: Some(seen), reason },
        Observed::Ready(seen) if is_met => UpdateStep::Finish(seen),
        Observed::Ready(seen) | Observed::Broken { seen, .. } | Observed::RolledBack { seen, .. } if may_not_have_begun(&seen) => {
            UpdateStep::WaitForBeginning(seen)
        }
        Observed::Broken { seen, reason } | Observed::RolledBack { seen, reason } if has_begun(&seen) => {
            UpdateStep::Fail { seen: Some(seen), reason }
        }
        Observed::Ready(seen) | Observed::Broken { seen, .. } | Observed::RolledBack { seen, .. } if tries < UPDATE_TRIES => {
            UpdateStep::Send(seen)
        }
        Observed::Ready(seen) | Observed::Broken { seen, .. } | Observed::RolledBack { seen, .. } => {
            let reason = format!(
                "stack {} does not become what it was asked {tries} times to be; Heat took each request and did nothing, as it does where the user \
                 whom the stack belongs to is gone",
                seen.stack_name
            );
            UpdateStep::Fail { seen: Some(seen), reason }
        }
    }
}

/// The next thing to do for a change that somebody else began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoundStep {
    Wait(Seen),
    Finish(Seen),
    Gone,
    Fail { reason: String },
}

/// Decides for a stack of which nobody knows what was asked: it is followed to the end that it comes to.
pub(crate) fn found(observed: Observed) -> FoundStep {
    match observed {
        Observed::Building(seen) | Observed::Leaving(seen) => FoundStep::Wait(seen),
        Observed::Ready(seen) => FoundStep::Finish(seen),
        Observed::Absent => FoundStep::Gone,
        Observed::Broken { reason, .. } | Observed::RolledBack { reason, .. } | Observed::Stuck { reason, .. } => {
            FoundStep::Fail { reason }
        }
        Observed::Foreign { reason } => FoundStep::Fail { reason },
    }
}

/// Decides for a create.
pub(crate) fn create(observed: Observed) -> CreateStep {
    match observed {
        Observed::Absent => CreateStep::Make,
        Observed::Building(seen) => CreateStep::Wait(seen),
        // The name is taken by a stack on its way out: wait until it is gone, then make ours.
        Observed::Leaving(seen) => CreateStep::Wait(seen),
        Observed::Ready(seen) => CreateStep::Finish(seen),
        Observed::Broken { seen, reason } | Observed::Stuck { seen, reason } | Observed::RolledBack { seen, reason } => {
            CreateStep::Fail { seen: Some(seen), reason }
        }
        Observed::Foreign { reason } => CreateStep::Fail { seen: None, reason },
    }
}

/// The next thing to do with something that Kubernetes made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovalStep {
    Remove,
    Wait,
    Gone,
    Fail,
}

/// Requests to remove one thing that ended in an error before the operation fails.
pub(crate) const REMOVAL_TRIES: usize = 3;

/// Decides for a load balancer, by its `provisioning_status`; `tries` is how often this operation has asked for its deletion.
pub(crate) fn balancer(status: &str, tries: usize) -> RemovalStep {
    match status {
        "DELETED" => RemovalStep::Gone,
        // Octavia refuses whatever is asked of one that is being changed.
        _ if status.starts_with("PENDING_") => RemovalStep::Wait,
        "ERROR" if tries >= REMOVAL_TRIES => RemovalStep::Fail,
        _ => RemovalStep::Remove,
    }
}

/// Decides for a volume, by its `status`; `tries` is how often this operation has asked for its deletion.
pub(crate) fn volume(status: &str, tries: usize) -> RemovalStep {
    match status {
        "available" => RemovalStep::Remove,
        _ if status.starts_with("error") && tries < REMOVAL_TRIES => RemovalStep::Remove,
        _ if status.starts_with("error") => RemovalStep::Fail,
        // Attached still, or at work.
        _ => RemovalStep::Wait,
    }
}

/// Decides for a delete; `tries` is how often this operation has asked for the deletion after it had failed, `is_due` whether it has not asked for it
/// at all yet, or so long ago that Heat may have forgotten it.
pub(crate) fn delete(observed: Observed, tries: usize, is_due: bool) -> DeleteStep {
    match observed {
        // A foreign stack is not ours to remove: as far as this cluster goes there is none.
        Observed::Absent | Observed::Foreign { .. } => DeleteStep::Finish,
        Observed::Building(seen) | Observed::Ready(seen) | Observed::Broken { seen, .. } | Observed::RolledBack { seen, .. } => {
            DeleteStep::Remove(seen)
        }
        // One whose engine died stays as it is for ever; asked once more, Heat begins anew.
        Observed::Leaving(seen) if is_due => DeleteStep::Remove(seen),
        Observed::Leaving(seen) => DeleteStep::Wait(seen),
        Observed::Stuck { seen, .. } if tries < DELETE_TRIES => DeleteStep::Remove(seen),
        Observed::Stuck { reason, .. } => DeleteStep::Fail { reason },
    }
}

#[cfg(test)]
mod tests;
