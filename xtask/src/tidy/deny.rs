//! `deny.toml`: what dependencies may be, in one place, for `cargo deny` and for whoever has not got it.
//!
//! What that tool would heed and this does not know is refused: else the two would say different things of the same tree.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::paths;

/// What dependencies may be.
pub struct Rules {
    /// Those that may be distributed with what is under our own.
    pub licences: Vec<String>,
    /// Where packages come from, as `cargo metadata` names it.
    pub registries: Vec<String>,
    pub bans: Vec<Ban>,
}

/// A package that no program of ours is linked with.
pub struct Ban {
    pub name: String,
    pub reason: String,
    /// Who may use it nevertheless.
    pub users: Vec<String>,
}

impl Rules {
    /// Those of this checkout.
    ///
    /// # Errors
    /// When they are not there, or say what is not known here.
    pub fn read() -> Result<Self> {
        Self::parse(&fs::read_to_string(paths::root().join("deny.toml")).context("read deny.toml")?).context("deny.toml")
    }

    fn parse(text: &str) -> Result<Self> {
        let all: Value = toml::from_str(text)?;
        let (licences, bans, sources) = (&all["licenses"], &all["bans"], &all["sources"]);
        known("[licenses]", licences, &["allow", "confidence-threshold"])?;
        known("[bans]", bans, &["multiple-versions", "wildcards", "allow-wildcard-paths", "deny"])?;
        known("[sources]", sources, &["unknown-registry", "unknown-git", "allow-registry"])?;
        for key in ["unknown-registry", "unknown-git"] {
            ensure!(sources[key] == "deny", "[sources] {key} must be \"deny\"");
        }
        Ok(Self {
            licences: texts("[licenses] allow", &licences["allow"])?,
            registries: texts("[sources] allow-registry", &sources["allow-registry"])?.iter().map(|at| format!("registry+{at}")).collect(),
            bans: list("[bans] deny", &bans["deny"])?.iter().map(Ban::parse).collect::<Result<_>>()?,
        })
    }
}

impl Ban {
    fn parse(given: &Value) -> Result<Self> {
        known("[bans] deny", given, &["crate", "reason", "wrappers"])?;
        let must = |key: &str| given[key].as_str().map(str::to_owned).with_context(|| format!("[bans] deny: an entry without {key}"));
        let name = must("crate")?;
        // `name@1` or `name:<2`, which would ban some versions only.
        ensure!(!name.contains(['@', ':']), "[bans] deny: {name:?} is more than a name");
        let users = if given["wrappers"].is_null() { Vec::new() } else { texts("[bans] wrappers", &given["wrappers"])? };
        Ok(Self { name, reason: must("reason")?, users })
    }
}

fn known(what: &str, table: &Value, keys: &[&str]) -> Result<()> {
    let table = table.as_object().with_context(|| format!("{what}: no table"))?;
    match table.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(other) => bail!("{what}: tidy does not know the key {other:?}"),
        None => Ok(()),
    }
}

fn list<'a>(what: &str, value: &'a Value) -> Result<&'a Vec<Value>> {
    value.as_array().with_context(|| format!("{what}: no list"))
}

fn texts(what: &str, value: &Value) -> Result<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned).with_context(|| format!("{what}: {value} is no text"));
    list(what, value)?.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[licenses]\nallow = [\"MIT\", \"ISC\"]\nconfidence-threshold = 0.9\n\
                        [bans]\nwildcards = \"deny\"\ndeny = [\n{ crate = \"a\", reason = \"why\" },\n\
                        { crate = \"b\", wrappers = [\"c\", \"d\"], reason = \"for them\" },\n]\n\
                        [sources]\nunknown-registry = \"deny\"\nunknown-git = \"deny\"\nallow-registry = [\"https://example.org/index\"]\n";

    #[test]
    fn what_cargo_deny_heeds_is_read() {
        let rules = Rules::parse(GOOD).expect("rules");
        assert_eq!(rules.licences, ["MIT", "ISC"]);
        assert_eq!(rules.registries, ["registry+https://example.org/index"]);
        let bans: Vec<(&str, &str, usize)> = rules.bans.iter().map(|b| (b.name.as_str(), b.reason.as_str(), b.users.len())).collect();
        assert_eq!(bans, [("a", "why", 0), ("b", "for them", 2)]);
    }

    #[test]
    fn what_would_be_overlooked_is_refused() {
        for (old, new, wanted) in [
            ("confidence-threshold = 0.9", "exceptions = []", "does not know the key"),
            ("wildcards", "skip", "does not know the key"),
            ("reason = \"why\"", "use-instead = \"x\"", "does not know the key"),
            (", reason = \"why\"", "", "without reason"),
            ("crate = \"a\"", "crate = \"a@1\"", "more than a name"),
            ("{ crate = \"a\", reason = \"why\" }", "\"a\"", "no table"),
            ("unknown-git = \"deny\"", "unknown-git = \"warn\"", "must be \"deny\""),
            ("unknown-git = \"deny\"\n", "", "must be \"deny\""),
            ("[\"MIT\", \"ISC\"]", "[1]", "is no text"),
            ("[licenses]", "[licences]", "no table"),
            ("[bans]", "[bans", ""),
        ] {
            let text = GOOD.replacen(old, new, 1);
            assert_ne!(text, GOOD, "{old}");
            let error = Rules::parse(&text).err().unwrap_or_else(|| panic!("{new}: it was taken"));
            assert!(format!("{error:#}").contains(wanted), "{new}: {error:#}");
        }
    }

    #[test]
    fn the_rules_of_this_checkout_can_be_read() {
        let rules = Rules::read().expect("rules");
        assert!(rules.licences.iter().any(|name| name == "Apache-2.0"));
        assert_eq!(rules.registries.len(), 1);
        assert!(rules.bans.iter().any(|ban| ban.name == "native-tls" && ban.users.is_empty()));
        assert!(rules.bans.iter().any(|ban| ban.name == "openssl" && !ban.users.is_empty()));
    }
}
