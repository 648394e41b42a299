//! `DELETE /v1/federations/{uuid or name}`.

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;

/// Answers as upstream does; the federation stays.
pub async fn delete(cx: Context) -> Result<Answer, ApiError> {
    super::find(&cx, Act::FederationDelete).await?;
    Ok(Answer::no_content())
}
