use super::*;

fn seen() -> Seen {
    Seen { stack_id: "s".into(), stack_name: "blue-1".into(), done: 1, total: 3, busy: vec!["kube_masters".into()], ..Seen::default() }
}

fn of(count: i32, changed: &str) -> Seen {
    Seen { workers: Workers { count: Some(count), removed: vec!["1".into()] }, changed: changed.into(), ..seen() }
}

fn sent(tries: usize, before: &str, is_fresh: bool) -> Sent {
    Sent { tries, before: Before::Changed(before.into()), is_fresh }
}

const FIVE: Wanted = Wanted { count: 5, remove: Vec::new() };

#[test]
fn a_stack_that_is_as_wanted_is_never_asked() {
    for sent in [None, Some(sent(1, "", true)), Some(sent(9, "x", false))] {
        assert_eq!(update(Observed::Ready(of(5, "t1")), &FIVE, sent.as_ref()), UpdateStep::Finish(of(5, "t1")));
        assert_eq!(update(Observed::Building(of(5, "t1")), &FIVE, sent.as_ref()), UpdateStep::Wait(of(5, "t1")));
    }
    let by_name = Wanted { count: 5, remove: vec!["1".into()] };
    assert_eq!(update(Observed::Ready(of(5, "t1")), &by_name, None), UpdateStep::Finish(of(5, "t1")));
    let other = Wanted { count: 5, remove: vec!["3".into()] };
    assert_eq!(update(Observed::Ready(of(5, "t1")), &other, None), UpdateStep::Send(of(5, "t1")));
}

#[test]
fn a_stack_at_work_is_never_asked_whatever_it_works_on() {
    for sent in [None, Some(sent(1, "t1", false))] {
        assert_eq!(update(Observed::Building(of(3, "t1")), &FIVE, sent.as_ref()), UpdateStep::Wait(of(3, "t1")));
    }
}

#[test]
fn a_failed_stack_is_asked_by_a_new_operation_and_fails_the_one_that_asked() {
    let broken = || Observed::Broken { seen: of(5, "t2"), reason: "no host".into() };
    assert_eq!(update(broken(), &FIVE, None), UpdateStep::Send(of(5, "t2")));
    // The failure is the one from before: the request has not begun.
    assert_eq!(update(broken(), &FIVE, Some(&sent(1, "t2", true))), UpdateStep::WaitForBeginning(of(5, "t2")));
    assert_eq!(update(broken(), &FIVE, Some(&sent(1, "t2", false))), UpdateStep::Send(of(5, "t2")));
    assert!(matches!(update(broken(), &FIVE, Some(&sent(1, "t1", true))), UpdateStep::Fail { reason, .. } if reason == "no host"));
    let back = Observed::RolledBack { seen: of(3, "t2"), reason: "rolled back".into() };
    assert!(matches!(update(back, &FIVE, Some(&sent(1, "t1", true))), UpdateStep::Fail { .. }));
}

#[test]
fn a_change_that_somebody_else_undoes_is_asked_for_only_so_often() {
    let ready = || Observed::Ready(of(3, "t2"));
    assert_eq!(update(ready(), &FIVE, Some(&sent(1, "t1", true))), UpdateStep::Send(of(3, "t2")));
    assert!(matches!(update(ready(), &FIVE, Some(&sent(UPDATE_TRIES, "t1", true))), UpdateStep::Fail { .. }));
}

#[test]
fn a_stack_on_its_way_out_or_of_somebody_else_is_not_changed() {
    for observed in all() {
        let step = update(observed.clone(), &FIVE, None);
        let may_change = matches!(observed, Observed::Ready(_) | Observed::Broken { .. } | Observed::RolledBack { .. });
        assert_eq!(matches!(step, UpdateStep::Send(_)), may_change, "{observed:?}");
        assert_eq!(step == UpdateStep::Make, observed == Observed::Absent);
    }
}

fn all() -> Vec<Observed> {
    let reason = String::from("no");
    vec![
        Observed::Absent,
        Observed::Foreign { reason: reason.clone() },
        Observed::Building(seen()),
        Observed::Ready(seen()),
        Observed::RolledBack { seen: seen(), reason: reason.clone() },
        Observed::Broken { seen: seen(), reason: reason.clone() },
        Observed::Leaving(seen()),
        Observed::Stuck { seen: seen(), reason },
    ]
}

#[test]
fn a_create_makes_a_stack_only_when_none_is_there() {
    for observed in all() {
        let makes = create(observed.clone()) == CreateStep::Make;
        assert_eq!(makes, observed == Observed::Absent, "{observed:?}");
    }
}

#[test]
fn a_delete_never_touches_a_foreign_stack_and_gives_up_only_after_tries() {
    assert_eq!(delete(Observed::Foreign { reason: String::new() }, 0, true), DeleteStep::Finish);
    for tries in 0..DELETE_TRIES {
        assert!(matches!(delete(Observed::Stuck { seen: seen(), reason: "x".into() }, tries, false), DeleteStep::Remove(_)));
    }
    assert!(matches!(delete(Observed::Stuck { seen: seen(), reason: "x".into() }, DELETE_TRIES, true), DeleteStep::Fail { .. }));
    for observed in all() {
        if !matches!(observed, Observed::Stuck { .. }) {
            assert!(!matches!(delete(observed, 99, false), DeleteStep::Fail { .. }));
        }
    }
}

#[test]
fn a_stack_that_is_being_deleted_is_asked_to_go_by_whoever_has_not_asked_yet() {
    assert!(matches!(delete(Observed::Leaving(seen()), 0, true), DeleteStep::Remove(_)));
    assert!(matches!(delete(Observed::Leaving(seen()), 0, false), DeleteStep::Wait(_)));
}

#[test]
fn a_step_that_was_taken_is_neither_waited_for_nor_forgiven_within_the_clocks_second() {
    let taken = Sent { before: Before::Taken, ..sent(1, "t1", true) };
    assert!(matches!(change(Observed::Ready(of(5, "t1")), false, Some(&taken)), UpdateStep::Send(_)));
    let broken = Observed::Broken { seen: of(5, "t1"), reason: "no host".into() };
    assert!(matches!(change(broken, false, Some(&taken)), UpdateStep::Fail { .. }));
}

#[test]
fn what_somebody_else_began_is_only_followed() {
    assert_eq!(found(Observed::Building(of(3, "t1"))), FoundStep::Wait(of(3, "t1")));
    assert_eq!(found(Observed::Leaving(of(3, "t1"))), FoundStep::Wait(of(3, "t1")));
    assert_eq!(found(Observed::Ready(of(3, "t1"))), FoundStep::Finish(of(3, "t1")));
    assert_eq!(found(Observed::Absent), FoundStep::Gone);
    let reason = || "no host".to_owned();
    for failed in [
        Observed::Broken { seen: of(3, "t1"), reason: reason() },
        Observed::RolledBack { seen: of(3, "t1"), reason: reason() },
        Observed::Stuck { seen: of(3, "t1"), reason: reason() },
        Observed::Foreign { reason: reason() },
    ] {
        assert_eq!(found(failed), FoundStep::Fail { reason: reason() });
    }
}
