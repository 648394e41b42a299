//! Stacks by the thousand, for those who measure: made of one that a client made, without a request for each.

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

impl Cloud {
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
