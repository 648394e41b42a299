//! Labels, and who has them: whoever looks for the objects of one release among thousands of releases looks at no other.

use std::collections::{BTreeSet, HashMap, hash_map::Entry};

use serde_json::Value;

use crate::management::store::Key;

/// The objects with each label, by its name and value.
#[derive(Default)]
pub(crate) struct Labels(HashMap<(String, String), BTreeSet<Key>>);

/// Among which objects those are that a selector is for.
pub(crate) enum Fewest<'a> {
    /// Among all.
    Any,
    /// There are none.
    None,
    Of(&'a BTreeSet<Key>),
}

impl Labels {
    /// Keeps who has which label as an object was and is.
    pub(crate) fn keep(&mut self, key: &Key, was: Option<&Value>, is: Option<&Value>) {
        let labels =
            |object: Option<&Value>| object.and_then(|object| object["metadata"]["labels"].as_object()).cloned().unwrap_or_default();
        let (was, is) = (labels(was), labels(is));
        if was == is {
            return;
        }
        let label = |(name, value): (String, Value)| (name, value.as_str().unwrap_or_default().to_owned());
        for had in was.into_iter().map(label) {
            if let Entry::Occupied(mut keys) = self.0.entry(had) {
                keys.get_mut().remove(key);
                if keys.get().is_empty() {
                    keys.remove();
                }
            }
        }
        for has in is.into_iter().map(label) {
            self.0.entry(has).or_default().insert(key.clone());
        }
    }

    /// The smallest set that everything is in that has the labels of a selector.
    pub(crate) fn fewest(&self, selector: &str) -> Fewest<'_> {
        let mut fewest = Fewest::Any;
        for (name, value) in equalities(selector) {
            let Some(keys) = self.0.get(&(name.to_owned(), value.to_owned())) else { return Fewest::None };
            if !matches!(fewest, Fewest::Of(known) if known.len() <= keys.len()) {
                fewest = Fewest::Of(keys);
            }
        }
        fewest
    }
}

/// Whether labels fit a selector of equalities.
pub(crate) fn is_selected(object: &Value, selector: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    let is_there = |part: &str| part.is_empty() || part.contains('=') || !labels[part].is_null();
    selector.split(',').all(is_there) && equalities(selector).all(|(name, value)| labels[name] == value)
}

/// The names and values that a selector asks for.
fn equalities(selector: &str) -> impl Iterator<Item = (&str, &str)> {
    selector.split(',').filter_map(|part| part.split_once('=')).map(|(name, value)| (name, value.trim_start_matches('=')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::clock;
    use crate::management::discovery;
    use crate::management::store::{Key, Store};

    #[test]
    fn what_a_selector_finds_is_what_has_the_labels_now() {
        let kind = discovery::named("Machine").next().expect("a kind");
        let key = |namespace: &str, name: &str| Key { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        let mut store = Store::default();
        for (namespace, name, release) in [("one", "a", "blue"), ("one", "b", "green"), ("two", "a", "blue")] {
            store.insert(key(namespace, name), json!({"metadata": {"labels": {"release": release, "all": "yes"}}}), clock::now());
        }
        let found = |store: &Store, namespace: Option<&str>, selector: &str| -> Vec<String> {
            store.selected(kind, namespace, selector).map(|(key, _)| format!("{}/{}", key.namespace, key.name)).collect()
        };
        assert_eq!(found(&store, None, "all=yes,release=blue"), ["one/a", "two/a"]);
        assert_eq!(found(&store, Some("one"), "release==blue,all"), ["one/a"]);
        assert_eq!(found(&store, Some("one"), "all"), ["one/a", "one/b"]);
        assert!(found(&store, None, "release=red").is_empty() && found(&store, None, "release=blue,other").is_empty());
        store.replace(&key("one", "a"), json!({"metadata": {"labels": {"release": "green"}}}), false).expect("it stays");
        assert_eq!(found(&store, None, "release=blue"), ["two/a"]);
        assert_eq!(found(&store, None, "release=green"), ["one/a", "one/b"]);
        store.delete(&key("one", "b"), clock::now()).expect("it was there");
        assert_eq!(found(&store, None, "release=green"), ["one/a"]);
    }
}
