//! What the store says of a cluster.

use std::collections::BTreeMap;

use model::cluster::Cluster;
use model::id::ClusterId;
use model::nodegroup::{Nodegroup, Nodes};
use model::operation::Operation;
use model::store::history::{self, Shown};
use model::store::{Conn, Page, Scope, SortDir, Store, StoreError, cluster, nodegroup, nodes};

/// Operations of one cluster that are looked at: more than a seed has.
const MOST_OPERATIONS: i64 = 1_000;

/// All that is said of a cluster.
pub struct Rows {
    pub cluster: Option<Cluster>,
    pub groups: Vec<Nodegroup>,
    /// How nodes of groups register, by the group's uuid.
    pub nodes: BTreeMap<String, Nodes>,
    pub operations: Vec<Operation>,
}

impl Rows {
    /// Reads them.
    ///
    /// # Errors
    /// What the store says.
    pub async fn read(store: &Store, id: &ClusterId) -> Result<Self, StoreError> {
        let read = async |conn: &mut Conn| {
            // All of them, those too that another one stood for from the first.
            let shown = Shown { cluster: Some(id.clone()), ..Shown::default() };
            let page = Page { limit: MOST_OPERATIONS, marker: None, sort_key: "id".into(), sort_dir: SortDir::Asc };
            let operations = history::page(conn, &Scope::All, &shown, &page).await?;
            let nodes = nodes::of_cluster(conn, id).await?;
            Ok::<_, StoreError>(Self {
                cluster: cluster::find(conn, &Scope::All, id).await?,
                groups: nodegroup::of_cluster(conn, id).await?,
                nodes: nodes.into_iter().collect(),
                operations,
            })
        };
        store.read(read).await
    }

    /// All of it as text, to be compared with what it was. For no other use: reasons and payloads are in it.
    pub fn as_text(&self) -> String {
        let cluster = self.cluster.as_ref().map(|row| {
            let shown = (&row.status, &row.status_reason, &row.cluster_template_id, &row.labels, &row.updated_at);
            (shown, &row.api_address, &row.stack_id, &row.coe_version, &row.trust_id)
        });
        let operations: Vec<_> = self.operations.iter().map(|o| (&o.uuid, &o.state, o.generation, &o.payload, o.cancel_ms)).collect();
        format!("{cluster:?} {:?} {:?} {operations:?}", self.groups, self.nodes)
    }
}
