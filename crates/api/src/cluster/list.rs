//! `GET /v1/clusters` and `/v1/clusters/detail`: two and three statements a page whatever its size, one more with a marker.
//!
//! Each reads the columns it shows and no others: reading rows is most of what a list costs.

use std::collections::HashMap;

use model::store::{Conn, cluster, nodegroup, template};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::cluster::{ClusterPage, ClusterView, Nodes, SummaryView};
use crate::view::labels::StoredMap;
use crate::view::page::Next;

/// One page of the plain list.
pub async fn list(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::ClusterGetAll)?;
    let scope = cx.wide_scope(Act::ClusterGetAllEverywhere)?;
    let (page, _place) = cx.page().await?;
    let (scope, page) = (&scope, &page);
    let read = async |conn: &mut Conn| {
        let rows = cluster::list_short(conn, scope, page).await?;
        let ids: Vec<&str> = rows.iter().map(|r| r.uuid.as_str()).collect();
        let groups = nodegroup::sizes(conn, &ids).await?;
        Ok((rows, groups))
    };
    let (rows, groups) = cx.shared.store.read(read).await?;
    let mut nodes: HashMap<&str, Nodes<'_>> = HashMap::with_capacity(rows.len());
    for group in &groups {
        nodes.entry(&group.cluster_id).or_default().add(group.role.as_deref(), group.node_count, None);
    }
    let clusters = rows.iter().map(|row| SummaryView {
        row: row.into(),
        nodes: nodes.remove(row.uuid.as_str()).unwrap_or_default(),
        base: &cx.base,
        version: cx.version,
    });
    let clusters = clusters.collect();
    let next = Next::of(&cx.base, "clusters", page, rows.len(), rows.last().map(|r| r.uuid.as_str()));
    Answer::ok(&ClusterPage { clusters, next })
}

/// One page of the list in detail.
pub async fn detail(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::ClusterDetail)?;
    let scope = cx.wide_scope(Act::ClusterDetailEverywhere)?;
    let (page, _place) = cx.page().await?;
    let (scope, page) = (&scope, &page);
    let read = async |conn: &mut Conn| {
        let rows = cluster::list(conn, scope, page).await?;
        let ids: Vec<&str> = rows.iter().map(|r| r.uuid.as_str()).collect();
        let groups = nodegroup::addresses(conn, &ids).await?;
        let mut ids: Vec<&str> = rows.iter().filter_map(|r| r.cluster_template_id.as_deref()).collect();
        ids.sort_unstable();
        ids.dedup();
        let labels = template::labels(conn, &ids).await?;
        Ok((rows, groups, labels))
    };
    let (rows, groups, labels) = cx.shared.store.read(read).await?;
    let mut nodes: HashMap<&str, Nodes<'_>> = HashMap::with_capacity(rows.len());
    for group in &groups {
        nodes.entry(&group.cluster_id).or_default().add(group.role.as_deref(), group.node_count, group.node_addresses.as_deref());
    }
    let labels: HashMap<&str, StoredMap<'_>> =
        labels.iter().map(|(uuid, labels)| (uuid.as_str(), StoredMap::read(labels.as_deref()))).collect();
    let none = StoredMap::default();
    let clusters = rows.iter().map(|row| ClusterView {
        row: row.into(),
        nodes: nodes.remove(row.uuid.as_str()).unwrap_or_default(),
        template_labels: row.cluster_template_id.as_deref().and_then(|id| labels.get(id)).unwrap_or(&none),
        faults: None,
        through_own_trust: false,
        base: &cx.base,
        version: cx.version,
    });
    let clusters = clusters.collect();
    let next = Next::of(&cx.base, "clusters/detail", page, rows.len(), rows.last().map(|r| r.uuid.as_str()));
    Answer::ok(&ClusterPage { clusters, next })
}
