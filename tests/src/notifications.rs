//! Somebody who is told of what becomes of clusters: a consumer of the notifications of a topic of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lapin::options::{BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::Value;

use crate::heard::Heard;
use crate::wait::{self, Seen};

const EXCHANGE: &str = "magnum";
const PRIORITIES: [&str; 2] = ["info", "error"];

/// A topic, and the queues that oslo.messaging's consumers would have on it.
pub struct Topic {
    name: String,
    channel: Channel,
    /// Where the world finds what came, by the name of its topic.
    heard: Arc<Heard>,
    _connection: Connection,
}

/// A notification as it came.
#[derive(Clone, Debug)]
pub struct Told {
    /// The queue that it came from, without the topic.
    pub priority: &'static str,
    /// What was in the envelope.
    pub message: Value,
}

impl Told {
    /// Event type, outcome and status of the cluster, the way tests compare them.
    pub fn line(&self) -> String {
        let cadf = &self.message["payload"];
        let data = &cadf["target"]["attachments"][0]["content"];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {} {} {}", self.priority, word(&self.message["event_type"]), word(&cadf["outcome"]), word(&data["status"]))
    }

    /// The message id.
    pub fn id(&self) -> String {
        self.message["message_id"].as_str().unwrap_or_default().to_owned()
    }
}

/// The environment of processes that tell a topic by the broker at this address.
pub fn environment(topic: &str, amqp: &str) -> BTreeMap<String, String> {
    let section = "OS_OSLO_MESSAGING_NOTIFICATIONS__";
    let options = [("DRIVER", "messagingv2"), ("TOPICS", topic), ("TRANSPORT_URL", amqp)];
    options.into_iter().map(|(key, value)| (format!("{section}{key}"), value.to_owned())).collect()
}

/// The environment of processes whom no broker hears: what others are told stays in the outbox.
pub fn unheard() -> BTreeMap<String, String> {
    environment("nobody", "rabbit://nobody:nothing@127.0.0.1:1/")
}

impl Topic {
    /// Declares the queues of a topic as a consumer of oslo.messaging would.
    pub async fn listen(name: &str, amqp: &str) -> Result<Self> {
        Self::open(name, amqp, false).await
    }

    /// The same, where queues outlive their broker (`amqp_durable_queues`): what came before is in them.
    pub async fn listen_durably(name: &str, amqp: &str) -> Result<Self> {
        Self::open(name, amqp, true).await
    }

    async fn open(name: &str, amqp: &str, is_durable: bool) -> Result<Self> {
        let runtime = lapin::runtime::default_runtime()?;
        let connection =
            Connection::connect_with_runtime(amqp, ConnectionProperties::default(), runtime).await.context("connect to RabbitMQ")?;
        let channel = connection.create_channel().await?;
        let topic = Self { name: name.to_owned(), channel, heard: Heard::of(name), _connection: connection };
        let none = FieldTable::default;
        let kind = ExchangeDeclareOptions { durable: is_durable, ..ExchangeDeclareOptions::default() };
        topic.channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, kind, none()).await?;
        for priority in PRIORITIES {
            let queue = topic.queue(priority);
            let kind = QueueDeclareOptions { durable: is_durable, ..QueueDeclareOptions::default() };
            topic.channel.queue_declare(queue.as_str().into(), kind, none()).await?;
            let (name, key) = (queue.as_str().into(), queue.as_str().into());
            topic.channel.queue_bind(name, EXCHANGE.into(), key, QueueBindOptions::default(), none()).await?;
        }
        Ok(topic)
    }

    /// All that wait now, of all priorities, each priority in its order.
    pub async fn take(&self) -> Result<Vec<Told>> {
        let mut all = Vec::new();
        for priority in PRIORITIES {
            let queue = self.queue(priority);
            while let Some(got) = self.channel.basic_get(queue.as_str().into(), BasicGetOptions { no_ack: true }).await? {
                let properties = &got.delivery.properties;
                let text = |value: Option<&lapin::types::ShortString>| value.map(|value| value.as_str().to_owned()).unwrap_or_default();
                ensure!(text(properties.content_type().as_ref()) == "application/json", "{properties:?}");
                ensure!(
                    text(properties.content_encoding().as_ref()) == "utf-8" && *properties.delivery_mode() == Some(2),
                    "{properties:?}"
                );
                self.heard.keep("a notification", &String::from_utf8_lossy(&got.delivery.data));
                let envelope: Value = serde_json::from_slice(&got.delivery.data).context("the envelope")?;
                ensure!(envelope["oslo.version"] == "2.0", "{envelope}");
                let message: Value = serde_json::from_str(envelope["oslo.message"].as_str().context("a message")?)?;
                ensure!(message["priority"] == priority.to_uppercase(), "{message}");
                all.push(Told { priority, message });
            }
        }
        Ok(all)
    }

    /// Waits until so many came in all.
    pub async fn wait_for(&self, count: usize, patience: Duration) -> Result<Vec<Told>> {
        let mut all = Vec::new();
        wait::until("notifications", patience, async || {
            all.extend(self.take().await?);
            let lines: Vec<String> = all.iter().map(Told::line).collect();
            Ok(Seen::when(all.len() >= count, || format!("{lines:#?}")))
        })
        .await?;
        Ok(all)
    }

    /// Removes the queues.
    pub async fn remove(self) -> Result<()> {
        for priority in PRIORITIES {
            self.channel.queue_delete(self.queue(priority).as_str().into(), QueueDeleteOptions::default()).await?;
        }
        Ok(())
    }

    fn queue(&self, priority: &str) -> String {
        format!("{}.{priority}", self.name)
    }
}
