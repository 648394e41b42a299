mod walk;

use super::*;

use OperationKind::*;

const DAY_TWO: [OperationKind; 8] =
    [ClusterUpdate, ClusterResize, ClusterUpgrade, NodegroupCreate, NodegroupUpdate, NodegroupDelete, CaRotate, CredentialRotate];

/// Every status a row can have, and none.
fn states() -> impl Iterator<Item = Option<Status>> {
    Status::ALL.iter().copied().map(Some).chain([None])
}

#[test]
fn words_round_trip_and_fit_the_column() {
    for s in Status::ALL {
        assert_eq!(Status::parse(s.as_str()), Some(*s));
        assert!(s.as_str().len() <= 20);
    }
    assert_eq!(Status::parse("PAUSED"), None);
}

#[test]
fn delete_begins_in_every_state_and_create_only_without_a_row() {
    for status in states() {
        for unfinished in [vec![], vec![ClusterCreate], vec![ClusterDelete], vec![ClusterResize, NodegroupCreate]] {
            for kind in [ClusterDelete, ClusterForceDelete, ClusterAbandon] {
                let delete = begin(status, &unfinished, kind).expect("delete is never refused");
                match (unfinished.last(), kind) {
                    (None, _) => assert_eq!(delete, Begin::Start(Status::DeleteInProgress)),
                    (Some(ClusterDelete), ClusterDelete) => assert_eq!(delete, Begin::Coalesce),
                    (Some(_), _) => assert_eq!(delete, Begin::Supersede(Status::DeleteInProgress)),
                }
            }
            let create = begin(status, &unfinished, ClusterCreate);
            assert_eq!(create.is_ok(), status.is_none() && unfinished.is_empty());
        }
    }
}

#[test]
fn a_removal_gives_way_to_one_that_goes_further_only() {
    let removals = [ClusterDelete, ClusterForceDelete, ClusterAbandon];
    for (first, running) in removals.into_iter().enumerate() {
        for (second, kind) in removals.into_iter().enumerate() {
            let expected = if first >= second { Begin::Coalesce } else { Begin::Supersede(Status::DeleteInProgress) };
            assert_eq!(begin(Some(Status::DeleteInProgress), &[running], kind), Ok(expected), "{kind:?} while {running:?}");
        }
        for kind in DAY_TWO {
            let begun = begin(Some(Status::DeleteInProgress), &[running], kind);
            match kind {
                NodegroupDelete => assert_eq!(begun, Ok(Begin::Coalesce)),
                _ => assert!(begun.is_err(), "{kind:?}"),
            }
        }
    }
}

#[test]
fn what_was_cancelled_before_it_began_leaves_things_as_they_were() {
    for before in Status::ALL.iter().copied() {
        let rest = Rest { before: Some(before), ..Rest::default() };
        for kind in OperationKind::ALL.iter().copied() {
            let left = settle(kind, OperationState::Cancelled, rest).expect("a status");
            assert!(!left.as_str().ends_with("_IN_PROGRESS"), "{kind:?} in {before:?}");
            match kind {
                ClusterCreate => assert_eq!(left, Status::CreateFailed),
                _ if !before.as_str().ends_with("_IN_PROGRESS") => assert_eq!(left, before),
                _ => assert!(left.is_failed()),
            }
            if DAY_TWO.contains(&kind) {
                assert_eq!(settle(kind, OperationState::Cancelled, Rest { others_wait: true, ..rest }), Some(Status::UpdateInProgress));
                assert_eq!(settle(kind, OperationState::Cancelled, Rest { other_group_failed: true, ..rest }), Some(Status::UpdateFailed));
            }
            let group = settle_group(kind, OperationState::Cancelled, Some(before));
            match kind.concerns() {
                Concerns::NoGroup => assert_eq!(group, None),
                _ if matches!(kind, ClusterCreate | NodegroupCreate) => assert_eq!(group, Some(Status::CreateFailed)),
                _ => assert!(group.is_some_and(|left| !left.as_str().ends_with("_IN_PROGRESS"))),
            }
        }
    }
}

#[test]
fn changes_begin_in_upstreams_complete_statuses_and_some_also_after_a_failed_or_during_a_running_one() {
    for status in states() {
        for kind in DAY_TWO {
            let queues = matches!(kind, ClusterResize | NodegroupCreate | NodegroupUpdate | NodegroupDelete | CredentialRotate);
            let goes_on = kind == CaRotate && status == Some(Status::UpdateFailed);
            let allowed = goes_on
                || status.is_some_and(|s| s.is_complete() || (queues && matches!(s, Status::UpdateFailed | Status::UpdateInProgress)));
            let got = begin(status, &[], kind);
            assert_eq!(got.is_ok(), allowed, "{kind:?} in {status:?}");
            if allowed {
                assert_eq!(got, Ok(Begin::Start(Status::UpdateInProgress)));
            }
        }
    }
}

#[test]
fn changes_wait_behind_changes_but_never_behind_a_create_or_a_delete() {
    let running = Some(Status::UpdateInProgress);
    for kind in DAY_TWO {
        assert!(begin(running, &[ClusterCreate], kind).is_err());
        assert_eq!(begin(Some(Status::UpdateComplete), &[ClusterDelete], kind).is_ok(), kind == NodegroupDelete);
    }
    assert!(begin(running, &[ClusterResize, NodegroupCreate], ClusterResize).is_ok());
    assert!(begin(running, &[ClusterResize], ClusterUpgrade).is_err());
    assert!(begin(running, &[ClusterResize; MOST_UNFINISHED - 1], ClusterResize).is_ok());
    let full = begin(running, &[ClusterResize; MOST_UNFINISHED], ClusterResize).expect_err("too many");
    assert!(full.is_full && full.to_string().contains("64"), "{full}");
    // A delete is not held up by any number.
    assert!(begin(running, &[ClusterResize; MOST_UNFINISHED], ClusterDelete).is_ok());
}

#[test]
fn a_refusal_says_what_is_possible_instead() {
    let refused = begin(Some(Status::UpdateFailed), &[], ClusterUpgrade).expect_err("refused");
    let text = refused.to_string();
    assert!(text.contains("UPDATE_FAILED") && text.contains("cannot begin upgrade"), "{text}");
    assert!(text.contains("possible now: delete, resize, nodegroup create"), "{text}");
    assert_eq!(begin(Some(Status::CreateFailed), &[], ClusterResize).expect_err("refused").allowed, [ClusterDelete]);
    let group = begin_group(Some(Status::DeleteFailed), ClusterResize).expect_err("refused");
    assert_eq!((group.what, &group.allowed[..]), ("nodegroup", &[NodegroupDelete][..]));
}

#[test]
fn a_group_on_its_way_out_can_only_be_deleted() {
    for status in [Status::DeleteInProgress, Status::DeleteFailed] {
        assert!(begin_group(Some(status), ClusterResize).is_err());
        assert!(begin_group(Some(status), NodegroupUpdate).is_err());
    }
    assert_eq!(begin_group(Some(Status::DeleteInProgress), NodegroupDelete), Ok(Begin::Coalesce));
    assert_eq!(begin_group(Some(Status::DeleteFailed), NodegroupDelete), Ok(Begin::Start(Status::DeleteInProgress)));
    assert_eq!(begin_group(Some(Status::CreateFailed), ClusterResize), Ok(Begin::Start(Status::UpdateInProgress)));
    assert_eq!(begin_group(Some(Status::CreateInProgress), NodegroupUpdate), Ok(Begin::Start(Status::UpdateInProgress)));
    assert!(begin_group(Some(Status::CreateFailed), NodegroupUpdate).is_err());
    assert_eq!(begin_group(Some(Status::CreateFailed), NodegroupCreate), Ok(Begin::Start(Status::CreateInProgress)));
    assert!(begin_group(Some(Status::CreateComplete), NodegroupCreate).is_err());
    assert!(begin_group(Some(Status::UpdateFailed), NodegroupUpdate).is_ok());
    assert!(begin_group(None, NodegroupUpdate).is_ok());
}

#[test]
fn a_failed_operation_leaves_a_failed_status_unless_others_wait() {
    for kind in OperationKind::ALL.iter().copied() {
        assert!(settle(kind, OperationState::Failed, Rest::default()).is_some_and(Status::is_failed));
        assert_eq!(settle(kind, OperationState::Superseded, Rest::default()), None);
        assert_eq!(settle_group(kind, OperationState::Superseded, None), None);
        let group = settle_group(kind, OperationState::Failed, None);
        assert!(group.is_none_or(Status::is_failed));
        assert_eq!(group.is_none(), kind.concerns() == Concerns::NoGroup);
    }
    for kind in DAY_TWO {
        for end in [OperationState::Succeeded, OperationState::Failed] {
            let waiting = Rest { others_wait: true, other_group_failed: true, before: None };
            assert_eq!(settle(kind, end, waiting), Some(Status::UpdateInProgress));
        }
        let broken = Rest { other_group_failed: true, ..Rest::default() };
        assert_eq!(settle(kind, OperationState::Succeeded, broken), Some(Status::UpdateFailed));
        assert_eq!(settle(kind, OperationState::Succeeded, Rest::default()), Some(Status::UpdateComplete));
    }
}
