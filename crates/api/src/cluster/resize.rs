//! `POST /v1/clusters/{uuid or name}/actions/resize`: rules.

use std::sync::Arc;

use model::driver::DriverName;
use model::nodegroup::Nodegroup;
use model::operation::{OperationKind, Payload};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{self, Change, Request, Subject, accept};
use crate::microversion::ZERO_NODES;
use crate::policy::Act;
use crate::view::cluster::RESIZE;

/// Accepts a new size of a worker group.
pub async fn resize(cx: Context) -> Result<Answer, ApiError> {
    let body = cx.read(&RESIZE)?;
    let node_count = body.integer("node_count").unwrap_or_default();
    if node_count == 0 && cx.version < ZERO_NODES {
        return Err(ApiError::Invalid(format!(
            "Zero nodes in a nodegroup (node_count 0) need a higher microversion: {ZERO_NODES} at least."
        )));
    }
    // Even an admin resizes his own project's clusters only.
    let scope = cx.own_scope();
    let subject = Subject::find(&cx, &scope).await?;
    let row = &subject.cluster;
    let allowed = cx.allow_object(Act::ClusterResize, row)?;
    let group = lifecycle::named(&subject.groups, body.text("nodegroup"))?;
    check_bounds(group, node_count, subject.driver())?;
    let nodes_to_remove = body.texts("nodes_to_remove");
    let request = Request {
        change: Change::Size { node_count, health: None },
        payload: Payload { node_count: Some(node_count), nodes_to_remove, ..lifecycle::about(group) },
        ..Request::new(&cx, OperationKind::ClusterResize, row, scope)
    };
    accept(Arc::new(cx), request, allowed).await
}

/// Whether a group may have this many nodes.
fn check_bounds(group: &Nodegroup, node_count: i32, driver: Option<DriverName>) -> Result<(), ApiError> {
    if group.is_master() {
        return match driver {
            Some(driver) if driver.allows_master_resize(node_count) => Ok(()),
            _ => Err(ApiError::Invalid("Resizing the master nodegroup is not supported by this driver.".into())),
        };
    }
    let (min, max) = (group.min_node_count.unwrap_or(0), group.max_node_count.filter(|max| *max != 0));
    if node_count < min || max.is_some_and(|max| node_count > max) {
        let max = max.map_or_else(|| "no bound".to_owned(), |max| max.to_string());
        return Err(ApiError::Invalid(format!(
            "Resizing {} outside the allowed range: min_node_count = {min}, max_node_count = {max}, node_count asked for = {node_count}.",
            group.name
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::tests::group;

    #[test]
    fn a_group_keeps_within_its_bounds_and_masters_keep_their_number() {
        let workers = Nodegroup { min_node_count: Some(1), max_node_count: Some(3), ..group("w", "worker") };
        for (count, fits) in [(0, false), (1, true), (3, true), (4, false)] {
            assert_eq!(check_bounds(&workers, count, None).is_ok(), fits, "{count}");
        }
        // Zero is upstream's way to say that there is no bound.
        let open = Nodegroup { max_node_count: Some(0), ..workers };
        assert!(check_bounds(&open, 500, None).is_ok());
        assert!(check_bounds(&group("m", "master"), 3, Some(DriverName::K8sFedoraCoreosV1)).is_err());
    }
}
