use super::*;
use crate::identity::tests::caller;

fn target(project: &'static str, user: &'static str) -> Target<'static> {
    Target { project_id: Some(project), user_id: Some(user), trustee_domain_id: Some("trustees") }
}

fn with(policy: &Policy, roles: &[&str]) -> Caller {
    let mut found = caller("p1", "u1", roles);
    found.is_admin = policy.is_admin(&found);
    found
}

#[test]
fn default_rules_let_in_whom_the_contract_says() {
    let policy = Policy::default();
    let own = target("p1", "u1");
    let colleague = target("p1", "u2");
    let stranger = target("p2", "u2");
    // act, target, and who may: admin, member and reader, reader only, no role.
    let table: &[(Act, Target<'_>, [bool; 4])] = &[
        (Act::ClusterCreate, own, [true, true, false, false]),
        (Act::ClusterGet, own, [true, true, true, false]),
        (Act::ClusterGet, colleague, [true, true, true, false]),
        (Act::ClusterGet, stranger, [true, false, false, false]),
        (Act::ClusterDelete, colleague, [true, true, false, false]),
        (Act::ClusterDelete, stranger, [true, false, false, false]),
        (Act::ClusterGetAllEverywhere, own, [true, false, false, false]),
        (Act::TemplateUpdate, own, [true, true, false, false]),
        (Act::TemplatePublish, own, [true, false, false, false]),
        (Act::CertificateGet, own, [true, true, true, false]),
        (Act::CertificateGet, colleague, [true, false, false, false]),
        (Act::CertificateCreate, own, [true, true, false, false]),
        (Act::CertificateCreate, colleague, [true, false, false, false]),
        (Act::ServiceGetAll, own, [true, false, false, false]),
    ];
    let callers = [with(&policy, &["Admin"]), with(&policy, &["member", "reader"]), with(&policy, &["reader"]), with(&policy, &["other"])];
    for (act, target, expected) in table {
        let found: Vec<bool> = callers.iter().map(|c| policy.allow(c, *act, target).is_ok()).collect();
        assert_eq!(found, expected, "{} on {target:?}", act.as_str());
    }
}

#[test]
fn users_of_the_trustee_domain_are_refused_but_may_sign_certificates() {
    let policy = Policy::default();
    let mut node = with(&policy, &["member", "reader"]);
    node.user_domain_id = Some("trustees".into());
    assert!(policy.allow(&node, Act::ClusterGet, &target("p1", "u1")).is_err());
    assert!(policy.allow(&node, Act::CertificateCreate, &target("p1", "u1")).is_ok());
    let unknown = Target { trustee_domain_id: None, ..target("p1", "u1") };
    assert!(policy.allow(&node, Act::ClusterGet, &unknown).is_ok());
}

#[test]
fn the_language_is_oslos() {
    let caller = with(&Policy::default(), &["member"]);
    for (rule, expected) in [
        ("\"\"", true),
        ("\"@\"", true),
        ("\"!\"", false),
        ("\"not !\"", true),
        ("\"role:member and not role:admin\"", true),
        ("\"role:admin or (role:member and project_id:%(project_id)s)\"", true),
        ("\"(role:admin or role:member) and (not (role:x))\"", true),
        ("\"role:admin or role:x and role:member\"", false),
        ("\"'p1':%(project_id)s\"", true),
        ("\"'p2':%(project_id)s\"", false),
        ("\"user_id:%(nothing)s\"", false),
        ("\"is_admin:True\"", false),
        ("\"rule:unknown\"", false),
        ("\"rule:cluster:get_all\"", false),
        ("[]", true),
        ("[[\"role:admin\"], [\"role:member\", \"project_id:p1\"]]", true),
        ("[[\"role:member\", \"role:admin\"]]", false),
        ("[\"role:member\"]", true),
    ] {
        let policy = Policy::new(Some(&format!("\"cluster:get_all\": {rule}\n"))).expect(rule);
        assert_eq!(policy.allow(&caller, Act::ClusterGetAll, &target("p1", "u1")).is_ok(), expected, "{rule}");
    }
}

#[test]
fn a_rule_that_cannot_be_read_is_named() {
    for rule in ["role:a and", "(role:a", "role:a)", "word", "role:a role:b", "or role:a"] {
        let error = Policy::new(Some(&format!("{{\"cluster:get\": \"{rule}\"}}"))).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("cluster:get")), "{rule}");
    }
    assert!(Policy::new(Some("- a\n- b\n")).is_err());
    assert!(Policy::new(Some("# nothing but a comment\n")).is_ok());
}

#[test]
fn an_override_takes_the_place_of_its_default_only() {
    let policy = Policy::new(Some("\"cluster:get\": \"rule:admin_api\"\n")).expect("reads");
    let member = with(&policy, &["member", "reader"]);
    assert!(policy.allow(&member, Act::ClusterGet, &target("p1", "u1")).is_err());
    assert!(policy.allow(&member, Act::ClusterGetAll, &target("p1", "u1")).is_ok());
}
