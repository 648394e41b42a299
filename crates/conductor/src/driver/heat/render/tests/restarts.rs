//! Nodes that are cut off while they are made, by a restart of their machines: what they do again, and what they do not.

use std::fs;

use super::succession::function;
use super::*;

const COMMON: &str = include_str!("../../scripts/common.sh");
const INSTALL: &str = include_str!("../../scripts/install.sh");
const MASTER: &str = include_str!("../../scripts/master.sh");
const API_ADDRESS: &str = include_str!("../../scripts/api-address.sh");
const CILIUM: &str = include_str!("../../scripts/cilium.sh");

/// What they call is told in `calls`, but for what the test says itself. Time passes at once.
const STUBS: &str = r#"
cd "$FOLDER" || exit 1
STATE=. BASE=. NODE_NAME=m-1 NODE_ADDRESS=10.0.0.5 API_ADDRESS=10.0.0.9 NODE_INDEX=0 GENERATION= API_HOLDER= NODE_PUBLIC_ADDRESS=
tell() { echo "$*" >> calls; }
sync() { :; }
sleep() { SECONDS=$((SECONDS + $1)); }
step() { :; }
fill() { tell fill "$2"; }
install_pki() { tell install_pki; }
wait_for_api() { tell wait_for_api; }
hold_address() { tell hold_address; }
announce() { tell announce; }
trust_in() { tell trust; }
signal() { tell signal; }
kubeadm() { tell kubeadm "$*"; }
"#;

/// Runs commands with functions of these scripts, beside files that a node has kept; whether they end well, what they call, and the folder.
pub(super) fn ran(files: &[&str], functions: &[(&'static str, &str)], commands: &str) -> (bool, Vec<String>, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, "").expect("a file");
    }
    // What they change of a machine is changed here.
    let functions: String = functions.iter().map(|&(script, name)| function(script, name).replace("/etc/kubernetes", ".")).collect();
    assert!(!functions.contains("/etc/"), "{functions}");
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &format!("{STUBS}{functions}{commands}\n")]).env("FOLDER", folder.path());
    let output = bash.output().expect("bash runs");
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap_or_default().lines().map(str::to_owned).collect();
    (output.status.success(), calls, folder)
}

const HAS_JOINED: [(&str, &str); 2] = [(COMMON, "mark"), (INSTALL, "has_joined")];

#[test]
fn a_machine_has_joined_that_has_kept_so_or_is_found_to_be_a_node_in_time() {
    let judged = |files: &[&str], found: &str| {
        let commands = format!("is_found() {{ tell asked; {found}; }}\nif has_joined left is_found; then tell joined; fi");
        let (is_done, calls, folder) = ran(files, &HAS_JOINED, &commands);
        assert!(is_done, "{calls:?}");
        (calls.iter().filter(|call| *call == "asked").count(), folder.path().join("joined").exists())
    };
    assert_eq!(judged(&[], "true"), (0, false), "it has not come to the end of a join");
    assert_eq!(judged(&["joined"], "false"), (0, true));
    assert_eq!(judged(&["left", "joined"], "false"), (0, true));
    assert_eq!(judged(&["left"], "true"), (1, true));
    assert_eq!(judged(&["left"], "[ \"$(wc -l < calls)\" = 3 ]"), (3, true), "its parts take a while to start");
    // Three minutes; whoever runs this may be slow.
    let (asked, has_joined) = judged(&["left"], "false");
    assert!((30..=36).contains(&asked) && !has_joined, "{asked}");
}

#[test]
fn that_a_machine_has_joined_is_kept_before_anything_else_is_done() {
    let functions = [(COMMON, "mark"), (COMMON, "begin_to_join"), (INSTALL, "join")];
    let (is_done, calls, folder) = ran(&[], &functions, "join true false");
    assert!(is_done && calls.is_empty(), "{calls:?}");
    assert!(folder.path().join("joining").exists() && folder.path().join("joined").exists());
}

#[test]
fn the_first_master_begins_the_cluster_once_and_goes_on_with_it_whoever_answers() {
    let begins = |index: u32, files: &[&str], answers: bool| {
        let commands = format!("NODE_INDEX={index}\napi_answers() {{ {answers}; }}\nif begins_cluster; then tell begins; fi");
        let (is_done, calls, _) = ran(files, &[(MASTER, "begins_cluster")], &commands);
        assert!(is_done, "{calls:?}");
        calls == ["begins"]
    };
    assert!(begins(0, &[], false) && !begins(0, &[], true) && !begins(1, &[], false));
    for answers in [false, true] {
        assert!(begins(0, &["begun"], answers) && begins(0, &["begun", "joining", "joined"], answers));
        // One that has joined another's, whose API is away for a moment.
        assert!(!begins(0, &["joining"], answers) && !begins(0, &["joining", "joined"], answers));
    }
}

const BEGIN: [(&str, &str); 4] = [(COMMON, "mark"), (COMMON, "begin_to_join"), (MASTER, "begin_cluster"), (MASTER, "init_cluster")];
const INIT: &str = "kubeadm init --config ./init.yaml --skip-token-print";

#[test]
fn a_cluster_that_is_there_is_not_made_again_and_one_that_was_cut_off_is_made_over_what_is_there() {
    let begun = |files: &[&str], commands: &str| {
        let (is_done, calls, folder) = ran(files, &BEGIN, &format!("{commands}\nbegin_cluster"));
        assert!(folder.path().join("begun").exists(), "{calls:?}");
        (is_done, calls, folder)
    };
    let made = |init: &str| ["fill ./init.yaml", "install_pki", init, "wait_for_api", "hold_address"].map(str::to_owned);
    let (is_done, calls, folder) = begun(&[], "");
    assert!(is_done && folder.path().join("joined").exists());
    assert_eq!(calls, made(INIT));
    assert_eq!(begun(&["begun", "joining", "joined", "manifests/etcd.yaml", "admin.conf"], "").1, ["wait_for_api", "hold_address"]);
    // What was to be signed was cut off before any part of the cluster ran, and then after it; both times it may be there in half.
    for (further, init) in [("pki/ca.crt", INIT.to_owned()), ("manifests/etcd.yaml", format!("{INIT} --skip-phases preflight"))] {
        let files = ["begun", "joining", "pki/apiserver.crt", "admin.conf", further];
        let demand = "kubeadm() { tell kubeadm \"$*\"; [ ! -e pki/apiserver.crt ] && [ ! -e admin.conf ]; }";
        let (is_done, calls, folder) = begun(&files, demand);
        assert!(is_done && folder.path().join("joined").exists(), "{calls:?}");
        assert_eq!(calls, made(&init));
    }
    // Nothing of one that fails is put back either.
    let (is_done, calls, folder) = begun(&["begun", "joining", "manifests/etcd.yaml"], "kubeadm() { tell kubeadm \"$1\"; return 1; }");
    assert!(!is_done && folder.path().join("manifests/etcd.yaml").exists() && !folder.path().join("joined").exists());
    assert_eq!(calls[2..], ["kubeadm init"]);
}

const JOIN: [(&str, &str); 6] = [
    (COMMON, "mark"),
    (INSTALL, "has_joined"),
    (MASTER, "join_cluster"),
    (MASTER, "is_master"),
    (MASTER, "repeatedly"),
    (MASTER, "certify"),
];

#[test]
fn a_master_that_has_joined_is_not_put_back() {
    let joined = |files: &[&str], commands: &str| {
        let (is_done, mut calls, _) = ran(files, &JOIN, &format!("join() {{ tell join; }}\nGENERATION=second\n{commands}\njoin_cluster"));
        assert_eq!(calls.drain(..2).collect::<Vec<_>>(), ["wait_for_api", "fill ./join.yaml"]);
        (is_done, calls)
    };
    let ended = ["trust", "kubeadm init phase upload-config kubelet --config ./init.yaml"];
    let marks = "kubeadm join phase control-plane-join mark-control-plane --config ./join.yaml";
    let of = |begun: &[&str]| begun.iter().chain(&ended).map(|call| (*call).to_owned()).collect::<Vec<_>>();
    let own = |answers: bool| format!("api_answers() {{ [ \"$1\" = 10.0.0.5 ] && {answers}; }}");
    assert_eq!(joined(&[], &own(false)), (true, of(&["announce", "join"])));
    assert_eq!(joined(&["joining", "joined", "manifests/etcd.yaml"], &own(false)), (true, of(&[])));
    // Where it was cut off before that was kept, its own API tells; what comes last in a join is done then.
    assert_eq!(joined(&["joining", "manifests/etcd.yaml"], &own(true)), (true, of(&[marks])));
    assert_eq!(joined(&["joining"], &own(true)), (true, of(&["announce", "join"])), "there is no member of etcd here");
    assert_eq!(joined(&["joining", "manifests/etcd.yaml"], &own(false)), (true, of(&["announce", "join"])), "it learns still");
    // A voter stays, though the rest fails.
    let fails = format!("{}\nkubeadm() {{ tell kubeadm \"$*\"; return 1; }}", own(true));
    assert_eq!(joined(&["joining", "manifests/etcd.yaml"], &fails), (false, vec![marks.to_owned(); 5]));
}

#[test]
fn masters_that_come_with_the_first_one_are_certified_for_their_own_addresses() {
    let certified = |values: &str| {
        let files = ["pki/apiserver.crt", "pki/apiserver.key", "pki/apiserver-etcd-client.crt"];
        let demand = "kubeadm() { tell kubeadm \"$*\"; [ \"$(ls pki)\" = apiserver-etcd-client.crt ]; }";
        let (is_done, calls, _) = ran(&files, &[(MASTER, "certify")], &format!("{demand}\n{values}\ncertify"));
        assert!(is_done, "{calls:?}");
        calls
    };
    let made = ["fill ./init.yaml", "kubeadm init phase certs apiserver --config ./init.yaml"];
    assert_eq!(certified("NODE_PUBLIC_ADDRESS=203.0.113.7"), made);
    assert_eq!(certified(""), [""; 0]);
    // The cluster's configuration tells of it already.
    assert_eq!(certified("NODE_PUBLIC_ADDRESS=203.0.113.7 GENERATION=second"), [""; 0]);
}

#[test]
fn a_release_of_the_pod_network_that_was_cut_off_is_no_obstacle() {
    let functions = [(CILIUM, "install_cilium"), (MASTER, "repeatedly")];
    for (deployed, verb) in [("", "install"), ("secret/sh.helm.release.v1.cilium.v1", "upgrade")] {
        let commands = format!(
            "PROGRAMS=. ARCH=amd64 IMAGE_PREFIX='' POD_CIDR=10.1.0.0/16 CILIUM_CLI_VERSION=v1 CILIUM_TAG=v2 CILIUM_NAME=ours\nfetch() {{ :; }}\ntar() {{ :; }}\n\
             cilium() {{ tell cilium \"$1\"; }}\n\
             kubectl() {{ case \"$*\" in *' get secret -l '*status=deployed*) echo {deployed} ;; *' get configmap '*) echo kept ;; *) tell \"$4\" \"$5\" \"$6\" \"$8\" ;; esac; }}\n\
             install_cilium"
        );
        let (is_done, calls, _) = ran(&[], &functions, &commands);
        assert!(is_done, "{calls:?}");
        let gone = "kube-system delete secret owner=helm,name=cilium,status notin (deployed,superseded)";
        assert_eq!(calls, [gone.to_owned(), format!("cilium {verb}")]);
    }
}

/// The script that keeps the API's address, for ten rounds, of which nobody may answer in five. Files tell how it is: `api` is that of this
/// master, `answers` that at the address. Whether it is held, and who the lease says holds it.
fn held(files: &[&str], lease: &str) -> (bool, String) {
    let stubs = r#"
kubectl() {
  case "$*" in
    *" get lease "*) [ -e api ] && cat lease ;;
    *" patch lease "*) sed -n 's/.*"holderIdentity": "\([^"]*\)".*/\1/p' <<< "$*" > lease ;;
  esac
}
curl() { [ -e answers ]; }
arping() { :; }
ip() {
  case "$*" in
    "address add "*) touch held ;;
    "address del "*) rm -f held ;;
    *)
      echo "2: eth0    inet 10.0.0.5/24 scope global eth0"
      [ ! -e held ] || echo "2: eth0    inet 10.0.0.9/32 scope global eth0"
      ;;
  esac
}
rounds=0
sleep() { [ "$((rounds += 1))" -lt 10 ] || exit 0; }
printf 'NODE_NAME=m-1\nNODE_ADDRESS=10.0.0.5\nAPI_ADDRESS=10.0.0.9\n' > unit
printf %s "$LEASE" > lease
"#;
    let places =
        [("/etc/systemd/system/kubernetes-bootstrap.service", "unit"), ("/var/lib/kubernetes-bootstrap", "."), ("/etc/kubernetes/", "")];
    let script = places.iter().fold(API_ADDRESS.to_owned(), |script, &(place, here)| script.replace(place, here));
    let script = script.replace("MOST=100", "MOST=5");
    assert!(script.contains("MOST=5") && !script.contains("/etc/") && !script.contains("/var/"), "{script}");
    let folder = tempfile::tempdir().expect("a folder");
    for file in files {
        fs::write(folder.path().join(file), "").expect("a file");
    }
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{stubs}{script}")]).current_dir(folder.path()).env("LEASE", lease);
    assert!(bash.output().expect("bash runs").status.success());
    (folder.path().join("held").exists(), fs::read_to_string(folder.path().join("lease")).expect("a lease").trim().to_owned())
}

#[test]
fn the_apis_address_is_held_by_who_is_named_and_can_serve() {
    let kept = |is_held: bool, name: &str| (is_held, name.to_owned());
    assert_eq!(held(&["admin.conf", "joined", "api"], "m-1"), kept(true, "m-1"));
    assert_eq!(held(&["admin.conf", "joined", "api", "answers", "held", "holds-api-address"], "m-2"), kept(false, "m-2"));
    // Nobody who has an API lets clients wait for one that does not come back.
    assert_eq!(held(&["admin.conf", "joined", "api"], "m-2"), kept(true, "m-1"));
    // Whoever cannot look keeps what it has: its API may be away for long, or still to be made.
    assert_eq!(held(&["admin.conf", "joined", "held", "holds-api-address"], "m-1"), kept(true, "m-1"));
    assert_eq!(held(&["holds-api-address"], "m-1"), kept(true, "m-1"));
    assert_eq!(held(&["admin.conf", "joined"], "m-2"), kept(false, "m-2"));
    // It was put back: it has no API any more.
    assert_eq!(held(&["joined", "held", "holds-api-address"], "m-1"), kept(false, "m-1"));
}
