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
            let mut caller = with(&policy, roles);
            caller.user_domain_id = Some(domain.into());
            let target = target(owner.0, owner.1);
            let found = if policy.holds(&caller, name, &target) { '1' } else { '0' };
            assert_eq!(Some(found), expected.next(), "{name} for {roles:?} of {domain} on {owner:?}, {enforce_new_defaults}");
        }
        assert_eq!(expected.next(), None, "{name}");
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
