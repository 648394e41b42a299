//! Migrations are twins: every step exists for MariaDB and for SQLite under the same name, and can be undone.

use std::collections::BTreeSet;

use super::{Finding, Source};

const RULE: &str = "migration twins";
const SIDES: [&str; 2] = ["migrations/mysql", "migrations/sqlite"];

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let below = |side: &str| -> BTreeSet<&str> {
        sources.iter().filter_map(|s| s.path.strip_prefix(side)?.strip_prefix('/')).filter(|rest| !rest.starts_with('.')).collect()
    };
    let files = SIDES.map(below);
    let steps: BTreeSet<&str> = files.iter().flatten().filter_map(|path| path.split_once('/').map(|(step, _)| step)).collect();
    let mut findings = Vec::new();
    for (side, files) in SIDES.iter().zip(&files) {
        for step in &steps {
            for file in ["up.sql", "down.sql"] {
                let path = format!("{step}/{file}");
                if !files.contains(path.as_str()) {
                    findings.push(Finding::new(format!("{side}/{path}"), None, RULE, "is missing"));
                }
            }
        }
        for path in files.iter().filter(|path| !path.contains('/')) {
            findings.push(Finding::new(format!("{side}/{path}"), None, RULE, "is not in a folder of a step"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_missing_twin_and_a_missing_way_back_are_found() {
        let findings = check(&tree(&[
            ("migrations/mysql/1_first/up.sql", ""),
            ("migrations/mysql/1_first/down.sql", ""),
            ("migrations/sqlite/1_first/up.sql", ""),
            ("migrations/mysql/2_second/up.sql", ""),
            ("migrations/mysql/2_second/down.sql", ""),
        ]));
        let paths: Vec<&str> = findings.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(
            paths,
            ["migrations/sqlite/1_first/down.sql", "migrations/sqlite/2_second/up.sql", "migrations/sqlite/2_second/down.sql"]
        );
    }
}
