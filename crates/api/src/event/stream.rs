//! One stream of server-sent events.
//!
//! It first reads what has happened since the event that the client saw last (all that is kept, if it names none), then takes what comes from
//! the feed, and reads again what it has missed when it falls behind. Every event that is kept goes out once in a stream, in order, under its
//! number. The stream ends with the caller's token, also when that is revoked, after an hour, or when the process stops; the client comes back
//! with the number of the last event.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Bytes;
use futures::StreamExt;
use model::id::ClusterId;
use model::operation::OperationEvent;
use model::store::{Conn, event};
use secrecy::SecretString;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::Instant;

use super::feed::{Following, Seat};
use crate::answer::{Answer, Stream};
use crate::context::{Context, Shared};
use crate::error::ApiError;
use crate::identity::Age;
use crate::view::event::EventView;

/// How long a stream lasts at most.
const LIFE: Duration = Duration::from_secs(60 * 60);
/// How often something is sent when nothing happens; less when connections are kept for a shorter time.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Between two looks at a token at most; it is the cache that is asked, and Keystone when that has forgotten.
const LOOK: Duration = Duration::from_secs(30);
/// Events read at once.
const PAGE: i64 = 100;
/// Milliseconds after which a client comes back.
const RETRY: u64 = 2000;

struct State {
    shared: Arc<Shared>,
    _seat: Seat,
    cluster: ClusterId,
    token: SecretString,
    /// When to look whether the token is still good.
    look_at: Instant,
    /// The last event that was sent, or put into the queue.
    last: i64,
    queue: VecDeque<Bytes>,
    /// When something was last sent.
    spoke_at: Instant,
    following: Option<Following>,
    /// There may be more in the database than was read.
    is_behind: bool,
    until: Instant,
    closed: watch::Receiver<bool>,
}

/// Opens a stream of a cluster's events after the one of this number.
pub fn open(cx: &Context, cluster: ClusterId, after: i64) -> Result<Answer, ApiError> {
    let feed = &cx.shared.feed;
    let project = cx.caller.project_id.as_ref().map_or(cx.caller.user_id.0.as_str(), |p| p.0.as_str());
    let left = (cx.caller.info.expires_at - model::time::now()).to_std().unwrap_or_default();
    let state = State {
        _seat: feed.sit(project)?,
        closed: feed.closed(),
        shared: cx.shared.clone(),
        cluster,
        token: cx.caller.token.clone(),
        look_at: Instant::now() + between_looks(&cx.shared),
        last: after,
        queue: [Bytes::from(format!("retry: {RETRY}\n\n"))].into(),
        spoke_at: Instant::now(),
        following: None,
        is_behind: true,
        until: Instant::now() + left.min(LIFE),
    };
    let stream =
        futures::stream::unfold(state, |mut state| async move { state.next().await.map(|bytes| (Ok::<_, Infallible>(bytes), state)) });
    Ok(Answer::stream(Stream::new(stream.boxed())))
}

/// Between two looks at a token.
fn between_looks(shared: &Shared) -> Duration {
    Duration::from_secs(shared.settings.token_cache_seconds).clamp(Duration::from_secs(1), LOOK)
}

impl State {
    /// The next bytes; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.queue.pop_front() {
                self.spoke_at = Instant::now();
                return Some(bytes);
            }
            if *self.closed.borrow() || Instant::now() >= self.until {
                return None;
            }
            if Instant::now() >= self.look_at && !self.is_welcome().await {
                return None;
            }
            if self.is_behind {
                // Without the database the client had better ask another process.
                self.read().await.ok()?;
                continue;
            }
            let Some(following) = &mut self.following else {
                self.follow();
                continue;
            };
            // Counted from there, whatever this loop wakes up for meanwhile.
            let quiet_until = self.spoke_at + KEEP_ALIVE.min(self.shared.settings.limits.idle / 3);
            tokio::select! {
                got = following.events.recv() => match got {
                    Ok(event) => self.push(&event),
                    Err(RecvError::Lagged(_)) => self.is_behind = true,
                    Err(RecvError::Closed) => return None,
                },
                () = tokio::time::sleep_until(quiet_until) => {
                    self.spoke_at = Instant::now();
                    return Some(Bytes::from_static(b": still there\n\n"));
                }
                () = tokio::time::sleep_until(self.until) => return None,
                () = tokio::time::sleep_until(self.look_at) => {}
                _ = self.closed.changed() => return None,
            }
        }
    }

    /// Whether the token is good for longer. While Keystone cannot be asked, it is: its end is known.
    async fn is_welcome(&mut self) -> bool {
        let shared = &self.shared;
        let asked = shared.identity.validate(&shared.cloud, &shared.service, &self.token, Age::Valid).await;
        self.look_at = Instant::now() + between_looks(shared);
        !matches!(asked, Err(ApiError::Unauthenticated))
    }

    /// Follows what comes; what came between the last read and now is read first.
    fn follow(&mut self) {
        let shared = &self.shared;
        let (following, sent) = shared.feed.follow(&shared.store, &shared.runtime, &self.cluster, self.last);
        self.is_behind = sent > self.last;
        self.following = Some(following);
    }

    async fn read(&mut self) -> Result<(), model::store::StoreError> {
        let (cluster, last) = (&self.cluster, self.last);
        let rows = self.shared.store.read(async |conn: &mut Conn| event::of_cluster(conn, cluster, last, PAGE).await).await?;
        self.is_behind = i64::try_from(rows.len()) == Ok(PAGE);
        rows.iter().for_each(|row| self.push(row));
        Ok(())
    }

    fn push(&mut self, row: &OperationEvent) {
        if row.id > self.last {
            self.last = row.id;
            self.queue.push_back(frame(row));
        }
    }
}

/// An event as the stream has it: JSON has no line breaks of its own.
fn frame(row: &OperationEvent) -> Bytes {
    let data = serde_json::to_string(&EventView::of(row)).expect("an event is plain data");
    Bytes::from(format!("id: {}\nevent: {}\ndata: {data}\n\n", row.id, row.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_frame_whatever_its_text() {
        let row = OperationEvent {
            id: 7,
            operation_uuid: "o".into(),
            cluster_uuid: "c".into(),
            at_ms: 0,
            kind: "ended".into(),
            message: "one\ntwo\r\n\nid: 9".into(),
            details: None,
        };
        let text = String::from_utf8(frame(&row).to_vec()).expect("text");
        assert!(text.starts_with("id: 7\nevent: ended\ndata: {") && text.ends_with("}\n\n"), "{text}");
        assert_eq!(text.trim_end().lines().count(), 3, "{text}");
    }
}
