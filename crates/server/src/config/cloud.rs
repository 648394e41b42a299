//! How to reach and log in to OpenStack: `[keystone_auth]`, `[keystone_authtoken]`, the `[*_client]` sections.

use std::path::PathBuf;

use secrecy::SecretString;

use super::options::section;
use super::value::{Positive, words};

words! {
    /// Which of a service's addresses to use.
    Interface {
        /// For everyone.
        Public = "public" | "publicURL",
        /// For services.
        Internal = "internal" | "internalURL",
        /// For administrators.
        Admin = "admin" | "adminURL",
    }
}

words! {
    /// How tokens are kept in memcached.
    MemcacheStrategy {
        /// In the clear, upstream.
        None = "None",
        /// Signed, upstream.
        Mac = "MAC",
        /// Encrypted.
        Encrypt = "ENCRYPT",
    }
}

section! {
    /// The client of one OpenStack service.
    Client {
        /// Region of the service. Unset: any.
        region_name: Option<String>,
        /// Which address of the service to use: public, internal or admin.
        endpoint_type: Interface = "publicURL",
        /// File of certificate authorities (PEM). Unset: that of `[keystone_auth]`.
        ca_file: Option<PathBuf>,
        /// Client certificate (PEM). Unset: that of `[keystone_auth]`.
        cert_file: Option<PathBuf>,
        /// Key of the client certificate (PEM).
        key_file: Option<PathBuf>,
        /// Do not verify the service's certificate. Unset: as `[keystone_auth]` says, unless ca_file is given.
        insecure: Option<bool>,
    }
}

section! {
    /// The service's own login. What is missing is taken from `[keystone_authtoken]`, but neither cafile nor insecure where this
    /// section has a cafile or insecure = true. Only Keystone, which may have another address for callers' tokens, is believed by
    /// the cafile of either.
    Credentials {
        /// Kind of login; only `password` is supported.
        auth_type: Option<String>,
        /// Section that holds these options instead of this one.
        auth_section: Option<String>,
        /// Address of Keystone.
        auth_url: Option<String>,
        /// Name of the user.
        username: Option<String>,
        /// Id of the user.
        user_id: Option<String>,
        /// Password of the user.
        password: Option<SecretString>,
        /// Name of the user's domain.
        user_domain_name: Option<String>,
        /// Id of the user's domain.
        user_domain_id: Option<String>,
        /// Name of the project.
        project_name: Option<String>,
        /// Id of the project.
        project_id: Option<String>,
        /// Name of the project's domain.
        project_domain_name: Option<String>,
        /// Id of the project's domain.
        project_domain_id: Option<String>,
        /// Name of the domain of user and project when they have none of their own.
        default_domain_name: Option<String>,
        /// Id of the domain of user and project when they have none of their own.
        default_domain_id: Option<String>,
        /// A token for the whole system (`all`) instead of a project: not asked for, because Heat's address and Barbican's secrets belong to a
        /// project. Where a project is named, it counts, and a start says so in the log; where none is, a start ends with this reason.
        system_scope: Option<String>,
        /// File of certificate authorities (PEM) for all services. Unset: those of the machine.
        cafile: Option<PathBuf>,
        /// Client certificate (PEM).
        certfile: Option<PathBuf>,
        /// Key of the client certificate (PEM).
        keyfile: Option<PathBuf>,
        /// Do not verify certificates.
        insecure: Option<bool>,
        /// Seconds after which a call of a service is given up. Unset: the client's own limit.
        timeout: Option<u64>,
    }
}

impl Credentials {
    /// Whether there is a user to log in as.
    fn has_login(&self) -> bool {
        (self.username.is_some() || self.user_id.is_some()) && self.password.is_some()
    }

    /// Whether the section itself says whom to believe. That certificates are to be verified says nothing of by whom.
    pub(super) fn has_trust(&self) -> bool {
        self.cafile.is_some() || self.insecure == Some(true)
    }

    /// Fills what is missing from another section. Login options are taken together or not at all, so that one section's
    /// user never meets the other's password or domain; so are `cafile` and `insecure`, for who names authorities wants them asked.
    pub(super) fn or(self, other: &Self) -> Self {
        let (cafile, insecure) = match self.has_trust() {
            true => (self.cafile, self.insecure),
            false => (other.cafile.clone(), self.insecure.or(other.insecure)),
        };
        let certfile = self.certfile.or_else(|| other.certfile.clone());
        let keyfile = self.keyfile.or_else(|| other.keyfile.clone());
        let timeout = self.timeout.or(other.timeout);
        let empty = Self { cafile: None, certfile: None, keyfile: None, ..self };
        let login = if empty.has_login() { empty } else { other.clone() };
        Self { auth_url: login.auth_url.or_else(|| other.auth_url.clone()), cafile, certfile, keyfile, insecure, timeout, ..login }
    }
}

section! {
    /// How tokens of callers are checked; also holds a login (the options of `[keystone_auth]`).
    Authtoken {
        /// Public address of Keystone, told to callers without a token.
        www_authenticate_uri: Option<String>,
        /// Region of Keystone.
        region_name: Option<String>,
        /// Which address of Keystone in the catalogue callers' tokens are checked at: public, internal or admin. Where the catalogue has no such one,
        /// and for all else: auth_url.
        interface: Interface = "internal",
        /// Seconds for which the answer to a token is remembered; -1 turns that off.
        token_cache_time: i64 = "300",
        /// Seconds after which a try to reach Keystone is given up. Unset: the client's own limit.
        http_connect_timeout: Option<u64>,
        /// Repetitions of a failed call of Keystone.
        http_request_max_retries: u32 = "3",
        /// Roles of which one makes a service token (X-Service-Token) count: the caller's own may then have expired.
        service_token_roles: Vec<String> = "service",
        /// A service token without such a role is refused; if not, it is taken, and makes up for nothing that has expired.
        service_token_roles_required: bool = "true",
        /// Memcached servers (host:port) through which API processes tell each other what Keystone said of a token. Unset: each asks for itself.
        memcached_servers: Vec<String>,
        /// None, MAC or ENCRYPT. What is shared is encrypted and cannot be forged, whichever is set; with the latter two memcache_secret_key is needed.
        memcache_security_strategy: MemcacheStrategy = "None",
        /// What the key is made of that shared tokens are encrypted with. Unset: the password of the service's user.
        memcache_secret_key: Option<SecretString>,
        /// Seconds that one look at memcached may take.
        memcache_pool_socket_timeout: Positive = "3",
        /// Seconds for which a server that did not answer is left alone.
        memcache_pool_dead_retry: u64 = "300",
        /// Memcached wants TLS: not spoken, nothing is shared then.
        memcache_tls_enabled: bool = "false",
        /// Memcached wants a login: not done, nothing is shared then.
        memcache_sasl_enabled: bool = "false",
        /// Type of this service, for tokens limited by access rules: no effect, such tokens are refused by Keystone.
        service_type: Option<String>,
    }
}
