//! Nothing in the checkout may depend on the machine it was written on: no path of a workplace, no package host.

use super::{Finding, Source};

const RULE: &str = "no places";

/// Written in pieces, so that this file does not name them.
const WORDS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/home/", "user/"),
    concat!("py", "pi."),
    concat!("static.crates", ".io"),
    concat!("index.crates", ".io"),
];

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        for (i, line) in source.text.lines().enumerate() {
            if let Some(word) = WORDS.iter().find(|word| line.contains(**word)) {
                findings.push(Finding::new(&source.path, i + 1, RULE, format!("names {word}")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_path_of_a_workplace_is_found() {
        let bad = format!("see\n{}notes\n", WORDS[0]);
        let findings = check(&tree(&[("README.md", &bad), ("docs/a.md", "network and /workers/\n")]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, Some(2));
    }
}
