//! Python literals: what clients send for maps in patches (`"{'a': 'b'}"`), and the JSON that is also such a literal.

use serde_json::{Map, Number, Value};

/// Nested deeper than this is refused.
const DEPTH: usize = 32;

/// Reads a Python literal: dict, list, tuple, string, number, True, False, None.
pub fn parse(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text.trim() };
    let value = reader.value(0)?;
    reader.rest.trim().is_empty().then_some(value)
}

/// Whether a backslash in a text begins an escape.
#[derive(Clone, Copy)]
enum Escapes {
    Read,
    /// In raw text it stands for itself.
    Kept,
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH {
            return None;
        }
        self.skip();
        let mut chars = self.rest.chars();
        match (chars.next()?, chars.next()) {
            ('{', _) => self.dict(depth),
            ('[', _) => self.list("[", "]", depth),
            ('(', _) => self.list("(", ")", depth),
            ('\'' | '"', _) => self.string(Escapes::Read).map(Value::String),
            (prefix @ ('u' | 'U' | 'r' | 'R'), Some('\'' | '"')) => {
                self.rest = &self.rest[1..];
                let escapes = if matches!(prefix, 'u' | 'U') { Escapes::Read } else { Escapes::Kept };
                self.string(escapes).map(Value::String)
            }
            _ => self.word(),
        }
    }

    fn dict(&mut self, depth: usize) -> Option<Value> {
        self.eat("{");
        let mut map = Map::new();
        while !self.eat("}") {
            let Value::String(key) = self.value(depth + 1)? else { return None };
            if !self.eat(":") {
                return None;
            }
            map.insert(key, self.value(depth + 1)?);
            if !self.eat(",") {
                return self.eat("}").then_some(Value::Object(map));
            }
        }
        Some(Value::Object(map))
    }

    fn list(&mut self, open: &str, close: &str, depth: usize) -> Option<Value> {
        self.eat(open);
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(self.value(depth + 1)?);
            if !self.eat(",") {
                return self.eat(close).then_some(Value::Array(items));
            }
        }
        Some(Value::Array(items))
    }

    fn string(&mut self, escapes: Escapes) -> Option<String> {
        let quote = self.next()?;
        let mut out = String::new();
        loop {
            match (self.next()?, escapes) {
                (c, _) if c == quote => return Some(out),
                ('\\', Escapes::Read) => self.escape(&mut out)?,
                // It still keeps a quote from ending the text.
                ('\\', Escapes::Kept) => out.extend(['\\', self.next()?]),
                (c, _) => out.push(c),
            }
        }
    }

    /// What stands behind a backslash, as Python reads it. JSON's `\/` is a slash all the same.
    fn escape(&mut self, out: &mut String) -> Option<()> {
        let c = self.next()?;
        let read = match c {
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            '0'..='7' => {
                let more = self.rest.bytes().take(2).take_while(|b| matches!(b, b'0'..=b'7')).count();
                let (digits, rest) = self.rest.split_at(more);
                self.rest = rest;
                char::from_u32(u32::from_str_radix(&format!("{c}{digits}"), 8).ok()?)?
            }
            '\\' | '\'' | '"' | '/' => c,
            // The text goes on in the next line.
            '\n' => return Some(()),
            // A character by its name.
            'N' => return None,
            other => {
                out.push('\\');
                other
            }
        };
        out.push(read);
        Some(())
    }

    /// The character whose number is in the next hexadecimal digits.
    fn code(&mut self, digits: usize) -> Option<char> {
        let (code, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        // A sign would be read as a number too.
        if !code.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        char::from_u32(u32::from_str_radix(code, 16).ok()?)
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        Some(next)
    }

    fn word(&mut self) -> Option<Value> {
        let end = self.rest.find(|c: char| matches!(c, ',' | ':' | '}' | ']' | ')') || c.is_whitespace()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "None" => Some(Value::Null),
            _ => word
                .parse::<i64>()
                .map(Value::from)
                .ok()
                .or_else(|| word.parse::<f64>().ok().filter(|f| f.is_finite()).and_then(Number::from_f64).map(Value::Number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn python_literals_and_json_are_read() {
        for (text, expected) in [
            ("{'a':'1','b':'2'}", json!({"a": "1", "b": "2"})),
            (r#"{"a": "b"}"#, json!({"a": "b"})),
            ("{'a': True, 'n': None, 'l': [1, 2.5], 't': ()}", json!({"a": true, "n": null, "l": [1, 2.5], "t": []})),
            ("{}", json!({})),
            ("None", json!(null)),
            (r"{'q': 'it\'s'}", json!({"q": "it's"})),
            ("{'a': 'b',}", json!({"a": "b"})),
            (r"'\x41\u00e9\U0000263a'", json!("A\u{e9}\u{263a}")),
            (r"'\101\08\60\477'", json!("A\u{0}80\u{13f}")),
            (r"'\a\b\f\n\r\t\v'", json!("\u{7}\u{8}\u{c}\n\r\t\u{b}")),
            (r#""\\ \' \" \/ \d \é""#, json!(r#"\ ' " / \d \é"#)),
            ("'one \\\nline'", json!("one line")),
            (r"{u'a': U'\x62', r'c\n': R'it\'s'}", json!({"a": "b", r"c\n": r"it\'s"})),
            ("{'größe': 'L'}", json!({"größe": "L"})),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in ["", "null", "true", "{'a'}", "{'a': 'b'} x", "{a: 1}", "'open", "'open\\", "b'bytes'", "ur'no'", "u 'no'"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in [r"'\x4'", r"'\xé'", r"'\u+041'", r"'\ud83d\ude00'", r"'\U00110000'", r"'\N{DASH}'", r"r'open\'"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
