//! Each weakness of upstream's that the table of `docs/differences.md` numbers has a test that bears its number, and each such test a line there.

use std::collections::BTreeMap;

use super::{Finding, Source, is_rust};

const RULE: &str = "weakness";
const TABLE: &str = "docs/differences.md";

/// The numbers, in small letters (`w3b`), with the places where they were first seen.
type Numbers = BTreeMap<String, (String, usize)>;

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(table) = sources.iter().find(|source| source.path == TABLE) else {
        return Vec::new();
    };
    let (mut told, mut tested) = (Numbers::new(), Numbers::new());
    for (i, line) in table.text.lines().enumerate() {
        if let Some(word) = line.strip_prefix("| W").and_then(|rest| rest.split(' ').next()) {
            note(&mut told, &format!("w{word}"), table, i);
        }
    }
    for source in sources.iter().filter(|source| is_rust(source)) {
        for (i, line) in source.text.lines().enumerate() {
            let name = line.trim_start().trim_start_matches("pub ").trim_start_matches("async ").strip_prefix("fn ");
            for word in name.unwrap_or_default().split('_').take_while(|word| is_number(word)) {
                note(&mut tested, word, source, i);
            }
        }
    }
    let lacking = |numbers: &Numbers, others: &Numbers, what: &str| -> Vec<Finding> {
        let alone = numbers.iter().filter(|(number, _)| !others.contains_key(*number));
        alone.map(|(number, (path, line))| Finding::new(path, *line, RULE, format!("{number} {what}"))).collect()
    };
    let mut findings = lacking(&told, &tested, "has no test that begins with its number");
    findings.extend(lacking(&tested, &told, &format!("has no line in {TABLE}")));
    findings
}

fn note(numbers: &mut Numbers, number: &str, source: &Source, line: usize) {
    if is_number(number) {
        numbers.entry(number.to_owned()).or_insert_with(|| (source.path.clone(), line + 1));
    }
}

fn is_number(word: &str) -> bool {
    word.strip_prefix('w').is_some_and(|rest| {
        let digits = rest.strip_suffix('b').unwrap_or(rest);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_number_without_a_test_and_a_test_without_a_line_are_found() {
        let tests = "    async fn w1_w19_what_is_lost_is_found() {\nfn w3b_a_group() {\nfn w7_not_told() {\nfn wait_for() {\n";
        let findings = check(&tree(&[
            (TABLE, "| W1 | lost |\n| W3b | group |\n| W19 | unseen |\n| W20 | asked |\n| Who | |\n"),
            ("tests/a.rs", tests),
        ]));
        let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "docs/differences.md:4: weakness: w20 has no test that begins with its number",
                "tests/a.rs:3: weakness: w7 has no line in docs/differences.md",
            ]
        );
    }
}
