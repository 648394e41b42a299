//! The thread that writes log lines. Callers only queue.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Bytes gathered before they are written at the latest.
const BATCH_BYTES: usize = 64 * 1024;

/// How long the end of the program may wait for the log.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// A place lines are written to.
pub struct Sink {
    write: Box<dyn Write + Send>,
    /// The file, where it is one.
    path: Option<PathBuf>,
}

impl Sink {
    /// Appends to a file, so that a rotation that empties it is survived.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        let file: File = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { write: Box::new(file), path: Some(path.to_owned()) })
    }

    /// Standard error.
    pub fn stderr() -> Self {
        Self { write: Box::new(io::stderr()), path: None }
    }

    /// Opens a file by its name again: a rotation has given what was written another one. When that fails, lines go where they went.
    fn open_again(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            *self = Self::append_to(path)?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn of(write: impl Write + Send + 'static) -> Self {
        Self { write: Box::new(write), path: None }
    }
}

enum Message {
    Line(String),
    /// Everything queued before it is written when the other end is dropped.
    Flush(SyncSender<()>),
    /// What is queued before goes where it went, what comes after into files that are opened again.
    Reopen,
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

    /// Opens files again by their names, after a rotation. False when the thread does not take it in time.
    pub fn reopen(&self) -> bool {
        send_in_time(&self.handle.queue, Message::Reopen)
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
        let (mut stop, mut reopen) = (false, false);
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Line(line) => batch.extend_from_slice(line.as_bytes()),
                Message::Flush(done) => flushed.push(done),
                Message::Reopen => reopen = true,
                Message::Stop => stop = true,
            }
            next = if batch.len() < BATCH_BYTES && !reopen { messages.try_recv().ok() } else { None };
        }
        let dropped = lost.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            batch.extend_from_slice(super::layer::lost_line(dropped).as_bytes());
        }
        for sink in &mut sinks {
            // Nowhere is left to report that the log cannot be written; the next batch tries again.
            let _unwritten: io::Result<()> = sink.write.write_all(&batch).and_then(|()| sink.write.flush());
            if reopen && let Err(error) = sink.open_again() {
                eprintln!("the log file cannot be opened again: {error}");
            }
        }
        batch.clear();
        drop(flushed);
        if stop {
            return;
        }
    }
}
