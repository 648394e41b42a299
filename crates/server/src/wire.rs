//! Which implementation stands behind which seam, decided from the configuration in one place.

mod capi;
mod certificates;
mod cloud;
mod deadlines;
mod foresight;
mod heat_templates;
mod kubernetes;
mod metrics;
mod policy;
mod requests;
mod roles;
mod sharing;
mod status;
mod tls;
mod transport;
mod vault;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use model::queue::amqp::notify::{NotifyOptions, QueueFlags};
use model::queue::amqp::{AmqpOptions, Broker, Reach};
use model::seal::Sealer;
use model::store::migrate::{self, Fitness};
use model::store::{DatabaseUrl, Store, StoreError, StoreOptions};
use secrecy::SecretString;

use crate::config::{Config, DatabaseUrl as Configured, TransportUrl};
use crate::sealing;

pub use certificates::in_barbican;
pub use metrics::{Shown, metrics};
pub use roles::{ApiRole, ConductorRole, api, conductor};
pub use status::{status, unreadable};

/// Rings on their way to one conductor at most.
const PREFETCH: u16 = 64;

/// Opens the store that the configuration names.
pub fn store(config: &Config) -> anyhow::Result<Store> {
    let (url, tls) = match config.database_url()? {
        Configured::Mysql(url) => {
            let tls = transport::database(url)?;
            let place = DatabaseUrl::Mysql {
                host: url.host.clone(),
                port: url.port,
                user: url.user.clone(),
                password: url.password.clone(),
                database: url.database.clone(),
            };
            (place, tls)
        }
        Configured::Sqlite { path } if path == ":memory:" => bail!("[database] connection: a SQLite database needs a file"),
        Configured::Sqlite { path } => {
            make_private(Path::new(path));
            (DatabaseUrl::Sqlite(path.into()), None)
        }
    };
    let mut options = StoreOptions::new(url);
    options.tls = tls;
    options.vault = Arc::new(vault::vault(config)?);
    // kolla writes 1: that many stay open with SQLAlchemy, and up to max_overflow more are made when they are needed. More than a few for
    // each CPU make nothing faster and cost memory (docs/performance.md).
    let allowed = match (config.database.max_pool_size, u32::try_from(config.database.max_overflow)) {
        // SQLAlchemy takes neither for a bound.
        (0, _) | (_, Err(_)) => u32::MAX,
        (open, Ok(more)) => open.saturating_add(more),
    };
    let useful = 4 * std::thread::available_parallelism().map_or(1, usize::from);
    options.max_connections = usize::try_from(allowed).unwrap_or(useful).min(useful);
    options.acquire_timeout = Duration::from_secs(config.database.pool_timeout.clamp(1, 5));
    Ok(Store::open(options)?)
}

/// Makes the file of a database that is not there yet for its owner alone; SQLite gives the files beside it the same mode. One that is there keeps
/// the mode that it has.
fn make_private(path: &Path) {
    // What is in the way SQLite says when it opens the file.
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

/// Fails when the database can be reached and has not the schema of this program.
pub async fn check_schema(store: &Store) -> anyhow::Result<()> {
    match migrate::fitness(store).await {
        Ok(Fitness::Fit) => {
            // No reason not to start: other clusters are well, and those that need the key say so themselves.
            if let Err(error) = sealing::check(store).await {
                tracing::error!("{error:#}");
            }
            Ok(())
        }
        Ok(Fitness::Incomplete) => bail!("the database has not this program's schema: run magnum-db-manage upgrade"),
        Ok(Fitness::NotAdopted) => {
            bail!("the database was given back to upstream: run magnum-db-manage adopt before this program works on it again")
        }
        Err(StoreError::Unavailable(reason)) => {
            tracing::warn!(reason, "The database cannot be reached; requests are answered with 503 until it can");
            Ok(())
        }
        Err(error) => Err(error).context("look at the schema"),
    }
}

/// Where the doorbell is.
fn amqp(config: &Config) -> anyhow::Result<AmqpOptions> {
    let reach = reach(config, &config.service.transport_url)?;
    Ok(AmqpOptions { reach, queue: format!("{}.operations", config.conductor.topic), prefetch: PREFETCH })
}

/// How to reach the brokers of a transport.
fn reach(config: &Config, transport: &TransportUrl) -> anyhow::Result<Reach> {
    let rabbit = config.oslo_messaging_rabbit.at(transport);
    let tls = if rabbit.ssl { Some(transport::broker(&rabbit, transport.has_options())?) } else { None };
    let hosts = transport.hosts.iter();
    Ok(Reach {
        brokers: hosts.map(|h| Broker { host: h.host.clone(), port: h.port, user: h.user.clone(), password: h.password.clone() }).collect(),
        vhost: transport.virtual_host.clone(),
        tls,
        heartbeat: u16::try_from(rabbit.heartbeat_timeout_threshold).unwrap_or(u16::MAX),
    })
}

/// Where notifications go, and how long one may wait for the broker; none when nobody is to be told.
fn notifications(config: &Config) -> anyhow::Result<Option<conductor::Notifications>> {
    let wanted = &config.oslo_messaging_notifications;
    let Some(envelope) = wanted.envelope() else { return Ok(None) };
    let transport = wanted.transport_url.as_ref().unwrap_or(&config.service.transport_url);
    let rabbit = config.oslo_messaging_rabbit.at(transport);
    let bus = NotifyOptions {
        reach: reach(config, transport)?,
        exchange: config.service.control_exchange.clone(),
        topics: wanted.topics.clone(),
        envelope,
        queues: QueueFlags {
            durable: rabbit.amqp_durable_queues,
            quorum: rabbit.rabbit_quorum_queue,
            delivery_limit: rabbit.rabbit_quorum_delivery_limit,
            max_memory_length: rabbit.rabbit_quorum_max_memory_length,
            max_memory_bytes: rabbit.rabbit_quorum_max_memory_bytes,
        },
    };
    let longest = Duration::from_secs(3600 * u64::from(config.operations.notification_hours.0));
    Ok(Some(conductor::Notifications { bus: Some(bus), longest }))
}

/// The sealer under the secret that all processes of the deployment share.
fn sealer(config: &Config) -> anyhow::Result<Sealer> {
    Ok(Sealer::new(secret(config)?))
}

/// What all processes of the deployment know and nobody else.
fn secret(config: &Config) -> anyhow::Result<&SecretString> {
    config.keystone_auth.password.as_ref().context("[keystone_auth] password is missing (or that of [keystone_authtoken])")
}

fn read(path: &Path, option: &str) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{option}: read {}", path.display()))
}
