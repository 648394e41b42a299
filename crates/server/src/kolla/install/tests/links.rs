//! What a service that has been taken over may put in the way of who installs with root's rights.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

/// A container with a folder of the service, and what must stay as it is: files of mode 0600 that hold "untouched".
struct Trap {
    container: Container,
}

impl Trap {
    fn new() -> Self {
        let container = Container::new();
        container.put("/victim/file", "untouched");
        fs::set_permissions(container.places.at("/victim/file"), fs::Permissions::from_mode(0o600)).expect("chmod");
        container.put("/cfg/file", "ours");
        fs::create_dir_all(container.places.at("/home/me")).expect("make");
        Self { container }
    }

    /// A link at a path.
    fn link(&self, to: &str, at: &str) {
        symlink(self.container.places.at(to), self.container.places.at(at)).expect("link");
    }

    fn permit(&self, path: &str, mode: &str) -> Result<(), Trouble> {
        self.container.install(&json!({"command": "x", "permissions": [{"path": path, "owner": "me", "perm": mode, "recurse": true}]}))
    }

    fn held(&self, place: &str) -> Held {
        let (folder, name) = Held::find(&self.container.places, &self.container.places.at(place)).expect("a way").expect("something");
        folder.look(&name).expect("a look").expect("something")
    }

    fn is_untouched(&self) {
        assert_eq!(self.container.text("/victim/file").as_deref(), Some("untouched"));
        assert_eq!(self.container.mode("/victim/file"), 0o600);
        assert_eq!(fs::read_dir(self.container.places.at("/victim")).expect("list").count(), 1, "nothing came and nothing went");
    }
}

#[test]
fn a_link_in_the_place_of_a_file_gives_nothing_away() {
    let trap = Trap::new();
    trap.link("/victim/file", "/home/me/a.log");
    trap.permit("/home/me/*.log", "0666").expect("a link that a pattern finds stays as it is");
    trap.is_untouched();
    wrong(trap.permit("/home/me/a.log", "0666"), "/home/me/a.log is a link");
    trap.is_untouched();
}

#[test]
fn a_link_in_the_place_of_a_folder_is_no_way() {
    let trap = Trap::new();
    trap.link("/victim", "/home/me/in");
    let words = "/home/me/in is a link, which is not followed,";
    wrong(trap.permit("/home/me/in/file", "0666"), words);
    wrong(trap.permit("/home/me/in/*", "0666"), words);
    wrong(trap.container.install(&one("/cfg/file", "/home/me/in/file", json!({}))), words);
    wrong(trap.container.install(&one("/cfg/file", "/home/me/in/deep/new", json!({}))), words);
    wrong(trap.container.install(&json!({"command": "x", "directories": [{"path": "/home/me/in/new", "owner": "me"}]})), words);
    wrong(trap.container.check(&json!({"command": "x"})), "the command is");
    trap.is_untouched();
}

#[test]
fn what_is_taken_back_is_not_looked_for_behind_a_link() {
    let trap = Trap::new();
    let definition = one("/cfg/file", "/home/me/in/file", json!({}));
    trap.container.install(&definition).expect("installed");
    fs::remove_dir_all(trap.container.places.at("/home/me/in")).expect("remove");
    trap.link("/victim", "/home/me/in");
    wrong(trap.container.check(&definition), "/home/me/in is a link");
    wrong(trap.container.install(&json!({"command": "x"})), "/home/me/in is a link");
    trap.is_untouched();
}

#[test]
fn what_was_there_is_kept_as_the_link_that_it_was_and_not_as_a_copy() {
    let trap = Trap::new();
    trap.link("/victim/file", "/home/me/a");
    let is_link = |path: &str| fs::symlink_metadata(trap.container.places.at(path)).expect("facts").is_symlink();
    trap.container.install(&one("/cfg/file", "/home/me/a", json!({}))).expect("installed");
    assert_eq!(trap.container.text("/home/me/a").as_deref(), Some("ours"));
    assert!(is_link("/etc/kolla/defaults/home/me/a"));
    trap.container.install(&json!({"command": "x"})).expect("taken back");
    assert!(is_link("/home/me/a"));
    trap.is_untouched();
}

/// Another name of a file is no link that could be told by opening it.
#[test]
fn owner_and_mode_of_a_file_with_other_names_are_not_changed() {
    let trap = Trap::new();
    let at = |path: &str| trap.container.places.at(path);
    fs::hard_link(at("/victim/file"), at("/home/me/file")).expect("link");
    wrong(trap.permit("/home/me", "0666"), "/home/me/file has other names");
    wrong(trap.permit("/home/me/file", "0666"), "/home/me/file has other names");
    trap.is_untouched();
    // Nothing is asked of it, or it is replaced: then it stays what it is.
    trap.permit("/home/me/file", "0600").expect("nothing to change");
    trap.container.install(&one("/cfg/file", "/home/me/file", json!({"perm": "0640"}))).expect("installed");
    trap.is_untouched();
    trap.permit("/home/me", "0700").expect("it has one name now");
}

#[test]
fn what_is_open_stays_what_it_is_when_its_name_is_given_to_something_else() {
    let trap = Trap::new();
    trap.container.put("/home/me/in/file", "");
    let (folder, file) = (trap.held("/home/me/in"), trap.held("/home/me/in/file"));
    fs::rename(trap.container.places.at("/home/me/in"), trap.container.places.at("/home/me/out")).expect("rename");
    trap.link("/victim", "/home/me/in");
    file.settle(None, Some(0o640)).expect("settled");
    assert_eq!(trap.container.mode("/home/me/out/file"), 0o640);
    let inner = folder.look(OsStr::new("file")).expect("a look").expect("the file");
    inner.settle(None, Some(0o644)).expect("settled");
    folder.put(OsStr::new("new"), &mut &b"ours"[..], None, 0o600).expect("written");
    folder.remove(OsStr::new("file")).expect("removed");
    assert_eq!(folder.names().expect("names"), ["new"]);
    assert_eq!(trap.container.text("/home/me/out/new").as_deref(), Some("ours"));
    trap.is_untouched();
}

/// Who always exchanges a folder for a link gets nothing by it, whatever the moment.
#[test]
fn a_race_for_a_folder_is_not_won() {
    let trap = Trap::new();
    trap.container.put("/home/me/in/file", "");
    trap.link("/victim", "/home/trap");
    let (inside, outside) = (trap.container.places.at("/home/me/in"), trap.container.places.at("/home/trap"));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &inside, CWD, &outside, RenameFlags::EXCHANGE).expect("exchange");
            }
        });
        for _ in 0..500 {
            // Whether it is refused depends on the moment.
            let _ = trap.permit("/home/me", "0777");
            let _ = trap.permit("/home/me/in/*", "0777");
            let _ = trap.container.install(&one("/cfg/file", "/home/me/in/file", json!({"perm": "0666"})));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    trap.is_untouched();
}

#[test]
fn links_among_the_sources_lead_to_what_is_installed() {
    let trap = Trap::new();
    trap.container.put("/elsewhere/real", "real");
    fs::create_dir_all(trap.container.places.at("/cfg/d")).expect("make");
    trap.link("/elsewhere/real", "/cfg/link");
    trap.link("/elsewhere/real", "/cfg/d/link");
    for (source, dest, file) in [("/cfg/link", "/home/me/a", "/home/me/a"), ("/cfg/d", "/home/me/d", "/home/me/d/link")] {
        let definition = one(source, dest, json!({"perm": "0640"}));
        trap.container.install(&definition).expect("installed");
        assert_eq!(trap.container.text(file).as_deref(), Some("real"));
        assert!(!fs::symlink_metadata(trap.container.places.at(file)).expect("facts").is_symlink());
        trap.container.check(&definition).expect("as wanted");
    }
    let names = list(&trap.container.places.at("/home/me")).expect("names");
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{names:?}: nothing half is left");
}
