//! Finds a service's own words in its error answer. Each service wraps them differently, and proxies answer HTML.

use serde_json::Value;

/// The longest message we keep, in characters.
const LONGEST: usize = 1000;

/// The words of an error answer; empty when there are none.
pub(crate) fn of_body(body: &[u8]) -> String {
    of_body_without(body, str::to_owned)
}

/// The same once `blank` has taken out what nobody may read. Words are folded and cut after that: what that leaves of a secret could not be told
/// any more.
pub(crate) fn of_body_without(body: &[u8], blank: impl Fn(&str) -> String) -> String {
    let text = String::from_utf8_lossy(body);
    match serde_json::from_str::<Value>(&text) {
        Ok(value) => plain(&blank(&of_json(&value).unwrap_or_default())),
        Err(_) if text.trim_start().starts_with(['{', '[']) => String::new(),
        Err(_) => plain(&blank(&text)),
    }
}

/// One line of at most [`LONGEST`] characters.
pub(crate) fn cut(text: &str) -> String {
    let text = text.trim();
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

fn of_json(value: &Value) -> Option<String> {
    let object = value.as_object()?;
    // Octavia and other WSME services.
    if let Some(text) = object.get("faultstring").and_then(Value::as_str) {
        return Some(text.to_owned());
    }
    // Heat, Keystone, and what stands in front of every service: {"error": {"message": …}}.
    // Neutron: {"NeutronError": {"type": …, "message": …}}. Nova, Cinder: {"badRequest": {"message": …}}.
    let wrapped = ["error", "NeutronError"].iter().filter_map(|key| object.get(*key)).chain(object.values());
    for inner in wrapped {
        if let Some(text) = inner.get("message").and_then(Value::as_str).filter(|t| !t.is_empty()) {
            return Some(text.to_owned());
        }
    }
    // Plain forms: Glance {"message": …}, Heat's explanation, older Neutron {"NeutronError": "…"}, Barbican's description beside a title.
    for key in ["message", "explanation", "description", "NeutronError", "error", "title"] {
        if let Some(text) = object.get(key).and_then(Value::as_str).filter(|t| !t.is_empty()) {
            return Some(text.to_owned());
        }
    }
    // {"errors": [{"detail": …}]}.
    let first = object.get("errors")?.as_array()?.first()?;
    ["detail", "title", "message"].iter().find_map(|key| first.get(*key)?.as_str()).map(str::to_owned)
}

/// Without HTML tags (and without what stands in `<head>`), white space folded.
fn plain(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let body = match (lower.find("<head"), lower.find("</head>")) {
        (Some(from), Some(to)) if from < to => &text[to..],
        _ => text,
    };
    let mut out = String::new();
    let mut rest = body;
    while let Some(open) = rest.find('<') {
        out.push_str(&rest[..open]);
        let tag = &rest[open + 1..];
        let is_tag = tag.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!');
        match (is_tag, tag.find('>')) {
            (true, Some(close)) => {
                out.push(' ');
                rest = &tag[close + 1..];
            }
            _ => {
                out.push('<');
                rest = tag;
            }
        }
    }
    out.push_str(rest);
    cut(&out.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_is_understood() {
        let table = [
            (
                r#"{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}"#,
                "The request you have made requires authentication.",
            ),
            (
                r#"{"explanation":"There was a conflict","code":409,"error":{"message":"The Stack (x) already exists.","traceback":null,"type":"StackExists"},"title":"Conflict"}"#,
                "The Stack (x) already exists.",
            ),
            (r#"{"itemNotFound":{"code":404,"message":"Keypair k not found for user u"}}"#, "Keypair k not found for user u"),
            (
                r#"{"NeutronError":{"type":"NetworkNotFound","message":"Network n could not be found.","detail":""}}"#,
                "Network n could not be found.",
            ),
            (
                r#"{"faultcode":"Client","faultstring":"Load Balancer l is immutable and cannot be updated.","debuginfo":null}"#,
                "Load Balancer l is immutable and cannot be updated.",
            ),
            (r#"{"message":"You are not allowed.<br /><br />\n\n\n","code":"403 Forbidden","title":"Forbidden"}"#, "You are not allowed."),
            (r#"{"code":403,"title":"Forbidden","description":"Quota reached for project p."}"#, "Quota reached for project p."),
            (r#"{"errors":[{"status":409,"title":"Conflict","detail":"quota"}]}"#, "quota"),
            (
                "<html>\n <head>\n  <title>403 Forbidden</title>\n </head>\n <body>\n  <h1>403 Forbidden</h1>\n  Not yours.<br /><br />\n </body></html>",
                "403 Forbidden Not yours.",
            ),
            ("size 1 < 2 GB", "size 1 < 2 GB"),
            ("Authentication required", "Authentication required"),
            ("{\"half\": ", ""),
            ("[]", ""),
            ("", ""),
        ];
        for (body, wanted) in table {
            assert_eq!(of_body(body.as_bytes()), wanted, "{body}");
        }
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let long = "ü".repeat(5000);
        assert_eq!(cut(&long).chars().count(), LONGEST);
        assert!(of_body(format!(r#"{{"error":{{"message":"{long}"}}}}"#).as_bytes()).chars().count() <= LONGEST);
    }
}
