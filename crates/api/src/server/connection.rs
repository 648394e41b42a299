//! One client's connection, which watches its own clock.
//!
//! The HTTP library below times the head of the first request and the pause between two requests, and nothing else: a client that answers
//! its first request in time could send the head of its second one over hours, and one that takes an answer byte by byte would hold memory as
//! long as it likes. So the stream itself knows what may be waited for, and ends with an error when it was waited for long enough:
//!
//! - between two requests: the idle time and the time for a head; once a byte is there, the time for a head only;
//! - while a request is worked on: nothing here, the handler has its own deadline and one for the body;
//! - while an answer is taken: the send time, and a second more for each `SLOWEST` bytes that were taken.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::limits::Limits;

/// Bytes a second at which a client must take an answer in the long run.
const SLOWEST: u64 = 4096;

/// What the connection and the handler of its requests tell each other.
#[derive(Debug)]
pub struct Watch {
    limits: Limits,
    /// Whether a request is worked on.
    serving: Cell<bool>,
    /// When something was last done for the client.
    quiet_since: Cell<Instant>,
    /// When the first byte came of a head that is not complete yet.
    head_since: Cell<Option<Instant>>,
}

/// A request is worked on as long as it lives.
#[derive(Debug)]
pub struct Serving(Rc<Watch>);

impl Watch {
    fn new(limits: Limits) -> Self {
        Self { limits, serving: Cell::new(false), quiet_since: Cell::new(Instant::now()), head_since: Cell::new(None) }
    }

    /// The head of a request is complete, its handler begins.
    pub fn serve(self: &Rc<Self>) -> Serving {
        self.serving.set(true);
        self.head_since.set(None);
        Serving(self.clone())
    }

    fn received(&self) {
        if !self.serving.get() && self.head_since.get().is_none() {
            self.head_since.set(Some(Instant::now()));
        }
    }

    /// When the wait for the next bytes is over; none while a request is worked on.
    fn read_deadline(&self) -> Option<Instant> {
        if self.serving.get() {
            return None;
        }
        let idle = self.quiet_since.get() + self.limits.idle + self.limits.head;
        Some(self.head_since.get().map_or(idle, |since| idle.min(since + self.limits.head)))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.serving.set(false);
        self.0.quiet_since.set(Instant::now());
    }
}

/// A stream, plain or under TLS, with its clock.
#[derive(Debug)]
pub struct Connection<IO> {
    io: IO,
    watch: Rc<Watch>,
    read: Alarm,
    write: Alarm,
    /// Since when the client has not taken all that it was sent, and how many bytes it took since then.
    behind: Option<(Instant, u64)>,
}

impl<IO> Connection<IO> {
    /// Begins to watch a stream.
    pub fn new(io: IO, limits: Limits) -> Self {
        Self { io, watch: Rc::new(Watch::new(limits)), read: Alarm::default(), write: Alarm::default(), behind: None }
    }

    /// For the handlers of this connection's requests.
    pub fn watch(&self) -> Rc<Watch> {
        self.watch.clone()
    }

    /// Nothing can be sent now: whether that has lasted for too long.
    fn wait_for_client(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (since, taken) = *self.behind.get_or_insert_with(|| (Instant::now(), 0));
        let deadline = since + self.watch.limits.send + Duration::from_secs(taken / SLOWEST);
        ready!(self.write.poll(cx, deadline));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }

    fn sent(&mut self, bytes: usize) {
        if let Some((_, taken)) = &mut self.behind {
            *taken += bytes as u64;
        }
        // An answer that goes on as a stream keeps its connection alive.
        self.watch.quiet_since.set(Instant::now());
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Connection<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buf) {
            Poll::Pending => {}
            done => {
                if buf.filled().len() > before {
                    self.watch.received();
                }
                return done;
            }
        }
        let Some(deadline) = self.watch.read_deadline() else { return Poll::Pending };
        ready!(self.read.poll(cx, deadline));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client sends no request")))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Connection<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.io).poll_write(cx, buf) {
            Poll::Pending => self.wait_for_client(cx).map_ok(|()| 0),
            Poll::Ready(Ok(bytes)) => {
                self.sent(bytes);
                Poll::Ready(Ok(bytes))
            }
            failed => failed,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.io).poll_flush(cx) {
            Poll::Pending => self.wait_for_client(cx),
            done => {
                self.behind = None;
                done
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.io).poll_shutdown(cx) {
            Poll::Pending => self.wait_for_client(cx),
            done => done,
        }
    }
}

/// A timer that is moved only when it must be: deadlines mostly move away from it, request after request.
#[derive(Debug, Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Ready once the deadline has passed.
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests;
