//! `simulate`: the engine under deterministic simulation (`tests/simulation`).

use anyhow::Result;

use crate::{cargo, prerequisites};

/// Builds it and runs it with these arguments.
pub fn run(args: &[String]) -> Result<u8> {
    prerequisites::ensure(&[prerequisites::BUILD])?;
    let mut all = vec!["run", "--quiet", "--profile", "simulation", "-p", "tests", "--example", "simulate", "--"];
    all.extend(args.iter().map(String::as_str));
    cargo::call(&all)
}
