//! Labels as this driver reads them: the template's and the cluster's, whose win, then the operator's default; cleaned as upstream does.

use std::collections::BTreeMap;

use model::json::{Labels, truth};

/// The labels in force for a cluster.
pub(super) struct Choices<'a> {
    given: Labels,
    defaults: &'a BTreeMap<&'static str, String>,
}

fn kept(text: &str, more: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphanumeric() || more.contains(*c)).collect()
}

impl<'a> Choices<'a> {
    /// Merged whatever the user asked Magnum to do with them.
    pub fn new(template: Labels, cluster: Labels, defaults: &'a BTreeMap<&'static str, String>) -> Self {
        Self { given: template.with(Some(cluster), true), defaults }
    }

    fn raw(&self, name: &str) -> Option<&str> {
        self.given.get(name)
    }

    fn default_of(&self, name: &str) -> &str {
        self.defaults.get(name).map_or("", String::as_str)
    }

    /// Text, without characters that have a meaning elsewhere.
    pub fn text(&self, name: &str) -> String {
        kept(self.raw(name).unwrap_or_else(|| self.default_of(name)), ".-/ _")
    }

    /// As [`Self::text`]; none when it is empty.
    pub fn some(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// Truth; a word that is none counts as the default.
    pub fn flag(&self, name: &str) -> bool {
        self.raw(name).and_then(truth).or_else(|| truth(self.default_of(name))).unwrap_or(false)
    }

    /// A whole number; a text that is none counts as the default.
    pub fn number(&self, name: &str) -> Option<i64> {
        let read = |text: &str| text.trim().parse().ok();
        self.raw(name).and_then(read).or_else(|| read(self.default_of(name)))
    }

    /// The entries of a list with commas.
    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.raw(name).unwrap_or_else(|| self.default_of(name));
        text.split(',').map(|entry| kept(entry, ".-/:")).filter(|entry| !entry.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clusters_label_wins_and_what_is_no_value_counts_as_the_default() {
        let labels = |pairs: &[(&str, &str)]| Labels(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        let defaults = BTreeMap::from([("auto_healing_enabled", "true".to_owned()), ("octavia_provider", "amphora".to_owned())]);
        let template = labels(&[("octavia_provider", "ovn"), ("a", "1"), ("auto_healing_enabled", "nonsense")]);
        let cluster = labels(&[("a", "2"), ("list", "10.0.0.0/8, 192.0.2.0/24;x,"), ("boot", "SSD Fast;rm -rf $HOME")]);
        let choices = Choices::new(template, cluster, &defaults);
        assert_eq!((choices.text("octavia_provider"), choices.number("a")), ("ovn".to_owned(), Some(2)));
        assert!(choices.flag("auto_healing_enabled"));
        assert_eq!(choices.list("list"), ["10.0.0.0/8", "192.0.2.0/24x"]);
        assert_eq!(choices.text("boot"), "SSD Fastrm -rf HOME");
        assert_eq!((choices.some("none"), choices.number("none"), choices.flag("none")), (None, None, false));
    }
}
