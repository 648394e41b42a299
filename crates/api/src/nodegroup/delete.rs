//! `DELETE /v1/clusters/{cluster}/nodegroups/{nodegroup}`: rules N-21 and N-22.

use std::sync::Arc;

use model::operation::OperationKind;

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{self, Reply, Request, accept};
use crate::policy::Act;

/// Accepts the deletion of a group, in the caller's own project.
pub async fn delete(cx: Context) -> Result<Answer, ApiError> {
    let allowed = cx.allow_own(Act::NodegroupDelete)?;
    let scope = cx.own_scope();
    let found = super::find(&cx, &scope).await?;
    if found.group.is_default() {
        return Err(ApiError::Invalid(format!("Nodegroup {} is a default nodegroup: it cannot be deleted.", found.group.name)));
    }
    let request = Request {
        payload: lifecycle::about(&found.group),
        reply: Reply::Nothing,
        ..Request::new(&cx, OperationKind::NodegroupDelete, &found.cluster, scope)
    };
    accept(Arc::new(cx), request, allowed).await
}
