//! Replacing all nodes of a pool, a few at a time: new ones are made first, they see off as many old ones, these are taken away.
//!
//! Nothing is kept but what the stack's own parameters say, so that anybody can go on from anywhere.

use std::collections::BTreeMap;

/// Nodes that are replaced together: the masters or the workers of a stack, as its parameters tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    /// Members that the stack shall have.
    pub count: i32,
    /// The replacement that members made now belong to; empty before the first.
    pub generation: String,
    /// The image of members made now.
    pub image: String,
    /// Members that those made last replace.
    pub replaces: Vec<String>,
    /// Members of former generations, and their images; also of such as are gone without having been seen off.
    pub former: BTreeMap<String, String>,
}

impl Pool {
    /// Whether members made now belong to this replacement: to its first round, or to one after some did not become nodes.
    pub fn is_of(&self, generation: &str) -> bool {
        self.round().1 == generation
    }

    /// What the members of the next round are told to belong to. Workers can have only those seen off that belong to something else.
    fn next_round(&self) -> String {
        let (round, generation) = self.round();
        // It is the value of a label, which cannot end in a dot.
        format!("{}.{}", round + 1, if generation.is_empty() { "0" } else { generation })
    }

    /// The first round of a replacement bears its name alone, which has no dot in it.
    fn round(&self) -> (u32, &str) {
        let told = self.generation.split_once('.').and_then(|(round, rest)| Some((round.parse().ok()?, rest)));
        told.unwrap_or((1, &self.generation))
    }
}

/// A replacement of all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    pub generation: String,
    /// Members that the pool has at rest.
    pub count: i32,
    /// Members replaced at once; at least one.
    pub batch: i32,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RollStep {
    /// Have so many members, of which the new ones see off those that are named, which can be more than they are. What is former from now on
    /// is named when it begins.
    Add { count: i32, newcomers: i32, replaces: Vec<String>, former: Option<Vec<String>> },
    /// Take away those that are seen off.
    Remove { count: i32, numbers: Vec<String> },
    /// Those that are named did not become nodes: they are former ones from now on, of which others take the place. Nothing else changes, and the
    /// stack fails at them once more: they are recorded before Heat is told not to wait for them, so that nobody ever takes them for nodes.
    GiveUp { numbers: Vec<String>, generation: String },
    /// Those that are named did not become nodes, and are known to be no part of the cluster: they go at once. They stay former ones, so that those
    /// that come next see off what they may have left there.
    Discard { count: i32, numbers: Vec<String>, generation: String },
    /// Every member is of the wanted generation.
    Done,
}

/// Decides; `members` are the numbers of those that there are, in their order, in a stack at rest.
pub(crate) fn next(pool: &Pool, members: &[String], wanted: &Replacement) -> RollStep {
    let begins = !pool.is_of(&wanted.generation);
    let is_old = |number: &&String| begins || pool.former.contains_key(*number);
    let old: Vec<&String> = members.iter().filter(is_old).collect();
    let present = number(members.len());
    if !begins {
        let seen_off: Vec<String> = old.iter().filter(|n| pool.replaces.contains(n)).map(|n| (*n).clone()).collect();
        if !seen_off.is_empty() {
            return RollStep::Remove { count: present - number(seen_off.len()), numbers: seen_off };
        }
        if old.is_empty() {
            let is_done = pool.count == wanted.count;
            return if is_done { RollStep::Done } else { RollStep::Remove { count: wanted.count, numbers: Vec::new() } };
        }
    }
    let lacking = (wanted.count - (present - number(old.len()))).max(0);
    let added = lacking.min(wanted.batch.max(1));
    // More than were wanted are there when an earlier replacement failed. The newest of them are what it made last, and need not have become
    // nodes: they go first.
    let surplus = usize::try_from(present + added - wanted.count).unwrap_or(0);
    let extra = usize::try_from(present - wanted.count).unwrap_or(0);
    let (first, last) = (surplus.saturating_sub(extra), old.len().saturating_sub(extra));
    let replaces: Vec<String> = old.iter().skip(last).chain(old.iter().take(first.min(last))).map(|n| (*n).clone()).collect();
    if added == 0 && !begins {
        return RollStep::Remove { count: present - number(replaces.len()), numbers: replaces };
    }
    let gone = pool.former.keys().filter(|number| !members.contains(number)).cloned();
    RollStep::Add {
        count: present + added,
        newcomers: added,
        replaces: gone.chain(replaces).collect(),
        former: begins.then(|| members.to_vec()),
    }
}

/// Whether no more are to come for a step: so many that did not become nodes are there already, each of which may be a part of the cluster and waits for one
/// that sees it off.
pub(crate) fn is_overfull(step: &RollStep, wanted: &Replacement) -> bool {
    match step {
        RollStep::Add { count, newcomers, .. } => *newcomers > 0 && count - newcomers - wanted.count > wanted.count.max(2 * wanted.batch),
        _ => false,
    }
}

/// Decides for a pool of a stack that failed: `failed` are the members for whose signal Heat waited in vain. Heat does not forget a signal, so
/// these would fail it again however often it is asked. None when all of them are given up.
///
/// One of those that are to be replaced may bear a number that was used before, and be the one that came for them: nobody has seen them off then.
pub(crate) fn give_up(pool: &Pool, failed: impl IntoIterator<Item = String>) -> Option<RollStep> {
    let is_given_up = |number: &String| pool.former.contains_key(number) && !pool.replaces.contains(number);
    let numbers: Vec<String> = failed.into_iter().filter(|number| !is_given_up(number)).collect();
    (!numbers.is_empty()).then(|| RollStep::GiveUp { numbers, generation: pool.next_round() })
}

/// The same for those of them that are known to be no part of the cluster; `members` are the numbers of all that there are. None when there are none.
pub(crate) fn discard(pool: &Pool, members: &[String], absent: impl IntoIterator<Item = String>) -> Option<RollStep> {
    let numbers: Vec<String> = absent.into_iter().filter(|number| members.contains(number)).collect();
    // Where it is asked for again, the stack's own number is that without them already.
    let count = (number(members.len()) - number(numbers.len())).min(pool.count);
    (!numbers.is_empty()).then(|| RollStep::Discard { count, numbers, generation: pool.next_round() })
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "second";

    /// A stack that does what it is asked; members get numbers that were never used.
    struct Stack {
        pool: Pool,
        members: Vec<String>,
        next: u32,
        most: usize,
        least: usize,
    }

    impl Stack {
        fn of(count: u32) -> Self {
            let members: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            let pool = Pool { count: number(members.len()), image: "old".into(), ..Pool::default() };
            Self { pool, most: members.len(), least: members.len(), members, next: count }
        }

        fn carry_out(&mut self, step: &RollStep) {
            match step {
                RollStep::Add { count, newcomers, replaces, former } => {
                    assert_eq!(number(self.members.len()) + newcomers, *count);
                    self.pool.count = *count;
                    self.pool.replaces = replaces.clone();
                    if let Some(former) = former {
                        self.pool.generation = NEW.into();
                        self.pool.former = former.iter().map(|n| (n.clone(), "old".to_owned())).collect();
                    }
                }
                RollStep::Remove { count, numbers } => {
                    self.pool.count = *count;
                    self.members.retain(|n| !numbers.contains(n));
                    let replaced = std::mem::take(&mut self.pool.replaces);
                    self.pool.former.retain(|n, _| !numbers.contains(n) && !replaced.contains(n));
                }
                RollStep::Discard { count, numbers, generation } => {
                    self.pool.count = *count;
                    self.members.retain(|n| !numbers.contains(n));
                    self.pool.generation = generation.clone();
                    self.pool.replaces = Vec::new();
                    self.pool.former.extend(numbers.iter().map(|n| (n.clone(), "new".to_owned())));
                }
                RollStep::GiveUp { numbers, generation } => {
                    self.pool.generation = generation.clone();
                    self.pool.replaces = Vec::new();
                    self.pool.former.extend(numbers.iter().map(|n| (n.clone(), "new".to_owned())));
                }
                RollStep::Done => panic!("there is nothing to carry out"),
            }
            while number(self.members.len()) < self.pool.count {
                self.members.push(self.next.to_string());
                self.next += 1;
            }
            assert_eq!(number(self.members.len()), self.pool.count, "the count agrees with what is there");
            self.most = self.most.max(self.members.len());
            self.least = self.least.min(self.members.len());
        }
    }

    fn wanted(count: i32, batch: i32) -> Replacement {
        Replacement { generation: NEW.into(), count, batch }
    }

    #[test]
    fn every_member_is_replaced_and_never_are_there_fewer_than_wanted_or_more_than_a_batch_above() {
        for count in 0..9u32 {
            for batch in 1..5 {
                let mut stack = Stack::of(count);
                let want = wanted(number(stack.members.len()), batch);
                let mut steps = 0;
                loop {
                    let step = next(&stack.pool, &stack.members, &want);
                    if step == RollStep::Done {
                        break;
                    }
                    stack.carry_out(&step);
                    steps += 1;
                    assert!(steps < 50, "{count} by {batch} does not end");
                }
                let n = usize::try_from(count).expect("small");
                assert_eq!(stack.members.len(), n);
                assert!(stack.members.iter().all(|m| m.parse::<u32>().expect("a number") >= count), "{:?}", stack.members);
                assert_eq!(stack.least, n);
                assert!(stack.most <= n + usize::try_from(batch).expect("small"));
            }
        }
    }

    #[test]
    fn those_that_were_seen_off_go_before_others_come() {
        let mut stack = Stack::of(3);
        stack.carry_out(&next(&stack.pool, &stack.members, &wanted(3, 2)));
        assert_eq!(stack.pool.replaces, ["0", "1"]);
        assert_eq!(next(&stack.pool, &stack.members, &wanted(3, 2)), RollStep::Remove { count: 3, numbers: vec!["0".into(), "1".into()] });
    }

    #[test]
    fn what_an_earlier_replacement_left_half_done_is_replaced_too() {
        // It failed with one new member beside three old ones; now another generation is wanted.
        let pool = Pool { count: 4, generation: "first".into(), replaces: vec!["0".into()], ..Pool::default() };
        let members: Vec<String> = ["0", "1", "2", "3"].map(str::to_owned).into();
        let step = next(&pool, &members, &wanted(3, 1));
        assert_eq!(step, RollStep::Add { count: 5, newcomers: 1, replaces: vec!["3".into(), "0".into()], former: Some(members) });
    }

    #[test]
    fn members_that_did_not_become_nodes_are_replaced_with_those_that_they_were_to_replace() {
        for count in 1..7u32 {
            for batch in 1..4 {
                for fails_at in 1..5 {
                    let mut stack = Stack::of(count);
                    let want = wanted(number(stack.members.len()), batch);
                    let (mut steps, mut added, mut seen_off) = (0, 0, Vec::new());
                    loop {
                        let step = next(&stack.pool, &stack.members, &want);
                        match &step {
                            RollStep::Done => break,
                            RollStep::Add { replaces, .. } => seen_off.extend(replaces.clone()),
                            RollStep::Remove { numbers, .. } => assert!(numbers.iter().all(|n| seen_off.contains(n)), "{numbers:?}"),
                            RollStep::GiveUp { .. } | RollStep::Discard { .. } => panic!("nothing has failed"),
                        }
                        let before = stack.members.clone();
                        stack.carry_out(&step);
                        added += usize::from(matches!(step, RollStep::Add { .. }));
                        if added == fails_at && matches!(step, RollStep::Add { .. }) {
                            let failed: Vec<String> = stack.members.iter().filter(|n| !before.contains(n)).cloned().collect();
                            let step = give_up(&stack.pool, failed.clone()).expect("they are not given up yet");
                            assert_eq!(step, RollStep::GiveUp { numbers: failed.clone(), generation: format!("2.{NEW}") });
                            stack.carry_out(&step);
                            assert_eq!(give_up(&stack.pool, failed), None);
                        }
                        steps += 1;
                        assert!(steps < 60, "{count} by {batch} does not end");
                    }
                    assert_eq!(number(stack.members.len()), want.count);
                    assert!(stack.pool.is_of(NEW) && stack.members.iter().all(|n| !stack.pool.former.contains_key(n)), "{:?}", stack.pool);
                    assert_eq!(stack.least, stack.members.len());
                }
            }
        }
    }

    #[test]
    fn nobody_goes_for_a_member_that_failed_and_bears_the_number_of_a_former_one() {
        let former = ["0", "1", "3"].map(|number| (number.to_owned(), "img".to_owned())).into();
        let pool = Pool { count: 4, generation: "a".into(), replaces: vec!["3".into(), "0".into()], former, ..Pool::default() };
        let given_up = RollStep::GiveUp { numbers: vec!["3".into()], generation: "2.a".into() };
        assert_eq!(give_up(&pool, ["3".into()]), Some(given_up));
        assert_eq!(give_up(&Pool { replaces: Vec::new(), ..pool }, ["3".into()]), None);
    }

    #[test]
    fn members_that_never_joined_go_at_once_and_are_named_to_those_that_come_next() {
        for count in 1..7u32 {
            for batch in 1..4 {
                let mut stack = Stack::of(count);
                let want = wanted(number(stack.members.len()), batch);
                let mut absent: Vec<String> = Vec::new();
                let (mut fails, mut seen_off) = (5, Vec::new());
                for steps in 0.. {
                    assert!(steps < 60, "{count} by {batch} does not end");
                    let step = next(&stack.pool, &stack.members, &want);
                    match &step {
                        RollStep::Done => break,
                        RollStep::Add { replaces, .. } => {
                            assert!(absent.iter().all(|number| replaces.contains(number)), "{absent:?} of {replaces:?}");
                            seen_off.extend(replaces.clone());
                        }
                        RollStep::Remove { numbers, .. } => {
                            assert!(numbers.iter().all(|n| seen_off.contains(n) && !absent.contains(n)), "{numbers:?}");
                        }
                        other => panic!("nothing has failed: {other:?}"),
                    }
                    let before = stack.members.clone();
                    stack.carry_out(&step);
                    if matches!(step, RollStep::Add { .. }) {
                        absent.clear();
                    }
                    if fails > 0 && matches!(step, RollStep::Add { .. }) {
                        fails -= 1;
                        absent.extend(stack.members.iter().filter(|n| !before.contains(n)).cloned());
                        stack.carry_out(&discard(&stack.pool, &stack.members, absent.clone()).expect("they are there"));
                        assert_eq!(stack.members, before);
                        assert_eq!(discard(&stack.pool, &stack.members, absent.clone()), None);
                    }
                }
                assert_eq!((number(stack.members.len()), fails), (want.count, 0));
                assert!(stack.members.iter().all(|n| !stack.pool.former.contains_key(n)) && stack.pool.is_of(NEW), "{:?}", stack.pool);
                assert!(
                    stack.least == stack.members.len() && number(stack.most) <= want.count + batch,
                    "{} to {}",
                    stack.least,
                    stack.most
                );
            }
        }
    }

    #[test]
    fn what_is_asked_again_of_members_that_never_joined_is_the_same() {
        let members: Vec<String> = ["0", "1", "2"].map(str::to_owned).into();
        let pool = Pool { count: 3, generation: "a".into(), ..Pool::default() };
        let step = discard(&pool, &members, ["2".to_owned()]);
        assert_eq!(step, Some(RollStep::Discard { count: 2, numbers: vec!["2".into()], generation: "2.a".into() }));
        // Heat has begun, and could not take it away.
        let begun = Pool { count: 2, generation: "2.a".into(), former: [("2".to_owned(), "img".to_owned())].into(), ..Pool::default() };
        let step = discard(&begun, &members, ["2".to_owned()]);
        assert_eq!(step, Some(RollStep::Discard { count: 2, numbers: vec!["2".into()], generation: "3.a".into() }));
    }

    #[test]
    fn so_many_that_may_be_nodes_are_kept_and_no_more_come() {
        for (count, batch, most) in [(1, 1, 4), (3, 1, 7), (3, 2, 9), (10, 1, 21), (10, 10, 40)] {
            let mut stack = Stack::of(count);
            let want = wanted(number(stack.members.len()), batch);
            for tries in 0.. {
                assert!(tries < 50, "{count} by {batch} has no bound");
                let before = stack.members.clone();
                let step = next(&stack.pool, &stack.members, &want);
                if is_overfull(&step, &want) {
                    break;
                }
                assert!(matches!(step, RollStep::Add { .. }), "{step:?}");
                stack.carry_out(&step);
                let failed: Vec<String> = stack.members.iter().filter(|n| !before.contains(n)).cloned().collect();
                stack.carry_out(&give_up(&stack.pool, failed).expect("they are not given up yet"));
            }
            assert_eq!(stack.members.len(), most, "{count} by {batch}");
            // Whoever takes those away that came has it go on.
            let first = stack.members[..usize::try_from(count).expect("small")].to_vec();
            assert!(!is_overfull(&next(&stack.pool, &first, &want), &want));
        }
    }

    #[test]
    fn a_round_is_told_by_its_number_before_the_replacement_that_it_is_of() {
        let pool = |generation: &str| Pool { generation: generation.into(), count: 1, ..Pool::default() };
        for (generation, next) in [("a-retire", "2.a-retire"), ("2.a-retire", "3.a-retire"), ("", "2.0"), ("2.0", "3.0")] {
            let given_up = RollStep::GiveUp { numbers: vec!["0".into()], generation: next.into() };
            assert_eq!(give_up(&pool(generation), ["0".into()]), Some(given_up));
        }
        assert!(pool("9.a-retire").is_of("a-retire") && !pool("9.a-retire").is_of("a-sign") && pool("").is_of(""));
        assert_eq!(give_up(&pool("a"), []), None);
    }

    #[test]
    fn a_pool_without_members_takes_the_generation_for_those_to_come() {
        let step = next(&Pool::default(), &[], &wanted(0, 1));
        assert_eq!(step, RollStep::Add { count: 0, newcomers: 0, replaces: Vec::new(), former: Some(Vec::new()) });
        let begun = Pool { generation: NEW.into(), ..Pool::default() };
        assert_eq!(next(&begun, &[], &wanted(0, 1)), RollStep::Done);
    }
}
