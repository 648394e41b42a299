//! `GET /v1/quotas/{project}/{resource}`: always answered; without a row the default of the configuration holds.

use model::quota::Resource;
use model::store::{Conn, quota};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::quota::{DefaultView, QuotaView};

/// How "no limit" is written.
const UNLIMITED: i64 = -1;

/// One quota.
pub async fn show(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::QuotaGet)?;
    let project = cx.arg("project");
    let is_own = cx.caller.project_id.as_ref().is_some_and(|own| own.0 == project);
    if !cx.caller.is_admin && !is_own {
        return Err(ApiError::Forbidden("Not authorized: only an admin sees the quotas of other projects.".into()));
    }
    let settings = &cx.shared.settings;
    // Upstream answers its only resource for every word that it does not know.
    let Some(resource) = Resource::parse(cx.arg("resource")) else {
        return by_default(project, Resource::Cluster, Some(settings.default_clusters_per_project));
    };
    match cx.shared.store.read(async |conn: &mut Conn| quota::find(conn, project, resource).await).await? {
        Some(row) => Answer::ok(&QuotaView::of(&row)),
        None => match resource {
            Resource::Cluster => by_default(project, resource, Some(settings.default_clusters_per_project)),
            Resource::Node => by_default(project, resource, settings.default_nodes_per_project),
        },
    }
}

fn by_default(project: &str, resource: Resource, limit: Option<i64>) -> Result<Answer, ApiError> {
    Answer::ok(&DefaultView { hard_limit: limit.unwrap_or(UNLIMITED), project_id: project, resource: resource.as_str() })
}
