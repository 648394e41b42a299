//! The same questions that upstream's own code answered, and those that it has no answer to.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::policy::parser;

/// As `record.py` has them.
const ROLES: [&[&str]; 7] =
    [&[], &["reader"], &["member"], &["member", "reader"], &["admin"], &["Admin", "manager", "member", "reader"], &["other"]];
const OWNERS: [(&str, &str); 3] = [("p1", "u1"), ("p1", "u2"), ("p2", "u2")];
const DOMAINS: [&str; 2] = ["users", "trustees"];

#[test]
fn every_rule_decides_as_upstreams_does_for_every_role_owner_and_domain() {
    let mut names = BTreeSet::new();
    for line in include_str!("upstream/defaults.txt").lines().filter(|line| !line.starts_with('#')) {
        let [name, scope, new, old] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        names.insert(name);
        decides(name, scope, new, old);
    }
    let own: BTreeSet<&str> = defaults::OURS.iter().map(|act| act.as_str()).collect();
    assert!(own.is_disjoint(&names), "upstream has a rule of a name of ours");
    let ours: BTreeSet<&str> = defaults::all().map(|default| default.name).filter(|name| !own.contains(name)).collect();
    assert_eq!(ours, names);
}

/// What is said of rules that upstream does not have (differences.md), for `enforce_new_defaults` on and off. A column is a line of `ROLES`; in
/// it a digit for each owner, the caller first, then another user of the project, then another project's; each for a user and for one of a cluster.
#[rustfmt::skip]
const OURS: [(&[&str], &str, &str, &str); 3] = [
    // Members of the project, not the users of its clusters; formerly whoever is no cluster's user.
    (&["cluster:retry", "cluster:cancel"], "project",
        "000000 000000 101000 101000 111111 111111 000000",
        "101010 101010 101010 101010 111111 111111 101010"),
    // Readers of the project, the same.
    (&["operation:get", "operation:get_all", "event:get_all"], "project",
        "000000 101000 000000 101000 111111 111111 000000",
        "101010 101010 101010 101010 111111 111111 101010"),
    // Admins alone, with a token of any scope.
    (&["cluster:force_delete", "cluster:abandon", "cluster:transfer", "operation:get_one_all_projects", "operation:get_all_all_projects"], "any",
        "000000 000000 000000 000000 111111 111111 000000",
        "000000 000000 000000 000000 111111 111111 000000"),
];

#[test]
fn every_rule_of_ours_decides_as_it_is_documented_for_every_role_owner_and_domain() {
    let mut names = BTreeSet::new();
    for (of_these, scope, new, old) in OURS {
        for name in of_these {
            assert!(names.insert(*name), "{name} stands twice");
            decides(name, scope, &new.replace(' ', ""), &old.replace(' ', ""));
        }
    }
    assert_eq!(names, defaults::OURS.iter().map(|act| act.as_str()).collect());
}

/// Whether a rule decides so, with new defaults and with old ones, about all combinations.
fn decides(name: &str, scope: &str, new: &str, old: &str) {
    if let Some(act) = Act::ALL.iter().find(|act| act.as_str() == name) {
        assert_eq!(act.wants_project(), scope == "project", "{name}");
    }
    for (enforce_new_defaults, expected) in [(true, new), (false, old)] {
        let options = PolicyOptions { enforce_new_defaults, ..PolicyOptions::default() };
        let policy = Policy::new(options, &[]).expect("defaults");
        let mut expected = expected.chars();
        for (roles, owner, domain) in combinations() {
            let found = decision(&policy, name, roles, owner, domain);
            assert_eq!(Some(found), expected.next(), "{name} for {roles:?} of {domain} on {owner:?}, {enforce_new_defaults}");
        }
        assert_eq!(expected.next(), None, "{name}");
    }
}

/// Whether a rule holds, as a digit.
fn decision(policy: &Policy, name: &str, roles: &[&str], owner: (&'static str, &'static str), domain: &str) -> char {
    let mut caller = with(policy, roles);
    caller.user_domain_id = Some(domain.into());
    if policy.holds(&caller, name, &target(owner.0, owner.1)) { '1' } else { '0' }
}

/// A whole policy file, and what follows from it: for rules by their names a digit for each combination, with new defaults and with old ones.
#[derive(Deserialize)]
struct Whole {
    file: BTreeMap<String, Value>,
    new: BTreeMap<String, String>,
    old: BTreeMap<String, String>,
}

impl Whole {
    /// Those of a recording, whose first line says what made it.
    fn all(recorded: &'static str) -> Vec<Self> {
        recorded.lines().skip(1).map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The rules that are decided otherwise here.
    fn differences(&self) -> Vec<String> {
        let text = serde_json::to_string(&self.file).expect("json");
        let mut found = Vec::new();
        for (enforce_new_defaults, decided) in [(true, &self.new), (false, &self.old)] {
            let options = PolicyOptions { enforce_new_defaults, ..PolicyOptions::default() };
            let policy = Policy::new(options, &files(&[&text])).expect(&text);
            for (name, expected) in decided {
                let ours: String = combinations().map(|(roles, owner, domain)| decision(&policy, name, roles, owner, domain)).collect();
                if ours != *expected {
                    found.push(format!("{name}, new defaults {enforce_new_defaults}: {ours}, and upstream {expected}"));
                }
            }
        }
        found
    }

    /// Whether it has a rule that others replaced, and has it as it was.
    fn repeats_a_replaced_rule(&self) -> bool {
        defaults::all().filter_map(|default| default.before).any(|before| {
            let theirs = self.file.get(before.name).map(|value| parser::parse(value).expect("a rule"));
            theirs == Some(parser::parse_text(before.text).expect("a rule"))
        })
    }
}

#[test]
fn whole_files_that_override_base_rules_decide_as_upstream_does() {
    let all = Whole::all(include_str!("upstream/files.jsonl"));
    assert!(all.len() > 40, "only {}", all.len());
    for whole in &all {
        assert_eq!(whole.differences(), Vec::<String>::new(), "{:?}", whole.file);
    }
    // Files of every kind are among them, and decide one way or another.
    let replaced = |whole: &&Whole| whole.file.keys().any(|name| defaults::is_deprecated(name));
    let repeating = |whole: &&Whole| whole.repeats_a_replaced_rule();
    assert!(all.iter().filter(replaced).count() > 20 && all.iter().filter(repeating).count() > 8);
    let decisions: BTreeSet<&String> = all.iter().flat_map(|whole| whole.new.values()).collect();
    assert!(decisions.len() > 15, "{decisions:?}");
}

#[test]
fn upstream_decided_otherwise_formerly_where_a_file_repeats_a_replaced_rule_and_nowhere_else() {
    let formerly = Whole::all(include_str!("upstream/files-formerly.jsonl"));
    assert!(!formerly.is_empty());
    for whole in &formerly {
        assert!(whole.repeats_a_replaced_rule(), "{:?}", whole.file);
        // What older releases let everybody of the project do, only his roles let him do.
        assert!(!whole.differences().is_empty(), "{:?}", whole.file);
    }
    let files: Vec<_> = formerly.iter().map(|whole| &whole.file).collect();
    let repeating = Whole::all(include_str!("upstream/files.jsonl")).into_iter().filter(Whole::repeats_a_replaced_rule);
    for whole in repeating {
        assert!(files.contains(&&whole.file), "{:?} was decided the same", whole.file);
    }
}

fn combinations() -> impl Iterator<Item = (&'static [&'static str], (&'static str, &'static str), &'static str)> {
    ROLES
        .into_iter()
        .flat_map(|roles| OWNERS.into_iter().flat_map(move |owner| DOMAINS.into_iter().map(move |domain| (roles, owner, domain))))
}

#[derive(Deserialize)]
struct Setting {
    callers: Vec<BTreeMap<String, Value>>,
    targets: Vec<BTreeMap<String, Value>>,
    rules: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Case {
    rule: Value,
    /// For each caller and target: 1 holds, 0 does not, x upstream failed.
    decided: String,
    /// Upstream wrote into its log that it does not understand, or failed.
    doubtful: bool,
}

struct Thing(BTreeMap<String, Value>);

impl Thing {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }
}

impl Attributes for Thing {
    fn owner_project(&self) -> Option<&str> {
        self.text("project_id")
    }

    fn owner_user(&self) -> Option<&str> {
        self.text("user_id")
    }

    fn attribute(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(match self.0.get(name)? {
            Value::Bool(value) => Cow::Borrowed(if *value { "True" } else { "False" }),
            Value::String(text) => Cow::Borrowed(text),
            other => Cow::Owned(other.to_string()),
        })
    }
}

fn made(creds: BTreeMap<String, Value>) -> Caller {
    let creds = Thing(creds);
    let text = |name: &str| creds.text(name).map(str::to_owned);
    let roles: Vec<&str> = creds.0["roles"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let mut found = caller(creds.text("project_id").expect("a project"), creds.text("user_id").expect("a user"), &roles);
    found.user_name = text("user_name").expect("a name");
    found.project_name = text("project_name");
    found.user_domain_id = text("user_domain_id");
    found.is_admin = creds.0["is_admin"] == Value::Bool(true);
    let mut info = (*found.info).clone();
    info.trust_id = text("trust_id");
    found.info = Arc::new(info);
    found
}

#[test]
fn expressions_mean_what_they_mean_upstream() {
    let mut lines = include_str!("upstream/language.jsonl").lines();
    let setting: Setting = serde_json::from_str(lines.next().expect("a first line")).expect("a setting");
    let callers: Vec<Caller> = setting.callers.into_iter().map(made).collect();
    let things: Vec<Thing> = setting.targets.into_iter().map(Thing).collect();
    let (mut refused, mut decided) = (0, 0);
    for line in lines {
        let case: Case = serde_json::from_str(line).expect(line);
        // What upstream only logs, or fails on in every request, is refused when the file is read.
        if case.doubtful {
            refused += 1;
            assert!(parser::parse(&case.rule).is_err(), "{line}");
            continue;
        }
        let mut rules: BTreeMap<&str, Value> = setting.rules.iter().map(|(k, v)| (k.as_str(), Value::String(v.clone()))).collect();
        rules.insert("it", case.rule.clone());
        let policy = of(&[&serde_json::to_string(&rules).expect("json")]).expect(line);
        let mut found = String::new();
        for caller in &callers {
            for thing in &things {
                let target = Target {
                    project_id: thing.owner_project(),
                    user_id: thing.owner_user(),
                    trustee_domain_id: thing.text("trustee_domain_id"),
                    object: Some(thing),
                };
                found.push(if policy.holds(caller, "it", &target) { '1' } else { '0' });
            }
        }
        assert_eq!(found, case.decided, "{}", case.rule);
        decided += 1;
    }
    assert!(refused > 100 && decided > 700, "{refused} refused, {decided} decided");
}
