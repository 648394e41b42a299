//! A conductor on a machine of its own: a runtime with a clock of its own, which runs only when it is told to.
//!
//! A crash drops the runtime, and with it every task wherever it waits. A pause is not to be told to run; what should have happened
//! meanwhile happens all at once afterwards, as on a machine that was stopped.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use conductor::{Conductor, DefaultVolumes, Metrics, Notifications, Settings, Timing};
use model::certificate::keeper::{Held, Keepers};
use model::operation::{Deadlines, StepLimits};
use model::queue::{Doorbell, Listener, memory};
use model::seal::Sealer;
use model::simulation::Simulation;
use model::store::Store;
use provider_clients::{Cloud, CloudOptions, Credential, Scope, Session, UserRef};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::carrier::Road;
use crate::gate::Way;
use crate::{older, scene};

pub struct Host {
    runtime: Runtime,
    number: usize,
    /// The moment of the runtime's clock at which it started, and what the world's clock said.
    since: Instant,
    started: Duration,
    /// How far its clock is ahead of the true time now.
    ahead: TimeDelta,
    pub bell: memory::Bell,
    pub stop: CancellationToken,
    /// Not run before this time.
    pub paused_until: Option<Duration>,
    is_behind: bool,
    /// The latest version of payloads that it understands; none: this program's.
    known: Option<u32>,
}

/// What every conductor is given.
pub struct Parts {
    pub store: Store,
    pub auth_url: String,
    pub sealer: Sealer,
    /// Rings reach the conductors by way of the world.
    pub doorbell: memory::Bell,
    /// Whether certificates are kept in Barbican.
    pub in_barbican: bool,
    /// How long single steps may take.
    pub step_limits: StepLimits,
    pub seed: u64,
}

impl Host {
    /// Starts the conductor of this number, in this life.
    pub fn start(number: usize, life: u32, parts: &Parts, at: Duration) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let (bell, listener) = memory::channel();
        let host = format!("conductor-{number}-{life}");
        let road = Arc::new(Road { conductor: number, host: host.clone() });
        let cloud = Cloud::carried_by(CloudOptions::new(parts.auth_url.clone()), road).expect("a cloud");
        let domain = Some("magnum".to_owned());
        let user = UserRef { name: Some("magnum_domain_admin".into()), domain_name: domain.clone(), ..UserRef::default() };
        let scope = Scope::Domain { id: None, name: domain };
        let admin = admin(&cloud);
        let barbican = parts.in_barbican.then(|| server::wire::in_barbican(&admin));
        let keepers = barbican.map(|keeper| Keepers { new: Held::Barbican, barbican: Some(keeper), local: None }).unwrap_or_default();
        let conductor = Conductor {
            store: parts.store.behind(Arc::new(Way(number))),
            doorbell: Doorbell::Memory(parts.doorbell.clone()),
            listener: Listener::Memory(listener),
            trustee_admin: cloud.session(Credential::Password { user, password: cloud_simulator::SERVICE_PASSWORD.into(), scope }),
            admin: Some(admin),
            cloud,
            service: None,
            notices: None,
            sealer: parts.sealer.clone(),
            keepers,
            settings: settings(host, parts.step_limits.clone()),
            metrics: Metrics::default(),
            capi: None,
            // Nobody sends them: at the end the outbox holds all.
            notifications: Some(Notifications { bus: None, longest: Duration::MAX }),
            tracing: None,
        };
        let stop = CancellationToken::new();
        let since = runtime.block_on(async { Instant::now() });
        let told = stop.clone();
        runtime.spawn(async move {
            if let Err(ended) = conductor.run(told).await {
                scene::with(|s| s.found(format!("conductor {number}: {ended}")));
            }
        });
        Self {
            runtime,
            number,
            since,
            started: at,
            ahead: TimeDelta::zero(),
            bell,
            stop,
            paused_until: None,
            is_behind: false,
            known: older::known(parts.seed, number),
        }
    }

    /// Runs until the world's clock says this.
    pub fn run_until(&mut self, simulation: &Simulation, at: Duration) {
        let until = self.since + (at - self.started);
        let wall = scene::start() + TimeDelta::from_std(self.started).expect("short") + self.ahead;
        let (since, is_behind) = (self.since, std::mem::take(&mut self.is_behind));
        simulation.know(self.known);
        self.runtime.block_on(async {
            // Whatever is asked from here on is told the conductor's own time.
            simulation.go(wall + TimeDelta::from_std(Instant::now() - since).expect("short"));
            if is_behind {
                tokio::time::advance(until - Instant::now()).await;
            }
            tokio::time::sleep_until(until).await;
        });
        simulation.know(None);
    }

    /// Its clock is ahead of the true time by so much from now on.
    pub fn set_clock(&mut self, ahead: TimeDelta) {
        self.ahead = ahead;
        scene::with(|s| s.ahead.insert(self.number, ahead));
    }

    /// Does not run for a while.
    pub fn pause(&mut self, until: Duration) {
        self.paused_until = Some(until);
        self.is_behind = true;
    }
}

fn admin(cloud: &Cloud) -> Session {
    let domain = Some("Default".to_owned());
    let user = UserRef { name: Some("magnum".into()), domain_name: domain.clone(), ..UserRef::default() };
    let scope = Scope::Project { id: None, name: Some("service".into()), domain_id: None, domain_name: domain };
    cloud.session(Credential::Password { user, password: cloud_simulator::SERVICE_PASSWORD.into(), scope })
}

fn settings(host: String, step_limits: StepLimits) -> Settings {
    Settings {
        host,
        max_running: 8,
        max_held: 100,
        heat_requests_per_second: 16.0,
        max_heat_requests_per_second: 16.0,
        timing: Timing::default(),
        retention: Duration::from_secs(30 * 24 * 3600),
        deadlines: Deadlines::default(),
        step_limits,
        load_balancer_timeout: Duration::from_secs(60),
        // The shortest key that can sign: what it protects is not what is looked at here.
        validity_days: 365,
        rsa_bits: 1024,
        // Nothing goes on between events that the seed did not order.
        keys_ahead: 0,
        trustee_domain_id: None,
        trust_roles: Vec::new(),
        cluster_user_trust: true,
        verify_ca: true,
        keystone_auth: true,
        encrypt_secrets: true,
        keystone_policy: None,
        post_install_manifest: None,
        downloads_mirror: None,
        health_denied_networks: provider_clients::Networks::default(),
        region: None,
        heat_templates: conductor::SHIPPED_TEMPLATES.clone(),
        openstack_ca: String::new(),
        nodes_affinity_policy: "soft-anti-affinity".into(),
        default_volumes: DefaultVolumes::default(),
    }
}
