//! The cloud: where Keystone is and as whom we log in.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, bail};
use provider_clients::{Cloud, CloudOptions, Credential, Interface, Scope, Service, Session, UserRef, Watchers};

use super::transport;
use crate::config::{Client, Config, Interface as Configured};

/// The cloud of `[keystone_auth]`, with the interfaces of the client sections.
pub(super) fn cloud(config: &Config, watchers: Watchers) -> anyhow::Result<Cloud> {
    let login = &config.keystone_auth;
    let auth_url = login.auth_url.clone().context("[keystone_auth] auth_url is missing (or that of [keystone_authtoken])")?;
    let mut options = CloudOptions::new(auth_url);
    let clients: [(Service, &Client); 7] = [
        (Service::Orchestration, &config.heat_client),
        (Service::Image, &config.glance_client),
        (Service::Compute, &config.nova_client),
        (Service::Network, &config.neutron_client),
        (Service::BlockStorage, &config.cinder_client),
        (Service::LoadBalancer, &config.octavia_client),
        (Service::KeyManager, &config.barbican_client),
    ];
    options.region = region(config, &clients)?;
    options.interfaces = clients.iter().map(|(service, client)| (*service, interface(client.endpoint_type))).collect::<HashMap<_, _>>();
    options.interfaces.insert(Service::Identity, interface(config.keystone_authtoken.interface));
    options.trust = transport::cloud(login, &config.trust_section)?;
    if let Some(own) = transport::keystone(login, &config.keystone_authtoken_login, &options.trust)? {
        options.own_trust.insert(Service::Identity, own);
    }
    for (service, client) in clients {
        if let Some(own) = transport::service(&format!("{}_client", service.name()), client, &options.trust)? {
            options.own_trust.insert(service, own);
        }
    }
    if options.trust.insecure {
        tracing::warn!(
            "[{}] insecure: certificates of Keystone, and of services whose sections say nothing else, are not verified",
            config.trust_section
        );
    }
    for (service, _) in options.own_trust.iter().filter(|(_, own)| own.insecure) {
        tracing::warn!("[{}_client] insecure: the service's certificate is not verified", service.name());
    }
    if let Some(seconds) = login.timeout {
        options.timeout = Duration::from_secs(seconds.max(1));
    }
    if let Some(seconds) = config.keystone_authtoken.http_connect_timeout {
        options.connect_timeout = Duration::from_secs(seconds.max(1));
    }
    Ok(Cloud::watched(options, watchers)?)
}

/// One process works in one region; the client sections must agree on it.
fn region(config: &Config, clients: &[(Service, &Client)]) -> anyhow::Result<Option<String>> {
    let mut named = clients.iter().filter_map(|(_, c)| c.region_name.clone()).chain(config.keystone_authtoken.region_name.clone());
    let first = named.next();
    if let Some(other) = named.find(|name| Some(name) != first.as_ref()) {
        bail!("the client sections name two regions ({} and {other}): they must name one", first.unwrap_or_default());
    }
    Ok(first)
}

fn interface(configured: Configured) -> Interface {
    match configured {
        Configured::Public => Interface::Public,
        Configured::Internal => Interface::Internal,
        Configured::Admin => Interface::Admin,
    }
}

/// The service user.
pub(super) fn service(config: &Config, cloud: &Cloud) -> anyhow::Result<Session> {
    let login = &config.keystone_auth;
    if let Some(kind) = login.auth_type.as_deref().filter(|t| !matches!(*t, "password" | "v3password")) {
        bail!("[keystone_auth] auth_type = {kind}: only password is supported");
    }
    let user = UserRef {
        id: login.user_id.clone(),
        name: login.username.clone(),
        domain_id: login.user_domain_id.clone().or_else(|| login.default_domain_id.clone()),
        domain_name: login.user_domain_name.clone().or_else(|| login.default_domain_name.clone()),
    };
    let password = login.password.clone().context("[keystone_auth] password is missing (or that of [keystone_authtoken])")?;
    if user.id.is_none() && user.name.is_none() {
        bail!("[keystone_auth] username is missing (or that of [keystone_authtoken])");
    }
    if login.project_id.is_none() && login.project_name.is_none() {
        let scope = login.system_scope.as_ref().map_or_else(String::new, |scope| {
            format!("; system_scope = {scope} cannot take its place, for Heat's address and Barbican's secrets belong to a project")
        });
        bail!("[keystone_auth] project_name is missing (or that of [keystone_authtoken]): the service user needs a project{scope}");
    }
    let scope = Scope::Project {
        id: login.project_id.clone(),
        name: login.project_name.clone(),
        domain_id: login.project_domain_id.clone().or_else(|| login.default_domain_id.clone()),
        domain_name: login.project_domain_name.clone().or_else(|| login.default_domain_name.clone()),
    };
    Ok(cloud.session(Credential::Password { user, password, scope }))
}

/// The admin of the trustee domain.
pub(super) fn trustee_admin(config: &Config, cloud: &Cloud) -> anyhow::Result<Session> {
    let trust = &config.trust;
    let user = UserRef {
        id: trust.trustee_domain_admin_id.clone(),
        name: trust.trustee_domain_admin_name.clone(),
        domain_id: trust.trustee_domain_admin_domain_id.clone().or_else(|| trust.trustee_domain_id.clone()),
        domain_name: trust.trustee_domain_admin_domain_name.clone().or_else(|| trust.trustee_domain_name.clone()),
    };
    if user.id.is_none() && user.name.is_none() {
        bail!("[trust] trustee_domain_admin_name is missing");
    }
    let password = trust.trustee_domain_admin_password.clone().context("[trust] trustee_domain_admin_password is missing")?;
    let scope = Scope::Domain { id: trust.trustee_domain_id.clone(), name: trust.trustee_domain_name.clone() };
    Ok(cloud.session(Credential::Password { user, password, scope }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_user_needs_a_project_and_no_scope_takes_its_place() {
        let of = |lines: &str| {
            let login = "auth_url = http://127.0.0.1:5000\nusername = magnum\npassword = p\nuser_domain_name = Default";
            let config = Config::parse_for_test(&format!("[keystone_auth]\n{login}\n{lines}")).expect("a configuration");
            let cloud = cloud(&config, Watchers::default()).expect("a cloud");
            service(&config, &cloud).map(drop).map_err(|error| error.to_string())
        };
        for good in ["project_name = service", "project_id = 1f", "project_name = service\nsystem_scope = all"] {
            assert_eq!(of(good), Ok(()), "{good}");
        }
        let missing = "[keystone_auth] project_name is missing (or that of [keystone_authtoken]): the service user needs a project";
        assert_eq!(of(""), Err(missing.to_owned()));
        let refused = of("system_scope = all").expect_err("no project");
        assert!(refused.starts_with(missing) && refused.contains("system_scope = all cannot take its place"), "{refused}");
    }
}
