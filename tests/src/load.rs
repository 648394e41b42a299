//! Load for measurements: many keep-alive connections, each sending the next request when the last is answered.
//!
//! HTTP/1.1 by hand over TCP: a full client would cost more CPU than the server that is measured, on the same machine.

mod account;

pub use account::Account;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What one run came to.
#[derive(Debug)]
pub struct Outcome {
    /// How long each request took, sorted.
    times: Vec<Duration>,
    /// Requests without the wanted answer.
    pub errors: usize,
    elapsed: Duration,
    /// The first error, in words.
    pub first_error: Option<String>,
}

impl Outcome {
    /// Answers per second.
    pub fn rate(&self) -> f64 {
        self.times.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// How many were answered.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// The time within which this share of the requests was answered.
    pub fn quantile(&self, share: f64) -> Duration {
        let last = self.times.len().saturating_sub(1);
        let at = (share * last as f64).round() as usize;
        self.times.get(at).copied().unwrap_or_default()
    }
}

/// One thing to do again and again on a connection of its own.
pub trait Connection: Send + Sized + 'static {
    /// Does it once.
    fn act(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// When a run is over.
#[derive(Clone, Debug)]
pub enum Until {
    /// After this long.
    Time(Duration),
    /// When each connection has acted this often.
    Turns(u64),
    /// When this becomes false.
    Told(Arc<AtomicBool>),
}

/// Runs a connection for each of `connections` until it is over.
pub async fn run<C: Connection>(connections: Vec<C>, until: Until) -> Result<Outcome> {
    let start = Instant::now();
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|mut connection| {
            let until = until.clone();
            tokio::spawn(async move {
                let (mut times, mut errors, mut first, mut turns) = (Vec::new(), 0, None, 0);
                while match &until {
                    Until::Time(time) => start.elapsed() < *time,
                    Until::Turns(all) => turns < *all,
                    Until::Told(go_on) => go_on.load(Ordering::Relaxed),
                } {
                    turns += 1;
                    let begin = Instant::now();
                    match connection.act().await {
                        Ok(()) => times.push(begin.elapsed()),
                        Err(error) => {
                            errors += 1;
                            first.get_or_insert_with(|| format!("{error:#}"));
                            if errors > 1000 {
                                break;
                            }
                        }
                    }
                }
                (times, errors, first)
            })
        })
        .collect();
    let mut outcome = Outcome { times: Vec::new(), errors: 0, elapsed: Duration::ZERO, first_error: None };
    for task in tasks {
        let (times, errors, first) = task.await.context("a connection panicked")?;
        outcome.times.extend(times);
        outcome.errors += errors;
        outcome.first_error = outcome.first_error.or(first);
    }
    outcome.elapsed = start.elapsed();
    outcome.times.sort_unstable();
    Ok(outcome)
}

/// A keep-alive connection to an HTTP server that sends its requests in turn, over and over.
pub struct Http {
    address: String,
    requests: Vec<(Vec<u8>, u16)>,
    turn: usize,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Http {
    /// `address` is `host:port`; `wanted` the status that counts as an answer.
    pub fn new(address: &str, request: &Request<'_>, wanted: u16) -> Self {
        Self::of(address, &[(request, wanted)])
    }

    /// Several requests, each with the status that counts as its answer.
    pub fn of(address: &str, requests: &[(&Request<'_>, u16)]) -> Self {
        let requests = requests.iter().map(|(request, wanted)| (request.bytes(address), *wanted)).collect();
        Self { address: address.to_owned(), requests, turn: 0, stream: None, buffer: Vec::with_capacity(64 * 1024) }
    }

    async fn exchange(&mut self) -> Result<()> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.address).await.context("connect")?;
                stream.set_nodelay(true)?;
                self.stream.insert(stream)
            }
        };
        let (request, wanted) = &self.requests[self.turn % self.requests.len()];
        self.turn = self.turn.wrapping_add(1);
        stream.write_all(request).await.context("send")?;
        self.buffer.clear();
        let head = loop {
            ensure!(stream.read_buf(&mut self.buffer).await.context("receive")? > 0, "connection closed");
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
        };
        let (status, length) = parse(&self.buffer[..head])?;
        while self.buffer.len() < head + length {
            ensure!(stream.read_buf(&mut self.buffer).await.context("receive")? > 0, "connection closed");
        }
        if status != *wanted {
            let body = String::from_utf8_lossy(&self.buffer[head..]).into_owned();
            bail!("answered {status}: {body}");
        }
        Ok(())
    }
}

impl Connection for Http {
    async fn act(&mut self) -> Result<()> {
        let result = self.exchange().await;
        if result.is_err() {
            self.stream = None;
        }
        result
    }
}

/// What is sent.
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub token: Option<&'a str>,
    pub microversion: Option<&'a str>,
    pub body: Option<&'a str>,
}

impl Request<'_> {
    fn bytes(&self, host: &str) -> Vec<u8> {
        let Self { method, path, token, microversion, body } = self;
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n");
        if let Some(token) = token {
            text += &format!("X-Auth-Token: {token}\r\n");
        }
        if let Some(microversion) = microversion {
            text += &format!("OpenStack-API-Version: container-infra {microversion}\r\n");
        }
        if let Some(body) = body {
            text += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        text += body.unwrap_or_default();
        text.into_bytes()
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Status and length of the body.
fn parse(head: &[u8]) -> Result<(u16, usize)> {
    let text = std::str::from_utf8(head).context("the head is no text")?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok());
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok());
    Ok((status.context("no status")?, length.context("an answer without length")?))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn status_and_length_are_read_from_an_answer() {
        let head = b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\nContent-Length: 17\r\n\r\n";
        assert_eq!(parse(head).expect("a good head"), (202, 17));
        assert!(parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
