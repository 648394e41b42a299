//! `GET /v1/clusters/{cluster}/nodegroups`: two statements a page, one more with a marker.

use model::store::{Conn, Scope, nodegroup};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::nodegroup::{NodegroupPage, ShortNodegroup};
use crate::view::page::Next;

/// One page, of one role when the query names it.
pub async fn list(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::NodegroupGetAll)?;
    let scope = cx.wide_scope(Act::NodegroupGetAllEverywhere)?;
    let (page, _place) = cx.page().await?;
    let project = match &scope {
        Scope::Project(project) => Some(project.clone()),
        Scope::All | Scope::User(_) => None,
    };
    // An empty role is none, as with upstream.
    let role = cx.parameter("role").filter(|role| !role.is_empty()).map(str::to_owned);
    let shown = nodegroup::Shown { project, role };
    let (scope, page, shown, ident) = (&scope, &page, &shown, cx.arg("cluster"));
    let read = async |conn: &mut Conn| {
        let cluster = crate::cluster::find(conn, scope, ident).await?;
        let rows = nodegroup::page(conn, &cluster.cluster_id(), shown, page).await?;
        Ok((cluster, rows))
    };
    let (cluster, rows) = cx.shared.store.read(read).await?;
    let collection = format!("clusters/{}/nodegroups", cluster.uuid);
    let next = Next::of(&cx.base, &collection, page, rows.len(), rows.last().map(|r| r.uuid.as_str()));
    Answer::ok(&NodegroupPage { nodegroups: rows.iter().map(ShortNodegroup).collect(), next })
}
