//! Request bodies as tables of fields: what a field may hold, checked in one go, so that every refusal names the field and the rule
//! (rest-api.md 3.4). The same tables are the request part of the OpenAPI document.
//!
//! Upstream's leniency is kept (integers and booleans may be text, explicit null counts as absent unless a rule says otherwise); its
//! crashes on odd values are refusals here.

use model::json::{Labels, scalar_text, truth};
use serde_json::{Map, Value};

use super::body;
use crate::error::ApiError;

/// Labels at most in one request; far more than any cluster has.
pub const MAX_LABELS: usize = 1000;

/// Characters at most of a key and of a value of a map.
pub const MAX_LABEL_TEXT: usize = 16_384;

/// Bytes of a map at most: what upstream's TEXT columns hold.
pub const MAX_STORED: usize = 65_535;

/// Bytes at most of a list of texts, as JSON: an operation carries it beside other things in a TEXT column, and a thousand ids of servers fit.
const MAX_TEXTS: usize = 49_152;

/// Items at most in a list of a request.
pub const MAX_ITEMS: usize = 1000;

/// A request body: the argument's name in messages, and its fields.
#[derive(Debug)]
pub struct Schema {
    pub argument: &'static str,
    pub fields: &'static [Field],
}

/// One field of a body.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub presence: Presence,
    /// What it means, for the OpenAPI document.
    pub about: &'static str,
}

/// What a field may hold, besides null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string of so many characters.
    Text { min: usize, max: usize },
    /// A letter, then letters, digits, `_`, `.` and `-`; 242 characters at most (C-01).
    Name,
    /// A number in the range; text that holds one is read, fractions are cut, booleans count as 0 and 1.
    Integer { min: i32, max: i32 },
    /// A boolean, in any of the spellings that oslo accepts.
    Boolean,
    /// An object of strings; scalars become strings in Python's spelling.
    Labels,
    /// A uuid in any spelling.
    Uuid,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of strings.
    Texts,
    /// An object of strings, and of nothing but strings.
    StringMap,
    /// A list of objects of strings.
    StringMaps,
}

impl Kind {
    /// Longest name of a cluster: Heat's limit for what is made of it.
    pub const NAME_LIMIT: usize = 242;

    /// The kind that a value shown by us has.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Object(_) => Self::Labels,
            Value::Array(_) => Self::Texts,
            Value::Number(_) => Self::Integer { min: i32::MIN, max: i32::MAX },
            Value::Bool(_) => Self::Boolean,
            Value::String(_) | Value::Null => Self::Text { min: 0, max: MAX_STORED },
        }
    }

    /// The rule in words, for a value that cannot even be read.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Text { .. } | Self::Name | Self::OneOf(_) => "It must be a string",
            Self::Integer { .. } => "It must be an integer",
            Self::Boolean => "It must be a boolean",
            Self::Labels | Self::StringMap => "It must be an object of strings, or text that holds one",
            Self::Texts => "It must be a list of strings, or text that holds one",
            Self::StringMaps => "It must be a list of objects, or text that holds one",
            Self::Uuid => "It must be a uuid",
        }
    }
}

/// Whether a field must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must have a value.
    Needed,
    /// It must be there; null has a meaning of its own.
    Present,
    /// It may be left out.
    Optional,
    /// Only answers have it.
    ReadOnly,
}

impl Field {
    /// A field that may be left out.
    pub const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, presence: Presence::Optional, about }
    }

    /// A field that must have a value.
    pub const fn needed(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, presence: Presence::Needed, about }
    }

    /// A field that only answers have.
    pub const fn read_only(name: &'static str) -> Self {
        Self { name, kind: Kind::Text { min: 0, max: MAX_STORED }, presence: Presence::ReadOnly, about: "Shown by answers only." }
    }

    /// Checks a value against the field's kind; null passes.
    pub fn check(&self, value: &Value) -> Result<(), ApiError> {
        let name = self.name;
        if value.is_null() {
            return Ok(());
        }
        match self.kind {
            Kind::Text { min, max } => text(name, value, min, max).map(drop),
            Kind::Name => cluster_name(name, value),
            Kind::Integer { min, max } => integer(name, value, min, max).map(drop),
            Kind::Boolean => boolean(name, value).map(drop),
            Kind::Labels => labels(name, value).map(drop),
            Kind::Uuid if value.as_str().is_some_and(is_uuid_like) => Ok(()),
            Kind::Uuid => Err(invalid(name, value, "It must be a uuid")),
            Kind::OneOf(words) if value.as_str().is_some_and(|text| words.contains(&text)) => Ok(()),
            Kind::OneOf(words) => Err(invalid(name, value, &format!("It must be one of {}", words.join(", ")))),
            Kind::Texts => {
                let mut each = items(name, value)?.iter().enumerate();
                each.try_for_each(|(at, item)| text(&format!("{name}[{at}]"), item, 0, MAX_STORED).map(drop))?;
                match value.to_string().len() {
                    size if size > MAX_TEXTS => {
                        Err(ApiError::field(name, format_args!("It takes {size} bytes where {MAX_TEXTS} can be stored")))
                    }
                    _ => Ok(()),
                }
            }
            Kind::StringMap => strings(name, value),
            Kind::StringMaps => items(name, value)?.iter().enumerate().try_for_each(|(at, item)| strings(&format!("{name}[{at}]"), item)),
        }
    }
}

impl Schema {
    /// The field of a name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// Reads a body and checks all of it: that it is an object, its keys, and every value.
    pub fn read(&'static self, content_type: Option<&str>, bytes: &[u8]) -> Result<Body, ApiError> {
        let argument = self.argument;
        let Value::Object(map) = body::json(argument, content_type, bytes)? else {
            return Err(ApiError::Invalid(format!("Invalid input for {argument}: the body must be a JSON object")));
        };
        for (key, value) in &map {
            match self.field(key).map(|f| f.presence) {
                Some(Presence::ReadOnly) => return Err(invalid(key, value, "Cannot set read only field.")),
                Some(_) => {}
                None => return Err(ApiError::Invalid(format!("Unknown attribute for argument {argument}: {key}"))),
            }
        }
        for field in self.fields {
            let value = map.get(field.name);
            let is_missing = match field.presence {
                Presence::Needed => value.is_none_or(Value::is_null),
                Presence::Present => value.is_none(),
                Presence::Optional | Presence::ReadOnly => false,
            };
            if is_missing {
                return Err(ApiError::missing_field(field.name));
            }
            if let Some(value) = value {
                field.check(value)?;
            }
        }
        Ok(Body { schema: self, map })
    }
}

/// A JSON object that came as a body and keeps to its schema: reading a field cannot fail any more.
#[derive(Debug)]
pub struct Body {
    schema: &'static Schema,
    map: Map<String, Value>,
}

impl Body {
    /// The value of a key, unless absent or null.
    pub fn given(&self, key: &str) -> Option<&Value> {
        debug_assert!(self.schema.field(key).is_some(), "{key} is not in the schema of {}", self.schema.argument);
        self.map.get(key).filter(|v| !v.is_null())
    }

    /// Whether the key is there with null.
    pub fn is_null(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(Value::is_null)
    }

    /// Whether the key is there at all.
    pub fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// A text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.given(key).and_then(Value::as_str)
    }

    /// A text of its own.
    pub fn owned(&self, key: &str) -> Option<String> {
        self.text(key).map(str::to_owned)
    }

    /// An integer.
    pub fn integer(&self, key: &str) -> Option<i32> {
        self.given(key).and_then(number).and_then(|n| i32::try_from(n).ok())
    }

    /// A boolean.
    pub fn boolean(&self, key: &str) -> Option<bool> {
        self.given(key).and_then(flag)
    }

    /// A map of text to scalars.
    pub fn labels(&self, key: &str) -> Option<Labels> {
        self.given(key).and_then(|v| labels(key, v).ok())
    }

    /// A list of strings; empty when absent.
    pub fn texts(&self, key: &str) -> Vec<String> {
        let items = self.given(key).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }
}

/// An integer that may be left out, but not be null.
pub fn not_null(body: &Body, key: &str) -> Result<Option<i32>, ApiError> {
    if body.is_null(key) {
        return Err(invalid(key, &Value::Null, "It must be an integer"));
    }
    Ok(body.integer(key))
}

fn items<'a>(key: &str, value: &'a Value) -> Result<&'a [Value], ApiError> {
    match value.as_array() {
        Some(items) if items.len() <= MAX_ITEMS => Ok(items),
        Some(_) => Err(ApiError::field(key, format_args!("It must have at most {MAX_ITEMS} items"))),
        None => Err(invalid(key, value, "It must be a list")),
    }
}

fn strings(key: &str, value: &Value) -> Result<(), ApiError> {
    let Some(map) = value.as_object() else { return Err(invalid(key, value, "It must be an object of strings")) };
    if let Some((name, item)) = map.iter().find(|(_, item)| !item.is_string()) {
        return Err(invalid(&format!("{key}[{name}]"), item, "It must be a string"));
    }
    labels(key, value).map(drop)
}

fn cluster_name(key: &str, value: &Value) -> Result<(), ApiError> {
    let name = text(key, value, 1, Kind::NAME_LIMIT)?;
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if begins && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')) {
        return Ok(());
    }
    Err(ApiError::value(key, name, "It must begin with a letter and hold letters, digits, '_', '.' and '-' only"))
}

/// An error about a field.
pub fn invalid(key: &str, value: &Value, rule: &str) -> ApiError {
    let shown: String = value.to_string().chars().take(100).collect();
    ApiError::value(key, shown, rule)
}

/// A text of `min` to `max` characters.
pub fn text(key: &str, value: &Value, min: usize, max: usize) -> Result<String, ApiError> {
    let Some(text) = value.as_str() else { return Err(invalid(key, value, "It must be a string")) };
    let length = text.chars().count();
    if length < min || length > max {
        return Err(invalid(key, value, &format!("It must have {min} to {max} characters")));
    }
    if !is_storable(text) {
        return Err(invalid(key, value, "It has a character that cannot be stored"));
    }
    Ok(text.to_owned())
}

/// Whether a text could be in a row: upstream's tables hold no characters beyond the basic plane, and cannot even be asked for them.
pub fn is_storable(text: &str) -> bool {
    text.chars().all(|c| c as u32 <= 0xffff && c != '\0')
}

/// An integer; floats are cut, booleans count as 0 and 1, decimal text is read.
pub fn integer(key: &str, value: &Value, min: i32, max: i32) -> Result<i32, ApiError> {
    let Some(number) = number(value) else { return Err(invalid(key, value, "It must be an integer")) };
    match i32::try_from(number) {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ if max == i32::MAX => Err(invalid(key, value, &format!("It must be at least {min}"))),
        _ => Err(invalid(key, value, &format!("It must be between {min} and {max}"))),
    }
}

/// The number that a value stands for, if any.
pub fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(n) => n.as_i64().or_else(|| n.as_f64().filter(|f| f.abs() < 1e15).map(|f| f.trunc() as i64)),
        Value::Bool(b) => Some(i64::from(*b)),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    }
}

/// A boolean, in any of the spellings that oslo accepts.
pub fn boolean(key: &str, value: &Value) -> Result<bool, ApiError> {
    flag(value).ok_or_else(|| invalid(key, value, "It must be a boolean"))
}

/// The truth that a value stands for, if any.
pub fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(b) => Some(*b),
        Value::Number(n) => truth(&n.to_string()),
        Value::String(s) => truth(s),
        _ => None,
    }
}

/// A map of text to scalars, stored as text in Python's spelling.
pub fn labels(key: &str, value: &Value) -> Result<Labels, ApiError> {
    let Some(map) = value.as_object() else { return Err(invalid(key, value, "It must be an object of strings")) };
    if map.len() > MAX_LABELS {
        return Err(ApiError::field(key, format_args!("It must have at most {MAX_LABELS} entries")));
    }
    let mut labels = Labels::default();
    for (name, item) in map {
        let text_of =
            scalar_text(item).ok_or_else(|| invalid(&format!("{key}[{name}]"), item, "It must be a string, number or boolean"))?;
        for part in [name, &text_of] {
            text(&format!("{key}[{name}]"), &Value::String(part.clone()), 0, MAX_LABEL_TEXT)?;
        }
        labels.0.insert(name.clone(), text_of);
    }
    stored(key, labels.column().len())?;
    Ok(labels)
}

/// Refuses what takes more bytes than its column has.
pub fn stored(key: &str, size: usize) -> Result<(), ApiError> {
    match size > MAX_STORED {
        true => Err(ApiError::field(key, format_args!("It takes {size} bytes where {MAX_STORED} can be stored"))),
        false => Ok(()),
    }
}

/// Whether oslo takes the text for a uuid (hyphens, braces, case and the urn prefix do not matter).
pub fn is_uuid_like(text: &str) -> bool {
    let bare = bare_uuid(text);
    bare.len() == 32 && bare.bytes().all(|b| b.is_ascii_hexdigit())
}

/// A uuid in the spelling that is stored: lower case with hyphens. Text that is no uuid stays as it is.
pub fn plain_uuid(text: &str) -> String {
    uuid::Uuid::try_parse(&bare_uuid(text)).map_or_else(|_| text.to_owned(), |uuid| uuid.to_string())
}

fn bare_uuid(text: &str) -> String {
    let lower = text.to_ascii_lowercase().replace("urn:", "").replace("uuid:", "");
    lower.trim_matches(|c| c == '{' || c == '}').replace('-', "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integers_are_read_as_leniently_as_upstream_reads_them() {
        for (value, expected) in [(json!(3), 3), (json!(3.7), 3), (json!(true), 1), (json!("12"), 12)] {
            assert_eq!(integer("n", &value, 0, i32::MAX).ok(), Some(expected), "{value}");
        }
        for value in [json!("x"), json!(""), json!(-1), json!([]), json!({}), json!(1e30)] {
            assert!(integer("n", &value, 0, i32::MAX).is_err(), "{value}");
        }
    }

    #[test]
    fn odd_values_are_refused_with_field_and_rule() {
        assert!(boolean("b", &json!("maybe")).is_err_and(|e| e.to_string().contains("b. Value")));
        assert_eq!(boolean("b", &json!("Yes")).ok(), Some(true));
        assert!(labels("labels", &json!({"a": null})).is_err_and(|e| e.to_string().contains("labels[a]")));
        assert!(labels("labels", &json!([1])).is_err());
        assert_eq!(labels("labels", &json!({"a": true, "b": 5})).expect("valid").column(), r#"{"a": "True", "b": "5"}"#);
        assert!(text("name", &json!("\u{1f600}"), 1, 10).is_err());
        let large: Map<String, Value> = (0..5).map(|n| (n.to_string(), json!("x".repeat(15_000)))).collect();
        assert!(labels("labels", &Value::Object(large)).is_err_and(|e| e.to_string().contains("can be stored")));
        let named = |bytes: usize| Field::optional("servers", Kind::Texts, "").check(&json!(vec!["x".repeat(bytes); MAX_ITEMS]));
        // With quotes and commas.
        assert!(named(36).is_ok() && named(45).is_ok());
        assert!(named(47).is_err_and(|e| e.to_string().contains("servers") && e.to_string().contains("can be stored")));
    }

    #[test]
    fn uuids_are_known_in_every_spelling_and_stored_in_one() {
        const PLAIN: &str = "f4a42e6f-27e2-4e13-8939-b72792da7568";
        for text in [
            PLAIN,
            "F4A42E6F27E24E138939B72792DA7568",
            "{f4a42e6f-27e2-4e13-8939-b72792da7568}",
            "urn:uuid:f4a42e6f-27e2-4e13-8939-b72792da7568",
        ] {
            assert!(is_uuid_like(text), "{text}");
            assert_eq!(plain_uuid(text), PLAIN);
        }
        assert!(!is_uuid_like("f4a42e6f-27e2-4e13-8939-b72792da756"));
        assert!(!is_uuid_like("detail"));
    }

    #[test]
    fn bodies_are_objects_of_known_fields() {
        static SCHEMA: Schema = Schema {
            argument: "thing",
            fields: &[
                Field::needed("count", Kind::Integer { min: 1, max: 9 }, ""),
                Field::optional("servers", Kind::Texts, ""),
                Field::optional("taints", Kind::StringMaps, ""),
                Field::read_only("links"),
            ],
        };
        let read = |kind: Option<&str>, bytes: &str| SCHEMA.read(kind, bytes.as_bytes());
        let json = Some("application/json; charset=utf-8");
        let body = read(json, r#"{"count": "3", "servers": ["a", "b"], "taints": null}"#).expect("keeps to the schema");
        assert_eq!((body.integer("count"), body.texts("servers"), body.is_null("taints")), (Some(3), vec!["a".into(), "b".into()], true));
        for (bad, named) in [
            ("", "Missing argument: \"thing\""),
            ("[]", "thing"),
            ("\"x\"", "thing"),
            ("null", "thing"),
            ("{", "valid JSON"),
            ("{}", "count. Mandatory"),
            (r#"{"count": null}"#, "count. Mandatory"),
            (r#"{"count": 10}"#, "between 1 and 9"),
            (r#"{"count": 1, "other": 1}"#, "thing: other"),
            (r#"{"count": 1, "links": null}"#, "links. Value: 'null'. Cannot set read only"),
            (r#"{"count": 1, "links": "there"}"#, "links. Value: '\"there\"'. Cannot set read only"),
            (r#"{"count": 1, "servers": [1]}"#, "servers[0]"),
            (r#"{"count": 1, "taints": [{"key": 1}]}"#, "taints[0][key]"),
        ] {
            let Err(ApiError::Invalid(text)) = read(json, bad) else { panic!("{bad} is taken") };
            assert!(text.contains(named), "{bad}: {text}");
        }
    }
}
