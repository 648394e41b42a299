//! Answers as tables of properties: the response part of the OpenAPI document. A table stands beside the code that serialises, and debug
//! builds check every answer against it, so that neither can change alone.

use serde_json::Value;

use super::schema::{Schema, is_uuid_like};
use crate::microversion::Microversion;

/// What an answer, or a part of one, holds.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// No body.
    Nothing,
    Text,
    Uuid,
    /// An absolute address.
    Url,
    /// `2026-03-04T05:06:07+00:00`, or with microseconds.
    Time,
    /// A whole number of at least so much.
    Integer(i64),
    Boolean,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// An object of strings, whatever the keys.
    StringMap,
    /// That, or null.
    Nullable(&'static Shape),
    List(&'static Shape),
    Object(&'static Object),
}

/// An object with known keys.
#[derive(Debug)]
pub struct Object {
    /// Its name in the OpenAPI document.
    pub name: &'static str,
    pub properties: &'static [Property],
    /// The request body that says what properties without a text of their own mean.
    pub like: Option<&'static Schema>,
}

/// A key of an object.
#[derive(Debug)]
pub struct Property {
    pub name: &'static str,
    pub shape: Shape,
    pub shown: Shown,
    /// What it means; may be empty where `Object::like` knows.
    pub about: &'static str,
}

/// When a key is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Always,
    /// Always from this microversion on, never below.
    Since(Microversion),
    /// Never from this microversion on, always below.
    Before(Microversion),
    /// Sometimes from this microversion on, always below.
    AlwaysBefore(Microversion),
    Sometimes,
}

/// A text, or null.
pub const MAYBE_TEXT: Shape = Shape::Nullable(&Shape::Text);
/// A list of texts.
pub const TEXTS: Shape = Shape::List(&Shape::Text);
/// A time, or null.
pub const MAYBE_TIME: Shape = Shape::Nullable(&Shape::Time);
/// A number from 0 on, or null.
pub const MAYBE_COUNT: Shape = Shape::Nullable(&Shape::Integer(0));

/// The two links of a thing.
pub const LINKS: Shape = Shape::List(&Shape::Object(&LINK));

static LINK: Object = Object {
    name: "Link",
    properties: &[
        Property::always("href", Shape::Url, "The address."),
        Property::always("rel", Shape::OneOf(&["self", "bookmark"]), "self: with the version in its path; bookmark: without."),
    ],
    like: None,
};

/// The link to the next page of a list.
pub const NEXT: Property = Property::sometimes("next", Shape::Url, "The next page; there whenever this one is full.");

/// The uuid of what is being worked on.
pub static ACCEPTED: Object =
    Object { name: "Accepted", properties: &[Property::always("uuid", Shape::Uuid, "What is being worked on.")], like: None };

impl Property {
    /// A key that is always there.
    pub const fn always(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, shape, shown: Shown::Always, about }
    }

    /// A key that is there when there is something to say.
    pub const fn sometimes(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, shape, shown: Shown::Sometimes, about }
    }

    /// A key that came with a microversion.
    pub const fn since(version: Microversion, name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, shape, shown: Shown::Since(version), about }
    }

    /// A key that went with a microversion.
    pub const fn before(version: Microversion, name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, shape, shown: Shown::Before(version), about }
    }

    /// A key that went with a microversion but for some.
    pub const fn always_before(version: Microversion, name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, shape, shown: Shown::AlwaysBefore(version), about }
    }
}

impl Object {
    /// What a property means.
    pub fn about(&self, property: &Property) -> &'static str {
        if !property.about.is_empty() {
            return property.about;
        }
        self.like.and_then(|schema| schema.field(property.name)).map_or("", |field| field.about)
    }
}

impl Shape {
    /// Whether a value has this shape at a microversion; the error says where it has not.
    pub fn check(&self, value: &Value, version: Microversion) -> Result<(), String> {
        let wrong = |expected: &str| Err(format!("{value} where {expected} is due"));
        match self {
            Self::Nullable(_) if value.is_null() => Ok(()),
            Self::Nullable(shape) => shape.check(value, version),
            Self::Text if value.is_string() => Ok(()),
            Self::Uuid if value.as_str().is_some_and(is_uuid_like) => Ok(()),
            Self::Url if value.as_str().is_some_and(|text| text.starts_with("http")) => Ok(()),
            Self::Time if value.as_str().is_some_and(|text| chrono::DateTime::parse_from_rfc3339(text).is_ok()) => Ok(()),
            Self::Integer(min) if value.as_i64().is_some_and(|number| number >= *min) => Ok(()),
            Self::Boolean if value.is_boolean() => Ok(()),
            Self::OneOf(words) if value.as_str().is_some_and(|text| words.contains(&text)) => Ok(()),
            Self::StringMap if value.as_object().is_some_and(|map| map.values().all(Value::is_string)) => Ok(()),
            Self::List(shape) => match value.as_array() {
                Some(items) => {
                    items.iter().enumerate().try_for_each(|(at, item)| shape.check(item, version).map_err(|e| format!("[{at}]: {e}")))
                }
                None => wrong("a list"),
            },
            Self::Object(object) => object.check(value, version),
            Self::Nothing => wrong("nothing"),
            Self::Text => wrong("a text"),
            Self::Uuid => wrong("a uuid"),
            Self::Url => wrong("an address"),
            Self::Time => wrong("a time"),
            Self::Integer(_) => wrong("a number in range"),
            Self::Boolean => wrong("a boolean"),
            Self::OneOf(words) => wrong(&format!("one of {words:?}")),
            Self::StringMap => wrong("an object of strings"),
        }
    }
}

impl Object {
    /// Whether a value has all keys that are due at a microversion, and no others; the error says where it has not.
    pub fn check(&self, value: &Value, version: Microversion) -> Result<(), String> {
        let name = self.name;
        let Some(map) = value.as_object() else { return Err(format!("{value} where a {name} is due")) };
        if let Some(key) = map.keys().find(|key| self.properties.iter().all(|p| p.name != key.as_str())) {
            return Err(format!("{name}: the key {key} is not described"));
        }
        for property in self.properties {
            let key = property.name;
            let (may, must) = match property.shown {
                Shown::Always => (true, true),
                Shown::Sometimes => (true, false),
                Shown::Since(first) => (version >= first, version >= first),
                Shown::Before(end) => (version < end, version < end),
                Shown::AlwaysBefore(end) => (true, version < end),
            };
            match map.get(key) {
                Some(_) if !may => return Err(format!("{name}: the key {key} must not be there at {version}")),
                None if must => return Err(format!("{name}: the key {key} is missing")),
                Some(item) => property.shape.check(item, version).map_err(|e| format!("{name}.{key}: {e}"))?,
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::microversion::{MAX, MIN};

    static THING: Object = Object {
        name: "Thing",
        properties: &[
            Property::always("uuid", Shape::Uuid, ""),
            Property::always("at", MAYBE_TIME, ""),
            Property::sometimes("labels", Shape::StringMap, ""),
            Property::since(MAX, "new", Shape::Integer(0), ""),
            Property::before(MAX, "old", Shape::OneOf(&["up", "down"]), ""),
        ],
        like: None,
    };

    #[test]
    fn an_answer_that_is_not_of_its_shape_is_told_where() {
        const UUID: &str = "f4a42e6f-27e2-4e13-8939-b72792da7568";
        static ITEM: Shape = Shape::Object(&THING);
        let list = Shape::List(&ITEM);
        for (value, version) in [
            (json!([]), MIN),
            (json!([{"uuid": UUID, "at": null, "old": "up"}]), MIN),
            (json!([{"uuid": UUID, "at": "2026-03-04T05:06:07.250000+00:00", "new": 0, "labels": {"a": "b"}}]), MAX),
        ] {
            assert_eq!(list.check(&value, version), Ok(()), "{value}");
        }
        for (value, version, named) in [
            (json!({}), MIN, "a list"),
            (json!([{"at": null, "old": "up"}]), MIN, "uuid is missing"),
            (json!([{"uuid": UUID, "at": null, "old": "up", "other": 1}]), MIN, "other is not described"),
            (json!([{"uuid": UUID, "at": null, "old": "up", "new": 1}]), MIN, "new must not be there at 1.1"),
            (json!([{"uuid": UUID, "at": null, "old": "left"}]), MIN, "Thing.old"),
            (json!([{"uuid": UUID, "at": "yesterday", "old": "up"}]), MIN, "Thing.at"),
            (json!([{"uuid": UUID, "at": null, "new": -1}]), MAX, "Thing.new"),
        ] {
            assert!(list.check(&value, version).is_err_and(|e| e.contains(named)), "{value}: {:?}", list.check(&value, version));
        }
    }
}
