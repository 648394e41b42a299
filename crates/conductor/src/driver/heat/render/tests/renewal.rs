//! When a master that replaces another one renews what runs in the cluster beside the masters.

use super::restarts::ran;

const COMMON: &str = include_str!("../../scripts/common.sh");
const MASTER: &str = include_str!("../../scripts/master.sh");

/// What a master of this version does that replaces those of these numbers; the API answers with `listed`, a node and its version a line, when it was
/// asked `tries` times. Whether it goes on, and what it calls.
fn renewed(version: &str, replaces: &str, listed: &str, tries: u32) -> (bool, Vec<String>) {
    let functions = [(MASTER, "renew_addons"), (MASTER, "older_masters"), (MASTER, "repeatedly"), (COMMON, "replaced_nodes")];
    let stubs = r#"
kubectl() {
  case "$*" in
    *" get nodes -l node-role.kubernetes.io/control-plane -o "*" {.status.nodeInfo.kubeletVersion}"*) ;;
    *) tell kubectl "$*"; return 1 ;;
  esac
  echo >> asked
  [ "$(wc -l < asked)" -ge "$TRIES" ] && printf %b "$LISTED"
}
install_network() { tell install_network; }
install_addons() { tell install_addons; }
wait_for_cloud_provider() { tell wait_for_cloud_provider; }
"#;
    let values =
        format!("KUBE_VERSION={version} NODE_NAME=m-5 REPLACES={replaces} TRIES={tries} LISTED='{}'\n", listed.replace('\n', "\\n"));
    let (is_done, calls, _) = ran(&[], &functions, &format!("{stubs}{values}renew_addons > said"));
    (is_done, calls)
}

const ALL: [&str; 3] = ["kubeadm init phase addon all --config ./init.yaml", "install_network", "install_addons"];
/// What nodes need is there: only that the cloud knows this one is waited for.
const NOTHING: [&str; 1] = ["wait_for_cloud_provider"];

#[test]
fn add_ons_are_renewed_when_no_master_that_stays_is_older() {
    for (what, version, replaces, listed) in [
        ("all are of one version, as in a rotation", "v1.33.5", "0", "m-0 v1.33.5\nm-1 v1.33.5\nm-2 v1.33.5\nm-5 v1.33.5\n"),
        ("the last older one is replaced", "v1.34.1", "2", "m-2 v1.33.5\nm-3 v1.34.1\nm-4 v1.34.1\nm-5 v1.34.1\n"),
        ("the only one is replaced", "v1.34.1", "0", "m-0 v1.33.5\nm-5 v1.34.1\n"),
        ("an older one that had failed is replaced as well", "v1.34.1", "1,2", "m-1 v1.33.5\nm-2 v1.33.5\nm-3 v1.34.1\nm-5 v1.34.1\n"),
        ("versions are numbers", "v1.34.9", "0", "m-0 v1.34.9\nm-1 v1.34.10\nm-5 v1.34.9\n"),
        ("one has never run", "v1.34.1", "0", "m-0 v1.33.5\nm-4 \nm-5 v1.34.1\n"),
        ("it is not listed yet", "v1.34.1", "0", "m-0 v1.33.5\n"),
        ("there are none but those that leave", "v1.34.1", "0", ""),
    ] {
        assert_eq!(renewed(version, replaces, listed, 1), (true, ALL.map(str::to_owned).to_vec()), "{what}");
    }
}

#[test]
fn nothing_is_renewed_while_a_master_that_stays_is_older() {
    for (what, version, replaces, listed) in [
        ("the first of three is replaced", "v1.34.1", "0", "m-0 v1.33.5\nm-1 v1.33.5\nm-2 v1.33.5\nm-5 v1.34.1\n"),
        ("the second of three is replaced", "v1.34.1", "1", "m-1 v1.33.5\nm-2 v1.33.5\nm-3 v1.34.1\nm-5 v1.34.1\n"),
        ("its patch is older", "v1.34.10", "0", "m-0 v1.34.9\nm-1 v1.34.9\nm-5 v1.34.10\n"),
        ("no name is a part of another one", "v1.34.1", "1", "m-1 v1.33.5\nm-11 v1.33.5\nm-5 v1.34.1\n"),
    ] {
        assert_eq!(renewed(version, replaces, listed, 1), (true, NOTHING.map(str::to_owned).to_vec()), "{what}");
    }
}

#[test]
fn an_api_that_is_away_is_asked_again_and_no_answer_is_not_that_there_are_none() {
    let older = "m-0 v1.33.5\nm-1 v1.33.5\n";
    assert_eq!(renewed("v1.34.1", "0", older, 3), (true, NOTHING.map(str::to_owned).to_vec()));
    assert_eq!(renewed("v1.34.1", "0", older, 9), (false, Vec::new()));
}
