//! What users ask for, accepted by the store as the API has it accepted.

use std::time::Duration;

use model::cluster::CreateSpec;
use model::id::{ClusterId, NodegroupId, OperationId, ProjectId, TemplateId, UserId};
use model::json::Labels;
use model::nodegroup::{DefaultNodegroup, DefaultRole, NewNodegroup, Nodegroup, NodegroupChange, Nodes, WORKER};
use model::operation::{EventDetails, NewOperation, OperationKind, Payload};
use model::random::range;
use model::seal::Sealer;
use model::store::{Conn, Scope, Store, StoreError, cluster, exit, lifecycle, nodegroup, operation, template};
use model::template::ClusterTemplate;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Create,
    Resize,
    /// A patch of the cluster's size.
    Patch,
    AddGroup,
    ResizeGroup,
    /// A patch of a group's bounds, which changes nothing in the cloud.
    UpdateGroup,
    RemoveGroup,
    RotateCredential,
    RotateAuthorities,
    Upgrade,
    /// What is unfinished ends before its end.
    Cancel,
    /// What failed last is done again.
    Retry,
    Delete,
    /// Whatever the cloud says.
    ForceDelete,
    /// Rows and credentials go, stacks stay.
    Abandon,
}

impl Act {
    /// What is asked for when the cluster is to go.
    pub fn removal() -> Self {
        match range(0..8) {
            0 | 1 => Self::ForceDelete,
            2 => Self::Abandon,
            _ => Self::Delete,
        }
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub at: Duration,
    pub cluster: usize,
    pub act: Act,
}

/// What the users of a seed ask for, in order, and how many clusters it is about.
pub fn draw() -> (Vec<Request>, usize) {
    let clusters = range(1..=3);
    let mut requests = Vec::new();
    for cluster in 0..clusters {
        let seconds = |from: u64, to: u64| Duration::from_millis(range(from * 1000..to * 1000));
        let begin = seconds(0, 20);
        requests.push(Request { at: begin, cluster, act: Act::Create });
        const ACTS: [Act; 11] = [
            Act::Resize,
            Act::Patch,
            Act::AddGroup,
            Act::ResizeGroup,
            Act::UpdateGroup,
            Act::RemoveGroup,
            Act::RotateCredential,
            Act::Upgrade,
            Act::RotateAuthorities,
            Act::Cancel,
            Act::Retry,
        ];
        for _ in 0..range(0..5) {
            requests.push(Request { at: begin + seconds(5, 120), cluster, act: ACTS[range(0..ACTS.len())] });
        }
        match range(0..5) {
            0 => requests.push(Request { at: begin + seconds(0, 4), cluster, act: Act::removal() }),
            1 => requests.push(Request { at: begin + seconds(0, 20), cluster, act: Act::removal() }),
            2 => requests.push(Request { at: begin + seconds(30, 150), cluster, act: Act::removal() }),
            _ => {}
        }
    }
    requests.sort_by_key(|r| r.at);
    (requests, clusters)
}

/// The most nodes that are asked for in one group.
const LARGEST: i32 = 4;

/// The user, as the requests need him.
pub struct User {
    pub id: UserId,
    pub project: ProjectId,
    /// A fresh token.
    pub token: String,
    pub sealer: Sealer,
    pub template: TemplateId,
    /// Some of what is asked for has less time than it needs.
    pub is_pressed: bool,
}

impl User {
    /// From the acceptance of an operation to its latest end.
    fn deadline(&self) -> Duration {
        Duration::from_secs(if self.is_pressed && range(0..12) == 0 { range(5..90) } else { 3600 })
    }

    fn operation(&self, kind: OperationKind, cluster: &ClusterId, payload: Payload) -> NewOperation {
        let id = OperationId::generate();
        NewOperation {
            kind,
            cluster: cluster.clone(),
            project: self.project.clone(),
            user: self.id.clone(),
            // By this the calls to the cloud are known.
            request_id: Some(format!("req-{id}")),
            deadline: self.deadline(),
            payload,
            sealed_token: Some(self.sealer.seal(&id, &self.token.clone().into())),
            id,
        }
    }

    /// Has a request accepted; none when it cannot be asked now, as when there is no group to remove.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn ask(&self, store: &Store, id: &ClusterId, act: Act) -> Result<Option<OperationId>, StoreError> {
        if act == Act::Create {
            return self.create(store, id).await.map(Some);
        }
        let Some(row) = store.read(async |conn: &mut Conn| cluster::find(conn, &Scope::All, id).await).await? else { return Ok(None) };
        let groups = store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, id).await).await?;
        let added = groups.iter().find(|g| !g.is_default());
        let about = |group: &Nodegroup| Payload { nodegroup: Some(group.nodegroup_id()), ..Payload::default() };
        let size = range(1..=LARGEST);
        match (act, added) {
            (Act::Delete, _) => self.begin(store, id, OperationKind::ClusterDelete, Payload::default(), None).await.map(Some),
            (Act::ForceDelete, _) => self.begin(store, id, OperationKind::ClusterForceDelete, Payload::default(), None).await.map(Some),
            (Act::Abandon, _) => self.begin(store, id, OperationKind::ClusterAbandon, Payload::default(), None).await.map(Some),
            (Act::RotateCredential, _) => self.begin(store, id, OperationKind::CredentialRotate, Payload::default(), None).await.map(Some),
            (Act::RotateAuthorities, _) => self.begin(store, id, OperationKind::CaRotate, Payload::default(), None).await.map(Some),
            (Act::Upgrade, _) => {
                let Some(group) = groups.iter().find(|g| g.is_default() && !g.is_master()) else { return Ok(None) };
                let payload = Payload {
                    template: Some(self.template.clone()),
                    max_batch_size: Some(range(1..=2)),
                    generation: Some(OperationId::generate().as_str().to_owned()),
                    ..about(group)
                };
                self.begin(store, id, OperationKind::ClusterUpgrade, payload, None).await.map(Some)
            }
            (Act::Resize, _) => {
                let Some(group) = groups.iter().find(|g| g.is_default() && !g.is_master()) else { return Ok(None) };
                let payload = Payload { node_count: Some(size), ..about(group) };
                self.begin(store, id, OperationKind::ClusterResize, payload, Some(size)).await.map(Some)
            }
            (Act::Patch, _) => {
                let payload = Payload { node_count: Some(size), rollback: range(0..2) == 0, ..Payload::default() };
                self.begin(store, id, OperationKind::ClusterUpdate, payload, Some(size)).await.map(Some)
            }
            (Act::ResizeGroup, Some(group)) => {
                let payload = Payload { node_count: Some(size), ..about(group) };
                self.begin(store, id, OperationKind::ClusterResize, payload, Some(size)).await.map(Some)
            }
            (Act::UpdateGroup, Some(group)) => self.update_group(store, id, about(group), size).await.map(Some),
            (Act::RemoveGroup, Some(group)) => self.begin(store, id, OperationKind::NodegroupDelete, about(group), None).await.map(Some),
            // The API refuses it before the cluster has an address.
            (Act::AddGroup, None) if row.api_address.is_some() => self.add_group(store, id, size).await.map(Some),
            (Act::Cancel, _) => {
                let cancel = async |conn: &mut Conn| exit::cancel(conn, &Scope::All, id, None, &EventDetails::default()).await;
                store.write(cancel).await.map(|cancelled| cancelled.ring)
            }
            (Act::Retry, _) => self.retry(store, id).await.map(Some),
            (Act::Create | Act::AddGroup | Act::ResizeGroup | Act::UpdateGroup | Act::RemoveGroup, _) => Ok(None),
        }
    }

    async fn retry(&self, store: &Store, id: &ClusterId) -> Result<OperationId, StoreError> {
        let failed = store.read(async |conn: &mut Conn| exit::last_failed(conn, &Scope::All, id).await).await?;
        let kind = failed.kind().expect("a kind of this version");
        let payload = failed.payload().expect("a payload of this version").again(failed.operation_id());
        let size = if matches!(kind, OperationKind::ClusterResize | OperationKind::ClusterUpdate) { payload.node_count } else { None };
        self.begin(store, id, kind, payload, size).await
    }

    async fn create(&self, store: &Store, id: &ClusterId) -> Result<OperationId, StoreError> {
        let spec = &CreateSpec {
            id: id.clone(),
            name: format!("k-{}", &id.as_str()[..8]),
            template: self.template.clone(),
            project: self.project.clone(),
            user: self.id.clone(),
            keypair: None,
            docker_volume_size: None,
            labels: Labels::default(),
            master_flavor: Some("m1.small".into()),
            flavor: Some("m1.small".into()),
            create_timeout: Some(60),
            discovery_url: None,
            fixed_network: None,
            fixed_subnet: None,
            floating_ip_enabled: false,
            master_lb_enabled: false,
            health_status: None,
            health_status_reason: Labels::default(),
            note: None,
        };
        let new = &self.operation(OperationKind::ClusterCreate, id, Payload::default());
        let workers = range(1..=3);
        store
            .write(async |conn: &mut Conn| {
                cluster::insert(conn, spec).await?;
                let groups = [(DefaultRole::Master, 1), (DefaultRole::Worker, workers)].map(|(role, node_count)| {
                    let flavor = spec.flavor.clone();
                    DefaultNodegroup {
                        role,
                        node_count,
                        min_node_count: None,
                        max_node_count: None,
                        flavor,
                        image: None,
                        docker_volume_size: None,
                    }
                });
                nodegroup::insert_defaults(conn, spec, &groups).await?;
                operation::insert(conn, new).await
            })
            .await?;
        Ok(new.id.clone())
    }

    async fn begin(
        &self,
        store: &Store,
        id: &ClusterId,
        kind: OperationKind,
        payload: Payload,
        size: Option<i32>,
    ) -> Result<OperationId, StoreError> {
        let new = &self.operation(kind, id, payload);
        store
            .write(async |conn: &mut Conn| {
                let accepted = lifecycle::accept(conn, &Scope::All, new).await?;
                if let (true, Some(node_count), Some(group)) = (accepted.is_new, size, &accepted.group) {
                    let change = NodegroupChange { node_count: Some(node_count), ..NodegroupChange::default() };
                    nodegroup::record(conn, &group.nodegroup_id(), &change).await?;
                }
                Ok(accepted.operation)
            })
            .await
    }

    /// Its most nodes become so many more than the largest size that is ever asked for.
    async fn update_group(&self, store: &Store, id: &ClusterId, about: Payload, more: i32) -> Result<OperationId, StoreError> {
        let new = &self.operation(OperationKind::NodegroupUpdate, id, about);
        let change = &NodegroupChange { max_node_count: Some(Some(LARGEST + more)), ..NodegroupChange::default() };
        store
            .write(async |conn: &mut Conn| {
                let accepted = lifecycle::accept(conn, &Scope::All, new).await?;
                if let (true, Some(group)) = (accepted.is_new, &accepted.group) {
                    nodegroup::record(conn, &group.nodegroup_id(), change).await?;
                }
                Ok(accepted.operation)
            })
            .await
    }

    async fn add_group(&self, store: &Store, id: &ClusterId, node_count: i32) -> Result<OperationId, StoreError> {
        let group = &NewNodegroup {
            id: NodegroupId::generate(),
            cluster: id.clone(),
            project: self.project.clone(),
            name: "more".into(),
            role: WORKER.into(),
            flavor: Some("m1.small".into()),
            image: Some("fedora-coreos".into()),
            node_count,
            min_node_count: 0,
            max_node_count: None,
            docker_volume_size: None,
            labels: Labels::default(),
            nodes: Nodes::default(),
        };
        let payload = Payload { nodegroup: Some(group.id.clone()), node_count: Some(node_count), ..Payload::default() };
        let new = &self.operation(OperationKind::NodegroupCreate, id, payload);
        store
            .write(async |conn: &mut Conn| {
                let accepted = lifecycle::accept(conn, &Scope::All, new).await?;
                if accepted.is_new {
                    nodegroup::insert(conn, group).await?;
                }
                Ok(accepted.operation)
            })
            .await
    }
}

/// Stores the template that all clusters are made from.
pub async fn insert_template(store: &Store, user: &UserId, project: &ProjectId) -> Result<TemplateId, StoreError> {
    let id = TemplateId::generate();
    let row = &ClusterTemplate {
        created_at: None,
        updated_at: None,
        id: 0,
        uuid: id.as_str().into(),
        name: Some("k8s".into()),
        flavor_id: Some("m1.small".into()),
        keypair_id: None,
        image_id: Some("fedora-coreos".into()),
        external_network_id: Some("public".into()),
        dns_nameserver: Some("8.8.8.8".into()),
        apiserver_port: None,
        project_id: Some(project.0.clone()),
        user_id: Some(user.0.clone()),
        docker_volume_size: None,
        fixed_network: None,
        master_flavor_id: Some("m1.small".into()),
        cluster_distro: Some("fedora-coreos".into()),
        coe: Some("kubernetes".into()),
        http_proxy: None,
        https_proxy: None,
        no_proxy: None,
        registry_enabled: Some(false),
        network_driver: Some("flannel".into()),
        labels: None,
        tls_disabled: Some(false),
        public: Some(false),
        server_type: Some("vm".into()),
        volume_driver: None,
        insecure_registry: None,
        docker_storage_driver: None,
        master_lb_enabled: Some(false),
        fixed_subnet: None,
        floating_ip_enabled: Some(false),
        hidden: Some(false),
        tags: None,
        driver: Some("k8s_fedora_coreos_v1".into()),
    };
    store.write(async |conn: &mut Conn| template::insert(conn, row).await).await?;
    Ok(id)
}
