//! `tidy`: the rules of the house that a compiler does not know. Each rule is a function from files to findings.

pub mod deny;
mod determinism;
mod fences;
mod layers;
mod migrations;
mod sizes;
mod weaknesses;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

use anyhow::{Context, Result};

use crate::{dependencies, paths};

/// A file of the checkout: its path from the top, and its text.
pub struct Source {
    path: String,
    text: String,
}

/// A broken rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: Option<usize>,
    rule: &'static str,
    what: String,
}

impl Finding {
    fn new(path: impl Into<String>, line: impl Into<Option<usize>>, rule: &'static str, what: impl Into<String>) -> Self {
        Self { path: path.into(), line: line.into(), rule, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}: {}", self.rule, self.what)
    }
}

/// Checks the checkout; exit code 1 when a rule is broken.
pub fn run() -> Result<u8> {
    let sources = read(paths::root())?;
    let mut findings = check(&sources);
    findings.extend(dependencies::check()?.into_iter().map(|(package, what)| Finding::new(package, None, "dependency", what)));
    for finding in &findings {
        eprintln!("{finding}");
    }
    eprintln!("tidy: {} files, {} findings", sources.len(), findings.len());
    Ok(u8::from(!findings.is_empty()))
}

fn check(sources: &[Source]) -> Vec<Finding> {
    let rules = [layers::check, fences::check, determinism::check, migrations::check, sizes::check, weaknesses::check, words::check];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(sources)).collect();
    findings.sort();
    findings
}

/// Every text file that is tracked or about to be. Without git: every file but what is built or hidden.
fn read(root: &Path) -> Result<Vec<Source>> {
    let listed = Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root).output();
    let paths = match listed {
        Ok(output) if output.status.success() => {
            output.stdout.split(|b| *b == 0).filter(|p| !p.is_empty()).map(|p| PathBuf::from(String::from_utf8_lossy(p).as_ref())).collect()
        }
        _ => {
            let mut found = Vec::new();
            walk(root, Path::new(""), &mut found)?;
            found
        }
    };
    let mut sources = Vec::new();
    for path in paths {
        // A tracked file may be deleted in the working tree; a binary file has no text to check.
        if let Ok(text) = fs::read_to_string(root.join(&path)) {
            sources.push(Source { path: path.to_string_lossy().into_owned(), text });
        }
    }
    Ok(sources)
}

fn walk(root: &Path, below: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root.join(below)).with_context(|| format!("list {}", below.display()))? {
        let entry = entry.with_context(|| format!("list {}", below.display()))?;
        let name = entry.file_name();
        let path = below.join(&name);
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                walk(root, &path, found)?;
            }
        } else {
            found.push(path);
        }
    }
    Ok(())
}

/// The part of a Rust file that is not test code: all of it up to the first `#[cfg(test)]` (tests stand at the end), nothing of
/// a file that holds tests only.
fn code(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let tests_only = is_test_file(&source.path);
    source.text.lines().enumerate().map(|(i, line)| (i + 1, line)).take_while(move |(_, line)| !tests_only && line.trim() != "#[cfg(test)]")
}

fn is_rust(source: &Source) -> bool {
    source.path.ends_with(".rs")
}

fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[cfg(test)]
fn tree(files: &[(&str, &str)]) -> Vec<Source> {
    files.iter().map(|(path, text)| Source { path: (*path).into(), text: (*text).into() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_checkout_can_be_read_and_a_finding_names_file_line_and_rule() {
        let sources = read(paths::root()).expect("read");
        assert!(sources.iter().any(|s| s.path == "xtask/src/tidy.rs"));
        assert_eq!(Finding::new("a.rs", 3, "fence", "names diesel").to_string(), "a.rs:3: fence: names diesel");
    }

    #[test]
    fn test_code_is_not_code() {
        let sources = tree(&[("crates/a/src/b.rs", "one\n#[cfg(test)]\ntwo\n"), ("crates/a/src/b/tests.rs", "three\n")]);
        let seen: Vec<&str> = sources.iter().flat_map(code).map(|(_, line)| line).collect();
        assert_eq!(seen, ["one"]);
    }
}
