//! Who may work on an operation, checked for every order of events: claim, lease, generation, takeover, guard before an effect, release,
//! supersede.
//!
//! `protocol.rs` is the engine's protocol with everything else left out: three conductors whose clocks differ by up to half a lease, one
//! thing in the cloud, and two operations: a create with the delete that supersedes it, or two changes one after the other, of which the first may
//! be cancelled and either may miss its deadline. `transition.rs` says what each event does. The checker visits every state that can be reached,
//! with no bound on the number of crashes, pauses, lost messages and takeovers. For every rule of the protocol there is a test that leaves it out
//! and must find out why it is there.

mod protocol;
mod transition;

use stateright::{Checker, HasDiscoveries, Model};

use protocol::{CALM_END, Flaw, Pair, Protocol, TIME_GOES_ON};

/// Threads of the checker: what a build machine has at least.
const THREADS: usize = 2;

#[test]
fn three_conductors_make_one_thing_and_end_every_operation() {
    holds(Pair::CreateAndDelete, 400_000);
}

#[test]
fn three_conductors_change_a_thing_as_it_was_wanted_last_and_end_every_operation() {
    holds(Pair::Changes, 900_000);
}

/// Visits all there is, of which there are to be so many states at least.
fn holds(pair: Pair, least: usize) {
    let checker = Protocol::sound(pair).checker().threads(THREADS).spawn_bfs().join();
    println!("{} states, {} of them different, depth {}", checker.state_count(), checker.unique_state_count(), checker.max_depth());
    assert!(checker.is_done());
    checker.assert_properties();
    assert!(checker.unique_state_count() > least, "the model has lost most of its states: {}", checker.unique_state_count());
}

/// Leaves out a rule, and expects that something that must never be can be reached.
fn is_unsafe_without(pair: Pair, flaw: Flaw) {
    let broken = first_broken(pair, flaw);
    assert!(![CALM_END, TIME_GOES_ON].contains(&broken), "{flaw:?}: {broken}");
}

/// The first property that does not hold without a rule, with the shortest way there printed.
fn first_broken(pair: Pair, flaw: Flaw) -> &'static str {
    let checker = Protocol::with(pair, flaw).checker().threads(THREADS).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let found = checker.discoveries();
    let (name, path) = found.iter().next().unwrap_or_else(|| panic!("nobody misses the rule: {flaw:?}"));
    println!("{flaw:?}: not so any more: {name}; after {:?}", path.clone().into_actions());
    name
}

#[test]
fn without_the_guard_a_finished_create_makes_it_again() {
    is_unsafe_without(Pair::CreateAndDelete, Flaw::NoGuard);
}

#[test]
fn without_the_margin_a_clock_that_is_ahead_takes_over_too_early() {
    is_unsafe_without(Pair::CreateAndDelete, Flaw::NoMargin);
}

#[test]
fn without_the_fence_a_conductor_that_was_paused_goes_on_where_it_was() {
    is_unsafe_without(Pair::CreateAndDelete, Flaw::NoFence);
}

#[test]
fn without_the_hold_a_delete_overtakes_the_create_it_superseded() {
    is_unsafe_without(Pair::CreateAndDelete, Flaw::NoHold);
}

#[test]
fn without_the_settling_time_a_late_request_is_not_seen() {
    is_unsafe_without(Pair::CreateAndDelete, Flaw::NoSettling);
}

#[test]
fn with_a_settling_time_from_the_announcement_a_slow_owner_is_not_seen() {
    is_unsafe_without(Pair::CreateAndDelete, Flaw::SettlingFromAnnouncement);
}

#[test]
fn without_a_record_of_the_name_nobody_knows_what_may_still_appear() {
    is_unsafe_without(Pair::CreateAndDelete, Flaw::NoRecord);
}

#[test]
fn with_a_careless_release_a_stale_owner_gives_away_what_is_not_his() {
    is_unsafe_without(Pair::CreateAndDelete, Flaw::CarelessRelease);
}

#[test]
fn without_takeover_a_crash_leaves_an_operation_for_ever() {
    assert_eq!(first_broken(Pair::CreateAndDelete, Flaw::NoTakeover), CALM_END);
}

#[test]
fn without_the_guard_the_owner_of_a_change_that_has_failed_asks_for_it_after_the_next_one() {
    is_unsafe_without(Pair::Changes, Flaw::NoGuard);
}

#[test]
fn without_the_settling_time_a_change_is_asked_for_once_more_while_it_is_under_way() {
    is_unsafe_without(Pair::Changes, Flaw::NoSettling);
}

#[test]
fn believed_at_once_a_change_is_undone_by_what_the_failed_one_before_it_asked_for() {
    is_unsafe_without(Pair::Changes, Flaw::BelievedAtOnce);
}

#[test]
fn without_a_deadline_a_cloud_that_does_nothing_keeps_a_change_for_ever() {
    assert_eq!(first_broken(Pair::Changes, Flaw::NoDeadline), CALM_END);
}
