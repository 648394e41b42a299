//! The doorbell over RabbitMQ: one durable quorum queue that conductors compete on.
//!
//! One supervisor for each side: connect, declare, work; on any error drop all and start over with jitter on the next host of the list.
//! Every wait has a deadline. No dead-letter queue: a ring that is dropped after too many deliveries is only late, the scan finds the work.

mod notices;
pub mod notify;
mod tls;

pub(crate) use notices::ended_stack;
pub use notices::{NoticeSource, StackNotices};
pub use tls::Tls;

use std::fmt;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{Acker, BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::mpsc;

use super::{Counts, RING_BACKLOG, Ring};
use crate::id::OperationId;

/// Deadline of connecting and declaring.
const SETUP: Duration = Duration::from_secs(10);
/// Deadline of what is published together and confirmed, and of an acknowledgement.
const CALL: Duration = Duration::from_secs(5);
/// Rings sent together at most.
const BATCH: usize = 64;
/// Tries of one ring before it is left to the scan.
const PUBLISH_TRIES: u32 = 3;
/// Longest pause between two attempts to connect.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Bytes of a frame at most. A ring is one id, and lapin holds two buffers of 32 frames for each connection: with the 128 KiB that brokers
/// offer they are 8 MiB, touched in full.
const FRAME_MAX: u32 = 8192;
/// Deliveries of one ring before the broker drops it.
const DELIVERY_LIMIT: i64 = 20;

/// How to reach the brokers.
#[derive(Clone)]
pub struct Reach {
    /// Tried in order, again and again.
    pub brokers: Vec<Broker>,
    pub vhost: String,
    /// TLS, with the PEM bundle the brokers' certificates must chain to (none: the system's).
    pub tls: Option<Tls>,
    /// AMQP heartbeat, seconds.
    pub heartbeat: u16,
}

/// Where the doorbell is.
#[derive(Clone)]
pub struct AmqpOptions {
    pub reach: Reach,
    /// The queue's name; every API and conductor of a deployment has the same.
    pub queue: String,
    /// Rings on their way to one listener at most.
    pub prefetch: u16,
}

/// One broker.
#[derive(Clone)]
pub struct Broker {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: SecretString,
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.user, self.host, self.port)
    }
}

/// Rings.
#[derive(Clone)]
pub struct Bell {
    sender: mpsc::Sender<OperationId>,
    pub(super) counts: Counts,
}

/// Listens.
pub struct Listener {
    receiver: mpsc::Receiver<Ring>,
}

/// What ends a delivery.
pub(super) struct Acknowledge(Acker);

impl Acknowledge {
    pub(super) async fn done(self) {
        // A failure means that the connection is gone: the ring comes again, which is harmless.
        if !matches!(tokio::time::timeout(CALL, self.0.ack(BasicAckOptions::default())).await, Ok(Ok(_))) {
            tracing::debug!("a ring could not be acknowledged; it will come again");
        }
    }
}

impl Bell {
    /// Starts the publishing side. Must be called within the runtime; its task ends when the last bell is dropped.
    pub fn start(options: AmqpOptions) -> Self {
        let (sender, receiver) = mpsc::channel(RING_BACKLOG);
        let counts = Counts::default();
        tokio::spawn(publish_for_ever(options, receiver, counts.clone()));
        Self { sender, counts }
    }

    pub(super) fn ring(&self, operation: OperationId) {
        if self.sender.try_send(operation).is_err() {
            self.counts.failed();
            tracing::warn!("doorbell backlog full: the conductors' scan will find the operation");
        }
    }
}

impl Listener {
    /// Starts the consuming side. Must be called within the runtime; its task ends when the listener is dropped.
    pub fn start(options: AmqpOptions) -> Self {
        let (sender, receiver) = mpsc::channel(usize::from(options.prefetch.max(1)));
        tokio::spawn(consume_for_ever(options, sender));
        Self { receiver }
    }

    pub(super) async fn next(&mut self) -> Ring {
        match self.receiver.recv().await {
            Some(ring) => ring,
            None => std::future::pending().await,
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

/// Sends all of these before it waits for the confirmation of the first; of each, why it was not confirmed.
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
    for published in on_their_way {
        let confirmed = match published {
            Ok(Ok(confirmation)) => tokio::time::timeout_at(deadline, confirmation).await,
            Ok(Err(error)) => Ok(Err(error)),
            Err(elapsed) => Err(elapsed),
        };
        sent.push(match confirmed.map_err(late) {
            Ok(Ok(Confirmation::Ack(None))) => Ok(()),
            // A mandatory message that went nowhere is confirmed too, with the message given back.
            Ok(Ok(Confirmation::Ack(Some(_)))) => Err("the queue was not there".to_owned()),
            Ok(Ok(_)) => Err("the broker refused it".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(late) => Err(late),
        });
    }
    sent
}

async fn consume_for_ever(options: AmqpOptions, sender: mpsc::Sender<Ring>) {
    let mut attempt = 0u32;
    loop {
        match connect(&options, attempt).await {
            Ok((connection, channel)) => {
                attempt = 0;
                match consume(&options, &channel, &sender).await {
                    Ok(()) => {
                        close(connection).await;
                        return;
                    }
                    Err(reason) => note_failure("listening", attempt, &reason),
                }
                close(connection).await;
            }
            Err(reason) => note_failure("listening", attempt, &reason),
        }
        if pause(&mut attempt, sender.is_closed()).await {
            return;
        }
    }
}

/// Hands on rings until the connection fails (an error) or nobody listens any more.
async fn consume(options: &AmqpOptions, channel: &Channel, sender: &mpsc::Sender<Ring>) -> Result<(), String> {
    let started = tokio::time::timeout(SETUP, async {
        channel.basic_qos(options.prefetch, BasicQosOptions::default()).await?;
        channel.basic_consume(options.queue.as_str().into(), "".into(), BasicConsumeOptions::default(), FieldTable::default()).await
    });
    let mut consumer = within("consume", started).await?;
    loop {
        let delivery = tokio::select! {
            delivery = consumer.next() => delivery,
            () = sender.closed() => return Ok(()),
        };
        let delivery = match delivery {
            Some(Ok(delivery)) => delivery,
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err("the consumer was cancelled".into()),
        };
        // Whatever else lies in the queue cannot be an operation: it is acknowledged like a ring for an unknown one.
        let text = String::from_utf8_lossy(&delivery.data).chars().take(64).collect::<String>();
        let ring = Ring { operation: OperationId::new(text), acknowledge: Some(Acknowledge(delivery.acker)) };
        if sender.send(ring).await.is_err() {
            return Ok(());
        }
    }
}

/// Connects and makes sure that the doorbell's queue is there.
async fn connect(options: &AmqpOptions, attempt: u32) -> Result<(Connection, Channel), String> {
    let (connection, channel) = open(&options.reach, attempt, "magnum doorbell").await?;
    let setup = tokio::time::timeout(SETUP, async {
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(DELIVERY_LIMIT));
        channel.queue_declare(options.queue.as_str().into(), QueueDeclareOptions::durable(), arguments).await
    });
    match within("declare", setup).await {
        Ok(_) => Ok((connection, channel)),
        Err(reason) => {
            close(connection).await;
            Err(reason)
        }
    }
}

/// Tries each of the brokers once, all at the same time, and declares nothing: `host:port`, and why it cannot be used.
pub async fn probe(reach: &Reach) -> Vec<(String, Result<(), String>)> {
    let each = reach.brokers.iter().enumerate().map(|(at, broker)| async move {
        let tried = open(reach, u32::try_from(at).unwrap_or(u32::MAX), "magnum check").await;
        let result = match tried {
            Ok((connection, _)) => {
                close(connection).await;
                Ok(())
            }
            Err(reason) => Err(reason),
        };
        (format!("{}:{}", broker.host, broker.port), result)
    });
    futures::future::join_all(each).await
}

/// Connects to the next broker of the list.
async fn open(reach: &Reach, attempt: u32, name: &str) -> Result<(Connection, Channel), String> {
    let broker = reach.brokers.get(attempt as usize % reach.brokers.len().max(1)).ok_or("no broker is configured")?;
    let uri = AMQPUri {
        scheme: if reach.tls.is_some() { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo { username: broker.user.clone(), password: broker.password.expose_secret().to_owned() },
            host: broker.host.clone(),
            port: broker.port,
        },
        vhost: reach.vhost.clone(),
        query: AMQPQueryString { heartbeat: Some(reach.heartbeat), frame_max: Some(FRAME_MAX), ..AMQPQueryString::default() },
    };
    let tls = tls::config(reach.tls.as_ref()).await?;
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let setup = tokio::time::timeout(SETUP, async {
        let runtime = lapin::runtime::default_runtime()?;
        let connection = Connection::connect_uri_with_config(uri, properties, tls, runtime).await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    });
    within("connect", setup).await
}

async fn within<T>(
    what: &str,
    call: impl Future<Output = Result<Result<T, lapin::Error>, tokio::time::error::Elapsed>>,
) -> Result<T, String> {
    match call.await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(format!("{what}: {error}")),
        Err(_) => Err(format!("{what}: no answer in {} s", SETUP.as_secs())),
    }
}

async fn close(connection: Connection) {
    // The broker may be gone: closing politely is a courtesy with a deadline.
    if tokio::time::timeout(Duration::from_secs(1), connection.close(200, "".into())).await.is_err() {
        tracing::debug!("the broker did not answer to closing");
    }
}

fn note_failure(doing: &str, attempt: u32, reason: &str) {
    if attempt == 0 {
        tracing::warn!(reason, "{doing} on the message broker failed; trying again until it is back");
    } else {
        tracing::debug!(reason, attempt, "{doing} on the message broker failed");
    }
}

/// Waits before the next attempt, longer each time; true when nobody needs it any more.
async fn pause(attempt: &mut u32, closed: bool) -> bool {
    if closed {
        return true;
    }
    let base = Duration::from_millis(100).saturating_mul(2u32.saturating_pow((*attempt).min(6)));
    *attempt = attempt.saturating_add(1);
    tokio::time::sleep(base.min(MAX_PAUSE).mul_f64(crate::random::range(0.5..1.0))).await;
    false
}
