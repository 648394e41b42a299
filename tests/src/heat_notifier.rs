//! Plays Heat's part on the broker: the simulated cloud speaks HTTP only.

use anyhow::{Context, Result};
use lapin::options::{BasicPublishOptions, ExchangeDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::json;

/// Sends the notifications that Heat would send.
pub struct HeatNotifier {
    _connection: Connection,
    channel: Channel,
    exchange: String,
}

impl HeatNotifier {
    /// Connects, and makes the exchange as oslo.messaging does: a topic, not durable.
    pub async fn connect(amqp: &str, exchange: &str) -> Result<Self> {
        let connection = Connection::connect(amqp, ConnectionProperties::default()).await.context("connect to RabbitMQ")?;
        let channel = connection.create_channel().await?;
        let options = ExchangeDeclareOptions::default();
        channel
            .exchange_declare(exchange.into(), ExchangeKind::Topic, options, FieldTable::default())
            .await
            .context("make the exchange")?;
        Ok(Self { _connection: connection, channel, exchange: exchange.to_owned() })
    }

    /// Says that the creation of a stack has ended well.
    pub async fn created(&self, stack_id: &str) -> Result<()> {
        let message = json!({
            "event_type": "orchestration.stack.create.end", "priority": "INFO", "publisher_id": "orchestration.heat",
            "payload": {"stack_identity": stack_id, "state": "CREATE_COMPLETE"},
        });
        let body = json!({"oslo.version": "2.0", "oslo.message": message.to_string()}).to_string();
        let (exchange, key) = (self.exchange.as_str().into(), "notifications.info".into());
        self.channel
            .basic_publish(exchange, key, BasicPublishOptions::default(), body.as_bytes(), BasicProperties::default())
            .await?
            .await?;
        Ok(())
    }
}
