//! What `cargo metadata` says of packages, and `Cargo.lock` of their checksums.

use std::collections::BTreeMap;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{cargo, paths};

/// What we build for; packages of other platforms are in no program.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// All packages that the workspace is built of, tests included.
pub struct Metadata {
    pub packages: Vec<Package>,
    members: Vec<String>,
}

/// A package.
pub struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    /// None: a path.
    pub source: Option<String>,
    pub licence: Option<String>,
    pub description: Option<String>,
    pub repository: Option<String>,
    /// SHA-256 of its archive, hex; none for a path.
    pub checksum: Option<String>,
    /// Those that are on.
    pub features: Vec<String>,
    pub needs: Vec<Need>,
}

/// A dependency.
pub struct Need {
    pub id: String,
    /// Not of tests alone.
    pub is_shipped: bool,
}

impl Metadata {
    /// Asks cargo, which follows the lock file.
    ///
    /// # Errors
    /// When it fails, or says what we do not understand.
    pub fn read() -> Result<Self> {
        let mut command = cargo::cargo();
        command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM]);
        let output = command.stderr(Stdio::piped()).output().context("run cargo metadata")?;
        ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let lock = std::fs::read_to_string(paths::root().join("Cargo.lock")).context("read Cargo.lock")?;
        Self::parse(std::str::from_utf8(&output.stdout).context("cargo metadata")?, &lock)
    }

    /// As [`Self::read`], of texts.
    ///
    /// # Errors
    /// When a part that is always there is not.
    pub fn parse(metadata: &str, lock: &str) -> Result<Self> {
        let all: Value = serde_json::from_str(metadata).context("the answer of cargo metadata")?;
        let checksums = checksums(lock);
        let nodes: BTreeMap<&str, &Value> =
            list(&all["resolve"]["nodes"])?.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
        let mut packages = Vec::new();
        for package in list(&all["packages"])? {
            let text = |key: &str| package[key].as_str().map(str::to_owned);
            let must = |key: &str| text(key).with_context(|| format!("a package without {key}"));
            let (id, name, version) = (must("id")?, must("name")?, must("version")?);
            let Some(node) = nodes.get(id.as_str()) else { continue };
            let checksum = checksums.get(&(name.clone(), version.clone())).cloned();
            let features = list(&node["features"])?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let needs = list(&node["deps"])?.iter().map(need).collect::<Result<_>>()?;
            let (source, licence, description, repository) = (text("source"), text("license"), text("description"), text("repository"));
            packages.push(Package { id, name, version, source, licence, description, repository, checksum, features, needs });
        }
        let members = list(&all["workspace_members"])?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(Self { packages, members })
    }

    /// A package by its id.
    pub fn get(&self, id: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.id == id)
    }

    /// The name of the package of an id; empty for one that is not there.
    pub fn name(&self, id: &str) -> &str {
        self.get(id).map_or("", |package| package.name.as_str())
    }

    /// Whether it is of this checkout.
    pub fn is_member(&self, package: &Package) -> bool {
        self.members.contains(&package.id)
    }
}

fn need(given: &Value) -> Result<Need> {
    let id = given["pkg"].as_str().context("a dependency without id")?.to_owned();
    let is_shipped = list(&given["dep_kinds"])?.iter().any(|kind| kind["kind"] != "dev");
    Ok(Need { id, is_shipped })
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().context("cargo metadata: no list where one should be")
}

/// Checksums of a lock file, by name and version. Its form is cargo's own, a line for each entry.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let of = |key: &str| package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'));
        if let (Some(name), Some(version), Some(checksum)) = (of("name"), of("version"), of("checksum")) {
            found.insert((name.to_owned(), version.to_owned()), checksum.to_owned());
        }
    }
    found
}
