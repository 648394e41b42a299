//! `POST /v1/clusters/{cluster}/actions/retry`, `cancel`, `force-delete` and `abandon`: ways out of every state.

use std::sync::Arc;

use model::id::OperationId;
use model::operation::{EventDetails, OperationKind};
use model::store::{Conn, StoreError, exit};

use crate::answer::{self, Answer};
use crate::cloud_checks;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{Change, Reply, Request, Subject, accept};
use crate::operation::list::uuid;
use crate::policy::{Act, Allowed};

/// Tries of a cancellation that a conductor, or another request, overtook.
const TRIES: u32 = 3;

/// Has the last failed operation done again.
pub async fn retry(cx: Context) -> Result<Answer, ApiError> {
    let scope = cx.wide_scope(Act::ClusterUpdateEverywhere)?;
    let row = super::named(&cx, &scope).await?;
    let allowed = cx.allow_object(Act::ClusterRetry, &row)?;
    let failed = {
        let (scope, id) = (&scope, &row.cluster_id());
        cx.shared.store.read(async |conn: &mut Conn| exit::last_failed(conn, scope, id).await).await?
    };
    let broken = || ApiError::Internal(format!("the row of operation {} cannot be read", failed.uuid));
    let kind = failed.kind().ok_or_else(broken)?;
    // Doing it again is doing it: whoever may not ask for the one may not ask for the other.
    cx.allow_object(act_of(kind), &row)?;
    if kind == OperationKind::CredentialRotate || (kind == OperationKind::ClusterCreate && row.trust_id.is_none()) {
        cloud_checks::must_delegate(&cx, Subject::find(&cx, &scope).await?.driver()).await?;
    }
    let payload = failed.payload().map_err(|_| broken())?.again(failed.operation_id());
    let change = match (kind, payload.node_count) {
        // The row may say by now what was reached.
        (OperationKind::ClusterUpdate | OperationKind::ClusterResize | OperationKind::NodegroupCreate, Some(node_count)) => {
            Change::Size { node_count, health: None }
        }
        _ => Change::Nothing,
    };
    let deadline = cx.shared.settings.deadlines.again(kind, row.create_timeout, failed.allowance());
    let request = Request { change, payload, deadline, reply: Reply::Acted, ..Request::new(&cx, kind, &row, scope) };
    accept(Arc::new(cx), request, allowed).await
}

/// What a caller must be allowed who asks for such an operation.
fn act_of(kind: OperationKind) -> Act {
    match kind {
        OperationKind::ClusterCreate => Act::ClusterCreate,
        OperationKind::ClusterUpdate => Act::ClusterUpdate,
        OperationKind::ClusterResize => Act::ClusterResize,
        OperationKind::ClusterUpgrade => Act::ClusterUpgrade,
        OperationKind::ClusterDelete => Act::ClusterDelete,
        OperationKind::ClusterForceDelete => Act::ClusterForceDelete,
        OperationKind::ClusterAbandon => Act::ClusterAbandon,
        OperationKind::NodegroupCreate => Act::NodegroupCreate,
        OperationKind::NodegroupUpdate => Act::NodegroupUpdate,
        OperationKind::NodegroupDelete => Act::NodegroupDelete,
        OperationKind::CaRotate => Act::CertificateRotate,
        OperationKind::CredentialRotate => Act::CredentialRotate,
    }
}

/// Ends an operation: the one that the query names, else the oldest that is unfinished.
pub async fn cancel(cx: Context) -> Result<Answer, ApiError> {
    let named = uuid(&cx, "operation")?.map(OperationId::new);
    let scope = cx.wide_scope(Act::ClusterUpdateEverywhere)?;
    let row = super::named(&cx, &scope).await?;
    let allowed = cx.allow_object(Act::ClusterCancel, &row)?;
    let shared = cx.shared.clone();
    shared.to_the_end(async move { end(&cx, &scope, &row.cluster_id(), named.as_ref(), allowed).await }).await
}

async fn end(
    cx: &Context,
    scope: &model::store::Scope,
    cluster: &model::id::ClusterId,
    named: Option<&OperationId>,
    _: Allowed,
) -> Result<Answer, ApiError> {
    let by = EventDetails { user: Some(cx.caller.user_id.clone()), request_id: Some(cx.request_id.clone()), ..EventDetails::default() };
    let by = &by;
    let mut tries = 1;
    let (answer, ring) = loop {
        let attempt = async |conn: &mut Conn| {
            let cancelled = exit::cancel(conn, scope, cluster, named, by, cx.shared.settings.publisher.as_deref()).await?;
            let answer = answer::in_store(Answer::acted(cluster.as_str(), cancelled.operation.as_str()))?;
            cx.keep(conn, &answer).await?;
            Ok::<_, StoreError>((answer, cancelled.ring))
        };
        match cx.shared.store.write(attempt).await {
            Err(StoreError::Stale { .. }) if tries < TRIES => tries += 1,
            other => break other?,
        }
    };
    if let Some(ring) = ring {
        cx.shared.doorbell.ring(ring);
    }
    Ok(answer)
}

/// Accepts a deletion that ends in a bounded time, whatever the cloud says.
pub async fn force_delete(cx: Context) -> Result<Answer, ApiError> {
    be_rid_of(cx, OperationKind::ClusterForceDelete, Act::ClusterForceDelete).await
}

/// Accepts that the cluster is forgotten and its stacks stay.
pub async fn abandon(cx: Context) -> Result<Answer, ApiError> {
    be_rid_of(cx, OperationKind::ClusterAbandon, Act::ClusterAbandon).await
}

async fn be_rid_of(cx: Context, kind: OperationKind, act: Act) -> Result<Answer, ApiError> {
    let scope = cx.wide_scope(act)?;
    let row = super::named(&cx, &scope).await?;
    let allowed = cx.allow_object(act, &row)?;
    let request = Request { reply: Reply::Acted, ..Request::new(&cx, kind, &row, scope) };
    accept(Arc::new(cx), request, allowed).await
}
