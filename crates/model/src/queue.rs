//! The doorbell: tells conductors that an operation is waiting.
//!
//! It carries an operation id and nothing else. A lost, doubled, late or unknown ring is harmless: the operation row is the record of work,
//! and the conductors' scan of the table finds what no bell announced. Ringing therefore never waits and never fails.

pub mod amqp;
pub mod memory;

use crate::id::OperationId;

/// Rings that wait to be sent; more than that are dropped (the scan finds the work).
pub const RING_BACKLOG: usize = 4096;

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
