//! What may happen next, and what it does. Each transaction of the store is one event, as is each call to the cloud and each answer; between
//! any two of them a conductor may stand still for as long as it likes, or die.

use super::protocol::{
    Conductor, DUE, Event, Flaw, LATE, LEASE, PATIENCE, Pair, Protocol, Reply, Row, RowState, SETTLING, State, Step, Which, Work,
};

/// Both operations.
const BOTH: [Which; 2] = [Which::First, Which::Second];

impl Protocol {
    /// Everything that may happen.
    pub fn events(&self, state: &State, events: &mut Vec<Event>) {
        let is_calm = state.calm.is_some();
        let replies: &[Reply] = if is_calm { &[Reply::Heard] } else { &[Reply::Heard, Reply::Lost] };
        for (i, conductor) in state.conductors.iter().enumerate() {
            for &reply in replies {
                match conductor.work {
                    None => events.extend(BOTH.map(|which| Event::Claim(i, which, reply))),
                    Some(work) if self.is_over(work.age) => events.push(Event::Drop(i, reply)),
                    Some(work) => {
                        let is_unanswered = state.is_broken && work.step == Step::Asked;
                        events.push(Event::Step(i, if is_unanswered { Reply::Lost } else { reply }));
                        if self.pair == Pair::Changes && !is_calm && work.step == Step::Look && !self.lacks(Flaw::NoDeadline) {
                            events.push(Event::Overdue(i, reply));
                        }
                        if work.age > 0 {
                            events.push(Event::Heartbeat(i, reply));
                        }
                        if !is_calm {
                            events.push(Event::Drop(i, reply));
                        }
                    }
                }
            }
            if !is_calm && conductor.work.is_some() {
                events.push(Event::Crash(i));
            }
        }
        for which in BOTH.into_iter().filter(|which| state.row(*which).asked.is_some()) {
            if !state.is_broken {
                events.push(Event::CarriedOut(which));
            }
            if state.is_broken || !is_calm {
                events.push(Event::Lost(which));
            }
        }
        if is_calm {
            // Time passes only when nobody has anything to do: from here on nobody is slow.
            events.retain(|event| self.after(state, *event).is_some());
            if events.is_empty() && state.calm < Some(PATIENCE) && !state.has_ended() {
                events.push(Event::Tick);
            }
            return;
        }
        if state.second.state == RowState::None {
            events.push(Event::AcceptDelete);
        }
        if self.pair == Pair::Changes {
            events.extend([Event::Cancel, Event::Calm { is_broken: true }]);
        }
        events.extend([Event::Tick, Event::Calm { is_broken: false }]);
    }

    /// The state after an event; none when it changes nothing.
    pub fn after(&self, before: &State, event: Event) -> Option<State> {
        let mut state = before.clone();
        match event {
            Event::Tick => self.tick(&mut state)?,
            Event::Calm { is_broken } => (state.calm, state.is_broken) = (Some(0), is_broken),
            Event::AcceptDelete => accept_delete(&mut state),
            Event::Cancel => cancel(&mut state),
            Event::Overdue(i, reply) => {
                let work = state.conductors[i].work?;
                self.end(&mut state, i, work, RowState::Failed, reply)?;
            }
            Event::Claim(i, which, reply) => self.claim(&mut state, i, which, reply)?,
            Event::Heartbeat(i, reply) => heartbeat(&mut state, i, reply)?,
            Event::Step(i, reply) => self.step(&mut state, i, reply)?,
            Event::Drop(i, reply) => self.give_back(&mut state, i, reply),
            Event::Crash(i) => state.conductors[i].work = None,
            Event::CarriedOut(which) => {
                state.row_mut(which).asked = None;
                state.value = match (self.pair, which) {
                    // Not by any name: there may come to be two.
                    (Pair::CreateAndDelete, Which::First) => state.value + 1,
                    (Pair::CreateAndDelete, Which::Second) => 0,
                    (Pair::Changes, _) => wish(which),
                };
            }
            Event::Lost(which) => state.row_mut(which).asked = None,
        }
        self.forget_what_cannot_matter(&mut state);
        state.conductors.sort();
        (state != *before).then_some(state)
    }

    fn tick(&self, state: &mut State) -> Option<()> {
        // What is this old is carried out or lost before any more time passes.
        if BOTH.iter().any(|which| state.row(*which).asked == Some(LATE)) {
            return None;
        }
        state.calm = state.calm.map(|ticks| ticks + 1);
        for row in [&mut state.first, &mut state.second] {
            row.asked = row.asked.map(|age| age + 1);
            row.announced = row.announced.map(|age| (age + 1).min(SETTLING));
            row.hold = row.hold.map(|left| (left - 1).max(0));
        }
        for work in state.conductors.iter_mut().filter_map(|c| c.work.as_mut()) {
            work.age = (work.age + 1).min(LEASE);
            work.quiet = (work.quiet + 1).min(SETTLING);
        }
        Some(())
    }

    /// `model::store::operation::claim`: one guarded update.
    fn claim(&self, state: &mut State, i: usize, which: Which, reply: Reply) -> Option<()> {
        let ahead = state.conductors[i].ahead;
        let is_free = |row: Row| row.hold.is_none_or(|left| left <= ahead && !self.lacks(Flaw::NoTakeover));
        let row = state.row(which);
        if row.state != RowState::Open || !is_free(row) {
            return None;
        }
        let is_behind = state.first.state == RowState::Open || (!is_free(state.first) && !self.lacks(Flaw::NoHold));
        if which == Which::Second && is_behind {
            return None;
        }
        for other in works_on(state, which) {
            (other.matches, other.owns) = (false, false);
        }
        state.row_mut(which).hold = Some(LEASE + ahead);
        if reply == Reply::Heard {
            state.conductors[i].work = Some(Work { on: which, step: Step::Look, age: 0, quiet: 0, matches: true, owns: true });
        }
        Some(())
    }

    fn step(&self, state: &mut State, i: usize, reply: Reply) -> Option<()> {
        let mut work = state.conductors[i].work?;
        // A lost answer is told apart only where an answer says that something was stored.
        if reply == Reply::Lost && !matches!(work.step, Step::Guard | Step::Finish | Step::Asked) {
            return None;
        }
        match work.step {
            Step::Look if work.matches && state.row(work.on).is_to_end => return self.end(state, i, work, RowState::Cancelled, reply),
            Step::Look if state.is_broken && state.calm >= Some(DUE) && !self.lacks(Flaw::NoDeadline) => {
                return self.end(state, i, work, RowState::Failed, reply);
            }
            Step::Look => work.step = self.look(state, &work)?,
            Step::Guard => {
                if !work.matches && !self.lacks(Flaw::NoGuard) {
                    self.give_back(state, i, Reply::Heard);
                    return Some(());
                }
                // What removes names what was seen: it needs no record.
                let is_recorded = self.pair == Pair::Changes || work.on == Which::First;
                if is_recorded && !self.lacks(Flaw::NoRecord) {
                    state.row_mut(work.on).announced = Some(0);
                }
                work.step = if reply == Reply::Heard { Step::Ask } else { Step::Look };
            }
            Step::Ask => {
                state.is_blind |= self.is_blind(state, work.on);
                state.row_mut(work.on).asked = Some(0);
                work.step = Step::Asked;
            }
            Step::Asked => {
                let is_answered = match self.pair {
                    Pair::CreateAndDelete => BOTH.iter().all(|which| state.row(*which).asked.is_none()),
                    Pair::Changes => state.row(work.on).asked.is_none() && !state.is_broken,
                };
                match (reply, is_answered) {
                    // The record of the answer is guarded too.
                    (Reply::Heard, true) if !work.matches => {
                        self.give_back(state, i, Reply::Heard);
                        return Some(());
                    }
                    (Reply::Heard, true) => state.row_mut(work.on).announced = None,
                    (Reply::Heard, false) => return None,
                    (Reply::Lost, _) => work.quiet = 0,
                }
                work.step = Step::Look;
            }
            Step::Finish => return self.end(state, i, work, RowState::Succeeded, reply),
        }
        state.conductors[i].work = Some(work);
        Some(())
    }

    /// What comes after a look at the cloud; none when the time for it has not come.
    fn look(&self, state: &State, work: &Work) -> Option<Step> {
        let is_settled = self.is_settled(state, work);
        match self.pair {
            Pair::CreateAndDelete => {
                let is_there = state.value > 0;
                let is_wanted = work.on == Which::First;
                (is_there || is_settled).then_some(if is_there == is_wanted { Step::Finish } else { Step::Guard })
            }
            Pair::Changes if state.value == wish(work.on) => {
                // The one before it ended badly: what that asked for may be on its way.
                let may_change = work.on == Which::Second && state.first.state != RowState::Succeeded;
                let is_believed = !may_change || work.quiet >= SETTLING || self.lacks(Flaw::BelievedAtOnce);
                is_believed.then_some(Step::Finish)
            }
            Pair::Changes => is_settled.then_some(Step::Guard),
        }
    }

    /// Whether what is about to be asked for is asked without knowing what another has asked for.
    fn is_blind(&self, state: &State, which: Which) -> bool {
        match (self.pair, which) {
            (Pair::CreateAndDelete, Which::First) => state.first.asked.is_some() || state.value > 0,
            // Names the thing that was seen: a second one is harmless.
            (Pair::CreateAndDelete, Which::Second) => false,
            // Once more what is under way or is so, or after the one that came later has begun.
            (Pair::Changes, Which::First) => state.first.asked.is_some() || state.second.announced.is_some() || state.value != 0,
            (Pair::Changes, Which::Second) => state.second.asked.is_some() || state.value == wish(which),
        }
    }

    /// Whether it is believed that nothing which was recorded before may still appear.
    fn is_settled(&self, state: &State, work: &Work) -> bool {
        let recorded = match self.pair {
            Pair::CreateAndDelete => state.first,
            Pair::Changes => state.row(work.on),
        };
        let Some(announced) = recorded.announced else { return true };
        match () {
            () if self.lacks(Flaw::NoSettling) => true,
            () if self.lacks(Flaw::SettlingFromAnnouncement) => announced >= SETTLING,
            () => work.quiet >= SETTLING,
        }
    }

    /// Ends the operation, under the claim.
    fn end(&self, state: &mut State, i: usize, mut work: Work, how: RowState, reply: Reply) -> Option<()> {
        if !work.matches {
            self.give_back(state, i, Reply::Heard);
            return Some(());
        }
        let row = state.row_mut(work.on);
        (row.state, row.hold, row.is_to_end) = (how, None, false);
        work = Work { step: Step::Look, matches: false, owns: false, ..work };
        state.conductors[i].work = (reply == Reply::Lost).then_some(work);
        Some(())
    }

    /// `model::store::operation::release`: ends the hold if it is one's own.
    fn give_back(&self, state: &mut State, i: usize, reply: Reply) {
        let Some(work) = state.conductors[i].work.take() else { return };
        if reply == Reply::Heard && (work.owns || self.lacks(Flaw::CarelessRelease)) {
            state.row_mut(work.on).hold = None;
        }
    }

    /// Makes states equal that differ in nothing that anybody can ask for.
    fn forget_what_cannot_matter(&self, state: &mut State) {
        for work in state.conductors.iter_mut().filter_map(|c| c.work.as_mut()) {
            if self.is_over(work.age) {
                (work.step, work.age, work.quiet, work.matches) = (Step::Look, LEASE, 0, false);
            }
        }
        if !self.lacks(Flaw::SettlingFromAnnouncement) {
            for row in [&mut state.first, &mut state.second] {
                row.announced = row.announced.map(|_| 0);
            }
        }
    }
}

/// What a change wants the thing to be.
fn wish(which: Which) -> u8 {
    match which {
        Which::First => 1,
        Which::Second => 2,
    }
}

/// `model::store::operation::heartbeat`: a claim that does not hold any more is not renewed.
fn heartbeat(state: &mut State, i: usize, reply: Reply) -> Option<()> {
    let Conductor { ahead, work: Some(mut work) } = state.conductors[i] else { return None };
    if !work.matches {
        return None;
    }
    state.row_mut(work.on).hold = Some(LEASE + ahead);
    if reply == Reply::Heard {
        work.age = 0;
    }
    state.conductors[i].work = Some(work);
    Some(())
}

/// `model::store::operation::supersede`: the create ends; its owner keeps the hold until he notices.
fn accept_delete(state: &mut State) {
    state.second.state = RowState::Open;
    if state.first.state == RowState::Open {
        state.first.state = RowState::Superseded;
        for work in works_on(state, Which::First) {
            work.matches = false;
        }
    }
}

/// `model::store::operation::ask_to_cancel`: guard, renewal and end of the claim that there is are refused from now on.
fn cancel(state: &mut State) {
    if state.first.state == RowState::Open && !state.first.is_to_end {
        state.first.is_to_end = true;
        for work in works_on(state, Which::First) {
            work.matches = false;
        }
    }
}

fn works_on(state: &mut State, which: Which) -> impl Iterator<Item = &mut Work> {
    state.conductors.iter_mut().filter_map(|c| c.work.as_mut()).filter(move |w| w.on == which)
}
