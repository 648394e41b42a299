//! Collects the fields of an event or a span as text.

use std::fmt;

use tracing::field::{Field, Visit};

/// Fields in the order they were given. A field that is recorded again replaces its old value.
#[derive(Debug, Default, Clone)]
pub(super) struct Fields {
    pub message: String,
    pub pairs: Vec<(&'static str, serde_json::Value)>,
}

impl Fields {
    pub fn get(&self, name: &str) -> Option<&serde_json::Value> {
        self.pairs.iter().find_map(|(key, value)| (*key == name).then_some(value))
    }

    fn set(&mut self, field: &Field, value: serde_json::Value) {
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
            self.set(field, format!("{value:?}").into());
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
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value.into());
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
        self.set(field, text.into());
    }
}
