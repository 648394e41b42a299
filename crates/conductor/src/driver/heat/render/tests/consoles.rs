//! What a node says on its consoles, for those who may not log in to it.

use std::fs;

use super::succession::function;
use super::*;

const COMMON: &str = include_str!("../../scripts/common.sh");

/// Runs commands of a node that has these consoles, among all devices of this machine; what it tells each of them, or Heat, in order, and what it says.
fn told(consoles: Option<&str>, commands: &str) -> (Vec<String>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let functions = ["step", "tell_consoles", "cleaned", "finish"].map(|name| function(COMMON, name)).concat();
    let functions = functions.replace("/sys/class/tty/console/active", "consoles");
    assert!(!functions.contains("/sys/"), "{functions}");
    if let Some(consoles) = consoles {
        fs::write(folder.path().join("consoles"), consoles).expect("a file");
    }
    // A device that takes nothing tells that it does not, or never ends.
    let stubs = r#"
timeout() { [ "$1" = 2 ] && shift && "$@"; }
tee() { echo "$1: $(cat)" >> told; [ "$1" != /dev/full ]; }
signal() { echo "Heat: $1 $2 $3" >> told; }
standing() { echo absent; }
STATE=. LOG=log NODE_NAME=k-node-0
"#;
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &format!("{stubs}{functions}{commands}\n")]).current_dir(folder.path());
    let output = bash.output().expect("bash runs");
    let told = fs::read_to_string(folder.path().join("told")).unwrap_or_default().lines().map(str::to_owned).collect();
    (told, String::from_utf8([output.stdout, output.stderr].concat()).expect("text"))
}

#[test]
fn steps_are_told_on_every_console_that_takes_them_and_nothing_fails_for_one_that_does_not() {
    let steps = "step one\nstep 'add-on two'\n";
    let (seen, said) = told(Some("full null\n"), steps);
    let each = |step: &str| ["full", "null"].map(|name| format!("/dev/{name}: kubernetes-bootstrap: {step}"));
    assert_eq!(seen, [each("one"), each("add-on two")].concat());
    // The log has what it always had.
    assert_eq!(said, "== one\n== add-on two\n");
    // No device, a file, and no console at all.
    for consoles in ["no-such", "shm", ""] {
        assert_eq!(told(Some(consoles), steps), (Vec::new(), said.clone()), "{consoles}");
    }
    assert_eq!(told(None, steps).1, said);
}

#[test]
fn what_failed_is_told_on_the_console_as_heat_is_told_and_no_token_is() {
    let token = "abcdef.0123456789abcdef";
    let commands = format!("trap finish EXIT\nstep 'kubeadm join'\nprintf 'token {token}\\nexit \"1\"\\n' > log\nfalse");
    let (seen, said) = told(Some("null"), &commands);
    let reason = "k-node-0: kubeadm join failed: token (token) exit  1 ";
    let wanted = [
        "/dev/null: kubernetes-bootstrap: kubeadm join".to_owned(),
        format!("/dev/null: kubernetes-bootstrap: {reason}"),
        format!("Heat: FAILURE {reason} absent"),
    ];
    assert_eq!(seen, wanted);
    assert_eq!(said, "== kubeadm join\n");
}
