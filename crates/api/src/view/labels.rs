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
}
