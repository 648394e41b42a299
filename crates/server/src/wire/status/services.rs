//! What is asked of the cloud: logins, tokens, and the services that drivers need.

use model::driver::DriverName;
use provider_clients::{Cloud, CloudError, ErrorKind, Service, Session, TokenInfo, Watchers};

use super::super::cloud;
use crate::config::{CertManager, Config};
use crate::upgrade_check::{Check, Trouble};

/// Keystone, what trustees need of it, and the services of its catalogue.
pub(super) async fn checks(config: &Config) -> Vec<Check> {
    let cloud = match cloud::cloud(config, Watchers::default()) {
        Ok(cloud) => cloud,
        Err(error) => return vec![Check::of("Keystone", vec![Trouble::failure(format!("{error:#}"), "correct the option that is named")])],
    };
    let (keystone, trustee, catalogue) =
        futures::join!(keystone(config, &cloud), trustee_domain(config, &cloud), catalogue(config, &cloud));
    vec![Check::of("Keystone", keystone), Check::of("Trustee domain", trustee), Check::of("Service catalogue", catalogue)]
}

async fn keystone(config: &Config, cloud: &Cloud) -> Vec<Trouble> {
    let session = match cloud::service(config, cloud) {
        Ok(session) => session,
        Err(error) => return vec![Trouble::failure(format!("{error:#}"), "set the option that is named")],
    };
    let info = match session.info().await {
        Ok(info) => info,
        Err(error) => return vec![login_failed(&error, "[keystone_auth] username, password, project_name and the names of their domains")],
    };
    let mut found = Vec::new();
    if !info.roles.iter().any(|role| role == "admin") {
        let problem = format!("the service user {} has not the role admin (it has {})", info.user_name, info.roles.join(", "));
        let cure = "give it that role in its project: else it can neither list stacks of all projects nor delete what absent users left";
        found.push(Trouble::warning(problem, cure));
    }
    found.extend(callers(cloud, &session).await);
    found.extend(short_tokens(config, &info));
    found
}

/// Whether tokens of callers can be checked: Keystone may be asked for that at another address than that of logins.
async fn callers(cloud: &Cloud, session: &Session) -> Option<Trouble> {
    let error = match session.token().await {
        Ok(token) => cloud.validate(session, &token, false).await.err()?,
        Err(error) => error,
    };
    let cure = "see [keystone_authtoken] interface: which address of Keystone in the catalogue is asked; then cafile where it is https";
    Some(Trouble::failure(format!("tokens of callers cannot be checked: {error}"), cure))
}

/// With a token that is as old as its machine a node tells Heat what became of it: it gives up before that has ended.
fn short_tokens(config: &Config, info: &TokenInfo) -> Option<Trouble> {
    let lives = info.lifetime().filter(|_| has_heat(config))?.as_secs();
    let whole = 60 * u64::from(config.cluster_heat.create_timeout.0);
    (lives < whole).then(|| {
        let problem = format!(
            "tokens of Keystone live for {lives} s, and [cluster_heat] create_timeout gives clusters {whole} s: nodes have three quarters of \
             the former, for later they could not tell Heat that they are ready"
        );
        Trouble::warning(problem, "set [token] expiration in keystone.conf to no fewer seconds than the longest create_timeout has")
    })
}

/// Whether clusters of the Heat driver are made.
fn has_heat(config: &Config) -> bool {
    !config.drivers.disabled_drivers.iter().any(|name| name == DriverName::K8sFedoraCoreosV1.as_str())
}

async fn trustee_domain(config: &Config, cloud: &Cloud) -> Vec<Trouble> {
    let session = match cloud::trustee_admin(config, cloud) {
        Ok(session) => session,
        Err(error) => return vec![Trouble::failure(format!("{error:#}"), "set the option that is named, or conductors do not start")],
    };
    let login =
        "[trust] trustee_domain_admin_name, trustee_domain_admin_password, trustee_domain_name and trustee_domain_admin_domain_name";
    match session.info().await {
        Ok(info) if info.domain_id.is_none() => {
            vec![Trouble::failure(
                "the token of the trustee domain's admin is not for a domain",
                "set [trust] trustee_domain_name or trustee_domain_id",
            )]
        }
        Ok(info) if !info.roles.iter().any(|role| role == "admin") => {
            let problem = format!("{} has not the role admin on the trustee domain", info.user_name);
            vec![Trouble::failure(problem, "openstack role add --domain <domain> --user <user> admin")]
        }
        Ok(_) => Vec::new(),
        Err(error) => vec![login_failed(&error, login)],
    }
}

fn login_failed(error: &CloudError, login: &str) -> Trouble {
    let cure = match error.kind() {
        ErrorKind::Auth => format!("see {login}"),
        ErrorKind::Unreachable => "see [keystone_auth] auth_url, and cafile where it is https".to_owned(),
        ErrorKind::Refused | ErrorKind::Malformed | ErrorKind::NoEndpoint | ErrorKind::Invalid => {
            format!("see whether [keystone_auth] auth_url is Keystone's address; then {login}")
        }
    };
    Trouble::failure(error.to_string(), cure)
}

async fn catalogue(config: &Config, cloud: &Cloud) -> Vec<Trouble> {
    let Ok(session) = cloud::service(config, cloud) else { return Vec::new() };
    let Ok(info) = session.info().await else {
        return vec![Trouble::warning("the catalogue cannot be seen without a login", "see the check of Keystone")];
    };
    let heat = has_heat(config);
    let barbican = config.certificates.cert_manager_type == CertManager::Barbican;
    let wanted = [
        (Service::Orchestration, "heat_client", heat, "no cluster of the Heat driver can be made"),
        (Service::Compute, "nova_client", true, "flavors and key pairs cannot be checked"),
        (Service::Network, "neutron_client", true, "networks cannot be checked"),
        (Service::Image, "glance_client", true, "images cannot be found"),
        (Service::KeyManager, "barbican_client", barbican, "certificates cannot be kept ([certificates] cert_manager_type = barbican)"),
        (Service::LoadBalancer, "octavia_client", false, "clusters with load balancers fail"),
        (Service::BlockStorage, "cinder_client", false, "clusters with volumes fail"),
    ];
    let mut found = Vec::new();
    for (service, section, is_needed, effect) in wanted {
        // Nobody asks a service that there is not, unless something needs it.
        if !is_needed && (service == Service::Orchestration || service == Service::KeyManager) {
            continue;
        }
        let Err(error) = session.endpoint(service).await else { continue };
        let known = if info.has_service(service) { "it is there with other interfaces or regions" } else { "it is not there at all" };
        let problem = format!("{error} ({known}): {effect}");
        let cure = format!("see [{section}] endpoint_type and region_name, or register the endpoint of {}", service.name());
        found.push(if is_needed { Trouble::failure(problem, cure) } else { Trouble::warning(problem, cure) });
    }
    found
}
