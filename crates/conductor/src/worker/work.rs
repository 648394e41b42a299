//! An operation as its worker holds it, and what its turns hand on to each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::operation::{Claim, Operation, OutcomeCode, Payload, Progress};
use model::resource::ResourceKind;
use model::store::{Conn, StoreError, operation, resource};
use provider_clients::Session;
use secrecy::SecretString;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::context::Context;
use crate::lease::Held;
use crate::outcome::Failure;

/// What was seen of the size of the group that an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// It has so many nodes.
    Is(i32),
    /// It was asked to have so many, and how many it has nobody knows.
    Asked(i32),
}

/// How long the room that was found needs not be looked for again: what comes between it and the stack takes a second or two, if nothing is in its way.
const ROOM_LASTS: Duration = Duration::from_secs(5);

/// An operation that is ours.
pub(crate) struct Work {
    /// As it was claimed, but without its owner, whom the claim names.
    pub operation: Operation,
    lease: Held,
    /// One of those for operations that are ours, until its end.
    _place: OwnedSemaphorePermit,
    /// The session that acts for the cluster, by what it logs in with: one login for all turns in a row.
    session: Mutex<Option<(String, Session)>>,
    /// It was tried to make an owner of the stacks, and may not be.
    has_no_stack_owner: AtomicBool,
    /// The caller's token is wiped; the operation still shows it as it was claimed with.
    has_spared_token: AtomicBool,
    /// When it was given a new password, because it could not log in.
    mended_stack_owner: Mutex<Option<Instant>>,
    /// What was last seen of the size of its group; none: nothing that can still be so.
    size: Mutex<Option<Size>>,
    /// The last moment at which something may have been asked of the cloud that nobody has seen the end of: by a former owner, who stopped
    /// before this claim, or under this one. Counted here and not from what is recorded before a request: that may be long before it is sent.
    asked: Mutex<Instant>,
    /// Nothing of the failed operation before this one, which does it again, is under way any more.
    is_alone: AtomicBool,
    /// The password that it gives to the cluster's trustee, as it is kept sealed in what it carries.
    password: Mutex<Option<SecretString>>,
    /// When the project had room for the stack that it is to make, under this claim.
    found_room: Mutex<Option<Instant>>,
    /// The step that it was last seen at, and since when.
    step: Mutex<Option<(String, i64)>>,
    /// The last turn failed, and is repeated.
    is_repeated: AtomicBool,
    /// A place among those who speak to a management cluster, waited for between two turns and used by the next.
    admitted: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Work {
    pub(super) fn new(operation: Operation, lease: Held, place: OwnedSemaphorePermit) -> Self {
        Self {
            operation: Operation { owner: None, ..operation },
            lease,
            _place: place,
            session: Mutex::new(None),
            has_no_stack_owner: AtomicBool::new(false),
            has_spared_token: AtomicBool::new(false),
            mended_stack_owner: Mutex::new(None),
            size: Mutex::new(None),
            asked: Mutex::new(Instant::now()),
            is_alone: AtomicBool::new(false),
            password: Mutex::new(None),
            found_room: Mutex::new(None),
            step: Mutex::new(None),
            is_repeated: AtomicBool::new(false),
            admitted: Mutex::new(None),
        }
    }

    /// Whether nothing that may have been asked of the cloud, and that nobody has seen the end of, is under way any more.
    pub fn is_settled(&self, cx: &Context) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= cx.settings.timing.settle
    }

    /// Nothing of the failed operation before this one, which does it again, is under way any more: it was waited for, and stays so.
    pub fn finds_itself_alone(&self) {
        self.is_alone.store(true, Ordering::Relaxed);
    }

    /// Whether [`Work::finds_itself_alone`] was called.
    pub fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Relaxed)
    }

    /// The password that it gives to the cluster's trustee; none before one was drawn or read under this claim.
    pub fn drawn_password(&self) -> Option<SecretString> {
        self.password.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the password that it gives to the cluster's trustee.
    pub fn draws_password(&self, password: SecretString) {
        *self.password.lock().unwrap_or_else(PoisonError::into_inner) = Some(password);
    }

    /// The project has room for the stack that it is to make.
    pub fn finds_room(&self) {
        *self.found_room.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether [`Work::finds_room`] was called, and nobody has taken the room since.
    pub fn has_found_room(&self) -> bool {
        self.found_room.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The same, if it was called just now, and the room is taken: for one request to the cloud, and no further one. Others may have taken what there was
    /// longer ago.
    pub fn takes_room(&self) -> bool {
        let found = self.found_room.lock().unwrap_or_else(PoisonError::into_inner).take();
        found.is_some_and(|at| at.elapsed() < ROOM_LASTS)
    }

    /// Something was asked of the cloud until now, and what came of it is not recorded yet.
    pub fn has_asked(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Says whether the last turn failed and is repeated.
    pub fn repeats(&self, is_repeated: bool) {
        self.is_repeated.store(is_repeated, Ordering::Relaxed);
    }

    /// Since when it is at a step, in milliseconds, by the last event of its beginning. A turn that is repeated may go through several steps each time
    /// until it comes to the one that fails: this is at that since it came to it first.
    pub fn at_step_since(&self, step: &str, began_ms: i64) -> i64 {
        let mut held = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        since(&mut held, self.is_repeated.load(Ordering::Relaxed), step, began_ms)
    }

    /// Keeps a place for the next turn.
    pub fn admit(&self, place: OwnedSemaphorePermit) {
        *self.admitted.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }

    /// One of these places, for a turn: the one that was waited for, or one that is free.
    pub fn enter(&self, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        // One of another management cluster's is given up.
        let kept = self.admitted.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.filter(|place| Arc::ptr_eq(place.semaphore(), places)).or_else(|| places.clone().try_acquire_owned().ok())
    }

    /// Gives up a place that the turn has not used.
    pub fn leave(&self) {
        *self.admitted.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The right to work on it.
    pub fn claim(&self) -> &Claim {
        self.lease.claim()
    }

    /// How long that holds.
    pub fn lease(&self) -> &Held {
        &self.lease
    }

    /// Gives up what the next turn can get again: thousands of operations wait at a time, and a session is of no use after its password.
    pub fn unload(&self) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The session through a trust or as a user, by the id of either, made by `open` the first time since the operation last waited for a
    /// stack.
    pub fn session_as(&self, who: &str, open: impl FnOnce() -> Session) -> Session {
        let mut held = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        match &*held {
            Some((known, session)) if known == who => session.clone(),
            _ => held.insert((who.to_owned(), open())).1.clone(),
        }
    }

    /// There can be no owner of the stacks: it is not tried again.
    pub fn gives_up_stack_owner(&self) {
        self.has_no_stack_owner.store(true, Ordering::Relaxed);
    }

    /// How long ago the owner of the stacks was given a new password under this claim, if it was.
    pub fn mended_stack_owner(&self) -> Option<Duration> {
        self.mended_stack_owner.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    /// The owner of the stacks has a new password.
    pub fn has_mended_stack_owner(&self) {
        *self.mended_stack_owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether [`Work::gives_up_stack_owner`] was called.
    pub fn has_no_stack_owner(&self) -> bool {
        self.has_no_stack_owner.load(Ordering::Relaxed)
    }

    /// The caller's token is wiped.
    pub fn spares_token(&self) {
        self.has_spared_token.store(true, Ordering::Relaxed);
    }

    /// Whether [`Work::spares_token`] was called.
    pub fn has_spared_token(&self) -> bool {
        self.has_spared_token.load(Ordering::Relaxed)
    }

    /// What the request asked for beyond the cluster's row.
    pub fn payload(&self) -> Result<Payload, Failure> {
        self.operation.payload().map_err(|_| Failure::fail(OutcomeCode::Internal, "the operation's row cannot be read"))
    }

    /// Remembers what is seen of the size of its group, for the end of an operation that fails. None where nothing is, and before another size
    /// is asked for: what was seen until then says nothing any more.
    pub fn saw_size(&self, size: Option<Size>) {
        *self.size.lock().unwrap_or_else(PoisonError::into_inner) = size;
    }

    /// What [`Work::saw_size`] remembered last.
    pub fn seen_size(&self) -> Option<Size> {
        *self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what is about to be done and makes sure that it is still ours to do; called before every effect.
    ///
    /// # Errors
    /// [`StoreError::Stale`] when it is not.
    pub async fn guard(&self, cx: &Context, progress: &Progress) -> Result<(), StoreError> {
        cx.store.write(async |conn: &mut Conn| operation::record(conn, self.claim(), progress).await).await
    }

    /// Takes a thing that was announced out of the inventory, of which it is known that it was not made: nobody need wait for it.
    ///
    /// # Errors
    /// [`StoreError::Stale`] when it is not ours to say.
    pub async fn unannounce(&self, cx: &Context, progress: &Progress, kind: ResourceKind, name: &str) -> Result<(), StoreError> {
        let id = &self.operation.cluster_id();
        cx.store
            .write(async |conn: &mut Conn| {
                operation::record(conn, self.claim(), progress).await?;
                resource::unannounce(conn, id, kind, name).await
            })
            .await
    }
}

/// See [`Work::at_step_since`]; `held` is the step that it was last seen at.
fn since(held: &mut Option<(String, i64)>, is_repeated: bool, step: &str, began_ms: i64) -> i64 {
    match &*held {
        Some((known, since)) if is_repeated && known == step => *since,
        _ => held.insert((step.to_owned(), began_ms)).1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_is_the_same_each_time_that_a_turn_comes_to_it_and_another_round_of_it_is_not() {
        let mut held = None;
        // The turns between go through a step before it, and nobody looks then.
        assert_eq!(since(&mut held, false, "credential", 1_000), 1_000);
        assert_eq!(since(&mut held, true, "credential", 2_000), 1_000);
        assert_eq!(since(&mut held, true, "credential", 3_000), 1_000);
        assert_eq!(since(&mut held, false, "credential", 4_000), 4_000);
        assert_eq!(since(&mut held, true, "certificates", 5_000), 5_000);
        assert_eq!(since(&mut held, true, "credential", 6_000), 6_000);
    }
}
