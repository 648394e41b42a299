//! The reconcilers of clusters, and the rows that every operation on a cluster works from.

pub(crate) mod addresses;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod force;
mod found;
mod replacement;
pub(crate) mod resize;
pub(crate) mod rotate;
pub(crate) mod rotate_ca;
pub(crate) mod upgrade;

use std::collections::HashMap;

use model::cluster::Cluster;
use model::nodegroup::{DEFAULT_WORKER, Nodegroup, Nodes};
use model::operation::{OutcomeCode, Payload};
use model::resource::{CloudResource, ResourceKind};
use model::store::{Conn, Scope, StoreError, cluster as clusters, nodegroup, nodes, placement, resource, template};
use model::template::ClusterTemplate;
use model::time::{millis, now};
use provider_clients::Session;

use crate::context::Context;
use crate::driver::{Handle, Target, capi_helm};
use crate::outcome::Failure;
use crate::stack::Known;
use crate::worker::Work;

/// The rows that an operation on a cluster works from.
pub(crate) struct Rows {
    pub cluster: Cluster,
    pub groups: Vec<Nodegroup>,
    /// How the nodes of groups register, by the group's uuid.
    pub nodes: HashMap<String, Nodes>,
    /// None when the template's row is missing (upstream's old databases have such clusters).
    pub template: Option<ClusterTemplate>,
    /// Stacks that were made, or may have been.
    pub stacks: Vec<CloudResource>,
    /// What Kubernetes made, as far as it is recorded.
    made_inside: Vec<CloudResource>,
    /// The user whom the stacks belong to, once it is announced.
    pub stack_owner: Option<CloudResource>,
    /// The name of the management cluster that a cluster of Cluster API is on, where it is recorded.
    pub management_cluster: Option<String>,
    /// Users, trusts, key pairs, credentials and certificates that were asked for lately without a clear answer, and may appear after these rows were read.
    pub unclear: Vec<CloudResource>,
}

/// How long after it is announced such a thing may be asked for. An owner of stacks that Keystone gives no roles stays in the
/// inventory without an id.
const ASKED_WITHIN_MS: i64 = 600_000;

/// Reads the rows of an operation that needs its cluster.
///
/// # Errors
/// When the cluster is gone.
pub(crate) async fn rows(cx: &Context, work: &Work) -> Result<Rows, Failure> {
    find_rows(cx, work).await?.ok_or_else(|| Failure::fail(OutcomeCode::Internal, "the cluster's row is gone"))
}

/// Reads the rows; none when the cluster is gone.
pub(crate) async fn find_rows(cx: &Context, work: &Work) -> Result<Option<Rows>, StoreError> {
    let id = work.operation.cluster_id();
    let is_settled = work.is_settled(cx);
    cx.store
        .read(async |conn: &mut Conn| {
            let Some(cluster) = clusters::find(conn, &Scope::All, &id).await? else { return Ok(None) };
            let groups = nodegroup::of_cluster(conn, &id).await?;
            let nodes = nodes::of_cluster(conn, &id).await?;
            let reference = cluster.cluster_template_id.clone().unwrap_or_default();
            let template = template::with_uuid(conn, &reference).await?;
            let recorded = resource::of_cluster(conn, &id).await?;
            let unclear = recorded.iter().filter(|record| !is_settled && is_unanswered(record)).cloned().collect();
            let (stacks, mut made_inside): (Vec<_>, Vec<_>) = recorded.into_iter().partition(|r| r.kind() == Some(ResourceKind::Stack));
            let stack_owner = made_inside.iter().position(|r| r.kind() == Some(ResourceKind::StackOwner)).map(|at| made_inside.remove(at));
            let is_inside = |kind| matches!(kind, ResourceKind::LoadBalancer | ResourceKind::FloatingIp | ResourceKind::Volume);
            made_inside.retain(|r| r.kind().is_some_and(is_inside));
            let mut rows = Rows { cluster, groups, nodes, template, stacks, made_inside, stack_owner, management_cluster: None, unclear };
            if capi_helm::is_ours(&rows) {
                rows.management_cluster = placement::find(conn, &id).await?;
            }
            Ok(Some(rows))
        })
        .await
}

impl Rows {
    /// The rows as they will be once the cluster has become something else.
    pub fn after(&self, cluster: Cluster, groups: Vec<Nodegroup>, template: ClusterTemplate) -> Self {
        let (nodes, stacks, made_inside) = (self.nodes.clone(), self.stacks.clone(), self.made_inside.clone());
        let (stack_owner, management_cluster) = (self.stack_owner.clone(), self.management_cluster.clone());
        let (template, unclear) = (Some(template), self.unclear.clone());
        Self { cluster, groups, nodes, template, stacks, made_inside, stack_owner, management_cluster, unclear }
    }

    /// The cluster's own stack.
    pub fn stack(&self) -> Known {
        self.known(Handle::of_cluster(&self.cluster))
    }

    /// The stack that a group is in.
    pub fn stack_of(&self, group: &Nodegroup) -> Known {
        self.known(Handle::of_group(&self.cluster, group))
    }

    /// Every stack but the cluster's own: of groups, also of groups whose row is gone.
    pub fn other_stacks(&self) -> Vec<Known> {
        let own = self.stack();
        let recorded = self.stacks.iter().filter(|r| !is_record_of(r, &own.handle)).map(|r| {
            let handle = Handle { name: r.name.clone(), id: r.resource_id.clone(), cluster: self.cluster.uuid.clone() };
            self.known(handle)
        });
        let mut others: Vec<Known> = recorded.collect();
        for group in self.groups.iter().filter(|g| !g.is_default() && g.stack_id.is_some()) {
            let known = self.stack_of(group);
            if known.handle.id != own.handle.id
                && !others.iter().any(|o| o.handle.name == known.handle.name || o.handle.id == known.handle.id)
            {
                others.push(known);
            }
        }
        others
    }

    /// What Kubernetes made of one kind, as far as it is recorded.
    pub fn made_inside(&self, kind: ResourceKind) -> impl Iterator<Item = &CloudResource> {
        self.made_inside.iter().filter(move |r| r.kind() == Some(kind))
    }

    /// What Kubernetes made and a deletion has found not to be its to remove, as far as it is recorded.
    pub fn kept_inside(&self) -> impl Iterator<Item = &CloudResource> {
        self.made_inside.iter().filter(|r| !r.is_to_go())
    }

    /// Whether a thing that Kubernetes made is recorded as one to be removed.
    pub fn is_recorded(&self, kind: ResourceKind, id: &str) -> bool {
        self.made_inside(kind).any(|r| r.is_to_go() && r.resource_id.as_deref() == Some(id))
    }

    /// Whether anything is recorded that the deletion has still to remove after or before the stacks.
    pub fn has_things_inside(&self) -> bool {
        self.made_inside.iter().any(CloudResource::is_to_go)
    }

    /// The group that an operation is about.
    ///
    /// # Errors
    /// When the cluster has no such group (any more).
    pub fn group(&self, payload: &Payload) -> Result<&Nodegroup, Failure> {
        concerned(&self.groups, payload)
    }

    /// What a driver works on.
    ///
    /// # Errors
    /// When the template is gone.
    pub fn target<'a>(&'a self, session: &'a Session) -> Result<Target<'a>, Failure> {
        let Some(template) = &self.template else {
            return Err(Failure::fail(OutcomeCode::User, "the cluster's template is gone"));
        };
        Ok(Target { cluster: &self.cluster, groups: &self.groups, nodes: &self.nodes, template, session })
    }

    fn known(&self, handle: Handle) -> Known {
        let record = self.stacks.iter().find(|r| is_record_of(r, &handle));
        Known {
            may_exist: record.is_some() || handle.id.is_some(),
            is_unclear: record.is_some_and(|r| r.resource_id.is_none()),
            recorded_as: record.map(|r| r.name.clone()),
            handle,
        }
    }
}

/// The group of a cluster that an operation is about.
///
/// # Errors
/// When the cluster has no such group (any more).
pub(crate) fn concerned<'a>(groups: &'a [Nodegroup], payload: &Payload) -> Result<&'a Nodegroup, Failure> {
    let wanted = |g: &&Nodegroup| match &payload.nodegroup {
        Some(id) => g.uuid == id.as_str(),
        None => g.name == DEFAULT_WORKER,
    };
    groups.iter().find(wanted).ok_or_else(|| Failure::fail(OutcomeCode::User, "the nodegroup is gone"))
}

/// Whether a thing that is looked for, and by nobody once its rows are gone, may have been asked for without an answer.
fn is_unanswered(record: &CloudResource) -> bool {
    // Stacks and releases are waited for where they are removed; what Kubernetes makes has an id when it is recorded.
    let of_keystone = [ResourceKind::Trustee, ResourceKind::Trust, ResourceKind::StackOwner, ResourceKind::ApplicationCredential];
    let of_others = [ResourceKind::KeyPair, ResourceKind::Certificate];
    let is_such = record.kind().is_some_and(|kind| of_keystone.contains(&kind) || of_others.contains(&kind));
    is_such && record.resource_id.is_none() && millis(now()) - record.updated_ms < ASKED_WITHIN_MS
}

/// A stack that upstream made has another name than we would give it: it is recorded under its own, and known by its id.
fn is_record_of(record: &CloudResource, handle: &Handle) -> bool {
    record.name == handle.name || (record.resource_id.is_some() && record.resource_id == handle.id)
}

#[cfg(test)]
mod tests {
    use model::resource::OnDelete;

    use super::*;

    #[test]
    fn what_is_looked_for_and_was_asked_for_lately_is_unanswered_until_it_has_an_id() {
        let record = |kind: &str| CloudResource {
            id: 1,
            cluster_uuid: "c".into(),
            kind: kind.into(),
            name: "u/key".into(),
            resource_id: None,
            on_delete: OnDelete::Remove.as_str().into(),
            created_ms: 0,
            updated_ms: millis(now()),
        };
        for kind in [ResourceKind::StackOwner, ResourceKind::KeyPair, ResourceKind::Certificate] {
            let asked = record(kind.as_str());
            let made = CloudResource { resource_id: Some("u/key".into()), ..asked.clone() };
            let long_ago = CloudResource { updated_ms: asked.updated_ms - ASKED_WITHIN_MS, ..asked.clone() };
            assert_eq!([&asked, &made, &long_ago].map(is_unanswered), [true, false, false], "{kind:?}");
        }
        for kind in [ResourceKind::Stack.as_str(), ResourceKind::Volume.as_str(), "of_a_later_release"] {
            assert!(!is_unanswered(&record(kind)), "{kind}");
        }
    }
}
