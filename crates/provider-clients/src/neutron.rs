//! Neutron: networks, subnets, and what a cluster's stack and its load balancers leave on them.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::CloudError;
use crate::json::or_default;
use crate::page;
use crate::quota::Limit;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// Network calls of a session.
#[derive(Clone, Debug)]
pub struct Neutron(Session);

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Network {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(rename = "router:external", default, deserialize_with = "or_default")]
    pub external: bool,
    #[serde(default)]
    pub project_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub subnets: Vec<String>,
}

/// What of Neutron's a project may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkLimits {
    pub networks: Limit,
    pub subnets: Limit,
    pub routers: Limit,
    pub ports: Limit,
    pub floating_ips: Limit,
    pub security_groups: Limit,
    pub security_group_rules: Limit,
}

#[derive(Deserialize)]
struct QuotaAnswer {
    quota: Quota,
}

/// Quotas with what of them is in use.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Quota {
    network: Detail,
    subnet: Detail,
    router: Detail,
    port: Detail,
    floatingip: Detail,
    security_group: Detail,
    security_group_rule: Detail,
}

#[derive(Deserialize)]
struct Detail {
    limit: i64,
    used: i64,
    /// For requests under way.
    #[serde(default)]
    reserved: i64,
}

impl Default for Detail {
    fn default() -> Self {
        Self { limit: -1, used: 0, reserved: 0 }
    }
}

impl From<Detail> for Limit {
    fn from(told: Detail) -> Self {
        Self::told(told.limit, told.used.saturating_add(told.reserved))
    }
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Subnet {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub cidr: String,
    #[serde(default, deserialize_with = "or_default")]
    pub network_id: String,
    #[serde(default)]
    pub project_id: Option<String>,
    #[serde(default)]
    pub ip_version: Option<u8>,
    #[serde(default)]
    pub gateway_ip: Option<String>,
    #[serde(default)]
    pub enable_dhcp: Option<bool>,
    /// How machines on a subnet of IPv6 get their addresses.
    #[serde(default)]
    pub ipv6_address_mode: Option<String>,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Port {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub network_id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub device_id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub device_owner: String,
    #[serde(default, deserialize_with = "or_default")]
    pub fixed_ips: Vec<FixedIp>,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
}

/// An address of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FixedIp {
    #[serde(default, deserialize_with = "or_default")]
    pub subnet_id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub ip_address: String,
}

/// A floating IP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FloatingIp {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub floating_ip_address: String,
    #[serde(default)]
    pub fixed_ip_address: Option<String>,
    #[serde(default)]
    pub port_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub description: String,
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SecurityGroup {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub description: String,
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
}

/// Which of the things to list. What a kind does not have (a floating IP has no name) must not be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NeutronFilter {
    /// One of them; none: any.
    pub ids: Vec<String>,
    /// All of them must be there.
    pub tags: Vec<String>,
    pub name: Option<String>,
    pub description: Option<String>,
    pub project_id: Option<String>,
    /// Of ports.
    pub device_id: Option<String>,
    /// Of floating IPs.
    pub port_id: Option<String>,
}

/// Ids in the address of one request, 40 bytes each: some of what stands before a service takes no more than 4 KiB with all that it adds.
const IDS_AT_ONCE: usize = 40;

#[derive(Deserialize)]
struct NetworkAnswer {
    network: Network,
}

impl Session {
    /// Network calls with this session.
    pub fn neutron(&self) -> Neutron {
        Neutron(self.clone())
    }
}

impl Neutron {
    /// What a project may have, and what of it is in use: the session's own, for an administrator any.
    pub async fn limits(&self, project: &str) -> Result<NetworkLimits, CloudError> {
        let request = Request::get(Service::Network, "quota_show", ["quotas", project, "details.json"]);
        let told = self.0.fetch::<QuotaAnswer>(request).await?.quota;
        Ok(NetworkLimits {
            networks: told.network.into(),
            subnets: told.subnet.into(),
            routers: told.router.into(),
            ports: told.port.into(),
            floating_ips: told.floatingip.into(),
            security_groups: told.security_group.into(),
            security_group_rules: told.security_group_rule.into(),
        })
    }

    /// The network that has this id, or else all that have this name.
    pub async fn find_networks(&self, name_or_id: &str, external: Option<bool>) -> Result<Vec<Network>, CloudError> {
        let external = external.map(|external| if external { "True" } else { "False" });
        self.named(name_or_id, || get("network_list", "networks").query_if("router:external", external), "networks").await
    }

    /// The network of that id.
    pub async fn network(&self, id: &str) -> Result<Option<Network>, CloudError> {
        let request = Request::get(Service::Network, "network_show", ["networks", id]);
        Ok(self.0.find::<NetworkAnswer>(request).await?.map(|answer| answer.network))
    }

    /// The subnet that has this id, or else all that have this name.
    pub async fn find_subnets(&self, name_or_id: &str) -> Result<Vec<Subnet>, CloudError> {
        self.named(name_or_id, || get("subnet_list", "subnets"), "subnets").await
    }

    /// The subnets of a network, by its id.
    pub async fn subnets_of(&self, network: &str) -> Result<Vec<Subnet>, CloudError> {
        page::all(&self.0, "subnets", || get("subnet_list", "subnets").query("network_id", network)).await
    }

    /// What has this id, or else all that has this name. Neutron makes only UUIDs, so that nothing else is asked for by id.
    async fn named<T: DeserializeOwned>(
        &self,
        name_or_id: &str,
        request: impl Fn() -> Request,
        what: &'static str,
    ) -> Result<Vec<T>, CloudError> {
        if uuid::Uuid::try_parse(name_or_id).is_ok() {
            let found: Vec<T> = page::all(&self.0, what, || request().query("id", name_or_id)).await?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        page::all(&self.0, what, || request().query("name", name_or_id)).await
    }

    /// The ports that match.
    pub async fn ports(&self, filter: &NeutronFilter) -> Result<Vec<Port>, CloudError> {
        self.list("port_list", "ports", filter).await
    }

    /// The floating IPs that match.
    pub async fn floating_ips(&self, filter: &NeutronFilter) -> Result<Vec<FloatingIp>, CloudError> {
        self.list("floatingip_list", "floatingips", filter).await
    }

    /// The security groups that match.
    pub async fn security_groups(&self, filter: &NeutronFilter) -> Result<Vec<SecurityGroup>, CloudError> {
        self.list("security_group_list", "security-groups", filter).await
    }

    /// Deletes the floating IP; false when there was none.
    pub async fn delete_floating_ip(&self, id: &str) -> Result<bool, CloudError> {
        self.0.remove(Request::delete(Service::Network, "floatingip_delete", ["floatingips", id])).await
    }

    async fn list<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        path: &'static str,
        filter: &NeutronFilter,
    ) -> Result<Vec<T>, CloudError> {
        // The path has a dash where the body's key has an underscore.
        let key = if path == "security-groups" { "security_groups" } else { path };
        let some = |ids: &[String]| {
            ids.iter()
                .fold(get(operation, path), |request, id| request.query("id", id.as_str()))
                .tags(&filter.tags)
                .query_if("name", filter.name.clone())
                .query_if("description", filter.description.clone())
                .query_if("project_id", filter.project_id.clone())
                .query_if("device_id", filter.device_id.clone())
                .query_if("port_id", filter.port_id.clone())
        };
        if filter.ids.is_empty() {
            return page::all(&self.0, key, || some(&[])).await;
        }
        let mut found = Vec::new();
        for ids in filter.ids.chunks(IDS_AT_ONCE) {
            found.extend(page::all(&self.0, key, || some(ids)).await?);
        }
        Ok(found)
    }
}

fn get(operation: &'static str, path: &str) -> Request {
    Request::get(Service::Network, operation, [path])
}
