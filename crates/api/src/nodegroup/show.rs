//! `GET /v1/clusters/{cluster}/nodegroups/{nodegroup}`.

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::nodegroup::NodegroupView;

/// One group.
pub async fn show(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::NodegroupGet)?;
    let scope = cx.wide_scope(Act::NodegroupGetOneEverywhere)?;
    let found = super::find(&cx, &scope).await?;
    let cluster_labels = found.cluster.labels.as_deref();
    Answer::ok(&NodegroupView { row: &found.group, nodes: &found.nodes, cluster_labels, base: &cx.base })
}
