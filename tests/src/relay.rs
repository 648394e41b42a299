//! Stands before a server, at an address of its own that can go away while the server stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Listens on loopback until it is dropped; its connections end with it.
pub struct Relay {
    address: String,
    taken: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Relay {
    /// Before the server at this address (`host:port`).
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(behind: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let address = listener.local_addr()?.to_string();
        let taken = Arc::new(AtomicUsize::new(0));
        let count = taken.clone();
        let serving = tokio::spawn(async move {
            // Of this task, so that connections are cut when it is.
            let mut through = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let behind = behind.clone();
                through.spawn(async move {
                    let Ok(mut server) = TcpStream::connect(&behind).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                });
            }
        });
        Ok(Self { address, taken, serving })
    }

    /// Where it listens, `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connections that it has taken so far.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
