//! `GET /v1/clusters` and `/v1/clusters/detail`: one and two statements a page whatever its size, one more with a marker.
//!
//! Each reads the columns it shows and no others: reading rows is most of what a list costs.

use std::collections::HashMap;

use model::store::{Conn, cluster, template};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::cluster::{ClusterPage, ClusterView, Each, SummaryView};
use crate::view::labels::StoredMap;
use crate::view::page::Next;

/// One page of the plain list.
pub async fn list(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::ClusterGetAll)?;
    let scope = cx.wide_scope(Act::ClusterGetAllEverywhere)?;
    let (page, _place) = cx.page().await?;
    let (scope, page) = (&scope, &page);
    let rows = cx.shared.store.read(async |conn: &mut Conn| cluster::list_short(conn, scope, page).await).await?;
    let clusters =
        Each::of(&rows, |row| SummaryView { row: row.into(), nodes: row.nodegroups().collect(), base: &cx.base, version: cx.version });
    let next = Next::of(&cx.base, "clusters", page, rows.len(), rows.last().map(|r| r.uuid()));
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
        let mut ids: Vec<&str> = rows.iter().filter_map(|r| r.cluster_template_id()).collect();
        ids.sort_unstable();
        ids.dedup();
        let labels = template::labels(conn, &ids).await?;
        Ok((rows, labels))
    };
    let (rows, labels) = cx.shared.store.read(read).await?;
    let labels: HashMap<&str, StoredMap<'_>> =
        labels.iter().map(|(uuid, labels)| (uuid.as_str(), StoredMap::read(labels.as_deref()))).collect();
    let none = StoredMap::default();
    let clusters = Each::of(&rows, |row| ClusterView {
        row: row.into(),
        nodes: row.nodegroups().collect(),
        template_labels: row.cluster_template_id().and_then(|id| labels.get(id)).unwrap_or(&none),
        faults: None,
        through_own_trust: false,
        base: &cx.base,
        version: cx.version,
    });
    let next = Next::of(&cx.base, "clusters/detail", page, rows.len(), rows.last().map(|r| r.uuid()));
    Answer::ok(&ClusterPage { clusters, next })
}
