//! `DELETE /v1/clusters/{uuid or name}`: accepted in every state; the status says so before the answer does.

use std::time::Duration;

use model::cluster::Cluster;
use model::cluster::status::{self, Begin, Status};
use model::id::OperationId;
use model::nodegroup::NodegroupChange;
use model::operation::{NewOperation, OperationKind, Payload};
use model::store::{Conn, Scope, StoreError, cluster, nodegroup, operation};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::{Act, Allowed};

/// Tries of a transaction that another request overtook.
const TRIES: u32 = 3;

/// Accepts the deletion.
pub async fn delete(cx: Context) -> Result<Answer, ApiError> {
    let scope = cx.wide_scope(Act::ClusterDeleteEverywhere)?;
    let row = {
        let (scope, ident) = (&scope, cx.arg("cluster"));
        cx.shared.store.read(async |conn: &mut Conn| super::find(conn, scope, ident).await).await?
    };
    let allowed = cx.allow_on(Act::ClusterDelete, row.project_id.as_deref(), row.user_id.as_deref())?;
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
    let (id, new) = (&id, &new);
    let mut tries = 1;
    let ring = loop {
        let stored = cx
            .shared
            .store
            .write(async |conn: &mut Conn| {
                let row = cluster::fetch(conn, scope, id).await?;
                let unfinished = operation::unfinished(conn, id).await?;
                let last = unfinished.last();
                let begin = status::begin(row.status(), last.and_then(|o| o.kind()), OperationKind::ClusterDelete)
                    .map_err(|_| StoreError::Stale { what: "cluster" })?;
                match (begin, last) {
                    (Begin::Coalesce, Some(running)) => return Ok(running.operation_id()),
                    (Begin::Coalesce, None) => return Err(StoreError::Stale { what: "cluster" }),
                    (Begin::Start(next) | Begin::Supersede(next), _) => {
                        cluster::begin(conn, id, row.status.as_deref(), next).await?;
                        nodegroup::record_all(conn, id, &NodegroupChange::status(Status::DeleteInProgress, None)).await?;
                    }
                }
                if matches!(begin, Begin::Supersede(_)) {
                    operation::supersede(conn, id, &new.id).await?;
                }
                operation::insert(conn, new).await?;
                Ok(new.id.clone())
            })
            .await;
        match stored {
            Err(StoreError::Stale { .. }) if tries < TRIES => tries += 1,
            other => break other?,
        }
    };
    cx.shared.doorbell.ring(ring);
    Ok(())
}
