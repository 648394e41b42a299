//! `POST /v1/clusters/{uuid or name}/actions/transfer`: the cluster becomes another user's of its project, for instance because the one who made
//! it has left. Whose it is decides who is given its certificates and its kubeconfig.
//!
//! Only the row changes, so it is done at once, in whatever state the cluster is and beside whatever is done with it. The right by which the
//! cluster's own programs speak to the cloud (its trust) cannot be handed on by anybody but its giver: the new owner gives his with
//! `PATCH /v1/credentials/{cluster}`.

use model::cluster::ClusterChange;
use model::driver::DriverName;
use model::store::{Conn, cluster as clusters};

use crate::answer::Answer;
use crate::cloud_checks;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::Subject;
use crate::policy::Act;
use crate::view::cluster::TRANSFER;

/// Gives the cluster to another user.
pub async fn transfer(cx: Context) -> Result<Answer, ApiError> {
    let body = cx.read(&TRANSFER)?;
    let user = body.owned("user_id").unwrap_or_default();
    let scope = cx.wide_scope(Act::ClusterTransfer)?;
    let subject = Subject::find(&cx, &scope).await?;
    let row = &subject.cluster;
    cx.allow_object(Act::ClusterTransfer, row)?;
    if subject.driver() == Some(DriverName::K8sCapiHelmV1) {
        return Err(ApiError::Invalid(
            "A cluster of the driver k8s_capi_helm_v1 becomes the user's who rotates its credentials: PATCH /v1/credentials/{cluster}."
                .into(),
        ));
    }
    let project = row.project().0;
    if !cloud_checks::has_a_role(&cx, &user, &project).await? {
        return Err(ApiError::Invalid(format!("user_id: user {user} has no role in project {project}, which the cluster is in.")));
    }
    let change = ClusterChange { user_id: Some(Some(user.clone())), ..ClusterChange::default() };
    let (id, change) = (&row.cluster_id(), &change);
    let answer = Answer::accepted(id.as_str())?;
    let kept = &answer;
    cx.shared
        .store
        .write(async |conn: &mut Conn| {
            // It may have gone meanwhile.
            clusters::touch(conn, id).await?;
            clusters::record(conn, id, change).await?;
            cx.keep(conn, kept).await
        })
        .await?;
    tracing::info!(cluster.id = id.as_str(), from = row.user().0, to = user, by = %cx.caller.user_id, "the cluster has another owner");
    Ok(answer)
}
