//! `GET /v1/stats`: how much a project, or the whole cloud, uses (rules S-01 to S-04).

use model::id::ProjectId;
use model::store::{Conn, quota};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::stats::StatsView;

/// Counts.
pub async fn show(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::StatsGetAll)?;
    let kind = cx.parameter("type").unwrap_or("cluster");
    if !kind.eq_ignore_ascii_case("cluster") {
        return Err(ApiError::value("type", kind, "The stats type must be cluster"));
    }
    let asked = cx.parameter("project_id").filter(|id| !id.is_empty()).map(|id| ProjectId(id.to_owned()));
    let of = match (&cx.caller.project_id, asked) {
        (_, asked) if cx.caller.is_admin => asked,
        (Some(own), None) => Some(own.clone()),
        (Some(own), Some(asked)) if *own == asked => Some(asked),
        _ => return Err(ApiError::Forbidden("Not authorized: only an admin sees the statistics of other projects.".into())),
    };
    let of = of.as_ref();
    let usage = cx.shared.store.read(async |conn: &mut Conn| quota::usage(conn, of).await).await?;
    Answer::ok(&StatsView::from(usage))
}
