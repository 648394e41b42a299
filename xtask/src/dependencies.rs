//! What is built in: which licences, from where, and by whose TLS. Read from `cargo metadata`, which knows what is linked where a manifest only
//! says what is wished for.
//!
//! The rules are those of `deny.toml`. `cargo deny` has advisories besides, for whoever has that tool and its database. This needs neither.

mod licence;
mod metadata;
pub mod sbom;

use anyhow::Result;

pub use metadata::Metadata;
use metadata::Package;

use crate::tidy::deny::Rules;

/// Features that bring another TLS, by a part of their names; those that only name the machine's authorities do not.
/// `cargo deny` knows features of packages that it is given the names of, and none of all others.
const TLS_FEATURES: &[&str] = &["native-tls", "openssl", "default-tls", "aws-lc", "aws_lc"];

/// What is wrong with what is built in: the package, and why.
pub fn check() -> Result<Vec<(String, String)>> {
    Ok(findings(&Metadata::read()?, &Rules::read()?))
}

fn findings(metadata: &Metadata, rules: &Rules) -> Vec<(String, String)> {
    let licences: Vec<&str> = rules.licences.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    for package in &metadata.packages {
        let mut say = |what: String| found.push((format!("{} {}", package.name, package.version), what));
        if let Some(what) = of_source(package, metadata, rules) {
            say(what);
        }
        match package.licence.as_deref().map(|text| licence::is_allowed(text, &licences)) {
            Some(Ok(true)) => {}
            Some(Ok(false)) => {
                say(format!("its licence {} is not among those that may be distributed", package.licence.as_deref().unwrap_or_default()))
            }
            Some(Err(error)) => say(format!("its licence cannot be read: {error}")),
            None => say("it names no licence".to_owned()),
        }
        if let Some(ban) = rules.bans.iter().find(|ban| ban.name == package.name && ban.users.is_empty()) {
            say(format!("it is banned: {}", ban.reason));
        }
        for feature in package.features.iter().filter(|feature| TLS_FEATURES.iter().any(|part| feature.contains(part))) {
            say(format!("its feature {feature} is on: TLS is rustls with ring"));
        }
        for needed in &package.needs {
            let name = metadata.name(&needed.id);
            let ban = rules.bans.iter().find(|ban| ban.name == name && !ban.users.is_empty());
            if let Some(ban) = ban.filter(|ban| !ban.users.contains(&package.name)) {
                say(format!("it uses {name}, and only {} may: {}", ban.users.join(", "), ban.reason));
            }
        }
    }
    found
}

fn of_source(package: &Package, metadata: &Metadata, rules: &Rules) -> Option<String> {
    match package.source.as_deref() {
        Some(source) if rules.registries.iter().any(|registry| registry == source) => None,
        None if metadata.is_member(package) => None,
        None => Some("it is a path outside the workspace".to_owned()),
        Some(other) => Some(format!("it comes from {other}, and from no registry of deny.toml")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

    fn package(id: &str, source: Value, licence: Value) -> Value {
        json!({"id": id, "name": id, "version": "1.0.0", "source": source, "license": licence, "description": null, "repository": null})
    }

    fn node(id: &str, features: &[&str], needs: &[&str]) -> Value {
        let needs: Vec<Value> =
            needs.iter().map(|id| json!({"name": id, "pkg": id, "dep_kinds": [{"kind": null, "target": null}]})).collect();
        json!({"id": id, "features": features, "deps": needs})
    }

    fn said(packages: &[Value], nodes: &[Value]) -> Vec<String> {
        let given = json!({"packages": packages, "resolve": {"nodes": nodes}, "workspace_members": ["model"]});
        let metadata = Metadata::parse(&given.to_string(), "").expect("metadata");
        findings(&metadata, &Rules::read().expect("rules")).into_iter().map(|(package, what)| format!("{package}: {what}")).collect()
    }

    #[test]
    fn each_rule_finds_what_breaks_it_and_nothing_else() {
        let good = || package("model", Value::Null, json!("Apache-2.0"));
        let from = |id: &str| package(id, json!(REGISTRY), json!("MIT OR Apache-2.0"));
        assert!(said(&[good(), from("openssl")], &[node("model", &["tls"], &["openssl"]), node("openssl", &["default"], &[])]).is_empty());
        for (broken, features, needs, wanted) in [
            (package("x", json!("git+https://example.org/x"), json!("MIT")), &[][..], &[][..], "comes from git+https://example.org/x"),
            (package("x", Value::Null, json!("MIT")), &[], &[], "a path outside the workspace"),
            (package("x", json!(REGISTRY), json!("GPL-3.0")), &[], &[], "licence GPL-3.0 is not among"),
            (package("x", json!(REGISTRY), json!("MIT AND")), &[], &[], "licence cannot be read"),
            (package("x", json!(REGISTRY), Value::Null), &[], &[], "names no licence"),
            (from("native-tls"), &[], &[], "banned: TLS is rustls"),
            (from("reqwest"), &["rustls", "native-tls-vendored"], &[], "feature native-tls-vendored is on"),
            (from("reqwest"), &[], &["openssl"], "it uses openssl"),
        ] {
            let id = broken["id"].as_str().expect("an id").to_owned();
            let found =
                said(&[good(), from("openssl"), broken], &[node("model", &[], &[]), node("openssl", &[], &[]), node(&id, features, needs)]);
            assert!(found.len() == 1 && found[0].contains(wanted) && found[0].starts_with(&id), "{wanted}: {found:?}");
        }
    }

    /// The tree as it is.
    #[test]
    fn everything_that_is_built_in_keeps_the_rules() {
        let metadata = Metadata::read().expect("cargo metadata");
        assert!(metadata.packages.len() > 100, "{} packages", metadata.packages.len());
        assert_eq!(findings(&metadata, &Rules::read().expect("rules")), []);
        // What is asked about is there: the rules would find nothing in a tree that names it otherwise.
        for name in ["rustls", "openssl", "openssl-sys", "reqwest", "mysql_async", "lapin"] {
            assert!(metadata.packages.iter().any(|package| package.name == name), "{name}");
        }
    }
}
