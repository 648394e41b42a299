//! What a run came to, as a table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use model::operation::Operation;

use super::check::{Finding, Wrong};
use super::ledger::{Answered, CANCEL, Entry};
use super::takeover::{Takeover, quantile};
use super::trouble::What;

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
    pub troubles: BTreeMap<What, u32>,
    pub takeovers: Vec<Takeover>,
    /// Takeovers from owners who were alive and could not renew.
    pub other_takeovers: usize,
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

    /// The takeover target that was missed.
    fn missed(&self) -> Option<String> {
        let seconds = self.seconds();
        let over = |share, limit| quantile(&seconds, share).is_some_and(|value| value > limit);
        (over(0.5, P50) || over(0.99, P99)).then(|| format!("takeovers are slower than p50 {P50} s and p99 {P99} s"))
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
        let accepted = self.entries.iter().filter(|entry| entry.is_work()).count();
        writeln!(
            out,
            "{accepted} operations accepted, {} conductors, {} APIs, seed {}: {} s of trouble, {} s to drain, {} s in all",
            self.conductors,
            self.apis,
            self.seed,
            self.trouble_took.as_secs(),
            self.drain_took.as_secs(),
            self.took.as_secs()
        )?;
        let refused = self.entries.iter().filter(|e| matches!(e.answered, Answered::Refused(_))).count();
        let cancels = self.entries.iter().filter(|e| e.what == CANCEL && e.answered == Answered::Accepted).count();
        let repeated = self.entries.iter().filter(|e| !e.repeated.is_empty()).count();
        writeln!(out, "{refused} requests refused, {cancels} cancellations, {repeated} requests sent again until they were answered\n")?;
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
        writeln!(out, "\n| trouble | times |\n|---|---:|")?;
        for (what, count) in &self.troubles {
            writeln!(out, "| {} | {count} |", what.words())?;
        }
        let total: u32 = self.troubles.values().sum();
        writeln!(out, "| all | {total} |\n")?;
        self.times(out)?;
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
        let states = ["SUCCEEDED", "FAILED", "SUPERSEDED", "CANCELLED"];
        let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for row in &self.operations {
            for kind in [row.kind.as_str(), "~"] {
                *counts.entry(kind).or_default().entry(&row.state).or_default() += 1;
            }
        }
        writeln!(out, "| operation | succeeded | failed | superseded | cancelled | unfinished |\n|---|---:|---:|---:|---:|---:|")?;
        for (kind, by_state) in counts {
            let count = |state: &str| by_state.get(state).copied().unwrap_or_default();
            let unfinished = count("QUEUED") + count("RUNNING");
            let cells = states.map(|state| count(state).to_string()).join(" | ");
            writeln!(out, "| {} | {cells} | {unfinished} |", if kind == "~" { "all" } else { kind })?;
        }
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &self.operations {
            if let Some(code) = row.outcome_code.as_deref() {
                *reasons.entry(code).or_default() += 1;
            }
        }
        let reasons: Vec<String> = reasons.iter().map(|(code, count)| format!("{code} {count}")).collect();
        writeln!(out, "\nOutcome codes of those that did not succeed: {}.", reasons.join(", "))
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
