//! `differences.yaml`: what is answered differently on purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::case::{Case, Exchange, folder};
use super::compare::Difference;

/// The file, and which of its parts have been needed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Differences {
    rules: BTreeMap<Rule, String>,
    cases: Vec<Entry>,
    #[serde(skip)]
    used: BTreeSet<String>,
}

/// A difference that is told by a rule, for it is in many exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Rule {
    /// Other words for the same error, which name everything of the request that upstream's words name.
    Wording,
    /// The service word and the highest version, where 20.0.2 has those of its time.
    Versions,
    /// What later microversions show at `latest`.
    Latest,
}

/// Cases that differ in the same way.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Version and number: `20.0.2-011`.
    cases: Vec<String>,
    /// Our status, where it differs.
    status: Option<u16>,
    /// What our message says, where the status differs.
    says: Option<String>,
    /// Where headers or bodies differ; `*` is any one step.
    #[serde(default)]
    at: Vec<String>,
    reason: String,
}

impl Differences {
    /// Reads the file.
    pub fn read() -> Result<Self> {
        let path = folder().join("differences.yaml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Whether the file explains a difference.
    pub fn explain(&mut self, case: &Case, difference: &Difference, our_text: &str) -> bool {
        let exchange = &case.exchanges[difference.exchange];
        let rule = self.rules.keys().copied().find(|rule| rule.explains(case, exchange, difference));
        if let Some(rule) = rule {
            self.used.insert(format!("rule {rule:?}"));
            return true;
        }
        let id = format!("{}-{}", case.version(), case.number());
        let entry = self.cases.iter().position(|entry| entry.cases.contains(&id) && entry.explains(difference, our_text));
        if let Some(number) = entry {
            self.used.insert(format!("entry {number} case {id}"));
        }
        entry.is_some()
    }

    /// What is listed and was not needed, and what is listed without a reason.
    pub fn left_over(&self) -> Vec<String> {
        let rules = self.rules.iter().map(|(rule, reason)| (format!("rule {rule:?}"), reason));
        let of_entries = self
            .cases
            .iter()
            .enumerate()
            .flat_map(|(number, entry)| entry.cases.iter().map(move |id| (format!("entry {number} case {id}"), &entry.reason)));
        rules.chain(of_entries).filter(|(what, reason)| !self.used.contains(what) || reason.len() < 10).map(|(what, _)| what).collect()
    }
}

impl Entry {
    fn explains(&self, difference: &Difference, our_text: &str) -> bool {
        if difference.at == "status" {
            return self.status.is_some_and(|status| difference.ours == status)
                && self.says.as_deref().is_none_or(|says| our_text.contains(says));
        }
        self.at.iter().any(|pattern| is_at(pattern, &difference.at))
    }
}

fn is_at(pattern: &str, at: &str) -> bool {
    let (pattern, at): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), at.split('/').collect());
    pattern.len() == at.len() && pattern.iter().zip(at).all(|(wanted, step)| *wanted == "*" || *wanted == step)
}

impl Rule {
    fn explains(self, case: &Case, exchange: &Exchange, difference: &Difference) -> bool {
        let (at, theirs, ours) = (difference.at.as_str(), &difference.theirs, &difference.ours);
        match self {
            Self::Wording => match (at.rsplit('/').next(), theirs.as_str(), ours.as_str()) {
                (Some("title"), Some(theirs), Some(ours)) if !theirs.is_empty() => !ours.is_empty(),
                (Some("detail" | "description"), Some(theirs), Some(ours)) if !theirs.is_empty() => names_as_much(exchange, theirs, ours),
                _ => false,
            },
            Self::Versions => {
                let is_version = at.starts_with("header/OpenStack-API") || at.ends_with("max_version") || at.ends_with("description");
                let newer = |text: &str| text.replace("container-infra ", "container-infrastructure-management ").replace("1.11", "1.14");
                case.version() == "20.0.2" && is_version && theirs.as_str().map(newer).as_deref() == ours.as_str()
            }
            Self::Latest => {
                let asks_latest = exchange.headers.iter().any(|(_, value)| value.ends_with(" latest"));
                let is_later =
                    matches!(at.rsplit('/').next(), Some("stack_id" | "cluster_id" | "node_labels" | "node_taints" | "credentials"));
                case.version() == "20.0.2" && (asks_latest || at == "credentials") && is_later && (is_absent(theirs) || is_absent(ours))
            }
        }
    }
}

fn is_absent(value: &Value) -> bool {
    value == "(absent)"
}

/// Whether every word of their message that is a key or a value of the request is in our message too.
fn names_as_much(exchange: &Exchange, theirs: &str, ours: &str) -> bool {
    let mut named = BTreeSet::new();
    collect(&exchange.body, &mut named);
    named.extend(exchange.path.split(['/', '?', '=', '&']).map(str::to_owned));
    // Upstream sometimes prints the whole body, or the whole patch; that names nothing.
    let shown = match (theirs.find(['{', '[']), theirs.rfind(['}', ']'])) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &theirs[..from], &theirs[to..]),
        _ => theirs.to_owned(),
    };
    let ours = ours.to_lowercase();
    let words = shown.split(|c: char| !(c.is_alphanumeric() || "_-.".contains(c))).map(|word| word.trim_end_matches('.'));
    words.filter(|word| (2..100).contains(&word.len()) && named.contains(*word)).all(|word| ours.contains(&word.to_lowercase()))
}

fn collect(value: &Value, named: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            // What is done is no name; to what is one.
            for (key, value) in map.iter().filter(|(key, _)| *key != "op") {
                named.insert(key.clone());
                collect(value, named);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, named)),
        Value::String(text) => drop(named.insert(text.clone())),
        Value::Number(number) => drop(named.insert(number.to_string())),
        Value::Null | Value::Bool(_) => {}
    }
}
