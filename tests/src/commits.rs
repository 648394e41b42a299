//! Stands between conductors and MariaDB and meets the end of a transaction: holds it before the server has it, holds the server's answer,
//! or cuts the connection in its place.
//!
//! It reads along in the protocol, which the tests speak without TLS. Only what an operation writes is met: transactions that have changed
//! a row of `operation`, as every one of whoever holds an operation does. Those that lengthen leases are none of them: they come with time,
//! not with work; nor is one that matched no row, as when an operation is given back that has ended.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

/// Of every packet: three bytes of length, one of its number.
const HEADER: usize = 4;
/// A statement as text: nothing but the beginning and the end of transactions, once a connection is set up.
const QUERY: u8 = 0x03;
/// A statement to be prepared.
const PREPARE: u8 = 0x16;
/// A run of one that was prepared.
const EXECUTE: u8 = 0x17;
/// The first byte of the answer to what went well and has no rows to show.
const OK: u8 = 0x00;

/// What is done about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meet {
    /// It is held before the server has it; its sender may die meanwhile.
    Before,
    /// The server has done it, and its answer is held.
    Answer,
    /// The server has done it, and the connection ends instead of an answer.
    Cut,
}

/// The transactions of operations, through however many doors they come.
pub struct Commits {
    behind: String,
    shared: Arc<Shared>,
}

/// A port of its own before the server, for one process; listens until it is dropped, and its connections end with it.
pub struct Door {
    port: u16,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    opened: Notify,
}

#[derive(Default)]
struct State {
    asked: Vec<String>,
    waiting: Option<Waiting>,
    is_met: bool,
    held_at: Option<u16>,
}

struct Waiting {
    name: String,
    /// So many of this name are still to come, the one that is met included.
    left: u32,
    meet: Meet,
}

impl Commits {
    /// Before the server at this address (`host:port`).
    pub fn before(behind: String) -> Self {
        Self { behind, shared: Arc::default() }
    }

    /// Opens another door.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn door(&self) -> Result<Door> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let port = listener.local_addr()?.port();
        let (behind, shared) = (self.behind.clone(), Arc::clone(&self.shared));
        let serving = tokio::spawn(async move {
            // Of this task, so that connections are cut when it is.
            let mut through = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (behind, shared) = (behind.clone(), Arc::clone(&shared));
                through.spawn(async move {
                    let Ok(server) = TcpStream::connect(&behind).await else { return };
                    carry(client, server, port, &shared).await;
                });
            }
        });
        Ok(Door { port, serving })
    }

    /// What operations wanted to have stored so far, in that order: each transaction by the tables that it has written.
    pub fn asked(&self) -> Vec<String> {
        self.shared.state().asked.clone()
    }

    /// Meets the `nth` transaction of this name from now on, counted from 1.
    pub fn meet(&self, name: &str, nth: u32, meet: Meet) {
        let mut state = self.shared.state();
        state.waiting = Some(Waiting { name: name.to_owned(), left: nth, meet });
        state.is_met = false;
    }

    /// Meets none any more.
    pub fn forget(&self) {
        self.shared.state().waiting = None;
    }

    /// Whether the transaction has come that was to be met.
    pub fn is_met(&self) -> bool {
        self.shared.state().is_met
    }

    /// The port of the door at which one is held.
    pub fn held(&self) -> Option<u16> {
        self.shared.state().held_at
    }

    /// Lets go of what is held.
    pub fn let_go(&self) {
        self.shared.opened.notify_waiters();
    }
}

impl Door {
    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds what has come to this door until the test lets go, or nobody waits for it any more.
    async fn hold(&self, port: u16) {
        struct Held<'a>(&'a Shared);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.state().held_at = None;
            }
        }
        let released = self.opened.notified();
        tokio::pin!(released);
        // Before it is seen: who sees it and lets go must reach it.
        released.as_mut().enable();
        self.state().held_at = Some(port);
        let _held = Held(self);
        released.await;
    }
}

impl State {
    /// A transaction is to be stored; what is done about it.
    fn come(&mut self, name: String) -> Option<Meet> {
        let mut due = None;
        if let Some(waiting) = self.waiting.as_mut().filter(|waiting| waiting.name == name) {
            waiting.left = waiting.left.saturating_sub(1);
            due = (waiting.left == 0).then_some(waiting.meet);
        }
        self.asked.push(name);
        if due.is_some() {
            self.waiting = None;
            self.is_met = true;
        }
        due
    }
}

/// Carries packets both ways until either side has enough.
async fn carry(client: TcpStream, server: TcpStream, port: u16, shared: &Shared) {
    // Requests and answers are small and wait for each other.
    if client.set_nodelay(true).and(server.set_nodelay(true)).is_err() {
        return;
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let talk = Mutex::new(Talk::default());
    tokio::select! {
        () = there(from_client, to_server, &talk, port, shared) => {}
        () = back(from_server, to_client, &talk, port, shared) => {}
    }
}

async fn there(from: OwnedReadHalf, mut to: OwnedWriteHalf, talk: &Mutex<Talk>, port: u16, shared: &Shared) {
    let mut from = BufReader::new(from);
    while let Ok(packet) = next(&mut from).await {
        let stored = lock(talk).read(&packet);
        let met = stored.and_then(|name| shared.state().come(name));
        match met {
            Some(Meet::Before) => {
                tokio::select! {
                    () = shared.hold(port) => {}
                    // Nobody says anything before he has his answer: he is gone, and his transaction with him.
                    _ = from.fill_buf() => return,
                }
            }
            Some(meet) => lock(talk).awaited = Some(Awaited::Stored(meet)),
            None => {}
        }
        if to.write_all(&packet).await.is_err() {
            return;
        }
    }
}

async fn back(from: OwnedReadHalf, to: OwnedWriteHalf, talk: &Mutex<Talk>, port: u16, shared: &Shared) {
    let (mut from, mut to) = (BufReader::new(from), BufWriter::new(to));
    while let Ok(packet) = next(&mut from).await {
        let met = lock(talk).answer(&packet);
        match met {
            Some(Meet::Cut) => return,
            Some(Meet::Before | Meet::Answer) => shared.hold(port).await,
            None => {}
        }
        if to.write_all(&packet).await.is_err() {
            return;
        }
        // What has come in one piece goes on in one piece.
        if from.buffer().is_empty() && to.flush().await.is_err() {
            return;
        }
    }
}

/// The next packet with its header.
async fn next(from: &mut BufReader<OwnedReadHalf>) -> io::Result<Vec<u8>> {
    let mut header = [0; HEADER];
    from.read_exact(&mut header).await?;
    let [low, middle, high, _] = header;
    let length = u32::from_le_bytes([low, middle, high, 0]) as usize;
    let mut packet = header.to_vec();
    packet.resize(HEADER + length, 0);
    from.read_exact(&mut packet[HEADER..]).await?;
    Ok(packet)
}

fn lock(talk: &Mutex<Talk>) -> MutexGuard<'_, Talk> {
    talk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is said on one connection. A client has its answer before it asks again.
#[derive(Default)]
struct Talk {
    /// Of the statements that were prepared, those that write, by their numbers.
    prepared: HashMap<u32, Write>,
    /// What the transaction has changed so far.
    written: Vec<Write>,
    /// What the server's next packet answers, where it matters.
    awaited: Option<Awaited>,
}

/// A statement that writes.
#[derive(Clone)]
struct Write {
    table: String,
    /// It records an operation's work.
    is_work: bool,
}

enum Awaited {
    /// The number of a statement.
    Number(Write),
    /// How many rows it matched.
    Rows(Write),
    /// That the transaction is stored.
    Stored(Meet),
}

impl Talk {
    /// What the client says; the name of a transaction of an operation that is to be stored now.
    fn read(&mut self, packet: &[u8]) -> Option<String> {
        // A command begins a new count of packets; what answers the server's greeting goes on with it.
        let [_, _, _, 0, command, body @ ..] = packet else { return None };
        self.awaited = None;
        match *command {
            PREPARE => self.awaited = Write::of(&String::from_utf8_lossy(body)).map(Awaited::Number),
            EXECUTE => {
                let number = u32::from_le_bytes(*body.first_chunk()?);
                self.awaited = self.prepared.get(&number).cloned().map(Awaited::Rows);
            }
            QUERY => {
                let written = std::mem::take(&mut self.written);
                if body == b"COMMIT" {
                    return name(&written);
                }
            }
            _ => {}
        }
        None
    }

    /// What the server says; what is done about it.
    fn answer(&mut self, packet: &[u8]) -> Option<Meet> {
        let awaited = self.awaited.take()?;
        match (awaited, packet.get(HEADER..).unwrap_or_default()) {
            (Awaited::Number(write), [OK, a, b, c, d, ..]) => {
                self.prepared.insert(u32::from_le_bytes([*a, *b, *c, *d]), write);
            }
            (Awaited::Rows(write), [OK, rows, ..]) if *rows > 0 => self.written.push(write),
            (Awaited::Stored(meet), _) => return Some(meet),
            _ => {}
        }
        None
    }
}

impl Write {
    fn of(statement: &str) -> Option<Self> {
        let plain = statement.replace('`', "");
        let mut words = plain.split_whitespace();
        let verb = words.next()?;
        let table = match verb {
            "UPDATE" => words.next(),
            "INSERT" | "DELETE" => words.find(|word| matches!(*word, "INTO" | "FROM")).and_then(|_| words.next()),
            _ => None,
        };
        let table = table?.to_owned();
        let is_work = verb == "UPDATE" && table == "operation" && !plain.contains(" SET lease_ms = ");
        Some(Self { table, is_work })
    }
}

/// The tables that a transaction has written, where it is an operation's.
fn name(written: &[Write]) -> Option<String> {
    if !written.iter().any(|write| write.is_work) {
        return None;
    }
    let mut tables: Vec<&str> = written.iter().map(|write| write.table.as_str()).collect();
    tables.dedup();
    Some(tables.join("+"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &[u8] = b"\x03BEGIN";
    const COMMIT: &[u8] = b"\x03COMMIT";
    const CLAIM: &str = "UPDATE `operation` SET `owner` = ?, `lease_ms` = ? WHERE (`operation`.`uuid` = ?)";
    const RENEWAL: &str = "UPDATE `operation` SET `lease_ms` = ? WHERE ((uuid = 'a' AND generation = 2))";
    const EVENT: &str = "INSERT INTO `operation_event` (`kind`) VALUES (?)";
    const LOOK: &str = "SELECT `owner` FROM `operation`";

    fn packet(number: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).expect("short").to_le_bytes();
        [&length[..3], &[number], body].concat()
    }

    /// Prepares statements under their places in the list.
    fn prepared(statements: &[&str]) -> Talk {
        let mut talk = Talk::default();
        for (number, statement) in (0u32..).zip(statements) {
            assert!(talk.read(&packet(0, &[&[PREPARE][..], statement.as_bytes()].concat())).is_none());
            talk.answer(&packet(1, &[&[OK][..], &number.to_le_bytes(), &[0; 7]].concat()));
        }
        talk
    }

    /// A transaction that runs these, each with so many rows.
    fn transaction(talk: &mut Talk, runs: &[(u32, u8)]) -> Option<String> {
        talk.read(&packet(0, BEGIN));
        for (number, rows) in runs {
            talk.read(&packet(0, &[&[EXECUTE][..], &number.to_le_bytes(), b"values"].concat()));
            talk.answer(&packet(1, &[OK, *rows, 0, 2, 0, 0, 0]));
        }
        talk.read(&packet(0, COMMIT))
    }

    #[test]
    fn what_an_operation_stores_is_known_by_its_tables() {
        let mut talk = prepared(&[CLAIM, EVENT, RENEWAL, LOOK]);
        assert_eq!(transaction(&mut talk, &[(3, 1), (0, 1), (1, 1), (1, 1)]).as_deref(), Some("operation+operation_event"));
        assert_eq!(transaction(&mut talk, &[(0, 0), (0, 1)]).as_deref(), Some("operation"));
        // No row was matched, a lease was lengthened, no operation's row, nothing.
        for runs in [&[(0, 0)][..], &[(2, 1)], &[(1, 1)], &[]] {
            assert_eq!(transaction(&mut talk, runs), None, "{runs:?}");
        }
    }

    #[test]
    fn what_was_rolled_back_is_not_stored_by_the_next_one() {
        let mut talk = prepared(&[CLAIM]);
        talk.read(&packet(0, BEGIN));
        talk.read(&packet(0, &[&[EXECUTE][..], &0u32.to_le_bytes()].concat()));
        talk.answer(&packet(1, &[OK, 1]));
        assert!(talk.read(&packet(0, b"\x03ROLLBACK")).is_none());
        assert_eq!(transaction(&mut talk, &[]), None);
    }

    #[test]
    fn only_the_nth_of_its_name_is_met() {
        let commits = Commits::before(String::new());
        commits.meet("operation", 2, Meet::Cut);
        let come = |name: &str| commits.shared.state().come(name.to_owned());
        let met = ["operation", "operation+cluster", "operation", "operation"].map(come);
        assert_eq!(met, [None, None, Some(Meet::Cut), None]);
        assert!(commits.is_met() && commits.asked().len() == 4 && commits.held().is_none());
    }
}
