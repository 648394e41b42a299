//! The answer of `magnum-status upgrade check`, in the table, the JSON and the exit codes of oslo.upgradecheck.

use std::fmt::Write;

use serde_json::{Value, json};

const TITLE: &str = "Upgrade Check Results";

/// Characters in a line of details.
const WIDTH: usize = 60;

/// How a check went; the number is upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing to do.
    Success = 0,
    /// It works, but somebody should look.
    Warning = 1,
    /// It will not work.
    Failure = 2,
}

/// Exit code for what should never happen.
pub const UNEXPECTED: u8 = 255;

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub verdict: Verdict,
    /// What is wrong and what to do about it; none after a success.
    pub details: Option<String>,
}

impl Check {
    /// A check in which some things may have been found: the worst of them decides, all are told.
    pub fn of(name: &'static str, found: Vec<Trouble>) -> Self {
        let verdict = found.iter().map(|trouble| trouble.verdict).max().unwrap_or(Verdict::Success);
        let texts: Vec<String> =
            found.into_iter().map(|trouble| format!("{} Cure: {}", sentence(trouble.problem), sentence(trouble.cure))).collect();
        Self { name, verdict, details: (!texts.is_empty()).then(|| texts.join(" ")) }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub verdict: Verdict,
    pub problem: String,
    pub cure: String,
}

impl Trouble {
    /// What will not work.
    pub fn failure(problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { verdict: Verdict::Failure, problem: problem.into(), cure: cure.into() }
    }

    /// What somebody should look at.
    pub fn warning(problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, problem: problem.into(), cure: cure.into() }
    }
}

fn sentence(mut text: String) -> String {
    if !text.ends_with(['.', '?', '!']) {
        text.push('.');
    }
    text
}

/// The exit code: the worst verdict.
pub fn exit_code(checks: &[Check]) -> u8 {
    checks.iter().map(|check| check.verdict as u8).max().unwrap_or(0)
}

/// The answer as upstream's `--json` prints it.
pub fn as_json(checks: &[Check]) -> Value {
    let each: Vec<Value> =
        checks.iter().map(|check| json!({"check": check.name, "result": check.verdict as u8, "details": check.details})).collect();
    json!({"name": TITLE, "checks": each})
}

/// The answer as a table.
pub fn as_table(checks: &[Check]) -> String {
    let cells: Vec<Vec<String>> = checks.iter().map(cell).collect();
    let width = cells.iter().flatten().map(|line| line.chars().count()).chain([TITLE.len()]).max().unwrap_or(0);
    let rule = format!("+{}+\n", "-".repeat(width + 2));
    let mut text = rule.clone();
    for cell in [vec![TITLE.to_owned()]].iter().chain(&cells) {
        for line in cell {
            writeln!(text, "| {line:width$} |").expect("writing to a string cannot fail");
        }
        text.push_str(&rule);
    }
    text
}

fn cell(check: &Check) -> Vec<String> {
    let mut lines = vec![format!("Check: {}", check.name), format!("Result: {:?}", check.verdict)];
    lines.extend(wrap(&format!("Details: {}", check.details.as_deref().unwrap_or("None"))));
    lines
}

/// Breaks between words; the lines after the first are indented.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if !last.trim().is_empty() && last.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("  {word}"));
            continue;
        }
        if !last.trim().is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> Vec<Check> {
        let long = Trouble::failure("the broker at 192.0.2.1:5672 refuses the login of magnum", "see [DEFAULT] transport_url");
        vec![Check::of("Policy", Vec::new()), Check::of("Broker", vec![Trouble::warning("one of two is away", "start it"), long])]
    }

    #[test]
    fn the_table_is_upstreams() {
        let wanted = "\
+--------------------------------------------------------------+
| Upgrade Check Results                                        |
+--------------------------------------------------------------+
| Check: Policy                                                |
| Result: Success                                              |
| Details: None                                                |
+--------------------------------------------------------------+
| Check: Broker                                                |
| Result: Failure                                              |
| Details: one of two is away. Cure: start it. the broker at   |
|   192.0.2.1:5672 refuses the login of magnum. Cure: see      |
|   [DEFAULT] transport_url.                                   |
+--------------------------------------------------------------+
";
        let table = as_table(&checks());
        let squeeze = |text: &str| text.lines().map(|l| l.trim_matches(['|', '+', '-']).trim().to_owned()).collect::<Vec<_>>();
        assert_eq!(squeeze(&table), squeeze(wanted), "{table}");
        let widths: Vec<usize> = table.lines().map(str::len).collect();
        assert!(widths.iter().all(|width| *width == widths[0] && *width <= WIDTH + 4), "{table}");
    }

    #[test]
    fn the_worst_verdict_is_the_exit_code() {
        assert_eq!((exit_code(&[]), exit_code(&checks()), exit_code(&checks()[..1])), (0, 2, 0));
        assert_eq!(exit_code(&[Check::of("x", vec![Trouble::warning("a", "b")])]), 1);
        let json = as_json(&checks());
        assert_eq!(json["checks"][1]["result"], 2);
        assert_eq!(json["checks"][0], json!({"check": "Policy", "result": 0, "details": null}));
    }
}
