//! New credentials for a cluster: the caller of the request becomes the one who delegates, and the trustee gets a new password.
//!
//! Whatever was known of the old password is void after this. The trust of a former delegator is useless without it; it goes with the trustee,
//! and not before: the trusts that Heat holds for its stacks were made from it, and Keystone would remove them with it.
//! Programs of the cloud provider inside the cluster get the new credentials as they got the old ones: from the first boot of masters, which
//! are replaced one by one, so that no conductor has to reach the cluster. Until the first of them has come, those programs cannot act.

use std::sync::Arc;

use model::cluster::{Cluster, ClusterChange};
use model::id::OperationId;
use model::json::python_json;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationState, OutcomeCode, Progress};
use model::store::{Conn, cluster as clusters, credential_health, event, nodegroup, operation, rotation};
use model::time::{millis, now};
use provider_clients::Session;

use super::replacement::{self, Next, Replacing};
use super::{Rows, rows};
use crate::context::Context;
use crate::driver::{PoolKind, capi_helm};
use crate::outcome::{Failure, Turn};
use crate::plan::{Observed, Seen};
use crate::settle::{self, End};
use crate::stack::Whose;
use crate::worker::{Work, succeed};
use crate::{certificates, credentials, driver, stack};

/// The event of a new password of the trustee, recorded with it.
const RENEWED: &str = "trustee_password";
/// Operations looked through that did one thing again after each other.
const LONGEST_CHAIN: usize = 50;

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    let Some(renewed_by) = renewed_by(cx, work).await? else {
        let has_delegated = !stack::events_of(cx, &work.operation.operation_id(), &[credentials::TRUSTED]).await?.is_empty();
        renew(cx, work, &rows, has_delegated).await?;
        return Ok(Turn::NOW);
    };
    let session = credentials::for_stacks(cx, work, &rows).await?;
    let observed = driver::observe(&rows.stack().handle, &session).await?;
    match observed.seen().is_some_and(|seen| seen.has_our_workers && seen.has_cloud_provider) {
        true => hand_over(cx, work, &rows, &session, observed, &renewed_by).await,
        false => finish(cx, work, &rows, None).await,
    }
}

/// The operation that made the password that is to be handed over: this one, or one that failed and that this one does again. What that one
/// has handed over already stays as it is.
async fn renewed_by(cx: &Context, work: &Work) -> Result<Option<OperationId>, Failure> {
    let mut id = work.operation.operation_id();
    let mut retry_of = work.payload()?.retry_of;
    for _ in 0..LONGEST_CHAIN {
        if !stack::events_of(cx, &id, &[RENEWED]).await?.is_empty() {
            return Ok(Some(id));
        }
        let Some(failed) = retry_of else { return Ok(None) };
        let row = cx.store.read(async |conn: &mut Conn| operation::find(conn, &failed).await).await?;
        retry_of = row.and_then(|row| row.payload().ok()?.retry_of);
        id = failed;
    }
    Ok(None)
}

/// Refuses, before anything changes, what new masters could not be made for: once the password is a new one, only they can bring it in.
async fn try_out(cx: &Context, work: &Work, rows: &Rows, session: &Session, seen: &Seen) -> Result<(), Failure> {
    let cluster = &rows.cluster;
    replacement::check(seen, &masters(rows))?;
    // The rows say what the cluster was until its upgrade is done: masters of then would join those of now.
    if seen.kube_version.is_some() && cluster.coe_version.is_some() && seen.kube_version != cluster.coe_version {
        let text =
            "an upgrade of the cluster is half done: resize it to the size it has, upgrade it again, and rotate the credentials then";
        return Err(Failure::fail(OutcomeCode::User, text));
    }
    // In its last phase new masters would no longer know the workers that it has not come to.
    let id = &cluster.cluster_id();
    if cx.store.read(async |conn: &mut Conn| rotation::find(conn, id).await).await?.is_some() {
        let text =
            "a rotation of the cluster's certificate authorities is not at its end: ask for it again, and rotate the credentials then";
        return Err(Failure::fail(OutcomeCode::User, text));
    }
    let (target, minutes) = (rows.target(session)?, stack::minutes_left(cx, work));
    let material = certificates::material(cx, cluster).await?;
    let facts = driver::facts_of_more(&cx.settings, cx.store.vault(), &target, PoolKind::Masters, seen).await?;
    for pool in masters(rows) {
        driver::new_nodes(&cx.settings, &target, pool, &facts, &material, (&generation(&work.operation.operation_id()), minutes), None)?;
    }
    Ok(())
}

/// The replacement of the masters that brings in what an operation made.
fn generation(renewed_by: &OperationId) -> String {
    format!("{renewed_by}-credentials")
}

/// Makes trust and password anew; both are recorded, each as soon as it is there.
async fn renew(cx: &Context, work: &Work, rows: &Rows, has_delegated: bool) -> Result<(), Failure> {
    let cluster = &rows.cluster;
    let Some(trustee) = &cluster.trustee_user_id else {
        return Err(Failure::fail(OutcomeCode::User, "the cluster has no trustee"));
    };
    if !has_delegated {
        // Before anything changes: from here on the old credentials may be of no use to look with.
        let session = credentials::for_renewal(cx, work, rows).await?;
        if let Observed::Ready(seen) | Observed::Broken { seen, .. } | Observed::RolledBack { seen, .. } | Observed::Building(seen) =
            driver::observe(&rows.stack().handle, &session).await?
        {
            if !seen.has_our_workers {
                let text =
                    "the nodes of this cluster hold the trustee's password, and cannot be given a new one: upstream's driver made it";
                return Err(Failure::fail(OutcomeCode::User, text));
            }
            if seen.has_cloud_provider {
                try_out(cx, work, rows, &session, &seen).await?;
            }
        }
        // Before the caller's token goes with the making of the trust.
        credentials::renew_stack_owner(cx, work, rows).await?;
        // A rotation that was cut off may have left a password that nobody knows. The trust is tried with one that is known: it would be
        // taken for useless otherwise, and there would be two.
        if credentials::is_trustee_shut_out(cx, cluster).await? {
            renew_password(cx, work, cluster, trustee, None).await?;
            credentials::make_trust(cx, work, &self::rows(cx, work).await?.cluster).await?;
        } else {
            credentials::make_trust(cx, work, cluster).await?;
        }
    }
    renew_password(cx, work, cluster, trustee, Some(RENEWED)).await
}

/// Gives the trustee a new password, and records it together with an event of this kind, if there is to be one.
async fn renew_password(cx: &Context, work: &Work, cluster: &Cluster, trustee: &str, kind: Option<&'static str>) -> Result<(), Failure> {
    let progress = Progress { step: "trustee", waiting_for: Some("a new password of the Keystone trustee".into()), ..Progress::default() };
    work.guard(cx, &progress).await?;
    let password = credentials::new_password_of(cx, trustee).await?;
    work.unload();
    let change = ClusterChange::trustee_password(cx.store.vault(), &cluster.cluster_id(), &password)?;
    let (id, operation_id) = (&cluster.cluster_id(), &work.operation.operation_id());
    let (progress, change) = (&progress, &change);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            clusters::record(conn, id, change).await?;
            if let Some(kind) = kind {
                event::append(conn, operation_id, id, kind, trustee).await?;
            }
            credential_health::renewed(conn, id, millis(now())).await
        })
        .await?;
    Ok(())
}

fn masters(rows: &Rows) -> Vec<(PoolKind, &Nodegroup)> {
    rows.groups.iter().filter(|g| g.is_default() && g.is_master()).map(|group| (PoolKind::Masters, group)).collect()
}

/// Replaces the masters by ones that bring the new credentials into the cluster.
async fn hand_over(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    session: &Session,
    observed: Observed,
    renewed_by: &OperationId,
) -> Result<Turn, Failure> {
    let generation = generation(renewed_by);
    let replacing = Replacing {
        whose: Whose::Cluster(&rows.cluster),
        pools: masters(rows),
        beside: rows.groups.iter().find(|g| g.is_default() && !g.is_master()).map(|group| (PoolKind::Workers, group)),
        generation: &generation,
        batch: 1,
        aim: "handing new credentials to the cluster",
    };
    match replacement::next(cx, work, session, observed, &replacing).await? {
        Next::Turn(turn) => Ok(turn),
        Next::Done(seen) => finish(cx, work, rows, Some((session, &seen))).await,
        Next::Send(todo, seen) => {
            let made = replacement::prepare(cx, work, &rows.target(session)?, &replacing, (&todo, &seen)).await?;
            replacement::send(cx, work, session, &seen, &todo, &made).await
        }
    }
}

/// Ends the operation well; where masters were replaced, with their addresses.
async fn finish(cx: &Context, work: &Work, rows: &Rows, replaced: Option<(&Session, &Seen)>) -> Result<Turn, Failure> {
    let mut of_cluster = ClusterChange::default();
    let mut of_groups = Vec::new();
    if let Some((session, seen)) = replaced {
        let facts = driver::facts(&rows.cluster, session, seen).await?;
        let addresses = NodegroupChange { node_addresses: Some(python_json(&facts.master_addresses)), ..NodegroupChange::default() };
        of_groups.extend(masters(rows).into_iter().map(|(_, group)| (group.nodegroup_id(), addresses.clone())));
        of_cluster.api_address = Some(facts.api_address);
    }
    let end = End { state: OperationState::Succeeded, group: None, facts: NodegroupChange::default(), reason: None };
    let (end, id, of_cluster, of_groups) = (&end, &rows.cluster.cluster_id(), &of_cluster, &of_groups);
    succeed(cx, work, async |conn: &mut Conn| {
        for (group, change) in of_groups {
            nodegroup::record(conn, group, change).await?;
        }
        clusters::record(conn, id, of_cluster).await?;
        settle::record(conn, &work.operation, end).await
    })
    .await
}
