//! How much of a request is read, and for how long.

use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::web::{Bytes, BytesMut, Payload};
use futures::StreamExt;

use crate::error::ApiError;

/// Bytes of a path with its query at most.
const TARGET_BYTES: usize = 16 * 1024;
/// Bytes of all header names and values at most; the library below reads no more than 96 headers and 128 KiB in all.
const HEADER_BYTES: usize = 64 * 1024;

/// What a client may take of us. Times bound how long, not how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body at most (`[oslo_middleware] max_request_body_size`).
    pub body_bytes: usize,
    /// How long a client has for its body.
    pub body: Duration,
    /// How long a client has for the head of a request, once its first byte is there.
    pub head: Duration,
    /// How long a connection is kept for the next request.
    pub idle: Duration,
    /// How long a client may leave an answer lying without taking anything of it.
    pub send: Duration,
    /// How long a request may be worked on.
    pub answer: Duration,
    /// How long requests at work have to end when the server stops.
    pub drain: Duration,
    /// Connections at most, over all workers.
    pub connections: usize,
    /// Streams of events at most.
    pub streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 114_688,
            body: Duration::from_secs(30),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            send: Duration::from_secs(30),
            answer: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            connections: 8192,
            streams: 256,
        }
    }
}

impl Limits {
    /// Refuses a head that is larger than any that makes sense.
    pub fn check_head(request: &HttpRequest) -> Result<(), ApiError> {
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        if target > TARGET_BYTES {
            return Err(ApiError::TargetTooLong(TARGET_BYTES));
        }
        let headers: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if headers > HEADER_BYTES { Err(ApiError::HeadTooLarge(HEADER_BYTES)) } else { Ok(()) }
    }

    /// Reads the body. One that says itself that it is too large is refused before it is read.
    pub async fn read_body(&self, declared: Option<&str>, mut payload: Payload) -> Result<Bytes, ApiError> {
        let too_large = || ApiError::TooLarge(self.body_bytes);
        if declared.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > self.body_bytes as u64) {
            return Err(too_large());
        }
        let read = async {
            let mut bytes = BytesMut::new();
            while let Some(chunk) = payload.next().await {
                let chunk = chunk.map_err(|e| ApiError::Invalid(format!("The body cannot be read: {e}")))?;
                if bytes.len() + chunk.len() > self.body_bytes {
                    return Err(too_large());
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(bytes.freeze())
        };
        tokio::time::timeout(self.body, read).await.unwrap_or(Err(ApiError::TooSlow(self.body.as_secs())))
    }
}
