//! Creating a cluster: trust, certificates, stack, each only if missing; then follow the stack until it is complete.

use std::sync::Arc;
use std::time::Duration;

use model::cluster::ClusterChange;
use model::cluster::status::{Rest, settle};
use model::json::python_json;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationKind, OperationState, OutcomeCode, Progress};
use model::resource::ResourceKind;
use model::store::{Conn, cluster as clusters, event, nodegroup, operation, resource};
use model::time::now;

use super::{Rows, await_unclear_stack, follow, rows, show_progress};
use crate::context::Context;
use crate::driver::{self, Target};
use crate::outcome::{Failure, Turn, says_quota};
use crate::plan::{self, CreateStep, Seen};
use crate::worker::{Work, succeed};
use crate::{certificates, credentials};

/// At once: the row has changed, look at it anew.
const NOW: Turn = Turn::Again { after: Duration::ZERO };

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let Some(rows) = rows(cx, work).await? else {
        return Err(Failure::fail(OutcomeCode::Internal, "the cluster's row is gone"));
    };
    if credentials::ensure(cx, work, &rows.cluster).await? || certificates::ensure(cx, work, &rows.cluster).await? {
        return Ok(NOW);
    }
    let session = credentials::trusted(cx, work, &rows.cluster)
        .ok_or_else(|| Failure::fail(OutcomeCode::Internal, "the cluster's trust is incomplete"))?;
    let Rows { cluster, groups, template: Some(template), .. } = &rows else {
        return Err(Failure::fail(OutcomeCode::Invalid, "the cluster's template is gone"));
    };
    let target = Target { cluster, groups, template, session: &session };
    let observed = driver::observe(&target).await?;
    tracing::debug!(?observed, "observed");
    match plan::create(observed) {
        // An earlier attempt asked for it and got no clear answer: it may be on its way.
        CreateStep::Make if !rows.is_settled(cx) => await_unclear_stack(cx, work).await,
        CreateStep::Make => make(cx, work, &target).await,
        CreateStep::Wait(seen) => follow(cx, work, cluster, "creating", &seen).await,
        CreateStep::Finish(seen) => finish(cx, work, &target, &seen).await,
        CreateStep::Fail { seen, reason } => {
            if let Some(seen) = seen {
                show_progress(cx, work, cluster, "stack", "failing", &seen).await?;
            }
            let code = if says_quota(&reason) { OutcomeCode::Quota } else { OutcomeCode::Cloud };
            Err(Failure::fail(code, reason))
        }
    }
}

async fn make(cx: &Context, work: &Work, target: &Target<'_>) -> Result<Turn, Failure> {
    let left = (work.operation.deadline() - now()).num_minutes().max(1);
    let minutes = u32::try_from(left).unwrap_or(cx.settings.create_timeout_minutes);
    let material = certificates::material(cx, target.cluster).await?;
    let stack = driver::prepare(&cx.settings, target, &material, minutes)?;
    let id = target.cluster.cluster_id();
    let progress = Progress { step: "stack", waiting_for: Some(format!("stack {}", stack.name)), ..Progress::default() };
    let (id, progress, name, operation_id) = (&id, &progress, &stack.name, work.operation.operation_id());
    let operation_id = &operation_id;
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            resource::record(conn, id, ResourceKind::Stack, name, None).await?;
            event::append(conn, operation_id, id, "stack_create", name).await
        })
        .await?;
    let stack_id = match driver::make(target, &stack).await {
        Ok(id) => id,
        Err(made) => {
            if !made.is_unclear {
                // It is known that nothing was made: the next attempt need not wait for it.
                cx.store
                    .write(async |conn: &mut Conn| {
                        operation::record(conn, &work.claim, progress).await?;
                        resource::unannounce(conn, id, ResourceKind::Stack).await
                    })
                    .await?;
            }
            return Err(made.failure);
        }
    };
    let change = ClusterChange {
        stack_id: Some(Some(stack_id.clone())),
        coe_version: Some(Some(stack.kube_version.clone())),
        ..ClusterChange::default()
    };
    let groups = NodegroupChange { stack_id: Some(Some(stack_id.clone())), ..NodegroupChange::default() };
    let (change, groups, stack_id) = (&change, &groups, &stack_id);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            resource::record(conn, id, ResourceKind::Stack, name, Some(stack_id)).await?;
            nodegroup::record_all(conn, id, groups).await?;
            clusters::record(conn, id, change).await
        })
        .await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_min })
}

async fn finish(cx: &Context, work: &Work, target: &Target<'_>, seen: &Seen) -> Result<Turn, Failure> {
    let facts = driver::facts(target, seen).await?;
    let status = settle(OperationKind::ClusterCreate, OperationState::Succeeded, Rest::default());
    let word = status.map(|s| s.as_str().to_owned());
    let id = target.cluster.cluster_id();
    let change = ClusterChange {
        status: word.clone(),
        status_reason: Some(None),
        stack_id: Some(Some(seen.stack_id.clone())),
        api_address: Some(facts.api_address.clone()),
        // Set when the stack was made; a stack that was adopted tells it by its parameters.
        coe_version: facts.kube_version.clone().map(Some),
        ..ClusterChange::default()
    };
    let addresses = |group: &Nodegroup| if group.is_master() { &facts.master_addresses } else { &facts.worker_addresses };
    let groups: Vec<_> = target
        .groups
        .iter()
        .map(|group| {
            let change = NodegroupChange {
                status: word.clone(),
                status_reason: Some(None),
                stack_id: Some(Some(seen.stack_id.clone())),
                node_addresses: Some(python_json(addresses(group))),
                ..NodegroupChange::default()
            };
            (model::id::NodegroupId::new(group.uuid.clone()), change)
        })
        .collect();
    let (id, change, groups) = (&id, &change, &groups);
    let stack = &seen.stack_id;
    let name = &seen.stack_name;
    succeed(cx, work, async |conn: &mut Conn| {
        for (group, change) in groups {
            nodegroup::record(conn, group, change).await?;
        }
        resource::record(conn, id, ResourceKind::Stack, name, Some(stack)).await?;
        clusters::record(conn, id, change).await
    })
    .await
}
