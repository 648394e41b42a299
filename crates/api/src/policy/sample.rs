//! The sample policy file, made from the rules that hold by default.

use std::fmt::Write;

use super::defaults::{Act, BASE};

const HEADER: &str = "\
# Sample policy: every rule with its default. Take over only what you change: [oslo_policy] policy_file, by default policy.yaml beside
# magnum.conf. A change is in force within seconds; one that cannot be used is refused, named in the log, and changes nothing.
# This file is generated; a test compares it with the program.
";

/// The text of `deploy/policy.yaml.sample`.
pub(crate) fn sample() -> String {
    let mut text = HEADER.to_owned();
    let mut rule = |name: &str, text_of: &str| {
        writeln!(text, "#\"{name}\": \"{text_of}\"").expect("writing to a string cannot fail");
    };
    for default in BASE {
        rule(default.name, default.text);
    }
    for act in Act::ALL {
        rule(act.as_str(), act.rule());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Policy, PolicyFile, PolicyOptions};
    use super::*;

    #[test]
    fn the_file_in_deploy_is_the_generated_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/policy.yaml.sample");
        if std::env::var_os("UPDATE_SAMPLE").is_some() {
            std::fs::write(path, sample()).expect("write the sample");
        }
        let file = std::fs::read_to_string(path).expect("read the sample");
        assert!(file == sample(), "deploy/policy.yaml.sample is out of date: run this test with UPDATE_SAMPLE=1");
    }

    #[test]
    fn every_rule_of_the_sample_can_be_taken_over_as_it_stands() {
        let taken: String = sample().lines().filter_map(|line| line.strip_prefix("#\"")).map(|rest| format!("\"{rest}\n")).collect();
        assert_eq!(taken.lines().count(), BASE.len() + Act::ALL.len());
        let file = PolicyFile { name: "policy.yaml".to_owned(), text: taken };
        assert!(Policy::new(PolicyOptions::default(), &[file]).is_ok());
    }
}
