//! The programs that others' documents bring get the proxies of nodes, and lose those that a master gave them.

use super::restarts::ran;

const MASTER: &str = include_str!("../../scripts/master.sh");

/// A cluster that keeps the mark of the object, and does not set variables where `broken` is.
const KUBECTL: &str = r#"
kubectl() {
  local all="$*"
  case "$all" in
    *" get deployment/x "*) [ ! -e mark ] || cat mark ;;
    *" annotate --overwrite deployment/x magnum.openstack.org/proxies=given") tell mark; echo given > mark ;;
    *" annotate deployment/x magnum.openstack.org/proxies-") tell unmark; rm mark ;;
    *" set env deployment/x "*) tell set "${all#* set env deployment/x }"; [ ! -e broken ] ;;
    *) tell what "$all"; return 1 ;;
  esac
}
"#;

/// Whether it ends well, what it does, and whether the mark is there afterwards.
fn given(files: &[&str], proxies: &str) -> (bool, Vec<String>, bool) {
    let has_mark = if files.contains(&"mark") { "echo given > mark\n" } else { "" };
    let commands = format!("{KUBECTL}{has_mark}{proxies}give_proxies deployment/x");
    let (is_done, calls, folder) = ran(files, &[(MASTER, "give_proxies")], &commands);
    (is_done, calls, folder.path().join("mark").exists())
}

#[test]
fn whoever_gave_proxies_has_marked_it_and_only_those_are_taken_away() {
    let some = "POD_PROXIES='HTTP_PROXY- HTTPS_PROXY=http://proxy:3128 NO_PROXY=localhost,.svc'\n";
    let gives = ["mark", "set HTTP_PROXY- HTTPS_PROXY=http://proxy:3128 NO_PROXY=localhost,.svc"].map(str::to_owned).to_vec();
    let takes = ["mark", "set HTTP_PROXY- HTTPS_PROXY- NO_PROXY-"].map(str::to_owned).to_vec();
    let takes_all: Vec<String> = takes.iter().cloned().chain(["unmark".to_owned()]).collect();
    assert_eq!(given(&[], some), (true, gives.clone(), true));
    assert_eq!(given(&["mark"], some), (true, gives.clone(), true));
    assert_eq!(given(&[], ""), (true, vec![], false), "what others have set stays");
    assert_eq!(given(&["mark"], ""), (true, takes_all, false));
    // Whoever goes on where it was cut off knows of it.
    assert_eq!(given(&["broken"], some), (false, gives, true));
    assert_eq!(given(&["broken", "mark"], ""), (false, takes, true));
}
