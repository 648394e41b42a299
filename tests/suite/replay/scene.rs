//! What a case needs before its first request, by `scenes.yaml` and the recording itself.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::case::{Case, folder};
use super::library::{Library, Shown, shown_by};

/// `scenes.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenes {
    pub people: BTreeMap<String, Person>,
    cases: BTreeMap<String, Scene>,
}

/// The ids that a person has in the recordings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    pub project: String,
    pub user: String,
}

/// One entry.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// Who asks.
    #[serde(rename = "as")]
    who: Option<String>,
    #[serde(default)]
    with: Vec<String>,
}

/// A thing that is to be there.
#[derive(Clone)]
pub struct Thing {
    pub kind: &'static str,
    pub body: Shown,
    /// Cluster only: its template's row is gone.
    pub is_orphaned: bool,
}

impl Scenes {
    /// Reads the file.
    pub fn read() -> Result<Self> {
        let path = folder().join("scenes.yaml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
    }

    /// The case's entry: the one of its story, or the one of both.
    pub fn of(&self, case: &Case) -> Scene {
        let own = format!("{}-{}", case.version(), case.number());
        self.cases.get(&own).or_else(|| self.cases.get(case.number())).cloned().unwrap_or_default()
    }
}

impl Scene {
    /// Who asks.
    pub fn who(&self) -> &str {
        self.who.as_deref().unwrap_or("demo")
    }

    /// What is there: what the answers show, and what the entry names.
    pub fn things(&self, case: &Case, library: &Library, people: &BTreeMap<String, Person>) -> Result<Vec<Thing>> {
        let mut things = Vec::new();
        for exchange in case.exchanges.iter().filter(|exchange| exchange.method == "GET" && exchange.status == Some(200)) {
            for (kind, body) in shown_by(&exchange.path, &exchange.answer) {
                let fuller = match kind {
                    "cluster" => library.before(kind, &text(&body, "name"), case.number()),
                    _ => None,
                };
                let mut whole = fuller.unwrap_or_default();
                whole.extend(body);
                things.push(Thing { kind, body: whole, is_orphaned: false });
            }
        }
        things.retain(|thing| !matches!(thing.kind, "nodegroup" | "certificate"));
        for line in &self.with {
            for thing in named(line, case, library, people).with_context(|| line.clone())? {
                let is_there = things.iter().any(|other| other.kind == thing.kind && other.body.get("uuid") == thing.body.get("uuid"));
                if !is_there || thing.kind == "quota" {
                    things.push(thing);
                }
            }
        }
        // A cluster comes with its template, unless that is what the case is about.
        let mut templates = Vec::new();
        for cluster in things.iter().filter(|thing| thing.kind == "cluster" && !thing.is_orphaned) {
            let wanted = cluster.body.get("cluster_template_id");
            let is_wanted = |thing: &Thing| thing.kind == "template" && thing.body.get("uuid") == wanted;
            if !things.iter().chain(&templates).any(is_wanted) {
                let known = library.all_before("template", case.number());
                templates.extend(known.into_iter().map(|body| Thing { kind: "template", body, is_orphaned: false }).find(is_wanted));
            }
        }
        templates.append(&mut things);
        Ok(templates)
    }
}

fn named(line: &str, case: &Case, library: &Library, people: &BTreeMap<String, Person>) -> Result<Vec<Thing>> {
    let mut words = line.split_whitespace();
    let (kind, name) = (words.next().unwrap_or_default(), words.next().context("a name")?.to_owned());
    let kind = match kind {
        "template" => "template",
        "cluster" => "cluster",
        "nodegroup" => "nodegroup",
        "quota" => "quota",
        other => bail!("unknown kind {other}"),
    };
    let (mut like, mut times, mut is_orphaned) = (name.clone(), 1, false);
    if kind == "quota" {
        like = people.get(&name).context("an unknown person")?.project.clone();
    }
    let mut changes = Shown::new();
    while let Some(word) = words.next() {
        if word == "orphaned" {
            is_orphaned = true;
            continue;
        }
        let value = words.next().with_context(|| format!("{word} what?"))?;
        match word {
            "like" => value.clone_into(&mut like),
            "times" => times = value.parse()?,
            "template" => drop(changes.insert("cluster_template_id".to_owned(), json!(value))),
            "nodes" => drop(changes.insert("node_count".to_owned(), json!(value.parse::<i32>()?))),
            "uuid" if kind == "template" => value.clone_into(&mut like),
            "uuid" | "status" | "of" => drop(changes.insert(word.to_owned(), json!(value))),
            other => bail!("unknown word {other}"),
        }
    }
    if kind == "nodegroup" {
        like = format!("default-worker of {}", text(&changes, "of"));
        changes.insert("is_default".to_owned(), json!(false));
        changes.insert("uuid".to_owned(), json!(Uuid::new_v4().to_string()));
    }
    let Some(body) = library.before(kind, &like, case.number()) else { return Ok(Vec::new()) };
    let things = (0..times).map(|_| {
        let mut body = body.clone();
        if kind == "cluster" && like != name {
            body.insert("uuid".to_owned(), json!(Uuid::new_v4().to_string()));
        }
        if matches!(kind, "cluster" | "nodegroup") {
            body.insert("name".to_owned(), json!(name));
        }
        body.extend(changes.clone());
        Thing { kind, body, is_orphaned }
    });
    Ok(things.collect())
}

/// A text of a body; empty when there is none.
pub fn text(body: &Shown, key: &str) -> String {
    body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
