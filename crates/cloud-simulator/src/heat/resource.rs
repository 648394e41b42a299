//! The resources of a stack, what happens to them, and the words Heat has for that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::clock::Moment;

/// What a stack is doing or did last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Update,
    Rollback,
    Delete,
}

/// How far it is with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    InProgress,
    Complete,
    Failed,
}

/// The name and id of a stack or nested stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct StackName {
    pub(crate) name: String,
    pub(crate) id: String,
}

/// A resource of a stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resource {
    /// Where it is in the tree: `kube_masters/0/kube-master`.
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    /// The type it has after the environment's registry.
    pub(crate) acts_as: String,
    pub(crate) parent: Option<String>,
    pub(crate) depth: usize,
    /// The stack or nested stack it is in.
    pub(crate) stack: StackName,
    /// The nested stack it is.
    pub(crate) nested: Option<StackName>,
    pub(crate) physical: String,
    /// What the thing is called in its own service.
    pub(crate) label: String,
    pub(crate) properties: Value,
    /// `None` until it has begun.
    pub(crate) status: Option<(Action, Phase)>,
    pub(crate) reason: String,
    pub(crate) changed: Option<Moment>,
    /// Deleted behind Heat's back.
    pub(crate) gone: bool,
    /// A number of its own in the whole cloud, from which addresses are made.
    pub(crate) number: u32,
}

/// Members of groups by the group's place in the tree: `kube_minions` has `0` and `3`.
pub(crate) type Removed = BTreeMap<String, BTreeSet<String>>;

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) time: Moment,
    pub(crate) name: String,
    pub(crate) physical: String,
    pub(crate) status: String,
    pub(crate) reason: String,
}

impl Action {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Rollback => "ROLLBACK",
            Self::Delete => "DELETE",
        }
    }

    /// As Heat writes it in the middle of a sentence's beginning.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Rollback => "Rollback",
            Self::Delete => "Delete",
        }
    }
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::Complete => "COMPLETE",
            Self::Failed => "FAILED",
        }
    }
}

/// `CREATE_IN_PROGRESS` and the like.
pub(crate) fn status_name(action: Action, phase: Phase) -> String {
    format!("{}_{}", action.name(), phase.name())
}

impl Resource {
    pub(crate) fn status_name(&self) -> String {
        self.status.map_or_else(|| "INIT_COMPLETE".to_owned(), |(action, phase)| status_name(action, phase))
    }

    /// Whether the thing is there in its own service.
    pub(crate) fn exists(&self) -> bool {
        !self.gone && !matches!(self.status, None | Some((Action::Delete, Phase::Complete)))
    }

    /// Whether it is of one of these types, and the thing is there.
    pub(crate) fn is_there(&self, kinds: &[&str]) -> bool {
        self.exists() && kinds.contains(&self.acts_as.as_str())
    }

    /// Whether the thing is ready in its own service.
    pub(crate) fn is_ready(&self) -> bool {
        self.exists() && !matches!(self.status, Some((Action::Create, Phase::InProgress | Phase::Failed)))
    }
}
