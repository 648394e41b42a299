//! Notifications over RabbitMQ, as the notifier of oslo.messaging sends them: a topic exchange, one queue for each topic and priority, declared
//! with the deployment's flags so that neither side refuses the other's declaration, persistent messages, confirmed.

use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ExchangeKind};
use serde_json::json;

use super::{CALL, Reach, SETUP, close, open, within};
use crate::notification::Priority;

/// How long sending to one topic takes at most.
pub const LONGEST: Duration = CALL;

/// Where notifications go.
#[derive(Clone)]
pub struct NotifyOptions {
    pub reach: Reach,
    /// `control_exchange`.
    pub exchange: String,
    /// Every message goes to each of them.
    pub topics: Vec<String>,
    /// Version 2.0 of the envelope (driver `messagingv2`); else none (driver `messaging`).
    pub envelope: bool,
    pub queues: QueueFlags,
}

/// How the deployment declares its queues (`[oslo_messaging_rabbit]`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFlags {
    pub durable: bool,
    /// Replicated queues, which are durable too.
    pub quorum: bool,
    /// Of quorum queues; 0 sets no limit.
    pub delivery_limit: u32,
    pub max_memory_length: u64,
    pub max_memory_bytes: u64,
}

impl QueueFlags {
    fn is_durable(&self) -> bool {
        self.durable || self.quorum
    }

    fn arguments(&self) -> FieldTable {
        let mut table = FieldTable::default();
        if !self.quorum {
            return table;
        }
        table.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let limits = [
            ("x-delivery-limit", u64::from(self.delivery_limit)),
            ("x-max-in-memory-length", self.max_memory_length),
            ("x-max-in-memory-bytes", self.max_memory_bytes),
        ];
        for (name, limit) in limits.into_iter().filter(|(_, limit)| *limit > 0) {
            table.insert(name.into(), AMQPValue::LongLongInt(i64::try_from(limit).unwrap_or(i64::MAX)));
        }
        table
    }
}

/// A connection on which everything is declared.
pub struct Notifier {
    options: NotifyOptions,
    connection: Connection,
    channel: Channel,
}

impl Notifier {
    /// Connects to one of the brokers, the next one at each attempt, and declares exchange and queues.
    ///
    /// # Errors
    /// What went wrong, in words for the log.
    pub async fn connect(options: &NotifyOptions, attempt: u32) -> Result<Self, String> {
        let (connection, channel) = open(&options.reach, attempt, "magnum notifications").await?;
        let notifier = Self { options: options.clone(), connection, channel };
        match within("declare", tokio::time::timeout(SETUP, notifier.declare())).await {
            Ok(()) => Ok(notifier),
            Err(reason) => {
                notifier.close().await;
                Err(reason)
            }
        }
    }

    async fn declare(&self) -> Result<(), lapin::Error> {
        self.channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let flags = &self.options.queues;
        let exchange = self.options.exchange.as_str();
        let kind = ExchangeDeclareOptions { durable: flags.is_durable(), ..ExchangeDeclareOptions::default() };
        self.channel.exchange_declare(exchange.into(), ExchangeKind::Topic, kind, FieldTable::default()).await?;
        for key in self.options.topics.iter().flat_map(|topic| Priority::ALL.map(|priority| routing_key(topic, priority))) {
            let kind = QueueDeclareOptions { durable: flags.is_durable(), ..QueueDeclareOptions::default() };
            self.channel.queue_declare(key.as_str().into(), kind, flags.arguments()).await?;
            let (queue, key) = (key.as_str().into(), key.as_str().into());
            self.channel.queue_bind(queue, exchange.into(), key, QueueBindOptions::default(), FieldTable::default()).await?;
        }
        Ok(())
    }

    /// Sends a message to one of the topics, in [`LONGEST`] at most; good means that the broker has it.
    ///
    /// # Errors
    /// What went wrong, in words for the log. The topic may have it; sent again it has the same id. The connection is of no more use.
    pub async fn publish(&self, topic: &str, id: &str, priority: Priority, body: &str) -> Result<(), String> {
        let text = match self.options.envelope {
            true => json!({"oslo.version": "2.0", "oslo.message": body}).to_string(),
            false => body.to_owned(),
        };
        let key = routing_key(topic, priority);
        let sent = self.send(&key, id, &text);
        match within("publish", tokio::time::timeout(LONGEST, sent)).await? {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(_)) => Err("publish: no queue took it".into()),
            _ => Err("publish: the broker refused it".into()),
        }
    }

    async fn send(&self, key: &str, id: &str, text: &str) -> Result<Confirmation, lapin::Error> {
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_content_encoding("utf-8".into())
            .with_delivery_mode(2)
            .with_priority(0)
            .with_message_id(id.into());
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        self.channel.basic_publish(self.options.exchange.as_str().into(), key.into(), options, text.as_bytes(), properties).await?.await
    }

    /// Ends the connection, politely if the broker is there.
    pub async fn close(self) {
        close(self.connection).await;
    }
}

fn routing_key(topic: &str, priority: Priority) -> String {
    format!("{topic}.{}", priority.key())
}
