//! What an operation would do, told without any of it being done (`dry_run`): what is asked, and what is told.
//!
//! The API asks and a driver's own counting tells; they meet in these values.

use std::collections::HashMap;

use crate::cluster::Cluster;
use crate::driver::DriverName;
use crate::nodegroup::{Nodegroup, Nodes};
use crate::operation::{OperationKind, Payload};
use crate::resource::CloudResource;
use crate::template::ClusterTemplate;

/// An operation that nobody has stored, and the rows that it would work from: as they are, and of a new cluster as they would be.
pub struct Intent {
    pub kind: OperationKind,
    pub payload: Payload,
    pub cluster: Cluster,
    pub groups: Vec<Nodegroup>,
    /// How the nodes of groups register, by the group's uuid.
    pub nodes: HashMap<String, Nodes>,
    /// None when the template's row is missing.
    pub template: Option<ClusterTemplate>,
    /// What an upgrade brings the cluster, or its group, to.
    pub wanted: Option<ClusterTemplate>,
    /// The inventory.
    pub recorded: Vec<CloudResource>,
}

impl Intent {
    /// The driver of the cluster.
    pub fn driver(&self) -> Option<DriverName> {
        self.template.as_ref().and_then(ClusterTemplate::driver_name)
    }
}

macro_rules! things {
    ($($name:ident = $word:literal),+ $(,)?) => {
        /// What is made and removed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Thing { $($name),+ }

        impl Thing {
            /// Every word.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The printed word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }
        }
    };
}

things!(
    Server = "servers",
    ServerGroup = "server_groups",
    Volume = "volumes",
    Network = "networks",
    Subnet = "subnets",
    Router = "routers",
    Port = "ports",
    FloatingIp = "floating_ips",
    SecurityGroup = "security_groups",
    SecurityGroupRule = "security_group_rules",
    LoadBalancer = "load_balancers",
    Stack = "stacks",
    HelmRelease = "helm_releases",
    User = "users",
    KeyPair = "key_pairs",
    Trust = "trusts",
    ApplicationCredential = "application_credentials",
    Certificate = "certificates",
);

/// So many things of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    pub thing: Thing,
    pub count: u64,
}

/// The nodes of a group that others would replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub nodegroup: String,
    pub nodes: u64,
    /// How many go together; none where that is not ours to say.
    pub at_once: Option<u64>,
}

impl Replacement {
    /// How often some of them go; none where that is not known.
    pub fn rounds(&self) -> Option<u64> {
        Some(self.nodes.div_ceil(self.at_once?.max(1)))
    }
}

/// A node that would go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    pub nodegroup: String,
    /// Its number in the group.
    pub number: String,
    /// Its Nova server.
    pub server_id: Option<String>,
}

/// One of the project's quotas, and what of it would be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaUse {
    pub service: &'static str,
    pub resource: &'static str,
    /// None where it is not known how much the cloud would count.
    pub needed: Option<u64>,
    /// Whether the service says what the project may have.
    pub is_told: bool,
    /// None where there is no limit, or none is told.
    pub limit: Option<u64>,
    /// None without a limit.
    pub used: Option<u64>,
    /// Whether it is known to be too little.
    pub is_short: bool,
}

impl QuotaUse {
    /// What is left; none without a limit.
    pub fn free(&self) -> Option<u64> {
        Some(self.limit?.saturating_sub(self.used.unwrap_or(0)))
    }

    /// Whether there is enough of it; none where that is not known.
    pub fn is_enough(&self) -> Option<bool> {
        match (self.is_short, self.is_told, self.limit, self.needed) {
            (true, ..) => Some(false),
            (false, false, ..) => None,
            (false, true, None, _) | (false, true, Some(_), Some(_)) => Some(true),
            (false, true, Some(_), None) => None,
        }
    }
}

/// What an operation would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    pub made: Vec<Amount>,
    pub replaced: Vec<Replacement>,
    pub removed: Vec<Amount>,
    /// Nodes that go, where it is known which.
    pub leaving: Vec<Leaving>,
    pub quotas: Vec<QuotaUse>,
    /// Why it would come to no good end.
    pub obstacles: Vec<String>,
    /// What could be an obstacle, and nobody has told.
    pub unknown: Vec<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

impl Forecast {
    /// Adds what is made, where it is any.
    pub fn makes(&mut self, thing: Thing, count: u64) {
        add(&mut self.made, thing, count);
    }

    /// Adds what is removed, where it is any.
    pub fn removes(&mut self, thing: Thing, count: u64) {
        add(&mut self.removed, thing, count);
    }

    /// Whether it would come to a good end as far as can be seen; none where not all can be seen and nothing is against it.
    pub fn is_possible(&self) -> Option<bool> {
        if !self.obstacles.is_empty() || self.quotas.iter().any(|quota| quota.is_short) {
            return Some(false);
        }
        let is_known = self.unknown.is_empty() && self.quotas.iter().all(|quota| quota.is_enough().is_some());
        is_known.then_some(true)
    }
}

fn add(to: &mut Vec<Amount>, thing: Thing, count: u64) {
    match to.iter_mut().find(|amount| amount.thing == thing) {
        Some(amount) => amount.count += count,
        None if count > 0 => to.push(Amount { thing, count }),
        None => {}
    }
}

/// Why nothing can be told: the cloud was asked and failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NotForeseen {
    pub reason: String,
    /// The status of the cloud's answer, where there was one.
    pub status: Option<u16>,
    /// Whether it may go better next time.
    pub retry_may_help: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_neither_enough_nor_too_little() {
        let known = QuotaUse {
            service: "nova",
            resource: "cores",
            needed: Some(2),
            is_told: true,
            limit: Some(10),
            used: Some(8),
            is_short: false,
        };
        for (quota, free, enough, possible) in [
            (known, Some(2), Some(true), Some(true)),
            (QuotaUse { limit: None, used: None, needed: None, ..known }, None, Some(true), Some(true)),
            (QuotaUse { needed: None, ..known }, Some(2), None, None),
            (QuotaUse { is_told: false, limit: None, used: None, ..known }, None, None, None),
            (QuotaUse { used: Some(12), is_short: true, ..known }, Some(0), Some(false), Some(false)),
        ] {
            assert_eq!((quota.free(), quota.is_enough()), (free, enough), "{quota:?}");
            let forecast = Forecast { quotas: vec![quota], ..Forecast::default() };
            assert_eq!(forecast.is_possible(), possible, "{quota:?}");
        }
        let unknown = Forecast { unknown: vec!["the stack".into()], ..Forecast::default() };
        assert_eq!(unknown.is_possible(), None);
        assert_eq!(Forecast { obstacles: vec!["no room".into()], ..unknown }.is_possible(), Some(false));
    }

    #[test]
    fn things_are_added_up_and_rounds_are_counted() {
        let mut forecast = Forecast::default();
        for count in [0, 2, 3] {
            forecast.makes(Thing::Port, count);
            forecast.removes(Thing::Volume, 0);
        }
        assert_eq!((forecast.made, forecast.removed), (vec![Amount { thing: Thing::Port, count: 5 }], vec![]));
        for (nodes, at_once, rounds) in [(5, Some(2), Some(3)), (0, Some(2), Some(0)), (3, Some(0), Some(3)), (3, None, None)] {
            assert_eq!(Replacement { nodegroup: "workers".into(), nodes, at_once }.rounds(), rounds);
        }
    }
}
