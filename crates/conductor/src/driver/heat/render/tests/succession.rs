//! How masters see off workers: the script as it is, with a kubectl that says what nodes there are.

use std::process::Command;

/// What the script has kubectl do where these nodes are: group, generation, whom each replaces, together with how many, whom it has replaced,
/// readiness and name of each.
fn done(nodes: &[&str]) -> Vec<String> {
    let kubectl = r#"
kubectl() {
  case "$*" in
    *" get nodes "*) printf '%s\n' "$NODES" ;;
    *" get node "*) printf '%s\n' "$NODES" | awk -F '|' -v n="$5" '$NF == n { print $1 "|" $2 }' ;;
    *) echo "$*" ;;
  esac
}
"#;
    let whole = format!("{kubectl}{}", include_str!("../../scripts/succession.sh"));
    let output = Command::new("bash").args(["-c", &whole]).env("NODES", nodes.join("\n")).output().expect("bash runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

fn names<'a>(calls: &'a [String], verb: &str) -> Vec<&'a str> {
    let of = |call: &'a String| {
        let mut words = call.split(' ').skip_while(|word| *word != verb).skip(1);
        words.find(|word| *word != "node")
    };
    calls.iter().filter_map(of).collect()
}

const OLD: [&str; 2] = ["g|one|-|-|-|True|k-node-0", "g|one|-|-|-|True|k-node-1"];

#[test]
fn a_batch_goes_when_all_that_come_for_it_are_ready() {
    let late = ["g|two|k-node-0,k-node-1|2|-|True|k-node-3", "g|two|k-node-0,k-node-1|2|-|False|k-node-4"];
    assert_eq!(done(&[OLD[0], OLD[1], late[0], late[1]]), [""; 0], "one of two is ready");
    assert_eq!(done(&[OLD[0], OLD[1], late[0]]), [""; 0], "one of two is there");
    let ready = late[1].replace("False", "True");
    let calls = done(&[OLD[0], OLD[1], late[0], &ready]);
    assert_eq!(names(&calls, "drain"), ["k-node-0", "k-node-1"], "{calls:?}");
    assert_eq!(names(&calls, "delete"), ["k-node-0", "k-node-1"], "{calls:?}");
    assert_eq!(names(&calls, "annotate"), ["k-node-3", "k-node-4"], "{calls:?}");
}

#[test]
fn fewer_may_come_than_go_where_an_earlier_replacement_was_cut_off() {
    let calls = done(&[OLD[0], OLD[1], "g|two|k-node-0,k-node-1|1|-|True|k-node-3"]);
    assert_eq!((names(&calls, "drain"), names(&calls, "annotate")), (vec!["k-node-0", "k-node-1"], vec!["k-node-3"]), "{calls:?}");
}

#[test]
fn nobody_goes_for_who_says_too_little_or_is_not_of_his_group() {
    for one in [
        "g|two|k-node-0|-|-|True|k-node-3",
        "g|two|k-node-0|0|-|True|k-node-3",
        "g|two|k-node-0|many|-|True|k-node-3",
        "g|two|k-node-0|1|k-node-0|True|k-node-3",
        "g|two||True|k-node-3",
    ] {
        assert_eq!(done(&[OLD[0], OLD[1], one]), [""; 0], "{one}");
    }
    for one in ["h|two|k-node-0|1|-|True|k-node-3", "g|one|k-node-0|1|-|True|k-node-3"] {
        let calls = done(&[OLD[0], OLD[1], one]);
        assert!(names(&calls, "drain").is_empty() && names(&calls, "delete").is_empty(), "{calls:?}");
    }
}

#[test]
fn all_workers_that_come_come_at_once() {
    // Heat would make one after the other and wait for each, and none is ready before all of its batch are.
    let shipped = &crate::SHIPPED_TEMPLATES;
    let rolling = [&shipped.cluster, &shipped.group].map(|template| template.matches("rolling_update:").count());
    assert_eq!(rolling, [1, 0], "that of the masters");
}
