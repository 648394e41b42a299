//! The thread that writes log lines. Callers only queue.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

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
    // Bounded by a count of the lines: a channel that is bounded by itself has room for all of them from the beginning, a quarter of a MiB.
    queue: Sender<Message>,
    counts: Arc<Counts>,
}

struct Counts {
    /// Lines that wait at most.
    most: usize,
    waiting: AtomicUsize,
    lost: AtomicU64,
}

impl Handle {
    /// Queues a line, which must end with a line feed. Never waits: a line too many is counted and dropped.
    pub(super) fn write(&self, line: String) {
        let Counts { most, waiting, lost } = &*self.counts;
        if waiting.fetch_add(1, Ordering::Relaxed) < *most {
            // The thread has ended with the program.
            let _ended = self.queue.send(Message::Line(line));
        } else {
            waiting.fetch_sub(1, Ordering::Relaxed);
            lost.fetch_add(1, Ordering::Relaxed);
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
        let (queue, messages) = channel();
        let counts = Arc::new(Counts { most: queue_lines, waiting: AtomicUsize::new(0), lost: AtomicU64::new(0) });
        let handle = Handle { queue, counts: Arc::clone(&counts) };
        std::thread::Builder::new().name("log-writer".to_owned()).spawn(move || run(&messages, sinks, &counts))?;
        Ok(Self { handle })
    }

    /// The end that takes lines.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Opens files again by their names, after a rotation. False when the thread is not there to do it.
    pub fn reopen(&self) -> bool {
        self.handle.queue.send(Message::Reopen).is_ok()
    }

    /// Waits until everything queued so far is written, with a limit. Call it before `std::process::exit`, which drops
    /// nothing.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(0);
        if self.handle.queue.send(Message::Flush(done)).is_ok() {
            // The other end is dropped when it is done: an error is the expected answer.
            let _dropped_or_late: Result<(), RecvTimeoutError> = wait.recv_timeout(FLUSH_LIMIT);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.flush();
        // Not joined: a sink that is stuck would hold up the end of the program.
        let _ended = self.handle.queue.send(Message::Stop);
    }
}

fn run(messages: &Receiver<Message>, mut sinks: Vec<Sink>, counts: &Counts) {
    let mut batch = Vec::with_capacity(BATCH_BYTES);
    while let Ok(first) = messages.recv() {
        let mut flushed = Vec::new();
        let (mut stop, mut reopen) = (false, false);
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Line(line) => {
                    counts.waiting.fetch_sub(1, Ordering::Relaxed);
                    batch.extend_from_slice(line.as_bytes());
                }
                Message::Flush(done) => flushed.push(done),
                Message::Reopen => reopen = true,
                Message::Stop => stop = true,
            }
            next = if batch.len() < BATCH_BYTES && !reopen { messages.try_recv().ok() } else { None };
        }
        let dropped = counts.lost.swap(0, Ordering::Relaxed);
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
