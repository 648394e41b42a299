//! Who may do what: oslo.policy's language, upstream's rule names and defaults, and the operator's files in their place.
//!
//! A check that passes returns an [`Allowed`], a value that nobody else can make; what stores or lists on a caller's behalf asks for one.
//! Whatever cannot be evaluated (an unknown rule, a missing attribute) refuses. Which files there are, and when they have changed, is for the
//! server crate to know: it hands their text over, at the start and whenever it is another.

mod check;
mod defaults;
mod evaluate;
mod parser;
mod rules;
#[cfg(test)]
mod sample;
mod target;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

pub use defaults::Act;
use evaluate::Question;
use rules::Rules;
pub use target::{Attributes, Target};

use crate::error::ApiError;
use crate::identity::Caller;

/// A policy file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Not YAML or JSON, or not a map.
    #[error("{file} is no map of rules: {reason}")]
    File { file: String, reason: String },
    /// A rule that cannot be read or used.
    #[error("{file}: rule {rule}: {reason}")]
    Rule { file: String, rule: String, reason: String },
}

/// The text of one policy file, and the name that messages give it.
#[derive(Clone, Debug)]
pub struct PolicyFile {
    pub name: String,
    pub text: String,
}

/// How rules are put together and used (`[oslo_policy]`).
#[derive(Clone, Debug)]
pub struct PolicyOptions {
    /// Name of the rule for what has no rule (`policy_default_rule`).
    pub default_rule: String,
    /// Whether the older rules that the defaults replaced no longer count beside them.
    pub enforce_new_defaults: bool,
    /// Whether a token must be of a project where the rule says so.
    pub enforce_scope: bool,
}

impl Default for PolicyOptions {
    fn default() -> Self {
        Self { default_rule: "default".into(), enforce_new_defaults: true, enforce_scope: true }
    }
}

/// The right to do one thing; made by [`Policy::allow`] only.
#[derive(Debug)]
pub struct Allowed(Act);

impl Allowed {
    /// What is allowed.
    pub fn act(&self) -> Act {
        self.0
    }
}

/// The rules in force. Copies share them.
#[derive(Clone)]
pub struct Policy {
    options: Arc<PolicyOptions>,
    rules: Arc<RwLock<Arc<Rules>>>,
}

impl Default for Policy {
    fn default() -> Self {
        Self::new(PolicyOptions::default(), &[]).expect("the default rules are well formed, which a test makes sure of")
    }
}

impl Policy {
    /// The defaults, with the rules of the files in their place, a later file before an earlier one.
    ///
    /// # Errors
    /// When a file or one of its rules cannot be read: a service that starts with half a policy is worse than one that does not.
    pub fn new(options: PolicyOptions, files: &[PolicyFile]) -> Result<Self, PolicyError> {
        let rules = load(&options, files)?;
        Ok(Self { options: Arc::new(options), rules: Arc::new(RwLock::new(rules)) })
    }

    /// Puts the rules of these files, and only these, in the place of those in force, for all requests from now on.
    ///
    /// # Errors
    /// As [`Policy::new`]; the rules in force stay then.
    pub fn replace(&self, files: &[PolicyFile]) -> Result<(), PolicyError> {
        let rules = load(&self.options, files)?;
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }

    /// Whether the caller may do this to that.
    pub fn allow(&self, caller: &Caller, act: Act, target: &Target<'_>) -> Result<Allowed, ApiError> {
        let allowed = self.is_of_scope(caller, act) && self.holds(caller, act.as_str(), target);
        if allowed { Ok(Allowed(act)) } else { Err(ApiError::Policy(act.as_str())) }
    }

    /// Whether the token makes its bearer an admin.
    pub fn is_admin(&self, caller: &Caller) -> bool {
        self.holds(caller, "context_is_admin", &Target::default())
    }

    fn is_of_scope(&self, caller: &Caller, act: Act) -> bool {
        let is_of_project = !caller.info.system_scope && caller.info.domain_id.is_none();
        if is_of_project || !act.wants_project() {
            return true;
        }
        tracing::debug!(policy = act.as_str(), enforced = self.options.enforce_scope, "the policy wants a token of a project");
        !self.options.enforce_scope
    }

    fn holds(&self, caller: &Caller, rule: &str, target: &Target<'_>) -> bool {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner).clone();
        Question { rules: &rules, caller, target }.holds(rule)
    }
}

/// Reads a text as one rule and prints it; for the fuzz target.
pub fn read_and_print(text: &str) {
    if let Ok(check) = parser::parse_text(text) {
        assert_eq!(parser::parse_text(&check.to_string()).as_ref(), Ok(&check), "{text}");
    }
}

fn load(options: &PolicyOptions, files: &[PolicyFile]) -> Result<Arc<Rules>, PolicyError> {
    let (rules, warnings) = Rules::load(options, files)?;
    for warning in warnings {
        tracing::warn!("Policy: {warning}");
    }
    Ok(Arc::new(rules))
}
