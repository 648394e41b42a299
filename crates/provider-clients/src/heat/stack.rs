//! What goes to Heat and comes from it. `Debug` of anything with parameters leaves their values out: passwords are among them.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use crate::json::{or_default, time};

/// A stack to be made.
#[derive(Clone, Default, PartialEq)]
pub struct NewStack {
    pub name: String,
    /// The top template's text.
    pub template: String,
    /// Texts of the files that templates name.
    pub files: BTreeMap<String, String>,
    /// Registry of resource types, parameters and their defaults; empty: none.
    pub environment: Map<String, Value>,
    pub parameters: Map<String, Value>,
    /// Names of parameters of which no error may show what they are given.
    pub hidden: &'static [&'static str],
    pub timeout_mins: u32,
    /// Without commas: Heat splits at them.
    pub tags: Vec<String>,
    pub disable_rollback: bool,
}

/// What Heat keeps of how a stack was made.
#[derive(Clone, PartialEq)]
pub struct Blueprint {
    pub template: Value,
    pub files: BTreeMap<String, String>,
    /// With `parameters`, `parameter_defaults` and `resource_registry`.
    pub environment: Map<String, Value>,
}

/// A change to a stack; what is not given stays.
#[derive(Clone, Default, PartialEq)]
pub struct StackUpdate {
    pub parameters: Map<String, Value>,
    /// Names of parameters of which no error may show what they are given.
    pub hidden: &'static [&'static str],
    pub template: Option<String>,
    pub files: BTreeMap<String, String>,
    pub timeout_mins: Option<u32>,
    pub disable_rollback: Option<bool>,
}

/// Which stacks to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFilter {
    /// One of them; none: any. They go into the address of the request, 40 bytes each: a hundred at once are fine, a thousand are not.
    pub ids: Vec<String>,
    /// All of them must be there.
    pub tags: Vec<String>,
    pub name: Option<String>,
    pub show_deleted: bool,
    /// The stacks of all projects; for administrators.
    pub all_projects: bool,
}

/// A stack as Heat shows it, without its outputs.
#[derive(Clone, Default, PartialEq, Deserialize)]
pub struct Stack {
    pub id: String,
    #[serde(rename = "stack_name", default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(rename = "stack_status", default, deserialize_with = "or_default")]
    pub status: String,
    #[serde(rename = "stack_status_reason", default, deserialize_with = "or_default")]
    pub status_reason: String,
    #[serde(default, deserialize_with = "or_default")]
    pub parameters: Map<String, Value>,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
    #[serde(default, deserialize_with = "time")]
    pub creation_time: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "time")]
    pub updated_time: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "time")]
    pub deletion_time: Option<DateTime<Utc>>,
}

/// A resource of a stack or of a stack nested in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct StackResource {
    pub resource_name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub resource_type: String,
    #[serde(default, deserialize_with = "or_default")]
    pub resource_status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub resource_status_reason: String,
    /// Empty until it is made.
    #[serde(default, deserialize_with = "or_default")]
    pub physical_resource_id: String,
    /// The resource of the outer stack that this one's stack belongs to.
    #[serde(default)]
    pub parent_resource: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub links: Vec<Link>,
}

/// A link of a resource: `self`, `stack` (it is in), `nested` (it is).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Link {
    #[serde(default)]
    pub href: String,
    #[serde(default)]
    pub rel: String,
}

/// What a wait condition's handle is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// One that comes later with the same id takes its place.
    pub id: String,
    /// `SUCCESS` or `FAILURE`.
    pub status: String,
    pub reason: String,
    pub data: String,
}

impl StackResource {
    /// Whether its last action failed.
    pub fn has_failed(&self) -> bool {
        self.resource_status.ends_with("_FAILED")
    }

    /// The name and id of the stack it is in.
    pub fn stack(&self) -> Option<(String, String)> {
        self.linked("stack")
    }

    /// The name and id of the stack that it is.
    pub fn nested_stack(&self) -> Option<(String, String)> {
        self.linked("nested")
    }

    fn linked(&self, rel: &str) -> Option<(String, String)> {
        name_and_id(&self.links.iter().find(|link| link.rel == rel)?.href)
    }
}

/// Reads `…/stacks/<name>/<id>`.
pub(crate) fn name_and_id(url: &str) -> Option<(String, String)> {
    let base = Url::parse("http://heat.invalid/").ok()?;
    let url = base.join(url).ok()?;
    let mut segments = url.path_segments()?.skip_while(|segment| *segment != "stacks").skip(1);
    let mut next = || segments.next().filter(|s| !s.is_empty()).and_then(|s| Some(percent_decode_str(s).decode_utf8().ok()?.into_owned()));
    Some((next()?, next()?))
}

impl fmt::Debug for NewStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewStack")
            .field("name", &self.name)
            .field("parameters", &names(&self.parameters))
            .field("timeout_mins", &self.timeout_mins)
            .field("tags", &self.tags)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StackUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackUpdate")
            .field("parameters", &names(&self.parameters))
            .field("timeout_mins", &self.timeout_mins)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("status", &self.status)
            .field("status_reason", &self.status_reason)
            .field("parameters", &names(&self.parameters))
            .field("tags", &self.tags)
            .finish_non_exhaustive()
    }
}

fn names(parameters: &Map<String, Value>) -> Vec<&String> {
    parameters.keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stack_address_gives_name_and_id() {
        let pair = Some(("a b".to_owned(), "1".to_owned()));
        assert_eq!(name_and_id("http://heat:8004/v1/p/stacks/a%20b/1"), pair);
        assert_eq!(name_and_id("/v1/p/stacks/a%20b/1/resources/x"), pair);
        assert_eq!(name_and_id("http://heat:8004/v1/p/stacks/a"), None);
        assert_eq!(name_and_id("http://heat:8004/v1/p/stacks//"), None);
    }

    #[test]
    fn a_stack_with_nulls_is_read_and_does_not_print_its_parameters() {
        let stack: Stack = serde_json::from_value(json!({
            "id": "1", "stack_name": "s", "stack_status": "CREATE_COMPLETE", "stack_status_reason": null, "tags": null,
            "parameters": {"trustee_password": "hunter2"}, "creation_time": "2026-01-02T03:04:05Z", "deletion_time": null,
        }))
        .expect("a stack");
        assert!(stack.creation_time.is_some() && stack.deletion_time.is_none() && stack.tags.is_empty());
        let text = format!("{stack:?}");
        assert!(text.contains("trustee_password") && !text.contains("hunter2"), "{text}");
    }
}
