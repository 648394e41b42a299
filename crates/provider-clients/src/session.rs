//! A credential in use.
//!
//! The token is fetched when first needed, once for all who wait, again a minute before it ends, and once more when
//! a service says 401. A token that was handed to us is used as it is. Nothing here retries a write.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::Url;

use crate::cloud::Cloud;
use crate::credential::{self, Credential};
use crate::error::{CloudError, Sent};
use crate::request::Request;
use crate::service::{Interface, Service};
use crate::token::{TokenAnswer, TokenInfo};
use crate::transport::Answer;

/// A token with less life than this is renewed before use.
const RENEW_BEFORE: TimeDelta = TimeDelta::seconds(60);

/// A credential in use. Cheap to clone; clones share the token.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
    request_id: Option<Arc<str>>,
}

struct Inner {
    cloud: Cloud,
    credential: Credential,
    login: Mutex<Login>,
    /// Logins finished, well or not: who waited during one takes its outcome instead of trying as well.
    logins: AtomicU64,
}

struct Login {
    issued: Option<Arc<Issued>>,
    failure: Option<CloudError>,
}

struct Issued {
    token: SecretString,
    info: Arc<TokenInfo>,
}

impl Session {
    /// Nothing is sent yet. `known` are the facts of a token that was handed to us, if somebody has them.
    pub(crate) fn start(cloud: Cloud, credential: Credential, known: Option<Arc<TokenInfo>>) -> Self {
        let issued = match (&credential, known) {
            (Credential::Token(token), Some(info)) => Some(Arc::new(Issued { token: token.clone(), info })),
            _ => None,
        };
        let login = Mutex::new(Login { issued, failure: None });
        let inner = Inner { cloud, credential, login, logins: AtomicU64::new(0) };
        Self { inner: Arc::new(inner), request_id: None }
    }

    /// The same session, whose calls carry this request id (`X-OpenStack-Request-ID`).
    pub fn with_request_id(&self, id: String) -> Self {
        Self { inner: self.inner.clone(), request_id: Some(id.into()) }
    }

    /// A token that is good for the next minute at least (a token handed to us: as it is).
    pub async fn token(&self) -> Result<SecretString, CloudError> {
        match &self.inner.credential {
            Credential::Token(token) => Ok(token.clone()),
            Credential::Password { .. } | Credential::Application { .. } => Ok(self.issued(None).await?.token.clone()),
        }
    }

    /// The facts of the session's token.
    pub async fn info(&self) -> Result<Arc<TokenInfo>, CloudError> {
        Ok(self.issued(None).await?.info.clone())
    }

    /// The endpoint that calls to the service use: configured region and interface, version added.
    pub async fn endpoint(&self, service: Service) -> Result<Url, CloudError> {
        let info = self.info().await?;
        self.endpoint_in(&info, service)
    }

    /// The service's endpoint on a certain interface; region as given, or as configured.
    pub async fn endpoint_on(&self, service: Service, interface: Interface, region: Option<&str>) -> Result<Url, CloudError> {
        let region = region.or(self.inner.cloud.0.options.region.as_deref());
        self.info().await?.endpoint(service, interface, region)
    }

    fn endpoint_in(&self, info: &TokenInfo, service: Service) -> Result<Url, CloudError> {
        let options = &self.inner.cloud.0.options;
        let interface = options.interfaces.get(&service).copied().unwrap_or(options.interface);
        info.endpoint(service, interface, options.region.as_deref())
    }

    /// Keystone at the interface that is configured for it; none when none is, or the catalogue has no such one.
    fn listed_keystone(&self, info: &TokenInfo) -> Option<Url> {
        let options = &self.inner.cloud.0.options;
        let interface = options.interfaces.get(&Service::Identity)?;
        info.endpoint(Service::Identity, *interface, options.region.as_deref()).ok()
    }

    /// An answer 2xx or 3xx; everything else is an error.
    pub(crate) async fn answer(&self, request: &Request) -> Result<Answer, CloudError> {
        let issued = self.issued(None).await?;
        let outcome = self.send(request, &issued).await;
        let renewable = !matches!(self.inner.credential, Credential::Token(_));
        match outcome {
            // 401 is said before anything is done, so even a write may be sent again.
            Err(error) if renewable && error.status() == Some(401) => {
                let renewed = self.issued(Some(&issued)).await?;
                self.send(request, &renewed).await
            }
            outcome => outcome,
        }
    }

    /// A body of JSON.
    pub(crate) async fn fetch<T: DeserializeOwned>(&self, request: Request) -> Result<T, CloudError> {
        self.answer(&request).await?.json()
    }

    /// A body of JSON, or nothing when the service says 404.
    pub(crate) async fn find<T: DeserializeOwned>(&self, request: Request) -> Result<Option<T>, CloudError> {
        match self.answer(&request).await {
            Ok(answer) => answer.json().map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether it was there to be removed.
    pub(crate) async fn remove(&self, request: Request) -> Result<bool, CloudError> {
        match self.answer(&request).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, request: &Request, issued: &Issued) -> Result<Answer, CloudError> {
        let place = &self.inner.cloud.0;
        // Keystone is where we were told it is: a domain administrator's catalogue may not say.
        let endpoint = match request.service {
            Service::Identity if request.by_catalogue => self.listed_keystone(&issued.info).unwrap_or_else(|| place.keystone.clone()),
            Service::Identity => place.keystone.clone(),
            service => self.endpoint_in(&issued.info, service)?,
        };
        place.transport.send(request, &endpoint, Some(&issued.token), self.request_id.as_deref()).await
    }

    /// The present token, or a new one when there is none, it ends soon, or it is `rejected`.
    async fn issued(&self, rejected: Option<&Arc<Issued>>) -> Result<Arc<Issued>, CloudError> {
        let inner = &self.inner;
        let seen = inner.logins.load(Ordering::Acquire);
        // The one at work is bound by the transport's timeout; the second more is for its pauses and ours.
        let patience = inner.cloud.0.options.timeout + Duration::from_secs(1);
        let mut login = timeout(patience, inner.login.lock())
            .await
            .map_err(|_| CloudError::unreachable(Service::Identity, "token_issue", Sent::No, "no token in time"))?;
        if let Some(issued) = &login.issued
            && !rejected.is_some_and(|rejected| Arc::ptr_eq(rejected, issued))
            && self.is_fresh(issued)
        {
            return Ok(issued.clone());
        }
        if inner.logins.load(Ordering::Acquire) != seen
            && let Some(failure) = &login.failure
        {
            return Err(failure.clone());
        }
        let outcome = self.log_in().await.map_err(CloudError::at_login);
        inner.logins.fetch_add(1, Ordering::Release);
        match outcome {
            Ok(issued) => {
                let issued = Arc::new(issued);
                *login = Login { issued: Some(issued.clone()), failure: None };
                Ok(issued)
            }
            Err(error) => {
                login.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    fn is_fresh(&self, issued: &Issued) -> bool {
        match &self.inner.credential {
            Credential::Token(_) => true,
            Credential::Password { .. } | Credential::Application { .. } => {
                issued.info.expires_at - RENEW_BEFORE > self.inner.cloud.0.transport.now()
            }
        }
    }

    async fn log_in(&self) -> Result<Issued, CloudError> {
        let place = &self.inner.cloud.0;
        let (request, known) = match &self.inner.credential {
            Credential::Token(token) => {
                let mut request = Request::get(Service::Identity, "token_show", ["auth", "tokens"]);
                request.subject = Some(token.clone());
                (request, Some(token))
            }
            Credential::Password { user, password, scope } => {
                let body = credential::login(user, password, scope);
                let mut request = Request::post(Service::Identity, "token_issue", ["auth", "tokens"], body).hide(password);
                // A second token harms nobody.
                request.repeatable = true;
                (request, None)
            }
            Credential::Application { id, secret } => {
                let body = credential::login_as_application(id, secret);
                let mut request = Request::post(Service::Identity, "token_issue", ["auth", "tokens"], body).hide(secret);
                request.repeatable = true;
                (request, None)
            }
        };
        let answer = place.transport.send(&request, &place.keystone, known, self.request_id.as_deref()).await?;
        let token = match (known, answer.header("x-subject-token")) {
            (Some(token), _) => token.clone(),
            (None, Some(token)) => SecretString::from(token),
            (None, None) => return Err(answer.malformed("the answer has no X-Subject-Token")),
        };
        let info: TokenInfo = answer.json::<TokenAnswer>()?.into();
        Ok(Issued { token, info: Arc::new(info) })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("credential", &self.inner.credential).field("request_id", &self.request_id).finish()
    }
}
