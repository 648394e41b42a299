//! What a request carries beyond the row it concerns.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cluster::status::Status;
use crate::id::{NodegroupId, OperationId, TemplateId};
use crate::simulation;

/// What a request carries beyond the row it concerns; `version` grows when its meaning changes, for those requests only whose meaning it is, and
/// fields that are not given read as nothing asked (rows of older versions have `{"version":1}` only). What another version of this program put
/// into it is kept, whoever writes it again: new fields come without a new version where those that do not know them may pass them by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    pub version: u32,
    /// The group that the request is about; none: the default worker group, or the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodegroup: Option<NodegroupId>,
    /// The wanted size of that group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_count: Option<i32>,
    /// The nodes that go first: Nova server ids, names of servers, member numbers or addresses, as the user named them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes_to_remove: Vec<String>,
    /// The template to upgrade to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<TemplateId>,
    /// What that template made of its nodes when the request was accepted ([`crate::template::ClusterTemplate::fingerprint`]): nodes of one replacement are all
    /// made of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_fingerprint: Option<String>,
    /// Nodes upgraded at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_batch_size: Option<i32>,
    /// Names the replacement of all nodes that the request asks for, also when a failed one is done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// How many nodes groups keep whose nodes are replaced: decided once, by who works on it, and then the same for whoever goes on with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<NodegroupId, i32>,
    /// Whether the cloud shall go back to the state before when the change fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rollback: bool,
    /// The failed operation that this one does again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<OperationId>,
    /// Nobody asked us: somebody else's work was found in progress, and is followed to whatever end the cloud shows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_found: bool,
    /// What is put back when it is cancelled before it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// The password that is given to the cluster's trustee, sealed for the operation: drawn once, by who works on it, before Keystone is asked, and then
    /// the same for whoever goes on with it. Gone when it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_password: Option<String>,
    /// The domain of whoever asked, where his token says it: for those who are told of what he asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_domain_id: Option<String>,
    /// The trace of the request (W3C `traceparent`), which the work on the operation goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What rows said before a request changed them; behind other unfinished operations, what they said before all of these. Its fields mean the same
/// in payloads of every version: whoever ends what is ahead writes them, also where it does not understand the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// The cluster's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The statuses of the groups that the request is about.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<NodegroupId, String>,
    /// The size of the one group that the request is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_count: Option<i32>,
    /// The sizes of all groups, for a request that replaces nodes: later requests for another size change the rows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<NodegroupId, i32>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Before {
    /// Groups whose statuses or sizes are kept at most; the column is bounded.
    pub const MOST_GROUPS: usize = 500;

    /// The cluster's status.
    pub fn status(&self) -> Option<Status> {
        self.status.as_deref().and_then(Status::parse)
    }

    /// A group's status.
    pub fn group(&self, id: &NodegroupId) -> Option<Status> {
        self.groups.get(id).and_then(|word| Status::parse(word))
    }
}

impl Payload {
    /// The version of what every program with an `operation` table understands. This one writes it, but for what needs a later one: programs
    /// that do not know that leave it to those that do, while both run.
    pub const VERSION: u32 = 1;

    /// The version of an update of a group that may have to make it or mend it. Before, an update did no more than look at its group, and said
    /// of one that was never made that it is complete.
    pub const MAKING: u32 = 2;

    /// The version of what ended when it was asked for, in favour of a removal that was there ([`crate::store::operation::join`]). Before, `retry` would have taken it for
    /// what had failed, and done it.
    pub const JOINED: u32 = 3;

    /// The latest version that this program understands.
    pub const KNOWN: u32 = Self::JOINED;

    /// [`Self::KNOWN`], but for an earlier release in a simulation.
    pub fn known() -> u32 {
        simulation::known().unwrap_or(Self::KNOWN)
    }

    /// The same wish, for the operation that does a failed one again.
    pub fn again(&self, failed: OperationId) -> Self {
        Self { retry_of: Some(failed), before: None, sealed_password: None, user_domain_id: None, traceparent: None, ..self.clone() }
    }

    /// Goes by the template as it is, whose fingerprint this is. What does a failed operation again goes on with the nodes that this one has made where the template
    /// is the same still; where it was changed since, it replaces them all, under the name of its own operation.
    pub fn go_by(&mut self, fingerprint: String, operation: &OperationId) {
        let is_other = self.template_fingerprint.as_ref().is_some_and(|known| *known != fingerprint);
        if is_other && self.retry_of.is_some() {
            self.generation = Some(operation.as_str().to_owned());
        }
        self.template_fingerprint = Some(fingerprint);
    }

    /// Decides how many nodes a group keeps. Conductors of earlier releases go by what rows said, while both run, or by events of their own for
    /// groups of which it is not carried: of very many, the column would not hold it.
    pub fn keep(&mut self, group: NodegroupId, count: i32) {
        if let Some(said) = self.before.as_mut().and_then(|before| before.sizes.get_mut(&group)) {
            *said = count;
        }
        self.sizes.insert(group, count);
    }

    /// The most nodes that the group has or may come to have that it is about, as far as it tells: those that are wanted, or that were there
    /// before.
    pub fn most_nodes(&self) -> Option<i32> {
        self.node_count.max(self.before.as_ref().and_then(|before| before.node_count))
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self {
            version: Self::VERSION,
            nodegroup: None,
            node_count: None,
            nodes_to_remove: Vec::new(),
            template: None,
            template_fingerprint: None,
            max_batch_size: None,
            generation: None,
            sizes: BTreeMap::new(),
            rollback: false,
            retry_of: None,
            sealed_password: None,
            as_found: false,
            before: None,
            user_domain_id: None,
            traceparent: None,
            unknown: Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_an_older_row_reads_and_nothing_asked_is_not_written() {
        assert_eq!(serde_json::from_str::<Payload>(r#"{"version":1}"#).unwrap(), Payload::default());
        assert_eq!(serde_json::to_string(&Payload::default()).unwrap(), r#"{"version":1}"#);
        let group = NodegroupId::generate();
        let resize = Payload {
            nodegroup: Some(group.clone()),
            node_count: Some(3),
            nodes_to_remove: vec!["a".into()],
            rollback: true,
            before: Some(Before {
                status: Some("UPDATE_FAILED".into()),
                groups: [(group.clone(), "CREATE_COMPLETE".to_owned())].into(),
                node_count: Some(2),
                sizes: [(group, 2)].into(),
                unknown: Map::new(),
            }),
            ..Payload::default()
        };
        assert_eq!(serde_json::from_str::<Payload>(&serde_json::to_string(&resize).unwrap()).unwrap(), resize);
        let failed = OperationId::generate();
        let again = resize.again(failed.clone());
        assert_eq!((again.retry_of, again.before, again.node_count), (Some(failed.clone()), None, Some(3)));
        let making = Payload { version: Payload::MAKING, ..Payload::default() };
        assert_eq!((making.again(failed).version, again.version), (Payload::MAKING, Payload::VERSION), "what it means stays what it means");
    }

    #[test]
    fn what_this_version_does_not_know_is_written_again_as_it_was_read() {
        let text = r#"{"version":1,"node_count":3,"before":{"node_count":2,"zones":{"a":[1,null]}},"pools":[{"name":"gpu","size":2.5}],"is_new":true}"#;
        let payload: Payload = serde_json::from_str(text).unwrap();
        assert_eq!(payload.node_count, Some(3));
        let same: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(&payload).unwrap(), same);
        // One that is done again puts back what is there then, and asks the same.
        let again = serde_json::to_value(payload.again(OperationId::generate())).unwrap();
        assert_eq!((&again["pools"], &again["is_new"], &again["before"]), (&same["pools"], &same["is_new"], &Value::Null));
    }

    #[test]
    fn what_is_done_again_goes_on_with_its_nodes_unless_the_template_is_another_since() {
        let own = OperationId::generate();
        let upgrade = |known: Option<&str>| Payload {
            generation: Some("first".into()),
            template_fingerprint: known.map(str::to_owned),
            ..Payload::default()
        };
        for (what, mut payload, wanted) in [
            ("a first one", upgrade(None), "first"),
            ("the same template", upgrade(Some("b")).again(OperationId::generate()), "first"),
            ("another", upgrade(Some("a")).again(OperationId::generate()), own.as_str()),
            ("a failed one of a release that did not tell", upgrade(None).again(OperationId::generate()), "first"),
        ] {
            payload.go_by("b".into(), &own);
            assert_eq!((payload.generation.as_deref(), payload.template_fingerprint.as_deref()), (Some(wanted), Some("b")), "{what}");
        }
    }

    #[test]
    fn most_nodes_are_those_that_are_wanted_or_were_there() {
        let payload = |wanted: Option<i32>, before: Option<Option<i32>>| {
            let before = before.map(|node_count| Before { node_count, ..Before::default() });
            Payload { node_count: wanted, before, ..Payload::default() }
        };
        for (wanted, before, most) in [
            (None, None, None),
            (None, Some(None), None),
            (Some(0), None, Some(0)),
            (None, Some(Some(2)), Some(2)),
            (Some(3), Some(Some(10)), Some(10)),
            (Some(10), Some(Some(3)), Some(10)),
        ] {
            assert_eq!(payload(wanted, before).most_nodes(), most, "{wanted:?} {before:?}");
        }
    }
}
