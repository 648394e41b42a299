//! Who may do what: oslo.policy's language, upstream's rule names and defaults, and the operator's overrides.
//!
//! A check that passes returns an [`Allowed`], a value that nobody else can make; what stores or lists on a caller's behalf asks for one.
//! Whatever cannot be evaluated (an unknown rule, a missing attribute) refuses.

mod defaults;
mod parser;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use defaults::Act;
use parser::Check;

use crate::error::ApiError;
use crate::identity::Caller;

/// Rules that refer to each other deeper than this are taken for a circle and refuse.
const DEPTH: u32 = 32;

/// A policy file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Not YAML or JSON, or not a map.
    #[error("the policy file is no map of rules: {0}")]
    File(String),
    /// A rule that cannot be read.
    #[error("policy rule {rule}: {reason}")]
    Rule { rule: String, reason: String },
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

/// What a check is made against: the owner of a thing, or the caller himself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target<'a> {
    pub project_id: Option<&'a str>,
    pub user_id: Option<&'a str>,
    pub trustee_domain_id: Option<&'a str>,
}

impl<'a> Target<'a> {
    fn get(&self, attribute: &str) -> Option<&'a str> {
        match attribute {
            "project_id" | "tenant_id" => self.project_id,
            "user_id" => self.user_id,
            "trustee_domain_id" => self.trustee_domain_id,
            _ => None,
        }
    }
}

/// The rules in force.
pub struct Policy {
    rules: HashMap<String, Check>,
}

impl Default for Policy {
    fn default() -> Self {
        Self::new(None).expect("the default rules are well formed, which a test makes sure of")
    }
}

impl Policy {
    /// The defaults, with the rules of a `policy.yaml` or `policy.json` (its text) in their place.
    ///
    /// # Errors
    /// When the text or one of its rules cannot be read: a service that starts with half a policy is worse than one that does not.
    pub fn new(overrides: Option<&str>) -> Result<Self, PolicyError> {
        let mut rules = HashMap::new();
        for (name, text) in defaults::all() {
            rules.insert(name.to_owned(), read(name, &serde_json::Value::String(text.to_owned()))?);
        }
        for (name, value) in overrides.map(file).transpose()?.unwrap_or_default() {
            let check = read(&name, &value)?;
            rules.insert(name, check);
        }
        Ok(Self { rules })
    }

    /// Whether the caller may do this to that.
    pub fn allow(&self, caller: &Caller, act: Act, target: &Target<'_>) -> Result<Allowed, ApiError> {
        if self.holds(caller, act.as_str(), target) { Ok(Allowed(act)) } else { Err(ApiError::Policy(act.as_str())) }
    }

    /// Whether the token makes its bearer an admin.
    pub fn is_admin(&self, caller: &Caller) -> bool {
        self.holds(caller, "context_is_admin", &Target::default())
    }

    fn holds(&self, caller: &Caller, rule: &str, target: &Target<'_>) -> bool {
        match self.rules.get(rule).or_else(|| self.rules.get("default")) {
            Some(check) => self.eval(check, caller, target, 0),
            None => false,
        }
    }

    fn eval(&self, check: &Check, caller: &Caller, target: &Target<'_>, depth: u32) -> bool {
        if depth > DEPTH {
            return false;
        }
        let eval = |c: &Check| self.eval(c, caller, target, depth + 1);
        match check {
            Check::Always => true,
            Check::Never => false,
            Check::Not(inner) => !eval(inner),
            Check::All(checks) => checks.iter().all(eval),
            Check::Any(checks) => checks.iter().any(eval),
            Check::Rule(name) => self.rules.get(name).or_else(|| self.rules.get("default")).is_some_and(eval),
            Check::Role(role) => expand(role, target).is_some_and(|r| caller.roles.iter().any(|held| held.eq_ignore_ascii_case(&r))),
            Check::Attribute { name, value } => {
                let Some(wanted) = expand(value, target) else { return false };
                attribute(caller, name).is_some_and(|held| held == wanted)
            }
            Check::Literal { text, value } => expand(value, target).is_some_and(|wanted| *text == wanted),
        }
    }
}

/// A rule's right-hand side with `%(name)s` replaced; none when the target has no such attribute.
fn expand(text: &str, target: &Target<'_>) -> Option<String> {
    let Some((before, rest)) = text.split_once("%(") else { return Some(text.to_owned()) };
    let (name, after) = rest.split_once(")s")?;
    Some(format!("{before}{}{}", target.get(name)?, expand(after, target)?))
}

/// What a rule can ask of the caller.
fn attribute<'a>(caller: &'a Caller, name: &str) -> Option<&'a str> {
    match name {
        "is_admin" => Some(if caller.is_admin { "True" } else { "False" }),
        "user_id" | "user" => Some(&caller.user_id.0),
        "user_name" => Some(&caller.user_name),
        "project_id" | "project" | "tenant" | "tenant_id" => caller.project_id.as_ref().map(|p| p.0.as_str()),
        "project_name" => caller.project_name.as_deref(),
        "domain_id" | "user_domain_id" => caller.user_domain_id.as_deref(),
        _ => None,
    }
}

fn file(text: &str) -> Result<Vec<(String, serde_json::Value)>, PolicyError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let parsed: Option<indexmap::IndexMap<String, serde_json::Value>> = match serde_json::from_str(text) {
        Ok(map) => Some(map),
        Err(_) => serde_saphyr::from_str(text).map_err(|e| PolicyError::File(e.to_string()))?,
    };
    Ok(parsed.unwrap_or_default().into_iter().collect())
}

fn read(name: &str, value: &serde_json::Value) -> Result<Check, PolicyError> {
    parser::parse(value).map_err(|reason| PolicyError::Rule { rule: name.to_owned(), reason })
}
