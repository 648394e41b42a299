//! `POST /v1/quotas`: rules.

use model::quota::Resource;
use model::store::{Conn, StoreError, quota};

use crate::answer::{self, Answer};
use crate::cloud_checks;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::quota::{CREATE, QuotaView};
use crate::view::schema;

/// Limits a project.
pub async fn create(cx: Context) -> Result<Answer, ApiError> {
    let body = cx.read(&CREATE)?;
    let project = body.owned("project_id").unwrap_or_default();
    let resource = body.text("resource").and_then(Resource::parse).unwrap_or(Resource::Cluster);
    let limit = schema::not_null(&body, "hard_limit")?.unwrap_or(1);
    // Before Keystone is asked: whoever may not do it learns nothing about projects.
    cx.allow_own(Act::QuotaCreate)?;
    if !cloud_checks::project_exists(&cx, &project).await? {
        return Err(ApiError::Missing(format!("The project_id {project} could not be found.")));
    }
    let (cx, project) = (&cx, &project);
    let stored = cx
        .shared
        .store
        .write(async |conn: &mut Conn| {
            quota::insert(conn, project, resource, limit).await?;
            let row = quota::fetch(conn, project, resource).await?;
            let answer = answer::in_store(Answer::created(&QuotaView::of(&row), String::new()))?;
            cx.keep(conn, &answer).await?;
            Ok(answer)
        })
        .await;
    stored.map_err(|error| match error {
        StoreError::Duplicate { .. } => {
            ApiError::Conflict(format!("A quota of project {project} for resource {} already exists.", resource.as_str()))
        }
        other => other.into(),
    })
}
