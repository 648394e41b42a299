//! `PATCH /v1/clusters/{cluster}/nodegroups/{nodegroup}`: rules N-18 to N-20.

use std::sync::Arc;

use model::nodegroup::NodegroupChange;
use model::operation::OperationKind;
use model::store::Conn;
use serde_json::{Map, Value};

use super::create::check_flavor;
use super::{Found, rules};
use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{self, Change, Reply, Request, accept};
use crate::policy::Act;
use crate::view::nodegroup::{NodegroupView, PATCH};
use crate::view::patch;

/// Attributes that no patch of a group may touch, besides those of every resource (N-19).
const INTERNAL: &[&str] = &[
    "name",
    "cluster_id",
    "docker_volume_size",
    "labels",
    "flavor_id",
    "image_id",
    "node_addresses",
    "node_count",
    "role",
    "is_default",
    "stack_id",
    "status",
    "status_reason",
    "version",
];

/// Changes the bounds of a group, or how its nodes register; in the caller's own project.
pub async fn update(cx: Context) -> Result<Answer, ApiError> {
    let changes = cx.patch(&[], INTERNAL)?;
    let scope = cx.own_scope();
    // The cluster goes before the policy, the group behind it.
    let cluster = {
        let (scope, ident) = (&scope, cx.arg("cluster"));
        cx.shared.store.read(async |conn: &mut Conn| crate::cluster::find(conn, scope, ident).await).await?
    };
    let allowed = cx.allow_own(Act::NodegroupUpdate)?;
    let found = super::find_in(&cx, cluster).await?;
    let view = NodegroupView { row: &found.group, nodes: &found.nodes, cluster_labels: found.cluster.labels.as_deref(), base: &cx.base };
    let after = patch::applied_within("nodegroup", &patch::document(&view)?, &changes, &PATCH)?;
    let change = check(&found, &after)?;
    check_flavor(&cx, found.group.flavor_id.as_deref(), &found.cluster).await?;
    let request = Request {
        change,
        reply: Reply::Group,
        payload: lifecycle::about(&found.group),
        ..Request::new(&cx, OperationKind::NodegroupUpdate, &found.cluster, scope)
    };
    accept(Arc::new(cx), request, allowed).await
}

fn check(found: &Found, after: &Map<String, Value>) -> Result<Change, ApiError> {
    let number = |field: &str| after.get(field).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
    let (min, max) = (number("min_node_count").unwrap_or(0), number("max_node_count"));
    rules::bounds(&found.group.name, found.group.node_count(), min, max)?;
    let nodes = rules::nodes(found.group.role.as_deref().unwrap_or_default(), after.get("node_labels"), after.get("node_taints"))?;
    let change = NodegroupChange { min_node_count: Some(min), max_node_count: Some(max), ..NodegroupChange::default() };
    Ok(Change::Bounds { change, nodes })
}
