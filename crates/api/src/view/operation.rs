//! Operations as clients see them.

use model::operation::{Fault, LastCloudError, Operation, OperationEvent, OperationKind, OperationState, OutcomeCode, StepLimits};
use model::store::operation::STEP;
use model::time::from_millis;
use serde::Serialize;

use super::links::Links;
use super::page::Next;
use super::shape::{LINKS, MAYBE_COUNT, MAYBE_TEXT, MAYBE_TIME, NEXT, Object, Property, Shape};
use super::time::Time;

const OUTCOME: Shape = Shape::Nullable(&Shape::OneOf(OutcomeCode::WORDS));
const FAULT: Shape = Shape::Nullable(&Shape::OneOf(Fault::WORDS));

static LAST_ERROR: Object = Object {
    name: "LastCloudError",
    properties: &[
        Property::always("service", Shape::Text, "The service that was asked, by its project's name."),
        Property::always("operation", Shape::Text, "What it was asked for."),
        Property::always("status", MAYBE_COUNT, "The HTTP status of its answer; null without an answer."),
        Property::always("message", Shape::Text, "Its own words."),
        Property::always("request_id", MAYBE_TEXT, "Its own id of the request, for its logs."),
        Property::always("count", Shape::Integer(1), "How often in a row it failed like this."),
        Property::always("at", Shape::Time, "When it failed last."),
    ],
    like: None,
};

static STEP_SHAPE: Object = Object {
    name: "OperationStep",
    properties: &[
        Property::always("step", Shape::Text, "The step, a short word."),
        Property::always("started_at", Shape::Time, "When it began."),
        Property::always(
            "deadline",
            Shape::Time,
            "When it ends at the latest: with its operation, or before where the operator bounds such steps.",
        ),
        Property::always("finished_at", MAYBE_TIME, "When the next one began, or the operation ended."),
    ],
    like: None,
};

/// What lists show of an operation.
macro_rules! operation_properties {
    ($($more:expr),* $(,)?) => {
        &[
            Property::always("uuid", Shape::Uuid, "The operation's uuid."),
            Property::always("kind", Shape::OneOf(OperationKind::WORDS), "What is to be done."),
            Property::always("cluster_id", Shape::Text, "The uuid of the cluster, which may be gone."),
            Property::always("project_id", Shape::Text, "The project of the cluster."),
            Property::always("user_id", Shape::Text, "Who asked."),
            Property::always("request_id", MAYBE_TEXT, "The id of the request."),
            Property::always("state", Shape::OneOf(OperationState::WORDS), "Where it stands."),
            Property::always("outcome_code", OUTCOME, "Why it failed, in a word."),
            Property::always("fault", FAULT, "Who can do something about the failure."),
            Property::always("outcome_reason", MAYBE_TEXT, "Why it failed, or gave way."),
            Property::always("retry_of", Shape::Nullable(&Shape::Uuid), "The failed operation that it does again."),
            Property::always("cancel_asked_at", MAYBE_TIME, "When its end was asked for while it was worked on."),
            Property::always("attempt", Shape::Integer(0), "How often a conductor took it."),
            Property::always("step", Shape::Text, "The step at work, or the last one."),
            Property::always("waiting_for", MAYBE_TEXT, "What is waited for."),
            Property::always("percent", MAYBE_COUNT, "How much is done; null while that is not known."),
            Property::always("done", Shape::Integer(0), "Cloud resources complete."),
            Property::always("total", Shape::Integer(0), "Cloud resources in all; 0 while that is not known."),
            Property::always("last_error", Shape::Nullable(&Shape::Object(&LAST_ERROR)), "The last call to the cloud that failed."),
            Property::always("deadline", Shape::Time, "When it ends at the latest; while no conductor has taken it, as if one took it when it was accepted."),
            Property::always("created_at", Shape::Time, "When it was accepted."),
            Property::always("started_at", MAYBE_TIME, "When a conductor took it for the first time."),
            Property::always("updated_at", Shape::Time, "When it was changed last."),
            Property::always("finished_at", MAYBE_TIME, "When it ended."),
            Property::always("links", LINKS, "Where it is."),
            $($more),*
        ]
    };
}

static SUMMARY: Object = Object { name: "OperationSummary", properties: operation_properties![], like: None };

/// One operation, alone.
pub static OPERATION: Object = Object {
    name: "Operation",
    properties: operation_properties![Property::always("steps", Shape::List(&Shape::Object(&STEP_SHAPE)), "Its steps, in order.")],
    like: None,
};

/// A list.
pub static PAGE: Object = Object {
    name: "Operations",
    properties: &[Property::always("operations", Shape::List(&Shape::Object(&SUMMARY)), "The operations."), NEXT],
    like: None,
};

/// What an action on a cluster is answered with.
pub static ACTED: Object = Object {
    name: "AcceptedOperation",
    properties: &[
        Property::always("uuid", Shape::Uuid, "The cluster that is being worked on."),
        Property::always(
            "operation_id",
            Shape::Uuid,
            "The operation that does it, which may have been there before, or that was cancelled.",
        ),
    ],
    like: None,
};

/// The answer to an action.
#[derive(Serialize)]
pub struct Acted<'a> {
    pub uuid: &'a str,
    pub operation_id: &'a str,
}

#[derive(Serialize)]
struct ErrorView {
    service: String,
    operation: String,
    status: Option<u16>,
    message: String,
    request_id: Option<String>,
    count: u32,
    at: Time,
}

#[derive(Serialize)]
struct StepView<'a> {
    step: &'a str,
    started_at: Time,
    deadline: Time,
    finished_at: Option<Time>,
}

/// An operation.
#[derive(Serialize)]
pub struct OperationView<'a> {
    uuid: &'a str,
    kind: &'a str,
    cluster_id: &'a str,
    project_id: &'a str,
    user_id: &'a str,
    request_id: Option<&'a str>,
    state: &'a str,
    outcome_code: Option<&'static str>,
    fault: Option<&'static str>,
    outcome_reason: Option<&'a str>,
    retry_of: Option<String>,
    cancel_asked_at: Option<Time>,
    attempt: i32,
    step: &'a str,
    waiting_for: Option<&'a str>,
    percent: Option<i64>,
    done: i32,
    total: i32,
    last_error: Option<ErrorView>,
    deadline: Time,
    created_at: Time,
    started_at: Option<Time>,
    updated_at: Time,
    finished_at: Option<Time>,
    links: Links<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<StepView<'a>>>,
}

/// A page of operations.
#[derive(Serialize)]
pub struct OperationPage<'a> {
    pub operations: Vec<OperationView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next<'a>>,
}

/// A stored time in milliseconds.
pub fn time(ms: i64) -> Time {
    Time(from_millis(ms).naive_utc())
}

impl<'a> OperationView<'a> {
    /// As lists show it.
    pub fn short(row: &'a Operation, base: &'a str) -> Self {
        let outcome = row.outcome();
        Self {
            uuid: &row.uuid,
            kind: &row.kind,
            cluster_id: &row.cluster_uuid,
            project_id: &row.project_id,
            user_id: &row.user_id,
            request_id: row.request_id.as_deref(),
            state: &row.state,
            outcome_code: outcome.map(OutcomeCode::as_str),
            fault: outcome.map(|code| code.fault().as_str()),
            outcome_reason: row.outcome_reason.as_deref(),
            retry_of: row.payload().ok().and_then(|p| p.retry_of).map(|id| id.to_string()),
            cancel_asked_at: row.cancel_ms.map(time),
            attempt: row.attempt,
            step: &row.step,
            waiting_for: row.waiting_for.as_deref().filter(|_| row.finished_ms.is_none()),
            percent: percent(row),
            done: row.progress_done,
            total: row.progress_total,
            last_error: row.last_cloud_error().map(ErrorView::of),
            deadline: time(row.deadline_ms),
            created_at: time(row.created_ms),
            started_at: row.started_ms.map(time),
            updated_at: time(row.updated_ms),
            finished_at: row.finished_ms.map(time),
            links: Links { base, collection: "operations", id: &row.uuid },
            steps: None,
        }
    }

    /// With its steps, which its events tell, and how long each may take.
    pub fn full(row: &'a Operation, events: &'a [OperationEvent], limits: &StepLimits, base: &'a str) -> Self {
        Self { steps: Some(steps(row, events, limits)), ..Self::short(row, base) }
    }
}

impl ErrorView {
    fn of(error: LastCloudError) -> Self {
        let fault = error.fault;
        Self {
            service: fault.service,
            operation: fault.operation,
            status: fault.status,
            message: fault.message,
            request_id: fault.request_id,
            count: error.count,
            at: time(error.at_ms),
        }
    }
}

fn percent(row: &Operation) -> Option<i64> {
    match (row.state(), row.progress_total) {
        (Some(OperationState::Succeeded), _) => Some(100),
        (_, total) if total > 0 => Some((100 * i64::from(row.progress_done) / i64::from(total)).clamp(0, 100)),
        _ => None,
    }
}

/// A step lasts until the next one begins. The first is the time before any conductor took a step.
fn steps<'a>(row: &'a Operation, events: &'a [OperationEvent], limits: &StepLimits) -> Vec<StepView<'a>> {
    let mut begins = vec![("accepted", row.created_ms)];
    begins.extend(events.iter().filter(|e| e.kind == STEP).map(|e| (e.message.as_str(), e.at_ms)));
    let ends = begins.iter().skip(1).map(|(_, at)| Some(*at)).chain([row.finished_ms]);
    let views = begins.iter().zip(ends).map(|(&(step, started), end)| StepView {
        step,
        started_at: time(started),
        deadline: time(limits.end_ms(row.kind(), step, started, row.deadline_ms)),
        finished_at: end.map(time),
    });
    views.collect()
}
