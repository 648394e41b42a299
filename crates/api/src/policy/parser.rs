//! The language of rules: `and`, `or`, `not`, parentheses, `kind:value` checks, `@`, `!`, and the old list form.
//!
//! It is read as oslo.policy reads it, with one difference: what oslo.policy takes for "never" after a line in its log, or fails on in every
//! request, is refused here when the file is read, with the rule's name.

use serde_json::Value;

use super::check::{Check, Constant, Pattern};

/// Parentheses and `not`s within each other at most.
const NESTING: u32 = 64;

/// Reads a rule; the error says what is wrong with it.
pub fn parse(value: &Value) -> Result<Check, String> {
    match value {
        Value::String(text) => parse_text(text),
        Value::Array(alternatives) => parse_list(alternatives),
        // YAML makes the same of nothing at all and of a bare exclamation mark: one means everybody, the other nobody.
        Value::Null => Err(r#"it is empty; write "@" for everybody and "!" (in quotes) for nobody"#.into()),
        other => Err(format!("{other} is neither text nor a list")),
    }
}

/// A list of alternatives, each a check or a list of checks that must all hold. Empty alternatives do not count.
fn parse_list(alternatives: &[Value]) -> Result<Check, String> {
    if alternatives.is_empty() {
        return Ok(Check::Always);
    }
    let mut any = Vec::new();
    for alternative in alternatives {
        let all = match alternative {
            Value::String(text) if text.is_empty() => continue,
            Value::String(text) => vec![parse_check(text)?],
            Value::Array(all) => all
                .iter()
                .map(|v| v.as_str().ok_or_else(|| format!("{v} is not text")).and_then(parse_check))
                .collect::<Result<Vec<_>, _>>()?,
            other => return Err(format!("{other} is neither text nor a list")),
        };
        if !all.is_empty() {
            any.push(one_or(all, Check::All));
        }
    }
    Ok(one_or(any, Check::Any))
}

/// Reads a rule in text form.
pub fn parse_text(text: &str) -> Result<Check, String> {
    if text.is_empty() {
        return Ok(Check::Always);
    }
    let tokens = tokens(text);
    let mut rest = tokens.as_slice();
    let check = any(&mut rest, 0)?;
    match rest.first() {
        None => Ok(check),
        Some(token) => Err(format!("unexpected {token}")),
    }
}

/// Splits at white space, and parentheses off the ends of words: within a word they belong to `%(name)s`.
fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for word in text.split_whitespace() {
        let inner = word.trim_start_matches('(');
        out.extend(std::iter::repeat_n("(", word.len() - inner.len()));
        let middle = inner.trim_end_matches(')');
        if !middle.is_empty() {
            out.push(middle);
        }
        out.extend(std::iter::repeat_n(")", inner.len() - middle.len()));
    }
    out
}

fn any(rest: &mut &[&str], depth: u32) -> Result<Check, String> {
    let mut checks = vec![all(rest, depth)?];
    while next_is(rest, "or") {
        checks.push(all(rest, depth)?);
    }
    Ok(one_or(checks, Check::Any))
}

fn all(rest: &mut &[&str], depth: u32) -> Result<Check, String> {
    let mut checks = vec![one(rest, depth)?];
    while next_is(rest, "and") {
        checks.push(one(rest, depth)?);
    }
    Ok(one_or(checks, Check::All))
}

fn one(rest: &mut &[&str], depth: u32) -> Result<Check, String> {
    if depth > NESTING {
        return Err(format!("more than {NESTING} parentheses or nots within each other"));
    }
    let (first, tail) = rest.split_first().ok_or("it ends where a check is expected")?;
    *rest = tail;
    match *first {
        "(" => {
            let inner = any(rest, depth + 1)?;
            if next_is(rest, ")") {
                return Ok(inner);
            }
            Err(rest.first().map_or_else(|| "a parenthesis is not closed".into(), |token| format!("unexpected {token}")))
        }
        word if word.eq_ignore_ascii_case("not") => Ok(Check::Not(Box::new(one(rest, depth + 1)?))),
        word if word == ")" || word.eq_ignore_ascii_case("and") || word.eq_ignore_ascii_case("or") => Err(format!("unexpected {word}")),
        word => parse_check(word),
    }
}

fn next_is(rest: &mut &[&str], word: &str) -> bool {
    match rest.split_first() {
        Some((first, tail)) if first.eq_ignore_ascii_case(word) => {
            *rest = tail;
            true
        }
        _ => false,
    }
}

/// The only one, or many; none never holds.
fn one_or(mut checks: Vec<Check>, many: fn(Vec<Check>) -> Check) -> Check {
    match (checks.pop(), checks.len()) {
        (None, _) => Check::Never,
        (Some(only), 0) => only,
        (Some(last), _) => {
            checks.push(last);
            many(checks)
        }
    }
}

fn parse_check(word: &str) -> Result<Check, String> {
    match word {
        "@" => return Ok(Check::Always),
        "!" => return Ok(Check::Never),
        _ => {}
    }
    let (kind, value) = word.split_once(':').ok_or_else(|| format!("{word} is no check: it must be kind:value, @ or !"))?;
    match kind {
        "rule" => return Ok(Check::Rule(value.to_owned())),
        "http" | "https" => return Err(format!("{word}: checks that ask another server are not supported")),
        _ => {}
    }
    let value = Pattern::parse(value)?;
    if kind == "role" {
        return Ok(Check::Role(value));
    }
    if let Some(text) = constant(kind)? {
        return Ok(Check::Constant { constant: Constant { written: kind.to_owned(), text }, value });
    }
    let is_name = |part: &str| part.starts_with(|c: char| c.is_alphabetic() || c == '_') && part.chars().all(is_word);
    if !kind.split('.').all(is_name) {
        return Err(format!("{kind} is neither an attribute, nor a text in quotes, nor a whole number"));
    }
    Ok(Check::Attribute { path: kind.to_owned(), value })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// What a left-hand side is compared as, if it is a constant.
fn constant(kind: &str) -> Result<Option<String>, String> {
    if ["True", "False", "None"].contains(&kind) {
        return Ok(Some(kind.to_owned()));
    }
    if let Some(quote) = kind.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let inner = kind[1..].strip_suffix(quote).filter(|inner| !inner.contains(['\\', quote]));
        return inner.map(|inner| Some(inner.to_owned())).ok_or_else(|| format!("{kind} is not a plain text in quotes"));
    }
    let digits = kind.strip_prefix('-').unwrap_or(kind);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // Python has no number that begins with a zero, and -0 is 0.
    Ok((is_number && (kind == "0" || !digits.starts_with('0'))).then(|| kind.to_owned()))
}
