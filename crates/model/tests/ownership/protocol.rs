//! What there is: conductors, two operations, one thing in the cloud; and what must always hold.
//!
//! The two operations are a create and the delete that supersedes it, or two changes of the thing of which the second waits for the end of the
//! first. Claim, lease, guard and release are the same ([`super::transition`]); what is looked for and asked of the cloud is not.
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

/// So many ticks after the cloud has ceased to carry out anything, changes have missed their deadlines.
pub const DUE: u8 = 8;

/// The property of progress. Stronger than "eventually": within [`PATIENCE`] on every path, from every state that can be reached.
pub const CALM_END: &str = "every operation ends once nothing goes wrong any more";

/// Else [`CALM_END`] would hold of a model in which no time passes.
pub const TIME_GOES_ON: &str = "time goes on until then";

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
    /// A change that finds all as wanted believes it at once, though the one before it ended badly.
    BelievedAtOnce,
    /// Nobody looks at the deadline of a change.
    NoDeadline,
}

/// Which two operations there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// The first makes the thing; the second removes it, and supersedes the first.
    CreateAndDelete,
    /// The first wants the thing to be 1, the second wants it to be 2. The first may be cancelled, either may miss its deadline.
    Changes,
}

/// The engine's protocol, or what is left of it.
pub struct Protocol {
    pub pair: Pair,
    flaw: Option<Flaw>,
}

impl Protocol {
    pub fn sound(pair: Pair) -> Self {
        Self { pair, flaw: None }
    }

    pub fn with(pair: Pair, flaw: Flaw) -> Self {
        Self { pair, flaw: Some(flaw) }
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
pub enum Which {
    First,
    Second,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowState {
    /// Not accepted yet.
    None,
    /// Accepted and not ended.
    Open,
    Succeeded,
    Superseded,
    /// Ended as its user has asked, by who took it next.
    Cancelled,
    /// Ended by its deadline.
    Failed,
}

/// An operation's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub state: RowState,
    /// Ticks that the lease has left by the slowest clock; none when nobody holds it.
    pub hold: Option<i8>,
    /// Its user has asked for its end: nothing is begun or recorded under the claim that there is, and whoever takes it next ends it.
    pub is_to_end: bool,
    /// Ticks since what it is about to do was recorded, which got no clear answer yet.
    pub announced: Option<i8>,
    /// Ticks since a request of it was sent that the cloud may still carry out.
    pub asked: Option<i8>,
}

/// Where a worker is between two moments at which anything may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// About to read the rows and look at the cloud.
    Look,
    /// Something is to be made, changed or removed: about to write so, under the claim.
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
    pub on: Which,
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
    pub first: Row,
    pub second: Row,
    /// Things in the cloud; of changes, what the one thing is.
    pub value: u8,
    /// The cloud carries out nothing any more.
    pub is_broken: bool,
    /// Something was asked for by somebody who had not seen what another had asked for.
    pub is_blind: bool,
    /// Ticks since everything began to go well, for good.
    pub calm: Option<u8>,
}

/// What happens next. Conductors are named by their place in the state before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Tick,
    /// Nothing goes wrong from now on; or the cloud carries out nothing any more, and all else goes well.
    Calm {
        is_broken: bool,
    },
    /// A user deletes.
    AcceptDelete,
    /// He cancels the first change.
    Cancel,
    /// The deadline of a change has passed when its owner looks.
    Overdue(usize, Reply),
    Claim(usize, Which, Reply),
    Heartbeat(usize, Reply),
    /// The next step, as far as there is something to do.
    Step(usize, Reply),
    /// It stops working, by its lease or by its operator, and gives the operation back if the database hears it.
    Drop(usize, Reply),
    Crash(usize),
    /// The cloud carries a request out.
    CarriedOut(Which),
    /// It loses one.
    Lost(Which),
}

/// Whether the answer to what was done arrives. (A question that does not arrive changes nothing: the same as no event.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Heard,
    Lost,
}

impl Row {
    /// Nobody holds it, and nothing was asked under it.
    fn new(state: RowState) -> Self {
        Self { state, hold: None, is_to_end: false, announced: None, asked: None }
    }
}

impl State {
    pub fn row(&self, which: Which) -> Row {
        match which {
            Which::First => self.first,
            Which::Second => self.second,
        }
    }

    pub fn row_mut(&mut self, which: Which) -> &mut Row {
        match which {
            Which::First => &mut self.first,
            Which::Second => &mut self.second,
        }
    }

    pub fn has_ended(&self) -> bool {
        self.first.state != RowState::Open && self.second.state != RowState::Open
    }

    fn workers(&self, which: Which) -> usize {
        self.conductors.iter().filter(|c| c.work.is_some_and(|w| w.on == which)).count()
    }
}

impl Protocol {
    /// What must always hold of the two operations.
    fn rules(&self) -> Vec<Property<Self>> {
        match self.pair {
            Pair::CreateAndDelete => vec![
                Property::always("nothing is made unseen", |_, s: &State| !s.is_blind),
                Property::always("at most one thing is made", |_, s: &State| s.value <= 1),
                Property::always("what is deleted is gone", |_, s: &State| {
                    s.second.state != RowState::Succeeded || (s.value == 0 && s.first.asked.is_none())
                }),
                Property::always("what is created is there", |_, s: &State| {
                    s.first.state != RowState::Succeeded || s.second.state != RowState::None || s.value == 1
                }),
            ],
            Pair::Changes => vec![
                Property::always("no change is asked for unseen", |_, s: &State| !s.is_blind),
                Property::always("what was changed is so until it is changed again", |_, s: &State| {
                    s.first.state != RowState::Succeeded || (s.value != 0 && s.first.asked.is_none())
                }),
                Property::always("what was changed last stays so", |_, s: &State| {
                    s.second.state != RowState::Succeeded || (s.value == 2 && s.first.asked.is_none())
                }),
            ],
        }
    }

    /// What must be among the states, for a model that has lost it would show nothing.
    fn sights(&self) -> Vec<Property<Self>> {
        let three_owners = |_: &Self, s: &State| s.workers(Which::First) == 3;
        let outlived = |_: &Self, s: &State| s.first.asked.is_some() && s.workers(Which::First) == 0;
        let mut all = vec![
            Property::sometimes("three owners of one operation, two of them stale", three_owners),
            Property::sometimes("a request outlives the claim it was sent under", outlived),
            Property::sometimes("the second operation succeeds", |_, s: &State| s.second.state == RowState::Succeeded),
        ];
        match self.pair {
            Pair::CreateAndDelete => all
                .push(Property::sometimes("a delete runs while a superseded create still believes in its claim", |_, s: &State| {
                    s.workers(Which::Second) > 0 && s.workers(Which::First) > 0
                })),
            Pair::Changes => all.extend([
                Property::sometimes("what a failed change asked for is under way when the next one asks", |_, s: &State| {
                    s.first.state == RowState::Failed && s.first.asked.is_some() && s.second.asked.is_some()
                }),
                Property::sometimes("a cancelled change is carried out", |_, s: &State| {
                    s.first.state == RowState::Cancelled && s.value == 1
                }),
                Property::sometimes("both miss their deadlines", |_, s: &State| {
                    s.first.state == RowState::Failed && s.second.state == RowState::Failed
                }),
            ]),
        }
        all
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Event;

    /// The create is accepted, or both changes are; every way in which three clocks differ.
    fn init_states(&self) -> Vec<State> {
        let clocks = (0..=SKEW).flat_map(|a| (a..=SKEW).map(move |b| [0, a, b]));
        let second = if self.pair == Pair::Changes { RowState::Open } else { RowState::None };
        clocks
            .map(|clocks| State {
                conductors: clocks.map(|ahead| Conductor { ahead, work: None }),
                first: Row::new(RowState::Open),
                second: Row::new(second),
                value: 0,
                is_broken: false,
                is_blind: false,
                calm: None,
            })
            .collect()
    }

    /// What comes after a violation says nothing more. (That is no boundary of the model: the checker asks nothing of states beyond one.)
    fn actions(&self, state: &State, actions: &mut Vec<Event>) {
        if !state.is_blind && (self.pair == Pair::Changes || state.value <= 1) {
            self.events(state, actions);
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        self.after(state, event)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = self.rules();
        all.push(Property::always(CALM_END, |_, s: &State| s.calm != Some(PATIENCE) || s.has_ended()));
        all.push(Property::always(TIME_GOES_ON, |m: &Self, s: &State| {
            s.calm.is_none_or(|ticks| ticks == PATIENCE) || s.has_ended() || {
                let mut events = Vec::new();
                m.events(s, &mut events);
                events.iter().any(|event| m.after(s, *event).is_some())
            }
        }));
        if self.flaw.is_none() {
            all.extend(self.sights());
        }
        all
    }
}
