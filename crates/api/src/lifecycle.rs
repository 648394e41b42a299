//! Accepting work on a cluster that is there: statuses, the rows that the request is about, and the operation go into one transaction; then
//! the doorbell rings.
//!
//! Every route that changes a cluster comes through here. What may begin when is decided in one place (`model::cluster::status`), by the
//! store, in the same transaction.

use std::sync::Arc;
use std::time::Duration;

use model::cluster::{Cluster, ClusterChange, status};
use model::driver::DriverName;
use model::id::{ClusterId, NodegroupId, OperationId, ProjectId};
use model::nodegroup::{DEFAULT_WORKER, NewNodegroup, Nodegroup, NodegroupChange, NodesChange};
use model::operation::{NewOperation, Operation, OperationKind, Payload};
use model::quota::{Demand, Resource};
use model::resource::ResourceKind;
use model::store::lifecycle::Accepted;
use model::store::{
    Conn, End, Scope, StoreError, cluster as clusters, event, health, lifecycle, nodegroup, nodes, operation, quota, resource, template,
};
use model::template::ClusterTemplate;
use model::time::{millis, now};

use crate::answer::{self, Answer};
use crate::context::Context;
use crate::dry_run;
use crate::error::ApiError;
use crate::policy::Allowed;
use crate::view::nodegroup::NodegroupView;

/// Tries of a transaction that another request, or a conductor, overtook.
const TRIES: u32 = 3;

/// What a request changes besides statuses.
pub enum Change {
    /// Statuses only.
    Nothing,
    /// The size of a group, and health that an agent reports along with the request.
    Size { node_count: i32, health: Option<ClusterChange> },
    /// A new group.
    Group(Box<NewNodegroup>),
    /// What a patch of a group changes.
    Bounds { change: NodegroupChange, nodes: Option<NodesChange> },
}

/// A request that passed its checks.
pub struct Request {
    pub kind: OperationKind,
    pub cluster: ClusterId,
    /// The cluster's project.
    pub project: ProjectId,
    /// Whose rows the caller sees.
    pub scope: Scope,
    pub change: Change,
    pub payload: Payload,
    pub deadline: Duration,
    /// What it is answered with.
    pub reply: Reply,
}

/// What a request is answered with; made in the transaction that accepts it, so that its answer can be kept with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// 202 with the cluster's uuid.
    Cluster,
    /// 202 with the uuids of cluster and operation.
    Acted,
    /// 202 with the group that the request is about, as it now is.
    Group,
    /// 204.
    Nothing,
}

/// A cluster that a request is about, and what decides about the request.
pub struct Subject {
    pub cluster: Cluster,
    pub groups: Vec<Nodegroup>,
    /// None when the template's row is gone (upstream's old databases have such clusters).
    pub template: Option<ClusterTemplate>,
    /// Operations that have not ended, oldest first.
    unfinished: Vec<OperationKind>,
}

impl Subject {
    /// The cluster that the path names.
    pub async fn find(cx: &Context, scope: &Scope) -> Result<Self, ApiError> {
        let ident = cx.arg("cluster");
        let read = async |conn: &mut Conn| {
            let cluster = crate::cluster::find(conn, scope, ident).await?;
            let id = cluster.cluster_id();
            let groups = nodegroup::of_cluster(conn, &id).await?;
            let template = template::with_uuid(conn, cluster.cluster_template_id.as_deref().unwrap_or_default()).await?;
            let unfinished = operation::unfinished(conn, &id).await?.iter().filter_map(Operation::kind).collect();
            Ok::<_, StoreError>(Self { cluster, groups, template, unfinished })
        };
        Ok(cx.shared.store.read(read).await?)
    }

    /// The driver of the cluster.
    pub fn driver(&self) -> Option<DriverName> {
        self.template.as_ref().and_then(ClusterTemplate::driver_name)
    }

    /// Refuses at once, with 400 as upstream does, what neither the cluster's state nor its driver allows (U-08, U-09, K-10, K-11, K-15,
    /// K-16).
    pub fn check_possible(&self, kind: OperationKind, supports: fn(DriverName) -> bool) -> Result<(), ApiError> {
        status::begin(self.cluster.status(), &self.unfinished, kind)
            .map_err(|refused| ApiError::Invalid(format!("Not possible now: a {refused}.")))?;
        let driver = self.driver();
        if driver.is_some_and(supports) {
            return Ok(());
        }
        let name = driver.map_or("none", DriverName::as_str);
        Err(ApiError::Invalid(format!("The driver of this cluster ({name}) does not support {}.", kind.phrase())))
    }

    /// Whether the cluster's nodes can be replaced by others: by the Heat driver only where ours made the stack, which bears a part of the
    /// cluster's id then; upstream's bears a random word.
    pub async fn can_replace_nodes(&self, cx: &Context) -> Result<bool, ApiError> {
        if self.driver() != Some(DriverName::K8sFedoraCoreosV1) {
            return Ok(true);
        }
        let (id, mark) = (&self.cluster.cluster_id(), self.cluster.stack_mark());
        let recorded = cx.shared.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
        Ok(recorded.iter().any(|r| r.kind() == Some(ResourceKind::Stack) && r.name.ends_with(&mark)))
    }
}

impl Request {
    /// A request about the cluster as a whole that changes statuses only; `scope` is whose rows the caller sees.
    pub fn new(cx: &Context, kind: OperationKind, cluster: &Cluster, scope: Scope) -> Self {
        Self {
            kind,
            cluster: cluster.cluster_id(),
            project: cluster.project(),
            scope,
            change: Change::Nothing,
            payload: Payload::default(),
            deadline: cx.shared.settings.deadlines.of(kind, cluster.create_timeout),
            reply: Reply::Cluster,
        }
    }
}

/// Stores the request, rings, and answers. From here on the work must finish although the client may leave. Of a dry run nothing is stored.
pub async fn accept(cx: Arc<Context>, request: Request, _: Allowed) -> Result<Answer, ApiError> {
    if cx.is_dry_run {
        return rehearse(&cx, &request).await;
    }
    let shared = cx.shared.clone();
    shared.to_the_end(async move { store(&cx, &request).await }).await
}

async fn store(cx: &Context, request: &Request) -> Result<Answer, ApiError> {
    let (answer, accepted) = transact(cx, request, End::Commit).await?;
    cx.shared.doorbell.ring(accepted.at_work);
    Ok(answer)
}

/// Does all that accepting the request does, takes it back, and tells what would come of it: so it is refused as it would be.
async fn rehearse(cx: &Context, request: &Request) -> Result<Answer, ApiError> {
    let (_, accepted) = transact(cx, request, End::RollBack).await?;
    let (id, kind, payload) = (&request.cluster, request.kind, &request.payload);
    let (intent, before) = cx
        .shared
        .store
        .read(async |conn: &mut Conn| {
            let before = operation::unfinished(conn, id).await?.len();
            Ok::<_, StoreError>((dry_run::intent(conn, id, kind, payload).await?, before))
        })
        .await?;
    let note = match (accepted.is_to_be_done(), before) {
        (false, _) => Some("the same is being done already: nothing would be added to it".to_owned()),
        (true, 0) => None,
        (true, others) if kind.removal().is_some() => Some(format!("unfinished operations on the cluster that would give way: {others}")),
        (true, others) => Some(format!("unfinished operations on the cluster that would come first: {others}")),
    };
    dry_run::answer(cx, &intent, note).await
}

async fn transact(cx: &Context, request: &Request, end: End) -> Result<(Answer, Accepted), ApiError> {
    let id = OperationId::generate();
    let new = NewOperation {
        kind: request.kind,
        cluster: request.cluster.clone(),
        project: request.project.clone(),
        user: cx.caller.user_id.clone(),
        request_id: Some(cx.request_id.clone()),
        deadline: request.deadline,
        payload: cx.asked(&request.payload),
        // The trust does the work; the token is for clusters whose trust is broken or cannot be delegated further.
        sealed_token: Some(cx.shared.sealer.seal(&id, &cx.caller.token)),
        id,
    };
    let new = &new;
    let mut tries = 1;
    let mut more = growth(cx, request).await?;
    loop {
        let demand = &more;
        let attempted = cx.shared.store.transact(end, async |conn: &mut Conn| attempt(conn, cx, request, new, demand).await).await;
        match attempted {
            Err(StoreError::Stale { .. }) if tries < TRIES => more = growth(cx, request).await?,
            // The group may have grown since what it lacks was counted: what has come meanwhile is not asked for twice.
            Err(refused @ StoreError::QuotaReached { .. }) if tries < TRIES => {
                let counted = std::mem::replace(&mut more, growth(cx, request).await?);
                if counted == more {
                    return Err(refused.into());
                }
            }
            other => return Ok(other?),
        }
        tries += 1;
    }
}

/// Nodes that a request adds to what the rows of its project say, as the group's stands now.
async fn growth(cx: &Context, request: &Request) -> Result<Demand, ApiError> {
    let default = cx.shared.settings.default_nodes_per_project;
    let nodes = |count, group| Demand { resource: Resource::Node, count, default, group };
    let asked = match &request.change {
        Change::Size { node_count, .. } => *node_count,
        Change::Group(new) => return Ok(nodes(i64::from(new.node_count), None)),
        Change::Nothing | Change::Bounds { .. } => return Ok(nodes(0, None)),
    };
    let (cluster, group) = (&request.cluster, request.payload.nodegroup.as_ref());
    let groups = cx.shared.store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, cluster).await).await?;
    let present = named(&groups, group.map(NodegroupId::as_str))?;
    Ok(nodes(i64::from(asked) - i64::from(present.node_count()), Some(present.nodegroup_id())))
}

async fn attempt(
    conn: &mut Conn,
    cx: &Context,
    request: &Request,
    new: &NewOperation,
    more: &Demand,
) -> Result<(Answer, Accepted), StoreError> {
    // Both guards before anything is read: whoever has read goes on seeing what was there then.
    event::queue_up(conn, &request.cluster).await?;
    quota::reserve(conn, &request.project, std::slice::from_ref(more)).await?;
    let accepted = lifecycle::accept(conn, &request.scope, new).await?;
    if accepted.is_to_be_done() {
        change(conn, request, &accepted, more).await?;
    }
    let answer = answer::in_store(answer_to(conn, cx, request, &accepted).await?)?;
    cx.keep(conn, &answer).await?;
    Ok((answer, accepted))
}

/// The answer to an accepted request. The group that it is about is read anew.
async fn answer_to(conn: &mut Conn, cx: &Context, request: &Request, accepted: &Accepted) -> Result<Result<Answer, ApiError>, StoreError> {
    let cluster = &accepted.cluster;
    Ok(match request.reply {
        Reply::Cluster => Answer::accepted(&cluster.uuid),
        Reply::Acted => Answer::acted(&cluster.uuid, accepted.at_work.as_str()),
        Reply::Nothing => Ok(Answer::no_content()),
        Reply::Group => {
            let id = cluster.cluster_id();
            let ident = request.payload.nodegroup.as_ref().map_or(DEFAULT_WORKER, NodegroupId::as_str);
            let group = nodegroup::fetch_in_cluster(conn, &id, ident).await?;
            let nodes = nodes::of_group(conn, &id, &group.nodegroup_id()).await?;
            let view = NodegroupView { row: &group, nodes: &nodes, cluster_labels: cluster.labels.as_deref(), base: &cx.base };
            Answer::accepted_with(&view)
        }
    })
}

/// What a request changes besides statuses.
async fn change(conn: &mut Conn, request: &Request, accepted: &Accepted, more: &Demand) -> Result<(), StoreError> {
    let group = accepted.group.as_ref().map(Nodegroup::nodegroup_id);
    let group = || group.as_ref().ok_or(StoreError::Stale { what: "nodegroup" });
    match &request.change {
        Change::Nothing => {}
        Change::Size { node_count, health } => {
            if let Some(told) = health {
                health::reported(conn, &request.cluster, millis(now())).await?;
                clusters::record(conn, &request.cluster, told).await?;
            }
            let present = accepted.group.as_ref().map_or(0, Nodegroup::node_count);
            // The group has shrunk since the reservation was counted: count again.
            if i64::from(*node_count) - i64::from(present) > more.count.max(0) {
                return Err(StoreError::Stale { what: "nodegroup" });
            }
            let change = NodegroupChange { node_count: Some(*node_count), ..NodegroupChange::default() };
            nodegroup::record(conn, group()?, &change).await?;
        }
        Change::Group(new) => nodegroup::insert(conn, new).await?,
        Change::Bounds { change, nodes } => {
            nodegroup::record(conn, group()?, change).await?;
            if let Some(asked) = nodes {
                // As they are now: the request before this one may have changed them.
                let mut nodes = nodes::of_group(conn, &request.cluster, group()?).await?;
                asked.apply(&mut nodes);
                nodes::record(conn, &request.cluster, group()?, &nodes).await?;
            }
        }
    }
    Ok(())
}

/// The payload of a request about one group.
pub fn about(group: &Nodegroup) -> Payload {
    Payload { nodegroup: Some(group.nodegroup_id()), ..Payload::default() }
}

/// Whether it is the worker group that every cluster has.
pub fn is_default_worker(group: &Nodegroup) -> bool {
    group.is_default() && !group.is_master()
}

/// The group that a request names, by default the default worker group.
pub fn named<'a>(groups: &'a [Nodegroup], ident: Option<&str>) -> Result<&'a Nodegroup, ApiError> {
    let Some(ident) = ident else {
        let missing = || ApiError::NotFound { what: "Nodegroup", key: "default-worker".into() };
        return groups.iter().find(|g| is_default_worker(g)).ok_or_else(missing);
    };
    let uuid = crate::view::schema::plain_uuid(ident);
    let by = |fits: &dyn Fn(&Nodegroup) -> bool| groups.iter().find(|g| fits(g));
    by(&|g| g.uuid == uuid)
        .or_else(|| by(&|g| g.name == ident))
        .or_else(|| ident.parse().ok().and_then(|number: i32| by(&|g| g.id == number)))
        .ok_or_else(|| ApiError::NotFound { what: "Nodegroup", key: ident.into() })
}

/// A group of this name and role, for tests.
#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn group(name: &str, role: &str) -> Nodegroup {
        Nodegroup {
            created_at: None,
            updated_at: None,
            id: i32::try_from(name.len()).expect("short"),
            uuid: format!("{name}-uuid"),
            name: name.into(),
            cluster_id: "c".into(),
            project_id: "p".into(),
            docker_volume_size: None,
            labels: None,
            flavor_id: None,
            image_id: None,
            node_addresses: None,
            node_count: Some(1),
            max_node_count: None,
            min_node_count: None,
            role: Some(role.into()),
            is_default: Some(name.starts_with("default")),
            stack_id: None,
            status: None,
            status_reason: None,
            version: None,
        }
    }

    #[test]
    fn groups_are_named_by_uuid_name_or_number_and_the_default_is_the_default_worker() {
        let groups = [group("default-master", "master"), group("default-worker", "worker"), group("gpu", "infra")];
        let name = |ident: Option<&str>| named(&groups, ident).map(|g| g.name.as_str()).ok();
        assert_eq!(name(None), Some("default-worker"));
        assert_eq!(name(Some("gpu")), Some("gpu"));
        assert_eq!(name(Some("gpu-uuid")), Some("gpu"));
        assert_eq!(name(Some("3")), Some("gpu"));
        assert_eq!(name(Some("nope")), None);
        assert!(named(&groups[..1], None).is_err());
    }
}
