//! What is built in: which licences, from where, and by whose TLS. Read from `cargo metadata`, which knows what is linked where a manifest only
//! says what is wished for.
//!
//! `deny.toml` has the same rules for `cargo deny`, and advisories, for whoever has that tool and its database. This needs neither.

mod licence;
mod metadata;
pub mod sbom;

use anyhow::Result;

pub use metadata::Metadata;
use metadata::Package;

/// Licences that may be distributed with what is under Apache-2.0.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// The one place that dependencies come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What no program of ours is linked with, and why.
const BANNED: &[(&str, &str)] = &[
    ("native-tls", "TLS is rustls"),
    ("tokio-native-tls", "TLS is rustls"),
    ("tokio-openssl", "TLS is rustls"),
    ("hyper-tls", "TLS is rustls"),
    ("hyper-openssl", "TLS is rustls"),
    ("actix-tls", "TLS is ended by our own listener"),
    ("aws-lc-rs", "ring is the one provider; two of them in a process refuse to choose"),
    ("mysqlclient-sys", "the MariaDB driver is in Rust"),
    ("pq-sys", "there is no PostgreSQL"),
];

/// Who may use OpenSSL: it makes and reads certificates, and is in no connection. `openssl-probe` is not it: it finds files of authorities.
const OPENSSL: &[(&str, &[&str])] = &[("openssl", &["model", "server", "tests"]), ("openssl-sys", &["openssl"])];

/// Features that bring another TLS, by a part of their names; those that only name the machine's authorities do not.
const TLS_FEATURES: &[&str] = &["native-tls", "openssl", "default-tls", "aws-lc", "aws_lc"];

/// What is wrong with what is built in: the package, and why.
pub fn check() -> Result<Vec<(String, String)>> {
    Ok(findings(&Metadata::read()?))
}

fn findings(metadata: &Metadata) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for package in &metadata.packages {
        let mut say = |what: String| found.push((format!("{} {}", package.name, package.version), what));
        if let Some(what) = of_source(package, metadata) {
            say(what);
        }
        match package.licence.as_deref().map(|text| licence::is_allowed(text, LICENCES)) {
            Some(Ok(true)) => {}
            Some(Ok(false)) => {
                say(format!("its licence {} is not among those that may be distributed", package.licence.as_deref().unwrap_or_default()))
            }
            Some(Err(error)) => say(format!("its licence cannot be read: {error}")),
            None => say("it names no licence".to_owned()),
        }
        if let Some((_, why)) = BANNED.iter().find(|(name, _)| *name == package.name) {
            say(format!("it is banned: {why}"));
        }
        for feature in package.features.iter().filter(|feature| TLS_FEATURES.iter().any(|part| feature.contains(part))) {
            say(format!("its feature {feature} is on: TLS is rustls with ring"));
        }
        for needed in &package.needs {
            let name = metadata.name(&needed.id);
            if let Some((_, allowed)) = OPENSSL.iter().find(|(openssl, _)| *openssl == name)
                && !allowed.contains(&package.name.as_str())
            {
                say(format!("it uses {name}, which makes and reads certificates in {} only", allowed.join(", ")));
            }
        }
    }
    found
}

fn of_source(package: &Package, metadata: &Metadata) -> Option<String> {
    match package.source.as_deref() {
        Some(REGISTRY) => None,
        None if metadata.is_member(package) => None,
        None => Some("it is a path outside the workspace".to_owned()),
        Some(other) => Some(format!("it comes from {other}, and not from crates.io")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
        findings(&metadata).into_iter().map(|(package, what)| format!("{package}: {what}")).collect()
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
        assert_eq!(findings(&metadata), []);
        // What is asked about is there: the rules would find nothing in a tree that names it otherwise.
        for name in ["rustls", "openssl", "openssl-sys", "reqwest", "mysql_async", "lapin"] {
            assert!(metadata.packages.iter().any(|package| package.name == name), "{name}");
        }
    }

    #[test]
    fn the_table_is_the_one_that_cargo_deny_reads() {
        let text = std::fs::read_to_string(crate::paths::root().join("deny.toml")).expect("deny.toml");
        let list =
            text.split_once("[licenses]").and_then(|(_, rest)| rest.split_once("allow = [")).and_then(|(_, rest)| rest.split_once(']'));
        let named: Vec<&str> = list.expect("a list").0.split('"').skip(1).step_by(2).collect();
        assert_eq!(named, LICENCES);
    }
}
