//! `GET /v1/clusters` and `/v1/clusters/detail`: three statements a page whatever its size, one more with a marker.

use std::collections::HashMap;

use model::nodegroup::Nodegroup;
use model::store::{Conn, cluster, nodegroup, template};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::cluster::{ClusterPage, ClusterView, Depth};
use crate::view::page::Next;

/// One page.
pub async fn list(cx: Context, depth: Depth) -> Result<Answer, ApiError> {
    let (act, everywhere, collection) = match depth {
        Depth::Short => (Act::ClusterGetAll, Act::ClusterGetAllEverywhere, "clusters"),
        Depth::Detail | Depth::Full => (Act::ClusterDetail, Act::ClusterDetailEverywhere, "clusters/detail"),
    };
    cx.allow_own(act)?;
    let scope = cx.wide_scope(everywhere)?;
    let page = cx.page()?;
    let (scope, page) = (&scope, &page);
    let (rows, groups, templates) = cx
        .shared
        .store
        .read(async |conn: &mut Conn| {
            let rows = cluster::list(conn, scope, page).await?;
            let ids: Vec<&str> = rows.iter().map(|r| r.uuid.as_str()).collect();
            let groups = nodegroup::of_clusters(conn, &ids).await?;
            let templates = match depth {
                Depth::Short => Vec::new(),
                _ => {
                    let mut ids: Vec<&str> = rows.iter().filter_map(|r| r.cluster_template_id.as_deref()).collect();
                    ids.sort_unstable();
                    ids.dedup();
                    template::by_ids(conn, &ids).await?
                }
            };
            Ok((rows, groups, templates))
        })
        .await?;
    let mut by_cluster: HashMap<&str, Vec<&Nodegroup>> = HashMap::with_capacity(rows.len());
    for group in &groups {
        by_cluster.entry(&group.cluster_id).or_default().push(group);
    }
    let labels: HashMap<&str, Option<&str>> = templates.iter().map(|t| (t.uuid.as_str(), t.labels.as_deref())).collect();
    let clusters = rows
        .iter()
        .map(|row| ClusterView {
            row,
            groups: by_cluster.get(row.uuid.as_str()).map_or(&[], Vec::as_slice),
            template_labels: row.cluster_template_id.as_deref().and_then(|id| labels.get(id).copied().flatten()),
            base: &cx.base,
            version: cx.version,
            depth,
        })
        .collect();
    let next = Next::of(&cx.base, collection, page, rows.len(), rows.last().map(|r| r.uuid.as_str()));
    Answer::ok(&ClusterPage { clusters, next })
}
