//! What there is: conductors, two operations, one thing in the cloud; and what must always hold.
//!
//! Time passes in ticks and everything is counted from now (a lease has so many ticks left, a claim was renewed so many ticks ago), so that
//! the number of states is finite although nothing else is bounded.

use stateright::{Model, Property};

/// How long a claim holds without a heartbeat.
pub const LEASE: i8 = 4;
/// The most that two clocks differ by: half a lease.
pub const SKEW: i8 = LEASE / 2;
/// A conductor stops this long before its lease ends by its own clock: as long as clocks may differ. (The engine has a quarter of a lease for
/// both.)
pub const MARGIN: i8 = SKEW;
/// The cloud may carry out a request so long after it was sent, whatever became of the sender.
pub const LATE: i8 = 1;
/// "There is nothing" is not believed for so long.
pub const SETTLING: i8 = LATE + 1;
/// Once nothing goes wrong any more, every operation ends within this many ticks.
pub const PATIENCE: u8 = 20;

/// The property of progress. Stronger than "eventually": within [`PATIENCE`] on every path, from every state that can be reached.
pub const CALM_END: &str = "every operation ends once nothing goes wrong any more";

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// What is about to be done is written down without asking whether the claim still holds.
    NoGuard,
    /// The lease is used to its end by the owner's clock.
    NoMargin,
    /// Nobody looks at the lease again before acting on what the database said.
    NoFence,
    /// A delete does not wait for the owner of what it superseded.
    NoHold,
    /// "There is nothing" is believed at once.
    NoSettling,
    /// … and is counted from the announcement instead of from the last moment at which something may have been sent.
    SettlingFromAnnouncement,
    /// What is about to be made is not recorded before.
    NoRecord,
    /// A release does not look at whose claim it ends.
    CarelessRelease,
    /// A lease that has run out is not taken over.
    NoTakeover,
}

/// The engine's protocol, or what is left of it.
pub struct Protocol {
    flaw: Option<Flaw>,
}

impl Protocol {
    pub fn sound() -> Self {
        Self { flaw: None }
    }

    pub fn with(flaw: Flaw) -> Self {
        Self { flaw: Some(flaw) }
    }

    pub fn lacks(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// A claim renewed so long ago is not acted under any more.
    pub fn is_over(&self, age: i8) -> bool {
        match self.flaw {
            Some(Flaw::NoFence) => false,
            Some(Flaw::NoMargin) => age >= LEASE,
            _ => age >= LEASE - MARGIN,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Create,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowState {
    /// Not accepted yet.
    None,
    /// Accepted and not ended.
    Open,
    Succeeded,
    Superseded,
}

/// An operation's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub state: RowState,
    /// Ticks that the lease has left by the slowest clock; none when nobody holds it.
    pub hold: Option<i8>,
}

/// Where a worker is between two moments at which anything may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// About to read the rows and look at the cloud.
    Look,
    /// Something is to be made or removed: about to write so, under the claim.
    Guard,
    /// It is written: about to ask the cloud.
    Ask,
    /// The cloud was asked and has not answered.
    Asked,
    /// All is as it should be: about to end the operation.
    Finish,
}

/// What a conductor knows of an operation it claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Work {
    pub on: Kind,
    pub step: Step,
    /// Ticks since the lease was last renewed, counted from before it was asked for.
    pub age: i8,
    /// Ticks since something unseen may last have been sent: by a former owner before this claim, or by this one.
    pub quiet: i8,
    /// The row's generation is still the claim's.
    pub matches: bool,
    /// The row's owner is still this conductor.
    pub owns: bool,
}

/// Conductors differ in their clocks only, so that they are kept in order and not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conductor {
    /// Ticks that its clock is ahead of the slowest.
    pub ahead: i8,
    pub work: Option<Work>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub conductors: [Conductor; 3],
    pub create: Row,
    pub delete: Row,
    /// Ticks since the name of a thing was recorded whose making got no clear answer yet.
    pub announced: Option<i8>,
    /// Things in the cloud.
    pub things: u8,
    /// Ticks since a request to make one was sent that the cloud may still carry out.
    pub making: Option<i8>,
    /// The same of a request to remove it.
    pub removing: Option<i8>,
    /// A thing was asked for by somebody who had not seen what another had asked for.
    pub is_blind: bool,
    /// Ticks since everything began to go well, for good.
    pub calm: Option<u8>,
}

/// What happens next. Conductors are named by their place in the state before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Tick,
    /// Nothing goes wrong from now on.
    Calm,
    /// A user deletes.
    AcceptDelete,
    Claim(usize, Kind, Reply),
    Heartbeat(usize, Reply),
    /// The next step, as far as there is something to do.
    Step(usize, Reply),
    /// It stops working, by its lease or by its operator, and gives the operation back if the database hears it.
    Drop(usize, Reply),
    Crash(usize),
    /// The cloud carries a request out, or loses it.
    Made,
    MakeLost,
    Removed,
    RemoveLost,
}

/// Whether the answer to what was done arrives. (A question that does not arrive changes nothing: the same as no event.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Heard,
    Lost,
}

impl State {
    pub fn row(&self, kind: Kind) -> Row {
        match kind {
            Kind::Create => self.create,
            Kind::Delete => self.delete,
        }
    }

    pub fn row_mut(&mut self, kind: Kind) -> &mut Row {
        match kind {
            Kind::Create => &mut self.create,
            Kind::Delete => &mut self.delete,
        }
    }

    fn has_ended(&self) -> bool {
        self.create.state != RowState::Open && self.delete.state != RowState::Open
    }

    fn workers(&self, kind: Kind) -> usize {
        self.conductors.iter().filter(|c| c.work.is_some_and(|w| w.on == kind)).count()
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Event;

    /// The create is accepted; every way in which three clocks differ.
    fn init_states(&self) -> Vec<State> {
        let clocks = (0..=SKEW).flat_map(|a| (a..=SKEW).map(move |b| [0, a, b]));
        clocks
            .map(|clocks| State {
                conductors: clocks.map(|ahead| Conductor { ahead, work: None }),
                create: Row { state: RowState::Open, hold: None },
                delete: Row { state: RowState::None, hold: None },
                announced: None,
                things: 0,
                making: None,
                removing: None,
                is_blind: false,
                calm: None,
            })
            .collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Event>) {
        self.events(state, actions);
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        self.after(state, event)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always("nothing is made unseen", |_, s: &State| !s.is_blind),
            Property::always("at most one thing is made", |_, s: &State| s.things <= 1),
            Property::always("what is deleted is gone", |_, s: &State| {
                s.delete.state != RowState::Succeeded || (s.things == 0 && s.making.is_none())
            }),
            Property::always("what is created is there", |_, s: &State| {
                s.create.state != RowState::Succeeded || s.delete.state != RowState::None || s.things == 1
            }),
            Property::always(CALM_END, |_, s: &State| s.calm != Some(PATIENCE) || s.has_ended()),
        ];
        if self.flaw.is_none() {
            all.extend([
                Property::sometimes("three owners of one operation, two of them stale", |_, s: &State| s.workers(Kind::Create) == 3),
                Property::sometimes("a delete runs while a superseded create still believes in its claim", |_, s: &State| {
                    s.workers(Kind::Delete) > 0 && s.workers(Kind::Create) > 0
                }),
                Property::sometimes("a request outlives the claim it was sent under", |_, s: &State| {
                    s.making.is_some() && s.workers(Kind::Create) == 0
                }),
                Property::sometimes("everything ends after a delete", |_, s: &State| s.delete.state == RowState::Succeeded),
            ]);
        }
        all
    }

    /// What comes after a violation says nothing more.
    fn within_boundary(&self, state: &State) -> bool {
        !state.is_blind && state.things <= 1
    }
}
