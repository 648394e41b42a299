//! What every part of a conductor needs, and the conductor's life from start to stop.

use std::sync::Arc;
use std::time::Duration;

use model::certificate::Keys;
use model::certificate::keeper::Keepers;
use model::operation::{Deadlines, StepLimits};
use model::queue::amqp::StackNotices;
use model::queue::{Doorbell, LAST_RINGS, Listener};
use model::seal::Sealer;
use model::store::Store;
use provider_clients::{Cloud, Networks, Session, Tracing};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::driver::capi_helm::{Capi, door, news};
use crate::driver::heat::HeatTemplates;
use crate::follow::{self, Follower};
use crate::lease::{self, Leases};
use crate::metrics::Metrics;
use crate::notify::{Notifications, Outbox};
use crate::parts::{PartEnded, Parts};
use crate::scan::Begun;
use crate::{credential_health, health, heartbeat, housekeeping, notify, scan, sweep, worker};

/// Between two tries to have keys ready after one that failed.
const NO_KEYS: Duration = Duration::from_secs(60);

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long a claim holds without a heartbeat; another conductor takes over after that.
    pub lease: Duration,
    /// How often a claim is renewed; well below the lease.
    pub heartbeat: Duration,
    /// How often the table is scanned for operations that no bell announced.
    pub scan: Duration,
    /// The shortest and the longest pause between two looks at a stack.
    pub poll_min: Duration,
    pub poll_max: Duration,
    /// How long something whose making got no clear answer may still appear; nothing is taken for absent before that.
    pub settle: Duration,
    /// How often the health of each cluster is looked at; none: never.
    pub health: Option<Duration>,
    /// How often the credentials and certificates of each cluster are looked at; none: never.
    pub credentials: Option<Duration>,
    /// How often the service row says that this host is alive.
    pub service_beat: Duration,
    /// How long a stop waits for the step at work before it is abandoned (it can be repeated).
    pub grace: Duration,
    /// How often old operations are looked for.
    pub housekeeping: Duration,
    /// How often the cloud is compared with the tables; none: never.
    pub sweep: Option<Duration>,
}

impl Timing {
    /// How long before its end a lease is not used any more: what is dropped must be dropped before somebody else may begin, whose clock may
    /// be ahead by as much.
    pub fn margin(&self) -> Duration {
        self.lease / 4
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(8),
            heartbeat: Duration::from_secs(2),
            scan: Duration::from_secs(2),
            poll_min: Duration::from_secs(1),
            poll_max: Duration::from_secs(3),
            settle: Duration::from_secs(30),
            health: None,
            credentials: None,
            service_beat: Duration::from_secs(60),
            grace: Duration::from_secs(20),
            housekeeping: Duration::from_secs(60),
            sweep: Some(Duration::from_secs(600)),
        }
    }
}

/// What a conductor is told by its configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shown in the service list.
    pub host: String,
    /// Turns at work at once: each may be in the middle of a call to the cloud or the database.
    pub max_running: usize,
    /// Operations held at once, those that wait for the cloud included.
    pub max_held: usize,
    /// Requests per second with which all conductors together follow stacks.
    pub heat_requests_per_second: f64,
    /// The same at most, where there are so many stacks that they need more.
    pub max_heat_requests_per_second: f64,
    pub timing: Timing,
    /// How long finished operations and their events are kept.
    pub retention: Duration,
    /// How long operations may take that nobody asked for.
    pub deadlines: Deadlines,
    /// How long single steps may take (`[operations] step_seconds`).
    pub step_limits: StepLimits,
    /// How long load balancers that Kubernetes made may take to go, once they were found.
    pub load_balancer_timeout: Duration,
    /// Days from today to the end of new certificates (`[x509] term_of_validity`).
    pub validity_days: u32,
    /// Bits of their keys (`[x509] rsa_key_size`).
    pub rsa_bits: u32,
    /// How many keys are made before anybody asks for them (`[operations] keys_ahead`).
    pub keys_ahead: usize,
    /// The domain of the trustees; none: the domain that the trustee domain admin's token is scoped to.
    pub trustee_domain_id: Option<String>,
    /// Roles to delegate; empty: all that the caller has.
    pub trust_roles: Vec<String>,
    /// Whether clusters are told the trust, for the programs of the cloud provider (`[trust] cluster_user_trust`).
    pub cluster_user_trust: bool,
    /// What clusters of Heat are made from (`[drivers] heat_template_dir`).
    pub heat_templates: HeatTemplates,
    /// PEM certificates of who signed those of OpenStack's services; empty: nodes trust what their image trusts.
    pub openstack_ca: String,
    /// Whether programs inside clusters check the certificates of OpenStack's services (`[drivers] verify_ca`).
    pub verify_ca: bool,
    /// Whether users of new clusters log in to Kubernetes with Keystone, unless a label says otherwise (`[kubernetes] keystone_auth`).
    pub keystone_auth: bool,
    /// Whether secrets of new clusters are encrypted in etcd (`[kubernetes] encrypt_secrets`).
    pub encrypt_secrets: bool,
    /// Who may do what in Kubernetes by his roles in Keystone, as the webhook's policy (`[kubernetes] keystone_auth_default_policy`); none: a
    /// policy of ours.
    pub keystone_policy: Option<String>,
    /// Where a manifest is that every new cluster gets (`[kubernetes] post_install_manifest_url`).
    pub post_install_manifest: Option<String>,
    /// Where nodes download from in the place of the projects' own sites (`[kubernetes] downloads_mirror_url`); it ends with a slash.
    pub downloads_mirror: Option<String>,
    /// Where no cluster's API is asked for its health (`[kubernetes] health_denied_networks`).
    pub health_denied_networks: Networks,
    /// The region that programs inside clusters are told; none: any.
    pub region: Option<String>,
    pub nodes_affinity_policy: String,
    pub default_volumes: DefaultVolumes,
}

/// What volumes of nodes are where no label says it (`[cinder] default_*`).
#[derive(Clone, Debug, Default)]
pub struct DefaultVolumes {
    /// GiB; nodes boot from a volume where it is above 0.
    pub boot_size: u32,
    /// Types; none: Cinder's own default.
    pub boot_type: Option<String>,
    pub docker_type: Option<String>,
    pub etcd_type: Option<String>,
}

/// Operations that are given back at once, a transaction and a query each: fewer than there are connections.
const GIVEN_BACK: usize = 4;

/// A conductor, ready to run.
pub struct Conductor {
    pub store: Store,
    pub doorbell: Doorbell,
    pub listener: Listener,
    pub cloud: Cloud,
    /// Logs in as the admin of the trustee domain.
    pub trustee_admin: Session,
    /// The service user, where it may list the stacks of all projects.
    pub service: Option<Session>,
    /// The service user, who removes what nobody else can any more; of use where he is an administrator.
    pub admin: Option<Session>,
    /// Heat's own word that a stack has ended what it did, where it is to be listened to.
    pub notices: Option<StackNotices>,
    pub sealer: Sealer,
    /// Where certificates are kept.
    pub keepers: Keepers,
    pub settings: Settings,
    pub metrics: Metrics,
    /// The Cluster API driver's doors; none: clusters of that driver are not served.
    pub capi: Option<Capi>,
    /// Where notifications go; none: nobody is told.
    pub notifications: Option<Notifications>,
    /// None: operations go on with no trace.
    pub tracing: Option<Arc<dyn Tracing>>,
}

/// The shared part of a running conductor.
pub(crate) struct Context {
    pub store: Store,
    pub doorbell: Doorbell,
    pub cloud: Cloud,
    pub trustee_admin: Session,
    pub sealer: Sealer,
    pub keepers: Keepers,
    /// Private keys of new certificates.
    pub keys: Arc<Keys>,
    pub settings: Settings,
    pub metrics: Metrics,
    pub outbox: Outbox,
    pub tracing: Option<Arc<dyn Tracing>>,
    /// Unique to this process: a restarted conductor is another owner.
    pub owner: String,
    /// One for each operation that is ours.
    pub places: Arc<Semaphore>,
    /// One for each turn at work.
    pub permits: Arc<Semaphore>,
    /// One for each operation that is being given back.
    pub handing_back: Semaphore,
    pub leases: Arc<Leases>,
    pub begun: Begun,
    pub follower: Arc<Follower>,
    pub service: Option<Session>,
    pub admin: Option<Session>,
    pub capi: Option<Arc<Capi>>,
    /// Set when the conductor is to stop.
    pub stop: CancellationToken,
    pub tasks: TaskTracker,
}

impl Conductor {
    /// Works until `stop` is cancelled, then hands everything back and returns.
    ///
    /// # Errors
    /// [`PartEnded`] when something in it panicked that operations hang on: it has handed everything back then too.
    pub async fn run(self, stop: CancellationToken) -> Result<(), PartEnded> {
        let stop = stop.child_token();
        let owner = format!("{}:{}:{:08x}", self.settings.host, std::process::id(), model::random::range(0..=u32::MAX));
        let places = Arc::new(Semaphore::new(self.settings.max_held.clamp(1, Semaphore::MAX_PERMITS)));
        self.metrics.at_most(self.settings.max_held, self.settings.max_running.max(1));
        let permits = Arc::new(Semaphore::new(self.settings.max_running.max(1)));
        let timing = self.settings.timing;
        let grace = timing.grace;
        let capi = self.capi.map(Arc::new);
        if let Some(capi) = &capi {
            self.metrics.watch_over(capi.clone());
        }
        let keys = Arc::new(Keys::new(self.settings.rsa_bits, self.settings.keys_ahead));
        self.metrics.show_keys(keys.clone());
        let (usual, most) = (self.settings.heat_requests_per_second, self.settings.max_heat_requests_per_second);
        let follower = Follower::new(usual, most, timing.poll_min, timing.poll_max);
        let cx = Arc::new(Context {
            store: self.store,
            doorbell: self.doorbell,
            cloud: self.cloud,
            trustee_admin: self.trustee_admin,
            sealer: self.sealer,
            keepers: self.keepers,
            keys,
            outbox: Outbox::new(self.notifications.is_some(), &self.settings.host),
            settings: self.settings,
            metrics: self.metrics,
            tracing: self.tracing,
            owner,
            places,
            permits,
            handing_back: Semaphore::new(GIVEN_BACK),
            leases: Arc::new(Leases::new(stop.clone())),
            begun: Begun::new(),
            follower: Arc::new(follower),
            service: self.service,
            admin: self.admin,
            capi,
            stop: stop.clone(),
            tasks: TaskTracker::new(),
        });
        tracing::info!(owner = %cx.owner, max_running = cx.settings.max_running, max_held = cx.settings.max_held, "conductor started");
        // Outlives the others: what is at work while the conductor stops needs its lease.
        let mut renewing = AbortOnDropHandle::new(tokio::spawn(lease::run(cx.clone())));
        let mut parts = Parts::new(stop.clone());
        parts.needed("doorbell", worker::listen(cx.clone(), self.listener));
        parts.needed("follower", follow::run(cx.clone()));
        if let Some(notices) = self.notices {
            parts.needed("Heat's notifications", hear(cx.clone(), notices));
        }
        keep_up(&mut parts, &cx, self.notifications);
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            ended = &mut renewing => Some(PartEnded::new("the renewal of leases", ended)),
            ended = parts.first_to_end() => Some(ended),
        };
        // It may have been told to stop meanwhile.
        let ended = ended.filter(|_| !stop.is_cancelled());
        if let Some(ended) = &ended {
            tracing::error!("{ended}");
            stop.cancel();
        }
        // Everybody saw the same signal. The parts end first, for a claim that is under way must be given back too; then each worker ends its
        // step, gives its operation back and rings for the next conductor.
        let handed_back = async {
            parts.end().await;
            cx.tasks.close();
            cx.tasks.wait().await;
        };
        if tokio::time::timeout(grace + Duration::from_secs(5), handed_back).await.is_err() {
            let (parts, tasks) = (parts.at_work().join(", "), cx.tasks.len());
            tracing::warn!(parts, tasks, "not everything ended in time; the leases of what could not be handed back will run out");
        }
        drop(parts);
        drop(renewing);
        cx.doorbell.settled(LAST_RINGS).await;
        tracing::info!("conductor stopped");
        ended.map_or(Ok(()), Err)
    }
}

/// Begins what keeps nothing that it could not find again, and is begun anew where it ends badly.
fn keep_up(parts: &mut Parts, cx: &Arc<Context>, notifications: Option<Notifications>) {
    let timing = cx.settings.timing;
    let of = cx.clone();
    parts.kept_up("scan", move || scan::run(of.clone()));
    let of = cx.clone();
    parts.kept_up("heartbeat", move || heartbeat::run(of.clone()));
    let of = cx.clone();
    parts.kept_up("housekeeping", move || housekeeping::run(of.clone()));
    for (capi, door) in cx.capi.iter().flat_map(|capi| capi.doors.iter().map(move |door| (capi, door))) {
        let (at, kinds, stop) = (door.clone(), capi.settings.kinds.clone(), cx.stop.clone());
        parts.kept_up(format!("watches of {}", door.cluster.name), move || news::run(at.clone(), kinds.clone(), stop.clone()));
        let (at, stop) = (door.clone(), cx.stop.clone());
        parts.kept_up(format!("management cluster {}", door.cluster.name), move || door::run(at.clone(), stop.clone()));
    }
    if cx.keys.ahead() > 0 {
        let of = cx.clone();
        parts.kept_up("keys of certificates", move || keep_keys(of.clone()));
    }
    if let Some(interval) = timing.sweep {
        let of = cx.clone();
        parts.kept_up("sweep", move || sweep::run(of.clone(), interval));
    }
    if let Some(interval) = timing.health {
        let of = cx.clone();
        parts.kept_up("health", move || health::run(of.clone(), interval));
    }
    if let Some(interval) = timing.credentials {
        let of = cx.clone();
        parts.kept_up("credentials", move || credential_health::run(of.clone(), interval));
    }
    if let Some((bus, longest)) = notifications.and_then(|told| Some((told.bus?, told.longest))) {
        let of = cx.clone();
        parts.kept_up("notifications", move || notify::run(of.clone(), bus.clone(), longest));
    }
}

/// Has keys ready, until the conductor stops. While none can be made, whoever needs one fails for the same reason.
async fn keep_keys(cx: Arc<Context>) {
    loop {
        let pause = tokio::select! {
            biased;
            () = cx.stop.cancelled() => return,
            made = cx.keys.make_missing() => match made {
                Ok(()) => continue,
                Err(error) => {
                    tracing::warn!(?error, "no key of a certificate could be made");
                    NO_KEYS
                }
            },
        };
        tokio::select! {
            biased;
            () = cx.stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Hands on what Heat says of its stacks, until the conductor stops.
async fn hear(cx: Arc<Context>, mut notices: StackNotices) {
    loop {
        tokio::select! {
            biased;
            stack_id = notices.next() => cx.follower.announced(&stack_id),
            () = cx.stop.cancelled() => return,
        }
    }
}
