//! Creating a cluster: trust, certificates, stack, each only if missing; then follow the stack until it is complete.

use std::sync::Arc;

use model::cluster::ClusterChange;
use model::cluster::status::{Rest, settle};
use model::json::python_json;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationKind, OperationState, OutcomeCode};
use model::resource::ResourceKind;
use model::store::{Conn, cluster as clusters, nodegroup, resource};

use super::{Rows, rows};
use crate::context::Context;
use crate::driver::{self, Target, capi_helm};
use crate::outcome::{Failure, Turn};
use crate::plan::{self, CreateStep, Seen};
use crate::stack::{self, Whose};
use crate::worker::{Work, succeed};
use crate::{certificates, credentials, room};

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    // On the heap: none of the turns that wait for the stack has it.
    if let Some(turn) = Box::pin(look_first(cx, work, &rows)).await? {
        return Ok(turn);
    }
    if credentials::ensure(cx, work, &rows).await? || certificates::ensure(cx, work, &rows.cluster).await? {
        return Ok(Turn::NOW);
    }
    let payload = work.payload()?;
    let session = match payload.as_found {
        true => credentials::for_looking(cx, work, &rows).await?,
        false => credentials::for_stacks(cx, work, &rows).await?,
    };
    let target = rows.target(&session)?;
    let (cluster, known) = (&rows.cluster, rows.stack());
    let whose = Whose::Cluster(cluster);
    let observed = driver::observe(&known.handle, &session).await?;
    tracing::debug!(?observed, "observed");
    match plan::create(observed) {
        // Nobody asked us, and Heat lets nobody make a stack with the trust that upstream made.
        CreateStep::Make if payload.as_found && payload.retry_of.is_none() => {
            let text = "the stack that another service began is gone, or was never made; delete the cluster and create it again";
            Err(Failure::fail(OutcomeCode::Cloud, text))
        }
        // It was there, and is gone: what is made now has another id.
        CreateStep::Make if known.handle.id.is_some() => {
            stack::gone(cx, work, whose, &known).await?;
            Ok(Turn::NOW)
        }
        // An earlier attempt asked for it and got no clear answer: it may be on its way.
        CreateStep::Make if !known.is_settled(cx, work) => stack::await_unclear(cx, work).await,
        CreateStep::Make => {
            let material = certificates::material(cx, cluster).await?;
            let facts = driver::facts_of_new(&cx.settings, cx.store.vault(), &target).await?;
            let new = driver::prepare(&cx.settings, &target, &facts, &material, stack::minutes_left(cx, work))?;
            stack::make(cx, work, whose, "creating", &target, &new).await
        }
        CreateStep::Wait(seen) => stack::follow(cx, work, whose, "creating", seen, &session).await,
        CreateStep::Finish(seen) => finish(cx, work, &target, &seen).await,
        CreateStep::Fail { seen: Some(_), .. } if stack::is_left_over(cx, work).await? => {
            stack::clear_away(cx, work, whose, &known, &session).await
        }
        CreateStep::Fail { seen, reason } => {
            if let Some(seen) = seen {
                stack::show_progress(cx, work, whose, "stack", "failing", &seen).await?;
            }
            Err(Failure::of_stack(reason))
        }
    }
}

/// Refuses what cannot be made before anything is, a trustee or a certificate: seen with the token of whoever asks, while there is nothing yet. None where
/// the project has room for it all.
async fn look_first(cx: &Context, work: &Work, rows: &Rows) -> Result<Option<Turn>, Failure> {
    if rows.cluster.trustee_user_id.is_some() || work.operation.sealed_token.is_none() || work.has_found_room() {
        return Ok(None);
    }
    let session = credentials::of_caller(cx, work, &rows.cluster, "nothing of the cluster is made yet").await?;
    let need = driver::need_of_new(&cx.settings, &rows.target(&session)?).await?;
    let turn = stack::no_room(cx, work, &session, &need).await?;
    if turn.is_none() {
        room::found(cx, work).await?;
        work.finds_room();
    }
    Ok(turn)
}

async fn finish(cx: &Context, work: &Work, target: &Target<'_>, seen: &Seen) -> Result<Turn, Failure> {
    let facts = driver::facts(target.cluster, target.session, seen).await?;
    let status = settle(OperationKind::ClusterCreate, OperationState::Succeeded, Rest::default());
    let word = status.map(|s| s.as_str().to_owned());
    let id = target.cluster.cluster_id();
    let change = ClusterChange {
        status: word.clone(),
        // Nothing, but that labels are without effect, or the version is not known.
        status_reason: Some(target.note(facts.kube_version.as_deref())),
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
        // Upstream lets groups be added while the cluster is being made: these have stacks of their own.
        .filter(|group| group.is_default())
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
