//! The doorbell over RabbitMQ: one durable quorum queue that conductors compete on.
//!
//! One supervisor for each side: connect, declare, work; on any error drop all and start over with jitter on the next host of the list.
//! Every wait has a deadline. No dead-letter queue: a ring that is dropped after too many deliveries is only late, the scan finds the work.

mod bell;
mod notices;
pub mod notify;
mod tls;

pub use bell::Bell;
pub(crate) use notices::ended_stack;
pub use notices::{NoticeSource, StackNotices};
pub use tls::Tls;

use std::fmt;
use std::time::Duration;

use futures::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{Acker, Channel, Connection, ConnectionProperties};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::mpsc;

use super::Ring;
use crate::id::OperationId;

/// Deadline of connecting and declaring.
const SETUP: Duration = Duration::from_secs(10);
/// Deadline of what is published together and confirmed, and of an acknowledgement.
const CALL: Duration = Duration::from_secs(5);
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
