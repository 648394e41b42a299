//! What every part of a conductor needs, and the conductor's life from start to stop.

use std::sync::Arc;
use std::time::Duration;

use model::certificate::Terms;
use model::queue::{Doorbell, Listener};
use model::seal::Sealer;
use model::store::Store;
use provider_clients::{Cloud, Session};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{heartbeat, scan, worker};

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
    /// How often the service row says that this host is alive.
    pub service_beat: Duration,
    /// How long a stop waits for the step at work before it is abandoned (it can be repeated).
    pub grace: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            heartbeat: Duration::from_secs(3),
            scan: Duration::from_secs(2),
            poll_min: Duration::from_secs(1),
            poll_max: Duration::from_secs(10),
            settle: Duration::from_secs(30),
            service_beat: Duration::from_secs(60),
            grace: Duration::from_secs(20),
        }
    }
}

/// What a conductor is told by its configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shown in the service list.
    pub host: String,
    /// Operations worked on at once.
    pub max_running: usize,
    pub timing: Timing,
    /// Minutes a stack may take when the request named none.
    pub create_timeout_minutes: u32,
    pub terms: Terms,
    /// The domain of the trustees; none: the domain that the trustee domain admin's token is scoped to.
    pub trustee_domain_id: Option<String>,
    /// Roles to delegate; empty: all that the caller has.
    pub trust_roles: Vec<String>,
    pub nodes_affinity_policy: String,
    pub default_boot_volume_size: i64,
    pub default_boot_volume_type: Option<String>,
}

/// A conductor, ready to run.
pub struct Conductor {
    pub store: Store,
    pub doorbell: Doorbell,
    pub listener: Listener,
    pub cloud: Cloud,
    /// Logs in as the admin of the trustee domain.
    pub trustee_admin: Session,
    pub sealer: Sealer,
    pub settings: Settings,
}

/// The shared part of a running conductor.
pub(crate) struct Context {
    pub store: Store,
    pub doorbell: Doorbell,
    pub cloud: Cloud,
    pub trustee_admin: Session,
    pub sealer: Sealer,
    pub settings: Settings,
    /// Unique to this process: a restarted conductor is another owner.
    pub owner: String,
    /// One permit for each operation owned.
    pub permits: Arc<Semaphore>,
    /// Set when the conductor is to stop.
    pub stop: CancellationToken,
    pub tasks: TaskTracker,
}

impl Conductor {
    /// Works until `stop` is cancelled, then hands everything back and returns.
    pub async fn run(self, stop: CancellationToken) {
        let owner = format!("{}:{}:{:08x}", self.settings.host, std::process::id(), rand::random::<u32>());
        let permits = Arc::new(Semaphore::new(self.settings.max_running.max(1)));
        let grace = self.settings.timing.grace;
        let cx = Arc::new(Context {
            store: self.store,
            doorbell: self.doorbell,
            cloud: self.cloud,
            trustee_admin: self.trustee_admin,
            sealer: self.sealer,
            settings: self.settings,
            owner,
            permits,
            stop: stop.clone(),
            tasks: TaskTracker::new(),
        });
        tracing::info!(owner = %cx.owner, max_running = cx.settings.max_running, "conductor started");
        let mut loops = [
            tokio::spawn(worker::listen(cx.clone(), self.listener)),
            tokio::spawn(scan::run(cx.clone())),
            tokio::spawn(heartbeat::run(cx.clone())),
        ];
        stop.cancelled().await;
        // Everybody saw the same signal. The loops end first, for a claim that is under way must be given back too; then each worker ends its
        // step, gives its operation back and rings for the next conductor.
        let handed_back = async {
            for task in &mut loops {
                if let Err(error) = task.await {
                    tracing::error!(%error, "a loop of the conductor ended badly");
                }
            }
            cx.tasks.close();
            cx.tasks.wait().await;
        };
        if tokio::time::timeout(grace + Duration::from_secs(5), handed_back).await.is_err() {
            tracing::warn!("some operations could not be handed back in time; their leases will run out");
        }
        for task in loops {
            task.abort();
        }
        tracing::info!("conductor stopped");
    }
}
