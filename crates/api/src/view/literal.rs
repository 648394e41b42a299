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
        match self.rest.chars().next()? {
            '{' => self.dict(depth),
            '[' => self.list("[", "]", depth),
            '(' => self.list("(", ")", depth),
            '\'' | '"' => self.string().map(Value::String),
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

    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Some(out);
                }
                '\\' => out.push(match chars.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'u' => {
                        let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                    }
                    same @ ('\\' | '\'' | '"' | '/') => same,
                    _ => return None,
                }),
                c => out.push(c),
            }
        }
        None
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
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in ["", "null", "true", "{'a'}", "{'a': 'b'} x", "{a: 1}", "'open"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
