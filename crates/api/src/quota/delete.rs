//! `DELETE /v1/quotas/{project}/{resource}`.

use model::store::{Conn, quota};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;

/// Removes a quota: the default of the configuration holds again.
pub async fn delete(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::QuotaDelete)?;
    let project = cx.arg("project");
    let resource = super::resource(project, cx.arg("resource"))?;
    let answer = Answer::no_content();
    let (cx, kept) = (&cx, &answer);
    cx.shared
        .store
        .write(async |conn: &mut Conn| {
            let row = quota::fetch(conn, project, resource).await?;
            quota::delete(conn, &row).await?;
            cx.keep(conn, kept).await
        })
        .await?;
    Ok(answer)
}
