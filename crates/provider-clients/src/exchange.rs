//! The seam at which a simulation stands in for the network: requests go to a carrier in the same process, which answers them or loses them.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use url::Url;

/// A request on its way, complete as it would go over the wire. The token is in the headers: never print them.
pub struct Outgoing {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    /// JSON.
    pub body: Option<String>,
}

/// An answer.
pub struct Incoming {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The request was never sent.
    Refused,
    /// It was sent, and may have been carried out or may yet be.
    Lost,
}

/// Carries requests, and knows the time by which tokens expire.
pub trait Carrier: Send + Sync {
    /// Carries one request there and its answer back.
    fn carry(&self, request: Outgoing) -> BoxFuture<'_, Result<Incoming, NoAnswer>>;

    /// The time.
    fn now(&self) -> DateTime<Utc>;
}

/// A carrier in the place of an HTTP client.
#[derive(Clone)]
pub(crate) struct Exchange(pub(crate) Arc<dyn Carrier>);

impl Exchange {
    pub(crate) fn carrier(&self) -> &dyn Carrier {
        &*self.0
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchange")
    }
}
