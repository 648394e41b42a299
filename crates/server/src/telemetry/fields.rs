//! Collects the fields of an event or a span as text.

use std::fmt;

use serde::Serialize;
use serde_json::Number;
use tracing::field::{Field, Visit};

/// What a field says. A third of a JSON value's size: each of thousands of operations that wait keeps the fields of its span.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Said {
    Text(Box<str>),
    Bool(bool),
    Number(Number),
    /// A floating point number that is none.
    Null,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Null => f.write_str("null"),
        }
    }
}

impl From<&str> for Said {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// Fields in the order they were given. A field that is recorded again replaces its old value.
#[derive(Debug, Default, Clone)]
pub(super) struct Fields {
    pub message: String,
    pub pairs: Vec<(&'static str, Said)>,
}

impl Fields {
    pub fn get(&self, name: &str) -> Option<&Said> {
        self.pairs.iter().find_map(|(key, value)| (*key == name).then_some(value))
    }

    fn set(&mut self, field: &Field, value: Said) {
        match self.pairs.iter_mut().find(|(key, _)| *key == field.name()) {
            Some((_, old)) => *old = value,
            None => self.pairs.push((field.name(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.set(field, Said::Text(format!("{value:?}").into()));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.to_owned();
        } else {
            self.set(field, value.into());
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Said::Number(value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Said::Number(value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Said::Bool(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Number::from_f64(value).map_or(Said::Null, Said::Number));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        // Display says one level only, the sources say the next ones.
        let mut text = value.to_string();
        let mut next = value.source();
        while let Some(source) = next {
            text.push_str(": ");
            text.push_str(&source.to_string());
            next = source.source();
        }
        self.set(field, Said::Text(text.into()));
    }
}
