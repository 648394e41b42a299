//! Request bodies as they come: what they are declared to be, that they are text, and that the text is JSON.

use serde_json::Value;

use crate::error::ApiError;

/// Reads a body that may be any JSON; `argument` is its name in messages.
///
/// # Errors
/// [`ApiError::Invalid`] where there is none, where it is a form or of no declared type, and where it is not JSON;
/// [`ApiError::MediaType`] and [`ApiError::NotText`] as [`is_json`] and [`parsed`] say.
pub fn json(argument: &'static str, content_type: Option<&str>, bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.is_empty() {
        return Err(ApiError::Invalid(format!("Missing argument: \"{argument}\"")));
    }
    if !is_json(content_type)? {
        return Err(ApiError::Invalid(format!("Missing argument: \"{argument}\" (the body must be sent as application/json)")));
    }
    parsed(bytes)
}

/// Refuses a body on routes that take none; an empty JSON object is tolerated, as upstream does.
///
/// # Errors
/// As [`json`], and [`ApiError::Invalid`] that names the first key of an object.
pub fn none(content_type: Option<&str>, bytes: &[u8]) -> Result<(), ApiError> {
    if bytes.is_empty() {
        return Ok(());
    }
    if !is_json(content_type)? {
        return Err(ApiError::Invalid("Unknown argument: the route takes no form".into()));
    }
    match parsed(bytes)? {
        Value::Object(map) => map.keys().next().map_or(Ok(()), |key| Err(ApiError::Invalid(format!("Unknown argument: \"{key}\"")))),
        _ => Err(ApiError::Invalid("Unknown argument: the route takes no body".into())),
    }
}

/// Whether a body is declared to be JSON: not where nothing is said of it, or where it is declared to be a form.
///
/// # Errors
/// [`ApiError::MediaType`] when it is declared to be anything else.
fn is_json(content_type: Option<&str>) -> Result<bool, ApiError> {
    let kind = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/json" => Ok(true),
        "" | "application/x-www-form-urlencoded" => Ok(false),
        _ => Err(ApiError::MediaType(kind)),
    }
}

/// The JSON that bytes hold.
///
/// # Errors
/// [`ApiError::NotText`] when they are not UTF-8, [`ApiError::Invalid`] with the place when the text is not JSON.
fn parsed(bytes: &[u8]) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ApiError::NotText)?;
    serde_json::from_str(text).map_err(|e| ApiError::Invalid(format!("Request is not in valid JSON format: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Option<&str> = Some("application/json; charset=utf-8");

    #[test]
    fn a_body_is_declared_to_be_json_is_text_and_is_json() {
        assert_eq!(json("thing", JSON, b"[1]").ok(), Some(serde_json::json!([1])));
        assert!(matches!(json("thing", Some("text/plain"), b"{}"), Err(ApiError::MediaType(_))));
        assert!(matches!(json("thing", JSON, b"{\"count\": \"\xff\"}"), Err(ApiError::NotText)));
        for (kind, bytes, named) in [
            (JSON, "", "Missing argument: \"thing\""),
            (None, "{}", "sent as application/json"),
            (Some("application/x-www-form-urlencoded"), "a=1", "sent as application/json"),
            (JSON, "{", "valid JSON format: EOF"),
        ] {
            let Err(ApiError::Invalid(text)) = json("thing", kind, bytes.as_bytes()) else { panic!("{bytes} is taken") };
            assert!(text.contains(named), "{bytes}: {text}");
        }
    }

    #[test]
    fn routes_without_a_body_take_nothing_but_an_empty_object() {
        assert!(none(None, b"").is_ok());
        assert!(none(JSON, b"{}").is_ok());
        assert!(matches!(none(Some("text/plain"), b"x"), Err(ApiError::MediaType(_))));
        assert!(matches!(none(JSON, b"\"\xff\""), Err(ApiError::NotText)));
        for (kind, bytes, named) in [
            (JSON, r#"{"a": 1}"#, "Unknown argument: \"a\""),
            (JSON, "[]", "takes no body"),
            (JSON, "{", "valid JSON format: EOF"),
            (None, "a=1", "takes no form"),
        ] {
            let Err(ApiError::Invalid(text)) = none(kind, bytes.as_bytes()) else { panic!("{bytes} is taken") };
            assert!(text.contains(named), "{bytes}: {text}");
        }
    }
}
