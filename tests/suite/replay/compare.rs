//! How an answer of ours is held against the recorded one.

use chrono::DateTime;
use serde_json::Value;
use uuid::Uuid;

use super::case::Exchange;

/// Headers that are part of the contract.
const HEADERS: [&str; 7] = [
    "Content-Type",
    "OpenStack-API-Minimum-Version",
    "OpenStack-API-Maximum-Version",
    "OpenStack-API-Version",
    "vary",
    "Location",
    "Allow",
];
const ABSENT: &str = "(absent)";

/// One difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Which exchange of the case.
    pub exchange: usize,
    /// `status`, `header/NAME`, or the path in the body: `errors/0/detail`.
    pub at: String,
    pub theirs: Value,
    pub ours: Value,
}

/// Our answer, with our addresses and ids already replaced by the recorded ones.
pub struct Ours {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

/// All differences of an exchange; when the status differs only that one, for then the bodies are of different kinds.
pub fn compare(number: usize, exchange: &Exchange, ours: &Ours) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differs = |at: String, theirs: &Value, ours: &Value| {
        found.push(Difference { exchange: number, at, theirs: theirs.clone(), ours: ours.clone() });
    };
    if exchange.status != Some(ours.status) {
        differs("status".to_owned(), &exchange.status.into(), &ours.status.into());
        return found;
    }
    for name in HEADERS {
        let theirs = exchange.answer_headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone());
        let own = ours.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| Value::String(value.clone()));
        if theirs != own {
            let or_absent = |value: Option<Value>| value.unwrap_or_else(|| ABSENT.into());
            differs(format!("header/{name}"), &or_absent(theirs), &or_absent(own));
        }
    }
    let made_here = exchange.method != "GET";
    walk(String::new(), &exchange.answer, &ours.body, made_here, &mut differs);
    found
}

fn walk(at: String, theirs: &Value, ours: &Value, made_here: bool, differs: &mut impl FnMut(String, &Value, &Value)) {
    match (theirs, ours) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                walk(join(&at, key), value, right.get(key).unwrap_or(&ABSENT.into()), made_here, differs);
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                differs(join(&at, key), &ABSENT.into(), value);
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            if left.len() != right.len() {
                differs(join(&at, "length"), &left.len().into(), &right.len().into());
            }
            for (number, (one, other)) in left.iter().zip(right).enumerate() {
                walk(join(&at, &number.to_string()), one, other, made_here, differs);
            }
        }
        _ if theirs == ours => {}
        _ if made_here && is_same_form(at.rsplit('/').next().unwrap_or_default(), theirs, ours) => {}
        _ => differs(at, theirs, ours),
    }
}

fn join(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}/{key}") }
}

/// What the request itself made is compared by form: uuid, time, number of a row.
fn is_same_form(key: &str, theirs: &Value, ours: &Value) -> bool {
    let both = |holds: fn(&Value) -> bool| holds(theirs) && holds(ours);
    match key {
        "uuid" => both(|value| value.as_str().is_some_and(|text| text.len() == 36 && Uuid::parse_str(text).is_ok())),
        "created_at" | "updated_at" => both(|value| value.as_str().is_some_and(|text| DateTime::parse_from_rfc3339(text).is_ok())),
        "id" => both(Value::is_i64),
        _ => false,
    }
}
