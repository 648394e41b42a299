//! The one source of randomness of model and engine: the operating system's, or the seed's in a [simulation](crate::simulation).

use std::cell::RefCell;

use openssl::error::ErrorStack;
use openssl::pkey::Private;
use openssl::rsa::Rsa;
use rand::Rng;
use rand::distr::uniform::{SampleRange, SampleUniform};
use uuid::Uuid;

use crate::simulation::draw;

/// A number out of a range.
pub fn range<T: SampleUniform, R: SampleRange<T> + Clone>(range: R) -> T {
    draw(|random| random.random_range(range.clone())).unwrap_or_else(|| rand::random_range(range))
}

/// So many bytes, good enough for keys.
pub fn bytes<const N: usize>() -> [u8; N] {
    draw(|random| random.random()).unwrap_or_else(rand::random)
}

/// A fresh uuid (version 4).
pub fn uuid() -> Uuid {
    uuid::Builder::from_random_bytes(bytes()).into_uuid()
}

/// A fresh RSA key of so many bits. In a simulation it is one of a few that the thread made once: to make them would be most of what a
/// simulation does, and nothing depends on which it is.
///
/// # Errors
/// When the library refuses to make one.
pub(crate) fn rsa(bits: u32) -> Result<Rsa<Private>, ErrorStack> {
    const FEW: usize = 4;
    thread_local!(static MADE: RefCell<Vec<Rsa<Private>>> = const { RefCell::new(Vec::new()) });
    let Some(place) = draw(|random| random.random_range(0..FEW)) else { return Rsa::generate(bits) };
    MADE.with_borrow_mut(|made| {
        while made.len() < FEW {
            made.push(Rsa::generate(bits)?);
        }
        Ok(made[place].clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Simulation;

    #[test]
    fn a_seed_says_what_is_drawn_and_only_on_its_thread() {
        let drawn = |seed| {
            let _simulation = Simulation::begin(seed, chrono::DateTime::UNIX_EPOCH);
            (range(0..1_000_000_u64), bytes::<8>(), uuid())
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert_ne!(uuid(), uuid());
        assert_eq!(uuid().get_version_num(), 4);
    }
}
