//! The language of rules: `and`, `or`, `not`, parentheses, `kind:value` checks, `@`, `!`, and the old list form.

use serde_json::Value;

/// A rule, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    Always,
    Never,
    Not(Box<Check>),
    All(Vec<Check>),
    Any(Vec<Check>),
    /// Another rule.
    Rule(String),
    /// The caller holds a role.
    Role(String),
    /// An attribute of the caller has a value, which may name attributes of the target.
    Attribute {
        name: String,
        value: String,
    },
    /// A fixed text has a value.
    Literal {
        text: String,
        value: String,
    },
}

/// Reads a rule; the error says what is wrong with it.
pub fn parse(value: &Value) -> Result<Check, String> {
    match value {
        Value::String(text) => parse_text(text),
        Value::Array(alternatives) => parse_list(alternatives),
        Value::Null => Ok(Check::Always),
        other => Err(format!("{other} is neither text nor a list")),
    }
}

/// A list of alternatives, each a check or a list of checks that must all hold.
fn parse_list(alternatives: &[Value]) -> Result<Check, String> {
    if alternatives.is_empty() {
        return Ok(Check::Always);
    }
    let mut any = Vec::new();
    for alternative in alternatives {
        match alternative {
            Value::String(text) => any.push(parse_check(text)?),
            Value::Array(all) => {
                let all: Result<Vec<Check>, String> =
                    all.iter().map(|v| v.as_str().ok_or_else(|| format!("{v} is not text")).and_then(parse_check)).collect();
                any.push(Check::All(all?));
            }
            other => return Err(format!("{other} is neither text nor a list")),
        }
    }
    Ok(Check::Any(any))
}

fn parse_text(text: &str) -> Result<Check, String> {
    let tokens = tokens(text);
    if tokens.is_empty() {
        return Ok(Check::Always);
    }
    let mut rest = tokens.as_slice();
    let check = any(&mut rest, 0)?;
    match rest.first() {
        None => Ok(check),
        Some(token) => Err(format!("unexpected {token}")),
    }
}

/// Splits at white space, and parentheses off the ends of words; quoted text stays whole, and so does `%(name)s`.
fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for word in words(text) {
        let mut word = word.as_str();
        while let Some(rest) = word.strip_prefix('(') {
            out.push("(".to_owned());
            word = rest;
        }
        let mut closing = 0;
        let quoted = word.len() > 1 && word.starts_with(['\'', '"']) && word.ends_with(['\'', '"']);
        while !quoted && word.ends_with(')') && word.matches(')').count() > word.matches("%(").count() {
            word = &word[..word.len() - 1];
            closing += 1;
        }
        if !word.is_empty() {
            out.push(word.to_owned());
        }
        out.extend(std::iter::repeat_n(")".to_owned(), closing));
    }
    out
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        let word = words.last_mut().expect("there is always a last word");
        match quote {
            Some(q) => {
                word.push(c);
                if c == q {
                    quote = None;
                }
            }
            None if c.is_whitespace() => words.push(String::new()),
            None => {
                if matches!(c, '\'' | '"') {
                    quote = Some(c);
                }
                word.push(c);
            }
        }
    }
    words.retain(|w| !w.is_empty());
    words
}

const NESTING: u32 = 64;

fn any(rest: &mut &[String], depth: u32) -> Result<Check, String> {
    if depth > NESTING {
        return Err("nested too deeply".into());
    }
    let mut checks = vec![all(rest, depth)?];
    while next_is(rest, "or") {
        checks.push(all(rest, depth)?);
    }
    Ok(one_or(checks, Check::Any))
}

fn all(rest: &mut &[String], depth: u32) -> Result<Check, String> {
    let mut checks = vec![one(rest, depth)?];
    while next_is(rest, "and") {
        checks.push(one(rest, depth)?);
    }
    Ok(one_or(checks, Check::All))
}

fn one(rest: &mut &[String], depth: u32) -> Result<Check, String> {
    if depth > NESTING {
        return Err("nested too deeply".into());
    }
    let (first, tail) = rest.split_first().ok_or("it ends in the middle")?;
    *rest = tail;
    match first.as_str() {
        "(" => {
            let inner = any(rest, depth + 1)?;
            let (closing, tail) = rest.split_first().ok_or("a parenthesis is not closed")?;
            *rest = tail;
            if closing == ")" { Ok(inner) } else { Err(format!("unexpected {closing}")) }
        }
        word if word.eq_ignore_ascii_case("not") => Ok(Check::Not(Box::new(one(rest, depth + 1)?))),
        word if word == ")" || word.eq_ignore_ascii_case("and") || word.eq_ignore_ascii_case("or") => Err(format!("unexpected {word}")),
        word => parse_check(word),
    }
}

fn next_is(rest: &mut &[String], word: &str) -> bool {
    match rest.split_first() {
        Some((first, tail)) if first.eq_ignore_ascii_case(word) => {
            *rest = tail;
            true
        }
        _ => false,
    }
}

fn one_or(mut checks: Vec<Check>, many: fn(Vec<Check>) -> Check) -> Check {
    match checks.pop() {
        Some(only) if checks.is_empty() => only,
        Some(last) => {
            checks.push(last);
            many(checks)
        }
        None => Check::Never,
    }
}

fn parse_check(word: &str) -> Result<Check, String> {
    match word.trim() {
        "@" | "" => return Ok(Check::Always),
        "!" => return Ok(Check::Never),
        _ => {}
    }
    let (kind, value) = word.trim().split_once(':').ok_or_else(|| format!("{word} is no check"))?;
    let unquoted = kind.strip_prefix(['\'', '"']).and_then(|k| k.strip_suffix(['\'', '"']));
    Ok(match (kind, unquoted) {
        (_, Some(text)) => Check::Literal { text: text.to_owned(), value: value.to_owned() },
        ("rule", _) => Check::Rule(value.to_owned()),
        ("role", _) => Check::Role(value.to_owned()),
        ("True" | "False" | "None", _) => Check::Literal { text: kind.to_owned(), value: value.to_owned() },
        ("http" | "https", _) => return Err("checks by HTTP are not supported".into()),
        _ => Check::Attribute { name: kind.to_owned(), value: value.to_owned() },
    })
}
