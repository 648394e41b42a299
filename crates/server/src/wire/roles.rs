//! The two roles, ready to run.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, bail};
use conductor::{Conductor, DefaultVolumes, SHIPPED_TEMPLATES, Timing};
use model::certificate::signing::SigningRules;
use model::notification::publisher_of;
use model::queue::amqp::{NoticeSource, StackNotices};
use model::queue::{Doorbell, LAST_RINGS, Listener, amqp};
use model::store::Store;
use provider_clients::{Session, Watchers};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{capi, certificates, cloud, deadlines, heat_templates, kubernetes, requests};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;
use crate::telemetry;

/// Presence of this file takes an API process out of its load balancer (upstream's api-paste.ini names it).
const HEALTHCHECK_DISABLE: &str = "/etc/magnum/healthcheck_disable";

/// What the API needs beside the configuration.
pub struct ApiRole {
    pub store: Store,
    pub metrics: Arc<Metrics>,
    /// None: RabbitMQ, as configured.
    pub doorbell: Option<Doorbell>,
    /// None: the configured address.
    pub listener: Option<TcpListener>,
}

/// What the conductor needs beside the configuration.
pub struct ConductorRole {
    pub store: Store,
    pub metrics: Arc<Metrics>,
    /// None: RabbitMQ, as configured.
    pub doorbell: Option<(Doorbell, Listener)>,
}

/// Serves the API until the shutdown begins, and lets requests at work end within its grace.
pub async fn api(config: &Config, role: ApiRole, shutdown: &Shutdown) -> anyhow::Result<()> {
    deadlines::warn(config);
    let tls = super::tls::server(config)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let cloud = cloud::cloud(config, watchers(config, &role.metrics))?;
    let service = cloud::service(config, &cloud)?;
    let listener = match role.listener {
        Some(listener) => listener,
        None => listen(SocketAddr::new(config.api.host, config.api.port))?,
    };
    let address = listener.local_addr()?;
    let doorbell = match role.doorbell {
        Some(bell) => bell,
        None => {
            let bell = Doorbell::Amqp(amqp::Bell::start(super::amqp(config)?));
            role.metrics.show_doorbell(&bell);
            bell
        }
    };
    let (stopping, later, last_rings) = (shutdown.clone(), TaskTracker::new(), doorbell.clone());
    let settings = api::Settings { leaving: Arc::new(move || stopping.has_begun()), ..api_settings(config)? };
    let finding = AbortOnDropHandle::new(tokio::spawn(find_trustee_domain(
        cloud::trustee_admin(config, &cloud).ok(),
        settings.trustee_domain_id.clone(),
    )));
    let (policy, watch) = super::policy::policy(config)?;
    let watching = AbortOnDropHandle::new(tokio::spawn(watch.run()));
    let metrics = role.metrics.api();
    let server = api::serve(
        api::Api {
            store: role.store.clone(),
            doorbell,
            cloud,
            keepers: certificates::keepers(config, &service),
            service,
            sealer: super::sealer(config)?,
            foresight: super::foresight::foresight(config),
            settings,
            policy,
            tls,
            metrics,
            tracing: telemetry::tracing(&config.tracing),
            later: later.clone(),
        },
        listener,
    )?;
    tracing::info!("Serving the API on {scheme}://{address}");
    let handle = server.handle();
    let running = tokio::spawn(server);
    tokio::select! {
        () = shutdown.begun() => {}
        failed = wrong_schema(&role.store) => return Err(failed),
    }
    let delay = requests::delay(config);
    if !delay.is_zero() {
        tracing::info!("Health checks fail from now on; serving ends in {} s", delay.as_secs());
        tokio::time::sleep(delay).await;
    }
    drop((finding, watching));
    // While the workers are there: connections that this work has to the database are theirs.
    later.close();
    if tokio::time::timeout(requests::LATER, later.wait()).await.is_err() {
        tracing::warn!("{} requests whose clients have left may be cut off", later.len());
    }
    handle.stop(true).await;
    running.await.context("the HTTP server")??;
    last_rings.settled(LAST_RINGS).await;
    Ok(())
}

/// Asks Keystone for the id of the trustee domain until it is known; policies refuse that domain's users by it from then on, and until then by
/// the domain's name. A deployment without a domain admin has no such users.
async fn find_trustee_domain(admin: Option<Session>, known: Arc<OnceLock<String>>) {
    let Some(admin) = admin else { return };
    let ask = || {
        let admin = admin.clone();
        async move {
            let info = admin.info().await.map_err(|error| error.to_string())?;
            info.domain_id.clone().ok_or_else(|| "its admin's token is not scoped to a domain: see [trust]".to_owned())
        }
    };
    until_known(&known, ask).await;
}

/// Asks until there is an answer, which is kept. The pauses double up to a minute: what is wrong may be put right in Keystone at any time.
async fn until_known<F: Future<Output = Result<String, String>>>(known: &OnceLock<String>, ask: impl Fn() -> F) {
    let mut pause = Duration::from_secs(1);
    while known.get().is_none() {
        match ask().await {
            Ok(id) => {
                known.get_or_init(|| id);
            }
            Err(reason) => {
                tracing::warn!(reason, "Failed to find the trustee domain; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(60));
            }
        }
    }
}

/// Ends only when the schema is wrong.
async fn wrong_schema(store: &Store) -> anyhow::Error {
    match super::check_schema(store).await {
        Ok(()) => std::future::pending().await,
        Err(error) => error,
    }
}

/// Runs a conductor until the shutdown begins and its work is handed back.
pub async fn conductor(config: &Config, role: ConductorRole, shutdown: &Shutdown) -> anyhow::Result<()> {
    let cloud = cloud::cloud(config, watchers(config, &role.metrics))?;
    let trustee_admin = cloud::trustee_admin(config, &cloud)?;
    let (doorbell, listener) = match role.doorbell {
        Some(pair) => pair,
        None => {
            let options = super::amqp(config)?;
            let bell = Doorbell::Amqp(amqp::Bell::start(options.clone()));
            role.metrics.show_doorbell(&bell);
            (bell, Listener::Amqp(amqp::Listener::start(options)))
        }
    };
    let operations = &config.operations;
    let service = operations.heat_global_listing.then(|| cloud::service(config, &cloud)).transpose()?;
    let admin = cloud::service(config, &cloud)?;
    deadlines::warn(config);
    let settings = conductor_settings(config)?;
    let (capi, reloads) = capi::capi(config, &watchers(config, &role.metrics), &settings.openstack_ca)?.unzip();
    let reloads = reloads.unwrap_or_default().into_iter();
    let _reloading: Vec<_> = reloads.map(|reload| AbortOnDropHandle::new(tokio::spawn(reload.run()))).collect();
    let notices = if operations.heat_notifications { Some(notices(config)?) } else { None };
    let conductor = Conductor {
        store: role.store.clone(),
        doorbell,
        listener,
        cloud,
        trustee_admin,
        service,
        keepers: certificates::keepers(config, &admin),
        admin: Some(admin),
        notices,
        sealer: super::sealer(config)?,
        settings,
        metrics: role.metrics.conductor(&role.store),
        capi,
        notifications: super::notifications(config)?,
        tracing: telemetry::tracing(&config.tracing),
    };
    let stop = shutdown.token().clone();
    tokio::select! {
        ended = conductor.run(stop) => ended.map_err(Into::into),
        failed = wrong_schema(&role.store) => Err(failed),
    }
}

/// Listens to Heat's notifications on a queue of this process's own.
fn notices(config: &Config) -> anyhow::Result<StackNotices> {
    let operations = &config.operations;
    let source =
        NoticeSource { exchange: operations.heat_notification_exchange.clone(), topic: operations.heat_notification_topic.clone() };
    Ok(StackNotices::start(super::amqp(config)?, source))
}

/// Who watches the calls to the cloud.
fn watchers(config: &Config, metrics: &Metrics) -> Watchers {
    Watchers { observer: Some(metrics.observer()), tracing: telemetry::tracing(&config.tracing) }
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).with_context(|| format!("listen on {address} ([api] host, port)"))
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn api_settings(config: &Config) -> anyhow::Result<api::Settings> {
    let auth = &config.keystone_authtoken;
    let public = auth.www_authenticate_uri.clone().or_else(|| config.keystone_auth.auth_url.clone());
    let marker = PathBuf::from(HEALTHCHECK_DISABLE);
    Ok(api::Settings {
        max_limit: i64::from(config.api.max_limit.0),
        default_clusters_per_project: i64::from(config.quotas.max_clusters_per_project),
        default_nodes_per_project: config.quotas.max_nodes_per_project.map(i64::from),
        service_down_time: i64::try_from(config.service.service_down_time).unwrap_or(i64::MAX),
        deadlines: deadlines::deadlines(config),
        step_limits: config.operations.step_seconds.clone(),
        publisher: config.oslo_messaging_notifications.envelope().map(|_| publisher_of(&host(config))),
        allowed_network_drivers: config.cluster_template.kubernetes_allowed_network_drivers.clone(),
        default_network_driver: config.cluster_template.kubernetes_default_network_driver.clone(),
        disabled_drivers: config.drivers.disabled_drivers.clone(),
        management_clusters: capi::rules(config)?,
        capi_rotation_pause: (!capi::controllers(config)?.is_empty()).then(|| capi::rotation_pause(config)),
        strict_labels: config.drivers.strict_labels,
        default_driver: config.drivers.default_driver.clone().filter(|name| !name.is_empty()),
        default_boot_volume_size: i64::from(config.cinder.default_boot_volume_size),
        signing: SigningRules {
            allow_ca: config.x509.allow_ca,
            allowed_extensions: config.x509.allowed_extensions.clone(),
            allowed_key_usage: config.x509.allowed_key_usage.clone(),
            validity_days: config.x509.term_of_validity.0,
            longest: config.x509.max_signed_seconds.map(|seconds| Duration::from_secs(u64::from(seconds.0))),
        },
        www_authenticate_uri: public.unwrap_or_default(),
        trustee_domain_id: config.trust.trustee_domain_id.clone().map_or_else(Arc::default, |id| Arc::new(OnceLock::from(id))),
        trustee_domain_name: config.trust.trustee_domain_name.clone(),
        enable_proxy_headers: config.oslo_middleware.enable_proxy_headers_parsing,
        cloud_check_cache: Duration::from_secs(config.requests.cloud_check_cache_seconds.min(300)),
        token_cache_seconds: u64::try_from(auth.token_cache_time).unwrap_or(0),
        token_sharing: super::sharing::tokens(config)?,
        service_tokens: api::ServiceTokens {
            roles: auth.service_token_roles.clone(),
            are_roles_required: auth.service_token_roles_required,
        },
        healthcheck_disabled: Arc::new(move || marker.exists()),
        workers: if config.api.workers == 0 { cpus() } else { config.api.workers as usize },
        limits: requests::limits(config),
        rate: requests::rate(config),
        cors: requests::cors(config),
        ..api::Settings::default()
    })
}

fn conductor_settings(config: &Config) -> anyhow::Result<conductor::Settings> {
    let operations = &config.operations;
    let standing = |seconds: u64| Some(Duration::from_secs(seconds)).filter(|s| config.service.periodic_enable && !s.is_zero());
    let timing = Timing {
        lease: Duration::from_secs(operations.lease_seconds),
        heartbeat: Duration::from_secs(operations.heartbeat_seconds),
        scan: Duration::from_secs(operations.scan_seconds.max(1)),
        poll_min: Duration::from_millis(operations.poll_min_ms.max(1)),
        poll_max: Duration::from_millis(operations.poll_max_ms.max(operations.poll_min_ms).max(1)),
        settle: Duration::from_secs(operations.settle_seconds),
        health: health_interval(config),
        grace: Duration::from_secs(config.service.graceful_shutdown_timeout.min(20)),
        housekeeping: Duration::from_secs(u64::from(operations.housekeeping_seconds.0)),
        sweep: standing(operations.sweep_seconds),
        credentials: standing(operations.credential_check_seconds),
        ..Timing::default()
    };
    if timing.heartbeat.is_zero() || timing.heartbeat * 2 > timing.lease {
        let (lease, beat) = (operations.lease_seconds, operations.heartbeat_seconds);
        bail!("[operations] lease_seconds ({lease}) must be at least twice heartbeat_seconds ({beat}), which must not be 0");
    }
    Ok(conductor::Settings {
        timing,
        heat_templates: heat_templates::read(config.drivers.heat_template_dir.as_deref())?,
        openstack_ca: openstack_ca(config)?,
        keystone_policy: kubernetes::keystone_policy(config)?,
        post_install_manifest: kubernetes::post_install_manifest(config)?,
        downloads_mirror: kubernetes::downloads_mirror(config)?,
        ..without_files(config)
    })
}

/// The name of this machine.
fn host(config: &Config) -> String {
    config.service.host.clone().unwrap_or_else(|| "localhost".into())
}

/// What conductors are told but for what only their hosts have, and for how often they do what.
pub(super) fn without_files(config: &Config) -> conductor::Settings {
    let operations = &config.operations;
    conductor::Settings {
        host: host(config),
        max_running: operations.max_running.0 as usize,
        max_held: operations.max_held.0 as usize,
        heat_requests_per_second: f64::from(operations.heat_requests_per_second.0),
        max_heat_requests_per_second: f64::from(operations.max_heat_requests_per_second.0),
        timing: Timing::default(),
        retention: Duration::from_secs(u64::from(operations.retention_days) * 24 * 60 * 60),
        deadlines: deadlines::deadlines(config),
        step_limits: operations.step_seconds.clone(),
        load_balancer_timeout: Duration::from_secs(config.cluster.pre_delete_lb_timeout),
        validity_days: config.x509.term_of_validity.0,
        rsa_bits: config.x509.rsa_key_size.0,
        keys_ahead: operations.keys_ahead as usize,
        trustee_domain_id: config.trust.trustee_domain_id.clone(),
        trust_roles: config.trust.roles.clone(),
        cluster_user_trust: config.trust.cluster_user_trust,
        heat_templates: SHIPPED_TEMPLATES.clone(),
        openstack_ca: String::new(),
        verify_ca: config.drivers.verify_ca,
        keystone_auth: config.kubernetes.keystone_auth,
        encrypt_secrets: config.kubernetes.encrypt_secrets,
        keystone_policy: None,
        post_install_manifest: None,
        downloads_mirror: None,
        health_denied_networks: config.kubernetes.health_denied_networks.clone(),
        region: config.cinder_client.region_name.clone().or_else(|| config.keystone_authtoken.region_name.clone()),
        nodes_affinity_policy: config.cluster.nodes_affinity_policy.clone(),
        default_volumes: DefaultVolumes {
            boot_size: config.cinder.default_boot_volume_size,
            boot_type: config.cinder.default_boot_volume_type.clone(),
            docker_type: config.cinder.default_docker_volume_type.clone(),
            etcd_type: config.cinder.default_etcd_volume_type.clone(),
        },
    }
}

fn openstack_ca(config: &Config) -> anyhow::Result<String> {
    let Some(path) = &config.drivers.openstack_ca_file else { return Ok(String::new()) };
    std::fs::read_to_string(path).with_context(|| format!("[drivers] openstack_ca_file: read {}", path.display()))
}

/// A negative interval turns the looks at health off, and so does turning all standing tasks off.
fn health_interval(config: &Config) -> Option<Duration> {
    let seconds = u64::try_from(config.kubernetes.health_polling_interval).ok().filter(|_| config.service.periodic_enable)?;
    Some(Duration::from_secs(seconds.max(1)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_trustee_domain_is_asked_for_until_it_is_known_with_pauses_of_a_minute_at_most() {
        let (known, asked, begin) = (OnceLock::new(), Cell::new(0), Instant::now());
        let ask = || {
            asked.set(asked.get() + 1);
            let is_last = asked.get() == 10;
            async move { if is_last { Ok("1f".to_owned()) } else { Err("no domain".to_owned()) } }
        };
        until_known(&known, ask).await;
        assert_eq!((known.get().map(String::as_str), asked.get()), (Some("1f"), 10));
        assert_eq!(begin.elapsed().as_secs(), 1 + 2 + 4 + 8 + 16 + 32 + 60 + 60 + 60);
        // What is known is not asked for.
        until_known(&known, ask).await;
        assert_eq!(asked.get(), 10);
    }
}
