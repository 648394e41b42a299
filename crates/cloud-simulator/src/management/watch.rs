//! Watches: the changes of a collection as they happen, from a version on, for as long as somebody listens.
//!
//! As of a real API server: a version that was compacted away is answered 410, without a version a watch begins with what there is, bookmarks
//! come to who asks for them, and the server ends a watch when its time is over. One difference: an object whose labels fit no longer is
//! not told as deleted; nothing here changes labels.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use actix_web::{
    HttpResponse,
    body::{BodySize, MessageBody},
    http::header,
    web::{Bytes, Data},
};
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::management::{Shared, World, discovery::KINDS, labels::is_selected};

/// How often is looked whether there is something to tell.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// Ticks between two bookmarks. A real server lets a minute pass.
const BOOKMARK: u32 = 25;

/// What is watched.
pub(crate) struct Watch {
    pub(crate) shared: Data<Shared>,
    pub(crate) kind: usize,
    pub(crate) namespace: Option<String>,
    pub(crate) selector: String,
    /// The version that has been told; none: from what there is on.
    pub(crate) version: Option<u64>,
    pub(crate) wants_bookmarks: bool,
    pub(crate) lasts: Duration,
}

/// What a test does to watches that are open; later ones are not touched.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// Watches begun so far.
    begun: u64,
    /// Those begun up to then are cut off without a word.
    dropped: u64,
    /// Those begun up to then stay open and say nothing any more.
    silent: u64,
    /// Open now.
    open: usize,
    /// Told that their version is too old.
    expired: usize,
}

impl Watches {
    pub(crate) fn cut_off(&mut self) {
        self.dropped = self.begun;
    }

    pub(crate) fn silence(&mut self) {
        self.silent = self.begun;
    }

    pub(crate) fn expired(&self) -> usize {
        self.expired
    }

    pub(crate) fn note_expired(&mut self) {
        self.expired += 1;
    }

    pub(crate) fn open(&self) -> usize {
        self.open
    }
}

struct Lines {
    watch: Watch,
    number: u64,
    ticks: Interval,
    count: u32,
    until: Instant,
    is_over: bool,
}

/// Begins a watch; or the answer that its version is too old.
pub(crate) fn begin(watch: Watch) -> Result<HttpResponse, Value> {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let until = Instant::now() + watch.lasts;
    let number = {
        let mut world = watch.shared.lock();
        let oldest = world.store.oldest();
        if let Some(version) = watch.version.filter(|version| *version < oldest) {
            world.watches.note_expired();
            return Err(expired(version, oldest));
        }
        world.watches.begun += 1;
        world.watches.open += 1;
        world.watches.begun
    };
    let lines = Lines { watch, number, ticks, count: 0, until, is_over: false };
    Ok(HttpResponse::Ok().insert_header((header::CONTENT_TYPE, "application/json")).body(lines))
}

impl Lines {
    /// What is to be told at this tick; empty: nothing.
    fn news(&mut self) -> Result<String, io::Error> {
        let shared = self.watch.shared.clone();
        let mut world = shared.lock();
        if self.number <= world.watches.dropped {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the watch was cut off"));
        }
        if self.number <= world.watches.silent {
            return Ok(String::new());
        }
        world.advance_seldom();
        let Some(from) = self.watch.version else {
            self.watch.version = Some(world.store.version());
            return Ok(self.all(&world));
        };
        if from < world.store.oldest() {
            self.is_over = true;
            world.watches.note_expired();
            return Ok(line("ERROR", &expired(from, world.store.oldest())));
        }
        let mut text = String::new();
        for (happened, what, key, object) in world.store.since(from) {
            let is_here = self.watch.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace);
            if key.kind == self.watch.kind && is_here && is_selected(object, &self.watch.selector) {
                text.push_str(&line(what, object));
            }
            self.watch.version = Some(*happened);
        }
        self.count += 1;
        if text.is_empty() && self.watch.wants_bookmarks && self.count.is_multiple_of(BOOKMARK) {
            text = bookmark(self.watch.kind, world.store.version());
        }
        Ok(text)
    }

    fn all(&self, world: &World) -> String {
        let all = world.store.list(self.watch.kind, self.watch.namespace.as_deref());
        all.filter(|(_, object)| is_selected(object, &self.watch.selector)).map(|(_, object)| line("ADDED", object)).collect()
    }
}

fn bookmark(kind: usize, version: u64) -> String {
    let kind = &KINDS[kind];
    let metadata = json!({"resourceVersion": version.to_string()});
    line("BOOKMARK", &json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata}))
}

/// What a version that was compacted away is answered with.
fn expired(version: u64, oldest: u64) -> Value {
    let message = format!("too old resource version: {version} ({oldest})");
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": "Expired", "code": 410})
}

fn line(what: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": what, "object": object}))
}

impl MessageBody for Lines {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        loop {
            if self.is_over || Instant::now() >= self.until {
                return Poll::Ready(None);
            }
            ready!(self.ticks.poll_tick(context));
            match self.news() {
                Ok(text) if text.is_empty() => {}
                Ok(text) => return Poll::Ready(Some(Ok(Bytes::from(text)))),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.watch.shared.lock().watches.open -= 1;
    }
}
