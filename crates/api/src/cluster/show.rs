//! `GET /v1/clusters/{uuid or name}`.

use model::store::beside::Group;
use model::store::{Conn, nodegroup, template};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::cluster::ClusterView;
use crate::view::labels::StoredMap;

/// One cluster.
pub async fn show(cx: Context) -> Result<Answer, ApiError> {
    let scope = cx.wide_scope(Act::ClusterGetOneEverywhere)?;
    let (scope, ident) = (&scope, cx.arg("cluster"));
    let (row, groups, labels) = cx
        .shared
        .store
        .read(async |conn: &mut Conn| {
            let row = super::find(conn, scope, ident).await?;
            let groups = nodegroup::of_cluster(conn, &row.cluster_id()).await?;
            let labels = template::labels(conn, &[row.cluster_template_id.as_deref().unwrap_or_default()]).await?.pop();
            Ok((row, groups, labels))
        })
        .await?;
    cx.allow_object(Act::ClusterGet, &row)?;
    Answer::ok(&ClusterView {
        row: (&row).into(),
        nodes: groups.iter().map(Group::from).collect(),
        template_labels: &StoredMap::read(labels.as_ref().and_then(|(_, labels)| labels.as_deref())),
        faults: Some(&groups),
        through_own_trust: cx.caller.info.trust_id.is_some() && cx.caller.info.trust_id == row.trust_id,
        base: &cx.base,
        version: cx.version,
    })
}
