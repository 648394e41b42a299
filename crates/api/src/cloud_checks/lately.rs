//! What was found lately, so that the cloud is asked once for who asks for cluster after cluster of one template.
//!
//! Only what was found, and alone of its name, is remembered: for seconds, and for the user and project that it was found for. So nobody is
//! told that something is missing which has come since. Of what has gone since, the conductor tells when it needs it, as it would had it
//! gone a moment after the request. Properties of an image that have changed are seen when the time is over.

use std::time::Duration;

use moka::future::Cache;
use provider_clients::{Flavor, Image, Network, Subnet};

use crate::identity::Caller;

/// Things of a kind that are remembered at most, of all users together.
const CAPACITY: u64 = 5_000;

/// Who asked for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    user: String,
    project: Option<String>,
    name: String,
}

impl Key {
    /// A name, as this caller means it.
    pub fn new(caller: &Caller, name: &str) -> Self {
        Self { user: caller.user_id.0.clone(), project: caller.project_id.as_ref().map(|id| id.0.clone()), name: name.to_owned() }
    }
}

/// Things of one kind.
pub struct Shelf<T>(Option<Cache<Key, T>>);

impl<T: Clone + Send + Sync + 'static> Shelf<T> {
    fn new(kept: Duration) -> Self {
        Self((!kept.is_zero()).then(|| Cache::builder().max_capacity(CAPACITY).time_to_live(kept).build()))
    }

    /// What was found lately.
    pub async fn find(&self, key: &Key) -> Option<T> {
        self.0.as_ref()?.get(key).await
    }

    /// Remembers it.
    pub async fn keep(&self, key: Key, thing: T) {
        if let Some(cache) = &self.0 {
            cache.insert(key, thing).await;
        }
    }
}

/// What was found lately, by kind.
pub struct Lately {
    pub flavors: Shelf<Flavor>,
    pub images: Shelf<Image>,
    pub external_networks: Shelf<Network>,
    pub networks: Shelf<Network>,
    pub subnets: Shelf<Subnet>,
    pub keypairs: Shelf<()>,
}

impl Lately {
    /// Remembers for so long; zero has the cloud asked each time.
    pub fn new(kept: Duration) -> Self {
        Self {
            flavors: Shelf::new(kept),
            images: Shelf::new(kept),
            external_networks: Shelf::new(kept),
            networks: Shelf::new(kept),
            subnets: Shelf::new(kept),
            keypairs: Shelf::new(kept),
        }
    }
}
