//! `DELETE /v1/clusters/{uuid or name}`: accepted in every state; the status says so before the answer does.

use std::time::Duration;

use model::cluster::Cluster;
use model::id::OperationId;
use model::operation::{NewOperation, OperationKind, Payload};
use model::store::{Conn, Scope, StoreError, lifecycle};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::{Act, Allowed};

/// Tries of a transaction that a conductor overtook.
const TRIES: u32 = 3;

/// Accepts the deletion.
pub async fn delete(cx: Context) -> Result<Answer, ApiError> {
    let scope = cx.wide_scope(Act::ClusterDeleteEverywhere)?;
    let row = {
        let (scope, ident) = (&scope, cx.arg("cluster"));
        cx.shared.store.read(async |conn: &mut Conn| super::find(conn, scope, ident).await).await?
    };
    let allowed = cx.allow_object(Act::ClusterDelete, &row)?;
    // From here on the work must finish although the client may leave.
    let runtime = cx.shared.runtime.clone();
    runtime.spawn(async move { accept(&cx, &scope, &row, allowed).await }).await.map_err(|e| ApiError::Internal(e.to_string()))??;
    Ok(Answer::no_content())
}

async fn accept(cx: &Context, scope: &Scope, row: &Cluster, _: Allowed) -> Result<(), ApiError> {
    let id = row.cluster_id();
    let operation_id = OperationId::generate();
    let new = NewOperation {
        kind: OperationKind::ClusterDelete,
        cluster: id.clone(),
        project: row.project(),
        user: cx.caller.user_id.clone(),
        request_id: Some(cx.request_id.clone()),
        deadline: Duration::from_secs(60 * u64::from(cx.shared.settings.delete_timeout_minutes)),
        payload: Payload::default(),
        sealed_token: Some(cx.shared.sealer.seal(&operation_id, &cx.caller.token)),
        id: operation_id,
    };
    let new = &new;
    let mut tries = 1;
    let accepted = loop {
        match cx.shared.store.write(async |conn: &mut Conn| lifecycle::accept(conn, scope, new).await).await {
            // A conductor has just claimed what gives way to this.
            Err(StoreError::Stale { .. }) if tries < TRIES => tries += 1,
            other => break other?,
        }
    };
    cx.shared.doorbell.ring(accepted.operation);
    Ok(())
}
