//! The JSON text columns of upstream's tables.
//!
//! Written as Python writes JSON (`", "` and `": "`, non-ASCII escaped), so that a row of ours is byte for byte what upstream would have
//! written. Read leniently: one odd row must never break a list.

use std::io;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Labels of a cluster, template or nodegroup: a map of text to text in the order the user gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(pub IndexMap<String, String>);

impl Labels {
    /// Reads a stored column. NULL, empty text and anything that is not an object read as no labels; null values are left out; other
    /// scalars become text as Python spells them.
    pub fn read(column: Option<&str>) -> Self {
        let Some(Ok(Value::Object(map))) = column.map(serde_json::from_str) else {
            return Self::default();
        };
        Self(map.into_iter().filter_map(|(k, v)| Some((k, scalar_text(&v)?))).collect())
    }

    /// The text of the column; no labels is `{}`, never NULL (upstream cannot read NULL here).
    pub fn column(&self) -> String {
        python_json(&self.0)
    }

    /// These labels, where a request gave none; else the given ones, laid over these (`merge`) or in their place.
    pub fn with(mut self, given: Option<Self>, merge: bool) -> Self {
        match given {
            None => self,
            Some(given) if merge => {
                self.0.extend(given.0);
                self
            }
            Some(given) => given,
        }
    }

    /// A label's value, or none when it is absent or empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// A boolean label, in any of the spellings that oslo accepts.
    pub fn flag(&self, key: &str) -> Option<bool> {
        truth(self.get(key)?)
    }
}

/// A boolean word as oslo spells them, in any case; none when it is no such word.
pub fn truth(word: &str) -> Option<bool> {
    match word.trim().to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// A scalar as Python's `str()` prints it (`True`, `1.5`, `text`); none for null, arrays and objects.
pub fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Bool(true) => Some("True".into()),
        Value::Bool(false) => Some("False".into()),
        Value::Number(n) => Some(number_text(n)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn number_text(n: &serde_json::Number) -> String {
    match (n.as_i64(), n.as_u64(), n.as_f64()) {
        (Some(i), _, _) => i.to_string(),
        (_, Some(u), _) => u.to_string(),
        (_, _, Some(f)) if f != 0.0 && (f.abs() >= 1e16 || f.abs() < 1e-4) => {
            let text = format!("{f:e}");
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |d| ("-", d));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        (_, _, Some(f)) if f.fract() == 0.0 => format!("{f:.1}"),
        (_, _, Some(f)) => f.to_string(),
        _ => n.to_string(),
    }
}

/// A list-of-text column (`node_addresses`). NULL and broken text read as an empty list.
pub fn read_list(column: Option<&str>) -> Vec<String> {
    column.and_then(|c| serde_json::from_str(c).ok()).unwrap_or_default()
}

/// JSON as Python's `json.dumps` prints it.
pub fn python_json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Python);
    value.serialize(&mut serializer).expect("maps and lists of text always serialise");
    String::from_utf8(out).expect("the formatter writes ASCII only")
}

struct Python;

impl serde_json::ser::Formatter for Python {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, w: &mut W, fragment: &str) -> io::Result<()> {
        for c in fragment.chars() {
            if c.is_ascii() && c != '\u{7f}' {
                w.write_all(&[c as u8])?;
            } else if c == '\u{7f}' {
                w.write_all(&[0x7f])?;
            } else {
                let mut units = [0u16; 2];
                for unit in c.encode_utf16(&mut units) {
                    write!(w, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_written_as_python_writes_them() {
        let mut labels = Labels::default();
        assert_eq!(labels.column(), "{}");
        labels.0.insert("z".into(), "é\"\u{1f600}".into());
        labels.0.insert("a".into(), "b".into());
        assert_eq!(labels.column(), r#"{"z": "\u00e9\"\ud83d\ude00", "a": "b"}"#);
        assert_eq!(python_json(&["10.0.0.1", "x"]), r#"["10.0.0.1", "x"]"#);
    }

    #[test]
    fn odd_columns_read_as_what_can_be_saved() {
        assert_eq!(Labels::read(None), Labels::default());
        assert_eq!(Labels::read(Some("")), Labels::default());
        assert_eq!(Labels::read(Some("[1]")), Labels::default());
        let odd = Labels::read(Some(r#"{"a": 5, "b": true, "c": null, "d": 1.5, "e": 1e30, "f": 2.0, "g": {}}"#));
        let pairs: Vec<_> = odd.0.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(pairs, ["a=5", "b=True", "d=1.5", "e=1e+30", "f=2.0"]);
        assert_eq!(read_list(Some("nonsense")), Vec::<String>::new());
    }
}
