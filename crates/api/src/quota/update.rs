//! `PATCH /v1/quotas/{project}/{resource}`: a plain object, of which the limit counts.

use model::store::{Conn, quota};

use crate::answer::{self, Answer};
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::quota::{QuotaView, UPDATE};
use crate::view::schema;

/// Sets the limit; without one in the body it becomes 1.
pub async fn update(cx: Context) -> Result<Answer, ApiError> {
    let body = cx.read(&UPDATE)?;
    let limit = schema::not_null(&body, "hard_limit")?.unwrap_or(1);
    cx.allow_own(Act::QuotaUpdate)?;
    let project = cx.arg("project");
    let resource = super::resource(project, cx.arg("resource"))?;
    let cx = &cx;
    let answer = cx
        .shared
        .store
        .write(async |conn: &mut Conn| {
            let row = quota::fetch(conn, project, resource).await?;
            quota::record(conn, &row, limit).await?;
            let row = quota::fetch(conn, project, resource).await?;
            let answer = answer::in_store(Answer::accepted_with(&QuotaView::of(&row)))?;
            cx.keep(conn, &answer).await?;
            Ok(answer)
        })
        .await?;
    Ok(answer)
}
