//! Who watches the calls: a seam, so that this crate knows nothing of metrics or traces.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;

use crate::service::Service;

/// A request that has ended, each try of a repeated one for itself.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub service: Service,
    /// What was asked, by our own name of it (`stack_create`): one of a few dozen.
    pub operation: &'static str,
    /// The status of the answer; none: there was no (complete) answer.
    pub status: Option<u16>,
    pub took: Duration,
}

/// Watches every request to the cloud.
pub trait Observer: Send + Sync {
    /// A request has ended.
    fn ended(&self, call: &Call);
}

/// Knows how spans of this process belong to traces that cross processes (W3C trace context).
pub trait Tracing: Send + Sync {
    /// What another process must be told (header `traceparent`) so that what it does belongs to this span's trace; none for a span that is in
    /// no trace.
    fn traceparent(&self, span: &tracing::Span) -> Option<String>;

    /// Makes the span, which has not been entered yet, part of the trace that another process has told; what is no trace context is ignored.
    fn follow(&self, span: &tracing::Span, traceparent: &str);
}

/// Who watches the calls of a cloud; nobody by default.
#[derive(Clone, Default)]
pub struct Watchers {
    pub observer: Option<Arc<dyn Observer>>,
    /// When set, services are told which trace a request belongs to.
    pub tracing: Option<Arc<dyn Tracing>>,
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { observer, tracing } = self;
        f.debug_struct("Watchers").field("observer", &observer.is_some()).field("tracing", &tracing.is_some()).finish()
    }
}

impl Watchers {
    pub(crate) fn ended(&self, call: &Call) {
        if let Some(observer) = &self.observer {
            observer.ended(call);
        }
    }

    /// The header that tells of the trace that the span belongs to.
    pub(crate) fn traceparent(&self, span: &tracing::Span) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.tracing.as_ref()?.traceparent(span)?).ok()
    }
}
