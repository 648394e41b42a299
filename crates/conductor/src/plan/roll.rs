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
    /// Members of former generations, and their images.
    pub former: BTreeMap<String, String>,
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
    /// Every member is of the wanted generation.
    Done,
}

/// Decides; `members` are the numbers of those that there are, in their order, in a stack at rest.
pub(crate) fn next(pool: &Pool, members: &[String], wanted: &Replacement) -> RollStep {
    let begins = pool.generation != wanted.generation;
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
    // More than were wanted are there when an earlier replacement failed.
    let surplus = usize::try_from(present + added - wanted.count).unwrap_or(0);
    let replaces: Vec<String> = old.iter().take(surplus).map(|n| (*n).clone()).collect();
    if added == 0 && !begins {
        return RollStep::Remove { count: present - number(replaces.len()), numbers: replaces };
    }
    RollStep::Add { count: present + added, newcomers: added, replaces, former: begins.then(|| members.to_vec()) }
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
        assert_eq!(step, RollStep::Add { count: 5, newcomers: 1, replaces: vec!["0".into(), "1".into()], former: Some(members) });
    }

    #[test]
    fn a_pool_without_members_takes_the_generation_for_those_to_come() {
        let step = next(&Pool::default(), &[], &wanted(0, 1));
        assert_eq!(step, RollStep::Add { count: 0, newcomers: 0, replaces: Vec::new(), former: Some(Vec::new()) });
        let begun = Pool { generation: NEW.into(), ..Pool::default() };
        assert_eq!(next(&begun, &[], &wanted(0, 1)), RollStep::Done);
    }
}
