//! The doorbell: tells conductors that an operation is waiting.
//!
//! It carries an operation id and nothing else. A lost, doubled, late or unknown ring is harmless: the operation row is the record of work,
//! and the conductors' scan of the table finds what no bell announced. Ringing therefore never waits and never fails.

pub mod amqp;
pub mod memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::id::OperationId;

/// Rings that wait to be sent; more than that are dropped (the scan finds the work).
pub const RING_BACKLOG: usize = 4096;
/// How long a process that stops waits for what it has rung to be taken by the queue; the scan finds the rest.
pub const LAST_RINGS: Duration = Duration::from_secs(2);

/// How often a doorbell was rung in this process, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Taken by the queue (the broker has confirmed it, or the channel in memory has it).
    pub rung: u64,
    /// Given up; the conductors' scan finds the operation.
    pub failed: u64,
}

#[derive(Clone, Debug, Default)]
struct Counts(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    begun: AtomicU64,
    rung: AtomicU64,
    failed: AtomicU64,
    /// Another one was rung, or has failed.
    ended: Notify,
}

impl Counts {
    fn begun(&self) {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
    }

    fn rung(&self) {
        self.0.rung.fetch_add(1, Ordering::SeqCst);
        self.0.ended.notify_waiters();
    }

    fn failed(&self) {
        self.0.failed.fetch_add(1, Ordering::SeqCst);
        self.0.ended.notify_waiters();
    }

    fn get(&self) -> RingCounts {
        let [rung, failed] = [&self.0.rung, &self.0.failed].map(|count| count.load(Ordering::SeqCst));
        RingCounts { rung, failed }
    }

    async fn settled(&self) {
        loop {
            let mut another = std::pin::pin!(self.0.ended.notified());
            // Before it is looked: what ends in between is heard of too.
            another.as_mut().enable();
            let RingCounts { rung, failed } = self.get();
            if rung + failed >= self.0.begun.load(Ordering::SeqCst) {
                return;
            }
            another.await;
        }
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
        self.of_process().begun();
        match self {
            Self::Memory(bell) => bell.ring(operation),
            Self::Amqp(bell) => bell.ring(operation),
        }
    }

    /// What became of the rings so far.
    pub fn counts(&self) -> RingCounts {
        self.of_process().get()
    }

    /// Waits until the queue has taken every ring, or it was given up, for `longest` at most: what a process rings as it stops is sent while it does
    /// other things, and would be lost with it.
    pub async fn settled(&self, longest: Duration) {
        if tokio::time::timeout(longest, self.of_process().settled()).await.is_err() {
            tracing::warn!("the queue has not taken all rings of the doorbell; the conductors' scan will find the operations");
        }
    }

    fn of_process(&self) -> &Counts {
        match self {
            Self::Memory(bell) => &bell.counts,
            Self::Amqp(bell) => &bell.counts,
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
