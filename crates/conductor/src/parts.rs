//! What works in a conductor beside the operations, for as long as the conductor does.

use std::borrow::Cow;
use std::time::Duration;

use futures::future::select_all;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Between the bad end of a part and its beginning anew.
const AGAIN: Duration = Duration::from_secs(10);

/// A part that cannot be begun anew has ended before its conductor was told to stop.
#[derive(Debug, thiserror::Error)]
#[error("{name} of the conductor has ended ({reason}): it works no more without, and is to be started anew")]
pub struct PartEnded {
    name: String,
    reason: String,
}

impl PartEnded {
    pub(crate) fn new(name: &str, ended: Result<(), JoinError>) -> Self {
        Self { name: name.to_owned(), reason: ended.err().map_or_else(|| "it returned".to_owned(), |error| error.to_string()) }
    }
}

/// The parts, by their names. They are cut off when this is dropped.
pub(crate) struct Parts {
    stop: CancellationToken,
    needed: Vec<Part>,
    others: Vec<Part>,
}

type Part = (Cow<'static, str>, AbortOnDropHandle<()>);

impl Parts {
    /// Each of them returns when `stop` is cancelled, and not before.
    pub fn new(stop: CancellationToken) -> Self {
        Self { stop, needed: Vec::new(), others: Vec::new() }
    }

    /// Begins one that keeps what cannot be found again: the conductor does not go on without.
    pub fn needed(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        self.needed.push((name.into(), AbortOnDropHandle::new(tokio::spawn(part))));
    }

    /// Begins one that begins with nothing: after a panic it is begun anew.
    pub fn kept_up<F>(&mut self, name: impl Into<Cow<'static, str>>, begin: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (name, stop) = (name.into(), self.stop.clone());
        let told = name.clone();
        let part = async move {
            while let Err(error) = AbortOnDropHandle::new(tokio::spawn(begin())).await {
                tracing::error!(%error, part = %told, "a part of the conductor ended badly; it is begun anew");
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        };
        self.others.push((name, AbortOnDropHandle::new(tokio::spawn(part))));
    }

    /// Waits until one that is needed ends, which is not looked at again.
    pub async fn first_to_end(&mut self) -> PartEnded {
        let (ended, at, _) = select_all(self.needed.iter_mut().map(|(_, part)| part)).await;
        PartEnded::new(&self.needed.swap_remove(at).0, ended)
    }

    /// Waits until all have returned.
    pub async fn end(&mut self) {
        for (name, part) in self.needed.iter_mut().chain(&mut self.others) {
            if let Err(error) = part.await {
                tracing::error!(%error, part = %name, "a part of the conductor ended badly");
            }
        }
    }

    /// The names of those that have not returned.
    pub fn at_work(&self) -> Vec<&str> {
        self.needed.iter().chain(&self.others).filter(|(_, part)| !part.is_finished()).map(|(name, _)| &**name).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_needed_part_that_panics_is_told_by_name_and_the_others_go_on() {
        let (stop, other) = (CancellationToken::new(), CancellationToken::new());
        let waits = |token: &CancellationToken| token.clone().cancelled_owned();
        let mut parts = Parts::new(stop.clone());
        parts.needed("first", waits(&stop));
        parts.needed("second", async { panic!("its state is beyond repair") });
        parts.needed("third", waits(&other));
        let ended = parts.first_to_end().await.to_string();
        assert!(ended.starts_with("second of the conductor") && ended.contains("beyond repair"), "{ended}");
        assert_eq!(parts.at_work(), ["first", "third"]);
        other.cancel();
        let ended = parts.first_to_end().await.to_string();
        assert!(ended.starts_with("third of the conductor has ended (it returned)"), "{ended}");
        stop.cancel();
        parts.end().await;
        assert!(parts.at_work().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_begins_with_nothing_is_begun_anew_until_the_conductor_stops() {
        let (stop, begun) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let mut parts = Parts::new(stop.clone());
        parts.needed("first", stop.clone().cancelled_owned());
        parts.kept_up("second", {
            let (stop, begun) = (stop.clone(), begun.clone());
            move || {
                let (stop, nth) = (stop.clone(), begun.fetch_add(1, Ordering::Relaxed));
                async move {
                    assert!(nth >= 2, "not yet");
                    stop.cancelled().await;
                }
            }
        });
        let ended = tokio::time::timeout(10 * AGAIN, parts.first_to_end()).await;
        assert!(ended.is_err() && begun.load(Ordering::Relaxed) == 3, "{ended:?} {begun:?}");
        stop.cancel();
        parts.end().await;
        assert!(parts.at_work().is_empty());
    }
}
