use std::sync::LazyLock;

use provider_clients::{Cloud, CloudOptions, Credential};

use super::*;
use crate::follow::pause::MAX_BACKOFF;

const BOUNDS: Bounds = Bounds { min: Duration::from_secs(1), max: Duration::from_secs(3) };

fn session() -> Session {
    static CLOUD: LazyLock<Cloud> = LazyLock::new(|| Cloud::new(CloudOptions::new("http://127.0.0.1:1/v3")).expect("a cloud"));
    CLOUD.session(Credential::Token("token".into()))
}

fn seen(id: &str) -> Seen {
    Seen {
        stack_id: id.into(),
        stack_name: format!("name-{id}"),
        status: "CREATE_IN_PROGRESS".into(),
        done: 1,
        total: 5,
        ..Seen::default()
    }
}

fn add(table: &mut Table, project: &str, id: &str, now: Instant) -> (u64, Arc<Bell>) {
    let bell = Arc::new(Bell::default());
    let watch = Watch { project: project.into(), seen: seen(id), age: Duration::ZERO, idle: 0, session: session() };
    (table.add(watch, &bell, now), bell)
}

fn rung(bell: &Bell) -> Option<Wake> {
    bell.wake.lock().expect("no panic").take()
}

/// The list request that is due now.
fn list(table: &mut Table, now: Instant, all: bool) -> ListJob {
    match table.next(now, all, true) {
        Some(Next::List(job)) => job,
        Some(Next::Progress(_)) => panic!("a list goes first"),
        None => panic!("nothing is due"),
    }
}

fn listed(id: &str, status: &str) -> Listed {
    Listed { stack_id: id.into(), status: status.into(), changed: String::new() }
}

#[test]
fn stacks_of_one_project_are_asked_for_together_in_batches_and_each_in_its_turn() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let count = 2 * BATCH + 50;
    for n in 0..count {
        add(&mut table, "p", &format!("s{n}"), start);
    }
    assert!(table.next(start, false, true).is_none(), "nothing is due at once");
    let now = start + Duration::from_secs(2);
    let mut asked = BTreeSet::new();
    let mut sizes = Vec::new();
    while let Some(Next::List(job)) = table.next(now, false, true) {
        sizes.push(job.ids.len());
        asked.extend(job.ids);
    }
    assert_eq!((sizes, asked.len()), (vec![BATCH, BATCH, 50], count));
}

#[test]
fn what_all_stacks_need_grows_with_their_number_and_not_with_their_projects() {
    let start = Instant::now();
    let [mut one, mut many] = [Table::new(BOUNDS), Table::new(BOUNDS)];
    // Six full requests in the three seconds of the longest interval.
    for n in 0..6 * BATCH {
        add(&mut one, "p", &format!("s{n}"), start);
        add(&mut many, &format!("p{n}"), &format!("s{n}"), start);
    }
    assert_eq!([Table::new(BOUNDS).needed(), one.needed(), many.needed()], [0.0, 2.0, 2.0]);
}

/// What a list says of stacks none of which has moved.
fn unmoved(job: &ListJob) -> Vec<Listed> {
    job.ids.iter().map(|id| listed(id, "CREATE_IN_PROGRESS")).collect()
}

#[test]
fn a_request_that_is_too_long_is_made_shorter_once_and_longer_again_after_a_while() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    for n in 0..2 * BATCH {
        add(&mut table, "p", &format!("s{n}"), start);
    }
    let now = start + Duration::from_secs(2);
    let under_way = [list(&mut table, now, false), list(&mut table, now, false)];
    for job in &under_way {
        table.not_listed(job, ListFailure::TooLong, "414", now);
    }
    // Nobody pauses for it.
    let sizes: Vec<usize> = (0..4).map(|_| list(&mut table, now, false).ids.len()).collect();
    assert_eq!(sizes, [BATCH / 2; 4]);
    let later = now + Duration::from_secs(600);
    let full = list(&mut table, later, false);
    table.listed(&full, &unmoved(&full), later);
    let size = list(&mut table, later, false).ids.len();
    assert!(size > BATCH / 2 && size < BATCH, "{size}");
}

#[test]
fn a_request_that_cannot_be_made_shorter_is_left_alone_for_a_while() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    for n in 0..FLOOR {
        add(&mut table, "p", &format!("s{n}"), start);
    }
    let now = start + Duration::from_secs(2);
    let job = list(&mut table, now, false);
    table.not_listed(&job, ListFailure::TooLong, "414", now);
    assert!(table.next(now, false, true).is_none());
    assert_eq!(list(&mut table, now + MAX_BACKOFF, false).ids.len(), FLOOR);
}

#[test]
fn a_front_that_drops_long_requests_is_found_out_by_short_ones() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    for n in 0..BATCH + 100 {
        add(&mut table, "p", &format!("s{n}"), start);
    }
    let mut sizes = Vec::new();
    for n in 1..=8u32 {
        let now = start + MAX_BACKOFF * (2 * n);
        let job = list(&mut table, now, false);
        sizes.push(job.ids.len());
        match job.ids.len() {
            0..100 => table.listed(&job, &unmoved(&job), now),
            _ => table.not_listed(&job, ListFailure::Trouble, "no answer", now),
        }
    }
    let half = BATCH / 2;
    assert_eq!(sizes, [BATCH, BATCH, FLOOR, BATCH, FLOOR, half, half, half]);
}

#[test]
fn when_lists_go_on_failing_all_who_wait_look_for_themselves_a_few_at_a_time() {
    for all in [false, true] {
        let start = Instant::now();
        let mut table = Table::new(BOUNDS);
        let bells: Vec<_> = (0..100).map(|n| add(&mut table, "p", &format!("s{n}"), start).1).collect();
        let mut looked = BTreeSet::new();
        for failure in 1..SEVERAL + 20 {
            let now = start + MAX_BACKOFF * (2 * failure);
            let job = list(&mut table, now, all);
            table.not_listed(&job, ListFailure::Trouble, "heat is down", now);
            let woken: Vec<usize> = (0..bells.len()).filter(|n| rung(&bells[*n]) == Some(Wake::Look)).collect();
            assert_eq!(woken.len(), if failure < SEVERAL { 0 } else { 5 }, "{failure}");
            looked.extend(woken);
        }
        assert_eq!(looked.len(), bells.len());
    }
}

#[test]
fn who_waits_in_another_project_does_not_look_for_a_list_that_fails() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let (_, bell) = add(&mut table, "p", "s1", start);
    let (_, other) = add(&mut table, "q", "s2", start);
    for failure in 1..=SEVERAL {
        let now = start + MAX_BACKOFF * (2 * failure);
        for _ in 0..2 {
            let job = list(&mut table, now, false);
            match job.project.as_deref() {
                Some("p") => table.not_listed(&job, ListFailure::Trouble, "no", now),
                _ => table.listed(&job, &unmoved(&job), now),
            }
        }
    }
    assert_eq!((rung(&bell), rung(&other)), (Some(Wake::Look), None));
}

#[test]
fn projects_are_listed_by_themselves_and_all_together_where_that_is_allowed() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    for n in 0..30 {
        add(&mut table, &format!("p{}", n % 3), &format!("s{n}"), start);
    }
    let now = start + Duration::from_secs(2);
    let all = list(&mut table, now, true);
    assert!(all.project.is_none() && all.ids.len() == 30);
    table.not_listed(&all, ListFailure::Refused, "no", now);
    for _ in 0..3 {
        let job = list(&mut table, now, false);
        assert!(job.project.is_some() && job.session.is_some() && job.ids.len() == 10);
    }
    assert!(!matches!(table.next(now, false, true), Some(Next::List(_))));
}

#[test]
fn only_what_has_moved_or_is_gone_is_woken() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let bells: Vec<_> = ["same", "done", "changed", "gone"].iter().map(|id| add(&mut table, "p", id, start).1).collect();
    let now = start + Duration::from_secs(2);
    let job = list(&mut table, now, false);
    let mut changed = listed("changed", "CREATE_IN_PROGRESS");
    changed.changed = "2026-01-01T00:00:00+00:00".into();
    table.listed(&job, &[listed("same", "CREATE_IN_PROGRESS"), listed("done", "CREATE_COMPLETE"), changed], now);
    let woken: Vec<_> = bells.iter().map(|bell| rung(bell)).collect();
    assert_eq!(woken, [None, Some(Wake::Moved), Some(Wake::Moved), Some(Wake::Moved)]);
}

#[test]
fn who_gives_up_his_place_is_not_asked_for_any_more() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let (first, _) = add(&mut table, "p", "s1", start);
    let (second, _) = add(&mut table, "p", "s2", start);
    table.remove(first);
    assert_eq!(list(&mut table, start + Duration::from_secs(2), false).ids, ["s2"]);
    assert!(!table.hasten("s1", start) && table.hasten("s2", start));
    table.remove(second);
    assert!(table.next_moment(false, true).is_none() && table.projects.is_empty() && table.by_stack.is_empty());
}

#[test]
fn an_announced_stack_is_asked_for_at_once() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    add(&mut table, "p", "s1", start);
    assert!(table.next(start, false, true).is_none());
    assert!(table.hasten("s1", start));
    assert_eq!(list(&mut table, start, false).ids, ["s1"]);
}

/// Where each project has a list of its own there may be many that are overdue.
#[test]
fn an_announced_stack_is_asked_for_before_those_that_are_due_already() {
    // On a machine that has just been started there are no moments before.
    let start = Instant::now() + 2 * AHEAD;
    let mut table = Table::new(BOUNDS);
    for n in 0..5 {
        add(&mut table, &format!("p{n}"), &format!("s{n}"), start);
    }
    let now = start + Duration::from_secs(60);
    assert!(table.hasten("s3", now));
    assert!(!table.hasten("s5", now));
    add(&mut table, "p5", "s5", now);
    let first: BTreeSet<String> = (0..2).flat_map(|_| list(&mut table, now, false).ids).collect();
    assert_eq!(first, BTreeSet::from(["s3".to_owned(), "s5".to_owned()]));
}

#[test]
fn what_is_announced_while_a_list_is_under_way_is_asked_for_once_more() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let (_, bell) = add(&mut table, "p", "s1", start);
    let now = start + Duration::from_secs(2);
    let before = list(&mut table, now, false);
    assert!(table.hasten("s1", now));
    table.listed(&before, &unmoved(&before), now);
    let after = list(&mut table, now, false);
    assert_eq!((after.ids.as_slice(), rung(&bell)), (["s1".to_owned()].as_slice(), None));
    // Sent after it was announced, this one is believed.
    table.listed(&after, &unmoved(&after), now);
    assert!(!matches!(table.next(now, false, true), Some(Next::List(_))));
    assert!(table.next_moment(false, false).is_some_and(|moment| moment < now + Duration::from_secs(2)));
}

#[test]
fn a_stack_that_is_announced_while_nobody_waits_for_it_is_asked_for_when_somebody_comes() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    assert!(!table.hasten("s1", start));
    add(&mut table, "p", "s1", start);
    add(&mut table, "q", "s2", start);
    let job = list(&mut table, start, false);
    assert_eq!(job.ids, ["s1"]);
    table.listed(&job, &unmoved(&job), start);
    assert!(table.next(start, false, true).is_none(), "once");
}

/// The place of before the look is there until there is the next one.
#[test]
fn a_stack_that_is_announced_while_it_is_looked_at_is_asked_for_after_the_look() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let (before, _) = add(&mut table, "p", "s1", start);
    assert!(table.hasten("s1", start));
    add(&mut table, "p", "s1", start);
    table.remove(before);
    assert_eq!(list(&mut table, start, false).ids, ["s1"]);
}

#[test]
fn who_has_looked_at_a_heat_that_does_not_answer_is_asked_for_again_with_the_others() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let (key, bell) = add(&mut table, "p", "s1", start);
    add(&mut table, "p", "s2", start);
    let now = start + Duration::from_secs(2);
    let job = list(&mut table, now, false);
    table.listed(&job, &[listed("s1", "CREATE_COMPLETE"), listed("s2", "CREATE_IN_PROGRESS")], now);
    assert_eq!(rung(&bell), Some(Wake::Moved));
    let later = now + Duration::from_secs(5);
    assert_eq!(list(&mut table, later, false).ids, ["s2"], "it is being looked at");
    table.again(key, later);
    let job = list(&mut table, later, false);
    assert_eq!(job.ids, ["s1"]);
    table.listed(&job, &[listed("s1", "CREATE_COMPLETE")], later);
    assert_eq!(rung(&bell), Some(Wake::Moved));
    // What was told of its progress is covered up by what went wrong.
    table.counted(key, seen("s1"), later);
    assert_eq!(rung(&bell), Some(Wake::Progress(Box::new(seen("s1")))));
}

#[test]
fn nobody_looks_because_resources_could_not_be_counted() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let (_, bell) = add(&mut table, "p", "s1", start);
    let now = start + Duration::from_secs(10);
    let job = list(&mut table, now, false);
    table.listed(&job, &unmoved(&job), now);
    let Some(Next::Progress(job)) = table.next(now, false, true) else { panic!("no progress is counted") };
    table.not_counted(&job, ListFailure::Trouble);
    assert_eq!(rung(&bell), None);
    assert!(table.next_moment(false, false).is_some_and(|moment| moment < now + Duration::from_secs(4)), "it is listed as before");
}

#[test]
fn lists_that_were_wrong_are_asked_for_more_often_again_when_they_are_right() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let watch = Watch { project: "p".into(), seen: seen("s1"), age: Duration::from_secs(6000), idle: 2, session: session() };
    table.add(watch, &Arc::new(Bell::default()), start);
    let (mut now, mut waits) = (start, Vec::new());
    for _ in 0..4 {
        let next = table.next_moment(false, false).expect("a moment");
        waits.push((next - now).as_secs_f64() / BOUNDS.max.as_secs_f64());
        now = next;
        let job = list(&mut table, now, false);
        table.listed(&job, &unmoved(&job), now);
    }
    let usual = [4.0, 2.0, 1.0, 1.0];
    assert!(waits.iter().zip(usual).all(|(wait, usual)| (0.79..1.21).contains(&(wait / usual))), "{waits:?}");
}

#[test]
fn whose_stack_moves_is_asked_for_as_often_as_any_other_again() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let bell = Arc::new(Bell::default());
    let watch = Watch { project: "p".into(), seen: seen("s1"), age: Duration::ZERO, idle: 6, session: session() };
    let key = table.add(watch, &bell, start);
    assert!(table.next_moment(false, false).is_some_and(|moment| moment > start + Duration::from_secs(40)));
    let now = start + Duration::from_secs(10);
    table.counted(key, Seen { done: 2, ..seen("s1") }, now);
    let next = table.next_moment(false, false).expect("a moment");
    assert!(next < now + Duration::from_secs(2), "{:?}", next - now);
    let job = list(&mut table, next, false);
    table.listed(&job, &unmoved(&job), next);
    assert!(table.next_moment(false, false).is_some_and(|moment| moment < next + Duration::from_secs(2)));
}

#[test]
fn trouble_makes_a_project_pause_longer_each_time_and_a_refused_session_is_forgotten() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let (_, bell) = add(&mut table, "p", "s1", start);
    let mut now = start + Duration::from_secs(2);
    let mut pauses = Vec::new();
    for _ in 1..SEVERAL {
        let job = list(&mut table, now, false);
        table.not_listed(&job, ListFailure::Trouble, "heat is down", now);
        assert!(table.next(now, false, true).is_none());
        let next = table.next_moment(false, true).expect("a moment");
        pauses.push(next - now);
        now = next;
    }
    // Told once.
    assert_eq!(rung(&bell), Some(Wake::Trouble("heat is down".into())));
    assert!(pauses[0] < pauses[2] && pauses[1] < pauses[3], "{pauses:?}");
    let job = list(&mut table, now, false);
    table.not_listed(&job, ListFailure::Refused, "no", now);
    assert_eq!(rung(&bell), None);
    // Nobody is left who can list: one who waits looks for himself.
    assert!(table.next(now, false, true).is_none());
    assert_eq!(rung(&bell), Some(Wake::Look));
}

#[test]
fn progress_is_counted_after_the_lists_and_told_only_when_something_moved() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    let (_, bell) = add(&mut table, "p", "s1", start);
    let now = start + Duration::from_secs(10);
    let job = list(&mut table, now, false);
    table.listed(&job, &[listed("s1", "CREATE_IN_PROGRESS")], now);
    let Some(Next::Progress(job)) = table.next(now, false, true) else { panic!("no progress is counted") };
    table.counted(job.key, seen("s1"), now);
    assert_eq!(rung(&bell), None);
    let further = Seen { done: 2, ..seen("s1") };
    table.counted(job.key, further.clone(), now);
    assert_eq!(rung(&bell), Some(Wake::Progress(Box::new(further))));
    assert!(table.next(now, false, true).is_none());
}

#[test]
fn without_a_place_for_counts_lists_alone_are_waited_for() {
    let start = Instant::now();
    let mut table = Table::new(BOUNDS);
    add(&mut table, "p", "s1", start);
    let now = start + Duration::from_secs(10);
    let job = list(&mut table, now, false);
    table.listed(&job, &unmoved(&job), now);
    assert!(table.next(now, false, false).is_none());
    assert!(table.next_moment(false, false).is_some_and(|moment| moment > now));
    assert!(table.next_moment(false, true).is_some_and(|moment| moment <= now));
    assert!(matches!(table.next(now, false, true), Some(Next::Progress(_))));
}

#[test]
fn a_look_is_not_covered_up_by_progress() {
    let bell = Bell::default();
    bell.ring(Wake::Look);
    bell.ring(Wake::Progress(Box::new(seen("s"))));
    assert_eq!(rung(&bell), Some(Wake::Look));
    bell.ring(Wake::Moved);
    bell.ring(Wake::Trouble("heat is down".into()));
    assert_eq!(rung(&bell), Some(Wake::Moved));
}
