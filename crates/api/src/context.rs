//! One request on its way through the handlers: who calls, what was asked, at which version, and the parts of the service it may use.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use actix_web::web::Bytes;
use futures::future::BoxFuture;
use model::certificate::keeper::Keepers;
use model::operation::Payload;
use model::queue::Doorbell;
use model::seal::Sealer;
use model::store::{Conn, Scope, Store, StoreError};
use provider_clients::{Cloud, Session, Tracing};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::accept::Accept;
use crate::answer::Answer;
use crate::cloud_checks::Lately;
use crate::dry_run::Foresight;
use crate::error::ApiError;
use crate::event::Feed;
use crate::idempotency::Key;
use crate::identity::{Caller, Identity};
use crate::microversion::Microversion;
use crate::policy::{Act, Allowed, Attributes, Policy, Target};
use crate::server::Metrics;
use crate::server::rate::Limiter;
use crate::settings::Settings;
use crate::view::body;
use crate::view::page::{self, PageQuery};
use crate::view::patch::{self, Change, Limits};
use crate::view::schema::{self, Body, Schema};

/// What all requests share.
pub struct Shared {
    pub store: Store,
    pub doorbell: Doorbell,
    pub cloud: Cloud,
    pub service: Session,
    pub sealer: Sealer,
    /// Knows what operations would do.
    pub foresight: Arc<dyn Foresight>,
    /// Where certificates are kept.
    pub keepers: Keepers,
    pub settings: Settings,
    pub policy: Policy,
    pub identity: Identity,
    /// What the cloud said of names in requests.
    pub lately: Lately,
    /// New events, for streams.
    pub feed: Feed,
    /// Counts the requests of projects, when they are limited.
    pub limiter: Option<Limiter>,
    /// Places for pages of lists: nobody knows before how long one is, and a thousand clusters are megabytes from the first row read to the
    /// last byte written. What waits here costs nothing, and the answer's deadline bounds the wait.
    pub pages: Semaphore,
    pub metrics: Metrics,
    /// Knows the traces that requests belong to, when there are any.
    pub tracing: Option<Arc<dyn Tracing>>,
    /// Whether this process ends TLS itself.
    pub secure: bool,
    /// The runtime of the process.
    pub runtime: tokio::runtime::Handle,
    /// What goes on there although its client has left.
    pub later: TaskTracker,
}

/// Pages that each worker puts together at once: one is written while others wait for their rows.
pub const PAGES_PER_WORKER: usize = 4;

impl Shared {
    async fn place(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        self.pages.acquire().await.map_err(|e| ApiError::Internal(e.to_string()))
    }

    /// Does work that must end although its client leaves or the request runs out of time, under the span of the request, so that its log
    /// lines carry the request id.
    pub async fn to_the_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
    ) -> Result<T, ApiError> {
        ToTheEnd { work: Some(Box::pin(work.in_current_span())), runtime: self.runtime.clone(), later: self.later.clone() }.await
    }
}

/// Work that goes on when nobody waits for it any more.
///
/// While somebody waits it is done where he waits: most of it is short questions to the database, and each would wake two threads if it were
/// done on the runtime of the process. Only what is dropped unfinished goes there.
struct ToTheEnd<T: Send + 'static> {
    /// None: it has ended.
    work: Option<BoxFuture<'static, Result<T, ApiError>>>,
    runtime: tokio::runtime::Handle,
    later: TaskTracker,
}

impl<T: Send + 'static> Future for ToTheEnd<T> {
    type Output = Result<T, ApiError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        // Taken, so that what panics is not begun again on the runtime.
        let mut work = self.work.take().expect("not asked again after its end");
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for ToTheEnd<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.later.spawn_on(work, &self.runtime);
        }
    }
}

/// The body as it came.
pub struct RawBody {
    pub content_type: Option<String>,
    pub bytes: Bytes,
}

/// What the head of a request says beyond its path.
#[derive(Debug)]
pub struct Head {
    pub accept: Accept,
    pub idempotency_key: Option<String>,
    pub last_event_id: Option<String>,
}

/// One request.
pub struct Context {
    pub shared: Arc<Shared>,
    pub caller: Caller,
    pub version: Microversion,
    pub request_id: String,
    /// Scheme, host and prefix of links, without trailing slash.
    pub base: String,
    /// The parts of the path that the route leaves open.
    pub args: Args,
    pub query: Vec<(String, String)>,
    pub body: RawBody,
    pub head: Head,
    /// Whether nothing is to be done: the answer tells what would be.
    pub is_dry_run: bool,
    /// The key that the request holds, if it came with one.
    pub key: Option<Arc<Key>>,
}

/// The parts of a path that a route leaves open, by the names that it gives them.
#[derive(Debug, Default)]
pub struct Args(pub Vec<(&'static str, String)>);

impl Context {
    /// What the operation of this request carries: what was asked, by whom, and the trace that it is part of.
    pub fn asked(&self, payload: &Payload) -> Payload {
        let traceparent = self.shared.tracing.as_ref().and_then(|tracing| tracing.traceparent(&tracing::Span::current()));
        Payload { user_domain_id: self.caller.user_domain_id.clone(), traceparent, ..payload.clone() }
    }

    /// The rows a caller sees without any all-projects right.
    pub fn own_scope(&self) -> Scope {
        match &self.caller.project_id {
            Some(project) => Scope::Project(project.clone()),
            None => Scope::User(self.caller.user_id.clone()),
        }
    }

    /// The rows a caller sees where an admin sees every project's; an admin must pass `everywhere` for it.
    pub fn wide_scope(&self, everywhere: Act) -> Result<Scope, ApiError> {
        if !self.caller.is_admin {
            return Ok(self.own_scope());
        }
        self.allow_own(everywhere)?;
        Ok(Scope::All)
    }

    /// A check against the caller's own project and user.
    pub fn allow_own(&self, act: Act) -> Result<Allowed, ApiError> {
        self.allow_on(act, self.caller.project_id.as_ref().map(|p| p.0.as_str()), Some(&self.caller.user_id.0))
    }

    /// A check against the owner of something that was found.
    pub fn allow_on(&self, act: Act, project: Option<&str>, user: Option<&str>) -> Result<Allowed, ApiError> {
        self.allow(act, Target { project_id: project, user_id: user, ..Target::default() })
    }

    /// A check against something that was found, of which rules may name every attribute.
    pub fn allow_object(&self, act: Act, object: &dyn Attributes) -> Result<Allowed, ApiError> {
        let owner = Target { project_id: object.owner_project(), user_id: object.owner_user(), ..Target::default() };
        self.allow(act, Target { object: Some(object), ..owner })
    }

    fn allow(&self, act: Act, target: Target<'_>) -> Result<Allowed, ApiError> {
        let trustee_domain_id = self.shared.settings.trustee_domain(&self.caller);
        self.shared.policy.allow(&self.caller, act, &Target { trustee_domain_id, ..target })
    }

    /// Keeps the answer of a request that came with a key; to be called in the transaction that does what was asked for.
    pub async fn keep(&self, conn: &mut Conn, answer: &Answer) -> Result<(), StoreError> {
        match &self.key {
            Some(key) => key.keep(conn, answer).await,
            None => Ok(()),
        }
    }

    /// The page that the query asks for, and its place among those that are put together at once, to be kept until the answer stands.
    pub async fn page(&self) -> Result<(PageQuery, SemaphorePermit<'_>), ApiError> {
        let page = page::parse(&self.query, self.shared.settings.max_limit)?;
        Ok((page, self.shared.place().await?))
    }

    /// As [`Context::page`], for lists whose markers are numbers.
    pub async fn numbered_page(&self) -> Result<(PageQuery, SemaphorePermit<'_>), ApiError> {
        let page = page::parse_numbered(&self.query, self.shared.settings.max_limit)?;
        Ok((page, self.shared.place().await?))
    }

    /// A part of the path.
    ///
    /// # Panics
    /// When the route does not have it, which is a mistake in the table of routes.
    pub fn arg(&self, name: &str) -> &str {
        let found = self.args.0.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.as_str()).expect("the route names its parts")
    }

    /// A query parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A boolean query parameter.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.parameter(name).map(|text| schema::boolean(name, &serde_json::Value::String(text.into()))).transpose()
    }

    /// The body of a request, checked in full against its schema.
    pub fn read(&self, schema: &'static Schema) -> Result<Body, ApiError> {
        schema.read(self.body.content_type.as_deref(), &self.body.bytes)
    }

    /// The body of a patch; `mandatory` attributes cannot be removed, `internal` ones not be touched.
    pub fn patch(&self, mandatory: &[&str], internal: &[&str]) -> Result<Vec<Change>, ApiError> {
        let ident = self.args.0.last().map(|(_, value)| value.as_str());
        patch::parse(self.body.content_type.as_deref(), &self.body.bytes, Limits { mandatory, internal, ident })
    }

    /// Refuses a body on routes that take none; an empty JSON object is tolerated.
    pub fn refuse_body(&self) -> Result<(), ApiError> {
        body::none(self.body.content_type.as_deref(), &self.body.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().expect("a runtime is made")
    }

    #[test]
    fn work_that_nobody_waits_for_any_more_ends_on_the_runtime_of_the_process() {
        let process = runtime();
        let (go, gone) = oneshot::channel::<()>();
        let (ended, end) = oneshot::channel();
        let home = process.handle().id();
        let work = async move {
            let _ = gone.await;
            let _ = ended.send(tokio::runtime::Handle::current().id());
            Ok(())
        };
        let mut waiting = ToTheEnd { work: Some(work.boxed()), runtime: process.handle().clone(), later: TaskTracker::new() };
        runtime().block_on(async { assert!(futures::poll!(&mut waiting).is_pending()) });
        drop(waiting);
        go.send(()).expect("the work is still there");
        let at = process.block_on(async { tokio::time::timeout(Duration::from_secs(5), end).await });
        assert_eq!(at.expect("in time").expect("it ended"), home);
    }

    #[test]
    fn work_that_somebody_waits_for_is_done_where_he_waits_and_once() {
        let process = runtime();
        let here = runtime();
        let work = ToTheEnd {
            work: Some(async { Ok(tokio::runtime::Handle::current().id()) }.boxed()),
            runtime: process.handle().clone(),
            later: TaskTracker::new(),
        };
        let at = here.block_on(work).map_err(|error| error.inside().to_owned());
        assert_eq!(at, Ok(here.handle().id()));
    }
}
