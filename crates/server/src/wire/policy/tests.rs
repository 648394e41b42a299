use std::path::Path;

use super::*;
use crate::config::Cli;

struct Place {
    directory: tempfile::TempDir,
    watch: Watch,
}

fn load(directory: &Path) -> anyhow::Result<(Policy, Watch)> {
    let cli = Cli { config_file: vec![directory.join("magnum.conf")], config_dir: Vec::new() };
    policy(&Config::load(&cli, "magnum-none").expect("a configuration"))
}

impl Place {
    fn new(conf: &str, files: &[(&str, &str)]) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("policy.d")).expect("a directory");
        for (name, text) in [("magnum.conf", conf)].iter().chain(files) {
            fs::write(directory.path().join(name), text).expect("written");
        }
        let (_, watch) = load(directory.path())?;
        Ok(Self { directory, watch })
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).expect("written");
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.directory.path().join(name)).expect("removed");
    }

    /// Whether other rules are in force after each of the next looks.
    fn looks<const N: usize>(&mut self) -> [bool; N] {
        std::array::from_fn(|_| self.watch.look())
    }

    fn files(&self) -> Vec<String> {
        let seen = self.watch.files.look().expect("a look");
        seen.0.iter().map(|s| s.path.strip_prefix(self.directory.path()).expect("below").display().to_string()).collect()
    }
}

const OPEN: &str = "\"stats:get_all\": \"@\"\n";

#[test]
fn files_count_in_the_order_of_upstream() {
    let files = [("policy.json", "{}"), ("policy.yaml", OPEN), ("policy.d/b", OPEN), ("policy.d/a.yaml", OPEN), ("policy.d/.hidden", "]")];
    let place = Place::new("[DEFAULT]\n", &files).expect("good files");
    assert_eq!(place.files(), ["policy.yaml", "policy.d/a.yaml", "policy.d/b"]);
    place.remove("policy.yaml");
    assert_eq!(place.files(), ["policy.json", "policy.d/a.yaml", "policy.d/b"]);
    let named = Place::new(
        "[oslo_policy]\npolicy_file = mine\npolicy_dirs = none\npolicy_dirs = policy.d\n",
        &[("mine", OPEN), files[0], files[2]],
    );
    assert_eq!(named.expect("good files").files(), ["mine", "policy.d/b"]);
}

#[test]
fn a_change_is_in_force_once_it_has_settled() {
    let mut place = Place::new("[DEFAULT]\n", &[]).expect("no files");
    assert_eq!(place.looks(), [false, false]);
    place.write("policy.yaml", OPEN);
    assert_eq!(place.looks(), [false, true, false]);
    place.write("policy.d/more.yaml", OPEN);
    assert_eq!(place.looks(), [false, true, false]);
    place.remove("policy.d/more.yaml");
    assert_eq!(place.looks(), [false, true, false]);
    // An editor at work: nothing counts until two looks agree.
    place.write("policy.yaml", "");
    assert_eq!(place.looks(), [false]);
    place.write("policy.yaml", "\"stats:get_all\": \"!\"\n");
    assert_eq!(place.looks(), [false, true, false]);
}

#[test]
fn a_bad_file_changes_nothing_and_stops_a_start() {
    let mut place = Place::new("[DEFAULT]\n", &[("policy.yaml", OPEN)]).expect("a good file");
    place.write("policy.yaml", "\"stats:get_all\": \"role:admin and\"\n");
    assert_eq!(place.looks(), [false, false, false]);
    place.write("policy.yaml", OPEN);
    assert_eq!(place.looks(), [false, true, false]);

    let refused = |conf: &str, files: &[(&str, &str)]| match Place::new(conf, files) {
        Ok(_) => panic!("{files:?} was taken"),
        Err(error) => format!("{error:#}"),
    };
    let message = refused("[DEFAULT]\n", &[("policy.d/x.yaml", "\"cluster:get\": \"role:admin and\"\n")]);
    assert!(message.contains("policy.d/x.yaml: rule cluster:get:"), "{message}");
    let message = refused("[oslo_policy]\npolicy_dirs = policy.yaml\n", &[("policy.yaml", "")]);
    assert!(message.contains("policy_dirs"), "{message}");
}
