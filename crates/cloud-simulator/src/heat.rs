//! Heat: stacks that take time, have resources and leave them behind until they are deleted.
//!
//! Templates are read as far as a client can tell: which resources there are, what is nested, which parameters are wanted. Nothing
//! is orchestrated; resources come up one after another by the clock.

mod acts;
mod expand;
mod reads;
mod resource;
mod stack;
mod template;
mod value;
mod view;

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    time::Duration,
};

use chrono::TimeDelta;
use indexmap::{IndexMap, IndexSet};
use serde_json::{Value, json};

pub use crate::heat::stack::Mishap;
pub(crate) use crate::heat::{
    stack::{Resource, Stack, StackName, status_name},
    view::address_of,
};
use crate::{
    catalog,
    clock::{self, Moment},
    http::{Call, Refusal, Route},
    token::Token,
};

/// Deleted stacks stay readable by id; from this many on the oldest are forgotten.
const MOST_STACKS: usize = 50_000;

/// Something in front of Heat that takes no long addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// Bytes of the longest path with its query.
    pub(crate) longest: usize,
    /// What it answers to a longer one; none: it closes the connection.
    pub(crate) status: Option<u16>,
}

/// Everything Heat knows.
pub(crate) struct Store {
    /// By their ids, the oldest first. They come in by [`Store::keep`].
    pub(crate) stacks: IndexMap<String, Stack>,
    /// The ids of the stacks that have or had a name.
    named: HashMap<String, Vec<String>>,
    /// While set, no stack ends what it is doing by itself, and none goes on when so many of the resources are done.
    pub(crate) held_at: Option<usize>,
    /// Whether the policy lets administrators list the stacks of all projects, which Heat's own does not.
    pub(crate) allows_global_index: bool,
    /// What stands in front of it, where that takes short addresses only.
    pub(crate) front: Option<Front>,
    stack_duration: TimeDelta,
    delete_duration: TimeDelta,
    serial: u32,
}

/// The calls Heat knows.
pub(crate) fn route(method: &str, path: &[&str]) -> Option<Route> {
    match (method, path) {
        ("GET", [] | ["v1"]) => Route::open("heat.version_show", catalog::version),
        (_, ["v1", _project, "stacks", rest @ ..]) => match (method, rest) {
            ("POST", []) => Route::new("heat.stack_create", acts::create),
            ("GET", []) => Route::new("heat.stack_list", reads::list),
            (_, [_]) | (_, [_, "resources" | "events" | "outputs" | "template" | "files" | "environment"]) => {
                Route::new("heat.stack_lookup", reads::lookup)
            }
            ("GET", [_, _]) => Route::new("heat.stack_show", reads::show),
            ("PUT" | "PATCH", [_, _]) => Route::new("heat.stack_update", acts::update),
            ("DELETE", [_, _]) => Route::new("heat.stack_delete", acts::delete),
            ("GET", [_, _, "resources"]) => Route::new("heat.resource_list", reads::resources),
            ("GET", [_, _, "resources", _]) => Route::new("heat.resource_show", reads::resource),
            ("GET", [_, _, "resources", _, "metadata"]) => Route::new("heat.resource_metadata", acts::metadata),
            ("POST", [_, _, "resources", _, "signal"]) => Route::new("heat.resource_signal", acts::signal),
            ("GET", [_, _, "events"]) => Route::new("heat.event_list", reads::events),
            ("GET", [_, _, "outputs"]) => Route::new("heat.output_list", reads::outputs),
            ("GET", [_, _, "outputs", _]) => Route::new("heat.output_show", reads::output),
            ("GET", [_, _, "template"]) => Route::new("heat.template_show", reads::template),
            ("GET", [_, _, "files"]) => Route::new("heat.files_list", reads::files),
            ("GET", [_, _, "environment"]) => Route::new("heat.environment_show", reads::environment),
            _ => None,
        },
        _ => None,
    }
}

impl Store {
    pub(crate) fn new(stack_duration: Duration, delete_duration: Duration) -> Self {
        Self {
            stacks: IndexMap::new(),
            named: HashMap::new(),
            held_at: None,
            allows_global_index: false,
            front: None,
            stack_duration: clock::delta(stack_duration),
            delete_duration: clock::delta(delete_duration),
            serial: 0,
        }
    }

    /// Brings every stack up to this moment; the networks of those that are `occupied` cannot be deleted. Returns the trusts of the stacks
    /// that are gone now.
    pub(crate) fn advance(&mut self, now: Moment, occupied: &BTreeSet<String>) -> Vec<String> {
        let held_at = self.held_at;
        for (id, stack) in &mut self.stacks {
            stack.advance(now, held_at, occupied.contains(id));
        }
        self.released()
    }

    /// The trusts Heat made for stacks that are deleted, once each.
    pub(crate) fn released(&mut self) -> Vec<String> {
        self.stacks.values_mut().filter(|stack| stack.deleted.is_some()).filter_map(|stack| stack.trust.take()).collect()
    }

    /// The stacks that are not deleted, the oldest first.
    pub(crate) fn all_live(&self) -> impl Iterator<Item = &Stack> {
        self.stacks.values().filter(|stack| stack.deleted.is_none())
    }

    /// As [`Store::all_live`], to change them.
    pub(crate) fn all_live_mut(&mut self) -> impl Iterator<Item = &mut Stack> {
        self.stacks.values_mut().filter(|stack| stack.deleted.is_none())
    }

    /// A stack that is not deleted, by id or name, in one project or any.
    pub(crate) fn live(&self, project: Option<&str>, name_or_id: &str) -> Option<&Stack> {
        let named = self.named.get(name_or_id).into_iter().flatten().filter_map(|id| self.stacks.get(id));
        let mut candidates = self.stacks.get(name_or_id).into_iter().chain(named);
        candidates.find(|stack| stack.deleted.is_none() && stack.is_of(project))
    }

    /// As [`Store::live`], to change it.
    pub(crate) fn live_mut(&mut self, name_or_id: &str) -> Option<&mut Stack> {
        let id = self.live(None, name_or_id)?.id.clone();
        self.stacks.get_mut(&id)
    }

    /// The things of some resource types that exist now, with the stack they belong to.
    pub(crate) fn things<'a>(&'a self, project: Option<&'a str>, kinds: &'a [&'a str]) -> impl Iterator<Item = (&'a Stack, &'a Resource)> {
        let stacks = self.all_live().filter(|stack| stack.has_any(kinds));
        let resources =
            stacks.filter(move |stack| stack.is_of(project)).flat_map(|stack| stack.resources.iter().map(move |made| (stack, made)));
        resources.filter(|(_, made)| made.is_there(kinds))
    }

    /// As [`Store::things`], those with these ids. Copies of a stack have the same things: they are told of once.
    pub(crate) fn things_named(&self, project: Option<&str>, kinds: &[&str], ids: &[&str]) -> Vec<(&Stack, &Resource)> {
        let mut left: IndexSet<&str> = ids.iter().copied().collect();
        let mut found = Vec::new();
        for stack in self.all_live() {
            if left.is_empty() {
                break;
            }
            left.retain(|id| {
                let made = stack.made(id).filter(|made| made.is_there(kinds) && stack.is_of(project));
                found.extend(made.map(|made| (stack, made)));
                made.is_none()
            });
        }
        found
    }

    /// Takes a new stack in.
    pub(crate) fn keep(&mut self, stack: Stack) {
        if self.stacks.len() >= MOST_STACKS
            && let Some(oldest) = self.stacks.values().position(|stack| stack.deleted.is_some())
        {
            self.forget(oldest);
        }
        self.named.entry(stack.name.clone()).or_default().push(stack.id.clone());
        self.stacks.insert(stack.id.clone(), stack);
    }

    fn forget(&mut self, place: usize) {
        let Some((id, stack)) = self.stacks.shift_remove_index(place) else { return };
        if let Entry::Occupied(mut ids) = self.named.entry(stack.name) {
            ids.get_mut().retain(|named| *named != id);
            if ids.get().is_empty() {
                ids.remove();
            }
        }
    }
}

/// Lets a caller in: the project of the path must be the token's, and Heat wants a member for changes, a reader for the rest.
fn enter(call: &Call, changes: bool) -> Result<&Token, Refusal> {
    let token = call.token()?;
    let role = if changes { "member" } else { "reader" };
    if token.project_id() != Some(call.at(1)) || !token.has_role(role) || token.has_role("heat_stack_user") {
        return Err(Refusal::forbidden("You are not authorized to use this action."));
    }
    Ok(token)
}

/// Whose stacks a token sees by their ids: its project's, and every project's for an administrator.
fn may_see(token: &Token, stack: &Stack) -> bool {
    token.project_id() == Some(stack.project.as_str()) || token.has_role("admin")
}

fn no_stack(name: &str) -> Refusal {
    Refusal::new(404, "EntityNotFound", format!("The Stack ({name}) could not be found."))
}

/// Heat's own form of an error.
pub(crate) fn error_body(status: u16, title: &str, kind: &str, message: &str) -> Value {
    let explanation = match status {
        400 => "The server could not comply with the request since it is either malformed or otherwise incorrect.",
        403 => "Access was denied to this resource.",
        404 => "The resource could not be found.",
        409 => "There was a conflict when trying to complete your request.",
        _ => "The server has either erred or is incapable of performing the requested operation.",
    };
    json!({
        "code": status,
        "title": title,
        "explanation": explanation,
        "error": {"message": message, "traceback": null, "type": kind},
    })
}
