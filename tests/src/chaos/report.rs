//! What a run came to, as a table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use model::operation::{Operation, OperationKind, OperationState};

use super::check::{Finding, Wrong};
use super::ledger::{Answered, Entry};
use super::takeover::{Takeover, quantile};
use super::trouble::Count;
use super::trouble::kinds::LONG;
use super::wish::Makes;

/// The targets, in seconds.
const P50: f64 = 10.0;
const P99: f64 = 30.0;

/// All figures of a run.
pub struct Report {
    pub seed: u64,
    pub conductors: usize,
    pub apis: usize,
    pub entries: Vec<Entry>,
    pub operations: Vec<Operation>,
    pub troubles: Vec<Count>,
    /// What removals have left, by the words of their reports; it was removed as they name it.
    pub left: BTreeMap<String, usize>,
    pub takeovers: Vec<Takeover>,
    /// Takeovers from owners who were alive and could not renew.
    pub other_takeovers: usize,
    /// Notifications that came, and how many of them came again with the id that they had.
    pub told: usize,
    pub told_again: usize,
    pub findings: Vec<Finding>,
    /// While things went wrong.
    pub trouble_took: Duration,
    /// From then until everything had ended.
    pub drain_took: Duration,
    pub took: Duration,
}

impl Report {
    /// Whether everything is as it must be.
    pub fn is_good(&self) -> bool {
        self.findings.is_empty() && self.missed().is_none()
    }

    /// The targets that were missed, in words.
    fn missed(&self) -> Option<String> {
        let seconds = self.seconds();
        let over = |share, limit| quantile(&seconds, share).is_some_and(|value| value > limit);
        if over(0.5, P50) || over(0.99, P99) {
            return Some(format!("takeovers are slower than p50 {P50} s and p99 {P99} s"));
        }
        if self.accepted() < LONG {
            return None;
        }
        if seconds.is_empty() {
            return Some("nothing was taken over".to_owned());
        }
        let rare: Vec<String> = self.troubles.iter().filter(|count| count.times < count.least).map(|count| count.what.words()).collect();
        let unasked: Vec<&str> = OperationKind::ALL.iter().map(|kind| kind.as_str()).filter(|kind| self.accepted_of(kind) == 0).collect();
        match (&rare[..], &unasked[..]) {
            ([], []) => None,
            ([], _) => Some(format!("operations that were never accepted: {}", unasked.join(", "))),
            _ => Some(format!("troubles that were too rare: {}", rare.join("; "))),
        }
    }

    fn accepted(&self) -> usize {
        self.entries.iter().filter(|entry| entry.is_work()).count()
    }

    /// Accepted requests for an operation of this kind, by the users' book; of a retry the operation says which kind it is.
    fn accepted_of(&self, kind: &str) -> usize {
        let is_of_kind = |entry: &&Entry| match entry.wish.makes() {
            Makes::One(asked) => asked.as_str() == kind,
            Makes::Again => self.operations.iter().any(|row| row.kind == kind && Some(&row.uuid) == entry.operation.as_ref()),
            Makes::Nothing => false,
        };
        self.entries.iter().filter(|entry| entry.is_work()).filter(is_of_kind).count()
    }

    fn seconds(&self) -> Vec<f64> {
        let mut seconds: Vec<f64> = self.takeovers.iter().map(|takeover| takeover.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        seconds
    }

    /// The table.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a text takes everything");
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "{} operations accepted, {} conductors, {} APIs, seed {}: {} s of trouble, {} s to drain, {} s in all",
            self.accepted(),
            self.conductors,
            self.apis,
            self.seed,
            self.trouble_took.as_secs(),
            self.drain_took.as_secs(),
            self.took.as_secs()
        )?;
        let refused = self.entries.iter().filter(|e| matches!(e.answered, Answered::Refused(_))).count();
        let cancels = self.entries.iter().filter(|e| e.wish.is_cancellation() && e.is_accepted()).count();
        let repeated = self.entries.iter().filter(|e| !e.repeated.is_empty()).count();
        writeln!(out, "{refused} requests refused, {cancels} cancellations, {repeated} requests sent again until they were answered\n")?;
        writeln!(out, "{} notifications told, {} of them sent again with the same id\n", self.told, self.told_again)?;
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for reason in self.entries.iter().flat_map(|e| &e.repeated) {
            *reasons.entry(reason).or_default() += 1;
        }
        writeln!(out, "| sent again after | times |\n|---|---:|")?;
        for (reason, count) in reasons {
            writeln!(out, "| {reason} | {count} |")?;
        }
        writeln!(out)?;
        self.kinds(out)?;
        writeln!(out, "\n| trouble | times | at least |\n|---|---:|---:|")?;
        for Count { what, times, least } in &self.troubles {
            writeln!(out, "| {} | {times} | {least} |", what.words())?;
        }
        let total: usize = self.troubles.iter().map(|count| count.times).sum();
        writeln!(out, "| all | {total} | |\n")?;
        self.times(out)?;
        writeln!(out, "\n| left by a removal and named by its report | count |\n|---|---:|")?;
        for (kind, count) in &self.left {
            writeln!(out, "| {kind} | {count} |")?;
        }
        writeln!(out, "\n| | |\n|---|---:|")?;
        for wrong in Wrong::ALL {
            let count = self.findings.iter().filter(|finding| finding.wrong == wrong).count();
            writeln!(out, "| {} | {count} |", wrong.word())?;
        }
        if let Some(missed) = self.missed() {
            writeln!(out, "\n{missed}")?;
        }
        Ok(())
    }

    fn kinds(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "| operation | accepted | joined one that was there | succeeded | failed | superseded | cancelled before it began | unfinished |\n\
             |---|---:|---:|---:|---|---:|---:|---:|"
        )?;
        for kind in OperationKind::ALL {
            let word = kind.as_str();
            let rows: Vec<&Operation> = self.operations.iter().filter(|row| row.kind == word).collect();
            line(out, word, self.accepted_of(word), &rows)?;
        }
        line(out, "all", self.accepted(), &self.operations.iter().collect::<Vec<_>>())
    }

    fn times(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "| takeover after | count | p50 | p99 | longest |\n|---|---:|---:|---:|---:|")?;
        let mut by_cause: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for takeover in &self.takeovers {
            for cause in [takeover.how, "~"] {
                by_cause.entry(cause).or_default().push(takeover.seconds);
            }
        }
        for (cause, mut seconds) in by_cause {
            seconds.sort_by(f64::total_cmp);
            let at = |share| quantile(&seconds, share).map_or_else(|| "-".to_owned(), |value| format!("{value:.1} s"));
            let cause = if cause == "~" { "all" } else { cause };
            writeln!(out, "| {cause} | {} | {} | {} | {} |", seconds.len(), at(0.5), at(0.99), at(1.0))?;
        }
        writeln!(out, "\nTaken over from owners who were alive and could not renew: {}.", self.other_takeovers)
    }
}

/// A line of the table of operations. Those that failed are told by their codes.
fn line(out: &mut String, name: &str, accepted: usize, rows: &[&Operation]) -> std::fmt::Result {
    let of = |state: OperationState| rows.iter().filter(move |row| row.state() == Some(state));
    let count = |state| of(state).count();
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    for row in of(OperationState::Failed) {
        *codes.entry(row.outcome_code.as_deref().unwrap_or("without a code")).or_default() += 1;
    }
    let failed = match codes.values().sum::<usize>() {
        0 => "0".to_owned(),
        all => {
            let each: Vec<String> = codes.iter().map(|(code, count)| format!("{code} {count}")).collect();
            format!("{all} ({})", each.join(", "))
        }
    };
    writeln!(
        out,
        "| {name} | {accepted} | {} | {} | {failed} | {} | {} | {} |",
        // Whoever asks once more for a deletion that is under way is told of that one.
        accepted.saturating_sub(rows.len()),
        count(OperationState::Succeeded),
        count(OperationState::Superseded),
        count(OperationState::Cancelled),
        count(OperationState::Queued) + count(OperationState::Running)
    )
}
