//! Private keys for new certificates, a few of them made before anybody asks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use tokio::sync::Notify;

use super::CertificateError;
use crate::{blocking, random};

/// The most that are kept ready, whatever is asked for: minutes of a processor's work, and some 2 MiB.
const MOST_AHEAD: usize = 1000;

/// Where private keys (RSA) come from. To make one of 2,048 bits takes a quarter of a second of a processor, by chance more or less, and a cluster
/// takes four: those that are ready take nothing of the time for which somebody waits.
#[derive(Debug)]
pub struct Keys {
    bits: u32,
    ahead: usize,
    ready: Mutex<Vec<Rsa<Private>>>,
    taken: Notify,
}

impl Keys {
    /// Keys of so many bits, of which [`Keys::make_missing`] has `ahead` ready, up to a thousand.
    pub fn new(bits: u32, ahead: usize) -> Self {
        Self { bits, ahead: ahead.min(MOST_AHEAD), ready: Mutex::default(), taken: Notify::new() }
    }

    /// How many are to be ready.
    pub fn ahead(&self) -> usize {
        self.ahead
    }

    /// A key that nobody was given: one that is ready, or else one that is made here, which takes the processor's time.
    pub(super) fn take(&self) -> Result<PKey<Private>, CertificateError> {
        let ready = self.all_ready().pop();
        self.taken.notify_one();
        Ok(PKey::from_rsa(ready.map_or_else(|| random::rsa(self.bits), Ok)?)?)
    }

    /// How many are ready.
    pub fn ready(&self) -> usize {
        self.all_ready().len()
    }

    /// Waits until fewer are ready than are to be, and makes one. One caller is meant to do this, over and over: so no more than one processor
    /// is busy with it.
    ///
    /// # Errors
    /// When a key cannot be made, of which whoever asks for one hears himself; and when the making broke off, as at the end of the runtime.
    pub async fn make_missing(&self) -> Result<(), CertificateError> {
        while self.ready() >= self.ahead {
            self.taken.notified().await;
        }
        let bits = self.bits;
        let made = blocking::run(move || random::rsa(bits)).await.map_err(|_| CertificateError::BrokenOff)??;
        self.all_ready().push(made);
        Ok(())
    }

    fn all_ready(&self) -> MutexGuard<'_, Vec<Rsa<Private>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Waits until so many are ready.
    async fn until(keys: &Keys, ready: usize) {
        let all = async {
            while keys.ready() != ready {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all).await.unwrap_or_else(|_| panic!("{} are ready", keys.ready()));
    }

    #[tokio::test]
    async fn what_was_taken_is_made_anew_and_nobody_is_given_what_another_has() {
        let keys = Keys::new(512, 3);
        let more = async {
            let mut seen = Vec::new();
            for _ in 0..2 {
                until(&keys, 3).await;
                // The last of them is made while somebody waits.
                for _ in 0..4 {
                    seen.push(keys.take().unwrap().rsa().unwrap().n().to_vec());
                }
            }
            until(&keys, 3).await;
            seen
        };
        let mut seen = tokio::select! {
            () = async { while keys.make_missing().await.is_ok() {} } => panic!("no key can be made"),
            seen = more => seen,
        };
        assert_eq!(seen.len(), 8);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 8);
    }

    #[test]
    fn without_any_made_ahead_there_are_keys() {
        let keys = Keys::new(512, 0);
        assert_eq!((keys.take().unwrap().bits(), keys.ready()), (512, 0));
    }
}
