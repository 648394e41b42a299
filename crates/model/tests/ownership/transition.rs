//! What may happen next, and what it does. Each transaction of the store is one event, as is each call to the cloud and each answer; between
//! any two of them a conductor may stand still for as long as it likes, or die.

use super::protocol::{Conductor, Event, Flaw, Kind, LATE, LEASE, PATIENCE, Protocol, Reply, Row, RowState, SETTLING, State, Step, Work};

impl Protocol {
    /// Everything that may happen.
    pub fn events(&self, state: &State, events: &mut Vec<Event>) {
        let is_calm = state.calm.is_some();
        let replies: &[Reply] = if is_calm { &[Reply::Heard] } else { &[Reply::Heard, Reply::Lost] };
        for (i, conductor) in state.conductors.iter().enumerate() {
            for &reply in replies {
                match conductor.work {
                    None => events.extend([Kind::Create, Kind::Delete].map(|kind| Event::Claim(i, kind, reply))),
                    Some(work) if self.is_over(work.age) => events.push(Event::Drop(i, reply)),
                    Some(work) => {
                        events.push(Event::Step(i, reply));
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
        if state.making.is_some() {
            events.push(Event::Made);
        }
        if state.removing.is_some() {
            events.push(Event::Removed);
        }
        if is_calm {
            // Time passes only when nobody has anything to do: from here on nobody is slow.
            events.retain(|event| self.after(state, *event).is_some());
            if events.is_empty() && state.calm < Some(PATIENCE) {
                events.push(Event::Tick);
            }
            return;
        }
        if state.making.is_some() {
            events.push(Event::MakeLost);
        }
        if state.removing.is_some() {
            events.push(Event::RemoveLost);
        }
        if state.delete.state == RowState::None {
            events.push(Event::AcceptDelete);
        }
        events.extend([Event::Tick, Event::Calm]);
    }

    /// The state after an event; none when it changes nothing.
    pub fn after(&self, before: &State, event: Event) -> Option<State> {
        let mut state = before.clone();
        match event {
            Event::Tick => self.tick(&mut state)?,
            Event::Calm => state.calm = Some(0),
            Event::AcceptDelete => accept_delete(&mut state),
            Event::Claim(i, kind, reply) => self.claim(&mut state, i, kind, reply)?,
            Event::Heartbeat(i, reply) => heartbeat(&mut state, i, reply)?,
            Event::Step(i, reply) => self.step(&mut state, i, reply)?,
            Event::Drop(i, reply) => self.give_back(&mut state, i, reply),
            Event::Crash(i) => state.conductors[i].work = None,
            Event::Made => {
                state.making = None;
                state.things += 1;
            }
            Event::MakeLost => state.making = None,
            Event::Removed => {
                state.removing = None;
                state.things = 0;
            }
            Event::RemoveLost => state.removing = None,
        }
        self.forget_what_cannot_matter(&mut state);
        state.conductors.sort();
        (state != *before).then_some(state)
    }

    fn tick(&self, state: &mut State) -> Option<()> {
        // What is this old is carried out or lost before any more time passes.
        if state.making == Some(LATE) || state.removing == Some(LATE) {
            return None;
        }
        for age in [&mut state.making, &mut state.removing].into_iter().flatten() {
            *age += 1;
        }
        state.announced = state.announced.map(|age| (age + 1).min(SETTLING));
        for row in [&mut state.create, &mut state.delete] {
            row.hold = row.hold.map(|left| (left - 1).max(0));
        }
        for work in state.conductors.iter_mut().filter_map(|c| c.work.as_mut()) {
            work.age = (work.age + 1).min(LEASE);
            work.quiet = (work.quiet + 1).min(SETTLING);
        }
        state.calm = state.calm.map(|ticks| ticks + 1);
        Some(())
    }

    /// `model::store::operation::claim`: one guarded update.
    fn claim(&self, state: &mut State, i: usize, kind: Kind, reply: Reply) -> Option<()> {
        let ahead = state.conductors[i].ahead;
        let is_free = |row: Row| row.hold.is_none_or(|left| left <= ahead && !self.lacks(Flaw::NoTakeover));
        let row = state.row(kind);
        if row.state != RowState::Open || !is_free(row) {
            return None;
        }
        let is_behind = state.create.state == RowState::Open || (!is_free(state.create) && !self.lacks(Flaw::NoHold));
        if kind == Kind::Delete && is_behind {
            return None;
        }
        for other in works_on(state, kind) {
            (other.matches, other.owns) = (false, false);
        }
        state.row_mut(kind).hold = Some(LEASE + ahead);
        if reply == Reply::Heard {
            state.conductors[i].work = Some(Work { on: kind, step: Step::Look, age: 0, quiet: 0, matches: true, owns: true });
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
            Step::Look => {
                let is_there = state.things > 0;
                let wanted = work.on == Kind::Create;
                if !is_there && !self.is_settled(state, &work) {
                    return None;
                }
                work.step = if is_there == wanted { Step::Finish } else { Step::Guard };
            }
            Step::Guard => {
                if !work.matches && !self.lacks(Flaw::NoGuard) {
                    self.give_back(state, i, Reply::Heard);
                    return Some(());
                }
                if work.on == Kind::Create && !self.lacks(Flaw::NoRecord) {
                    state.announced = Some(0);
                }
                work.step = if reply == Reply::Heard { Step::Ask } else { Step::Look };
            }
            Step::Ask => {
                match work.on {
                    Kind::Create => {
                        state.is_blind |= state.making.is_some() || state.things > 0;
                        state.making = Some(0);
                    }
                    // Names the thing that was seen: a second one is harmless.
                    Kind::Delete => state.removing = Some(0),
                }
                work.step = Step::Asked;
            }
            Step::Asked => {
                let is_answered = state.making.is_none() && state.removing.is_none();
                match (reply, is_answered) {
                    // The record of the answer is guarded too.
                    (Reply::Heard, true) if !work.matches => {
                        self.give_back(state, i, Reply::Heard);
                        return Some(());
                    }
                    (Reply::Heard, true) => {
                        if work.on == Kind::Create {
                            state.announced = None;
                        }
                    }
                    (Reply::Heard, false) => return None,
                    (Reply::Lost, _) => work.quiet = 0,
                }
                work.step = Step::Look;
            }
            Step::Finish => {
                if !work.matches {
                    self.give_back(state, i, Reply::Heard);
                    return Some(());
                }
                *state.row_mut(work.on) = Row { state: RowState::Succeeded, hold: None };
                if reply == Reply::Heard {
                    state.conductors[i].work = None;
                    return Some(());
                }
                (work.step, work.matches, work.owns) = (Step::Look, false, false);
            }
        }
        state.conductors[i].work = Some(work);
        Some(())
    }

    /// Whether "there is nothing" is believed.
    fn is_settled(&self, state: &State, work: &Work) -> bool {
        let Some(announced) = state.announced else { return true };
        match () {
            () if self.lacks(Flaw::NoSettling) => true,
            () if self.lacks(Flaw::SettlingFromAnnouncement) => announced >= SETTLING,
            () => work.quiet >= SETTLING,
        }
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
                (work.step, work.quiet, work.matches) = (Step::Look, 0, false);
            }
        }
        if !self.lacks(Flaw::SettlingFromAnnouncement) {
            state.announced = state.announced.map(|_| 0);
        }
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
    state.delete.state = RowState::Open;
    if state.create.state == RowState::Open {
        state.create.state = RowState::Superseded;
        for work in works_on(state, Kind::Create) {
            work.matches = false;
        }
    }
}

fn works_on(state: &mut State, kind: Kind) -> impl Iterator<Item = &mut Work> {
    state.conductors.iter_mut().filter_map(|c| c.work.as_mut()).filter(move |w| w.on == kind)
}
