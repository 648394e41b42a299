//! The cloud's services: how the catalogue calls them, which interface of theirs we ask, and how their
//! endpoint URLs become one shape (operators register them with and without a version).

use std::fmt;
use std::str::FromStr;

use url::Url;

/// A service of the cloud, named after its type in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    Identity,
    Orchestration,
    Compute,
    Network,
    Image,
    LoadBalancer,
    BlockStorage,
    KeyManager,
    ContainerInfra,
    /// The Kubernetes API of a Cluster API management cluster; in no catalogue.
    ManagementCluster,
    /// The `helm` program; in no catalogue.
    Helm,
}

impl Service {
    /// Those that a catalogue may list.
    pub(crate) const ALL: [Self; 9] = [
        Self::Identity,
        Self::Orchestration,
        Self::Compute,
        Self::Network,
        Self::Image,
        Self::LoadBalancer,
        Self::BlockStorage,
        Self::KeyManager,
        Self::ContainerInfra,
    ];

    /// The project's name, as people and logs call the service.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "keystone",
            Self::Orchestration => "heat",
            Self::Compute => "nova",
            Self::Network => "neutron",
            Self::Image => "glance",
            Self::LoadBalancer => "octavia",
            Self::BlockStorage => "cinder",
            Self::KeyManager => "barbican",
            Self::ContainerInfra => "magnum",
            Self::ManagementCluster => "cluster-api",
            Self::Helm => "helm",
        }
    }

    /// The types under which a catalogue may list the service, best first.
    pub fn types(self) -> &'static [&'static str] {
        match self {
            Self::Identity => &["identity"],
            Self::Orchestration => &["orchestration"],
            Self::Compute => &["compute"],
            Self::Network => &["network"],
            Self::Image => &["image"],
            Self::LoadBalancer => &["load-balancer"],
            Self::BlockStorage => &["block-storage", "volumev3", "volume"],
            Self::KeyManager => &["key-manager"],
            Self::ContainerInfra => &["container-infra", "container-infrastructure-management", "container-infrastructure"],
            Self::ManagementCluster | Self::Helm => &[],
        }
    }

    /// The endpoint with the API version that our clients speak.
    pub(crate) fn normalise(self, mut endpoint: Url) -> Url {
        endpoint.set_query(None);
        endpoint.set_fragment(None);
        let mut segments: Vec<String> =
            endpoint.path_segments().into_iter().flatten().filter(|s| !s.is_empty()).map(str::to_owned).collect();
        let versioned = segments.iter().any(|s| is_version(s));
        let ends_with_version = segments.last().is_some_and(|s| is_version(s));
        let wanted = match self {
            Self::Identity => Some(("v3", true)),
            Self::Network | Self::LoadBalancer => Some(("v2.0", true)),
            Self::Image => Some(("v2", true)),
            Self::ContainerInfra => Some(("v1", true)),
            Self::Compute => Some(("v2.1", false)),
            Self::BlockStorage => Some(("v3", false)),
            Self::KeyManager => Some(("v1", true)),
            Self::Orchestration | Self::ManagementCluster | Self::Helm => None,
        };
        match wanted {
            Some((version, true)) => {
                if ends_with_version {
                    segments.pop();
                }
                segments.push(version.to_owned());
            }
            Some((version, false)) if !versioned => segments.push(version.to_owned()),
            _ => {}
        }
        // Segments taken from a URL are encoded already, so they are joined as they are.
        endpoint.set_path(&format!("/{}", segments.join("/")));
        endpoint
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which of a service's endpoints we ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Interface {
    #[default]
    Public,
    Internal,
    Admin,
}

impl Interface {
    /// The word in the catalogue.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Interface {
    type Err = String;

    /// Takes `public` and `publicURL` alike, as configuration files have both.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        match lower.strip_suffix("url").unwrap_or(&lower) {
            "public" => Ok(Self::Public),
            "internal" => Ok(Self::Internal),
            "admin" => Ok(Self::Admin),
            _ => Err(format!("{text:?} is no interface: one of public, internal, admin")),
        }
    }
}

/// `v3`, `v2.0`, `v2.1`: a version as a path segment.
fn is_version(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_get_the_version_their_client_speaks() {
        let table = [
            (Service::Identity, "http://h:5000", "http://h:5000/v3"),
            (Service::Identity, "http://h/identity/v2.0/", "http://h/identity/v3"),
            (Service::Identity, "http://h/identity/v3", "http://h/identity/v3"),
            (Service::Network, "http://h:9696/", "http://h:9696/v2.0"),
            (Service::Network, "http://h:9696/v2.0/", "http://h:9696/v2.0"),
            (Service::Image, "http://h/image", "http://h/image/v2"),
            (Service::Image, "http://h/image/v2/", "http://h/image/v2"),
            (Service::LoadBalancer, "http://h:9876", "http://h:9876/v2.0"),
            (Service::LoadBalancer, "http://h:9876/v2", "http://h:9876/v2.0"),
            (Service::Compute, "http://h:8774/v2.1/abc", "http://h:8774/v2.1/abc"),
            (Service::Compute, "http://h:8774", "http://h:8774/v2.1"),
            (Service::BlockStorage, "http://h:8776/v3/abc", "http://h:8776/v3/abc"),
            (Service::Orchestration, "http://h:8004/v1/abc", "http://h:8004/v1/abc"),
            (Service::ContainerInfra, "http://h:9511", "http://h:9511/v1"),
            (Service::KeyManager, "http://h:9311", "http://h:9311/v1"),
            (Service::KeyManager, "http://h/key-manager/v1/", "http://h/key-manager/v1"),
        ];
        for (service, given, wanted) in table {
            let url = Url::parse(given).expect("a URL of the table");
            assert_eq!(service.normalise(url).as_str(), wanted, "{service} {given}");
        }
    }

    #[test]
    fn interfaces_are_read_in_both_spellings() {
        for (text, wanted) in [("public", Interface::Public), ("internalURL", Interface::Internal), ("admin", Interface::Admin)] {
            assert_eq!(text.parse(), Ok(wanted));
        }
        assert!("private".parse::<Interface>().is_err());
    }
}
