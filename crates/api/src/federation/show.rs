//! `GET /v1/federations/{uuid or name}`.

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::federation::FederationView;

/// One federation.
pub async fn show(cx: Context) -> Result<Answer, ApiError> {
    let row = super::find(&cx, Act::FederationGet).await?;
    Answer::ok(&FederationView::full(&row, &cx.base))
}
