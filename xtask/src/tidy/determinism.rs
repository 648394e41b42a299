//! What the engine takes from outside comes through the seams of `model` (`simulation.rs`), and every choice has an order: else one seed of
//! the simulation does not replay everything.

use super::{Finding, Source, code, is_rust};

const RULE: &str = "determinism";

/// Where it matters.
const ENGINE: [&str; 2] = ["crates/conductor/src/", "crates/model/src/"];

/// What may not stand there, what to use, and the files that are the seam.
const WORDS: [(&str, &str, &[&str]); 6] = [
    ("rand::", "model::random", &["crates/model/src/random.rs", "crates/model/src/simulation.rs"]),
    ("new_v4(", "model::random::uuid", &[]),
    ("Utc::now", "model::time::now", &["crates/model/src/time.rs"]),
    ("SystemTime", "model::time::now", &[]),
    // The age of a pooled connection decides nothing but whether the database is asked if it lives.
    ("std::time::Instant", "tokio::time::Instant", &["crates/model/src/store/pool.rs"]),
    ("tokio::task::spawn_blocking", "model::blocking::run", &["crates/model/src/blocking.rs"]),
];

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|s| is_rust(s) && ENGINE.iter().any(|at| s.path.starts_with(at))) {
        let lines: Vec<(usize, &str)> =
            code(source).map(|(number, line)| (number, line.split("//").next().unwrap_or_default().trim())).collect();
        for (at, (number, line)) in lines.iter().enumerate() {
            let wide = line.replace("time::{Duration, Instant}", "time::Instant");
            for (word, instead, seams) in WORDS {
                if !seams.contains(&source.path.as_str()) && wide.contains(word) {
                    findings.push(Finding::new(&source.path, *number, RULE, format!("names {word}: use {instead}")));
                }
            }
            let next = lines[at + 1..].iter().map(|(_, line)| *line).find(|line| !line.is_empty());
            let is_engine = source.path.starts_with(ENGINE[0]);
            if is_engine && line.ends_with("select! {") && next != Some("biased;") {
                findings.push(Finding::new(&source.path, *number, RULE, "a select without `biased;`: say which comes first"));
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
    fn what_no_seed_decides_is_found_in_the_engine_only() {
        let findings = check(&tree(&[
            ("crates/conductor/src/a.rs", "let n = rand::random();\nuse std::time::{Duration, Instant};\n// Utc::now\n"),
            ("crates/model/src/b.rs", "let at = Utc::now();\n"),
            ("crates/model/src/time.rs", "let at = Utc::now();\n"),
            ("crates/api/src/c.rs", "let n = rand::random();\n"),
            ("crates/conductor/src/d.rs", "use tokio::time::{Duration as D, Instant};\n#[cfg(test)]\nlet n = rand::random();\n"),
        ]));
        let lines: Vec<(&str, Option<usize>)> = findings.iter().map(|f| (f.path.as_str(), f.line)).collect();
        let a = "crates/conductor/src/a.rs";
        assert_eq!(lines, [(a, Some(1)), (a, Some(2)), ("crates/model/src/b.rs", Some(1))]);
    }

    #[test]
    fn a_select_says_what_comes_first() {
        let select = |first: &str| format!("tokio::select! {{\n    // why\n    {first}\n    () = b => {{}}\n}}\n");
        let (good, bad) = (select("biased;"), select("() = a => {}"));
        let findings = check(&tree(&[("crates/conductor/src/a.rs", &good), ("crates/conductor/src/b.rs", &bad)]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "crates/conductor/src/b.rs");
    }
}
