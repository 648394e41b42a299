//! Where in the code an outside crate, the environment and the file system may be named.

use super::{Finding, Source, code, is_rust};

const RULE: &str = "fence";

struct Fence {
    words: &'static [&'static str],
    /// Beginnings of the paths where the words may stand.
    inside: &'static [&'static str],
    what: &'static str,
}

const FENCES: &[Fence] = &[
    Fence {
        words: &["diesel", "diesel_async", "diesel_migrations"],
        inside: &["crates/model/"],
        what: "the database is spoken to in model only",
    },
    Fence {
        words: &["lapin"],
        inside: &["crates/model/src/queue/amqp", "tests/"],
        what: "the broker is spoken to in model/src/queue/amqp only",
    },
    Fence {
        words: &["reqwest"],
        inside: &["crates/provider-clients/", "crates/server/src/telemetry/", "tests/"],
        what: "HTTP is spoken in provider-clients only (and traces are sent by server)",
    },
    Fence { words: &["hyper"], inside: &["crates/server/src/metrics/", "tests/"], what: "only metrics are served without actix" },
    Fence {
        words: &["actix_web"],
        inside: &["crates/api/", "crates/cloud-simulator/"],
        what: "HTTP is served in api and cloud-simulator only",
    },
    Fence {
        words: &["std::env", "std::fs", "tokio::fs", "env::var", "env::var_os", "fs::read_to_string", "File::open"],
        inside: &["crates/server/", "xtask/", "tests/"],
        what: "environment and files are read in server only",
    },
];

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|s| is_rust(s)) {
        for fence in
            FENCES.iter().filter(|f| !f.inside.iter().any(|inside| source.path.starts_with(inside)) && !source.path.starts_with("xtask/"))
        {
            for (number, line) in code(source) {
                let line = line.split("//").next().unwrap_or_default();
                if let Some(word) = fence.words.iter().find(|word| names(line, word)) {
                    findings.push(Finding::new(&source.path, number, RULE, format!("names {word}: {}", fence.what)));
                }
            }
        }
    }
    findings
}

/// Whether a line of code uses this path: `word::`, `use word`, or a path that goes through it; not a longer name, not a string.
fn names(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = &line[at + word.len()..];
        let begins = before.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == '"' || c == '-'));
        let is_path = word.contains("::") && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_crate =
            !word.contains("::") && (after.starts_with("::") || (line.trim_start().starts_with("use ") && after.starts_with([';', ' '])));
        let quoted = line[..at].matches('"').count() % 2 == 1;
        begins && !quoted && (is_path || is_crate)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_name_outside_its_fence_is_found_with_its_line() {
        let findings = check(&tree(&[
            ("crates/api/src/a.rs", "// diesel:: in a comment\nuse diesel::prelude::*;\n"),
            ("crates/model/src/queue.rs", "fn f() { lapin::connect() }\n"),
            ("crates/model/src/queue/amqp.rs", "use lapin::Channel;\n"),
            ("crates/conductor/src/b.rs", "let v = std::env::var(\"X\");\nlet t = tokio::fs::read(p);\n"),
        ]));
        let lines: Vec<(&str, Option<usize>)> = findings.iter().map(|f| (f.path.as_str(), f.line)).collect();
        assert_eq!(
            lines,
            [
                ("crates/api/src/a.rs", Some(2)),
                ("crates/model/src/queue.rs", Some(1)),
                ("crates/conductor/src/b.rs", Some(1)),
                ("crates/conductor/src/b.rs", Some(2))
            ]
        );
    }

    #[test]
    fn a_longer_name_a_string_or_test_code_is_no_finding() {
        let findings = check(&tree(&[
            ("crates/api/src/a.rs", "let my_diesel = 1;\nlet s = \"diesel::x\";\nuse crate::lapin_like;\n"),
            ("crates/api/src/b.rs", "#[cfg(test)]\nuse std::fs;\n"),
            ("crates/server/src/c.rs", "use std::env;\n"),
        ]));
        assert_eq!(findings, []);
    }
}
