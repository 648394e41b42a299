//! `sbom`: what the programs are made of, as CycloneDX 1.6 in JSON. The same checkout gives the same document: no time and no random number
//! is in it.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::licence::spdx;
use super::metadata::{Metadata, Package};

/// The crate of all programs that are delivered.
const ROOT: &str = "server";

#[derive(clap::Args)]
pub struct Options {
    /// Where to write it; standard output unless given
    #[arg(long)]
    output: Option<PathBuf>,
}

/// Writes the document.
pub fn run(options: &Options) -> Result<u8> {
    match &options.output {
        Some(path) => write(path)?,
        None => std::io::stdout().write_all(text()?.as_bytes()).context("write to standard output")?,
    }
    Ok(0)
}

/// Writes the document into a file.
pub fn write(path: &Path) -> Result<()> {
    std::fs::write(path, text()?).with_context(|| format!("write {}", path.display()))
}

fn text() -> Result<String> {
    Ok(format!("{:#}\n", document(&Metadata::read()?)?))
}

fn document(metadata: &Metadata) -> Result<Value> {
    let root = metadata.packages.iter().find(|package| package.name == ROOT && metadata.is_member(package));
    let root = root.with_context(|| format!("no crate {ROOT} in the workspace"))?;
    let shipped = shipped(metadata, root);
    let mut components: Vec<&Package> = shipped.iter().filter(|id| **id != root.id).filter_map(|id| metadata.get(id)).collect();
    components.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    let of = |package: &Package| {
        let needs = package.needs.iter().filter(|need| need.is_shipped).filter_map(|need| metadata.get(&need.id));
        let mut on: Vec<String> = needs.map(|package| purl(metadata, package)).collect();
        on.sort_unstable();
        on.dedup();
        json!({"ref": purl(metadata, package), "dependsOn": on})
    };
    let mut dependencies = vec![of(root)];
    dependencies.extend(components.iter().map(|package| of(package)));
    let mut programs = component(metadata, root);
    programs["type"] = json!("application");
    programs["name"] = json!("magnum");
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": programs},
        "components": components.iter().map(|package| component(metadata, package)).collect::<Vec<_>>(),
        "dependencies": dependencies,
    }))
}

/// What is built into the programs, or builds them.
fn shipped<'a>(metadata: &'a Metadata, root: &'a Package) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut next = vec![root];
    while let Some(package) = next.pop() {
        if seen.insert(package.id.as_str()) {
            next.extend(package.needs.iter().filter(|need| need.is_shipped).filter_map(|need| metadata.get(&need.id)));
        }
    }
    seen
}

fn component(metadata: &Metadata, package: &Package) -> Value {
    let purl = purl(metadata, package);
    let mut all = Map::new();
    all.insert("type".into(), json!("library"));
    all.insert("bom-ref".into(), json!(purl));
    all.insert("name".into(), json!(package.name));
    all.insert("version".into(), json!(package.version));
    if let Some(text) = &package.description {
        all.insert("description".into(), json!(text.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    if let Some(checksum) = &package.checksum {
        all.insert("hashes".into(), json!([{"alg": "SHA-256", "content": checksum}]));
    }
    if let Some(licence) = &package.licence {
        all.insert("licenses".into(), json!([{"expression": spdx(licence)}]));
    }
    all.insert("purl".into(), json!(purl));
    if let Some(url) = &package.repository {
        all.insert("externalReferences".into(), json!([{"type": "vcs", "url": url}]));
    }
    Value::Object(all)
}

/// The name that the world knows a package by. Those of this checkout are in no registry.
fn purl(metadata: &Metadata, package: &Package) -> String {
    let place = if metadata.is_member(package) { "generic/magnum-" } else { "cargo/" };
    // The sign of build metadata stands for a space in an address.
    format!("pkg:{place}{}@{}", package.name, package.version.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_what_is_shipped_with_checksum_and_licence_and_no_more() {
        let metadata = Metadata::read().expect("cargo metadata");
        let document = document(&metadata).expect("a document");
        assert_eq!((&document["bomFormat"], &document["specVersion"]), (&json!("CycloneDX"), &json!("1.6")));
        let components = document["components"].as_array().expect("components");
        let named = |name: &str| components.iter().find(|component| component["name"] == name);
        for name in ["rustls", "ring", "diesel", "lapin", "reqwest", "openssl"] {
            let found = named(name).unwrap_or_else(|| panic!("{name} is shipped"));
            assert_eq!(found["hashes"][0]["content"].as_str().map(str::len), Some(64), "{found}");
            assert!(found["licenses"][0]["expression"].is_string() && !found["licenses"].to_string().contains('/'), "{found}");
            assert!(found["purl"].as_str().is_some_and(|purl| purl.starts_with(&format!("pkg:cargo/{name}@"))), "{found}");
        }
        for name in ["rstest", "proptest", "tests", "xtask", "stateright"] {
            assert!(named(name).is_none(), "{name} is of tests or tools");
        }
        // Each reference is one component, and each component is referred to.
        let refs: BTreeSet<&str> =
            components.iter().chain([&document["metadata"]["component"]]).filter_map(|c| c["bom-ref"].as_str()).collect();
        assert_eq!(refs.len(), components.len() + 1, "two components have one name");
        let dependencies = document["dependencies"].as_array().expect("dependencies");
        let from: BTreeSet<&str> = dependencies.iter().filter_map(|one| one["ref"].as_str()).collect();
        assert_eq!(from, refs);
        let on: BTreeSet<&str> =
            dependencies.iter().filter_map(|one| one["dependsOn"].as_array()).flatten().filter_map(Value::as_str).collect();
        assert!(on.is_subset(&refs) && on.len() == components.len(), "{:?}", refs.difference(&on).collect::<Vec<_>>());
    }
}
