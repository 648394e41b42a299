//! Files small enough to be read at once, under names that say what they hold.

use super::{Finding, Source, code, is_rust, is_test_file};

const RULE: &str = "size";
const CODE: usize = 400;
const WITH_TESTS: usize = 600;

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|s| is_rust(s)) {
        if source.path.ends_with("/mod.rs") {
            findings.push(Finding::new(&source.path, None, "no mod.rs", "foo.rs stands beside foo/"));
        }
        let all = source.text.lines().count();
        let code = code(source).count();
        if code > CODE && !is_test_file(&source.path) {
            findings.push(Finding::new(&source.path, None, RULE, format!("{code} lines of code; more than {CODE} ask to be two files")));
        } else if all > WITH_TESTS {
            findings.push(Finding::new(
                &source.path,
                None,
                RULE,
                format!("{all} lines; more than {WITH_TESTS} with tests ask to be two files"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_long_file_and_a_mod_rs_are_found_and_tests_may_be_longer() {
        let long = "x\n".repeat(401);
        let tested = format!("{}#[cfg(test)]\n{}", "x\n".repeat(300), "y\n".repeat(299));
        let findings = check(&tree(&[
            ("crates/a/src/long.rs", &long),
            ("crates/a/src/long/tests.rs", &long),
            ("crates/a/src/tested.rs", &tested),
            ("crates/a/src/b/mod.rs", ""),
            ("tests/src/huge.rs", &"x\n".repeat(601)),
            ("docs/long.md", &long),
        ]));
        let paths: Vec<&str> = findings.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/src/long.rs", "crates/a/src/b/mod.rs", "tests/src/huge.rs"]);
    }
}
