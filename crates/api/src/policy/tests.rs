//! What upstream's own code decided (`upstream/`, written by `upstream/record.py`) is the measure; what is said here by hand is about files,
//! options and messages.

mod properties;
mod upstream;

use provider_clients::TokenInfo;

use super::*;
use crate::identity::tests::caller;
use crate::settings::Settings;

fn target(project: &'static str, user: &'static str) -> Target<'static> {
    Target { project_id: Some(project), user_id: Some(user), trustee_domain_id: Some("trustees"), object: None }
}

fn with(policy: &Policy, roles: &[&str]) -> Caller {
    let mut found = caller("p1", "u1", roles);
    found.is_admin = policy.is_admin(&found);
    found
}

fn files(texts: &[&str]) -> Vec<PolicyFile> {
    let name = |at| format!("file {at}");
    texts.iter().enumerate().map(|(at, text)| PolicyFile { name: name(at), text: (*text).to_owned() }).collect()
}

fn of(texts: &[&str]) -> Result<Policy, PolicyError> {
    Policy::new(PolicyOptions::default(), &files(texts))
}

fn allows(policy: &Policy, caller: &Caller, act: Act) -> bool {
    policy.allow(caller, act, &target("p1", "u1")).is_ok()
}

#[test]
fn users_of_the_trustee_domain_are_refused_but_may_sign_certificates() {
    let policy = Policy::default();
    let mut node = with(&policy, &["member", "reader"]);
    node.user_domain_id = Some("trustees".into());
    assert!(!allows(&policy, &node, Act::ClusterGet));
    assert!(allows(&policy, &node, Act::CertificateCreate));
    let unknown = Target { trustee_domain_id: None, ..target("p1", "u1") };
    assert!(policy.allow(&node, Act::ClusterGet, &unknown).is_ok());
}

#[test]
fn until_the_id_of_the_trustee_domain_is_known_its_users_are_refused_by_its_name() {
    let policy = Policy::default();
    let of_domain = |id: &str, name: &str| {
        let mut found = with(&policy, &["member", "reader"]);
        found.user_domain_id = Some(id.into());
        found.info = Arc::new(TokenInfo { user_domain_name: name.into(), ..(*found.info).clone() });
        found
    };
    let (node, person) = (of_domain("d1", "Trustees"), of_domain("d2", "users"));
    let may = |settings: &Settings, caller: &Caller| {
        let target = Target { trustee_domain_id: settings.trustee_domain(caller), ..target("p1", "u1") };
        policy.allow(caller, Act::ClusterGet, &target).is_ok()
    };
    let named = Settings { trustee_domain_name: Some("trustees".into()), ..Settings::default() };
    assert!(!may(&named, &node) && may(&named, &person));
    named.trustee_domain_id.get_or_init(|| "d1".into());
    assert!(!may(&named, &node) && may(&named, &person));
    // What Keystone says counts, whatever the domain is called.
    let known = Settings { trustee_domain_id: Arc::new("d2".to_owned().into()), ..named.clone() };
    assert!(may(&known, &node) && !may(&known, &person));
    assert!(may(&Settings::default(), &node));
}

#[test]
fn a_rule_may_ask_whether_an_admin_is_one_of_the_project_of_admins() {
    let narrow = of(&["\"context_is_admin\": \"role:admin and is_admin_project:True\"\n"]).expect("good files");
    let wide = Policy::default();
    for is_admin_project in [true, false] {
        let mut admin = caller("p2", "u2", &["admin"]);
        admin.info = Arc::new(TokenInfo { is_admin_project, ..(*admin.info).clone() });
        assert_eq!(narrow.is_admin(&admin), is_admin_project);
        assert_eq!(allows(&narrow, &admin, Act::ServiceGetAll), is_admin_project);
        // Nobody asks unless a rule does.
        assert!(wide.is_admin(&admin) && allows(&wide, &admin, Act::ServiceGetAll));
    }
}

#[test]
fn a_missing_project_is_nobodys() {
    let policy = Policy::default();
    let mut nowhere = with(&policy, &["member", "reader"]);
    nowhere.project_id = None;
    assert!(policy.allow(&nowhere, Act::ClusterGetAll, &Target { project_id: None, ..target("p1", "u1") }).is_err());
}

#[test]
fn tokens_of_another_scope_are_refused_where_the_rule_wants_a_project() {
    let of_scope = |system: bool, roles: &[&str]| {
        let mut found = caller("p1", "u1", roles);
        let mut info = (*found.info).clone();
        info.system_scope = system;
        info.domain_id = (!system).then(|| "users".into());
        found.info = Arc::new(info);
        found.is_admin = roles.contains(&"admin");
        found
    };
    let lax = Policy::new(PolicyOptions { enforce_scope: false, ..PolicyOptions::default() }, &[]).expect("defaults");
    for system in [true, false] {
        let admin = of_scope(system, &["admin"]);
        assert!(!allows(&Policy::default(), &admin, Act::ClusterGetAll));
        assert!(allows(&Policy::default(), &admin, Act::ServiceGetAll));
        assert!(allows(&lax, &admin, Act::ClusterGetAll));
        assert!(!allows(&lax, &of_scope(system, &["other"]), Act::ClusterGetAll));
    }
}

#[test]
fn a_rule_may_look_into_the_thing_and_into_the_token() {
    let template = crate::view::template::empty("a".into(), "p1".into(), "u1".into());
    let object = |rule: &str| {
        let policy = of(&[&format!("{{\"clustertemplate:get\": \"{rule}\"}}")]).expect(rule);
        let target = Target { object: Some(&template), ..target("p1", "u1") };
        policy.allow(&with(&policy, &["reader"]), Act::TemplateGet, &target).is_ok()
    };
    for (rule, expected) in [
        ("'a':%(uuid)s", true),
        ("True:%(public)s", false),
        ("False:%(public)s", true),
        ("None:%(http_proxy)s", true),
        ("'x':%(labels)s", false),
        ("not 'x':%(labels)s", true),
        ("auth_token_info.token.user.domain.id:users", true),
        ("auth_token_info.token.roles.name:reader", true),
        ("auth_token_info.token.domain.id:None", false),
        ("roles:reader", true),
        ("roles:Reader", false),
        ("system_scope:None", true),
    ] {
        assert_eq!(object(rule), expected, "{rule}");
    }
}

#[test]
fn files_are_yaml_or_json_and_the_later_one_counts() {
    let member = with(&Policy::default(), &["member", "reader"]);
    let closed = "{\"stats:get_all\": \"!\"}";
    let open = "# all\n\"stats:get_all\": \"@\"\n\"stats:get_all\": 'role:member' # the last of a name counts\n";
    for (texts, expected) in [
        (&[closed][..], false),
        (&[open], true),
        (&[closed, open], true),
        (&[open, closed], false),
        (&[open, ""], true),
        (&["stats:get_all: rule:mine\nmine: role:member\n"], true),
        (&["stats:get_all:\n- [role:admin]\n- [role:member, 'project_id:%(project_id)s']\n"], true),
        (&["# nothing but a comment\n"], true),
        (&["{}"], true),
    ] {
        assert_eq!(allows(&of(texts).expect("good files"), &member, Act::StatsGetAll), expected, "{texts:?}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    for rule in [
        "role:a and",
        "(role:a",
        "role:a)",
        "word",
        "role:a role:b",
        "or role:a",
        " ",
        ":x",
        "x y:z",
        "1a:b",
        "'a\\\\n':b",
        "01:b",
        "a..b:c",
        "role:%(x)d",
        "role:100%",
        "https://other/%(name)s",
        "rule:cluster:get",
        "rule:b",
        "not rule:not_defined",
    ] {
        let file =
            format!("{{\"cluster:get\": \"{rule}\", \"b\": \"not rule:c\", \"c\": \"@ and rule:b\", \"default\": \"rule:missing\"}}");
        let error = of(&[&file]).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.starts_with("file 0: rule "), "{rule}: {error}");
    }
    for file in [
        "- a\n- b\n",
        "text",
        "\"cluster:get\": 5",
        "\"cluster:get\": {}",
        "\"cluster:get\": !",
        "\"cluster:get\":",
        "a: [",
        "[5]",
        "\"a\": [5]",
        "\"a\": [[5]]",
    ] {
        let error = of(&["", file]).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.starts_with("file 1"), "{file}: {error}");
    }
    let circle = of(&["{\"a\": \"rule:b or @\", \"b\": \"not rule:a\"}"]).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(circle.contains("it leads in a circle: a -> b -> a"), "{circle}");
    let chain: String = (0..40).map(|at| format!("\"r{at}\": \"rule:r{}\"\n", at + 1)).collect();
    assert!(of(&[&chain]).is_err());
    let doubled: String = (0..20).map(|at| format!("\"r{at}\": \"rule:r{0} or rule:r{0}\"\n", at + 1)).collect();
    assert!(of(&[&doubled]).is_err());
    let nested = format!("\"a\": \"{}role:b{}\"", "(".repeat(70), ")".repeat(70));
    assert!(of(&[&nested]).is_err());
}

#[test]
fn what_an_operator_should_know_is_said() {
    let text =
        "\"cluster:gett\": \"@\"\n\"cluster:get\": \"rule:helper or rule:nowhere or usr_id:x\"\n\"helper\": \"@\"\n\"default\": \"!\"\n";
    let (_, warnings) = Rules::load(&PolicyOptions::default(), &files(&[text])).expect("good files");
    let expected = ["cluster:gett has no effect", "refers to nowhere", "asks for usr_id"];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, part) in warnings.iter().zip(expected) {
        assert!(warning.contains(part), "{warning}");
    }
    assert!(Rules::load(&PolicyOptions::default(), &[]).is_ok_and(|(_, warnings)| warnings.is_empty()));
}

#[test]
fn what_has_no_rule_is_decided_by_the_default_rule() {
    let member = with(&Policy::default(), &["member"]);
    let text = "\"default\": \"!\"\n\"mine\": \"role:member\"\n\"cluster:get\": \"rule:nowhere\"\n";
    let options = PolicyOptions { default_rule: "mine".into(), ..PolicyOptions::default() };
    assert!(allows(&Policy::new(options, &files(&[text])).expect("good files"), &member, Act::ClusterGet));
    assert!(!allows(&of(&[text]).expect("good files"), &member, Act::ClusterGet));
}

#[test]
fn an_operators_version_of_a_replaced_rule_takes_the_place_of_its_successors() {
    let text = "\"rule:admin_or_owner\": \"role:other\"\n";
    let policy = of(&[text]).expect("good files");
    assert!(allows(&policy, &with(&policy, &["other"]), Act::StatsGetAll));
    assert!(!allows(&policy, &with(&policy, &["reader"]), Act::StatsGetAll));
    let own = of(&[text, "\"admin_or_project_reader\": \"role:reader\"\n"]).expect("good files");
    assert!(allows(&own, &with(&own, &["reader"]), Act::StatsGetAll));
}

#[test]
fn a_new_policy_is_in_force_at_once_for_all_copies_and_a_bad_one_changes_nothing() {
    let policy = Policy::default();
    let copy = policy.clone();
    let member = with(&policy, &["member", "reader"]);
    policy.replace(&files(&["\"stats:get_all\": \"!\"\n"])).expect("good files");
    assert!(!allows(&copy, &member, Act::StatsGetAll));
    assert!(policy.replace(&files(&["\"stats:get_all\": \"(\"\n"])).is_err());
    assert!(!allows(&copy, &member, Act::StatsGetAll));
    policy.replace(&[]).expect("no files");
    assert!(allows(&copy, &member, Act::StatsGetAll));
}
