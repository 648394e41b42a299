//! `POST /v1/clusters/{uuid or name}/actions/upgrade`: rules U-01 to U-09.

use std::sync::Arc;

use model::driver::DriverName;
use model::operation::{OperationKind, Payload};
use model::store::Conn;

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{self, Request, Subject, accept};
use crate::microversion::UPGRADE;
use crate::policy::Act;
use crate::view::cluster::UPGRADE as SCHEMA;

/// Accepts the upgrade of a worker group, or of the cluster, to a template.
pub async fn upgrade(cx: Context) -> Result<Answer, ApiError> {
    // The route came with 1.7, by accident, and has worked from 1.8 on.
    if cx.version < UPGRADE {
        return Err(ApiError::Invalid(format!("Upgrading needs a higher microversion: {UPGRADE} at least.")));
    }
    let body = cx.read(&SCHEMA)?;
    let scope = cx.wide_scope(Act::ClusterUpgradeEverywhere)?;
    let visible = crate::template::visible(&cx, cx.own_scope());
    let subject = Subject::find(&cx, &scope).await?;
    let row = &subject.cluster;
    let allowed = cx.allow_object(Act::ClusterUpgrade, row)?;
    let Some(ident) = body.text("cluster_template") else {
        return Err(ApiError::missing_field("cluster_template"));
    };
    let wanted = {
        let visible = &visible;
        cx.shared.store.read(async |conn: &mut Conn| crate::template::find(conn, visible, ident).await).await?
    };
    let group = lifecycle::named(&subject.groups, body.text("nodegroup"))?;
    if !group.is_default() && row.cluster_template_id.as_deref() != Some(wanted.uuid.as_str()) {
        return Err(ApiError::Conflict(format!(
            "Nodegroup {} can be upgraded to the template of its cluster only, and that is {}.",
            group.name,
            row.cluster_template_id.as_deref().unwrap_or("gone")
        )));
    }
    subject.check_possible(OperationKind::ClusterUpgrade, DriverName::supports_upgrade)?;
    let request = Request {
        payload: Payload {
            template: Some(wanted.template_id()),
            max_batch_size: Some(body.integer("max_batch_size").unwrap_or(1)),
            ..lifecycle::about(group)
        },
        ..Request::new(&cx, OperationKind::ClusterUpgrade, row, scope)
    };
    accept(Arc::new(cx), request, allowed).await
}
