//! Who waits for which stack, and what to ask for next. Told the time; knows no network.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use provider_clients::Session;
use tokio::time::Instant;

use super::announced::Announced;
use super::batch::{BATCH, Batch, FLOOR};
use super::interval::{Bounds, jittered, list_after, progress_after};
use super::jobs::{ListFailure, ListJob, Next, ProgressJob};
use super::pause::Pause;
use super::{Bell, Wake, Watch};
use crate::driver::Listed;
use crate::plan::Seen;

/// Sessions kept for a project: one is used, another is there when its trust goes with its cluster.
const SESSIONS: usize = 2;
/// When a stack that is being asked for comes up again if nobody says what became of it.
const UNANSWERED: Duration = Duration::from_secs(60);
/// From so many failures in a row on, some of those who wait look for themselves each time: what the lists do not tell may be found.
const SEVERAL: u32 = 5;
/// After so many times, everybody has looked; later where that would be more than [`BATCH`] each time.
const ROUND: usize = 20;
/// So many at least look each time.
const FEW: usize = 3;
/// Longer than anybody is overdue: what was announced is asked for before all that is due already.
const AHEAD: Duration = Duration::from_secs(600);

fn ahead(now: Instant) -> Instant {
    now.checked_sub(AHEAD).unwrap_or(now)
}

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
    /// When it began, was last in a list, or was last woken.
    heard: Instant,
    idle: u32,
    /// Whether it was told that Heat does not answer.
    is_troubled: bool,
    /// Whether it was announced since a list was last sent that asks for it.
    is_hastened: bool,
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

/// Everybody who waits.
pub(super) struct Table {
    bounds: Bounds,
    /// Stacks in a request.
    batch: Batch,
    /// Boxed: of its places such a map keeps up to half free.
    entries: HashMap<u64, Box<Entry>>,
    by_stack: HashMap<Arc<str>, u64>,
    projects: BTreeMap<Arc<str>, Project>,
    /// Of the listing of all projects together.
    pause: Pause,
    announced: Announced,
    next_key: u64,
}

impl Table {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            batch: Batch::new(),
            entries: HashMap::new(),
            by_stack: HashMap::new(),
            projects: BTreeMap::new(),
            pause: Pause::default(),
            announced: Announced::default(),
            next_key: 0,
        }
    }

    /// Requests per second that it takes to list every stack once in the longest interval, all requests being full. Small projects that are
    /// listed by themselves fill none, and wait longer: Heat is no larger for having its stacks in many of them.
    pub fn needed(&self) -> f64 {
        self.entries.len() as f64 / self.batch.size() as f64 / self.bounds.max.max(self.bounds.min).as_secs_f64()
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
        // What was announced after the look that it comes with, perhaps.
        let is_announced = self.announced.take(&stack_id, now);
        let usual = jittered(list_after(self.bounds, watch.age, watch.idle), model::random::range(0.0..1.0));
        let entry = Entry {
            project,
            stack_id: stack_id.clone(),
            stack_name: watch.seen.stack_name.into(),
            status: watch.seen.status.into(),
            changed: watch.seen.changed.into(),
            told,
            quiet_since: now.checked_sub(watch.age).unwrap_or(now),
            heard: now,
            idle: watch.idle,
            is_troubled: false,
            is_hastened: false,
            due: if is_announced { ahead(now) } else { now + usual },
            // One whose resources were not counted yet is counted soon.
            progress_due: now + if watch.seen.total == 0 { self.bounds.min } else { progress_after(self.bounds, watch.age) },
            bell: bell.clone(),
        };
        place.due.insert((entry.due, key));
        place.progress.insert((entry.progress_due, key));
        self.by_stack.insert(stack_id, key);
        self.entries.insert(key, Box::new(entry));
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

    /// Makes a stack due that was announced; false when nobody waits for it yet.
    pub fn hasten(&mut self, stack_id: &str, now: Instant) -> bool {
        // Whoever waits for it may be looking at this moment, and register what he saw before.
        self.announced.note(stack_id, now);
        let Some(key) = self.by_stack.get(stack_id).copied() else { return false };
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.is_hastened = true;
        }
        self.put_off(key, ahead(now));
        true
    }

    /// Whoever was woken has looked, and Heat has not answered: he waits on.
    pub fn again(&mut self, key: u64, now: Instant) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        // What was told last is covered up by what went wrong.
        entry.told = 0;
        self.put_off(key, now);
    }

    /// What to do now, if anything; lists go first, and with `counts` progress is counted where none is due. `all` lists the stacks of all
    /// projects together.
    pub fn next(&mut self, now: Instant, all: bool, counts: bool) -> Option<Next> {
        let list = if all { self.next_of_all(now) } else { self.next_of_a_project(now) };
        let progress = if list.is_none() && counts { self.next_progress(now) } else { None };
        list.map(Next::List).or(progress.map(Next::Progress))
    }

    fn next_of_all(&mut self, now: Instant) -> Option<ListJob> {
        if !self.pause.is_over(now) {
            return None;
        }
        self.projects.values().any(|p| p.due.first().is_some_and(|(due, _)| *due <= now)).then_some(())?;
        let batch = self.pause.batch(self.batch.size());
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
            let keys: Vec<u64> = project.soonest(now, project.pause.batch(self.batch.size())).map(|(_, key)| key).collect();
            if let Some(session) = project.sessions.back().cloned() {
                return Some(self.list(Some(name), Some(session), keys, now));
            }
            // Nobody can list: one looks for himself, and comes back with a session if he can.
            let first = *keys.first()?;
            self.wake(first, Wake::Look, now);
            self.projects.get_mut(&name)?.pause.rest(now + self.bounds.min);
        }
    }

    fn list(&mut self, project: Option<Arc<str>>, session: Option<(u64, Session)>, keys: Vec<u64>, now: Instant) -> ListJob {
        let ids = keys.iter().filter_map(|key| self.entries.get(key)).map(|entry| entry.stack_id.to_string()).collect();
        for key in &keys {
            if let Some(entry) = self.entries.get_mut(key) {
                entry.is_hastened = false;
            }
            self.put_off(*key, now + UNANSWERED);
        }
        ListJob { project, session, keys, ids, at: now }
    }

    fn next_progress(&mut self, now: Instant) -> Option<ProgressJob> {
        let able = self.projects.values().filter(|p| !p.sessions.is_empty() && p.pause.is_over(now));
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

    /// When there is something to do at the earliest, see [`Self::next`].
    pub fn next_moment(&self, all: bool, counts: bool) -> Option<Instant> {
        let first = |p: &Project| p.due.first().map(|(due, _)| *due);
        let lists = self.projects.values().filter_map(|p| if all { Some(self.pause.end(first(p)?)) } else { p.ready_at() });
        let able = self.projects.values().filter(|p| counts && !p.sessions.is_empty());
        let progress = able.filter_map(|p| Some(p.pause.end(p.progress.first()?.0)));
        lists.chain(progress).min()
    }

    /// A listing was answered: whoever asked for a stack that has moved, or is not in it, is woken.
    pub fn listed(&mut self, job: &ListJob, stacks: &[Listed], now: Instant) {
        match self.pause_of(job).and_then(|pause| pause.did_well(job.ids.len())) {
            Some(too_many) => self.batch.too_long(too_many, now),
            None => self.batch.did_well(job.ids.len(), now),
        }
        let stacks: HashMap<&str, &Listed> = stacks.iter().map(|stack| (stack.stack_id.as_str(), stack)).collect();
        for key in &job.keys {
            let Some(entry) = self.entries.get_mut(key) else { continue };
            (entry.is_troubled, entry.heard) = (false, now);
            let same = stacks.get(&*entry.stack_id).is_some_and(|s| *s.status == *entry.status && *s.changed == *entry.changed);
            if !same {
                self.wake(*key, Wake::Moved, now);
                continue;
            }
            // One that is right is a reason to believe the next.
            entry.idle = entry.idle.saturating_sub(1);
            // What was announced may have ended after this was sent: it stays due, and the next list tells.
            if !entry.is_hastened {
                let after = list_after(self.bounds, now.saturating_duration_since(entry.quiet_since), entry.idle);
                self.put_off(*key, now + jittered(after, model::random::range(0.0..1.0)));
            }
        }
    }

    /// A listing failed; what it asked for is asked for again, later or with another session.
    pub fn not_listed(&mut self, job: &ListJob, why: ListFailure, reason: &str, now: Instant) {
        for key in &job.keys {
            self.put_off(*key, now);
        }
        match (why, &job.project, &job.session) {
            (ListFailure::Refused, Some(project), Some((number, _))) => self.forget_session(project, *number),
            (ListFailure::TooLong, ..) if job.ids.len() > FLOOR => self.batch.too_long(job.ids.len(), now),
            _ => self.trouble(job, reason, now),
        }
    }

    fn trouble(&mut self, job: &ListJob, reason: &str, now: Instant) {
        let least = self.bounds.min;
        let counted = self.pause_of(job).map(|pause| pause.failed(job.ids.len(), job.at, least, now));
        let Some(counted) = counted.filter(|counted| counted.in_a_row > 1) else { return };
        let reason: Arc<str> = Arc::from(reason);
        for key in &job.keys {
            let Some(entry) = self.entries.get_mut(key).filter(|entry| !entry.is_troubled) else { continue };
            entry.is_troubled = true;
            // What was told last is covered up by this.
            entry.told = 0;
            entry.bell.ring(Wake::Trouble(reason.clone()));
        }
        if counted.is_new && counted.in_a_row >= SEVERAL {
            self.wake_some(job.project.as_ref(), now);
        }
    }

    /// Wakes a part of a group: those of whom nothing was heard for longest.
    fn wake_some(&mut self, project: Option<&Arc<str>>, now: Instant) {
        let of_group = self.entries.iter().filter(|(_, entry)| project.is_none_or(|project| *project == entry.project));
        let mut waiting: Vec<(Instant, u64)> = of_group.map(|(key, entry)| (entry.heard, *key)).collect();
        waiting.sort_unstable();
        let some = (waiting.len() / ROUND).clamp(FEW, BATCH);
        for (_, key) in waiting.into_iter().take(some) {
            self.wake(key, Wake::Look, now);
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
        (entry.told, entry.idle) = (motion, 0);
        entry.bell.ring(Wake::Progress(Box::new(seen)));
        let due = now + jittered(list_after(self.bounds, Duration::ZERO, 0), model::random::range(0.0..1.0));
        // What moves will end sooner than what is stuck: it counts as half as old.
        entry.quiet_since += now.saturating_duration_since(entry.quiet_since) / 2;
        if due < entry.due {
            self.put_off(key, due);
        }
    }

    /// Resources could not be counted. Nobody looks for that: what has become of the stack the lists tell, and a look would count as well, in
    /// vain where Heat has no time for it, while its end goes unnoticed.
    pub fn not_counted(&mut self, job: &ProgressJob, why: ListFailure) {
        if why == ListFailure::Refused {
            self.forget_session(&job.project, job.session.0);
        }
    }

    fn wake(&mut self, key: u64, wake: Wake, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.heard = now;
            entry.bell.ring(wake);
            // Whoever was woken gives up his place, or goes back to it; if he does not live to do that, the place is found again.
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
        Some(self.pause.end(self.due.first()?.0))
    }
}

#[cfg(test)]
mod tests;
