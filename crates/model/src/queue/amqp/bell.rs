//! The publishing side of the doorbell.

use std::time::Duration;

use futures::future::join_all;
use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel, Confirmation, Connection};
use tokio::sync::mpsc;

use super::{AmqpOptions, CALL, close, connect, note_failure, pause};
use crate::id::OperationId;
use crate::queue::{Counts, RING_BACKLOG};

/// Rings sent together at most.
const BATCH: usize = 64;
/// Tries of one ring before it is left to the scan.
const PUBLISH_TRIES: u32 = 3;
/// Why a ring comes back.
const NO_QUEUE: &str = "the queue was not there";

/// Rings.
#[derive(Clone)]
pub struct Bell {
    sender: mpsc::Sender<OperationId>,
    pub(in crate::queue) counts: Counts,
}

impl Bell {
    /// Starts the publishing side. Must be called within the runtime; its task ends when the last bell is dropped.
    pub fn start(options: AmqpOptions) -> Self {
        let (sender, receiver) = mpsc::channel(RING_BACKLOG);
        let counts = Counts::default();
        tokio::spawn(publish_for_ever(options, receiver, counts.clone()));
        Self { sender, counts }
    }

    pub(in crate::queue) fn ring(&self, operation: OperationId) {
        if self.sender.try_send(operation).is_err() {
            self.counts.failed();
            tracing::warn!("doorbell backlog full: the conductors' scan will find the operation");
        }
    }
}

async fn publish_for_ever(options: AmqpOptions, mut rings: mpsc::Receiver<OperationId>, counts: Counts) {
    let mut attempt = 0u32;
    let mut unconfirmed = Vec::new();
    loop {
        // Nothing keeps a broker from going away while nobody rings; the connection is held so that the first ring after a while is quick.
        match connect(&options, attempt).await {
            Ok((connection, channel)) => {
                attempt = 0;
                let ended = publish(&options, &connection, &channel, &mut rings, &mut unconfirmed, &counts).await;
                close(connection).await;
                if ended {
                    return;
                }
            }
            Err(reason) => note_failure("publishing", attempt, &reason),
        }
        if pause(&mut attempt, rings.is_closed()).await {
            return;
        }
    }
}

/// Publishes until the connection fails (false) or the last bell is gone (true). A ring that was not confirmed is sent again on the next
/// connection, a bounded number of times: the scan has its work by then.
///
/// What has been rung while the broker confirms is sent together: it writes to its disk before it does. What one connection does not confirm
/// of it spends one try each.
async fn publish(
    options: &AmqpOptions,
    connection: &Connection,
    channel: &Channel,
    rings: &mut mpsc::Receiver<OperationId>,
    unconfirmed: &mut Vec<(OperationId, u32)>,
    counts: &Counts,
) -> bool {
    let mut health = tokio::time::interval(Duration::from_secs(1));
    loop {
        let mut batch = std::mem::take(unconfirmed);
        if batch.is_empty() {
            let mut rung = Vec::new();
            tokio::select! {
                count = rings.recv_many(&mut rung, BATCH) => if count == 0 { return true },
                _ = health.tick() => {
                    if connection.status().connected() && channel.status().connected() {
                        continue;
                    }
                    return false;
                }
            }
            batch.extend(rung.into_iter().map(|operation| (operation, 0)));
        }
        let mut is_whole = true;
        let sent = send(options, channel, &batch).await;
        for ((operation, tries), sent) in batch.into_iter().zip(sent) {
            match sent {
                Ok(()) => {
                    counts.rung();
                    tracing::debug!(operation.id = %operation, "doorbell rung");
                }
                Err(reason) if tries + 1 < PUBLISH_TRIES => {
                    tracing::debug!(operation.id = %operation, reason, "a ring was not confirmed, trying again");
                    unconfirmed.push((operation, tries + 1));
                    is_whole = false;
                }
                Err(reason) => {
                    counts.failed();
                    tracing::warn!(operation.id = %operation, reason, "failed to ring the doorbell; the conductors' scan will find the operation");
                    is_whole = false;
                }
            }
        }
        if !is_whole {
            return false;
        }
    }
}

/// Sends all of these before it waits for the confirmation of the first; of each, why it was not confirmed. Where one comes back, none is: the
/// client's library may say it of another one than the broker gave back.
async fn send(options: &AmqpOptions, channel: &Channel, batch: &[(OperationId, u32)]) -> Vec<Result<(), String>> {
    let deadline = tokio::time::Instant::now() + CALL;
    let late = |_| format!("no confirmation in {} s", CALL.as_secs());
    let publish = async |operation: &OperationId| {
        let publish = channel.basic_publish(
            "".into(),
            options.queue.as_str().into(),
            BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() },
            operation.as_str().as_bytes(),
            BasicProperties::default().with_delivery_mode(2).with_content_type("text/plain".into()),
        );
        tokio::time::timeout_at(deadline, publish).await
    };
    let on_their_way = join_all(batch.iter().map(|(operation, _)| publish(operation))).await;
    let mut sent = Vec::with_capacity(batch.len());
    let mut has_come_back = false;
    for published in on_their_way {
        let confirmed = match published {
            Ok(Ok(confirmation)) => tokio::time::timeout_at(deadline, confirmation).await,
            Ok(Err(error)) => Ok(Err(error)),
            Err(elapsed) => Err(elapsed),
        };
        sent.push(match confirmed.map_err(late) {
            Ok(Ok(Confirmation::Ack(None))) => Ok(()),
            // A mandatory message that went nowhere is confirmed too, with the message given back.
            Ok(Ok(Confirmation::Ack(Some(_)))) => {
                has_come_back = true;
                Err(NO_QUEUE.to_owned())
            }
            Ok(Ok(_)) => Err("the broker refused it".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(late) => Err(late),
        });
    }
    if has_come_back {
        sent.iter_mut().filter(|sent| sent.is_ok()).for_each(|sent| *sent = Err(NO_QUEUE.to_owned()));
    }
    sent
}
