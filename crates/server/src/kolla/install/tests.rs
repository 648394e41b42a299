//! Installing and checking, in a folder that stands for the container's root.

mod links;

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::check::check;
use super::super::{Definition, Places, Trouble};
use super::*;

/// A container's root in which the user `me` is whoever runs the test.
struct Container {
    _root: TempDir,
    places: Places,
}

impl Container {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let places = Places::under(root.path());
        let facts = fs::metadata(root.path()).expect("facts");
        let this = Self { _root: root, places };
        this.put("/etc/passwd", &format!("root:x:0:0::/:/bin/sh\nme:x:{}:{}::/:/bin/sh\n", facts.uid(), facts.gid()));
        this.put("/etc/group", &format!("root:x:0:\nme:x:{}:\nstaff:x:{}:\n", facts.gid(), facts.gid()));
        this
    }

    fn put(&self, path: &str, text: &str) {
        let place = self.places.at(path);
        fs::create_dir_all(place.parent().expect("a parent")).expect("make the folder");
        fs::write(place, text).expect("write");
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.places.at(path)).ok()
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.places.at(path)).expect("facts").mode() & 0o7777
    }

    fn install(&self, definition: &Value) -> Result<(), Trouble> {
        set_configs(&self.places, &parsed(definition), Some("COPY_ALWAYS".to_owned()))
    }

    fn check(&self, definition: &Value) -> Result<(), Trouble> {
        check(&self.places, &parsed(definition))
    }
}

fn parsed(definition: &Value) -> Definition {
    Definition::parse(&definition.to_string(), "config.json").expect("a good definition")
}

fn one(source: &str, dest: &str, more: Value) -> Value {
    let mut entry = json!({"source": source, "dest": dest, "owner": "me", "perm": "0600"});
    entry.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({"command": "magnum-api --config-file /etc/magnum/magnum.conf", "config_files": [entry]})
}

fn wrong(seen: Result<(), Trouble>, words: &str) {
    match seen {
        Err(Trouble::Wrong(said)) => assert!(said.contains(words), "{said}"),
        other => panic!("{words}: {other:?}"),
    }
}

#[test]
fn a_file_is_installed_with_its_owner_and_mode_and_the_command_is_written() {
    let container = Container::new();
    container.put("/cfg/magnum.conf", "[DEFAULT]\n");
    let definition = one("/cfg/magnum.conf", "/etc/magnum/magnum.conf", json!({}));
    container.install(&definition).expect("installed");
    assert_eq!(container.text("/etc/magnum/magnum.conf").as_deref(), Some("[DEFAULT]\n"));
    assert_eq!(container.mode("/etc/magnum/magnum.conf"), 0o600);
    assert_eq!(container.text("/run_command").as_deref(), definition["command"].as_str());
    assert_eq!(container.mode("/run_command"), 0o644);
    container.check(&definition).expect("as wanted");
    // Again, as at each start of the container.
    container.install(&definition).expect("installed again");
    container.check(&definition).expect("still as wanted");
}

#[test]
fn check_finds_each_difference_and_changes_nothing() {
    let container = Container::new();
    container.put("/cfg/a", "one");
    let definition = one("/cfg/a", "/etc/a", json!({}));
    wrong(container.check(&definition), "the command is");
    container.install(&definition).expect("installed");

    container.put("/cfg/a", "two");
    wrong(container.check(&definition), "differs from its source");
    assert_eq!(container.text("/etc/a").as_deref(), Some("one"));
    container.install(&definition).expect("installed");

    fs::set_permissions(container.places.at("/etc/a"), fs::Permissions::from_mode(0o640)).expect("chmod");
    wrong(container.check(&definition), "has the mode 0640, wanted is 0600");
    container.install(&definition).expect("installed");

    fs::remove_file(container.places.at("/etc/a")).expect("remove");
    wrong(container.check(&definition), "/etc/a is missing");
    container.install(&definition).expect("installed");

    let mut other = definition.clone();
    other["command"] = json!("magnum-api");
    wrong(container.check(&other), "the command is");
    let fewer = json!({"command": definition["command"]});
    wrong(container.check(&fewer), "not listed any more");
    container.check(&definition).expect("nothing was changed");
}

#[test]
fn what_is_not_there_is_an_error_unless_it_is_optional() {
    let container = Container::new();
    wrong(container.install(&one("/cfg/none", "/etc/a", json!({}))), "/cfg/none does not exist");
    let optional = one("/cfg/none", "/etc/a", json!({"optional": true}));
    container.install(&optional).expect("nothing to do");
    assert!(container.text("/etc/a").is_none());
    container.check(&optional).expect("nothing is wanted");
    container.put("/cfg/none", "now");
    wrong(container.check(&optional), "/etc/a is missing");
}

#[test]
fn patterns_go_into_a_folder_and_hidden_files_need_their_dot() {
    let container = Container::new();
    for name in ["a.crt", "b.crt", "c.pem", ".d.crt"] {
        container.put(&format!("/cfg/{name}"), name);
    }
    container.install(&one("/cfg/*.crt", "/certs/", json!({}))).expect("installed");
    assert_eq!(container.text("/certs/a.crt").as_deref(), Some("a.crt"));
    assert_eq!(container.text("/certs/b.crt").as_deref(), Some("b.crt"));
    assert!(container.text("/certs/c.pem").is_none() && container.text("/certs/.d.crt").is_none());
}

#[test]
fn a_folder_replaces_what_is_there_unless_it_is_merged() {
    for (merge, stays) in [(false, false), (true, true)] {
        let container = Container::new();
        container.put("/cfg/d/in/new", "new");
        container.put("/etc/d/old", "old");
        container.put("/etc/d/in/new", "before");
        let definition = one("/cfg/d", "/etc/d", json!({"merge": merge, "perm": "0640"}));
        container.install(&definition).expect("installed");
        assert_eq!(container.text("/etc/d/in/new").as_deref(), Some("new"));
        assert_eq!(container.text("/etc/d/old").is_some(), stays);
        assert_eq!((container.mode("/etc/d/in"), container.mode("/etc/d/in/new")), (0o750, 0o640), "folders can be walked through");
        container.check(&definition).expect("as wanted");
    }
}

#[test]
fn what_is_excluded_is_not_installed() {
    let container = Container::new();
    container.put("/cfg/d/keep", "1");
    container.put("/cfg/d/skip.bak", "2");
    let definition = one("/cfg/d", "/etc/d", json!({"exclude": [r"\.bak$"]}));
    container.install(&definition).expect("installed");
    assert!(container.text("/etc/d/keep").is_some() && container.text("/etc/d/skip.bak").is_none());
    container.check(&definition).expect("as wanted");
}

#[test]
fn preserved_properties_are_the_sources() {
    let container = Container::new();
    container.put("/cfg/tool", "#!/bin/sh\n");
    fs::set_permissions(container.places.at("/cfg/tool"), fs::Permissions::from_mode(0o751)).expect("chmod");
    let definition = json!({"command": "x", "config_files": [{"source": "/cfg/tool", "dest": "/bin/tool", "preserve_properties": true}]});
    container.install(&definition).expect("installed");
    assert_eq!(container.mode("/bin/tool"), 0o751);
    container.check(&definition).expect("as wanted");
    fs::set_permissions(container.places.at("/cfg/tool"), fs::Permissions::from_mode(0o700)).expect("chmod");
    wrong(container.check(&definition), "has the mode 0751");
}

#[test]
fn what_is_listed_no_more_goes_and_what_was_there_before_comes_back() {
    let container = Container::new();
    container.put("/cfg/a", "ours");
    container.put("/cfg/b", "ours");
    container.put("/etc/a", "the image's");
    fs::set_permissions(container.places.at("/etc/a"), fs::Permissions::from_mode(0o604)).expect("chmod");
    let entry = |name: &str| json!({"source": format!("/cfg/{name}"), "dest": format!("/etc/{name}"), "owner": "me", "perm": "0600"});
    let both = json!({"command": "x", "config_files": [entry("a"), entry("b")]});
    container.install(&both).expect("installed");
    container.install(&both).expect("installed again: what was kept is still the image's");
    assert_eq!(container.text("/etc/a").as_deref(), Some("ours"));
    container.install(&json!({"command": "x"})).expect("taken back");
    assert_eq!(container.text("/etc/a").as_deref(), Some("the image's"));
    assert_eq!(container.mode("/etc/a"), 0o604);
    assert!(container.text("/etc/b").is_none());
    container.check(&json!({"command": "x"})).expect("as wanted");
}

#[test]
fn a_link_is_replaced_and_never_written_through() {
    let container = Container::new();
    container.put("/cfg/a", "ours");
    container.put("/victim", "untouched");
    fs::create_dir_all(container.places.at("/home")).expect("make");
    symlink(container.places.at("/victim"), container.places.at("/home/a")).expect("link");
    container.install(&one("/cfg/a", "/home/a", json!({"merge": true}))).expect("installed");
    assert_eq!(container.text("/victim").as_deref(), Some("untouched"));
    assert_eq!(container.text("/home/a").as_deref(), Some("ours"));
}

#[test]
fn folders_are_made_and_permissions_reach_what_is_in_them_but_not_what_is_excluded() {
    let container = Container::new();
    for name in ["a.log", "deep/b.log", "deep/secret.key"] {
        container.put(&format!("/var/log/kolla/magnum/{name}"), "");
    }
    let key = container.mode("/var/log/kolla/magnum/deep/secret.key");
    symlink(container.places.at("/etc/passwd"), container.places.at("/var/log/kolla/magnum/link")).expect("link");
    let passwd = container.mode("/etc/passwd");
    let definition = json!({"command": "x",
        "directories": [{"path": "/var/log/kolla/other", "owner": "me:staff", "mode": "2775"}],
        "permissions": [
            {"path": "/var/log/kolla/magnum", "owner": "me:staff", "perm": "0770", "recurse": true, "exclude": [r"secret"]},
            {"path": "/var/log/kolla/magnum/*.log", "owner": "me", "perm": "0664"}]});
    container.install(&definition).expect("installed");
    assert_eq!(container.mode("/var/log/kolla/other"), 0o2775);
    assert_eq!(container.mode("/var/log/kolla/magnum"), 0o770);
    assert_eq!(container.mode("/var/log/kolla/magnum/deep/b.log"), 0o770);
    assert_eq!(container.mode("/var/log/kolla/magnum/a.log"), 0o664);
    assert_eq!(container.mode("/var/log/kolla/magnum/deep/secret.key"), key);
    assert_eq!(container.mode("/etc/passwd"), passwd, "a link in a folder is not followed");
}

#[test]
fn copy_once_copies_once_and_other_strategies_are_refused() {
    let container = Container::new();
    container.put("/cfg/a", "one");
    let definition = parsed(&one("/cfg/a", "/etc/a", json!({})));
    let with = |strategy: Option<&str>| set_configs(&container.places, &definition, strategy.map(str::to_owned));
    wrong(with(None), "KOLLA_CONFIG_STRATEGY is not set");
    wrong(with(Some("SOMETIMES")), "must be COPY_ALWAYS or COPY_ONCE");
    with(Some("COPY_ONCE")).expect("the first time");
    container.put("/cfg/a", "two");
    with(Some("COPY_ONCE")).expect("the second time is no error");
    assert_eq!(container.text("/etc/a").as_deref(), Some("one"));
    with(Some("COPY_ALWAYS")).expect("always");
    assert_eq!(container.text("/etc/a").as_deref(), Some("two"));
}

#[test]
fn a_definition_that_breaks_a_rule_is_refused_with_the_rule() {
    for (definition, words) in [
        (json!({"config_files": []}), "command"),
        (json!({"command": " "}), "command is empty"),
        (json!({"command": "x", "config_files": [{"source": "/a", "dest": "/b"}]}), "needs owner and perm"),
        (json!({"command": "x", "config_files": [{"source": "/a", "owner": "me", "perm": "0600"}]}), "dest"),
        (json!({"command": "x", "config_files": [{"source": "a", "dest": "/b", "owner": "me", "perm": "0600"}]}), "must be absolute"),
        (json!({"command": "x", "config_files": [{"source": "/a", "dest": "/b/../c", "owner": "me", "perm": "0600"}]}), "without .."),
        (json!({"command": "x", "config_files": [{"source": "/a", "dest": "/b", "owner": "me", "perm": "rw-r--r--"}]}), "no mode"),
        (json!({"command": "x", "permissions": [{"path": "/a", "owner": "me", "exclude": ["("]}]}), "unclosed group"),
        (json!({"command": "x", "permissions": [{"path": "/a"}]}), "needs an owner"),
    ] {
        wrong(Definition::parse(&definition.to_string(), "config.json").map(drop), words);
    }
    wrong(Definition::parse("{", "config.json").map(drop), "config.json: ");
    let container = Container::new();
    container.put("/cfg/a", "");
    let mut stranger = one("/cfg/a", "/etc/a", json!({}));
    stranger["config_files"][0]["owner"] = json!("nobody-knows-me");
    wrong(container.install(&stranger), "is not in /etc/passwd");
}

#[test]
fn authorities_are_added_to_those_of_the_image_and_can_be_taken_back() {
    let container = Container::new();
    let pem = |name: &str| format!("# {name}\n-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----");
    container.put("/usr/share/ca-certificates/shipped.crt", &pem("shipped"));
    container.put("/etc/ssl/certs/ca-certificates.crt", &pem("shipped"));
    let copy = || super::super::authorities::copy(&container.places);
    copy().expect("nothing was given");
    container.put("/var/lib/kolla/share/ca-certificates/root.crt", &pem("own"));
    for _ in 0..2 {
        copy().expect("added");
        let bundle = container.text("/etc/ssl/certs/ca-certificates.crt").expect("a bundle");
        assert_eq!(bundle.matches("BEGIN CERTIFICATE").count(), 2, "{bundle}");
        assert!(bundle.contains("-----\n# own\n"), "{bundle}");
    }
    container.put("/var/lib/kolla/share/ca-certificates/root.crt", "a key perhaps");
    wrong(copy(), "holds no certificate");
    fs::remove_file(container.places.at("/var/lib/kolla/share/ca-certificates/root.crt")).expect("remove");
    copy().expect("taken back");
    assert_eq!(container.text("/etc/ssl/certs/ca-certificates.crt").expect("a bundle").matches("BEGIN").count(), 1);
}

#[test]
fn exit_codes_are_kollas() {
    let as_code = |trouble: Trouble| format!("{:?}", trouble.code());
    assert_eq!(as_code(Trouble::Wrong(String::new())), format!("{:?}", std::process::ExitCode::from(1)));
    let failed = Trouble::Failed { what: String::new(), error: std::io::Error::other("disk") };
    assert_eq!(as_code(failed), format!("{:?}", std::process::ExitCode::from(2)));
    // Whoever asks as root, or as himself, is lent nothing.
    assert!(!Places::system().is_set_user_id().expect("a status"));
}
