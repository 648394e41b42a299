//! News of the management cluster: who waits for a cluster hears when an object of it has changed.
//!
//! A conductor has one watch for each kind, however many clusters there are. Of what the watches tell nothing is kept: the label of an object
//! says which release it belongs to, and whoever waits for that release is woken. Only those who wait are in the table, from before their
//! look until they are woken, so that nothing is missed between the two.
//!
//! News wakes somebody and decides nothing: whoever is woken looks. As long as a watch is not up, those who wait look by themselves as if
//! there were none. A watch that breaks goes on from the version that it had come to; only where that is forgotten (410), or nothing was
//! known before, may something have been missed, and then all who wait are woken, one after the other.
//!
//! A cluster that was found well and of which nothing was heard since is well: looks at health cost nothing then.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provider_clients::{Change, CloudError, KubeKind, Management, WatchLimits};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Kinds;
use super::door::Door;
use super::seen::RELEASE;

/// For so long the server is asked to keep a watch open: between the half of it and all of it, so that watches do not end together.
const LASTS: Duration = Duration::from_secs(600);
/// The longest pause after a watch that broke, and after one that is not to be had.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The first pause.
const MIN_PAUSE: Duration = Duration::from_millis(250);
/// One that has lasted so long was a good one.
const LONG: Duration = Duration::from_secs(5);
/// A kind that the management cluster does not have may come with its provider.
const ABSENT: Duration = Duration::from_secs(60);
/// Clusters that are known to be well at most; the others are looked at.
const MOST_WELL: usize = 50_000;
/// Between two of those who are woken because something may have been missed.
const SPREAD: Duration = Duration::from_millis(20);

/// Whom a cluster's objects belong to: namespace and release.
type Place = (String, String);

/// What is heard of one management cluster.
#[derive(Debug)]
pub struct News {
    topics: Mutex<HashMap<Place, watch::Sender<u64>>>,
    /// Clusters that were found well, since when, and nothing was heard of since.
    well: Mutex<HashMap<Place, Instant>>,
    /// All who wait are to look.
    missed: Notify,
    /// Watches that are to be and are not up.
    missing: AtomicUsize,
    /// Whether everything that happens is heard.
    is_live: watch::Sender<bool>,
    /// A watch that says nothing for so long is taken for broken.
    silence: Duration,
    /// Who hears of every change looks all the same after this.
    resync: Duration,
}

/// Somebody who waits for news of one release. Dropping it gives the place up.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    news: Arc<News>,
    place: Place,
    heard: watch::Receiver<u64>,
    is_live: watch::Receiver<bool>,
}

impl News {
    /// Nothing is heard before watches run. `silence`: without a word for so long a watch is begun anew; `resync`: the slow look of those
    /// who hear of everything.
    pub fn new(silence: Duration, resync: Duration) -> Self {
        Self {
            topics: Mutex::default(),
            well: Mutex::default(),
            missed: Notify::new(),
            missing: AtomicUsize::new(0),
            is_live: watch::channel(false).0,
            silence,
            resync,
        }
    }

    /// To be asked for before a look: what changes after that look is heard.
    pub(super) fn listen(self: &Arc<Self>, namespace: &str, release: &str) -> Listening {
        let place = (namespace.to_owned(), release.to_owned());
        let heard = self.topics().entry(place.clone()).or_insert_with(|| watch::channel(0).0).subscribe();
        Listening { news: self.clone(), place, heard, is_live: self.is_live.subscribe() }
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<Place, watch::Sender<u64>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever waits for the release that an object belongs to.
    fn changed(&self, object: &Value) {
        let metadata = &object["metadata"];
        let (Some(namespace), Some(release)) = (metadata["namespace"].as_str(), metadata["labels"][RELEASE].as_str()) else { return };
        let place = (namespace.to_owned(), release.to_owned());
        self.well().remove(&place);
        self.wake(&place);
    }

    fn well(&self) -> MutexGuard<'_, HashMap<Place, Instant>> {
        self.well.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look at this release begins. It counts from now on if it finds it well: what is heard during the look counts so.
    pub(super) fn looks(&self, namespace: &str, release: &str) -> Looking<'_> {
        let place = (namespace.to_owned(), release.to_owned());
        let mut well = self.well();
        let now = Instant::now();
        if well.len() >= MOST_WELL {
            well.retain(|_, since| now - *since < self.resync);
        }
        if well.len() < MOST_WELL {
            well.insert(place.clone(), now);
        }
        Looking { news: self, place, found_well: false }
    }

    /// Whether the last look found it well, not too long ago, and nothing of it has changed since.
    pub(super) fn is_still_well(&self, namespace: &str, release: &str) -> bool {
        let known = self.well().get(&(namespace.to_owned(), release.to_owned())).copied();
        *self.is_live.borrow() && known.is_some_and(|since| since.elapsed() < self.resync)
    }

    fn wake(&self, place: &Place) {
        if let Some(topic) = self.topics().get(place) {
            topic.send_modify(|count| *count += 1);
        }
    }

    /// Something may have been missed.
    fn missed(&self) {
        self.well().clear();
        self.missed.notify_one();
    }

    /// All who wait at this moment look, but not at once.
    async fn wake_all(&self) {
        let waiting: Vec<Place> = self.topics().keys().cloned().collect();
        for place in waiting {
            self.wake(&place);
            tokio::time::sleep(SPREAD).await;
        }
    }

    /// Watches that are to be and are not up.
    pub(crate) fn missing(&self) -> usize {
        self.missing.load(Ordering::SeqCst)
    }

    /// So many watches are to be; none of them is up.
    fn expect(&self, watches: usize) {
        self.missing.store(watches, Ordering::SeqCst);
        self.tell_whether_live();
    }

    /// The count is read under the channel's lock: of two who change it at once the later one tells what both have left.
    fn tell_whether_live(&self) {
        self.is_live.send_if_modified(|live| {
            let now = self.missing.load(Ordering::SeqCst) == 0;
            std::mem::replace(live, now) != now
        });
    }

    fn is_up(&self) {
        self.missing.fetch_sub(1, Ordering::SeqCst);
        self.tell_whether_live();
    }

    fn is_down(&self) {
        self.missing.fetch_add(1, Ordering::SeqCst);
        self.tell_whether_live();
    }
}

/// A look under way. One that is dropped before it found the cluster well, also because it took too long, counts for nothing.
#[must_use]
pub(super) struct Looking<'a> {
    news: &'a News,
    place: Place,
    found_well: bool,
}

impl Looking<'_> {
    /// It has, and what was heard meanwhile is heeded.
    pub(super) fn found_well(mut self) {
        self.found_well = true;
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        if !self.found_well {
            self.news.well().remove(&self.place);
        }
    }
}

impl Listening {
    /// Waits until something has changed. While nobody can tell, as long as `poll`, and never longer than the slow look's interval.
    pub(crate) async fn woken(&mut self, poll: Duration) {
        let begun = Instant::now();
        let mut is_live = *self.is_live.borrow_and_update();
        let mut deaf_since = begun;
        loop {
            // A watch that is soon up again costs nobody a look: it tells what happened meanwhile.
            let until = if is_live { begun + self.news.resync.max(poll) } else { deaf_since + poll };
            tokio::select! {
                biased;
                // Neither sender goes before the place is given up.
                _ = self.heard.changed() => return,
                _ = self.is_live.changed() => {
                    is_live = *self.is_live.borrow_and_update();
                    deaf_since = Instant::now();
                }
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut topics = self.news.topics();
        if topics.get(&self.place).is_some_and(|topic| topic.receiver_count() <= 1) {
            topics.remove(&self.place);
        }
    }
}

/// Watches one management cluster until `stop`; anew whenever its kubeconfig has changed.
pub(crate) async fn run(door: Arc<Door>, kinds: Kinds, stop: CancellationToken) {
    let mut source = door.management.clone();
    loop {
        let management = source.borrow_and_update().clone();
        let kinds = kinds.all();
        door.news.expect(kinds.len());
        let mut watches = JoinSet::new();
        if let Ok(management) = management {
            let news = door.news.clone();
            watches.spawn(async move {
                loop {
                    news.missed.notified().await;
                    news.wake_all().await;
                }
            });
            for kind in kinds {
                watches.spawn(keep_watching(door.clone(), management.clone(), kind.clone()));
            }
        }
        let is_over = tokio::select! {
            biased;
            () = stop.cancelled() => true,
            changed = source.changed() => changed.is_err(),
        };
        watches.shutdown().await;
        if is_over {
            return;
        }
    }
}

/// Counts a watch as up, as long as it lives.
struct Up<'a>(&'a News);

impl<'a> Up<'a> {
    fn new(news: &'a News) -> Self {
        news.is_up();
        Self(news)
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        self.0.is_down();
    }
}

/// How a row of watches on one kind stands.
#[derive(Default)]
struct State {
    /// The version to go on from; none: from now on.
    version: Option<String>,
    failures: u32,
}

async fn keep_watching(door: Arc<Door>, management: Management, kind: KubeKind) {
    let mut state = State::default();
    let cluster = &door.cluster.name;
    loop {
        let begun = Instant::now();
        let Err(error) = watch_on(&door.news, &management, &kind, &mut state).await;
        if begun.elapsed() >= LONG {
            state.failures = 0;
        }
        state.failures = state.failures.saturating_add(1);
        // A kind that is gone is asked for by a list, as one that never was.
        if error.is_expired() || error.is_not_found() {
            state.version = None;
            // Asked for anew at once, once.
            if state.failures == 1 {
                continue;
            }
        }
        // The first one is the ordinary end of a connection; more of them in a row are worth knowing.
        if state.failures == 2 {
            let text = "A kind of the management cluster cannot be watched; clusters are looked at in intervals";
            tracing::warn!(management_cluster = cluster, kind = kind.plural, %error, "{text}");
        } else {
            let failures = state.failures;
            tracing::debug!(management_cluster = cluster, kind = kind.plural, %error, failures, "a watch of the management cluster broke");
        }
        tokio::time::sleep(pause(state.failures)).await;
    }
}

/// Before the next watch, after so many in a row that came to nothing.
fn pause(failures: u32) -> Duration {
    let longest = MIN_PAUSE.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1).min(8))).min(MAX_PAUSE);
    longest.mul_f64(model::random::range(0.5..1.0))
}

/// One watch after the other, each from where the last has come to, as long as the server ends them in order.
async fn watch_on(news: &News, management: &Management, kind: &KubeKind, state: &mut State) -> Result<Infallible, CloudError> {
    let is_new = state.version.is_none();
    let mut version = match &state.version {
        Some(version) => version.clone(),
        None => begin(news, management, kind).await?,
    };
    let limits = || WatchLimits { lasts: LASTS.mul_f64(model::random::range(0.5..1.0)), silence: news.silence };
    let mut watched = management.watch(kind, RELEASE, &version, limits()).await?;
    state.version = Some(version.clone());
    let _up = Up::new(news);
    if is_new {
        // Between what was known before and that version anything may have happened.
        news.missed();
    }
    let mut short = 0;
    loop {
        let begun = Instant::now();
        while let Some(change) = next(&mut watched, state).await? {
            if let Change::Object(object) = &change {
                news.changed(object);
            }
        }
        // A server that ends each at once must not be asked in a circle.
        short = if begun.elapsed() < LONG { short + 1 } else { 0 };
        if short > 1 {
            tokio::time::sleep(pause(short)).await;
        }
        watched.version().clone_into(&mut version);
        watched = management.watch(kind, RELEASE, &version, limits()).await?;
    }
}

/// The next change, with the version noted that a later watch goes on from.
async fn next(watched: &mut provider_clients::Watched, state: &mut State) -> Result<Option<Change>, CloudError> {
    let change = watched.next().await?;
    state.failures = 0;
    state.version = Some(watched.version().to_owned());
    Ok(change)
}

/// The version to begin at, once there is such a kind: nothing is ever missed of one that there is not.
async fn begin(news: &News, management: &Management, kind: &KubeKind) -> Result<String, CloudError> {
    let mut absent = None;
    loop {
        if let Some(version) = management.version("watch_list", kind, RELEASE).await? {
            return Ok(version);
        }
        absent.get_or_insert_with(|| Up::new(news));
        tokio::time::sleep(ABSENT).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POLL: Duration = Duration::from_secs(3);
    const RESYNC: Duration = Duration::from_secs(600);

    fn news() -> Arc<News> {
        Arc::new(News::new(Duration::from_secs(90), RESYNC))
    }

    fn object(release: &str) -> Value {
        json!({"metadata": {"namespace": "n", "labels": {RELEASE: release}}})
    }

    async fn waits(listening: &mut Listening) -> Duration {
        let begun = Instant::now();
        listening.woken(POLL).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_asked_before_a_change_hears_of_it_and_of_no_other() {
        let news = news();
        news.expect(1);
        news.is_up();
        let (mut mine, mut other) = (news.listen("n", "blue"), news.listen("n", "green"));
        news.changed(&object("blue"));
        news.changed(&json!({"metadata": {}}));
        assert_eq!((waits(&mut mine).await, waits(&mut other).await), (Duration::ZERO, RESYNC));
        // What came before is not heard again by who asks anew.
        drop(mine);
        assert_eq!(waits(&mut news.listen("n", "blue")).await, RESYNC);
        // All who wait hear that something may have been missed, and nobody is kept who waits no more.
        let mut mine = news.listen("n", "blue");
        news.wake_all().await;
        assert_eq!(waits(&mut mine).await, Duration::ZERO);
        drop((mine, other));
        assert!(news.topics().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_looks_by_himself_as_long_as_a_watch_is_not_up() {
        let news = news();
        news.expect(2);
        let mut mine = news.listen("n", "blue");
        news.is_up();
        assert_eq!(waits(&mut mine).await, POLL);
        let second = Up::new(&news);
        assert_eq!(waits(&mut mine).await, RESYNC);
        // One that goes down while somebody waits: from then on he looks as often as if there were none.
        let goes = async {
            tokio::time::sleep(POLL * 2).await;
            drop(second);
        };
        assert_eq!(futures::join!(waits(&mut mine), goes).0, POLL * 3);
        // One that is soon up again costs nobody a look.
        let third = Up::new(&news);
        let comes_back = async {
            tokio::time::sleep(POLL * 2).await;
            drop(third);
            tokio::time::sleep(POLL / 2).await;
            Up::new(&news)
        };
        assert_eq!(futures::join!(waits(&mut mine), comes_back).0, RESYNC);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_well_is_so_until_something_is_heard_or_may_have_been_missed() {
        let news = news();
        news.expect(1);
        let is_well = |news: &News| news.is_still_well("n", "blue");
        news.looks("n", "blue").found_well();
        assert!(!is_well(&news), "nobody would tell");
        news.is_up();
        assert!(is_well(&news));
        news.changed(&object("green"));
        assert!(is_well(&news));
        news.changed(&object("blue"));
        assert!(!is_well(&news));
        news.looks("n", "blue").found_well();
        news.missed();
        assert!(!is_well(&news));
        // One that found it ill, or came to no end.
        drop(news.looks("n", "blue"));
        assert!(!is_well(&news));
        // What is heard during a look counts.
        let looking = news.looks("n", "blue");
        news.changed(&object("blue"));
        looking.found_well();
        assert!(!is_well(&news));
        news.looks("n", "blue").found_well();
        tokio::time::advance(RESYNC).await;
        assert!(!is_well(&news));
    }
}
