//! Which pairs a cluster has, and which are beside them while its authorities are replaced.
//!
//! A rotation of authorities goes in phases, each of which replaces nodes: three with the Heat driver, which replaces masters and workers in
//! one (`conductor/src/cluster/rotate_ca.rs`), five with that of Cluster API, which replaces either masters or workers
//! (`conductor/src/driver/capi_helm/authorities.rs`). At any time what is trusted by one node has signed what every other shows. The
//! cluster's own row refers to those who sign; the row of the rotation, to those who will, or did.

use diesel::prelude::*;

use super::Authority;
use crate::id::KeypairId;
use crate::schema::ca_rotation;

/// What a pair is to its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Authority(Authority),
    /// The service's own client certificate, signed by the Kubernetes authority.
    Client,
}

/// A set of pairs that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = ca_rotation)]
pub struct References {
    #[diesel(column_name = ca_cert_ref)]
    pub kubernetes: Option<String>,
    #[diesel(column_name = etcd_ca_cert_ref)]
    pub etcd: Option<String>,
    #[diesel(column_name = front_proxy_ca_cert_ref)]
    pub front_proxy: Option<String>,
    #[diesel(column_name = magnum_cert_ref)]
    pub client: Option<String>,
}

impl References {
    /// The reference of one pair.
    pub fn of(&self, role: Role) -> &Option<String> {
        match role {
            Role::Authority(Authority::Kubernetes) => &self.kubernetes,
            Role::Authority(Authority::Etcd) => &self.etcd,
            Role::Authority(Authority::FrontProxy) => &self.front_proxy,
            Role::Client => &self.client,
        }
    }

    /// All that there are.
    pub fn all(&self) -> Vec<KeypairId> {
        [&self.kubernetes, &self.etcd, &self.front_proxy, &self.client].into_iter().flatten().map(|r| KeypairId::new(r.clone())).collect()
    }

    /// Whether all four are there.
    pub fn is_complete(&self) -> bool {
        self.all().len() == 4
    }
}

/// How far the rotation of a cluster's authorities is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Every node (with Cluster API, every master) is replaced by one that trusts the new authorities beside the old ones; the old ones sign.
    Trust,
    /// With Cluster API: workers are replaced by such as trust both.
    Spread,
    /// Masters are replaced by such as the new authorities sign for; the old ones are trusted still.
    Sign,
    /// With Cluster API: workers are replaced by such as trust the new authorities alone.
    Leave,
    /// Workers, then masters (with Cluster API, masters), are replaced by such as trust the new authorities alone.
    Retire,
}

impl Phase {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Spread => "spread",
            Self::Sign => "sign",
            Self::Leave => "leave",
            Self::Retire => "retire",
        }
    }

    /// The phase of a stored word; none for a word of a newer version.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Trust, Self::Spread, Self::Sign, Self::Leave, Self::Retire].into_iter().find(|phase| phase.as_str() == word)
    }
}

/// A row of our `ca_rotation` table: a cluster whose authorities are being replaced.
#[derive(Clone, Debug, Queryable, Selectable)]
#[diesel(table_name = ca_rotation)]
pub struct Rotation {
    pub cluster_uuid: String,
    /// Names the nodes that it makes; the phase is appended.
    pub generation: String,
    pub phase: String,
    /// The pairs that will take the place of the cluster's own, or had it.
    #[diesel(embed)]
    pub references: References,
    pub started_ms: i64,
}

impl Rotation {
    /// Where it stands; none in a row of a newer version.
    pub fn phase(&self) -> Option<Phase> {
        Phase::parse(&self.phase)
    }

    /// The pairs whose authorities are trusted beside the cluster's own: none while they are still being made, and none once they retire.
    pub fn beside(&self) -> Option<References> {
        let is_trusted = matches!(self.phase(), Some(Phase::Trust | Phase::Spread | Phase::Sign | Phase::Leave));
        Some(&self.references).filter(|references| is_trusted && references.is_complete()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_trusted_beside_is_complete_and_not_retiring() {
        let mut row = Rotation {
            cluster_uuid: "c".into(),
            generation: "g".into(),
            phase: Phase::Trust.as_str().into(),
            references: References { kubernetes: Some("k".into()), etcd: Some("e".into()), front_proxy: Some("f".into()), client: None },
            started_ms: 0,
        };
        assert_eq!(row.beside(), None, "a set that is being made is no use yet");
        row.references.client = Some("m".into());
        let beside = [Phase::Trust, Phase::Spread, Phase::Sign, Phase::Leave].map(|phase| (phase, true));
        for (phase, is_beside) in beside.into_iter().chain([(Phase::Retire, false)]) {
            row.phase = phase.as_str().into();
            assert_eq!(row.phase(), Some(phase));
            assert_eq!(row.beside().is_some(), is_beside, "{phase:?}");
        }
        row.phase = "of another version".into();
        assert_eq!((row.phase(), row.beside()), (None, None));
    }
}
