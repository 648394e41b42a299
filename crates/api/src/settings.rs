//! What the operator decides about the API; read from files by the server crate, never here.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::certificate::signing::SigningRules;
use model::operation::{Deadlines, StepLimits};
use model::placement::ManagementCluster;

use crate::identity::{Caller, ServiceTokens, TokenSharing};
use crate::server::cors::Cors;
use crate::server::limits::Limits;
use crate::server::rate::Rate;

/// The settings of the API. Defaults are upstream's.
#[derive(Clone)]
pub struct Settings {
    /// Items of a list page at most (`[api] max_limit`).
    pub max_limit: i64,
    /// Clusters of a project without a quota row (`[quotas] max_clusters_per_project`).
    pub default_clusters_per_project: i64,
    /// Nodes of a project without a quota row (`[quotas] max_nodes_per_project`, ours); none: as many as it likes.
    pub default_nodes_per_project: Option<i64>,
    /// Seconds without a sign of life after which a conductor counts as down (`service_down_time`).
    pub service_down_time: i64,
    /// How long operations may take.
    pub deadlines: Deadlines,
    /// How long single steps may take (`[operations] step_seconds`); conductors keep it, here it is shown.
    pub step_limits: StepLimits,
    /// Who tells others of what requests end (`model::notification`); none: nobody is told.
    pub publisher: Option<String>,
    /// `[cluster_template] kubernetes_allowed_network_drivers`; `all` allows every known one.
    pub allowed_network_drivers: Vec<String>,
    /// `[cluster_template] kubernetes_default_network_driver`.
    pub default_network_driver: String,
    /// `[drivers] disabled_drivers`.
    pub disabled_drivers: Vec<String>,
    /// The management clusters of the Cluster API driver. Where there is one, its images go to that driver, as with upstream.
    pub management_clusters: Vec<ManagementCluster>,
    /// How long a rotation of the authorities of a Cluster API cluster pauses; none: the operator has not named the controllers that it needs.
    pub capi_rotation_pause: Option<Duration>,
    /// `[drivers] default_driver`: of templates for which neither request nor image names one.
    pub default_driver: Option<String>,
    /// `[drivers] strict_labels`: labels that the driver does not know are refused.
    pub strict_labels: bool,
    /// `[cinder] default_boot_volume_size`.
    pub default_boot_volume_size: i64,
    /// `[x509]`.
    pub signing: SigningRules,
    /// Where clients find Keystone; named in every 401.
    pub www_authenticate_uri: String,
    /// The domain of the users that clusters act as; its users are refused where policies say so.
    /// Set once it is known: a configuration may name the domain only, and Keystone then tells its id.
    pub trustee_domain_id: Arc<OnceLock<String>>,
    /// The name of that domain, where the configuration has it.
    pub trustee_domain_name: Option<String>,
    /// Whether `X-Forwarded-*` and `Forwarded` are believed (`[oslo_middleware] enable_proxy_headers_parsing`).
    pub enable_proxy_headers: bool,
    /// How long a validated token is believed without asking again (`[keystone_authtoken] token_cache_time`).
    pub token_cache_seconds: u64,
    /// Where the processes tell each other what Keystone said of tokens; none: each asks for itself.
    pub token_sharing: Option<TokenSharing>,
    /// Which service tokens count.
    pub service_tokens: ServiceTokens,
    /// How long the other OpenStack services may take, all together, to answer for one request.
    pub cloud_check_deadline: Duration,
    /// How long what they have found is believed without asking again; zero asks each time.
    pub cloud_check_cache: Duration,
    /// Whether the operator has taken this process out of service (`[healthcheck] disable_by_file_path`).
    pub healthcheck_disabled: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Whether this process is about to stop: health checks fail and connections end with their next answer, while requests are served as
    /// before.
    pub leaving: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Threads that serve requests.
    pub workers: usize,
    /// What a client may take of the service.
    pub limits: Limits,
    /// How often a project may ask; none: as often as it likes.
    pub rate: Option<Rate>,
    /// Pages of which origins may use the API.
    pub cors: Cors,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_limit: 1000,
            default_clusters_per_project: 20,
            default_nodes_per_project: None,
            service_down_time: 180,
            deadlines: Deadlines::default(),
            step_limits: StepLimits::default(),
            publisher: None,
            allowed_network_drivers: vec!["flannel".into(), "calico".into()],
            default_network_driver: "flannel".into(),
            disabled_drivers: Vec::new(),
            management_clusters: Vec::new(),
            capi_rotation_pause: None,
            default_driver: None,
            strict_labels: false,
            default_boot_volume_size: 0,
            signing: SigningRules::default(),
            www_authenticate_uri: String::new(),
            trustee_domain_id: Arc::default(),
            trustee_domain_name: None,
            enable_proxy_headers: false,
            token_cache_seconds: 300,
            token_sharing: None,
            service_tokens: ServiceTokens::default(),
            cloud_check_deadline: Duration::from_secs(15),
            cloud_check_cache: Duration::from_secs(10),
            healthcheck_disabled: Arc::new(|| false),
            leaving: Arc::new(|| false),
            workers: 2,
            limits: Limits::default(),
            rate: None,
            cors: Cors::default(),
        }
    }
}

impl Settings {
    /// The id of the trustee domain, as far as it matters to this caller: until Keystone has told it, that of his own domain where this bears the
    /// trustee domain's name, so that no rule lets him in meanwhile. Capitals are not told from small letters: where databases do, some other domain's
    /// users may be refused for that while.
    pub fn trustee_domain<'a>(&'a self, caller: &'a Caller) -> Option<&'a str> {
        if let Some(id) = self.trustee_domain_id.get() {
            return Some(id);
        }
        let name = self.trustee_domain_name.as_ref()?;
        caller.user_domain_id.as_deref().filter(|_| caller.info.user_domain_name.to_lowercase() == name.to_lowercase())
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("max_limit", &self.max_limit).field("workers", &self.workers).finish_non_exhaustive()
    }
}
