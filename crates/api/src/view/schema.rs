//! Reading a request body by hand, so that every refusal names the field and the rule (rest-api.md 3.4).
//!
//! Upstream's leniency is kept (integers and booleans may be text, explicit null counts as absent unless a rule says otherwise); its
//! crashes on odd values are refusals here.

use model::json::{Labels, scalar_text, truth};
use serde_json::{Map, Value};

use crate::error::ApiError;

/// Labels at most in one request; far more than any cluster has.
const MAX_LABELS: usize = 1000;

/// Bytes of a map at most: what upstream's TEXT columns hold.
const MAX_STORED: usize = 65_535;

/// A JSON object that came as a body.
#[derive(Debug)]
pub struct Body {
    argument: &'static str,
    map: Map<String, Value>,
}

impl Body {
    /// Reads a body that must be a JSON object; `argument` is its name in messages.
    pub fn parse(argument: &'static str, content_type: Option<&str>, bytes: &[u8]) -> Result<Self, ApiError> {
        match json(argument, content_type, bytes)? {
            Value::Object(map) => Ok(Self { argument, map }),
            _ => Err(ApiError::Invalid(format!("Invalid input for {argument}: the body must be a JSON object"))),
        }
    }

    /// Refuses keys that are not in the schema, and keys that only answers have.
    pub fn only(&self, known: &[&str], read_only: &[&str]) -> Result<(), ApiError> {
        for key in self.map.keys() {
            if read_only.contains(&key.as_str()) {
                return Err(ApiError::Invalid(format!("Cannot set read only field: {key}")));
            }
            if !known.contains(&key.as_str()) {
                return Err(ApiError::Invalid(format!("Unknown attribute for argument {}: {key}", self.argument)));
            }
        }
        Ok(())
    }

    /// The value of a key, unless absent or null.
    pub fn given(&self, key: &str) -> Option<&Value> {
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

    /// A text of `min` to `max` characters.
    pub fn text(&self, key: &str, min: usize, max: usize) -> Result<Option<String>, ApiError> {
        self.given(key).map(|v| text(key, v, min, max)).transpose()
    }

    /// A text that must be there.
    pub fn needed(&self, key: &str, max: usize) -> Result<String, ApiError> {
        let missing = || ApiError::Invalid(format!("Invalid input for field/attribute {key}. Mandatory field missing."));
        self.text(key, 1, max)?.ok_or_else(missing)
    }

    /// An integer of `min` to `max`.
    pub fn integer(&self, key: &str, min: i32, max: i32) -> Result<Option<i32>, ApiError> {
        self.given(key).map(|v| integer(key, v, min, max)).transpose()
    }

    /// A boolean.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, ApiError> {
        self.given(key).map(|v| boolean(key, v)).transpose()
    }

    /// A map of text to scalars.
    pub fn labels(&self, key: &str) -> Result<Option<Labels>, ApiError> {
        self.given(key).map(|v| labels(key, v)).transpose()
    }
}

/// Reads a body that may be any JSON.
pub fn json(argument: &'static str, content_type: Option<&str>, bytes: &[u8]) -> Result<Value, ApiError> {
    let kind = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if bytes.is_empty() {
        return Err(ApiError::Invalid(format!("Missing argument: \"{argument}\"")));
    }
    match kind.as_str() {
        "application/json" => {}
        "" | "application/x-www-form-urlencoded" => {
            return Err(ApiError::Invalid(format!("Missing argument: \"{argument}\" (the body must be sent as application/json)")));
        }
        other => return Err(ApiError::MediaType(other.to_owned())),
    }
    serde_json::from_slice(bytes).map_err(|e| ApiError::Invalid(format!("Request is not in valid JSON format: {e}")))
}

/// An error about a field.
pub fn invalid(key: &str, value: &Value, rule: &str) -> ApiError {
    let shown: String = value.to_string().chars().take(100).collect();
    ApiError::Invalid(format!("Invalid input for field/attribute {key}. Value: '{shown}'. {rule}"))
}

/// A text of `min` to `max` characters.
pub fn text(key: &str, value: &Value, min: usize, max: usize) -> Result<String, ApiError> {
    let Some(text) = value.as_str() else { return Err(invalid(key, value, "It must be a string")) };
    let length = text.chars().count();
    if length < min || length > max {
        return Err(invalid(key, value, &format!("It must have {min} to {max} characters")));
    }
    // Upstream's tables hold no characters beyond the basic plane.
    if text.chars().any(|c| c as u32 > 0xffff || c == '\0') {
        return Err(invalid(key, value, "It has a character that cannot be stored"));
    }
    Ok(text.to_owned())
}

/// An integer; floats are cut, booleans count as 0 and 1, decimal text is read.
pub fn integer(key: &str, value: &Value, min: i32, max: i32) -> Result<i32, ApiError> {
    let number = match value {
        Value::Number(n) => n.as_i64().or_else(|| n.as_f64().filter(|f| f.abs() < 1e15).map(|f| f.trunc() as i64)),
        Value::Bool(b) => Some(i64::from(*b)),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    };
    let Some(number) = number else { return Err(invalid(key, value, "It must be an integer")) };
    match i32::try_from(number) {
        Ok(n) if (min..=max).contains(&n) => Ok(n),
        _ if max == i32::MAX => Err(invalid(key, value, &format!("It must be at least {min}"))),
        _ => Err(invalid(key, value, &format!("It must be between {min} and {max}"))),
    }
}

/// A boolean, in any of the spellings that oslo accepts.
pub fn boolean(key: &str, value: &Value) -> Result<bool, ApiError> {
    let read = match value {
        Value::Bool(b) => Some(*b),
        Value::Number(n) => truth(&n.to_string()),
        Value::String(s) => truth(s),
        _ => None,
    };
    read.ok_or_else(|| invalid(key, value, "It must be a boolean"))
}

/// A map of text to scalars, stored as text in Python's spelling.
pub fn labels(key: &str, value: &Value) -> Result<Labels, ApiError> {
    let Some(map) = value.as_object() else { return Err(invalid(key, value, "It must be an object of strings")) };
    if map.len() > MAX_LABELS {
        return Err(ApiError::Invalid(format!("Invalid input for field/attribute {key}. It must have at most {MAX_LABELS} entries")));
    }
    let mut labels = Labels::default();
    for (name, item) in map {
        let text_of =
            scalar_text(item).ok_or_else(|| invalid(&format!("{key}[{name}]"), item, "It must be a string, number or boolean"))?;
        for part in [name, &text_of] {
            text(&format!("{key}[{name}]"), &Value::String(part.clone()), 0, 16_384)?;
        }
        labels.0.insert(name.clone(), text_of);
    }
    let size = labels.column().len();
    if size > MAX_STORED {
        return Err(ApiError::Invalid(format!(
            "Invalid input for field/attribute {key}. It takes {size} bytes where {MAX_STORED} can be stored"
        )));
    }
    Ok(labels)
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
    fn bodies_must_be_json_objects() {
        let parse = |kind: Option<&str>, bytes: &str| Body::parse("cluster", kind, bytes.as_bytes());
        let json = Some("application/json; charset=utf-8");
        assert!(parse(json, r#"{"a": 1}"#).is_ok());
        for bad in ["", "[]", "\"x\"", "null", "{"] {
            assert!(matches!(parse(json, bad), Err(ApiError::Invalid(_))), "{bad}");
        }
        assert!(matches!(parse(Some("text/plain"), "{}"), Err(ApiError::MediaType(_))));
        assert!(matches!(parse(None, "{}"), Err(ApiError::Invalid(_))));
    }
}
