//! HTTP/1.1 by hand over a socket, for what no proper client does: half a head, a body that never ends, an answer that nobody takes.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Nothing that is waited for here takes longer.
const LIMIT: Duration = Duration::from_secs(20);

/// A connection.
pub struct Raw {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug)]
pub struct RawAnswer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Raw {
    /// Connects to `address:port`.
    pub async fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
        Ok(Self { stream, unread: Vec::new() })
    }

    /// Sends these bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.stream.write_all(bytes.as_ref()).await.context("send")
    }

    /// Reads the next answer.
    pub async fn answer(&mut self) -> Result<RawAnswer> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            ensure!(self.read().await? > 0, "closed within the head of an answer: {:?}", String::from_utf8_lossy(&self.unread));
        };
        let head = String::from_utf8(self.unread.drain(..end + 4).collect()).context("the head of an answer")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).with_context(|| format!("no status in {head}"))?;
        let mut answer = RawAnswer { status, head, body: String::new() };
        let length: usize = answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.unread.len() < length {
            ensure!(self.read().await? > 0, "closed within the body of an answer");
        }
        answer.body = String::from_utf8(self.unread.drain(..length).collect()).context("the body of an answer")?;
        Ok(answer)
    }

    /// Waits until the other side closes the connection without another byte; how long that took.
    pub async fn closed(&mut self) -> Result<Duration> {
        let started = Instant::now();
        let read = self.read().await?;
        ensure!(read == 0 && self.unread.is_empty(), "bytes instead of the end: {:?}", String::from_utf8_lossy(&self.unread));
        Ok(started.elapsed())
    }

    /// Sends one byte after the other until the other side does not want more; how long that took.
    pub async fn trickle(&mut self, byte: u8, pause: Duration) -> Result<Duration> {
        let started = Instant::now();
        while started.elapsed() < LIMIT {
            let mut byte_back = [0; 1];
            tokio::select! {
                read = self.stream.read(&mut byte_back) => match read {
                    Ok(0) => return Ok(started.elapsed()),
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(started.elapsed()),
                    Ok(_) => {
                        self.unread.extend_from_slice(&byte_back);
                        return Ok(started.elapsed());
                    }
                    Err(error) => return Err(error).context("read"),
                },
                () = tokio::time::sleep(pause) => {
                    if self.stream.write_all(&[byte]).await.is_err() {
                        return Ok(started.elapsed());
                    }
                }
            }
        }
        bail!("still open after {} s", LIMIT.as_secs())
    }

    async fn read(&mut self) -> Result<usize> {
        let mut buffer = [0; 4096];
        let read = match tokio::time::timeout(LIMIT, self.stream.read(&mut buffer)).await.context("nothing comes")? {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            read => read.context("read")?,
        };
        self.unread.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

impl RawAnswer {
    /// The text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    /// The body; null when it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    /// Itself when it has this status and an error body of it, else an error that shows it.
    pub fn expect_error(self, status: u16) -> Result<Self> {
        ensure!(self.status == status && self.json()["errors"][0]["status"] == status, "expected {status}: {self:?}");
        ensure!(self.header("x-openstack-request-id").is_some_and(|id| id.starts_with("req-")), "no request id: {self:?}");
        Ok(self)
    }
}
