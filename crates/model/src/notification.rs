//! What others are told of a cluster's life: CADF 1.0 events in the form that upstream's notifier gives them.
//!
//! A message follows from the change it tells of: the same change has the same message id, whoever writes or sends it and however often.

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::id;
use crate::nodegroup::Nodegroup;
use crate::operation::{Operation, OperationKind};

const CLUSTER: &str = "service/magnum/cluster";

/// Who tells, as messages name him, on this host.
pub fn publisher_of(host: &str) -> String {
    format!("container-infra.{host}")
}

/// How a change stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It has begun.
    Pending,
    /// It has ended well.
    Success,
    /// It has ended badly.
    Failure,
}

impl Outcome {
    /// CADF's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }

    /// The priority of its message.
    pub fn priority(self) -> Priority {
        match self {
            Self::Pending | Self::Success => Priority::Info,
            Self::Failure => Priority::Error,
        }
    }
}

/// The priorities that are used; in lower case the end of the routing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Priority {
    Info,
    Error,
}

impl Priority {
    /// Every priority.
    pub const ALL: [Self; 2] = [Self::Info, Self::Error];

    /// As a message names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Error => "ERROR",
        }
    }

    /// The end of a routing key, and of the queue's name.
    pub fn key(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Error => "error",
        }
    }

    /// The priority of a stored word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.as_str() == text)
    }
}

/// CADF's action of an operation, when this outcome of it is told; none when nobody is told (upstream's table: conductor.md 9).
pub fn action(kind: OperationKind, outcome: Outcome) -> Option<&'static str> {
    let begins = outcome == Outcome::Pending;
    match kind {
        OperationKind::ClusterCreate => Some("create"),
        OperationKind::ClusterDelete | OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon => Some("delete"),
        OperationKind::ClusterUpdate | OperationKind::ClusterResize | OperationKind::ClusterUpgrade => Some("update"),
        // Upstream finds their end by polling, and tells it as an update of the cluster.
        OperationKind::CaRotate | OperationKind::NodegroupCreate | OperationKind::NodegroupUpdate | OperationKind::NodegroupDelete => {
            (!begins).then_some("update")
        }
        OperationKind::CredentialRotate => None,
    }
}

/// A cluster as a message shows it.
#[derive(Clone, Debug)]
pub struct Subject {
    pub cluster: Cluster,
    pub groups: Vec<Nodegroup>,
}

/// A message, ready for the outbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The message id.
    pub uuid: String,
    pub priority: Priority,
    /// What the notifier of oslo.messaging would hand to its driver.
    pub body: Value,
}

/// The message of a change, as `publisher` (this host's conductor) tells it; none when nobody is told.
pub fn message(operation: &Operation, outcome: Outcome, subject: &Subject, publisher: &str, at: DateTime<Utc>) -> Option<Message> {
    let action = action(operation.kind()?, outcome)?;
    let uuid = message_id(&operation.uuid, operation.generation, outcome);
    let Subject { cluster, groups } = subject;
    let addresses = |masters: bool| -> Vec<String> {
        groups.iter().filter(|group| group.is_master() == masters).flat_map(Nodegroup::addresses).collect()
    };
    let count = |masters: bool| -> i32 { groups.iter().filter(|group| group.is_master() == masters).map(Nodegroup::node_count).sum() };
    let mut event = json!({
        "typeURI": "http://schemas.dmtf.org/cloud/audit/1.0/event",
        "eventType": "activity",
        "id": uuid,
        "eventTime": at.format("%Y-%m-%dT%H:%M:%S%.6f+0000").to_string(),
        "action": action,
        "outcome": outcome.as_str(),
        "observer": {"id": observer_id(publisher), "typeURI": CLUSTER},
        "initiator": {
            "id": operation.user_id,
            "typeURI": "service/security/account/user",
            "user_id": operation.user_id,
            "project_id": operation.project_id,
        },
        "target": {
            "id": cluster.uuid,
            "typeURI": CLUSTER,
            "name": cluster.name,
            "attachments": [{
                "name": "cluster_data",
                "typeURI": CLUSTER,
                "content": {
                    "status": cluster.status,
                    "status_reason": cluster.status_reason,
                    "project_id": cluster.project_id,
                    "created_at": time(cluster.created_at),
                    "updated_at": time(cluster.updated_at),
                    "cluster_template_id": cluster.cluster_template_id,
                    "keypair": cluster.keypair,
                    // The colon is upstream's; whoever reads the field reads it so.
                    "docker_volume_size:": cluster.docker_volume_size,
                    "labels": cluster.labels(),
                    "master_flavor_id": cluster.master_flavor_id,
                    "flavor_id": cluster.flavor_id,
                    "stack_id": cluster.stack_id,
                    "health_status": cluster.health_status,
                    "create_timeout": cluster.create_timeout,
                    "api_address": cluster.api_address,
                    "discovery_url": cluster.discovery_url,
                    "node_addresses": addresses(false),
                    "master_addresses": addresses(true),
                    "node_count": count(false),
                    "master_count": count(true),
                },
            }],
        },
    });
    if let Some(domain) = operation.payload().ok().and_then(|payload| payload.user_domain_id) {
        event["initiator"]["domain_id"] = domain.into();
    }
    let body = json!({
        "message_id": uuid,
        "publisher_id": publisher,
        "event_type": format!("magnum.cluster.{action}"),
        "priority": outcome.priority().as_str(),
        "payload": event,
        "timestamp": at.format("%Y-%m-%d %H:%M:%S%.6f").to_string(),
        // Consumers of oslo.messaging drop a message whose id is one of the last sixteen that they have seen: more than a sender that dies has sent
        // and not yet removed.
        "_unique_id": uuid.replace('-', ""),
    });
    Some(Message { uuid, priority: outcome.priority(), body })
}

/// One id for each claim of an operation and each outcome: one that is begun anew and fails again is told again, and the same end is told once.
pub fn message_id(operation: &str, generation: i32, outcome: Outcome) -> String {
    id::of_words(&["message", operation, &generation.to_string(), outcome.as_str()])
}

fn observer_id(publisher: &str) -> String {
    id::of_words(&["observer", publisher])
}

fn time(at: Option<NaiveDateTime>) -> Option<String> {
    at.map(|at| at.format("%Y-%m-%dT%H:%M:%S%.6f").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_upstreams_table() {
        use Outcome::{Failure, Pending, Success};
        for kind in OperationKind::ALL {
            let wanted = match kind {
                OperationKind::ClusterCreate => [Some("create"); 3],
                OperationKind::ClusterDelete | OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon => [Some("delete"); 3],
                OperationKind::ClusterUpdate | OperationKind::ClusterResize | OperationKind::ClusterUpgrade => [Some("update"); 3],
                OperationKind::CredentialRotate => [None; 3],
                _ => [None, Some("update"), Some("update")],
            };
            assert_eq!([Pending, Success, Failure].map(|outcome| action(*kind, outcome)), wanted, "{kind:?}");
        }
    }
}
