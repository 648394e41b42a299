//! `DELETE /v1/clusters/{uuid or name}`: accepted in every state; the status says so before the answer does.

use std::sync::Arc;

use model::operation::OperationKind;

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{Reply, Request, accept};
use crate::policy::Act;

/// Accepts the deletion.
pub async fn delete(cx: Context) -> Result<Answer, ApiError> {
    let scope = cx.wide_scope(Act::ClusterDeleteEverywhere)?;
    let row = super::named(&cx, &scope).await?;
    let allowed = cx.allow_object(Act::ClusterDelete, &row)?;
    let request = Request { reply: Reply::Nothing, ..Request::new(&cx, OperationKind::ClusterDelete, &row, scope) };
    accept(Arc::new(cx), request, allowed).await
}
