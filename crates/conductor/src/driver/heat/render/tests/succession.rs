//! How nodes that are replaced are seen off: the scripts as they are and a kubectl that says what nodes there are and fails where it shall.

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::*;
use crate::driver::{PoolKind, Succession};

/// Keeps its calls but for questions. Of files in its folder, `nodes` are the answer about nodes; `once-VERB-NAME` has this call fail once,
/// `always-VERB-NAME` every time, and `hangs-VERB-NAME` has it not end. Some node bears the label of those that wait, unless there is a file `quiet`.
///
/// `etcd` is the list of etcd's members, each with a pod that is said to be ready; `dead-NAME` has this one not answer, `once-dead-NAME` once,
/// and `unwell` none of them; `stuck` has none be removed, and `unreachable` no pod be asked.
const KUBECTL: &str = r#"#!/bin/bash
cd "${0%/*}" || exit 2

how_members_are() {
  local name url is_learner is_bad=""
  while read -r name url is_learner; do
    if [ "$is_learner" = true ] || [ -e unwell ] || [ -e "dead-$name" ] || rm "once-dead-$name" 2> /dev/null; then
      echo "$url is unhealthy: failed to commit proposal: context deadline exceeded" >&2
      is_bad=yes
    else
      echo "$url is healthy: successfully committed proposal: took = 9ms"
    fi
  done < <(awk -F ', ' '$5 != "" { print $3, $5, $6 }' etcd)
  [ -z "$is_bad" ] || exit 1
}

etcdctl() {
  local name=${6#etcd-}
  if [ -e unreachable ] || [ -e "dead-$name" ] || grep -q ", $name, .*, true$" etcd; then
    echo "error: error dialing backend" >&2
    exit 1
  fi
  case "$*" in
    *" member list") cat etcd ;;
    *" endpoint health --cluster") how_members_are ;;
    *" member remove "*)
      echo "remove ${!#}" >> calls
      [ ! -e stuck ] || exit 1
      grep -v "^${!#}, " etcd > etcd.new
      mv etcd.new etcd
      ;;
  esac
}

case "$*" in
  *" exec etcd-"*) etcdctl "$@"; exit ;;
  *" get pods "*) awk -F ', ' '$3 != "" { print "etcd-" $3 " True" }' etcd; exit ;;
  *" get node "*conditions*) awk -F '|' -v n="$5" '$NF == n { print $6 }' nodes; exit ;;
  *" get --raw "*) if [ -e quiet ]; then echo '{"items":[]}'; else echo '{"items":[{}]}'; fi; exit ;;
  *" get nodes "*) cat nodes; exit ;;
  *" get node "*) verb=get name=$5 ;;
  *" drain "*) verb=drain name=$4 ;;
  *" delete node "*) verb=delete name=$5 ;;
  *" annotate node "*) verb=annotate name=$5 ;;
  *) exit 2 ;;
esac
[ "$verb" = get ] || echo "$*" >> calls
if rm "once-$verb-$name" 2> /dev/null || [ -e "always-$verb-$name" ]; then
  echo "the API is away" >&2
  exit 1
fi
[ ! -e "hangs-$verb-$name" ] || exec /bin/sleep 600
case "$verb" in
  get) [ -e "gone-$name" ] || awk -F '|' -v n="$name" '$NF == n { print n }' nodes ;;
  drain)
    touch "drains-$name"
    find . -name 'drains-*' | wc -l >> abreast
    /bin/sleep 0.3
    rm "drains-$name"
    ;;
  delete) touch "gone-$name" ;;
esac
"#;

/// Does not sleep for long, and tells how long it should have.
const SLEEP: &str = "#!/bin/bash\necho \"$1\" >> \"${0%/*}/slept\"\nexec /bin/sleep 0.2\n";

/// The process that runs them writes the stand-ins: what a thread of ours had open for writing while another one starts a process could not
/// be run.
const STAND_INS: &str =
    "cd \"$FOLDER\" && printf %s \"$KUBECTL\" > kubectl && printf %s \"$SLEEP\" > sleep && chmod 0755 kubectl sleep || exit 1\n";

/// A cluster's nodes, and how long a drain may take.
struct Cluster {
    folder: tempfile::TempDir,
    drain_seconds: u32,
}

impl Cluster {
    /// Of each node: whom it replaces, together with how many, by which order, whom it has replaced, until when it waits, readiness and name.
    fn of<T: AsRef<str>>(drain_seconds: u32, nodes: &[T]) -> Self {
        let cluster = Self { folder: tempfile::tempdir().expect("a folder"), drain_seconds };
        cluster.put("nodes", &nodes.iter().map(|node| format!("{}\n", node.as_ref())).collect::<String>());
        let programs = cluster.folder.path().display();
        cluster.put("node.env", &format!("PROGRAMS='{programs}'\nDRAIN_SECONDS='{drain_seconds}'\n"));
        cluster.put("ca.key", &format!("{CA_KEY}\n"));
        cluster
    }

    fn put(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join(file), text).expect("a file");
    }

    fn but(self, fault: &str) -> Self {
        self.put(fault, "");
        self
    }

    /// The lines of a file that the stand-ins wrote.
    fn lines(&self, file: &str) -> Vec<String> {
        fs::read_to_string(self.folder.path().join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Runs it with this time; whether it ends well, and what kubectl was called with meanwhile.
    fn run(&self, options: &[&str], script: &str, wait_seconds: u32) -> (bool, Vec<String>) {
        let folder = self.folder.path().to_str().expect("text");
        let path = format!("{folder}:{}", std::env::var("PATH").expect("a path"));
        self.put("calls", "");
        let mut bash = Command::new("bash");
        bash.args(options).args(["-c", &format!("{STAND_INS}{script}")]).env("PATH", path).env("FOLDER", folder);
        bash.env("KUBECTL", KUBECTL).env("SLEEP", SLEEP).env("DRAIN_SECONDS", self.drain_seconds.to_string());
        let output = bash.env("WAIT_SECONDS", wait_seconds.to_string()).output().expect("bash runs");
        (output.status.success(), self.lines("calls"))
    }

    /// What a master does about workers when its time has come.
    fn pass(&self) -> Vec<String> {
        let folder = self.folder.path().to_str().expect("text");
        let places = ["/etc/kubernetes-bootstrap", "/etc/kubernetes/pki", "/var/lib/kubernetes-bootstrap"];
        let script =
            places.iter().fold(include_str!("../../scripts/succession.sh").to_owned(), |script, place| script.replace(place, folder));
        assert_eq!(script.matches(folder).count(), 3, "its settings, which tell where its programs are, its key and what it keeps");
        let (is_done, calls) = self.run(&[], &script, 0);
        assert!(is_done, "{calls:?}");
        calls
    }

    /// What a new master does with these others, in this order.
    fn see_off(&self, names: &[&str], wait_seconds: u32) -> (bool, Vec<String>) {
        let master = include_str!("../../scripts/master.sh");
        let functions = ["see_off", "take_out", "repeatedly"].map(|name| function(master, name)).concat();
        let stubs = "step() { :; }\netcdctl() {\n  echo \"etcdctl $*\" >> calls\n  [ ! -e stuck ] || return 1\n  \
                     [ \"$2\" != list ] || printf 'a%s, started, m-%s, x\\n' 0 0 1 1\n}\n";
        let calls: String = (0..names.len()).map(|i| format!("see_off {}\n", names[i..].join(" "))).collect();
        self.run(&["-euo", "pipefail"], &format!("{stubs}{functions}{calls}"), wait_seconds)
    }

    /// With these members of etcd.
    fn with_etcd(self, members: &[&str]) -> Self {
        self.put("etcd", &members.iter().map(|member| format!("{member}\n")).collect::<String>());
        self
    }

    /// Whom a new master that is to replace these takes out of etcd, and of the cluster, before it joins. It goes on to the join in any case.
    fn clear_etcd(&self, replaces: &str) -> Vec<String> {
        let (common, master) = (include_str!("../../scripts/common.sh"), include_str!("../../scripts/master.sh"));
        let functions = ["clear_etcd", "look_at_etcd", "etcdctl", "repeatedly"].map(|name| function(master, name)).concat();
        // The time that it waits for passes at once.
        let stubs = "step() { :; }\nsleep() { SECONDS=$((SECONDS + $1)); }\n";
        let script = format!(
            "{stubs}{functions}{}NODE_NAME=m-9 REPLACES={replaces}\nclear_etcd > said\necho joins >> calls\n",
            function(common, "replaced_nodes")
        );
        let (is_done, mut calls) = self.run(&["-euo", "pipefail"], &script, 2700);
        assert!(is_done && calls.pop().as_deref() == Some("joins"), "{calls:?}");
        calls
    }
}

/// A function of a script.
pub(super) fn function(script: &'static str, name: &str) -> &'static str {
    let from = &script[script.find(&format!("\n{name}() {{")).expect("the function")..];
    &from[..from.find("\n}\n").expect("its end") + 3]
}

/// Whom calls of a verb are about; workers are seen off side by side, in no order.
fn names<'a>(calls: &'a [String], verb: &str) -> Vec<&'a str> {
    let of = |call: &'a String| {
        let mut words = call.split(' ').skip_while(|word| *word != verb).skip(1);
        words.find(|word| *word != "node")
    };
    let mut names: Vec<&str> = calls.iter().filter_map(of).collect();
    names.sort_unstable();
    names
}

/// How many seconds each drain was given.
fn given(calls: &[String]) -> Vec<u64> {
    let of = |call: &String| call.split_once(" --timeout ")?.1.strip_suffix('s')?.parse().ok();
    calls.iter().filter_map(of).collect()
}

/// A moment as nodes tell it.
fn in_seconds(seconds: u64) -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs() + seconds
}

const OLD: [&str; 2] = ["-|-|-|-|-|True|k-node-0", "-|-|-|-|-|True|k-node-1"];

/// The order that new workers of the stack `k` bring with them, as their first boot has it.
fn order(given: &StackInput<'_>, replaces: &[&str], newcomers: i32) -> String {
    let replaces: Vec<String> = replaces.iter().map(|number| (*number).to_owned()).collect();
    let succession = Succession { stack: "k", replaces: &replaces, newcomers };
    let (data, _) = first_boot(given, PoolKind::Workers, Some(&succession)).expect("good");
    content(&data, "/etc/kubernetes-bootstrap/order")
}

/// What a new worker says that replaces those of these numbers together with so many; how it goes on is whom it has replaced, until when it waits,
/// its readiness and its name.
fn comes(replaces: &[&str], newcomers: i32, rest: &str) -> String {
    let names: Vec<String> = replaces.iter().map(|number| format!("k-node-{number}")).collect();
    format!("{}|{newcomers}|{}|{rest}", names.join(","), order(&input(&labels(&[])), replaces, newcomers))
}

/// Two workers, and two that come in their place.
fn batch() -> [String; 4] {
    let new = |rest| comes(&["0", "1"], 2, rest);
    [OLD[0].into(), OLD[1].into(), new("-|-|True|k-node-3"), new("-|-|True|k-node-4")]
}

#[test]
fn a_batch_goes_when_all_that_come_for_it_are_ready() {
    let batch = batch();
    let [.., late] = batch.clone();
    let late = [batch[..3].to_vec(), vec![late.replace("True", "False")]].concat();
    assert_eq!(Cluster::of(600, &late).pass(), [""; 0], "one of two is ready");
    assert_eq!(Cluster::of(600, &batch[..3]).pass(), [""; 0], "one of two is there");
    let calls = Cluster::of(600, &batch).pass();
    assert_eq!(names(&calls, "drain"), ["k-node-0", "k-node-1"], "{calls:?}");
    assert_eq!(names(&calls, "delete"), ["k-node-0", "k-node-1"], "{calls:?}");
    assert_eq!(names(&calls, "annotate"), ["k-node-3", "k-node-4"], "{calls:?}");
    let place = |words: &str| calls.iter().position(|call| call.contains(words)).expect("it was called");
    for old in ["k-node-0", "k-node-1"] {
        let gone = place(&format!("delete node {old}"));
        assert!(place(&format!("drain {old}")) < gone && gone < place("annotate"), "{calls:?}");
    }
}

#[test]
fn all_nodes_are_looked_at_where_one_bears_the_label_of_those_that_wait_and_now_and_then() {
    for (is_labelled, seconds, gone) in [(true, 0, 2), (false, 60, 0), (false, 130, 2)] {
        let cluster = Cluster::of(600, &OLD).but("quiet");
        assert_eq!(cluster.pass(), [""; 0]);
        cluster.put("nodes", &batch().map(|node| format!("{node}\n")).concat());
        if is_labelled {
            fs::remove_file(cluster.folder.path().join("quiet")).expect("it was quiet");
        }
        let looked = fs::File::options().write(true).open(cluster.folder.path().join("looked")).expect("it has looked");
        looked.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("a time");
        assert_eq!(names(&cluster.pass(), "delete").len(), gone, "{is_labelled} {seconds}");
    }
    // Whoever got no answer has not looked.
    let cluster = Cluster::of(600, &OLD).but("quiet");
    fs::remove_file(cluster.folder.path().join("nodes")).expect("there are nodes");
    assert_eq!(cluster.pass(), [""; 0]);
    assert!(!cluster.folder.path().join("looked").exists());
}

#[test]
fn fewer_may_come_than_go_where_an_earlier_replacement_was_cut_off() {
    let calls = Cluster::of::<&str>(600, &[OLD[0], OLD[1], &comes(&["0", "1"], 1, "-|-|True|k-node-3")]).pass();
    assert_eq!((names(&calls, "drain"), names(&calls, "annotate")), (vec!["k-node-0", "k-node-1"], vec!["k-node-3"]), "{calls:?}");
}

#[test]
fn nobody_goes_for_who_says_too_little() {
    let whole = comes(&["0"], 1, "-|-|True|k-node-3");
    for (words, others) in [("|1|", "|-|"), ("|1|", "|0|"), ("|1|", "|many|"), ("|-|-|", "|k-node-0|-|"), ("k-node-0|", "|")] {
        let one = whole.replacen(words, others, 1);
        assert_ne!(one, whole);
        assert_eq!(Cluster::of::<&str>(600, &[OLD[0], OLD[1], &one]).pass(), [""; 0], "{one}");
    }
}

#[test]
fn nobody_goes_who_is_not_in_an_order_of_the_service() {
    let none = labels(&[]);
    let known = order(&input(&none), &["0"], 1);
    let mut of_others = input(&none);
    of_others.kubernetes.authorities = vec![KnownAuthority { key: "another", public_key_hash: "00ff" }];
    let foreign = order(&of_others, &["0"], 1);
    // Whoever is root on a worker may say all of this of it, and have it read the orders of others.
    for lie in [
        format!("k-node-1|1|{known}|-|-|True|k-node-3"),
        format!("k-node-0,k-node-1|1|{known}|-|-|True|k-node-3"),
        format!("k-node-1,k-node-0|1|{known}|-|-|True|k-node-3"),
        format!("k-master-0|1|{known}|-|-|True|k-node-3"),
        format!("k-node-0|1|{foreign}|-|-|True|k-node-3"),
        format!("k-node-0|1|{}|-|-|True|k-node-3", &known[..63]),
        "k-node-0|1|-|-|-|True|k-node-3".to_owned(),
        "k-node-0|1||-|-|True|k-node-3".to_owned(),
        "k-node-0|1|.|-|-|True|k-node-3".to_owned(),
        // One that is to go, and one of another group.
        format!("k-node-0|1|{known}|-|-|True|k-node-0"),
        format!("k-node-0|1|{known}|-|-|True|h-node-3"),
        format!("k-node-0|1|{known}|-|-|True|k-master-3"),
        format!("k-node-0|1|{known}|-|-|True|k-node"),
    ] {
        let calls = Cluster::of::<&str>(600, &[OLD[0], OLD[1], "-|-|-|-|-|True|k-master-0", &lie]).pass();
        assert_eq!(calls, [""; 0], "{lie}");
    }
    // What is between words and lines is no part of any.
    let lines = "-%7C-%0Ak-node-1|1|-|-|-|True|k-node-3";
    assert_eq!(Cluster::of::<&str>(600, &[OLD[0], OLD[1], lines]).pass(), [""; 0]);
}

#[test]
fn masters_of_either_authority_know_an_order() {
    let none = labels(&[]);
    let mut both = input(&none);
    both.kubernetes.authorities =
        [CA_KEY, "the other one's"].map(|key| KnownAuthority { key, public_key_hash: "00ff" }).into_iter().collect();
    let order = order(&both, &["0"], 1);
    for key in [CA_KEY, "the other one's"] {
        let cluster = Cluster::of::<&str>(600, &[OLD[0], OLD[1], &format!("k-node-0|1|{order}|-|-|True|k-node-3")]);
        cluster.put("ca.key", key);
        assert_eq!(names(&cluster.pass(), "drain"), ["k-node-0"], "{key}");
    }
}

#[test]
fn nobody_is_told_while_it_is_unclear_whether_all_are_seen_off() {
    for (fault, drained) in [("once-get-k-node-0", vec!["k-node-1"]), ("once-delete-k-node-0", vec!["k-node-0", "k-node-1"])] {
        let cluster = Cluster::of(600, &batch()).but(fault);
        let calls = cluster.pass();
        // The machines of the old ones would be taken away.
        assert!(names(&calls, "annotate").is_empty(), "{fault}: {calls:?}");
        assert_eq!(names(&calls, "drain"), drained, "{fault}");
        let calls = cluster.pass();
        assert_eq!(names(&calls, "drain"), ["k-node-0"], "the next time, of those that are left; {fault}");
        assert_eq!(names(&calls, "annotate"), ["k-node-3", "k-node-4"], "{fault}");
    }
}

#[test]
fn one_of_a_batch_that_was_not_told_is_told_the_next_time() {
    let cluster = Cluster::of(600, &batch()).but("once-annotate-k-node-3");
    assert_eq!(names(&cluster.pass(), "annotate"), ["k-node-3", "k-node-4"]);
    let [_, _, first, second] = batch();
    let told = second.replace("|-|-|", "|k-node-0,k-node-1|-|");
    cluster.put("nodes", &format!("{told}\n{first}\n"));
    let calls = cluster.pass();
    assert!(names(&calls, "annotate").contains(&"k-node-3") && names(&calls, "drain").is_empty(), "{calls:?}");
}

#[test]
fn a_drain_that_fails_is_repeated_until_its_time_is_over() {
    let calls = Cluster::of(600, &batch()).but("once-drain-k-node-0").pass();
    assert_eq!(names(&calls, "drain"), ["k-node-0", "k-node-0", "k-node-1"], "{calls:?}");
    assert_eq!(names(&calls, "annotate").len(), 2, "{calls:?}");
    // Then it goes all the same.
    let begin = Instant::now();
    let calls = Cluster::of(3, &batch()).but("always-drain-k-node-0").pass();
    assert!(begin.elapsed() > Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(names(&calls, "drain").len() > 2, "{calls:?}");
    assert!(!given(&calls).contains(&0), "that would be no limit: {calls:?}");
    assert_eq!((names(&calls, "delete").len(), names(&calls, "annotate").len()), (2, 2), "{calls:?}");
}

/// So many old workers, and one that comes for all of them.
fn cluster_of_many(drain_seconds: u32, count: usize, until: &str) -> Cluster {
    let numbers: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    let old = numbers.iter().map(|number| format!("-|-|-|-|-|True|k-node-{number}"));
    let new = comes(&numbers.iter().map(String::as_str).collect::<Vec<_>>(), 1, &format!("-|{until}|True|k-node-99"));
    Cluster::of(drain_seconds, &old.chain([new]).collect::<Vec<_>>())
}

#[test]
fn workers_are_drained_side_by_side_ten_at_a_time() {
    // Pods that stay on all of them, of which kubectl does not even tell: they take the time of one.
    let hanging = (0..5).fold(cluster_of_many(1, 5, "-"), |cluster, n| cluster.but(&format!("hangs-drain-k-node-{n}")));
    let begin = Instant::now();
    let calls = hanging.pass();
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_eq!((names(&calls, "drain").len(), names(&calls, "delete").len(), names(&calls, "annotate").len()), (5, 5, 1), "{calls:?}");

    let cluster = cluster_of_many(600, 14, "-");
    let calls = cluster.pass();
    assert_eq!((names(&calls, "drain").len(), names(&calls, "delete").len(), names(&calls, "annotate").len()), (14, 14, 1), "{calls:?}");
    let abreast: Vec<u32> = cluster.lines("abreast").iter().map(|line| line.trim().parse().expect("a number")).collect();
    let most = abreast.iter().max().copied().unwrap_or_default();
    assert!((2..=10).contains(&most), "{abreast:?}");
}

#[test]
fn drains_end_before_those_that_wait_give_up() {
    let until = |seconds: u64| in_seconds(seconds).to_string();
    // Whoever runs this may be slow.
    let about = |given: &[u64], most: u64| !given.is_empty() && given.iter().all(|seconds| (most - 15..=most).contains(seconds));
    let all = given(&cluster_of_many(600, 2, &until(5000)).pass());
    assert_eq!(all, [600, 600], "there is time enough");
    let short = given(&cluster_of_many(600, 2, &until(270)).pass());
    assert!(short.len() == 2 && about(&short, 200), "{short:?}");
    let shared = given(&cluster_of_many(600, 11, &until(270)).pass());
    assert!(shared.len() == 11 && about(&shared, 95), "{shared:?}");
    // What they were to replace stays when they have given up, or are about to.
    assert_eq!(cluster_of_many(600, 2, &until(65)).pass(), [""; 0]);
    assert_eq!(cluster_of_many(600, 2, "1000000000").pass(), [""; 0]);
    // Of two, the one that gives up first; not one that gave up long ago.
    for (first, second, most) in [(until(270), until(400), 200), (until(400), "1000000000".to_owned(), 330)] {
        let new = |until: &str, name: &str| comes(&["0", "1"], 2, &format!("-|{until}|True|{name}"));
        let given = given(&Cluster::of::<&str>(600, &[OLD[0], OLD[1], &new(&first, "k-node-3"), &new(&second, "k-node-4")]).pass());
        assert!(about(&given, most), "{given:?}");
    }
    // Another worker of the group says the same, and when it likes: it keeps nobody from going.
    for (copied, most) in [(until(5), 200), ("9".repeat(30), 330)] {
        let new = |until: &str, name: &str| comes(&["0", "1"], 2, &format!("-|{until}|True|{name}"));
        let nodes =
            [OLD[0].to_owned(), OLD[1].to_owned(), new(&copied, "k-node-2"), new(&until(270), "k-node-3"), new(&until(400), "k-node-4")];
        let given = given(&Cluster::of(600, &nodes).pass());
        assert!(about(&given, most), "{copied}: {given:?}");
    }
}

#[test]
fn workers_say_by_which_order_and_until_when_they_wait() {
    let (common, worker) = (include_str!("../../scripts/common.sh"), include_str!("../../scripts/worker.sh"));
    let functions = [function(common, "replaced_nodes"), function(worker, "replace_workers")].concat();
    // What they are told is what they replace, at once.
    let stubs = "step() { :; }\nkubectl() {\n  case \"$*\" in\n    *annotate*) echo \"$*\" >> calls ;;\n    *label*) echo \"$*\" >> labels ;;\n    \
                 *) echo k-node-0,k-node-1 ;;\n  esac\n}\n";
    let values = "NODE_NAME=k-node-3 REPLACES=0,1 NEWCOMERS=2 BASE=.\necho -n 00ff > order\n";
    for (wait_seconds, wanted) in [(2700, 1500), (1000, 880)] {
        let script = format!("{stubs}{functions}{values}replace_workers\n");
        let cluster = Cluster::of::<&str>(600, &[]);
        let (is_done, calls) = cluster.run(&["-euo", "pipefail"], &script, wait_seconds);
        assert!(is_done && calls.len() == 1, "{calls:?}");
        // As long as it waits it bears a label.
        let label = |rest: &str| format!("--request-timeout 20s label node k-node-3 {rest}");
        let labels = ["--overwrite magnum.openstack.org/replaces=", "magnum.openstack.org/replaces-"].map(label);
        assert_eq!(cluster.lines("labels"), labels);
        assert!(calls[0].contains(" magnum.openstack.org/order=00ff "), "{calls:?}");
        let said: u64 = calls[0].split_once("magnum.openstack.org/until=").expect("it says so").1.parse().expect("a number");
        assert!((in_seconds(wanted - 15)..=in_seconds(wanted)).contains(&said), "{calls:?}");
    }
}

const MASTERS: [&str; 2] = ["-|-|-|-|-|True|m-0", "-|-|-|-|-|True|m-1"];

#[test]
fn a_master_is_drained_before_it_goes_whatever_fails_first() {
    let gone = ["etcdctl member list", "etcdctl member remove a0", "--request-timeout 20s delete node m-0 --ignore-not-found"];
    for (fault, drains) in [("none", 1), ("once-get-m-0", 1), ("once-drain-m-0", 2)] {
        let (is_done, calls) = Cluster::of(600, &MASTERS).but(fault).see_off(&["m-0"], 2700);
        assert!(is_done && names(&calls, "drain").len() == drains, "{fault}: {calls:?}");
        assert_eq!(calls[drains..], gone, "{fault}");
    }
    let (is_done, calls) = Cluster::of(600, &MASTERS).but("gone-m-0").see_off(&["m-0"], 2700);
    assert!(is_done && calls == gone, "{calls:?}");
    // When its time is over it goes all the same.
    for (fault, least) in [("always-drain-m-0", 2), ("hangs-drain-m-0", 1)] {
        let (is_done, calls) = Cluster::of(3, &MASTERS).but(fault).see_off(&["m-0"], 2700);
        let drains = names(&calls, "drain").len();
        assert!(is_done && drains >= least && !given(&calls).contains(&0), "{fault}: {calls:?}");
        assert_eq!(calls[drains..], gone, "{fault}");
    }
}

#[test]
fn drains_of_masters_leave_time_for_etcd_and_the_signal() {
    let about = |given: u64, most: u64| (most - 15..=most).contains(&given);
    let both = |wait_seconds| given(&Cluster::of(600, &MASTERS).see_off(&["m-0", "m-1"], wait_seconds).1);
    assert_eq!(both(2700), [600, 600]);
    let shared = both(420);
    assert!(shared.len() == 2 && about(shared[0], 150) && about(shared[1], 300), "{shared:?}");
    assert_eq!(both(120), [30, 30], "a moment, at the least");
}

#[test]
fn a_member_of_etcd_that_stays_is_not_waited_for_after_the_last_try() {
    let cluster = Cluster::of(600, &MASTERS).but("stuck");
    let (is_done, calls) = cluster.see_off(&["m-0"], 2700);
    assert!(!is_done && names(&calls, "delete").is_empty(), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "etcdctl member list").count(), 5);
    assert_eq!(cluster.lines("slept"), ["5", "10", "15", "20"]);
}

/// The one that others are to ask first comes first.
const MEMBERS: [&str; 3] = [
    "a3, started, m-3, https://192.0.2.13:2380, https://192.0.2.13:2379, false",
    "a0, started, m-0, https://192.0.2.10:2380, https://192.0.2.10:2379, false",
    "a1, started, m-1, https://192.0.2.11:2380, https://192.0.2.11:2379, false",
];
const NODE_GONE: &str = "--request-timeout 20s delete node m-3 --ignore-not-found";

/// A cluster with a third master, of this readiness.
fn of_three(readiness: &str) -> Cluster {
    Cluster::of::<&str>(600, &[MASTERS[0], MASTERS[1], &format!("-|-|-|-|-|{readiness}|m-3")]).with_etcd(&MEMBERS)
}

#[test]
fn a_dead_member_of_etcd_goes_before_its_successor_joins() {
    assert_eq!(of_three("Unknown").but("dead-m-3").clear_etcd("0,3"), ["remove a3", NODE_GONE]);
    // What runs on a machine that is there is drained in its turn.
    assert_eq!(of_three("True").but("dead-m-3").clear_etcd("0,3"), ["remove a3"]);
    assert_eq!(of_three("False").but("dead-m-3").clear_etcd("0,3"), ["remove a3"]);
}

#[test]
fn members_of_etcd_that_are_well_or_are_to_stay_stay() {
    let cluster = of_three("True");
    assert_eq!(cluster.clear_etcd("0,1,3"), [""; 0], "all are well");
    assert_eq!(cluster.lines("said"), [""; 0]);
    assert_eq!(of_three("Unknown").but("dead-m-3").clear_etcd("0,1"), [""; 0], "nobody replaces it");
    // No name is a part of another one.
    assert_eq!(of_three("Unknown").but("dead-m-3").clear_etcd("33,13"), [""; 0]);
    assert_eq!(of_three("Unknown").but("once-dead-m-3").clear_etcd("0,3"), [""; 0], "it has started meanwhile");
    assert_eq!(of_three("Unknown").but("unwell").clear_etcd("0,1,3"), [""; 0], "then no single one is at fault");
}

#[test]
fn what_a_join_left_in_etcd_goes_whoever_left_it() {
    let unstarted = "b5, unstarted, , https://192.0.2.15:2380, , false";
    let unstarted_learner = "b6, unstarted, , https://192.0.2.16:2380, , true";
    let learner = "b3, started, m-3, https://192.0.2.13:2380, https://192.0.2.13:2379, true";
    for (left, gone) in [(unstarted, "remove b5"), (unstarted_learner, "remove b6"), (learner, "remove b3")] {
        let cluster = of_three("Unknown").with_etcd(&[left, MEMBERS[1], MEMBERS[2]]);
        assert_eq!(cluster.clear_etcd("0"), [gone], "{left}");
        assert_eq!(cluster.lines("etcd"), MEMBERS[1..], "{left}");
    }
    let cluster = of_three("Unknown").with_etcd(&[learner, MEMBERS[1], MEMBERS[2]]);
    assert_eq!(cluster.clear_etcd("0,3"), ["remove b3", NODE_GONE]);
    let cluster = of_three("Unknown").with_etcd(&[MEMBERS[0], MEMBERS[1], MEMBERS[2], unstarted]).but("dead-m-3");
    assert_eq!(cluster.clear_etcd("0,3"), ["remove a3", NODE_GONE, "remove b5"]);
}

#[test]
fn a_master_joins_though_etcd_cannot_be_asked_or_lets_nobody_go() {
    let cluster = of_three("Unknown").but("dead-m-3").but("unreachable");
    assert_eq!(cluster.clear_etcd("0,3"), [""; 0]);
    let said = cluster.lines("said");
    assert!(said.len() == 1 && said[0].contains("etcd has no quorum"), "{said:?}");
    let cluster = of_three("Unknown").but("dead-m-3").but("stuck");
    assert_eq!(cluster.clear_etcd("0,3"), ["remove a3"; 5], "and its node stays");
}

/// What a node that joins in vain does and says of itself, first and in the end; `more` stands before.
fn joins_in_vain(more: &str) -> (Cluster, Vec<String>) {
    let (common, install) = (include_str!("../../scripts/common.sh"), include_str!("../../scripts/install.sh"));
    let functions = ["mark", "standing", "begin_to_join"].map(|name| function(common, name)).concat() + function(install, "join");
    let stubs = r#"
sync() { :; }
printf '#!/bin/bash\necho "kubeadm $1" >> "${0%%/*}/calls"\necho reset\n[ ! -e "${0%%/*}/irremovable" ]\n' > kubeadm
chmod 0755 kubeadm
fails() { echo join >> calls; return 1; }
again() { echo again >> calls; }
signal() { echo "signal $*" >> calls; }
STATE=. NODE_NAME=k-node-3
"#;
    let cluster = Cluster::of::<&str>(600, &[]);
    let script = format!("{stubs}{functions}{more}\njoin fails again > said || {{ standing >> standings; false; }}\n");
    let (is_done, calls) = cluster.run(&["-euo", "pipefail"], &script, 2700);
    assert!(!is_done, "{calls:?}");
    (cluster, calls)
}

#[test]
fn a_join_that_has_failed_leaves_nothing_after_the_last_try_either() {
    let (cluster, calls) = joins_in_vain("");
    let mut wanted = ["join", "kubeadm reset", "again"].repeat(5);
    wanted.pop();
    assert_eq!(calls, wanted);
    // The last words that are told are those of the join.
    assert_eq!((cluster.lines("said").len(), cluster.lines("reset.log").len()), (0, 5));
}

#[test]
fn a_node_is_no_part_of_the_cluster_before_it_joins_and_when_it_was_put_back() {
    // What runs here beside the test is not its to know: a kubelet of this machine would be taken for the node's.
    let (cluster, _) = joins_in_vain("grep() { return 1; }\nstanding >> standings\nbegin_to_join\nstanding >> standings");
    assert_eq!(cluster.lines("standings"), ["absent", "k-node-3", "absent"]);
    for (what, more) in [("a reset that failed", "touch irremovable"), ("a part that runs on", "grep() { return 0; }")] {
        assert_eq!(joins_in_vain(more).0.lines("standings"), ["k-node-3"], "{what}");
    }
}

#[test]
fn a_node_that_said_that_it_is_none_takes_that_back_before_it_joins() {
    let (_, calls) = joins_in_vain("standing");
    assert_eq!(calls[..2], ["signal FAILURE k-node-3 tries once more k-node-3", "join"]);
    let (_, calls) = joins_in_vain("");
    assert!(!calls.iter().any(|call| call.starts_with("signal")), "{calls:?}");
    // It does not join where nobody hears it.
    let (_, calls) = joins_in_vain("signal() { return 1; }\nstanding");
    assert!(!calls.contains(&"join".to_owned()), "{calls:?}");
}

#[test]
fn all_workers_that_come_come_at_once() {
    // Heat would make one after the other and wait for each, and none is ready before all of its batch are.
    let shipped = &crate::SHIPPED_TEMPLATES;
    let rolling = [&shipped.cluster, &shipped.group].map(|template| template.matches("rolling_update:").count());
    assert_eq!(rolling, [1, 0], "that of the masters");
}
