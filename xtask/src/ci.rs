//! `ci`: what CI runs.

use anyhow::Result;

use crate::{advisories, cargo, dependencies, paths, prerequisites, test};

/// Formatting, clippy, what the programs are made of and what is known of that, then everything of `test`. The first failing of the cheap checks
/// ends it.
pub fn run(options: &test::Options) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD])?;
    test::heading("cargo fmt --check");
    cargo::must(&["fmt", "--all", "--check"])?;
    test::heading("cargo clippy");
    cargo::must(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    test::heading("sbom");
    let document = paths::target_dir().join("magnum.cdx.json");
    dependencies::sbom::write(&document)?;
    eprintln!("{}", document.display());
    test::heading("advisories");
    let outcome = advisories::look();
    eprintln!("{outcome}");
    let code = test::run(options)?;
    // Once more where the end is read.
    eprintln!("{outcome}");
    Ok(code.max(outcome.code()))
}
