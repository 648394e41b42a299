//! Counts the statements that one program sends to MariaDB, whatever others send: stands between the two and reads along.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A statement as text (MariaDB's protocol).
const QUERY: u8 = 0x03;
/// A statement as text that is to be run later, each time with other values.
const PREPARE: u8 = 0x16;
/// One more run of a statement that was prepared before.
const EXECUTE: u8 = 0x17;
/// What is kept of a statement: those that differ, differ before that.
const KEPT: usize = 16 * 1024;

/// A statement that was prepared, on which of the connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prepared {
    pub connection: usize,
    pub text: String,
}

/// What a program sent.
#[derive(Debug, Default)]
struct Sent {
    run: Vec<String>,
    prepared: Vec<Prepared>,
}

/// Listens on loopback until it is dropped.
pub struct Statements {
    port: u16,
    sent: Arc<Mutex<Sent>>,
    serving: JoinHandle<()>,
}

impl Statements {
    /// Before the server at this address.
    pub async fn count(behind: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let port = listener.local_addr()?.port();
        let (behind, sent): (_, Arc<Mutex<Sent>>) = (behind.to_owned(), Arc::default());
        let counted = Arc::clone(&sent);
        let serving = tokio::spawn(async move {
            let mut connection = 0;
            while let Ok((client, _)) = listener.accept().await {
                connection += 1;
                let (behind, counted, reader) = (behind.clone(), Arc::clone(&counted), Reader { connection, ..Reader::default() });
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(&behind).await else { return };
                    carry(client, server, reader, &counted).await;
                });
            }
        });
        Ok(Self { port, sent, serving })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What was run since the last call: each statement before the program has its answer. Without the question whether a connection lives that
    /// has rested for some time: how long it rests, the machine decides.
    pub fn take(&self) -> Vec<String> {
        let mut run = std::mem::take(&mut lock(&self.sent).run);
        run.retain(|text| text != "SELECT 1");
        run
    }

    /// What was prepared since the last call.
    pub fn take_prepared(&self) -> Vec<Prepared> {
        std::mem::take(&mut lock(&self.sent).prepared)
    }
}

impl Drop for Statements {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(sent: &Mutex<Sent>) -> MutexGuard<'_, Sent> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Carries bytes both ways until either side has enough.
async fn carry(client: TcpStream, server: TcpStream, mut reader: Reader, sent: &Mutex<Sent>) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.into_split(), server.into_split());
    let there = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
            reader.read(&buffer[..count], &mut lock(sent));
            if to_server.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
    };
    let back = tokio::io::copy(&mut from_server, &mut to_client);
    tokio::select! {
        () = there => {}
        _ = back => {}
    }
}

/// Reads what a client sends, in whatever pieces it comes: packets of four bytes of length and number, and what they carry.
#[derive(Default)]
struct Reader {
    connection: usize,
    packet: Vec<u8>,
    /// Of the packet's body, still to come beyond what is kept.
    skip: usize,
}

impl Reader {
    fn read(&mut self, mut bytes: &[u8], sent: &mut Sent) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.packet.push(*first);
            bytes = rest;
            let [low, middle, high, number, body @ ..] = &self.packet[..] else { continue };
            let length = usize::try_from(u32::from_le_bytes([*low, *middle, *high, 0])).unwrap_or(usize::MAX);
            if body.len() < length.min(KEPT) {
                continue;
            }
            // A command begins a new count of packets; what answers the server's greeting goes on with it.
            match (number, body) {
                (0, [QUERY, text @ ..]) => sent.run.push(String::from_utf8_lossy(text).into_owned()),
                (0, [PREPARE, text @ ..]) => {
                    sent.prepared.push(Prepared { connection: self.connection, text: String::from_utf8_lossy(text).into_owned() });
                }
                (0, [EXECUTE, statement @ ..]) => sent.run.push(format!("prepared {:?}", statement.first_chunk::<4>())),
                _ => {}
            }
            self.skip = length - length.min(KEPT);
            self.packet.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).expect("short").to_le_bytes();
        [&length[..3], &[number], body].concat()
    }

    #[test]
    fn statements_are_counted_in_whatever_pieces_they_come() {
        let long = [&[QUERY][..], &[b'x'; 2 * KEPT]].concat();
        // A login and a ping are none, and a statement that is only prepared is not run.
        let stream = [
            packet(1, &[QUERY, b'l']),
            packet(0, &[0x0e]),
            packet(0, b"\x16SELECT ?"),
            packet(0, b"\x17\x07\x00\x00\x00and what it is run with"),
            packet(0, &long),
            packet(0, b"\x03COMMIT"),
            packet(0, &[]),
            packet(0, b"\x03BEGIN"),
        ]
        .concat();
        for size in [1, 2, 3, 7, KEPT + 4, KEPT + 5, 5 * KEPT] {
            let (mut reader, mut sent) = (Reader::default(), Sent::default());
            for piece in stream.chunks(size) {
                reader.read(piece, &mut sent);
            }
            let shown: Vec<&str> = sent.run.iter().map(|text| &text[..text.len().min(8)]).collect();
            assert_eq!(shown, ["prepared", "xxxxxxxx", "COMMIT", "BEGIN"], "in pieces of {size}");
            assert_eq!(sent.prepared, [Prepared { connection: 0, text: "SELECT ?".to_owned() }], "in pieces of {size}");
        }
    }
}
