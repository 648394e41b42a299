//! `GET /v1/clusters/{uuid or name}`.

use model::nodegroup::Nodegroup;
use model::store::{Conn, nodegroup, template};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::cluster::{ClusterView, Depth};

/// One cluster.
pub async fn show(cx: Context) -> Result<Answer, ApiError> {
    let scope = cx.wide_scope(Act::ClusterGetOneEverywhere)?;
    let (scope, ident) = (&scope, cx.arg("cluster"));
    let (row, groups, origin) = cx
        .shared
        .store
        .read(async |conn: &mut Conn| {
            let row = super::find(conn, scope, ident).await?;
            let groups = nodegroup::of_clusters(conn, &[&row.uuid]).await?;
            let origin = template::by_ids(conn, &[row.cluster_template_id.as_deref().unwrap_or_default()]).await?.pop();
            Ok((row, groups, origin))
        })
        .await?;
    cx.allow_object(Act::ClusterGet, &row)?;
    let groups: Vec<&Nodegroup> = groups.iter().collect();
    Answer::ok(&ClusterView {
        row: &row,
        groups: &groups,
        template_labels: origin.as_ref().and_then(|t| t.labels.as_deref()),
        base: &cx.base,
        version: cx.version,
        depth: Depth::Full,
    })
}
