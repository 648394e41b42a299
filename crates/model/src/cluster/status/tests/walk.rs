//! All of the table: every status, with nothing, one operation, or one and another behind it unfinished, and every request. The answers are
//! written down here by hand; what must hold whatever they are is asserted beside.

use super::*;

/// The columns of the tables below, in order.
const REQUESTS: [OperationKind; 12] = [
    ClusterCreate,
    ClusterDelete,
    ClusterForceDelete,
    ClusterAbandon,
    ClusterUpdate,
    ClusterResize,
    ClusterUpgrade,
    NodegroupCreate,
    NodegroupUpdate,
    NodegroupDelete,
    CaRotate,
    CredentialRotate,
];

/// What begins while nothing is unfinished: `+` does, `.` is refused.
const AT_REST: [(Option<Status>, &str); 19] = [
    (None, "++++........"),
    (Some(Status::CreateInProgress), ".+++........"),
    (Some(Status::CreateFailed), ".+++........"),
    (Some(Status::CreateComplete), ".+++++++++++"),
    (Some(Status::UpdateInProgress), ".+++.+.+++.+"),
    (Some(Status::UpdateFailed), ".+++.+.+++++"),
    (Some(Status::UpdateComplete), ".+++++++++++"),
    (Some(Status::DeleteInProgress), ".+++........"),
    (Some(Status::DeleteFailed), ".+++........"),
    (Some(Status::DeleteComplete), ".+++........"),
    (Some(Status::ResumeComplete), ".+++++++++++"),
    (Some(Status::ResumeFailed), ".+++........"),
    (Some(Status::RestoreComplete), ".+++++++++++"),
    (Some(Status::RollbackInProgress), ".+++........"),
    (Some(Status::RollbackFailed), ".+++........"),
    (Some(Status::RollbackComplete), ".+++++++++++"),
    (Some(Status::SnapshotComplete), ".+++++++++++"),
    (Some(Status::CheckComplete), ".+++++++++++"),
    (Some(Status::AdoptComplete), ".+++++++++++"),
];

/// What happens behind an unfinished operation: `w` waits (where it may begin in the status), `j` joins it and `s` supersedes it (in
/// whatever status), `.` is refused.
const BEHIND: [(OperationKind, &str); 12] = [
    (ClusterCreate, ".sss........"),
    (ClusterDelete, ".jss.....j.."),
    (ClusterForceDelete, ".jjs.....j.."),
    (ClusterAbandon, ".jjj.....j.."),
    (ClusterUpdate, ".sss.w.www.w"),
    (ClusterResize, ".sss.w.www.w"),
    (ClusterUpgrade, ".sss.w.www.w"),
    (NodegroupCreate, ".sss.w.www.w"),
    (NodegroupUpdate, ".sss.w.www.w"),
    (NodegroupDelete, ".sss.w.www.w"),
    (CaRotate, ".sss.w.www.w"),
    (CredentialRotate, ".sss.w.www.w"),
];

/// The requests that are about one group.
const OF_GROUPS: [OperationKind; 6] = [ClusterUpdate, ClusterResize, ClusterUpgrade, NodegroupCreate, NodegroupUpdate, NodegroupDelete];

/// What is said of a group in a status: as above.
const GROUPS: [(Option<Status>, &str); 19] = [
    (None, "+++.++"),
    (Some(Status::CreateInProgress), "++..++"),
    (Some(Status::CreateFailed), "++.+.+"),
    (Some(Status::CreateComplete), "+++.++"),
    (Some(Status::UpdateInProgress), "+++.++"),
    (Some(Status::UpdateFailed), "+++.++"),
    (Some(Status::UpdateComplete), "+++.++"),
    (Some(Status::DeleteInProgress), ".....j"),
    (Some(Status::DeleteFailed), ".....+"),
    (Some(Status::DeleteComplete), ".....+"),
    (Some(Status::ResumeComplete), "+++.++"),
    (Some(Status::ResumeFailed), "++...+"),
    (Some(Status::RestoreComplete), "+++.++"),
    (Some(Status::RollbackInProgress), "++...+"),
    (Some(Status::RollbackFailed), "++...+"),
    (Some(Status::RollbackComplete), "+++.++"),
    (Some(Status::SnapshotComplete), "+++.++"),
    (Some(Status::CheckComplete), "+++.++"),
    (Some(Status::AdoptComplete), "+++.++"),
];

fn begun_by(kind: OperationKind) -> Status {
    match kind {
        ClusterCreate => Status::CreateInProgress,
        ClusterDelete | ClusterForceDelete | ClusterAbandon => Status::DeleteInProgress,
        _ => Status::UpdateInProgress,
    }
}

fn column(row: &str, columns: &[OperationKind], request: OperationKind) -> char {
    assert_eq!(row.len(), columns.len(), "{row}");
    let at = columns.iter().position(|kind| *kind == request).expect("a column for each request");
    char::from(row.as_bytes()[at])
}

fn behind(kind: OperationKind, request: OperationKind) -> char {
    let (_, row) = BEHIND.iter().find(|(unfinished, _)| *unfinished == kind).expect("a row for each kind");
    column(row, &REQUESTS, request)
}

/// What the tables say.
fn expected(row: &str, unfinished: &[OperationKind], request: OperationKind) -> char {
    let begins = column(row, &REQUESTS, request);
    match unfinished {
        [] => begins,
        [.., last] => match behind(*last, request) {
            // Behind all of them, and in the status.
            'w' if unfinished.iter().all(|kind| behind(*kind, request) == 'w') => begins,
            'w' => '.',
            other => other,
        },
    }
}

/// Nothing, each kind, and each kind behind each kind: the first runs or is the next to run, the second waits.
fn all_unfinished() -> impl Iterator<Item = Vec<OperationKind>> {
    let pairs = REQUESTS.into_iter().flat_map(|first| REQUESTS.map(|second| vec![first, second]));
    std::iter::once(Vec::new()).chain(REQUESTS.map(|kind| vec![kind])).chain(pairs)
}

#[test]
fn the_tables_have_every_status_and_every_kind_once() {
    assert_eq!(REQUESTS, OperationKind::ALL);
    assert_eq!(BEHIND.map(|(kind, _)| kind), REQUESTS);
    for table in [AT_REST, GROUPS] {
        let mut rows: Vec<Option<Status>> = table.iter().map(|(status, _)| *status).collect();
        assert_eq!(rows.remove(0), None);
        assert_eq!(rows, Status::ALL.iter().copied().map(Some).collect::<Vec<_>>());
    }
    let of_groups: Vec<OperationKind> = REQUESTS.into_iter().filter(|kind| kind.concerns() == Concerns::OneGroup).collect();
    assert_eq!(of_groups, OF_GROUPS);
}

#[test]
fn every_request_in_every_status_behind_whatever_is_unfinished_is_answered_as_the_table_says() {
    let mut walked = 0;
    for (status, row) in AT_REST {
        for unfinished in all_unfinished() {
            for request in REQUESTS {
                let found = begin(status, &unfinished, request);
                let what = format!("{request:?} in {status:?} behind {unfinished:?}: {found:?}");
                let wanted = match expected(row, &unfinished, request) {
                    '+' => Some(Begin::Start(begun_by(request))),
                    'j' => Some(Begin::Coalesce),
                    's' => Some(Begin::Supersede(begun_by(request))),
                    _ => None,
                };
                assert_eq!(found.as_ref().ok(), wanted.as_ref(), "{what}");
                holds(status, &unfinished, request, &found, &what);
                walked += 1;
            }
        }
    }
    assert_eq!(walked, 19 * (1 + 12 + 12 * 12) * 12);
}

/// What must hold for every answer, whatever the tables say.
fn holds(status: Option<Status>, unfinished: &[OperationKind], request: OperationKind, found: &Result<Begin, Refused>, what: &str) {
    let is_removal = |kind: &OperationKind| matches!(kind, ClusterDelete | ClusterForceDelete | ClusterAbandon);
    assert!(found.is_ok() || !is_removal(&request), "whoever wants to be rid of a cluster is refused: {what}");
    // What there is afterwards, the first of which is the only one to run.
    let after: Vec<OperationKind> = match found {
        Ok(Begin::Start(next)) => {
            assert!(next.is_in_progress(), "{what}");
            unfinished.iter().copied().chain([request]).collect()
        }
        Ok(Begin::Supersede(next)) => {
            assert!(next.is_in_progress() && is_removal(&request) && !unfinished.is_empty(), "{what}");
            vec![request]
        }
        Ok(Begin::Coalesce) => {
            assert!(unfinished.last().is_some_and(is_removal), "what joins something else than a removal would be lost: {what}");
            return;
        }
        Err(refused) => return is_told(status, unfinished, request, refused, what),
    };
    // Nothing changes a cluster while it is made, or behind its removal.
    let is_alone = |kind: &OperationKind| *kind == ClusterCreate || is_removal(kind);
    assert!(after.len() == 1 || !after.iter().any(is_alone), "{what}");
    // However each of them ends, the last leaves nothing in progress.
    for end in [OperationState::Succeeded, OperationState::Failed, OperationState::Cancelled] {
        for (at, kind) in after.iter().enumerate() {
            let others_wait = at + 1 < after.len();
            let left = settle(*kind, end, Rest { others_wait, other_group_failed: false, before: status });
            assert_eq!(left.is_some_and(Status::is_in_progress), others_wait, "{end:?} of {kind:?} leaves {left:?}: {what}");
        }
    }
    for kind in unfinished.iter().filter(|_| matches!(found, Ok(Begin::Supersede(_)))) {
        assert_eq!(settle(*kind, OperationState::Superseded, Rest::default()), None, "what was superseded has its say: {what}");
    }
}

/// A refusal names the status and what could be asked for, which then is accepted.
fn is_told(status: Option<Status>, unfinished: &[OperationKind], request: OperationKind, refused: &Refused, what: &str) {
    let text = refused.to_string();
    assert!(!refused.is_full && refused.kind == request && refused.status == status, "{what}");
    assert!(text.contains(status.map_or("(none)", Status::as_str)) && text.contains(request.phrase()), "{text}: {what}");
    assert!(refused.allowed.contains(&ClusterDelete) && !refused.allowed.contains(&request), "{what}");
    for kind in &refused.allowed {
        assert!(text.contains(kind.phrase()) && begin(status, unfinished, *kind).is_ok(), "{kind:?} is promised: {what}");
    }
    let usual = REQUESTS.into_iter().filter(|kind| !matches!(kind, ClusterForceDelete | ClusterAbandon));
    for kind in usual.filter(|kind| !refused.allowed.contains(kind)) {
        // One that joins the removal of its cluster changes nothing: nobody is advised to ask for it.
        let begun = begin(status, unfinished, kind);
        assert!(matches!(begun, Err(_) | Ok(Begin::Coalesce)), "{kind:?} is concealed: {what}");
    }
}

#[test]
fn a_failed_operation_is_done_again_alone_and_one_that_is_unfinished_can_be_cancelled_in_every_status() {
    for (status, _) in AT_REST {
        for unfinished in all_unfinished() {
            for kind in REQUESTS {
                let found = retry(status, &unfinished, kind);
                let failed = match begun_by(kind) {
                    Status::CreateInProgress => Status::CreateFailed,
                    Status::DeleteInProgress => Status::DeleteFailed,
                    _ => Status::UpdateFailed,
                };
                let wanted = match unfinished.first() {
                    Some(first) => Err(NoExit::Busy(first.phrase())),
                    None if status == Some(failed) => Ok(Begin::Start(begun_by(kind))),
                    None => Err(NoExit::NothingFailed(status)),
                };
                assert_eq!(found, wanted, "{kind:?} in {status:?} behind {unfinished:?}");
            }
            for (at, kind) in unfinished.iter().enumerate() {
                let state = if at == 0 { OperationState::Running } else { OperationState::Queued };
                let is_removal = matches!(kind, ClusterDelete | ClusterForceDelete | ClusterAbandon);
                let wanted = match state {
                    OperationState::Queued => Ok(Cancel::End),
                    _ if is_removal => Err(NoExit::Begun(kind.phrase())),
                    _ => Ok(Cancel::Tell),
                };
                assert_eq!(cancel(*kind, state, false), wanted, "{kind:?} {state:?}");
            }
        }
    }
}

#[test]
fn every_request_about_a_group_is_answered_by_its_status_as_the_table_says() {
    for (status, row) in GROUPS {
        for request in OF_GROUPS {
            let begun = match request {
                NodegroupCreate => Status::CreateInProgress,
                NodegroupDelete => Status::DeleteInProgress,
                _ => Status::UpdateInProgress,
            };
            let wanted = match column(row, &OF_GROUPS, request) {
                '+' => Some(Begin::Start(begun)),
                'j' => Some(Begin::Coalesce),
                _ => None,
            };
            let found = begin_group(status, request);
            let what = format!("{request:?} of a group in {status:?}: {found:?}");
            assert_eq!(found.as_ref().ok(), wanted.as_ref(), "{what}");
            let Err(refused) = found else { continue };
            let text = refused.to_string();
            assert!(text.contains(status.map_or("(none)", Status::as_str)) && refused.what == "nodegroup", "{what}");
            assert!(refused.allowed.contains(&NodegroupDelete) && !refused.allowed.contains(&request), "{what}");
            assert!(refused.allowed.iter().all(|kind| begin_group(status, *kind).is_ok()), "{what}");
        }
    }
}
