//! `GET /v1/operations/{operation}`.

use model::id::OperationId;
use model::store::operation::STEP;
use model::store::{Conn, event, history};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::operation::OperationView;
use crate::view::schema::plain_uuid;

/// The latest steps of one operation that are shown; far more than most have.
const STEPS: i64 = 1000;

/// One operation, with its steps.
pub async fn show(cx: Context) -> Result<Answer, ApiError> {
    let scope = cx.wide_scope(Act::OperationGetOneEverywhere)?;
    let id = OperationId::new(plain_uuid(cx.arg("operation")));
    let (scope, id) = (&scope, &id);
    let read = async |conn: &mut Conn| {
        let row = history::fetch(conn, scope, id).await?;
        let events = event::latest(conn, id, &[STEP], STEPS).await?;
        Ok((row, events))
    };
    let (row, events) = cx.shared.store.read(read).await?;
    cx.allow_on(Act::OperationGet, Some(&row.project_id), Some(&row.user_id))?;
    Answer::ok(&OperationView::full(&row, &events, &cx.shared.settings.step_limits, &cx.base))
}
