//! The `links` of a thing: itself, and a bookmark without version.

use std::fmt;

use serde::{Serialize, Serializer};

/// Writes text piece by piece, without making a string of it first.
struct Href<'a> {
    base: &'a str,
    version: &'static str,
    collection: &'a str,
    id: &'a str,
}

impl fmt::Display for Href<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}/{}/{}", self.base, self.version, self.collection, self.id)
    }
}

impl Serialize for Href<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Serialize)]
struct Link<'a> {
    href: Href<'a>,
    rel: &'static str,
}

/// Both links of `collection/id`.
#[derive(Clone, Copy, Debug)]
pub struct Links<'a> {
    pub base: &'a str,
    pub collection: &'a str,
    pub id: &'a str,
}

impl Serialize for Links<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { base, collection, id } = *self;
        let link = |version, rel| Link { href: Href { base, version, collection, id }, rel };
        [link("/v1", "self"), link("", "bookmark")].serialize(serializer)
    }
}
