//! What a check is made against: the owner of a thing, or the caller himself.

use std::borrow::Cow;

use model::cluster::Cluster;
use model::template::ClusterTemplate;

/// How Python writes what is not there.
pub const NONE: &str = "None";

/// How Python writes a boolean.
pub fn boolean(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// What a check is made against.
#[derive(Clone, Copy, Default)]
pub struct Target<'a> {
    pub project_id: Option<&'a str>,
    pub user_id: Option<&'a str>,
    pub trustee_domain_id: Option<&'a str>,
    /// The thing itself, of which rules may name every column.
    pub object: Option<&'a dyn Attributes>,
}

impl<'a> Target<'a> {
    /// The attribute that `%(name)s` stands for. A missing owner is no owner: it never equals a caller's missing project.
    pub fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        match name {
            "project_id" => self.project_id.map(Cow::Borrowed),
            "user_id" => self.user_id.map(Cow::Borrowed),
            "trustee_domain_id" => self.trustee_domain_id.map(Cow::Borrowed),
            _ => self.object.and_then(|object| object.attribute(name)),
        }
    }
}

/// A thing that rules can look into.
pub trait Attributes {
    fn owner_project(&self) -> Option<&str>;
    fn owner_user(&self) -> Option<&str>;
    /// An attribute as Python writes it; none when there is no such attribute.
    fn attribute(&self, name: &str) -> Option<Cow<'_, str>>;
}

fn text(value: Option<&str>) -> Cow<'_, str> {
    Cow::Borrowed(value.unwrap_or(NONE))
}

fn number(value: Option<i32>) -> Cow<'static, str> {
    value.map_or(Cow::Borrowed(NONE), |n| Cow::Owned(n.to_string()))
}

fn flag(value: Option<bool>) -> Cow<'static, str> {
    Cow::Borrowed(value.map_or(NONE, boolean))
}

/// Text columns of a row, by their names.
macro_rules! columns {
    ($row:expr, $name:expr, text: [$($text:ident),*], number: [$($number:ident),*], flag: [$($flag:ident),*]) => {
        match $name {
            "uuid" => Some(Cow::Borrowed($row.uuid.as_str())),
            $(stringify!($text) => Some(text($row.$text.as_deref())),)*
            $(stringify!($number) => Some(number($row.$number)),)*
            $(stringify!($flag) => Some(flag($row.$flag)),)*
            _ => None,
        }
    };
}

impl Attributes for Cluster {
    fn owner_project(&self) -> Option<&str> {
        self.project_id.as_deref()
    }

    fn owner_user(&self) -> Option<&str> {
        self.user_id.as_deref()
    }

    fn attribute(&self, name: &str) -> Option<Cow<'_, str>> {
        columns!(
            self, name,
            text: [
                name, cluster_template_id, keypair, master_flavor_id, flavor_id, stack_id, status, status_reason, health_status, api_address,
                discovery_url, trust_id, trustee_username, trustee_user_id, coe_version, container_version, fixed_network, fixed_subnet
            ],
            number: [docker_volume_size, create_timeout],
            flag: [floating_ip_enabled, master_lb_enabled]
        )
    }
}

impl Attributes for ClusterTemplate {
    fn owner_project(&self) -> Option<&str> {
        self.project_id.as_deref()
    }

    fn owner_user(&self) -> Option<&str> {
        self.user_id.as_deref()
    }

    fn attribute(&self, name: &str) -> Option<Cow<'_, str>> {
        columns!(
            self, name,
            text: [
                name, image_id, flavor_id, master_flavor_id, keypair_id, dns_nameserver, external_network_id, fixed_network, fixed_subnet,
                network_driver, volume_driver, docker_storage_driver, cluster_distro, coe, http_proxy, https_proxy, no_proxy, server_type,
                insecure_registry, tags, driver
            ],
            number: [apiserver_port, docker_volume_size],
            flag: [registry_enabled, tls_disabled, public, master_lb_enabled, floating_ip_enabled, hidden]
        )
    }
}
