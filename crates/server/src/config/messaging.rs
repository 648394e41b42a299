//! The sections of oslo's libraries that concern us: broker, policy.

use std::path::PathBuf;

use super::options::{Section, section};
use super::transport::TransportUrl;
use super::value::Repeated;

section! {
    /// The connection to RabbitMQ.
    Rabbit {
        /// Use TLS.
        ssl: bool = "false",
        /// File of certificate authorities (PEM). Unset: those of the machine.
        ssl_ca_file: Option<PathBuf>,
        /// Client certificate (PEM).
        ssl_cert_file: Option<PathBuf>,
        /// Key of the client certificate (PEM).
        ssl_key_file: Option<PathBuf>,
        /// Seconds of silence after which the connection counts as lost; 0 turns heartbeats off.
        heartbeat_timeout_threshold: u64 = "60",
        /// Heartbeats sent in that time.
        heartbeat_rate: u32 = "3",
        /// Seconds before the first attempt to connect again.
        rabbit_retry_interval: u64 = "1",
        /// Seconds that are added for each further attempt.
        rabbit_retry_backoff: u64 = "2",
        /// Most seconds between two attempts.
        rabbit_interval_max: u64 = "30",
        /// Queues are replicated (quorum queues).
        rabbit_quorum_queue: bool = "false",
        /// Deliveries after which a message is given up; 0 sets no limit.
        rabbit_quorum_delivery_limit: u32 = "0",
        /// Most messages of a quorum queue held in memory; 0 sets no limit.
        rabbit_quorum_max_memory_length: u64 = "0",
        /// Most bytes of a quorum queue held in memory; 0 sets no limit.
        rabbit_quorum_max_memory_bytes: u64 = "0",
        /// Queues that are not quorum queues survive a restart of the broker.
        amqp_durable_queues: bool = "false",
    }
}

impl Rabbit {
    /// What holds for the brokers of this address: its query is stronger than the section, as oslo.messaging has it.
    pub fn at(&self, url: &TransportUrl) -> Self {
        let mut rabbit = self.clone();
        for (name, text) in url.options() {
            // It could be read when the address was.
            let _ = rabbit.set(name, text);
        }
        rabbit
    }
}

section! {
    /// Who is told of what becomes of clusters.
    Notifications {
        /// How they are told: messagingv2 (in an envelope of version 2.0), messaging (without), noop or unset (not at all). May be repeated.
        driver: Repeated,
        /// Topics that each notification goes to.
        topics: Vec<String> = "notifications",
        /// The brokers to tell them by. Unset: transport_url of [DEFAULT].
        transport_url: Option<TransportUrl>,
    }
}

impl Notifications {
    /// Whether messages have an envelope; none when nobody is told.
    pub fn envelope(&self) -> Option<bool> {
        let has = |name: &str| self.driver.0.iter().any(|driver| driver.trim() == name);
        let is_told = !self.topics.is_empty() && (has("messagingv2") || has("messaging"));
        is_told.then(|| has("messagingv2"))
    }

    /// The drivers named that do nothing here.
    pub fn without_effect(&self) -> impl Iterator<Item = &str> {
        self.driver.0.iter().map(|driver| driver.trim()).filter(|driver| !["", "noop", "messaging", "messagingv2"].contains(driver))
    }
}

section! {
    /// Who may do what.
    Policy {
        /// File of rules that replace the built-in ones; searched beside the configuration. May be absent.
        policy_file: PathBuf = "policy.yaml",
        /// Directories of more such files, read after it. May be repeated.
        policy_dirs: Repeated = "policy.d",
        /// Rule for what has no rule.
        policy_default_rule: String = "default",
        /// Tokens of a wrong scope are refused.
        enforce_scope: bool = "true",
        /// Only the newer built-in rules count, not the older ones they replaced.
        enforce_new_defaults: bool = "true",
    }
}
