//! Label columns on their way out: parsed without copying where the stored text allows it, leniently where it does not.

use std::borrow::Cow;
use std::fmt;

use model::json::Labels;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A stored map of text, borrowed from its column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredMap<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> StoredMap<'a> {
    /// Reads a column; one odd row must never break a list.
    pub fn read(column: Option<&'a str>) -> Self {
        match column {
            None | Some("" | "{}" | "null") => Self::default(),
            Some(text) => serde_json::from_str::<Pairs<'a>>(text)
                .map(|p| Self(p.0))
                .unwrap_or_else(|_| Self(Labels::read(Some(text)).0.into_iter().map(|(k, v)| (Cow::Owned(k), Cow::Owned(v))).collect())),
        }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_ref())
    }

    /// How these labels differ from those of the template (or cluster) they come from.
    pub fn against<'b>(&'b self, origin: &'b StoredMap<'b>) -> Differences<'b> {
        let mut found = Differences::default();
        for (key, value) in &self.0 {
            match origin.get(key) {
                Some(theirs) if theirs != value => found.overridden.0.push((key, theirs)),
                Some(_) => {}
                None => found.added.0.push((key, value)),
            }
        }
        found.skipped.0 = origin.0.iter().filter(|(k, _)| self.get(k).is_none()).map(|(k, v)| (k.as_ref(), v.as_ref())).collect();
        found
    }
}

/// Reads a column that holds a list of text; NULL and broken text are an empty list.
pub fn stored_list(column: Option<&str>) -> Vec<Cow<'_, str>> {
    match column {
        None | Some("" | "[]") => Vec::new(),
        Some(text) => serde_json::from_str::<Vec<Text<'_>>>(text).unwrap_or_default().into_iter().map(|text| text.0).collect(),
    }
}

impl Serialize for StoredMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(k, v)| (k, v)))
    }
}

/// Pairs of borrowed text, in order.
#[derive(Clone, Debug, Default)]
pub struct PairsOf<'a>(pub Vec<(&'a str, &'a str)>);

impl Serialize for PairsOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// The three label differences.
#[derive(Clone, Debug, Default)]
pub struct Differences<'a> {
    /// Other values than the origin's, which are shown.
    pub overridden: PairsOf<'a>,
    /// Labels the origin lacks.
    pub added: PairsOf<'a>,
    /// Labels only the origin has.
    pub skipped: PairsOf<'a>,
}

struct Pairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Vec<(Cow<'de, str>, Cow<'de, str>)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of text to text")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some((key, value)) = map.next_entry::<Text<'de>, Text<'de>>()? {
                    pairs.push((key.0, value.0));
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Map).map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn odd_rows_are_shown_as_what_can_be_saved() {
        let json = |text| serde_json::to_string(&StoredMap::read(text)).expect("serialises");
        assert_eq!(json(Some(r#"{"b": "1", "a": "\u00e9"}"#)), r#"{"b":"1","a":"é"}"#);
        assert_eq!(json(Some(r#"{"b": 5, "c": null}"#)), r#"{"b":"5"}"#);
        assert_eq!(json(None), "{}");
        assert_eq!(json(Some("nonsense")), "{}");
    }

    #[test]
    fn differences_show_the_values_that_clients_rebuild_their_view_from() {
        let template = StoredMap::read(Some(r#"{"a": "1", "b": "2", "c": "3"}"#));
        let cluster = StoredMap::read(Some(r#"{"a": "1", "b": "x", "d": "4"}"#));
        let found = cluster.against(&template);
        assert_eq!(found.overridden.0, [("b", "2")]);
        assert_eq!(found.added.0, [("d", "4")]);
        assert_eq!(found.skipped.0, [("c", "3")]);
    }

    fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
        // Few keys and values, so that two maps have much in common; some that JSON must escape.
        prop::collection::btree_map("[a-d\"\\\\é]{1,2}", "[01\n]{0,2}", 0..8)
    }

    fn text(map: &BTreeMap<String, String>) -> String {
        serde_json::to_string(map).expect("serialises")
    }

    fn owned(pairs: &PairsOf<'_>) -> BTreeMap<String, String> {
        pairs.0.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_view_rebuilt_from_its_differences_is_the_original(ours in map(), theirs in map()) {
            let (our_text, their_text) = (text(&ours), text(&theirs));
            let (cluster, template) = (StoredMap::read(Some(&our_text)), StoredMap::read(Some(&their_text)));
            let found = cluster.against(&template);
            let (overridden, added, skipped) = (owned(&found.overridden), owned(&found.added), owned(&found.skipped));
            prop_assert_eq!((overridden.len(), added.len(), skipped.len()), (found.overridden.0.len(), found.added.0.len(), found.skipped.0.len()));

            // By the definition of sets: a key is in one of the three at most, and in none exactly if both sides agree on it.
            for key in ours.keys().chain(theirs.keys()) {
                let (our, their) = (ours.get(key), theirs.get(key));
                prop_assert_eq!(overridden.get(key), their.filter(|_| our.is_some() && our != their), "{}", key);
                prop_assert_eq!(added.get(key), our.filter(|_| their.is_none()), "{}", key);
                prop_assert_eq!(skipped.get(key), their.filter(|_| our.is_none()), "{}", key);
            }
            // What a client does with them: the template's labels are the cluster's, with these three turned back.
            let mut rebuilt = ours.clone();
            rebuilt.retain(|key, _| !added.contains_key(key));
            rebuilt.extend(overridden);
            rebuilt.extend(skipped);
            prop_assert_eq!(rebuilt, theirs);
        }

        #[test]
        fn what_was_stored_is_shown_as_it_was(ours in map()) {
            let stored = text(&ours);
            let shown = serde_json::to_string(&StoredMap::read(Some(&stored))).expect("serialises");
            prop_assert_eq!(serde_json::from_str::<BTreeMap<String, String>>(&shown).expect("a map"), ours);
        }
    }
}
