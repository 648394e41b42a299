//! The Kubernetes API of a Cluster API management cluster, as far as a driver needs it: server-side apply, reads, lists by label, merge
//! patches, deletions, watches.
//!
//! A thin client on the HTTP library that is here already, and not kube-rs: objects are JSON of kinds whose version the operator may set, so
//! that nothing would be typed; errors, deadlines and measurements are those of all other calls; and a second HTTP stack would stand beside
//! the first. Each call has a deadline, and so many at most are under way at once, so that an API server that is slow is not asked more. One that asks for patience (429, `Retry-After`) has it from all callers.

mod list;
mod patience;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, StatusCode};
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::sync::Semaphore;
use tracing::Span;
use url::Url;

use crate::error::{CloudError, Sent};
use crate::kubeconfig::{Identity, Kubeconfig};
use crate::kubernetes::{Networks, Permitted};
use crate::message;
use crate::observe::{HUNG, Watchers};
use crate::service::Service;
use crate::transport::innermost;

pub use watch::{Change, WatchLimits, Watched};

use patience::Patience;

/// Calls under way at once.
const AT_ONCE: usize = 16;
/// What an API server says where it does not have a kind at all, and no words about an object.
const KINDLESS: [&str; 2] = ["page not found", "could not find the requested resource"];
/// A longer answer is not read.
const LONGEST: usize = 64 * 1024 * 1024;
/// The form of answers.
const JSON: &str = "application/json";
/// The name under which our fields are kept, upstream's as well.
const MANAGER: &str = "magnum";

const SERVICE: Service = Service::ManagementCluster;

/// A kind of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeKind {
    /// `group/version`, or the version alone for kinds of the core.
    pub api_version: String,
    pub kind: String,
    /// As in paths.
    pub plural: String,
}

impl KubeKind {
    /// A kind by its names.
    pub fn new(api_version: &str, kind: &str, plural: &str) -> Self {
        Self { api_version: api_version.into(), kind: kind.into(), plural: plural.into() }
    }
}

/// A client of one management cluster. Cheap to clone; clones share connections and limits.
#[derive(Clone)]
pub struct Management(Arc<Inner>);

struct Inner {
    client: reqwest::Client,
    base: Url,
    token: Option<HeaderValue>,
    timeout: Duration,
    room: Semaphore,
    patience: Patience,
    watchers: Watchers,
}

impl fmt::Debug for Management {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Management").field("server", &self.0.base.as_str()).finish_non_exhaustive()
    }
}

/// What is sent besides the path.
struct Body {
    content: &'static str,
    text: String,
}

impl Management {
    /// Makes the client; `timeout` is for one call. Connects to nothing yet.
    ///
    /// # Errors
    /// When address or certificates cannot be used; says which.
    pub fn new(config: &Kubeconfig, connect_timeout: Duration, timeout: Duration, watchers: Watchers) -> Result<Self, CloudError> {
        let unusable = |what: &str| CloudError::invalid(SERVICE, "setup", &format!("{what} of the kubeconfig cannot be used"));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent("magnum")
            .redirect(reqwest::redirect::Policy::none())
            // The environment is read by the server crate only.
            .no_proxy()
            // Errors go to tenants: no words of the machine's resolver.
            .dns_resolver(Permitted(Networks::default()))
            .pool_idle_timeout(Duration::from_secs(30))
            .connect_timeout(connect_timeout);
        if let Some(ca) = &config.ca {
            let certificates = reqwest::Certificate::from_pem_bundle(ca).map_err(|_| unusable("certificate-authority"))?;
            if certificates.is_empty() {
                return Err(unusable("certificate-authority"));
            }
            builder = builder.tls_certs_only(certificates);
        }
        let mut token = None;
        match &config.identity {
            Identity::Token(secret) => {
                let text = format!("Bearer {}", secret.expose_secret());
                let mut value = HeaderValue::from_str(&text).map_err(|_| unusable("token"))?;
                value.set_sensitive(true);
                token = Some(value);
            }
            Identity::Certificate(pem) => {
                let identity = reqwest::Identity::from_pem(pem.expose_secret().as_bytes()).map_err(|_| unusable("client-certificate"))?;
                builder = builder.identity(identity);
            }
        }
        let client = builder.build().map_err(|_| unusable("client-certificate"))?;
        let base = Url::parse(&config.server).map_err(|_| unusable("server"))?;
        Ok(Self(Arc::new(Inner { client, base, token, timeout, room: Semaphore::new(AT_ONCE), patience: Patience::default(), watchers })))
    }

    /// The address of the API.
    pub fn server(&self) -> &str {
        self.0.base.as_str()
    }

    /// Asks for the version of the API, which every server tells who may speak to it.
    ///
    /// # Errors
    /// As of every call: it cannot be reached, or does not take our token or certificate.
    pub async fn probe(&self) -> Result<(), CloudError> {
        const OPERATION: &str = "version_get";
        let mut url = self.0.base.clone();
        let cannot = |()| CloudError::invalid(SERVICE, OPERATION, "the server's address cannot take a path");
        url.path_segments_mut().map_err(cannot)?.pop_if_empty().push("version");
        self.json(OPERATION, Method::GET, url, None).await.map(drop)
    }

    /// Server-side apply: makes the object, or gives it these fields; ours win over another manager's. What the object is now.
    pub async fn apply(
        &self,
        operation: &'static str,
        kind: &KubeKind,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Value, CloudError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let mut url = self.url(operation, kind, namespace, Some(name))?;
        url.query_pairs_mut().append_pair("fieldManager", MANAGER).append_pair("force", "true");
        let body = Body { content: "application/apply-patch+yaml", text: object.to_string() };
        self.json(operation, Method::PATCH, url, Some(body)).await
    }

    /// Writes an object over the one that was read ([`Management::get`]), or makes it where none was. Else as [`Management::apply`].
    ///
    /// # Errors
    /// A conflict ([`CloudError::is_conflict`]) where the object has changed since, is there by now, or is another one: a request that comes late
    /// undoes nothing of what was written after it was made.
    pub async fn apply_over(
        &self,
        operation: &'static str,
        kind: &KubeKind,
        namespace: Option<&str>,
        read: Option<&Value>,
        object: &Value,
    ) -> Result<Value, CloudError> {
        let Some(read) = read else {
            let mut url = self.url(operation, kind, namespace, None)?;
            url.query_pairs_mut().append_pair("fieldManager", MANAGER);
            let body = Body { content: "application/json", text: object.to_string() };
            return self.json(operation, Method::POST, url, Some(body)).await;
        };
        let mut object = object.clone();
        for field in ["uid", "resourceVersion"] {
            object["metadata"][field] = read["metadata"][field].clone();
        }
        self.apply(operation, kind, namespace, &object).await
    }

    /// An object; none when there is none.
    ///
    /// # Errors
    /// Also where the cluster has no such kind: that says nothing of the object.
    pub async fn get(
        &self,
        operation: &'static str,
        kind: &KubeKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, CloudError> {
        let url = self.url(operation, kind, namespace, Some(name))?;
        match self.json(operation, Method::GET, url, None).await {
            Err(error) if error.is_not_found() && KINDLESS.iter().any(|words| error.message().contains(words)) => {
                Err(unserved(operation, kind))
            }
            outcome => found(outcome),
        }
    }

    /// JSON merge patch; none when there is no such object.
    pub async fn merge(
        &self,
        operation: &'static str,
        kind: &KubeKind,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
    ) -> Result<Option<Value>, CloudError> {
        let mut url = self.url(operation, kind, namespace, Some(name))?;
        url.query_pairs_mut().append_pair("fieldManager", MANAGER);
        let body = Body { content: "application/merge-patch+json", text: patch.to_string() };
        found(self.json(operation, Method::PATCH, url, Some(body)).await)
    }

    /// Deletes the objects that bear these labels.
    pub async fn delete_labelled(
        &self,
        operation: &'static str,
        kind: &KubeKind,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<(), CloudError> {
        if labels.is_empty() {
            return Err(CloudError::invalid(SERVICE, operation, "a deletion without labels would be one of everything"));
        }
        let mut url = self.url(operation, kind, namespace, None)?;
        url.query_pairs_mut().append_pair("labelSelector", labels);
        found(self.json(operation, Method::DELETE, url, None).await).map(drop)
    }

    fn url(&self, operation: &'static str, kind: &KubeKind, namespace: Option<&str>, name: Option<&str>) -> Result<Url, CloudError> {
        let invalid = |what: &str| CloudError::invalid(SERVICE, operation, what);
        let mut url = self.0.base.clone();
        {
            let mut path = url.path_segments_mut().map_err(|()| invalid("the server's address cannot take a path"))?;
            path.pop_if_empty();
            match kind.api_version.split_once('/') {
                Some((group, version)) => path.extend(["apis", group, version]),
                None => path.extend(["api", kind.api_version.as_str()]),
            };
            for name in namespace.iter().chain(&name) {
                if matches!(*name, "" | "." | "..") {
                    return Err(invalid("a name is empty or made of dots only"));
                }
            }
            if let Some(namespace) = namespace {
                path.extend(["namespaces", namespace]);
            }
            path.push(&kind.plural);
            path.extend(name);
        }
        Ok(url)
    }

    async fn json(&self, operation: &'static str, method: Method, url: Url, body: Option<Body>) -> Result<Value, CloudError> {
        self.json_as(JSON, operation, method, url, body).await
    }

    /// What is accepted is some JSON.
    async fn json_as(
        &self,
        accept: &'static str,
        operation: &'static str,
        method: Method,
        url: Url,
        body: Option<Body>,
    ) -> Result<Value, CloudError> {
        let lost = |sent, words: &str| CloudError::unreachable(SERVICE, operation, sent, words);
        let room = tokio::time::timeout(self.0.timeout, self.0.room.acquire()).await;
        let Ok(Ok(_room)) = room else { return Err(lost(Sent::No, "too many calls are under way")) };
        let call = self.0.watchers.begin(SERVICE, operation, Span::none(), HUNG);
        let outcome = match tokio::time::timeout(self.0.timeout, self.exchange(accept, operation, method, url, body)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(lost(Sent::Perhaps, "no answer in time")),
        };
        let status = match &outcome {
            Ok((status, _)) => Some(status.as_u16()),
            Err(error) => error.status(),
        };
        let took = call.ended(status, outcome.is_ok());
        tracing::debug!(service = SERVICE.name(), operation, status, duration_ms = took.as_millis() as u64, "cloud call ended");
        let (status, body) = outcome?;
        let malformed = |_| CloudError::malformed(SERVICE, operation, status.as_u16(), None, "the answer is no JSON");
        serde_json::from_slice(&body).map_err(malformed)
    }

    async fn exchange(
        &self,
        accept: &'static str,
        operation: &'static str,
        method: Method,
        url: Url,
        body: Option<Body>,
    ) -> Result<(StatusCode, Vec<u8>), CloudError> {
        self.patience(operation).await?;
        let mut response = self.send(accept, operation, method, url, body).await?;
        let status = response.status();
        self.heed(&response);
        let mut bytes = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| unreachable(operation, &error))? {
            if bytes.len() + part.len() > LONGEST {
                return Err(CloudError::malformed(SERVICE, operation, status.as_u16(), None, "the answer is too long"));
            }
            bytes.extend_from_slice(&part);
        }
        if status.is_success() {
            return Ok((status, bytes));
        }
        Err(CloudError::refused(SERVICE, operation, status.as_u16(), None, &message::of_body(&bytes)))
    }

    async fn send(
        &self,
        accept: &'static str,
        operation: &'static str,
        method: Method,
        url: Url,
        body: Option<Body>,
    ) -> Result<reqwest::Response, CloudError> {
        let mut request = self.0.client.request(method, url).header(ACCEPT, accept);
        if let Some(token) = &self.0.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, body.content).body(body.text);
        }
        request.send().await.map_err(|error| unreachable(operation, &error))
    }
}

/// Its provider may be about to be installed, and the kubeconfig may name another cluster than it should.
fn unserved(operation: &'static str, kind: &KubeKind) -> CloudError {
    let KubeKind { api_version, plural, .. } = kind;
    CloudError::unreachable(SERVICE, operation, Sent::No, &format!("it does not serve {plural} of {api_version}"))
}

/// A 404 is no error where something is looked for.
fn found<T>(outcome: Result<T, CloudError>) -> Result<Option<T>, CloudError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn unreachable(operation: &'static str, error: &reqwest::Error) -> CloudError {
    let sent = if error.is_connect() || error.is_builder() { Sent::No } else { Sent::Perhaps };
    let what = if error.is_connect() { "no connection" } else { "the connection was lost before the answer was complete" };
    let words = innermost(error);
    let text = if words.is_empty() { what.to_owned() } else { format!("{what}: {words}") };
    CloudError::unreachable(SERVICE, operation, sent, &text)
}
