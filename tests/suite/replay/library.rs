//! What a story shows of its templates, clusters, certificates and quotas: the source of the rows that cases need.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::case::Case;

/// A body of the API.
pub type Shown = Map<String, Value>;

/// Everything one story shows, by kind and name, with the number of the case that shows it.
#[derive(Default)]
pub struct Library {
    shown: BTreeMap<(&'static str, String), Vec<(String, Shown)>>,
}

impl Library {
    /// Reads the cases of one version.
    pub fn of(cases: &[Case], version: &str) -> Self {
        let mut library = Self::default();
        for case in cases.iter().filter(|case| case.version() == version) {
            for exchange in &case.exchanges {
                if exchange.status.is_some_and(|status| status < 300) {
                    for (kind, body) in shown_by(&exchange.path, &exchange.answer) {
                        library.shown.entry((kind, name(kind, &body))).or_default().push((case.number().to_owned(), body));
                    }
                }
            }
        }
        library
    }

    /// The thing as it was last shown before a case, or else as it was first shown later.
    pub fn before(&self, kind: &'static str, name: &str, number: &str) -> Option<Shown> {
        let all = self.shown.get(&(kind, name.to_owned()))?;
        let most = all.iter().map(|(_, body)| body.len()).max()?;
        // Lists of clusters show less than a cluster by itself.
        let mut full = all.iter().filter(|(_, body)| body.len() == most);
        let earlier = full.clone().rfind(|(at, _)| at.as_str() < number);
        Some(earlier.or_else(|| full.next())?.1.clone())
    }

    /// All things of a kind, each as it was shown before a case.
    pub fn all_before(&self, kind: &'static str, number: &str) -> Vec<Shown> {
        self.shown.keys().filter(|(of, _)| *of == kind).filter_map(|(_, name)| self.before(kind, name, number)).collect()
    }
}

/// The things in an answer, with their kinds.
pub fn shown_by(path: &str, answer: &Value) -> Vec<(&'static str, Shown)> {
    let lists = [("clustertemplates", "template"), ("clusters", "cluster"), ("nodegroups", "nodegroup"), ("quotas", "quota")];
    for (key, kind) in lists {
        if let Some(items) = answer[key].as_array() {
            // The version document has lists of links under the same keys.
            let things = items.iter().filter_map(Value::as_object).filter(|item| !item.contains_key("href"));
            return things
                .map(|item| {
                    let mut item = item.clone();
                    if kind == "nodegroup" {
                        item.insert("of".to_owned(), Value::String(path.split('/').nth(3).unwrap_or_default().to_owned()));
                    }
                    (kind, item)
                })
                .collect();
        }
    }
    let Some(body) = answer.as_object() else { return Vec::new() };
    let kind = match body {
        _ if body.contains_key("pem") => "certificate",
        _ if body.contains_key("hard_limit") => "quota",
        _ if body.contains_key("coe") => "template",
        _ if body.contains_key("create_timeout") => "cluster",
        _ => return Vec::new(),
    };
    vec![(kind, body.clone())]
}

fn name(kind: &str, body: &Shown) -> String {
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind {
        "certificate" => "any".to_owned(),
        "quota" => text("project_id"),
        "nodegroup" => format!("{} of {}", text("name"), text("of")),
        // Many templates of the stories share a name; those that cases name do not, but for `tpl`.
        "template" if text("name") == "tpl" => text("uuid"),
        _ => text("name"),
    }
}
