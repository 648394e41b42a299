//! The doorbell inside one process.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};

use super::{Counts, RING_BACKLOG, Ring};
use crate::id::OperationId;

/// Rings.
#[derive(Clone)]
pub struct Bell {
    sender: mpsc::Sender<OperationId>,
    pub(super) counts: Counts,
}

/// Listens; clones compete for the rings.
#[derive(Clone)]
pub struct Listener {
    receiver: Arc<Mutex<mpsc::Receiver<OperationId>>>,
}

/// A bell and its listener.
pub fn channel() -> (Bell, Listener) {
    let (sender, receiver) = mpsc::channel(RING_BACKLOG);
    (Bell { sender, counts: Counts::default() }, Listener { receiver: Arc::new(Mutex::new(receiver)) })
}

impl Bell {
    pub(super) fn ring(&self, operation: OperationId) {
        if self.sender.try_send(operation).is_ok() {
            self.counts.rung();
        } else {
            self.counts.failed();
            tracing::debug!("doorbell backlog full or nobody listens; the scan will find the operation");
        }
    }
}

impl Listener {
    pub(super) async fn next(&mut self) -> Ring {
        match self.receiver.lock().await.recv().await {
            Some(operation) => Ring { operation, acknowledge: None },
            // Every bell is gone: nothing will ever ring again.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rings_are_heard_in_order_and_never_block() {
        let (bell, mut listener) = channel();
        let ids: Vec<_> = (0..RING_BACKLOG + 10).map(|_| OperationId::generate()).collect();
        for id in &ids {
            bell.ring(id.clone());
        }
        assert_eq!(listener.next().await.operation, ids[0]);
        assert_eq!(listener.next().await.operation, ids[1]);
    }
}
