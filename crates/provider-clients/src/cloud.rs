//! Where the cloud is, how to connect to it, and the one HTTP client for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::credential::Credential;
use crate::error::CloudError;
use crate::exchange::{Carrier, Exchange};
use crate::kubernetes::{Networks, Permitted};
use crate::observe::Watchers;
use crate::request::Request;
use crate::service::{Interface, Service};
use crate::session::Session;
use crate::token::{TokenAnswer, TokenInfo};
use crate::transport::{Clients, Transport, Way};

/// Connections to one host that are kept for later requests.
const MOST_IDLE: usize = 16;

/// Where the cloud is and how to connect to it.
#[derive(Clone, Debug)]
pub struct CloudOptions {
    /// Keystone, with or without `/v3`.
    pub auth_url: String,
    pub region: Option<String>,
    pub interface: Interface,
    /// Other interfaces for single services. That of Keystone is where tokens of others are checked ([`Cloud::validate`]); for all else Keystone is
    /// at `auth_url`.
    pub interfaces: HashMap<Service, Interface>,
    /// Whom to believe.
    pub trust: TlsTrust,
    /// Others to believe for single services.
    pub own_trust: HashMap<Service, TlsTrust>,
    /// The longest that one request may take, its retries included.
    pub timeout: Duration,
    pub connect_timeout: Duration,
}

/// Whom a client believes, and what it shows.
#[derive(Clone, Debug, Default)]
pub struct TlsTrust {
    /// PEM bundle that is trusted instead of the system's.
    pub ca: Option<Vec<u8>>,
    /// Do not check certificates.
    pub insecure: bool,
    /// The client's own certificate and its key, PEM, one after the other.
    pub identity: Option<SecretString>,
}

impl CloudOptions {
    /// The defaults for a Keystone: public interface, any region, 20 s for a call, 3 s to connect.
    pub fn new(auth_url: impl Into<String>) -> Self {
        Self {
            auth_url: auth_url.into(),
            region: None,
            interface: Interface::default(),
            interfaces: HashMap::new(),
            trust: TlsTrust::default(),
            own_trust: HashMap::new(),
            timeout: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(3),
        }
    }
}

/// A cloud: one HTTP client with its connections, shared by all sessions.
#[derive(Clone, Debug)]
pub struct Cloud(pub(crate) Arc<Place>);

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) options: CloudOptions,
    pub(crate) keystone: Url,
    pub(crate) transport: Transport,
}

impl Cloud {
    /// Checks the options and makes the client. Connects to nothing yet.
    pub fn new(options: CloudOptions) -> Result<Self, CloudError> {
        Self::watched(options, Watchers::default())
    }

    /// `new` with somebody who watches every request.
    pub fn watched(options: CloudOptions, watchers: Watchers) -> Result<Self, CloudError> {
        let invalid = |error: String| CloudError::invalid(Service::Identity, "setup", &error);
        let usual = client(&options, &options.trust).map_err(invalid)?;
        let mut own = HashMap::new();
        for (service, trust) in &options.own_trust {
            own.insert(*service, client(&options, trust).map_err(|error| CloudError::invalid(*service, "setup", &error))?);
        }
        Self::with(options, Way::Http(Clients { usual, own: Arc::new(own) }), watchers)
    }

    /// A cloud in the same process, for simulations: the carrier is asked in place of the network.
    pub fn carried_by(options: CloudOptions, carrier: Arc<dyn Carrier>) -> Result<Self, CloudError> {
        Self::with(options, Way::Carried(Exchange(carrier)), Watchers::default())
    }

    fn with(options: CloudOptions, way: Way, watchers: Watchers) -> Result<Self, CloudError> {
        let invalid = |message: &str| CloudError::invalid(Service::Identity, "setup", message);
        let auth_url = Url::parse(&options.auth_url).map_err(|error| invalid(&format!("auth_url: {error}")))?;
        if !matches!(auth_url.scheme(), "http" | "https") {
            return Err(invalid("auth_url: neither http nor https"));
        }
        let transport = Transport { way, timeout: options.timeout, watchers };
        Ok(Self(Arc::new(Place { keystone: Service::Identity.normalise(auth_url), options, transport })))
    }

    /// A session that proves itself with the credential. Nothing is sent yet.
    pub fn session(&self, credential: Credential) -> Session {
        Session::start(self.clone(), credential, None)
    }

    /// A session for a token whose facts are known already (from [`Self::validate`]): Keystone is not asked again.
    pub fn session_known(&self, token: SecretString, info: Arc<TokenInfo>) -> Session {
        Session::start(self.clone(), Credential::Token(token), Some(info))
    }

    /// What Keystone says about a token, asked as `service`; `None` when it is unknown or revoked, or has expired. With `allow_expired`, one that
    /// has expired within Keystone's own window (`[token] allow_expired_window` of Keystone) is known still.
    ///
    /// # Errors
    /// [`CloudError`] when Keystone gives no such answer.
    pub async fn validate(&self, service: &Session, token: &SecretString, allow_expired: bool) -> Result<Option<TokenInfo>, CloudError> {
        let mut request = Request::get(Service::Identity, "token_validate", ["auth", "tokens"])
            .query_if("allow_expired", allow_expired.then_some("true"))
            .hide(token);
        request.subject = Some(token.clone());
        request.by_catalogue = true;
        Ok(service.find::<TokenAnswer>(request).await?.map(TokenInfo::from))
    }
}

fn client(options: &CloudOptions, trust: &TlsTrust) -> Result<reqwest::Client, String> {
    // Another part of the process may have installed it already; both are ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let identity = match &trust.identity {
        Some(pem) => {
            let read = reqwest::Identity::from_pem(pem.expose_secret().as_bytes());
            Some(read.map_err(|_| "certfile, keyfile: no PEM certificate with its key (not encrypted)")?)
        }
        None => None,
    };
    let builder = || {
        let builder = reqwest::Client::builder()
            .user_agent("magnum")
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(options.connect_timeout)
            .pool_idle_timeout(Duration::from_secs(30))
            // Each keeps a buffer as long as its longest answers, and after hundreds of requests at once hundreds of them would be kept.
            .pool_max_idle_per_host(MOST_IDLE)
            // The environment is read by the server crate only.
            .no_proxy()
            // Errors go to tenants: no words of the machine's resolver.
            .dns_resolver(Permitted(Networks::default()))
            .tls_danger_accept_invalid_certs(trust.insecure);
        match &identity {
            Some(identity) => builder.identity(identity.clone()),
            None => builder,
        }
    };
    if let Some(pem) = &trust.ca {
        let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|_| "ca_file: no PEM certificates")?;
        if certificates.is_empty() {
            return Err("ca_file: no PEM certificates".to_owned());
        }
        return builder().tls_certs_only(certificates).build().map_err(|_| "ca_file: a certificate cannot be used".to_owned());
    }
    // A machine without any CA bundle can still reach plain http; https then trusts nobody.
    builder().build().or_else(|_| builder().tls_certs_only([]).build()).map_err(|error| format!("HTTP client: {error}"))
}
