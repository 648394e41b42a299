//! Every script that a node of a representative cluster runs, before shellcheck: files, and what units have a shell do. Nobody has to name a new one
//! here.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::representative::first_boots;
use super::*;

/// Shells that shellcheck knows.
const SHELLS: [&str; 3] = ["bash", "dash", "sh"];

/// What a unit has a shell do.
#[derive(Debug, PartialEq, Eq)]
enum Run<'a> {
    File(&'a str),
    Text { shell: &'a str, text: String },
}

/// All that a unit has shells do.
fn runs(unit: &str) -> Vec<Run<'_>> {
    unit.lines().filter(|line| line.starts_with("Exec")).filter_map(run).collect()
}

/// What a line has a shell do, wherever in it the shell is named.
fn run(line: &str) -> Option<Run<'_>> {
    let mut rest = line.split_once('=')?.1;
    loop {
        let (word, arguments) = rest.split_once(' ')?;
        let program = word.trim_start_matches(['-', '@', ':', '+', '!', '|']);
        let shell = program.rsplit('/').next().unwrap_or(program);
        if SHELLS.contains(&shell) {
            return Some(run_by(shell, arguments));
        }
        rest = arguments;
    }
}

fn run_by<'a>(shell: &'a str, arguments: &'a str) -> Run<'a> {
    let quoted = arguments.strip_prefix("-c '").and_then(|text| text.strip_suffix('\''));
    match quoted.filter(|text| !text.contains('\'')) {
        // systemd makes one of two.
        Some(text) => Run::Text { shell, text: text.replace("$$", "$").replace("%%", "%") },
        None if arguments.starts_with('/') => Run::File(arguments.split(' ').next().unwrap_or(arguments)),
        None => panic!("{shell} {arguments}: write it as -c '...', or teach this test to read it"),
    }
}

/// A file as shellcheck is to see it. One that does not say what runs it is sourced by others: it reads what they set (SC2154), and they call its
/// functions (SC2317, SC2329).
fn of_file(name: &str, text: &str) -> String {
    if text.starts_with("#!") {
        return text.to_owned();
    }
    // What kubelet and not the shell is to expand.
    let further = if name == "extra-networks.sh" { ",SC2016" } else { "" };
    format!("# shellcheck shell=bash disable=SC2154,SC2317,SC2329{further}\n{text}")
}

fn of_unit(shell: &str, text: &str) -> String {
    format!("# shellcheck shell={shell}\n{text}\n")
}

/// Every script as shellcheck is to see it, once, with the first place where it stands.
fn scripts() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for boot in first_boots(&DISTROS) {
        let all = contents(&boot.data);
        for (path, text) in &all {
            let name = path.rsplit('/').next().unwrap_or(path);
            let place = || format!("{}-{name}", boot.name);
            if path.ends_with(".sh") || text.starts_with("#!") {
                assert!(!text.lines().any(|line| line.trim_start().starts_with(". /")), "{}: it sources what is not in it", place());
                found.entry(of_file(name, text)).or_insert_with(place);
            }
            if !path.starts_with("/etc/systemd/system/") {
                continue;
            }
            for run in runs(text) {
                match run {
                    Run::File(script) => {
                        // Else it would pass for one that others source.
                        let is_one = all.iter().any(|(path, text)| path == script && text.starts_with("#!"));
                        assert!(is_one, "{}: {script} is no script that says what runs it", place());
                    }
                    Run::Text { shell, text } => {
                        found.entry(of_unit(shell, &text)).or_insert_with(place);
                    }
                }
            }
        }
    }
    found
}

/// What shellcheck finds in scripts, if it finds anything; it is started once for all of them.
fn faults(scripts: &BTreeMap<String, String>) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut shellcheck = Command::new("shellcheck");
    // The files of values are made for each node (SC1091).
    shellcheck.args(["--norc", "--exclude=SC1091"]).current_dir(folder.path());
    for (number, (text, place)) in scripts.iter().enumerate() {
        let name = format!("{number}-{place}");
        fs::write(folder.path().join(&name), text).expect("it is written");
        shellcheck.arg(name);
    }
    let output = shellcheck.output().unwrap_or_else(|error| panic!("shellcheck: {error} (`cargo xtask test` installs it)"));
    let said = [output.stdout, output.stderr].concat();
    (!output.status.success()).then(|| String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn every_script_passes_shellcheck() {
    let scripts = scripts();
    if let Some(found) = faults(&scripts) {
        panic!("{found}");
    }
    assert!(scripts.values().any(|place| place.ends_with("-kubelet.service")), "what units have a shell do is not looked at");
    // Of whatever lies among the scripts all is on some node, and so was looked at.
    let lines: BTreeSet<&str> = scripts.keys().flat_map(|text| text.lines()).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/driver/heat/scripts");
    for entry in fs::read_dir(folder).expect("the folder of scripts") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a text");
        // A node gets no comments, and what a script sources there in its place.
        let own = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.starts_with(". /"));
        let missing: Vec<&str> = own.filter(|line| !lines.contains(*line)).collect();
        assert_eq!(missing, [""; 0], "{}", path.display());
    }
}

#[test]
fn a_fault_is_found_in_a_script_in_one_that_others_source_and_in_a_unit() {
    let unit = "[Service]\nExecStartPre=-/sbin/modprobe overlay\nExecStartPre=-/bin/sh -c 'word=$$1; echo $$word'\nExecStart=/bin/bash /a/b.sh c\n";
    let of_units = runs(unit);
    let Run::Text { shell, text } = &of_units[0] else { panic!("{of_units:?}") };
    assert_eq!((*shell, text.as_str()), ("sh", "word=$1; echo $word"));
    assert_eq!(of_units[1..], [Run::File("/a/b.sh")]);
    let fault = "word=$1\necho $word\n";
    for bad in [of_file("all.sh", &format!("#!/bin/bash\n{fault}")), of_file("part.sh", fault), of_unit(shell, text)] {
        let good = of_file("good.sh", "#!/bin/bash\necho \"$1\"\n");
        let said = faults(&BTreeMap::from([(good, "good".to_owned()), (bad, "bad".to_owned())])).expect("it finds nothing at all");
        assert!(said.contains("-bad line") && said.contains("SC2086") && !said.contains("-good line"), "{said}");
    }
}
