//! The two commands of memcached's text protocol that a cache needs, on one connection.
//!
//! Our own because the crate for it (async-memcached 0.9) connects over IPv4 only, and there is nothing to it.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

/// Bytes of a value at most; memcached itself keeps none that is larger.
const LARGEST: usize = 1024 * 1024;
/// Bytes of a line at most: a name has up to 250.
const LINE: u64 = 512;

/// A connection. One on which a command has failed, or was not waited for, is of no more use: its answer may still come.
pub(crate) struct Connection<S = BufStream<TcpStream>>(S);

impl Connection {
    /// Connects to `host:port`.
    pub async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufStream::new(stream)))
    }

    /// Whether the other side has not closed it, as far as is known: a server that was started again is not one that is away.
    pub fn is_open(&self) -> bool {
        let nothing_to_read = self.0.get_ref().try_read(&mut [0]);
        nothing_to_read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl<S: AsyncBufRead + AsyncWrite + Unpin> Connection<S> {
    /// One that is open already.
    pub fn over(stream: S) -> Self {
        Self(stream)
    }

    /// The value under a name, if there is one.
    pub async fn get(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.write_all(format!("get {name}\r\n").as_bytes()).await?;
        self.0.flush().await?;
        let line = self.line().await?;
        if line == "END" {
            return Ok(None);
        }
        let mut words = line.split(' ');
        let is_it = words.next() == Some("VALUE") && words.next() == Some(name);
        // Flags come before the length.
        let length = words.nth(1).and_then(|length| length.parse().ok()).filter(|length| is_it && *length <= LARGEST);
        let Some(length) = length else { return Err(unexpected(&line)) };
        let mut value = vec![0; length + 2];
        self.0.read_exact(&mut value).await?;
        if value.split_off(length) != b"\r\n" {
            return Err(io::Error::other("a value of memcached that is longer than memcached said"));
        }
        match self.line().await?.as_str() {
            "END" => Ok(Some(value)),
            other => Err(unexpected(other)),
        }
    }

    /// Keeps a value under a name for so many seconds.
    pub async fn set(&mut self, name: &str, value: &[u8], seconds: u64) -> io::Result<()> {
        self.0.write_all(format!("set {name} 0 {seconds} {}\r\n", value.len()).as_bytes()).await?;
        self.0.write_all(value).await?;
        self.0.write_all(b"\r\n").await?;
        self.0.flush().await?;
        match self.line().await?.as_str() {
            "STORED" => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        (&mut self.0).take(LINE).read_until(b'\n', &mut line).await?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Told by its first word: the rest may be of anything.
fn unexpected(line: &str) -> io::Error {
    io::Error::other(format!("an answer of memcached that begins with {:?}", line.split(' ').next().unwrap_or_default()))
}
