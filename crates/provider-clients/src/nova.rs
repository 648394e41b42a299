//! Nova: flavours, keypairs, servers. Microversion 2.1 is enough.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::CloudError;
use crate::json::or_default;
use crate::page;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

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

/// A user's keypair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Keypair {
    pub name: String,
    #[serde(default)]
    pub public_key: String,
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

#[derive(Deserialize)]
struct KeypairAnswer {
    keypair: Keypair,
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

    /// The caller's keypair of that name.
    pub async fn keypair(&self, name: &str) -> Result<Option<Keypair>, CloudError> {
        let request = Request::get(Service::Compute, "keypair_show", ["os-keypairs", name]);
        Ok(self.0.find::<KeypairAnswer>(request).await?.map(|answer| answer.keypair))
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
    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(super::literally("a.b-1"), r"a\.b-1");
    }
}
