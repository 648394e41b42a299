//! Nova: flavours, keypairs, servers. Microversion 2.1 is enough, but to reach the keypairs of others.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use crate::error::CloudError;
use crate::json::or_default;
use crate::page;
use crate::quota::{Limit, LimitsAnswer};
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// From here on an administrator names the user whose keypairs are meant; before, `user_id` is not looked at.
const OF_OTHERS: &str = "compute 2.10";

/// Compute calls of a session.
#[derive(Clone, Debug)]
pub struct Nova(Session);

/// A flavour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Flavor {
    pub id: String,
    #[serde(default)]
    pub name: String,
    /// MiB.
    #[serde(default)]
    pub ram: u64,
    #[serde(default)]
    pub vcpus: u64,
    /// GiB.
    #[serde(default)]
    pub disk: u64,
}

impl Flavor {
    /// The flavor of this id, else of this name.
    pub fn named<'a>(all: &'a [Self], wanted: &str) -> Option<&'a Self> {
        all.iter().find(|flavor| flavor.id == wanted).or_else(|| all.iter().find(|flavor| flavor.name == wanted))
    }
}

/// A user's keypair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Keypair {
    pub name: String,
    #[serde(default)]
    pub public_key: String,
}

/// What of Nova's a project may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComputeLimits {
    pub instances: Limit,
    pub cores: Limit,
    /// MiB.
    pub ram: Limit,
    pub server_groups: Limit,
    /// Of a new group.
    pub server_group_members: Limit,
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Server {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: BTreeMap<String, String>,
}

/// As Nova writes them: -1 is no limit. Where quotas are unified limits of Keystone, 0 is told for what has none registered.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AbsoluteLimits {
    max_total_instances: i64,
    total_instances_used: i64,
    max_total_cores: i64,
    total_cores_used: i64,
    #[serde(rename = "maxTotalRAMSize")]
    max_total_ram_size: i64,
    #[serde(rename = "totalRAMUsed")]
    total_ram_used: i64,
    max_server_groups: i64,
    total_server_groups_used: i64,
    max_server_group_members: i64,
}

impl Default for AbsoluteLimits {
    fn default() -> Self {
        Self {
            max_total_instances: -1,
            total_instances_used: 0,
            max_total_cores: -1,
            total_cores_used: 0,
            max_total_ram_size: -1,
            total_ram_used: 0,
            max_server_groups: -1,
            total_server_groups_used: 0,
            max_server_group_members: -1,
        }
    }
}

impl From<AbsoluteLimits> for ComputeLimits {
    fn from(told: AbsoluteLimits) -> Self {
        let limit = |most: i64, used: i64| Limit::told(if most == 0 { -1 } else { most }, used);
        Self {
            instances: limit(told.max_total_instances, told.total_instances_used),
            cores: limit(told.max_total_cores, told.total_cores_used),
            ram: limit(told.max_total_ram_size, told.total_ram_used),
            server_groups: limit(told.max_server_groups, told.total_server_groups_used),
            server_group_members: limit(told.max_server_group_members, 0),
        }
    }
}

#[derive(Deserialize)]
struct ExtraSpecsAnswer {
    #[serde(default)]
    extra_specs: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct KeypairAnswer {
    keypair: Keypair,
}

#[derive(Deserialize)]
struct KeypairsAnswer {
    keypairs: Vec<KeypairAnswer>,
}

impl Session {
    /// Compute calls with this session.
    pub fn nova(&self) -> Nova {
        Nova(self.clone())
    }
}

impl Nova {
    /// Every flavour the project may use.
    pub async fn flavors(&self) -> Result<Vec<Flavor>, CloudError> {
        page::all(&self.0, "flavors", || Request::get(Service::Compute, "flavor_list", ["flavors", "detail"])).await
    }

    /// What the project may have, and what of it is in use.
    pub async fn limits(&self) -> Result<ComputeLimits, CloudError> {
        let answer: LimitsAnswer<AbsoluteLimits> = self.0.fetch(Request::get(Service::Compute, "limits_show", ["limits"])).await?;
        Ok(answer.limits.absolute.into())
    }

    /// The extra specs of a flavor, by its id.
    pub async fn extra_specs(&self, id: &str) -> Result<BTreeMap<String, String>, CloudError> {
        let request = Request::get(Service::Compute, "flavor_extra_specs", ["flavors", id, "os-extra_specs"]);
        let answer: ExtraSpecsAnswer = self.0.fetch(request).await?;
        Ok(answer.extra_specs)
    }

    /// The caller's keypair of that name.
    pub async fn keypair(&self, name: &str) -> Result<Option<Keypair>, CloudError> {
        let request = Request::get(Service::Compute, "keypair_show", ["os-keypairs", name]);
        Ok(self.0.find::<KeypairAnswer>(request).await?.map(|answer| answer.keypair))
    }

    /// The keypairs of a user, as an administrator; also of one who is gone, for Nova keeps them.
    pub async fn keypairs_of(&self, user_id: &str) -> Result<Vec<Keypair>, CloudError> {
        let request = Request::get(Service::Compute, "keypair_list", ["os-keypairs"]).query("user_id", user_id).at(OF_OTHERS);
        let answer: KeypairsAnswer = self.0.fetch(request).await?;
        Ok(answer.keypairs.into_iter().map(|wrapped| wrapped.keypair).collect())
    }

    /// Puts a public key under a name of the caller's own; a name that is taken is a conflict.
    pub async fn import_keypair(&self, name: &str, public_key: &str) -> Result<(), CloudError> {
        let body = json!({"keypair": {"name": name, "public_key": public_key}});
        self.0.answer(&Request::post(Service::Compute, "keypair_create", ["os-keypairs"], body)).await.map(drop)
    }

    /// Deletes a user's keypair of that name, as an administrator; false when there was none.
    pub async fn delete_keypair_of(&self, user_id: &str, name: &str) -> Result<bool, CloudError> {
        let request = Request::delete(Service::Compute, "keypair_delete", ["os-keypairs", name]).query("user_id", user_id).at(OF_OTHERS);
        self.0.remove(request).await
    }

    /// The project's servers whose names begin so.
    pub async fn servers(&self, name_prefix: &str) -> Result<Vec<Server>, CloudError> {
        let pattern = format!("^{}", literally(name_prefix));
        let request = || Request::get(Service::Compute, "server_list", ["servers", "detail"]).query("name", pattern.as_str());
        let mut servers: Vec<Server> = page::all(&self.0, "servers", request).await?;
        servers.retain(|server| server.name.starts_with(name_prefix));
        Ok(servers)
    }
}

/// Nova's name filter is a regular expression.
fn literally(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        if r"\.[](){}*+?^$|".contains(c) {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_told_from_none_left() {
        let answer = r#"{"limits": {"rate": [], "absolute": {"maxTotalInstances": 10, "totalInstancesUsed": 12, "maxTotalCores": -1,
            "totalCoresUsed": 3, "maxTotalRAMSize": 51200, "totalRAMUsed": 1024, "maxServerMeta": 128, "maxServerGroups": 10,
            "totalServerGroupsUsed": 9, "maxServerGroupMembers": 7}}}"#;
        let answer: LimitsAnswer<AbsoluteLimits> = serde_json::from_str(answer).expect("as Nova answers");
        let limits = ComputeLimits::from(answer.limits.absolute);
        assert_eq!((limits.instances.left(), limits.cores.left(), limits.ram.left()), (Some(0), None, Some(50_176)));
        assert_eq!((limits.server_groups.left(), limits.server_group_members.left()), (Some(1), Some(7)));
        let unregistered: LimitsAnswer<AbsoluteLimits> =
            serde_json::from_str(r#"{"limits": {"absolute": {"maxTotalInstances": 0, "totalInstancesUsed": 3}}}"#)
                .expect("as Nova answers");
        assert_eq!(ComputeLimits::from(unregistered.limits.absolute).instances.left(), None);
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(super::literally("a.b-1"), r"a\.b-1");
    }
}
