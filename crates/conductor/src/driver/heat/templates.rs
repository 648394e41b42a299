//! The Heat templates of clusters: those that are shipped, or an operator's own in their place.
//!
//! An operator's template is held to what the driver needs of it when a conductor starts, not when a cluster is made of it: it takes every
//! parameter that the shipped one takes, asks for no other, tells every output, has the groups of nodes under their names, and names nodes as the
//! shipped one does.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

/// The templates, by the names of their files. Two of these are types of resources as well, of a master and of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatTemplates {
    /// `kubecluster.yaml`: a cluster.
    pub(super) cluster: Text,
    /// `kubemaster.yaml`: a master.
    pub(super) master: Text,
    /// `kubeminion.yaml`: a worker.
    pub(super) worker: Text,
    /// `nodegroup.yaml`: a group of workers.
    pub(super) group: Text,
}

type Text = Cow<'static, str>;

pub(super) const MASTER: &str = "kubemaster.yaml";
pub(super) const WORKER: &str = "kubeminion.yaml";
const CLUSTER: &str = "kubecluster.yaml";
const GROUP: &str = "nodegroup.yaml";

/// Those of this version.
pub static SHIPPED_TEMPLATES: HeatTemplates = HeatTemplates {
    cluster: Cow::Borrowed(include_str!("templates/kubecluster.yaml")),
    master: Cow::Borrowed(include_str!("templates/kubemaster.yaml")),
    worker: Cow::Borrowed(include_str!("templates/kubeminion.yaml")),
    group: Cow::Borrowed(include_str!("templates/nodegroup.yaml")),
};

/// A template that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {rule}")]
pub struct TemplateError {
    file: String,
    rule: String,
}

impl HeatTemplates {
    /// The files of a folder, by their names, in the place of the shipped ones.
    ///
    /// # Errors
    /// No file, one that is none of the four, or a template that the driver cannot use.
    pub fn of_files(files: &BTreeMap<String, String>) -> Result<Self, TemplateError> {
        let mut all = SHIPPED_TEMPLATES.clone();
        let refuse = |file: &str, rule: String| TemplateError { file: file.to_owned(), rule };
        if files.is_empty() {
            return Err(refuse("the folder", format!("it holds none of {CLUSTER}, {MASTER}, {WORKER} and {GROUP}")));
        }
        for (file, text) in files {
            let refuse = |rule| refuse(file, rule);
            let place = match file.as_str() {
                CLUSTER => &mut all.cluster,
                MASTER => &mut all.master,
                WORKER => &mut all.worker,
                GROUP => &mut all.group,
                _ => return Err(refuse(format!("it is none of {CLUSTER}, {MASTER}, {WORKER} and {GROUP}"))),
            };
            check(text, place).map_err(refuse)?;
            *place = Cow::Owned(text.clone());
        }
        Ok(all)
    }
}

/// The type of what holds the nodes of a pool.
const NODES: &str = "OS::Heat::ResourceGroup";

/// What a section of a template holds, by name.
fn entries<'a>(template: &'a Value, section: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    template[section].as_object().into_iter().flatten()
}

/// Whether a template can stand in the place of the shipped one.
fn check(text: &str, shipped: &str) -> Result<(), String> {
    let read = |text: &str| serde_saphyr::from_str(text).map(Value::Object).map_err(|e| format!("it is no YAML mapping: {e}"));
    let (theirs, ours) = (read(text)?, read(shipped)?);
    if theirs.get("heat_template_version").is_none() {
        return Err("heat_template_version is missing".into());
    }
    for name in ["parameters", "outputs"] {
        if let Some((missing, _)) = entries(&ours, name).find(|(key, _)| theirs[name].get(key).is_none()) {
            return Err(format!("{name} lacks {missing}, which the driver needs"));
        }
    }
    let is_unknown = |(key, parameter): &(&String, &Value)| ours["parameters"].get(key).is_none() && parameter.get("default").is_none();
    if let Some((key, _)) = entries(&theirs, "parameters").find(is_unknown) {
        return Err(format!("the parameter {key} needs a default: the driver does not know it"));
    }
    let is_lost = |(key, resource): &(&String, &Value)| resource["type"] == NODES && theirs["resources"][key.as_str()]["type"] != NODES;
    if let Some((key, _)) = entries(&ours, "resources").find(is_lost) {
        return Err(format!("resources lacks {key} of type {NODES}, in which the driver finds nodes"));
    }
    let name = |resource: &Value| resource["properties"]["resource_def"]["properties"]["name"].clone();
    let is_renamed =
        |(key, resource): &(&String, &Value)| resource["type"] == NODES && name(resource) != name(&theirs["resources"][key.as_str()]);
    if let Some((key, _)) = entries(&ours, "resources").find(is_renamed) {
        return Err(format!("resources gives the nodes of {key} other names; masters know by these which ones new ones replace"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Result<HeatTemplates, TemplateError> {
        HeatTemplates::of_files(&files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn some_of_the_templates_are_an_operators_and_the_shipped_ones_are_the_rest() {
        let own = SHIPPED_TEMPLATES.worker.replacen("resources:", "# ours\nresources:", 1);
        let all = of(&[(WORKER, &own)]).expect("the template is good");
        assert_eq!(all.worker, own);
        assert_eq!(HeatTemplates { worker: SHIPPED_TEMPLATES.worker.clone(), ..all }, SHIPPED_TEMPLATES);
    }

    #[test]
    fn what_the_driver_cannot_use_is_named() {
        let cluster = &*SHIPPED_TEMPLATES.cluster;
        let cases = [
            (CLUSTER, "- a\n".to_owned(), "no YAML mapping"),
            (CLUSTER, "resources: {}\n".to_owned(), "heat_template_version is missing"),
            (CLUSTER, cluster.replace("\n  number_of_minions:", "\n  workers:"), "parameters lacks number_of_minions"),
            (CLUSTER, cluster.replace("\n  api_address:", "\n  other_address:"), "outputs lacks api_address"),
            (
                CLUSTER,
                cluster.replace("\n  kube_minions:\n    type: OS::Heat::ResourceGroup", "\n  others:\n    type: OS::Heat::ResourceGroup"),
                "resources lacks kube_minions",
            ),
            (
                CLUSTER,
                cluster.replacen("\nparameters:\n", "\nparameters:\n  rack:\n    type: string\n", 1),
                "parameter rack needs a default",
            ),
            (CLUSTER, cluster.replace(", node, \"%index%\"]", ", worker, \"%index%\"]"), "gives the nodes of kube_minions other names"),
            ("kubecluster.yml", cluster.to_owned(), "it is none of"),
        ];
        for (name, text, words) in cases {
            let said = of(&[(name, &text)]).expect_err(words).to_string();
            assert!(said.contains(words) && said.starts_with(&format!("{name}: ")), "{words}: {said}");
        }
        assert!(of(&[]).expect_err("nothing").to_string().contains("it holds none of"));
    }
}
