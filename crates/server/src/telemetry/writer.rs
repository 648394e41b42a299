//! The thread that writes log lines. Callers only queue.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Bytes gathered before they are written at the latest.
const BATCH_BYTES: usize = 64 * 1024;

/// How long the end of the program may wait for the log.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// A place lines are written to.
pub struct Sink(Box<dyn Write + Send>);

impl Sink {
    /// Appends to a file, so that a rotation that empties it is survived.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        let file: File = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Box::new(file)))
    }

    /// Standard error.
    pub fn stderr() -> Self {
        Self(Box::new(io::stderr()))
    }

    #[cfg(test)]
    pub(super) fn of(write: impl Write + Send + 'static) -> Self {
        Self(Box::new(write))
    }
}

enum Message {
    Line(String),
    /// Everything queued before it is written when the other end is dropped.
    Flush(SyncSender<()>),
    Stop,
}

/// Queues lines. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Handle {
    /// Queues a line, which must end with a line feed. Never waits: a line too many is counted and dropped.
    pub(super) fn write(&self, line: String) {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Message::Line(line)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Owns the thread; dropping it writes what is queued.
pub struct Writer {
    handle: Handle,
}

impl Writer {
    /// Starts the thread. At most `queue_lines` wait.
    pub fn start(sinks: Vec<Sink>, queue_lines: usize) -> io::Result<Self> {
        let (queue, messages) = sync_channel(queue_lines);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        std::thread::Builder::new().name("log-writer".to_owned()).spawn(move || run(&messages, sinks, &counted))?;
        Ok(Self { handle: Handle { queue, lost } })
    }

    /// The end that takes lines.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until everything queued so far is written, with a limit. Call it before `std::process::exit`, which drops
    /// nothing.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(0);
        if send_in_time(&self.handle.queue, Message::Flush(done)) {
            // The other end is dropped when it is done: an error is the expected answer.
            let _dropped_or_late: Result<(), RecvTimeoutError> = wait.recv_timeout(FLUSH_LIMIT);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.flush();
        // Not joined: a sink that is stuck would hold up the end of the program.
        send_in_time(&self.handle.queue, Message::Stop);
    }
}

/// Queues a message that must not be dropped; false when the thread does not take it in time.
fn send_in_time(queue: &SyncSender<Message>, mut message: Message) -> bool {
    let deadline = Instant::now() + FLUSH_LIMIT;
    loop {
        match queue.try_send(message) {
            Ok(()) => return true,
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(back)) => {
                if Instant::now() >= deadline {
                    return false;
                }
                message = back;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn run(messages: &Receiver<Message>, mut sinks: Vec<Sink>, lost: &AtomicU64) {
    let mut batch = Vec::with_capacity(BATCH_BYTES);
    while let Ok(first) = messages.recv() {
        let mut flushed = Vec::new();
        let mut stop = false;
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Line(line) => batch.extend_from_slice(line.as_bytes()),
                Message::Flush(done) => flushed.push(done),
                Message::Stop => stop = true,
            }
            next = if batch.len() < BATCH_BYTES { messages.try_recv().ok() } else { None };
        }
        let dropped = lost.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            batch.extend_from_slice(super::layer::lost_line(dropped).as_bytes());
        }
        for sink in &mut sinks {
            // Nowhere is left to report that the log cannot be written; the next batch tries again.
            let _unwritten: io::Result<()> = sink.0.write_all(&batch).and_then(|()| sink.0.flush());
        }
        batch.clear();
        drop(flushed);
        if stop {
            return;
        }
    }
}
