//! What is left of the time of an operation and of the step that it is at, and what is told when it is over.
//!
//! The operation's end is in its row. That of a step follows from the event of its beginning and from what the operator says of such steps. Where
//! he says nothing of any, nothing is read for it: a step may take as long as its operation.

use std::time::Duration;

use model::operation::{OperationKind, OutcomeCode};
use model::store::operation::{self, STEP};
use model::store::{Conn, StoreError, event};
use model::time::{from_millis, now};

use super::Work;
use crate::context::Context;
use crate::cure;
use crate::outcome::Failure;

/// When it is looked again, where the database could not be asked for the step.
const SOON: Duration = Duration::from_secs(1);

/// What is left until the operation must have ended, or the step that it is at.
///
/// # Errors
/// When the database cannot be asked for the step.
pub(super) async fn left(cx: &Context, work: &Work) -> Result<Duration, StoreError> {
    let (kind, deadline_ms) = (work.operation.kind(), work.operation.deadline_ms);
    let (limits, whole) = (&cx.settings.step_limits, until(deadline_ms));
    if whole.is_zero() || !limits.bound(kind) {
        return Ok(whole);
    }
    let id = &work.operation.operation_id();
    let steps = cx.store.read(async |conn: &mut Conn| event::latest(conn, id, &[STEP], 1).await).await?;
    Ok(steps.last().map_or(whole, |step| {
        let since = work.at_step_since(&step.message, step.at_ms);
        until(limits.end_ms(kind, &step.message, since, deadline_ms))
    }))
}

/// As [`left`], for who rests: where the database cannot be asked, the next turn comes soon and meets that.
pub(crate) async fn left_at_rest(cx: &Context, work: &Work) -> Duration {
    // Thousands rest at a time: what is needed for the question is gone with the answer.
    Box::pin(left(cx, work)).await.unwrap_or(SOON)
}

/// As [`left`], for who pauses after something has failed: where the database cannot be asked, what the operation as a whole has left.
pub(super) async fn left_or_whole(cx: &Context, work: &Work) -> Duration {
    Box::pin(left(cx, work)).await.unwrap_or_else(|_| until(work.operation.deadline_ms))
}

/// Ends when the time is over of which so much was left. The operation may come to other steps meanwhile: each of them is seen before its time can
/// be over.
pub(super) async fn overdue(cx: &Context, work: &Work, at_first: Duration) {
    let shortest = cx.settings.step_limits.shortest();
    let mut left = at_first;
    loop {
        tokio::time::sleep(shortest.map_or(left, |shortest| shortest.min(left))).await;
        left = left_at_rest(cx, work).await;
        if left.is_zero() {
            return;
        }
    }
}

/// What is told when the time is over.
pub(super) async fn over(cx: &Context, work: &Work) -> Failure {
    if work.operation.understood().is_none() {
        return Failure::fail(OutcomeCode::Timeout, "asked of a newer version of this service, of which no conductor took it in time");
    }
    let id = &work.operation.operation_id();
    let read = async |conn: &mut Conn| {
        let row = operation::find(conn, id).await?;
        Ok::<_, StoreError>((row, event::latest(conn, id, &[STEP], 1).await?.pop()))
    };
    let (row, step) = cx.store.read(read).await.unwrap_or_default();
    let step = step.map(|step| (work.at_step_since(&step.message, step.at_ms), step.message));
    let (kind, deadline_ms) = (work.operation.kind(), work.operation.deadline_ms);
    let limits = &cx.settings.step_limits;
    let is_of_step = !until(deadline_ms).is_zero();
    let is_over = |(since, step): &(i64, String)| until(limits.end_ms(kind, step, *since, deadline_ms)).is_zero();
    if is_of_step && !step.as_ref().is_some_and(is_over) {
        return Failure::retry("a step that was cut off as it ended");
    }
    let told = Over {
        limit: step.as_ref().and_then(|(_, step)| limits.of(kind, step)).filter(|_| is_of_step),
        allowance: work.operation.allowance(),
        step: step.as_ref().map(|(since, step)| (step.as_str(), (now() - from_millis(*since)).to_std().unwrap_or_default())),
        waiting_for: row.as_ref().and_then(|row| row.waiting_for.as_deref()),
        // What these could not do is told with each thing that they left.
        has_cure: !matches!(kind, Some(OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon)),
    };
    Failure::fail(OutcomeCode::Timeout, told.words())
}

/// How long it is until then; nothing for what has been.
fn until(ms: i64) -> Duration {
    (from_millis(ms) - now()).to_std().unwrap_or_default()
}

/// What is over.
struct Over<'a> {
    /// The step's own time, where that is over.
    limit: Option<Duration>,
    /// The operation's.
    allowance: Duration,
    /// The step, and how long the operation has been at it; none before the first.
    step: Option<(&'a str, Duration)>,
    waiting_for: Option<&'a str>,
    has_cure: bool,
}

impl Over<'_> {
    fn words(&self) -> String {
        let awaited = self.waiting_for.map(|text| text.trim_end_matches(['.', ' ']));
        let Some((step, since)) = self.step else {
            return format!("not done within {}; was waiting for {}", lasting(self.allowance), awaited.unwrap_or("the first step"));
        };
        let what = match self.limit {
            Some(limit) => format!("step {step}: not done within {} ([operations] step_seconds)", lasting(limit)),
            None => format!("not done within {}", lasting(self.allowance)),
        };
        let since = lasting(since);
        let awaited = match awaited {
            Some(awaited) => format!("was waiting for {awaited}, at step {step} for {since}"),
            None => format!("was at step {step} for {since}"),
        };
        let cure = if self.has_cure { format!(". Likely cure: {}", cure::of_step(step)) } else { String::new() };
        format!("{what}; {awaited}{cure}")
    }
}

fn lasting(time: Duration) -> String {
    match time.as_secs() {
        1 => "1 second".to_owned(),
        60 => "1 minute".to_owned(),
        seconds @ 0..120 => format!("{seconds} seconds"),
        seconds => format!("{} minutes", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use model::operation::STEPS;

    use super::*;

    #[test]
    fn what_is_over_is_told_with_the_step_the_thing_the_time_and_a_cure() {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let step = Some(("volumes", minutes(43)));
        let over = |limit, step, waiting_for, has_cure| Over { limit, allowance: minutes(60), step, waiting_for, has_cure }.words();
        let text = over(Some(minutes(30)), step, Some("volume pvc-1 detaching."), true);
        let said = "step volumes: not done within 30 minutes ([operations] step_seconds); was waiting for volume pvc-1 detaching, at step \
                    volumes for 43 minutes. Likely cure: ";
        assert_eq!(text.strip_prefix(said), Some(cure::of_step("volumes")), "{text}");
        let text = over(None, step, Some("volume pvc-1 detaching"), false);
        assert_eq!(text, "not done within 60 minutes; was waiting for volume pvc-1 detaching, at step volumes for 43 minutes");
        let text = over(Some(Duration::from_secs(90)), Some(("name", Duration::from_secs(91))), None, false);
        assert_eq!(text, "step name: not done within 90 seconds ([operations] step_seconds); was at step name for 91 seconds");
        let text = over(Some(minutes(1)), Some(("name", Duration::from_secs(1))), None, false);
        assert_eq!(text, "step name: not done within 1 minute ([operations] step_seconds); was at step name for 1 second");
        assert_eq!(over(None, None, None, true), "not done within 60 minutes; was waiting for the first step");
        assert_eq!(over(None, None, Some("the database"), true), "not done within 60 minutes; was waiting for the database");
    }

    /// By these words an operator bounds steps.
    #[test]
    fn steps_that_are_recorded_are_those_that_are_known() {
        let mut sources = Vec::new();
        gather(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut sources);
        let mut recorded: Vec<&str> = Vec::new();
        for source in &sources {
            recorded.extend(quoted(source, concat!("step: ", "\"")));
            if source.contains(concat!("step: ", "STEP")) {
                recorded.extend(quoted(source, concat!("const STEP: &str = ", "\"")));
            }
        }
        assert!(recorded.len() > STEPS.len(), "steps are not written so any more: {recorded:?}");
        for word in recorded {
            assert!(STEPS.contains(&word), "{word} is not among the steps");
        }
        for step in STEPS {
            let quoted = format!("\"{step}\"");
            assert!(sources.iter().any(|source| source.contains(&quoted)), "no operation comes to {step}");
        }
    }

    /// What stands between each of these beginnings and the next quotation mark.
    fn quoted<'s>(source: &'s str, begin: &str) -> Vec<&'s str> {
        source.match_indices(begin).filter_map(|(at, _)| source[at + begin.len()..].split('"').next()).collect()
    }

    /// The code of the crate but the text of its tests.
    fn gather(folder: &Path, sources: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                gather(&path, sources);
            } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") && !path.ends_with("cure.rs") {
                let text = std::fs::read_to_string(&path).expect("a source");
                sources.push(text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned());
            }
        }
    }
}
