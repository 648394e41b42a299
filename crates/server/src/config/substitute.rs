//! `$name` in option texts, by the rules of oslo.config: `$name`, `${name}`, `$section.name`, `${section.name}`; `$$` and
//! `\$` stand for a dollar sign, and a dollar sign that starts no name stands for itself.
//!
//! Differs in one point: options that refer to each other in a circle are an error that names them, not a crash.

/// Replaces every name in `text` by what `value_of` says.
pub(super) fn substitute<E>(text: &str, mut value_of: impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        if let Some(before) = before.strip_suffix('\\') {
            // `\$` is `$$` by another name.
            result.push_str(before);
            result.push('$');
            rest = after;
            continue;
        }
        result.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            result.push('$');
            rest = after;
        } else if let Some((name, after)) = name(after) {
            result.push_str(&value_of(name)?);
            rest = after;
        } else {
            result.push('$');
            rest = after;
        }
    }
    result.push_str(rest);
    Ok(result)
}

/// The name at the start of the text, with or without braces, and what follows it.
fn name(text: &str) -> Option<(&str, &str)> {
    let braced = text.strip_prefix('{');
    let text = braced.unwrap_or(text);
    if !text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic()) {
        return None;
    }
    let end = text.find(|c: char| !(c == '_' || c == '.' || c.is_ascii_alphanumeric())).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    match braced {
        Some(_) => after.strip_prefix('}').map(|after| (name, after)),
        None => Some((name, after)),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn names_are_replaced_and_escapes_are_not() {
        for (text, wanted) in [
            ("plain", "plain"),
            ("$a", "<a>"),
            ("x${a}y", "x<a>y"),
            ("$s.a/b", "<s.a>/b"),
            ("${s.a}", "<s.a>"),
            ("$$a", "$a"),
            ("\\$a", "$a"),
            ("p$1 $ $", "p$1 $ $"),
            ("${a", "${a"),
            ("${a.b", "${a.b"),
            ("$$$a", "$<a>"),
            ("$A_1-x", "<A_1>-x"),
        ] {
            let seen = substitute(text, |name| Ok::<_, Infallible>(format!("<{name}>")));
            assert_eq!(seen.expect("infallible"), wanted, "{text:?}");
        }
    }
}
