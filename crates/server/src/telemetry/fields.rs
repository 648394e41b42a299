//! Collects the fields of an event or a span as text.

use std::fmt::{self, Write};

use serde::Serialize;
use serde_json::Number;
use tracing::field::{Field, Visit};

/// What a field says.
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

impl Said {
    /// Of a text that is no [`Said::Text`], see its `Display`.
    fn parse(text: &str) -> Self {
        match text {
            "true" => Self::Bool(true),
            "false" => Self::Bool(false),
            number => Self::number(number).map_or(Self::Null, Self::Number),
        }
    }

    /// As it was written: what JSON's own reader makes of a fraction may differ in its last digit.
    fn number(text: &str) -> Option<Number> {
        let whole = || text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
        whole().ok().or_else(|| text.parse().ok().and_then(Number::from_f64))
    }
}

impl From<&str> for Said {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// Fields in the order they were given. A field that is recorded again replaces its old value.
#[derive(Debug, Default)]
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

/// The fields of a span, as small as they can be: each of thousands of operations that wait keeps those of its own.
#[derive(Debug)]
pub(super) struct Kept {
    /// What all of them say, one after the other.
    text: Box<str>,
    pieces: Box<[Piece]>,
}

/// One field of [`Kept`].
#[derive(Debug)]
struct Piece {
    name: &'static str,
    /// Where its text ends, in bytes; it begins where that of the one before it ends.
    end: u32,
    /// Whether that is text, and not a number, a truth or nothing.
    is_text: bool,
}

impl Kept {
    /// Those of these fields that are shown.
    pub fn of(fields: &Fields) -> Self {
        let (mut text, mut pieces) = (String::new(), Vec::with_capacity(fields.pairs.len()));
        for (name, said) in fields.pairs.iter().filter(|(name, _)| !is_noise(name)) {
            let before = text.len();
            // Writing to a string does not fail.
            let _written = write!(text, "{said}");
            match u32::try_from(text.len()) {
                Ok(end) => pieces.push(Piece { name, end, is_text: matches!(said, Said::Text(_)) }),
                Err(_) => text.truncate(before),
            }
        }
        Self { text: text.into(), pieces: pieces.into() }
    }

    /// The fields again.
    pub fn fields(&self) -> Fields {
        let mut begin = 0;
        let pairs = self.pieces.iter().map(|piece| {
            let end = piece.end as usize;
            let said = self.text.get(begin..end).unwrap_or_default();
            begin = end;
            (piece.name, if piece.is_text { said.into() } else { Said::parse(said) })
        });
        Fields { message: String::new(), pairs: pairs.collect() }
    }
}

/// Fields that HTTP middleware hangs on its spans and that would double every line.
fn is_noise(name: &str) -> bool {
    ["http.", "otel.", "exception."].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said() -> impl Strategy<Value = Said> {
        prop_oneof![
            ".{0,20}".prop_map(|text| Said::from(text.as_str())),
            any::<bool>().prop_map(Said::Bool),
            any::<i64>().prop_map(|number| Said::Number(number.into())),
            any::<u64>().prop_map(|number| Said::Number(number.into())),
            any::<f64>().prop_map(|number| Number::from_f64(number).map_or(Said::Null, Said::Number)),
            Just(Said::Null),
        ]
    }

    proptest! {
        #[test]
        fn what_is_kept_of_a_span_says_the_same(said in prop::collection::vec(said(), 0..5)) {
            let pairs: Vec<_> = ["a", "b.c", "d", "request.id", "e"].into_iter().zip(said).collect();
            let fields = Fields { message: String::new(), pairs };
            prop_assert_eq!(Kept::of(&fields).fields().pairs, fields.pairs);
        }
    }

    #[test]
    fn what_would_double_every_line_is_not_kept() {
        let pairs = ["http.method", "otel.name", "exception.message", "hotel"].map(|name| (name, Said::from("x"))).to_vec();
        let kept = Kept::of(&Fields { message: String::new(), pairs });
        assert_eq!(kept.fields().pairs, [("hotel", Said::from("x"))]);
    }
}
