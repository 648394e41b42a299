//! The one place of a process that looks for new events, for all its streams together.
//!
//! While there are streams, a task asks the database for what is new on the clusters that are followed: a statement for each 64 clusters,
//! however many streams there are. It hands events to streams over a bounded channel for each cluster; a stream that falls behind reads what
//! it has missed by itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::id::ClusterId;
use model::operation::OperationEvent;
use model::store::{Conn, Store, event};
use tokio::sync::{broadcast, watch};

use crate::error::ApiError;

/// How often new events are looked for.
const POLL: Duration = Duration::from_millis(500);
/// Events of one cluster that a stream may be behind before it has to read them anew.
const BEHIND: usize = 256;
/// Events read by one statement at most.
const BATCH: i64 = 500;

/// An event on its way to streams.
pub type Sent = Arc<OperationEvent>;

/// Follows clusters for streams. Copies share it.
#[derive(Clone)]
pub struct Feed(Arc<Inner>);

struct Inner {
    followed: Mutex<Followed>,
    closed: watch::Sender<bool>,
    /// Streams at most; one project may have half of them.
    most: usize,
}

#[derive(Default)]
struct Followed {
    clusters: HashMap<ClusterId, Entry>,
    /// Streams of each project.
    streams: HashMap<String, usize>,
    is_polling: bool,
}

struct Entry {
    sender: broadcast::Sender<Sent>,
    /// The last event that was sent.
    last: i64,
    followers: usize,
}

/// The right to have a stream, as long as it lives.
pub struct Seat {
    feed: Feed,
    project: String,
}

/// A stream's part of the feed of one cluster.
pub struct Following {
    feed: Feed,
    cluster: ClusterId,
    pub events: broadcast::Receiver<Sent>,
}

impl Feed {
    /// A feed for so many streams.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Inner { followed: Mutex::default(), closed: watch::Sender::new(false), most }))
    }

    /// Ends every stream: the process stops.
    pub fn close(&self) {
        self.0.closed.send_replace(true);
    }

    /// Tells when the process stops.
    pub fn closed(&self) -> watch::Receiver<bool> {
        self.0.closed.subscribe()
    }

    /// A seat for a stream of a project.
    ///
    /// # Errors
    /// When all are taken, or half of them by this project, or when the process stops.
    pub fn sit(&self, project: &str) -> Result<Seat, ApiError> {
        let mut followed = self.lock();
        let all: usize = followed.streams.values().sum();
        let own = followed.streams.get(project).copied().unwrap_or(0);
        if *self.0.closed.borrow() || all >= self.0.most || own >= self.0.most.div_ceil(2) {
            return Err(ApiError::TooManyStreams);
        }
        *followed.streams.entry(project.to_owned()).or_default() += 1;
        Ok(Seat { feed: self.clone(), project: project.to_owned() })
    }

    /// Follows a cluster of which everything up to `seen` is known. What was sent before (up to the number that is returned) may be missing
    /// when that is greater.
    pub fn follow(&self, store: &Store, runtime: &tokio::runtime::Handle, cluster: &ClusterId, seen: i64) -> (Following, i64) {
        let (following, last, is_polled) = self.enter(cluster, seen);
        if !is_polled {
            runtime.spawn(poll(self.clone(), store.clone()));
        }
        (following, last)
    }

    /// As [`Self::follow`]; also whether somebody looks for new events already. If not, the caller sees to it.
    fn enter(&self, cluster: &ClusterId, seen: i64) -> (Following, i64, bool) {
        let mut followed = self.lock();
        let entry = followed.clusters.entry(cluster.clone()).or_insert_with(|| Entry {
            sender: broadcast::Sender::new(BEHIND),
            last: seen,
            followers: 0,
        });
        entry.followers += 1;
        let (events, last) = (entry.sender.subscribe(), entry.last);
        let is_polled = std::mem::replace(&mut followed.is_polling, true);
        (Following { feed: self.clone(), cluster: cluster.clone(), events }, last, is_polled)
    }

    fn lock(&self) -> MutexGuard<'_, Followed> {
        self.0.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is followed, and up to where it is known; none when nothing is, and then nobody looks any more.
    fn seen(&self) -> Option<Vec<(ClusterId, i64)>> {
        let mut followed = self.lock();
        if followed.clusters.is_empty() || *self.0.closed.borrow() {
            followed.is_polling = false;
            return None;
        }
        Some(followed.clusters.iter().map(|(id, entry)| (id.clone(), entry.last)).collect())
    }

    /// Hands out what came after the events of these numbers. While it was asked for the entry of a cluster may have become another one, which
    /// has not come as far: what is between it and the answer would be missing for ever. It is asked for anew, from where that entry is.
    fn send(&self, after: &[(ClusterId, i64)], rows: Vec<OperationEvent>) {
        let after: HashMap<&ClusterId, i64> = after.iter().map(|(cluster, last)| (cluster, *last)).collect();
        let mut followed = self.lock();
        for row in rows {
            let cluster = ClusterId::new(row.cluster_uuid.clone());
            let (Some(entry), Some(after)) = (followed.clusters.get_mut(&cluster), after.get(&cluster)) else { continue };
            if entry.last >= *after && row.id > entry.last {
                entry.last = row.id;
                // Nobody listens any more: no matter.
                let _ = entry.sender.send(Arc::new(row));
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut followed = self.feed.lock();
        if let Some(count) = followed.streams.get_mut(&self.project) {
            *count -= 1;
            if *count == 0 {
                followed.streams.remove(&self.project);
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut followed = self.feed.lock();
        if let Some(entry) = followed.clusters.get_mut(&self.cluster) {
            entry.followers -= 1;
            if entry.followers == 0 {
                followed.clusters.remove(&self.cluster);
            }
        }
    }
}

/// Looks for new events until no cluster is followed any more.
async fn poll(feed: Feed, store: Store) {
    let mut is_failing = false;
    loop {
        tokio::time::sleep(POLL).await;
        let Some(seen) = feed.seen() else { return };
        let mut failed = None;
        for part in seen.chunks(event::MOST_FOLLOWED) {
            match store.read(async |conn: &mut Conn| event::news(conn, part, BATCH).await).await {
                // More than a batch: the rest comes with the next look.
                Ok(rows) => feed.send(part, rows),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = &failed
            && !is_failing
        {
            tracing::warn!(%error, "failed to look for new events; streams wait until the database is back");
        }
        is_failing = failed.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_few_and_no_project_has_more_than_half_of_them() {
        let feed = Feed::new(4);
        let mut seats: Vec<Seat> = (0..2).map(|_| feed.sit("a").expect("a seat")).collect();
        assert!(feed.sit("a").is_err());
        seats.extend([feed.sit("b").expect("a seat"), feed.sit("c").expect("a seat")]);
        assert!(feed.sit("d").is_err());
        seats.clear();
        assert!(feed.lock().streams.is_empty());
        assert!(feed.sit("a").is_ok());
        feed.close();
        assert!(feed.sit("a").is_err());
    }

    fn event(cluster: &ClusterId, id: i64) -> OperationEvent {
        OperationEvent {
            id,
            operation_uuid: "o".into(),
            cluster_uuid: cluster.to_string(),
            at_ms: 0,
            kind: "step".into(),
            message: String::new(),
            details: None,
        }
    }

    /// The numbers of what has come.
    fn came(following: &mut Following) -> Vec<i64> {
        std::iter::from_fn(|| following.events.try_recv().ok()).map(|event| event.id).collect()
    }

    /// The last stream of a cluster goes while new events are asked for, and another one comes that has not read as far.
    #[test]
    fn what_was_asked_for_one_follower_is_not_sent_to_another_who_misses_what_is_before_it() {
        let (feed, cluster) = (Feed::new(4), ClusterId::generate());
        let (mut first, last, is_polled) = feed.enter(&cluster, 100);
        assert_eq!((last, is_polled), (100, false));
        let asked = feed.seen().expect("followed");
        assert_eq!(asked, [(cluster.clone(), 100)]);
        feed.send(&asked, vec![event(&cluster, 101)]);
        assert_eq!(came(&mut first), [101]);
        let asked = feed.seen().expect("followed");
        drop(first);
        let (mut second, last, is_polled) = feed.enter(&cluster, 90);
        assert_eq!((last, is_polled), (90, true));
        feed.send(&asked, vec![event(&cluster, 102)]);
        assert!(came(&mut second).is_empty());
        let asked = feed.seen().expect("followed");
        assert_eq!(asked, [(cluster.clone(), 90)]);
        feed.send(&asked, (91..=102).map(|id| event(&cluster, id)).collect());
        assert_eq!(came(&mut second), (91..=102).collect::<Vec<_>>());
        // One that has come further than what was asked for misses nothing of it.
        drop(second);
        let (mut third, ..) = feed.enter(&cluster, 104);
        feed.send(&asked, (103..=106).map(|id| event(&cluster, id)).collect());
        assert_eq!(came(&mut third), [105, 106]);
    }
}
