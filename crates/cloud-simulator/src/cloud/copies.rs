//! Stacks by the thousand, for those who measure: made of one that a client made, without a request for each.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::{cloud::Cloud, heat::StackName};

/// What tells a copy of a stack from the stack.
#[derive(Clone, Debug)]
pub struct StackCopy {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Parameters that have another value in it.
    pub parameters: Vec<(&'static str, String)>,
}

/// What is told of each of thousands of stacks: all of 20,000 would be most of a gigabyte, and take seconds in which nobody else is answered.
#[derive(Clone, Debug)]
pub struct StackBrief {
    /// Its id.
    pub id: String,
    /// When it began what it is doing or did last.
    pub began: DateTime<Utc>,
    /// The parameter that was asked for; empty where it has none.
    pub parameter: String,
}

impl Cloud {
    /// The stacks that are not deleted, the oldest first, each with one of its parameters.
    pub fn stacks_briefly(&self, parameter: &str) -> Vec<StackBrief> {
        let world = self.world();
        let live = world.heat.all_live();
        live.map(|stack| {
            let value = stack.parameters.get(parameter).and_then(Value::as_str);
            StackBrief { id: stack.id.clone(), began: stack.started, parameter: value.unwrap_or_default().to_owned() }
        })
        .collect()
    }

    /// Makes further stacks that are like this one, and as far as it is; they have the same trust and the same things. Says whether there is
    /// such a stack.
    pub fn copy_stack(&self, name_or_id: &str, copies: Vec<StackCopy>) -> bool {
        let mut world = self.world();
        let Some(pattern) = world.heat.live(None, name_or_id).cloned() else {
            return false;
        };
        for copy in copies {
            let own = StackName { name: copy.name, id: copy.id };
            let parameters = copy.parameters.into_iter().map(|(key, value)| (key.to_owned(), Value::String(value)));
            world.heat.keep(pattern.copy(own, parameters));
        }
        true
    }
}
