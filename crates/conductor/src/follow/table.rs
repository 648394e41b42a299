//! Who waits for which stack, and what to ask for next. Told the time; knows no network.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use provider_clients::Session;
use tokio::time::Instant;

use super::interval::{Bounds, jittered, list_after, progress_after};
use super::{Bell, Wake, Watch};
use crate::driver::Listed;
use crate::plan::Seen;

/// Stacks asked for in one request. Heat takes request lines of 50,000 bytes, but what stands in front of it often takes 8,190 (Apache;
/// nginx 8 KiB). With an id of 40 bytes each (`id=`, the uuid, `&`), all other parameters and the path `/v1/<project>/stacks` the line is
/// 7,687 bytes long: 503 are left for a longer path. More than a page of the client (200 items) would make two requests of each list.
pub(super) const BATCH: usize = 190;
/// Sessions kept for a project: one is used, another is there when its trust goes with its cluster.
const SESSIONS: usize = 2;
/// When a stack that is being asked for comes up again if nobody says what became of it.
const UNANSWERED: Duration = Duration::from_secs(60);
/// The longest pause of a project whose listing fails.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// One who waits for one stack.
pub(super) struct Entry {
    project: Arc<str>,
    stack_id: Arc<str>,
    stack_name: Box<str>,
    status: Box<str>,
    changed: Box<str>,
    /// What was told last, see [`Seen::motion`].
    told: u64,
    /// When it began, or was last seen to move.
    quiet_since: Instant,
    idle: u32,
    /// Whether it was told that Heat does not answer.
    is_troubled: bool,
    /// When its place in the lists is due.
    due: Instant,
    progress_due: Instant,
    bell: Arc<Bell>,
}

/// The stacks of one project.
#[derive(Default)]
struct Project {
    /// Each with a number of its own, the newest last.
    sessions: VecDeque<(u64, Session)>,
    due: BTreeSet<(Instant, u64)>,
    progress: BTreeSet<(Instant, u64)>,
    pause: Pause,
}

/// How long listing is left alone after failures.
#[derive(Default)]
struct Pause {
    failures: u32,
    until: Option<Instant>,
}

/// Everybody who waits.
pub(super) struct Table {
    bounds: Bounds,
    /// Stacks in a request: [`BATCH`], or fewer once somebody in front of Heat has found an address too long.
    batch: usize,
    entries: HashMap<u64, Entry>,
    by_stack: HashMap<Arc<str>, u64>,
    projects: BTreeMap<Arc<str>, Project>,
    /// Of the listing of all projects together.
    pause: Pause,
    next_key: u64,
}

/// A list request to be sent.
pub(super) struct ListJob {
    /// None: of all projects.
    pub project: Option<Arc<str>>,
    /// None: the service's own.
    pub session: Option<(u64, Session)>,
    pub keys: Vec<u64>,
    pub ids: Vec<String>,
}

/// Resources to be counted.
pub(super) struct ProgressJob {
    pub key: u64,
    pub project: Arc<str>,
    pub session: (u64, Session),
    pub stack_id: String,
    pub stack_name: String,
    pub status: String,
}

/// What is next.
pub(super) enum Next {
    List(ListJob),
    Progress(ProgressJob),
}

/// Why a listing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListFailure {
    /// Heat or Keystone is in trouble: later.
    Trouble,
    /// This session may not, or no longer: another one.
    Refused,
    /// The address is too long for somebody on the way: fewer stacks at once.
    TooLong,
}

impl Table {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            batch: BATCH,
            entries: HashMap::new(),
            by_stack: HashMap::new(),
            projects: BTreeMap::new(),
            pause: Pause::default(),
            next_key: 0,
        }
    }

    /// Requests per second that it takes to list every stack once in the longest interval, all requests being full. Small projects that are
    /// listed by themselves fill none, and wait longer: Heat is no larger for having its stacks in many of them.
    pub fn needed(&self) -> f64 {
        self.entries.len() as f64 / self.batch as f64 / self.bounds.max.max(self.bounds.min).as_secs_f64()
    }

    pub fn add(&mut self, watch: Watch, bell: &Arc<Bell>, now: Instant) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        let project =
            self.projects.get_key_value(watch.project.as_str()).map_or_else(|| Arc::from(watch.project), |(known, _)| known.clone());
        let place = self.projects.entry(project.clone()).or_default();
        if place.sessions.is_empty() {
            place.pause = Pause::default();
        }
        place.sessions.push_back((key, watch.session));
        if place.sessions.len() > SESSIONS {
            place.sessions.pop_front();
        }
        let stack_id: Arc<str> = Arc::from(watch.seen.stack_id.as_str());
        let told = watch.seen.motion();
        let entry = Entry {
            project,
            stack_id: stack_id.clone(),
            stack_name: watch.seen.stack_name.into(),
            status: watch.seen.status.into(),
            changed: watch.seen.changed.into(),
            told,
            quiet_since: now.checked_sub(watch.age).unwrap_or(now),
            idle: watch.idle,
            is_troubled: false,
            due: now + jittered(list_after(self.bounds, watch.age, watch.idle), model::random::range(0.0..1.0)),
            // One whose resources were not counted yet is counted soon.
            progress_due: now + if watch.seen.total == 0 { self.bounds.min } else { progress_after(self.bounds, watch.age) },
            bell: bell.clone(),
        };
        place.due.insert((entry.due, key));
        place.progress.insert((entry.progress_due, key));
        self.by_stack.insert(stack_id, key);
        self.entries.insert(key, entry);
        key
    }

    pub fn remove(&mut self, key: u64) {
        let Some(entry) = self.entries.remove(&key) else { return };
        if self.by_stack.get(&entry.stack_id) == Some(&key) {
            self.by_stack.remove(&entry.stack_id);
        }
        if let Some(project) = self.projects.get_mut(&entry.project) {
            project.due.remove(&(entry.due, key));
            project.progress.remove(&(entry.progress_due, key));
            if project.due.is_empty() {
                self.projects.remove(&entry.project);
            }
        }
    }

    /// Makes a stack due; false when nobody waits for it.
    pub fn hasten(&mut self, stack_id: &str, now: Instant) -> bool {
        let Some(key) = self.by_stack.get(stack_id).copied() else { return false };
        self.put_off(key, now);
        true
    }

    /// What to do now, if anything; lists go first. `all` lists the stacks of all projects together.
    pub fn next(&mut self, now: Instant, all: bool) -> Option<Next> {
        let list = if all { self.next_of_all(now) } else { self.next_of_a_project(now) };
        list.map(Next::List).or_else(|| self.next_progress(now).map(Next::Progress))
    }

    fn next_of_all(&mut self, now: Instant) -> Option<ListJob> {
        if self.pause.until.is_some_and(|until| until > now) {
            return None;
        }
        self.projects.values().any(|p| p.due.first().is_some_and(|(due, _)| *due <= now)).then_some(())?;
        let batch = self.batch;
        let mut soonest: Vec<(Instant, u64)> = self.projects.values().flat_map(|p| p.soonest(now, batch)).collect();
        soonest.sort_unstable();
        soonest.truncate(batch);
        Some(self.list(None, None, soonest.into_iter().map(|(_, key)| key).collect(), now))
    }

    fn next_of_a_project(&mut self, now: Instant) -> Option<ListJob> {
        loop {
            let ready = self.projects.iter().filter_map(|(name, project)| Some((project.ready_at()?, name)));
            let (at, name) = ready.min_by_key(|(at, _)| *at)?;
            if at > now {
                return None;
            }
            let name = name.clone();
            let project = self.projects.get_mut(&name)?;
            let keys: Vec<u64> = project.soonest(now, self.batch).map(|(_, key)| key).collect();
            if let Some(session) = project.sessions.back().cloned() {
                return Some(self.list(Some(name), Some(session), keys, now));
            }
            // Nobody can list: one looks for himself, and comes back with a session if he can.
            let first = *keys.first()?;
            self.wake(first, now);
            self.projects.get_mut(&name)?.pause.until = Some(now + self.bounds.min);
        }
    }

    fn list(&mut self, project: Option<Arc<str>>, session: Option<(u64, Session)>, keys: Vec<u64>, now: Instant) -> ListJob {
        let ids = keys.iter().filter_map(|key| self.entries.get(key)).map(|entry| entry.stack_id.to_string()).collect();
        for key in &keys {
            self.put_off(*key, now + UNANSWERED);
        }
        ListJob { project, session, keys, ids }
    }

    fn next_progress(&mut self, now: Instant) -> Option<ProgressJob> {
        let able = self.projects.values().filter(|p| !p.sessions.is_empty() && p.pause.until.is_none_or(|at| at <= now));
        let (due, key) = able.filter_map(|p| p.progress.first().copied()).min()?;
        if due > now {
            return None;
        }
        let entry = self.entries.get_mut(&key)?;
        let project = self.projects.get_mut(&entry.project)?;
        project.progress.remove(&(due, key));
        let quiet = now.saturating_duration_since(entry.quiet_since);
        entry.progress_due = now + jittered(progress_after(self.bounds, quiet), model::random::range(0.0..1.0));
        project.progress.insert((entry.progress_due, key));
        Some(ProgressJob {
            key,
            project: entry.project.clone(),
            session: project.sessions.back().cloned()?,
            stack_id: entry.stack_id.to_string(),
            stack_name: entry.stack_name.to_string(),
            status: entry.status.to_string(),
        })
    }

    /// When there is something to do at the earliest.
    pub fn next_moment(&self, all: bool) -> Option<Instant> {
        let first = |p: &Project| p.due.first().map(|(due, _)| *due);
        let lists = self.projects.values().filter_map(|p| if all { self.pause.end(first(p)?) } else { p.ready_at() });
        let able = self.projects.values().filter(|p| !p.sessions.is_empty());
        let progress = able.filter_map(|p| p.pause.end(p.progress.first()?.0));
        lists.chain(progress).min()
    }

    /// A listing was answered: whoever asked for a stack that has moved, or is not in it, is woken.
    pub fn listed(&mut self, job: &ListJob, stacks: &[Listed], now: Instant) {
        if let Some(pause) = self.pause_of(job) {
            *pause = Pause::default();
        }
        let stacks: HashMap<&str, &Listed> = stacks.iter().map(|stack| (stack.stack_id.as_str(), stack)).collect();
        for key in &job.keys {
            let Some(entry) = self.entries.get_mut(key) else { continue };
            entry.is_troubled = false;
            let same = stacks.get(&*entry.stack_id).is_some_and(|s| *s.status == *entry.status && *s.changed == *entry.changed);
            if same {
                let quiet = now.saturating_duration_since(entry.quiet_since);
                let idle = entry.idle;
                self.put_off(*key, now + jittered(list_after(self.bounds, quiet, idle), model::random::range(0.0..1.0)));
            } else {
                self.wake(*key, now);
            }
        }
    }

    /// A listing failed; what it asked for is asked for again, later or with another session.
    pub fn not_listed(&mut self, job: &ListJob, why: ListFailure, reason: &str, now: Instant) {
        for key in &job.keys {
            self.put_off(*key, now);
        }
        let least = self.bounds.min;
        let mut lasts = false;
        match (why, &job.project, &job.session) {
            (ListFailure::Refused, Some(project), Some((number, _))) => self.forget_session(project, *number),
            // Several as long as this one may be under way: together they halve it once.
            (ListFailure::TooLong, ..) if job.ids.len() > 1 => self.batch = self.batch.min(job.ids.len() / 2),
            _ => {
                if let Some(pause) = self.pause_of(job) {
                    pause.failures += 1;
                    let length = least.saturating_mul(2u32.saturating_pow(pause.failures.min(16))).min(MAX_BACKOFF);
                    pause.until = Some(now + jittered(length, model::random::range(0.0..1.0)));
                    lasts = pause.failures > 1;
                }
            }
        }
        if lasts {
            let reason: Arc<str> = Arc::from(reason);
            for key in &job.keys {
                let Some(entry) = self.entries.get_mut(key).filter(|entry| !entry.is_troubled) else { continue };
                entry.is_troubled = true;
                // What was told last is covered up by this.
                entry.told = 0;
                entry.bell.ring(Wake::Trouble(reason.clone()));
            }
        }
    }

    fn pause_of(&mut self, job: &ListJob) -> Option<&mut Pause> {
        match &job.project {
            Some(name) => self.projects.get_mut(name).map(|project| &mut project.pause),
            None => Some(&mut self.pause),
        }
    }

    fn forget_session(&mut self, project: &Arc<str>, number: u64) {
        if let Some(project) = self.projects.get_mut(project) {
            project.sessions.retain(|(known, _)| *known != number);
        }
    }

    /// Resources were counted: who waits is told when something has moved.
    pub fn counted(&mut self, key: u64, seen: Seen, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let motion = seen.motion();
        if entry.told == motion {
            return;
        }
        entry.told = motion;
        entry.bell.ring(Wake::Progress(Box::new(seen)));
        let due = now + jittered(list_after(self.bounds, Duration::ZERO, entry.idle), model::random::range(0.0..1.0));
        // What moves will end sooner than what is stuck: it counts as half as old.
        entry.quiet_since += now.saturating_duration_since(entry.quiet_since) / 2;
        if due < entry.due {
            self.put_off(key, due);
        }
    }

    /// Resources could not be counted: who waits looks for himself, and says what is wrong.
    pub fn not_counted(&mut self, job: &ProgressJob, why: ListFailure, now: Instant) {
        match why {
            ListFailure::Trouble | ListFailure::TooLong => self.wake(job.key, now),
            ListFailure::Refused => self.forget_session(&job.project, job.session.0),
        }
    }

    fn wake(&mut self, key: u64, now: Instant) {
        if let Some(entry) = self.entries.get(&key) {
            entry.bell.ring(Wake::Look);
            // Whoever was woken gives up his place; if he does not live to do that, the place is found again.
            self.put_off(key, now + UNANSWERED);
        }
    }

    fn put_off(&mut self, key: u64, due: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(project) = self.projects.get_mut(&entry.project) {
            project.due.remove(&(entry.due, key));
            project.due.insert((due, key));
        }
        entry.due = due;
    }
}

impl Project {
    /// What goes into the next request: what is due, and what soon will be, for a line more in a list costs nothing. What is being asked
    /// for is left out.
    fn soonest(&self, now: Instant, batch: usize) -> impl Iterator<Item = (Instant, u64)> + '_ {
        self.due.iter().take_while(move |(due, _)| *due < now + UNANSWERED / 2).take(batch).copied()
    }

    /// When its first stack may be asked for.
    fn ready_at(&self) -> Option<Instant> {
        self.pause.end(self.due.first()?.0)
    }
}

impl Pause {
    /// The moment, or the end of the pause where that is later.
    fn end(&self, moment: Instant) -> Option<Instant> {
        Some(self.until.map_or(moment, |until| until.max(moment)))
    }
}

#[cfg(test)]
mod tests;
