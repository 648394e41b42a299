//! The doorbell: tells conductors that an operation is waiting.
//!
//! It carries an operation id and nothing else. A lost, doubled, late or unknown ring is harmless: the operation row is the record of work,
//! and the conductors' scan of the table finds what no bell announced. Ringing therefore never waits and never fails.

pub mod amqp;
pub mod memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::id::OperationId;

/// Rings that wait to be sent; more than that are dropped (the scan finds the work).
pub const RING_BACKLOG: usize = 4096;

/// How often a doorbell was rung in this process, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Taken by the queue (the broker has confirmed it, or the channel in memory has it).
    pub rung: u64,
    /// Given up; the conductors' scan finds the operation.
    pub failed: u64,
}

#[derive(Clone, Debug, Default)]
struct Counts(Arc<[AtomicU64; 2]>);

impl Counts {
    fn rung(&self) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self) {
        self.0[1].fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> RingCounts {
        let [rung, failed] = [&self.0[0], &self.0[1]].map(|count| count.load(Ordering::Relaxed));
        RingCounts { rung, failed }
    }
}

/// The side that rings.
#[derive(Clone)]
pub enum Doorbell {
    /// Another task of this process listens.
    Memory(memory::Bell),
    /// A RabbitMQ queue that conductors compete on.
    Amqp(amqp::Bell),
}

impl Doorbell {
    /// Announces an operation.
    pub fn ring(&self, operation: OperationId) {
        match self {
            Self::Memory(bell) => bell.ring(operation),
            Self::Amqp(bell) => bell.ring(operation),
        }
    }

    /// What became of the rings so far.
    pub fn counts(&self) -> RingCounts {
        match self {
            Self::Memory(bell) => bell.counts.get(),
            Self::Amqp(bell) => bell.counts.get(),
        }
    }
}

/// The side that listens.
pub enum Listener {
    Memory(memory::Listener),
    Amqp(amqp::Listener),
}

/// One ring. Dropping it without [`Ring::taken`] lets another listener hear it (where the queue can do that).
pub struct Ring {
    pub operation: OperationId,
    acknowledge: Option<amqp::Acknowledge>,
}

impl Ring {
    /// The ring has done its work: the operation is claimed, or nobody need look at it.
    pub async fn taken(self) {
        if let Some(acknowledge) = self.acknowledge {
            acknowledge.done().await;
        }
    }
}

impl Listener {
    /// The next ring. Never ends: while the queue cannot be reached it waits.
    pub async fn next(&mut self) -> Ring {
        match self {
            Self::Memory(listener) => listener.next().await,
            Self::Amqp(listener) => listener.next().await,
        }
    }
}
