//! Licence expressions as packages write them: SPDX, and the older form with a slash.

use anyhow::{Result, bail, ensure};

/// Whether what an expression asks for can be had with the given licences alone.
///
/// # Errors
/// When it is no expression.
pub fn is_allowed(text: &str, licences: &[&str]) -> Result<bool> {
    let spaced = spdx(text).replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let allowed = any(&words, &mut at, licences)?;
    ensure!(at == words.len(), "{text:?}: {:?} is one too many", words[at]);
    Ok(allowed)
}

/// The expression as SPDX writes it.
pub fn spdx(text: &str) -> String {
    text.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

fn any(words: &[&str], at: &mut usize, licences: &[&str]) -> Result<bool> {
    let mut allowed = all(words, at, licences)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        allowed |= all(words, at, licences)?;
    }
    Ok(allowed)
}

fn all(words: &[&str], at: &mut usize, licences: &[&str]) -> Result<bool> {
    let mut allowed = one(words, at, licences)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        allowed &= one(words, at, licences)?;
    }
    Ok(allowed)
}

fn one(words: &[&str], at: &mut usize, licences: &[&str]) -> Result<bool> {
    let Some(word) = words.get(*at).copied() else { bail!("it ends too early") };
    *at += 1;
    match word {
        "(" => {
            let allowed = any(words, at, licences)?;
            ensure!(words.get(*at) == Some(&")"), "a bracket is not closed");
            *at += 1;
            Ok(allowed)
        }
        ")" | "AND" | "OR" | "WITH" => bail!("{word:?} stands where a licence should"),
        name if words.get(*at) == Some(&"WITH") => {
            let Some(exception) = words.get(*at + 1) else { bail!("no exception after WITH") };
            *at += 2;
            Ok(licences.contains(&format!("{name} WITH {exception}").as_str()))
        }
        name => Ok(licences.contains(&name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_weighed_as_spdx_has_it() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
        for (text, wanted) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 / MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("MIT AND ISC", true),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("(MIT OR ISC) AND GPL-3.0", false),
            ("MIT OR ISC AND GPL-3.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
            ("MIT WITH LLVM-exception", false),
        ] {
            assert_eq!(is_allowed(text, &allowed).expect(text), wanted, "{text}");
        }
        for text in ["", "MIT OR", "AND MIT", "(MIT", "MIT)", "MIT ISC", "MIT WITH"] {
            assert!(is_allowed(text, &allowed).is_err(), "{text}");
        }
        assert_eq!(spdx("MIT/Apache-2.0"), "MIT OR Apache-2.0");
    }
}
