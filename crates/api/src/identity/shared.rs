//! What Keystone said of tokens, shared between the processes of a deployment through memcached (`[keystone_authtoken] memcached_servers`).
//!
//! Whoever could write there what he likes could be whom he likes, so everything is sealed (AES-256-GCM), whatever
//! `memcache_security_strategy` says, and bound to the name it stands under, which is a keyed hash of the token's. What a process finds there is
//! believed no longer than by the one that asked Keystone, and, where the clocks of the two differ, no longer than what it asks for itself.
//! Refusals are not shared, nor are tokens that have expired.
//!
//! A server that fails, or is slow, is left alone for a while: Keystone is asked instead, and nobody waits twice.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::seal::CacheSealer;
use model::time::{millis, now};
use provider_clients::TokenInfo;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::memcached::Connection;
use super::{Key, Known};

/// Idle connections to a server at most.
const IDLE: usize = 10;

/// Where tokens are shared (`[keystone_authtoken] memcache*`).
#[derive(Clone)]
pub struct TokenSharing {
    /// `host:port` of each server.
    pub servers: Vec<String>,
    /// What all who share know (`memcache_secret_key`, or the password of the service's user).
    pub secret: SecretString,
    /// The longest that one look may take (`memcache_pool_socket_timeout`).
    pub patience: Duration,
    /// How long a server that failed is left alone (`memcache_pool_dead_retry`).
    pub rest: Duration,
}

/// The servers, and how to read what is there.
pub(super) struct Shared {
    servers: Vec<Server>,
    sealer: CacheSealer,
    patience: Duration,
    rest: Duration,
}

struct Server {
    address: String,
    idle: Mutex<Vec<Connection>>,
    away_until: Mutex<Option<Instant>>,
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    /// Milliseconds since 1970 until when it is believed.
    until_ms: i64,
    info: std::borrow::Cow<'a, TokenInfo>,
}

impl Shared {
    pub fn new(sharing: TokenSharing) -> Self {
        let server = |address| Server { address, idle: Mutex::default(), away_until: Mutex::default() };
        Self {
            servers: sharing.servers.into_iter().map(server).collect(),
            sealer: CacheSealer::new(&sharing.secret),
            patience: sharing.patience,
            rest: sharing.rest,
        }
    }

    /// What another process has learned of a token, if it still holds; believed for `at_most`, whatever clock and settings the other has.
    pub async fn find(&self, key: &Key, at_most: Duration) -> Option<Known> {
        let name = self.sealer.name(key);
        let sealed = self.ask(key, async |connection| connection.get(&name).await).await??;
        let clear = self.sealer.open(&name, std::str::from_utf8(&sealed).ok()?)?;
        let stored: Stored<'_> = serde_json::from_str(clear.expose_secret()).ok()?;
        let until = left(stored.until_ms, millis(now()), at_most)?;
        Some(Known { info: Some(Arc::new(stored.info.into_owned())), until })
    }

    /// Tells the others what Keystone said.
    pub async fn tell(&self, key: &Key, info: &TokenInfo, until: Duration) {
        let seconds = until.as_secs();
        if seconds == 0 {
            // Kept for ever there.
            return;
        }
        let length = i64::try_from(until.as_millis()).unwrap_or(i64::MAX);
        let stored = Stored { until_ms: millis(now()).saturating_add(length), info: std::borrow::Cow::Borrowed(info) };
        let Ok(clear) = serde_json::to_string(&stored) else { return };
        let name = self.sealer.name(key);
        let sealed = self.sealer.close(&name, &clear);
        self.ask(key, async |connection| connection.set(&name, sealed.as_bytes(), seconds).await).await;
    }

    /// Asks the server that has this key, if it answers.
    async fn ask<T>(&self, key: &Key, question: impl AsyncFnOnce(&mut Connection) -> io::Result<T>) -> Option<T> {
        let at = key.iter().fold(0, |sum, byte| sum + usize::from(*byte)) % self.servers.len().max(1);
        let server = self.servers.get(at)?;
        if server.is_away() {
            return None;
        }
        match tokio::time::timeout(self.patience, server.ask(question)).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(error)) => server.leave_alone(self.rest, &error.to_string()),
            Err(_) => server.leave_alone(self.rest, "no answer in time"),
        }
    }
}

impl Server {
    fn is_away(&self) -> bool {
        lock(&self.away_until).is_some_and(|until| Instant::now() < until)
    }

    fn leave_alone<T>(&self, rest: Duration, why: &str) -> Option<T> {
        tracing::warn!(
            server = self.address,
            why,
            "memcached does not answer; Keystone is asked about every token for {} s",
            rest.as_secs()
        );
        *lock(&self.away_until) = Some(Instant::now() + rest);
        lock(&self.idle).clear();
        None
    }

    /// On an idle connection, or a new one. One that the server has closed meanwhile is replaced once.
    async fn ask<T>(&self, question: impl AsyncFnOnce(&mut Connection) -> io::Result<T>) -> io::Result<T> {
        let idle = lock(&self.idle).pop();
        let mut connection = match idle {
            Some(connection) if connection.is_open() => connection,
            _ => Connection::open(&self.address).await?,
        };
        let answer = question(&mut connection).await?;
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE {
            idle.push(connection);
        }
        Ok(answer)
    }
}

/// How long from now something is believed that its writer believes until `until_ms`; none when that is over.
fn left(until_ms: i64, now_ms: i64, at_most: Duration) -> Option<Duration> {
    let left = u64::try_from(until_ms.saturating_sub(now_ms)).ok().filter(|left| *left > 0)?;
    Some(Duration::from_millis(left).min(at_most))
}

fn lock<T>(it: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_is_not_there_is_asked_once_in_a_while() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        drop(listener);
        let sharing =
            TokenSharing { servers: vec![address], secret: "s".into(), patience: Duration::from_secs(3), rest: Duration::from_secs(60) };
        let shared = Shared::new(sharing);
        assert!(shared.find(&[1; 32], Duration::from_secs(300)).await.is_none());
        assert!(shared.servers[0].is_away());
    }

    #[test]
    fn a_writer_whose_clock_is_ahead_is_believed_no_longer_than_keystone() {
        let at_most = Duration::from_secs(300);
        assert_eq!(left(1_200, 1_000, at_most), Some(Duration::from_millis(200)));
        assert_eq!(left(3_600_000, 1_000, at_most), Some(at_most));
        assert_eq!(left(i64::MAX, i64::MIN, at_most), Some(at_most));
        for over in [1_000, 999, i64::MIN] {
            assert_eq!(left(over, 1_000, at_most), None, "{over}");
        }
    }
}
