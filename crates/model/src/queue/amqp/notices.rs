//! What Heat tells about its stacks by oslo.messaging notifications: only that a stack has ended what it did, and only as a hint.
//!
//! Each listener has a queue of its own, so that other consumers of the same notifications miss nothing. The queue belongs to the
//! connection and goes with it; meanwhile it is bounded in length and age. What is lost is only late: stacks are asked for anyway.

use futures::StreamExt;
use lapin::options::{BasicConsumeOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind};
use serde::Deserialize;
use tokio::sync::mpsc;

use super::{AmqpOptions, SETUP, close, note_failure, open, pause, within};

/// Hints that wait to be taken; more than that are dropped.
const BACKLOG: usize = 10_000;
/// Messages that wait in the broker, and for how long, milliseconds.
const MAX_LENGTH: i64 = 10_000;
const TTL: i64 = 60_000;
/// Heat's levels of a stack's notifications; the level is the end of the routing key.
const LEVELS: [&str; 2] = ["info", "error"];
/// Bytes of a notification that are read at most.
const LONGEST: usize = 1024 * 1024;

/// Where Heat sends its notifications.
#[derive(Clone, Debug)]
pub struct NoticeSource {
    /// Heat's `control_exchange`.
    pub exchange: String,
    /// One of the `topics` of Heat's `[oslo_messaging_notifications]`.
    pub topic: String,
}

/// Hears which stacks have ended what they did.
pub struct StackNotices {
    receiver: mpsc::Receiver<String>,
}

impl StackNotices {
    /// Starts listening. Must be called within the runtime; its task ends when this is dropped.
    pub fn start(options: AmqpOptions, source: NoticeSource) -> Self {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        tokio::spawn(listen(options, source, sender));
        Self { receiver }
    }

    /// The id of the next such stack. Never ends: while the broker cannot be reached it waits.
    pub async fn next(&mut self) -> String {
        match self.receiver.recv().await {
            Some(id) => id,
            None => std::future::pending().await,
        }
    }
}

async fn listen(options: AmqpOptions, source: NoticeSource, sender: mpsc::Sender<String>) {
    let mut attempt = 0u32;
    loop {
        let reason = match open(&options.reach, attempt, "magnum stack notifications").await {
            Ok((connection, channel)) => {
                let ended = consume(&source, &channel, &sender, &mut attempt).await;
                close(connection).await;
                match ended {
                    Ok(()) => return,
                    Err(reason) => reason,
                }
            }
            Err(reason) => reason,
        };
        note_failure("listening to Heat's notifications", attempt, &reason);
        if pause(&mut attempt, sender.is_closed()).await {
            return;
        }
    }
}

/// Hands on hints until the connection fails (an error) or nobody listens any more.
async fn consume(source: &NoticeSource, channel: &Channel, sender: &mpsc::Sender<String>, attempt: &mut u32) -> Result<(), String> {
    let started = tokio::time::timeout(SETUP, async {
        // Heat's own: it must be there. Made here with other properties, it would keep Heat from its work.
        let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        channel.exchange_declare(source.exchange.as_str().into(), ExchangeKind::Topic, passive, FieldTable::default()).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(MAX_LENGTH));
        arguments.insert("x-overflow".into(), AMQPValue::LongString("drop-head".into()));
        arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(TTL));
        let own = QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
        // The broker names it.
        let queue = channel.queue_declare("".into(), own, arguments).await?.name().clone();
        for level in LEVELS {
            let key = format!("{}.{level}", source.topic);
            let exchange = source.exchange.as_str().into();
            channel.queue_bind(queue.clone(), exchange, key.as_str().into(), QueueBindOptions::default(), FieldTable::default()).await?;
        }
        let options = BasicConsumeOptions { no_ack: true, exclusive: true, ..BasicConsumeOptions::default() };
        channel.basic_consume(queue, "".into(), options, FieldTable::default()).await
    });
    let mut consumer = within("listen to notifications", started).await?;
    *attempt = 0;
    tracing::info!(exchange = source.exchange, topic = source.topic, "listening to Heat's notifications");
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
        let Some(stack) = ended_stack(&delivery.data) else { continue };
        if sender.try_send(stack).is_err() {
            tracing::debug!("too many notifications at once; the stacks are asked for anyway");
        }
    }
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "oslo.message")]
    message: String,
}

#[derive(Deserialize)]
struct Notification {
    event_type: String,
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    stack_identity: String,
}

/// The id of the stack that a notification says has ended something; none for any other message. Version 2 wraps the text of version 1.
pub(crate) fn ended_stack(body: &[u8]) -> Option<String> {
    if body.len() > LONGEST {
        return None;
    }
    let notification: Notification = match serde_json::from_slice::<Envelope>(body) {
        Ok(envelope) => serde_json::from_str(&envelope.message).ok()?,
        Err(_) => serde_json::from_slice(body).ok()?,
    };
    let what = notification.event_type.strip_prefix("orchestration.stack.")?;
    if !(what.ends_with(".end") || what.ends_with(".error")) {
        return None;
    }
    // Newer versions of Heat give the id, older ones `arn:openstack:heat::PROJECT:stacks/NAME/ID`.
    let id = notification.payload.stack_identity.rsplit('/').next().unwrap_or_default().to_owned();
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ended_stack;

    fn notification(event_type: &str, identity: &str) -> Value {
        let payload = json!({"stack_identity": identity, "stack_name": "blue", "state": "CREATE_COMPLETE", "tenant_id": "p"});
        json!({"event_type": event_type, "priority": "INFO", "publisher_id": "orchestration.host", "payload": payload})
    }

    #[test]
    fn the_end_of_a_stacks_action_is_heard_in_both_versions_and_nothing_else() {
        let read = |body: &Value| ended_stack(body.to_string().as_bytes());
        let one = notification("orchestration.stack.create.end", "arn:openstack:heat::p:stacks/blue/the-id");
        assert_eq!(read(&one).as_deref(), Some("the-id"));
        let two = json!({"oslo.version": "2.0", "oslo.message": notification("orchestration.stack.delete.error", "the-id").to_string()});
        assert_eq!(read(&two).as_deref(), Some("the-id"));
        for other in ["orchestration.stack.create.start", "orchestration.autoscaling.end", "compute.instance.create.end", ""] {
            assert_eq!(read(&notification(other, "the-id")), None, "{other}");
        }
        assert_eq!(read(&notification("orchestration.stack.create.end", "")), None);
        assert_eq!(ended_stack(b"{"), None);
    }
}
