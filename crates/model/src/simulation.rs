//! The seam for deterministic simulations of the engine: a thread that simulates has a clock and a source of randomness of its own, both from
//! one seed.
//!
//! Time ([`crate::time::now`]), randomness ([`crate::random`]), the place where blocking work runs ([`crate::blocking`]) and how much of payloads is
//! understood ([`Payload::known`]) ask here first. A thread that does not simulate, which is every thread of the programs, has the system's. Nothing
//! but a test begins a simulation.
//!
//! [`Payload::known`]: crate::operation::Payload::known

use std::cell::RefCell;
use std::marker::PhantomData;

use chrono::{DateTime, TimeDelta, Utc};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::Instant;

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

struct World {
    random: StdRng,
    clock: Clock,
    /// The latest version of payloads that whoever runs now understands; none: the one that this program does.
    known: Option<u32>,
}

/// What a simulated wall clock says.
enum Clock {
    /// It stands: between two moments at which anything runs.
    Stands(DateTime<Utc>),
    /// It goes with the (paused) clock of the runtime that runs now.
    Goes { from: DateTime<Utc>, since: Instant },
}

/// Makes the thread a simulation until it is dropped; belongs to the thread.
pub struct Simulation(PhantomData<*const ()>);

impl Simulation {
    /// Begins with this seed, at this time.
    ///
    /// # Panics
    /// When the thread simulates already.
    pub fn begin(seed: u64, at: DateTime<Utc>) -> Self {
        WORLD.with_borrow_mut(|world| {
            assert!(world.is_none(), "this thread simulates already");
            *world = Some(World { random: StdRng::seed_from_u64(seed), clock: Clock::Stands(at), known: None });
        });
        Self(PhantomData)
    }

    /// The wall clock stands at this time.
    pub fn stand(&self, at: DateTime<Utc>) {
        set(Clock::Stands(at));
    }

    /// The wall clock shows this time and goes on with the clock of the runtime that this is called in.
    pub fn go(&self, from: DateTime<Utc>) {
        set(Clock::Goes { from, since: Instant::now() });
    }

    /// Whoever runs from now on understands payloads up to this version, as an earlier release does; none: all that this program does.
    pub fn know(&self, version: Option<u32>) {
        WORLD.with_borrow_mut(|world| {
            if let Some(world) = world {
                world.known = version;
            }
        });
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        WORLD.set(None);
    }
}

fn set(clock: Clock) {
    WORLD.with_borrow_mut(|world| {
        if let Some(world) = world {
            world.clock = clock;
        }
    });
}

/// Whether this thread simulates.
pub(crate) fn is_on() -> bool {
    WORLD.with_borrow(Option::is_some)
}

/// The simulated time, on a thread that simulates.
pub(crate) fn now() -> Option<DateTime<Utc>> {
    WORLD.with_borrow(|world| match &world.as_ref()?.clock {
        Clock::Stands(at) => Some(*at),
        Clock::Goes { from, since } => Some(*from + TimeDelta::from_std(since.elapsed()).unwrap_or_default()),
    })
}

/// The latest version of payloads that is understood, where a simulation says so.
pub(crate) fn known() -> Option<u32> {
    WORLD.with_borrow(|world| world.as_ref()?.known)
}

/// What is drawn from the seed, on a thread that simulates.
pub(crate) fn draw<T>(from: impl FnOnce(&mut StdRng) -> T) -> Option<T> {
    WORLD.with_borrow_mut(|world| world.as_mut().map(|world| from(&mut world.random)))
}
