//! The `links` of a thing: itself, and a bookmark without version.

use serde::{Serialize, Serializer};

/// Put together in one piece: JSON escapes a piece at a time, and four short ones cost more than a string.
struct Href<'a> {
    base: &'a str,
    version: &'static str,
    collection: &'a str,
    id: &'a str,
}

impl Serialize for Href<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { base, version, collection, id } = self;
        serializer.serialize_str(&[base, version, "/", collection, "/", id].concat())
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
