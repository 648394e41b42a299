//! Who watches the calls: a seam, so that this crate knows nothing of metrics or traces.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use tokio::time::Instant;
use tracing::Span;

use crate::service::Service;

/// A request that has ended, each try of a repeated one for itself.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub service: Service,
    /// What was asked, by our own name of it (`stack_create`): one of a few dozen.
    pub operation: &'static str,
    pub ending: Ending,
    pub took: Duration,
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an answer of this status.
    Answered(u16),
    /// Without a (complete) answer; also when nobody waited any longer, and there was none for [`HUNG`].
    Unanswered,
    /// Nobody waited for its answer any longer: another of several calls has failed, who asked has gone.
    CutOff,
}

/// A service that has not answered for so long has not answered, whoever then gave up: a deadline that spans several calls ends before that of each.
/// (Of helm, which works for minutes, only its own deadline says so.)
pub const HUNG: Duration = Duration::from_secs(5);

impl From<Option<u16>> for Ending {
    fn from(status: Option<u16>) -> Self {
        status.map_or(Self::Unanswered, Self::Answered)
    }
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
    /// A request begins. The span, which may be none, gets the status of its end. Given up after `hung` it was not answered.
    pub(crate) fn begin(&self, service: Service, operation: &'static str, span: Span, hung: Duration) -> Ongoing<'_> {
        Ongoing { watchers: self, service, operation, span, started: Instant::now(), hung, is_over: false }
    }

    /// The header that tells of the trace that the span belongs to.
    pub(crate) fn traceparent(&self, span: &tracing::Span) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.tracing.as_ref()?.traceparent(span)?).ok()
    }
}

/// A request that is under way. Dropped before its end it is told all the same: what hangs is what the watchers are there for.
#[must_use]
pub(crate) struct Ongoing<'a> {
    watchers: &'a Watchers,
    service: Service,
    operation: &'static str,
    span: Span,
    started: Instant,
    hung: Duration,
    is_over: bool,
}

impl Ongoing<'_> {
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// It has ended with this status of an answer (none: without one), well or not; returns how long it took.
    pub(crate) fn ended(mut self, status: Option<u16>, is_good: bool) -> Duration {
        self.span.record("http.response.status_code", status);
        if !is_good {
            self.span.record("otel.status_code", "ERROR");
        }
        self.tell(status.into())
    }

    fn tell(&mut self, ending: Ending) -> Duration {
        self.is_over = true;
        let took = self.started.elapsed();
        if let Some(observer) = &self.watchers.observer {
            observer.ended(&Call { service: self.service, operation: self.operation, ending, took });
        }
        took
    }
}

impl Drop for Ongoing<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let is_hung = self.started.elapsed() >= self.hung;
        if is_hung {
            self.span.record("otel.status_code", "ERROR");
        }
        self.tell(if is_hung { Ending::Unanswered } else { Ending::CutOff });
    }
}
