//! Which crate may depend on which. The table is the picture in `docs/architecture.md`.

use super::{Finding, Source};

const RULE: &str = "layers";

/// Our crates, and which of ours each may name in its Cargo.toml. None: any.
const TABLE: &[(&str, Option<&[&str]>)] = &[
    ("crates/model", Some(&[])),
    ("crates/provider-clients", Some(&[])),
    ("crates/cloud-simulator", Some(&[])),
    ("crates/api", Some(&["model", "provider-clients"])),
    ("crates/conductor", Some(&["model", "provider-clients"])),
    ("crates/server", None),
    ("tests/fuzz", Some(&["api", "model", "server"])),
    ("tests", None),
    ("xtask", Some(&[])),
];

/// Crates from outside that have one home: name, homes, and where else tests may use them (dev-dependencies).
const HOMES: &[(&str, &[&str])] = &[
    ("diesel", &["crates/model"]),
    ("diesel-async", &["crates/model"]),
    ("diesel_migrations", &["crates/model"]),
    ("lapin", &["crates/model", "tests"]),
    ("reqwest", &["crates/provider-clients", "crates/server", "tests"]),
    ("actix-web", &["crates/api", "crates/cloud-simulator"]),
];

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let Some(package) = source.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        let Some((_, allowed)) = TABLE.iter().find(|(name, _)| *name == package) else {
            findings.push(Finding::new(&source.path, None, RULE, "this crate is not in the table of layers (xtask/src/tidy/layers.rs)"));
            continue;
        };
        for (line, name, dev) in dependencies(&source.text) {
            let ours = TABLE.iter().any(|(path, _)| path.rsplit('/').next() == Some(name));
            // A test of a client or a conductor may speak to the simulator: it knows none of them.
            let to_simulator = dev && name == "cloud-simulator" && package != "xtask";
            if ours && !to_simulator && allowed.is_some_and(|allowed| !allowed.contains(&name)) {
                findings.push(Finding::new(&source.path, line, RULE, format!("{package} must not depend on {name}")));
            }
            if let Some((_, homes)) = HOMES.iter().find(|(crate_name, _)| *crate_name == name)
                && !dev
                && !homes.contains(&package)
            {
                findings.push(Finding::new(&source.path, line, RULE, format!("{name} belongs to {} only", homes.join(", "))));
            }
        }
    }
    findings
}

/// (line, name, whether for tests only) of each dependency in a Cargo.toml.
fn dependencies(text: &str) -> Vec<(usize, &str, bool)> {
    let mut found = Vec::new();
    let mut section = "";
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = header;
            // [dependencies.name]
            if let Some((kind, name)) = header.rsplit_once('.').filter(|(kind, _)| kind.ends_with("dependencies")) {
                found.push((i + 1, name, kind.ends_with("dev-dependencies")));
            }
        } else if section.ends_with("dependencies")
            && section != "workspace.dependencies"
            && let Some((key, _)) = line.split_once('=')
        {
            let name = key.trim().split('.').next().unwrap_or_default();
            found.push((i + 1, name, section.ends_with("dev-dependencies")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_dependency_against_the_direction_is_found() {
        let findings = check(&tree(&[
            ("crates/api/Cargo.toml", "[dependencies]\nmodel.workspace = true\nconductor.workspace = true\n"),
            ("crates/model/Cargo.toml", "[dependencies.provider-clients]\nworkspace = true\n"),
            ("crates/server/Cargo.toml", "[dependencies]\napi.workspace = true\nconductor = { path = \"../conductor\" }\n"),
        ]));
        let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            all,
            [
                "crates/api/Cargo.toml:3: layers: crates/api must not depend on conductor",
                "crates/model/Cargo.toml:1: layers: crates/model must not depend on provider-clients",
            ]
        );
    }

    #[test]
    fn an_outside_crate_stays_in_its_home_but_tests_may_use_it() {
        let findings = check(&tree(&[
            ("crates/api/Cargo.toml", "[dependencies]\ndiesel.workspace = true\n[dev-dependencies]\nreqwest.workspace = true\n"),
            ("crates/conductor/Cargo.toml", "[dev-dependencies]\ncloud-simulator.workspace = true\n"),
        ]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, Some(2));
    }

    #[test]
    fn a_crate_that_the_table_does_not_know_is_found() {
        assert_eq!(check(&tree(&[("crates/new/Cargo.toml", "[package]\n")])).len(), 1);
        assert_eq!(check(&tree(&[("Cargo.toml", "[workspace.dependencies]\napi = { path = \"crates/api\" }\n")])).len(), 0);
    }
}
