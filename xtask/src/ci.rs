//! `ci`: what CI runs.

use anyhow::Result;

use crate::{cargo, prerequisites, test};

/// Formatting, clippy, then everything of `test`. The first failing of the cheap checks ends it.
pub fn run(options: &test::Options) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD])?;
    test::heading("cargo fmt --check");
    cargo::must(&["fmt", "--all", "--check"])?;
    test::heading("cargo clippy");
    cargo::must(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    test::run(options)
}
