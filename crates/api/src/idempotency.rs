//! `Idempotency-Key`: a request that changes something may be sent again without being done again.
//!
//! The key is taken before the handler runs; the handler's transaction stores the answer with the work (`Context::keep`). So a client that got
//! no answer, whatever died, asks again and gets the first one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::id::OperationId;
use model::store::idempotency::{self, Held, Keyed, Stored};
use model::store::{Conn, StoreError};
use model::time::{millis, now};
use sha2::{Digest, Sha256};
use tracing::Instrument;

use crate::answer::Answer;
use crate::context::{Context, Shared};
use crate::error::ApiError;
use crate::routes::Handler;

/// The header.
pub const HEADER: &str = "Idempotency-Key";
/// Characters of a key at most.
pub const LONGEST: usize = 255;
/// The pause between two tries to record the end of a request.
const AGAIN: Duration = Duration::from_secs(1);
/// Tries to take a key that other requests take or leave at the same time.
const TRIES: u32 = 3;

/// A key that this request holds.
pub struct Key {
    keyed: Keyed,
    /// Whether the handler has stored an answer.
    is_kept: AtomicBool,
}

/// What came of a request with a key.
pub enum Once {
    /// It was done now.
    Done(Answer),
    /// It was done before: this was the answer.
    DoneBefore(Answer),
}

/// Does what a request with a key asks for, unless it was done before. Goes on to the end although the client may leave: a key that nobody
/// lets go would keep him from asking again.
pub async fn once(mut cx: Context, handler: Handler, key: String, method: &str, path: &str) -> Result<Once, ApiError> {
    let keyed = Keyed {
        project: cx.caller.project_id.as_ref().map_or_else(|| format!("user:{}", cx.caller.user_id), |p| p.0.clone()),
        key,
        fingerprint: fingerprint(&cx, method, path),
        holder: OperationId::generate().to_string(),
    };
    let shared = cx.shared.clone();
    let work = async move {
        // Longer than any request is worked on: who holds a key for longer than this has died, or finds that it is lost.
        let at_work = cx.shared.settings.limits.answer * 2;
        match hold(&cx, &keyed, at_work).await? {
            Held::Ours => {}
            Held::Done(stored) => return Ok(Once::DoneBefore(Answer::replayed(stored))),
            Held::AtWork => {
                return Err(ApiError::Conflict(format!("A request with this {HEADER} is being worked on. Try again in a moment.")));
            }
            Held::Other => {
                return Err(ApiError::Unprocessable(format!(
                    "This {HEADER} was used for another request. Take a new one for this request."
                )));
            }
        }
        let (key, shared) = (Arc::new(Key { keyed, is_kept: AtomicBool::new(false) }), cx.shared.clone());
        cx.key = Some(key.clone());
        let answer = handler(cx).await;
        end(&shared, key, &answer, at_work).await;
        answer.map(Once::Done)
    };
    shared.to_the_end(work).await
}

async fn hold(cx: &Context, keyed: &Keyed, at_work: Duration) -> Result<Held, ApiError> {
    let mut tries = 1;
    loop {
        let at = millis(now());
        match cx.shared.store.write(async |conn: &mut Conn| idempotency::hold(conn, keyed, at, at_work).await).await {
            Err(StoreError::Stale { .. }) if tries < TRIES => tries += 1,
            other => return Ok(other?),
        }
    }
}

/// Keeps the answer of a handler that had nothing to store, and lets go of the key when nothing was done.
///
/// What cannot be recorded now, for the database is away, is recorded when it is back, as long as the key keeps others out: whoever asks again
/// would be told that a request is being worked on which has ended.
async fn end(shared: &Arc<Shared>, key: Arc<Key>, answer: &Result<Answer, ApiError>, at_work: Duration) {
    let stored = match answer {
        Ok(_) if key.is_kept.load(Ordering::Relaxed) => return,
        Ok(answer) => Some(answer.stored()),
        Err(_) => None,
    };
    let Err(error) = record_end(shared, &key.keyed, stored.as_ref()).await else { return };
    tracing::warn!(%error, "failed to record the end of a request with a key; trying again until the database is back");
    let again = shared.clone();
    let trying = async move {
        loop {
            tokio::time::sleep(AGAIN).await;
            match record_end(&again, &key.keyed, stored.as_ref()).await {
                // Stale: the key has got another holder.
                Ok(()) | Err(StoreError::Stale { .. }) => return,
                Err(error) => tracing::debug!(%error, "failed to record the end of a request with a key"),
            }
        }
    };
    // The clock, too, is that runtime's: this worker may end before.
    let bounded = async move { tokio::time::timeout(at_work, trying).await };
    shared.later.spawn_on(bounded.in_current_span(), &shared.runtime);
}

/// Stores the answer, or lets go of the key when there is none.
async fn record_end(shared: &Shared, keyed: &Keyed, stored: Option<&Stored>) -> Result<(), StoreError> {
    shared
        .store
        .write(async |conn: &mut Conn| match stored {
            Some(stored) => idempotency::keep(conn, keyed, stored).await,
            None => idempotency::release(conn, keyed).await,
        })
        .await
}

impl Key {
    /// Stores the answer in the transaction that does the work.
    pub async fn keep(&self, conn: &mut Conn, answer: &Answer) -> Result<(), StoreError> {
        idempotency::keep(conn, &self.keyed, &answer.stored()).await?;
        self.is_kept.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// A key as it is stored.
///
/// # Errors
/// When it is no key.
pub fn checked(text: &str) -> Result<String, ApiError> {
    let key = text.trim();
    let fits = (1..=LONGEST).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    if fits { Ok(key.to_owned()) } else { Err(ApiError::Invalid(format!("{HEADER} must be 1 to {LONGEST} visible ASCII characters."))) }
}

/// What is asked, and by whom: a key must not show one user the answer to another.
fn fingerprint(cx: &Context, method: &str, path: &str) -> String {
    let mut hash = Sha256::new();
    let query: Vec<String> = cx.query.iter().map(|(key, value)| format!("{key}={value}")).collect();
    for part in [method.as_bytes(), path.as_bytes(), query.join("&").as_bytes(), cx.caller.user_id.0.as_bytes(), &cx.body.bytes] {
        // Lengths keep the parts apart.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_short_and_visible() {
        assert_eq!(checked(" abc-1 ").ok().as_deref(), Some("abc-1"));
        assert!(checked(&"k".repeat(LONGEST)).is_ok());
        for bad in ["", "  ", "a b", "a\u{e9}", "a\u{7f}", &"k".repeat(LONGEST + 1)] {
            assert!(checked(bad).is_err_and(|e| e.to_string().contains(HEADER)), "{bad:?}");
        }
    }
}
