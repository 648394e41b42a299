//! What must hold of operations that were cancelled, and of those that do a failed one again.

use std::collections::{BTreeMap, BTreeSet};

use model::operation::{Operation, OperationState, OutcomeCode};

use super::check::{Finding, Wrong};
use super::ledger::Entry;
use super::wish::Makes;

/// Everything that is wrong with them.
pub fn check(entries: &[Entry], rows: &[Operation]) -> Vec<Finding> {
    let by_id: BTreeMap<&str, &Operation> = rows.iter().map(|row| (row.uuid.as_str(), row)).collect();
    let mut found = Vec::new();
    let mut cancelled: BTreeSet<&str> = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.is_accepted()) {
        let is_retry = entry.wish.makes() == Makes::Again;
        if !is_retry && !entry.wish.is_cancellation() {
            continue;
        }
        let Some(id) = entry.operation.as_deref() else {
            found.push(Finding::new(Wrong::Other, format!("the answer names no operation: {entry:?}")));
            continue;
        };
        match by_id.get(id) {
            // Of a retry the accounts say so.
            None if is_retry => {}
            None => found.push(Finding::new(Wrong::Lost, format!("cancelled and not there: {entry:?}"))),
            Some(row) if is_retry => found.extend(again(row, &by_id)),
            Some(row) => {
                cancelled.insert(id);
                found.extend(after_cancel(row));
            }
        }
    }
    let has_ended_so = |row: &&Operation| row.state() == Some(OperationState::Cancelled) || row.outcome() == Some(OutcomeCode::Cancelled);
    for row in rows.iter().filter(has_ended_so).filter(|row| !cancelled.contains(row.uuid.as_str())) {
        found.push(Finding::about(Wrong::Other, &row.uuid, format!("{} {} was cancelled and nobody asked for it", row.kind, row.uuid)));
    }
    found
}

/// Whoever was told that it will be cancelled is not told later that it succeeded; what nobody had begun, nobody begins.
fn after_cancel(row: &Operation) -> Option<Finding> {
    let what = match row.state() {
        Some(OperationState::Cancelled) if row.started_ms.is_none() => return None,
        Some(OperationState::Cancelled) => "ended as if nobody had begun it, and somebody had".to_owned(),
        Some(OperationState::Failed) if row.outcome() == Some(OutcomeCode::Cancelled) => return None,
        // A deletion took it away, which was asked for as well.
        Some(OperationState::Superseded) => return None,
        // It has not ended, which is found as such.
        Some(OperationState::Queued | OperationState::Running) => return None,
        Some(OperationState::Succeeded | OperationState::Failed) | None => {
            format!("ended as {} ({:?}) all the same", row.state, row.outcome_code)
        }
    };
    Some(Finding::about(Wrong::Other, &row.uuid, format!("{} {} was cancelled and {what}", row.kind, row.uuid)))
}

/// It does again what had failed: an operation of its own kind, on its own cluster, that had ended when it was accepted.
fn again(row: &Operation, by_id: &BTreeMap<&str, &Operation>) -> Option<Finding> {
    let failed = row.payload().ok().and_then(|payload| payload.retry_of);
    let before = failed.as_ref().and_then(|id| by_id.get(id.as_str()));
    let is_right = before.is_some_and(|before| {
        let is_open = [OperationState::Failed, OperationState::Cancelled, OperationState::Superseded];
        let has_failed = before.state().is_some_and(|state| is_open.contains(&state));
        let had_ended = before.finished_ms.is_some_and(|finished| finished <= row.created_ms);
        has_failed && had_ended && before.kind == row.kind && before.cluster_uuid == row.cluster_uuid
    });
    let what = || format!("{} {} is a retry of {failed:?}, which is not a failed one of its kind", row.kind, row.uuid);
    (!is_right).then(|| Finding::about(Wrong::Other, &row.uuid, what()))
}

#[cfg(test)]
mod tests {
    use model::operation::Payload;

    use super::super::ledger::Answered;
    use super::super::wish::Wish;
    use super::*;

    fn row(uuid: &str, state: OperationState, outcome: Option<OutcomeCode>) -> Operation {
        Operation {
            id: 0,
            uuid: uuid.into(),
            kind: "cluster_resize".into(),
            cluster_uuid: "c".into(),
            project_id: "p".into(),
            user_id: "u".into(),
            request_id: None,
            state: state.as_str().into(),
            step: String::new(),
            waiting_for: None,
            attempt: 0,
            generation: 0,
            owner: None,
            lease_ms: None,
            due_ms: 0,
            deadline_ms: 0,
            progress_done: 0,
            progress_total: 0,
            outcome_code: outcome.map(|code| code.as_str().into()),
            outcome_reason: None,
            payload: serde_json::to_string(&Payload::default()).expect("plain data"),
            sealed_token: None,
            created_ms: 10,
            updated_ms: 10,
            finished_ms: Some(20),
            started_ms: None,
            cancel_ms: None,
            cloud_error: None,
        }
    }

    fn cancel(operation: &str) -> Entry {
        Entry {
            wish: Wish::Cancel,
            cluster: Some("c".into()),
            operation: Some(operation.into()),
            request_ids: Vec::new(),
            repeated: Vec::new(),
            sent_ms: 0,
            answered_ms: 0,
            answered: Answered::Accepted,
        }
    }

    #[test]
    fn what_was_cancelled_has_not_succeeded_and_nothing_else_ends_so() {
        let of_state = |state, outcome| check(&[cancel("o")], &[row("o", state, outcome)]).len();
        assert_eq!(of_state(OperationState::Cancelled, Some(OutcomeCode::Cancelled)), 0);
        assert_eq!(of_state(OperationState::Failed, Some(OutcomeCode::Cancelled)), 0);
        assert_eq!(of_state(OperationState::Superseded, None), 0);
        assert_eq!(of_state(OperationState::Succeeded, None), 1);
        assert_eq!(of_state(OperationState::Failed, Some(OutcomeCode::Cloud)), 1);
        let begun = Operation { started_ms: Some(15), ..row("o", OperationState::Cancelled, None) };
        assert_eq!(check(&[cancel("o")], &[begun]).len(), 1);
        assert_eq!(check(&[], &[row("o", OperationState::Failed, Some(OutcomeCode::Cancelled))]).len(), 1);
        assert_eq!(check(&[cancel("gone")], &[]).len(), 1);
    }

    #[test]
    fn a_retry_names_a_failed_operation_of_its_kind() {
        let again = Entry { wish: Wish::Retry, ..cancel("again") };
        let failed = row("first", OperationState::Failed, Some(OutcomeCode::Cloud));
        let payload = Payload::default().again(failed.operation_id());
        let of = |failed: Operation, created_ms| {
            let payload = serde_json::to_string(&payload).expect("plain data");
            let retried = Operation { payload, created_ms, ..row("again", OperationState::Succeeded, None) };
            check(std::slice::from_ref(&again), &[failed, retried]).len()
        };
        assert_eq!(of(failed.clone(), 30), 0);
        assert_eq!(of(failed.clone(), 15), 1, "the first had not ended");
        assert_eq!(of(Operation { kind: "ca_rotate".into(), ..failed.clone() }, 30), 1);
        assert_eq!(of(Operation { state: "SUCCEEDED".into(), ..failed }, 30), 1);
    }
}
