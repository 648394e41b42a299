//! New credentials for a cluster: the caller of the request becomes the one who delegates, by a new trust, and the trustee gets a new password.
//!
//! Whoever knew the old password is shut out after this, also who had the trust of that time handed on to a user of his own: once the new trust and the
//! new password are recorded, the former trust is removed, and with it Keystone removes what was made from it. As long as trusts that Heat holds for
//! stacks hang on it, it stays, and what becomes of it is looked at again when masters were replaced; who asks is told of one that stays then.
//! New masters do not wait for it longer than for a while.
//! Programs of the cloud provider inside the cluster get the new credentials as they got the old ones: from the first boot of masters, which
//! are replaced one by one, so that no conductor has to reach the cluster. Until the first of them has come, those programs cannot act.

use std::iter;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use model::cluster::{Cluster, ClusterChange};
use model::id::OperationId;
use model::json::python_json;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationKind, OperationState, OutcomeCode, Progress};
use model::store::{Conn, cluster as clusters, credential_health, event, history, nodegroup, operation, rotation};
use model::time::{millis, now};
use provider_clients::Session;

use super::replacement::{self, Next, Replacing};
use super::{Rows, rows, upgrade};
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
/// The event of its being seen to that the former credentials are of no use; its text is the trust that is left.
const SHUT_OUT: &str = "former_credentials_ended";
/// The event of that being put off until masters were replaced; its text says why.
const PUT_OFF: &str = "former_credentials_put_off";
/// The event of a former trust that stays; its text says why.
const STAYS: &str = "former_trust_stays";

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    let Some(renewal) = renewal(cx, work).await? else {
        if let Some(turn) = await_former_password(cx, work).await? {
            return Ok(turn);
        }
        let has_delegated = !stack::events_of(cx, &work.operation.operation_id(), &[credentials::TRUSTED]).await?.is_empty();
        renew(cx, work, &rows, has_delegated).await?;
        return Ok(Turn::NOW);
    };
    if !renewal.has_shut_out {
        return shut_out(cx, work, &rows, &renewal).await;
    }
    let session = credentials::for_stacks(cx, work, &rows).await?;
    let observed = driver::observe(&rows.stack().handle, &session).await?;
    match observed.seen().is_some_and(|seen| seen.has_our_workers && seen.has_cloud_provider) {
        true => hand_over(cx, work, &rows, &session, observed, &renewal).await,
        false => finish(cx, work, &rows, &renewal, None).await,
    }
}

/// Waits where another operation has given the trustee a password, however well it ended, so lately that a request for that, of which nobody heard, may
/// be carried out after this one's. None once that cannot be.
async fn await_former_password(cx: &Context, work: &Work) -> Result<Option<Turn>, Failure> {
    if work.is_settled(cx) {
        return Ok(None);
    }
    let cluster = &work.operation.cluster_id();
    let former = cx.store.read(async |conn: &mut Conn| history::finished(conn, cluster, history::LOOKED_THROUGH).await).await?;
    // One that was superseded was held for a while after its end.
    let since = millis(now() - (cx.settings.timing.settle + cx.settings.timing.lease));
    let gives = |kind| matches!(kind, Some(OperationKind::ClusterCreate | OperationKind::CredentialRotate));
    match former.iter().any(|o| gives(o.kind()) && o.finished_ms.is_some_and(|at| at > since)) {
        true => stack::wait_for(cx, work, "what may be under way of the password before").await.map(Some),
        false => Ok(None),
    }
}

/// The new password that is to be handed over.
struct Renewal {
    /// The operation that made it: this one, or one that failed and that this one does again. What that one has handed over already stays as it is.
    by: OperationId,
    /// When it was recorded.
    at: DateTime<Utc>,
    /// Who had the former credentials is seen to be shut out, or that is put off.
    has_shut_out: bool,
    /// A stack may have been changed through the trust that came with it: by this operation, or by one that was between the failed one and this one.
    is_in_use: bool,
}

async fn renewal(cx: &Context, work: &Work) -> Result<Option<Renewal>, Failure> {
    let (mut has_shut_out, mut is_in_use) = (false, false);
    for (number, by) in iter::once(work.operation.operation_id()).chain(stack::done_again(cx, work).await?).enumerate() {
        is_in_use |= number > 0;
        let events = stack::events_of(cx, &by, &[RENEWED, SHUT_OUT, PUT_OFF, stack::UPDATE]).await?;
        has_shut_out |= events.iter().any(|e| e.kind == SHUT_OUT || e.kind == PUT_OFF);
        is_in_use |= events.iter().any(|e| e.kind == stack::UPDATE);
        if let Some(renewed) = events.iter().find(|e| e.kind == RENEWED) {
            return Ok(Some(Renewal { by, at: stack::at(renewed), has_shut_out, is_in_use }));
        }
    }
    Ok(None)
}

/// Takes from others what they had by the former credentials, as soon as a login with the new password counts. Where Keystone cannot do it for a while,
/// masters are replaced first: without new ones programs of the cloud provider cannot act. They also go on trying the former password until then, for which
/// a Keystone that locks users out refuses the trustee, and so us.
async fn shut_out(cx: &Context, work: &Work, rows: &Rows, renewal: &Renewal) -> Result<Turn, Failure> {
    let age = stack::age(renewal.at);
    let early = credentials::SETTLED.saturating_sub(age);
    if !early.is_zero() {
        return Ok(Turn::Again { after: early });
    }
    let (kind, text) = match credentials::end_former_trusts(cx, work, rows, !renewal.is_in_use).await {
        Ok(stay) => {
            if !stay.is_empty() {
                tracing::info!(?stay, "former trusts of a cluster stay for now");
            }
            (SHUT_OUT, rows.cluster.trust_id.clone().unwrap_or_default())
        }
        Err(Failure::Retry { reason, .. }) if age >= 2 * cx.settings.timing.settle => {
            tracing::warn!(reason, "what others have by the former credentials of a cluster is ended later");
            (PUT_OFF, reason)
        }
        Err(failure) => return Err(failure),
    };
    stack::record(cx, work, &Progress { step: "trust", ..Progress::default() }, &[(kind, &text)]).await?;
    Ok(Turn::NOW)
}

/// Refuses, before anything changes, what new masters could not be made for: once the password is a new one, only they can bring it in.
async fn try_out(cx: &Context, work: &Work, rows: &Rows, session: &Session, seen: &Seen) -> Result<(), Failure> {
    let cluster = &rows.cluster;
    replacement::check(seen, &masters(rows))?;
    upgrade::check_whole(cluster, seen, "rotate the credentials")?;
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
        // Before the caller's token goes with the making of the trust, of which it decides what it must allow.
        let has_owner = credentials::renew_stack_owner(cx, work, rows).await?;
        credentials::make_trust(cx, work, cluster, has_owner).await?;
    }
    // After the trust: where the caller cannot give one, what is in the cluster goes on working.
    renew_password(cx, work, cluster, trustee).await
}

/// Gives the trustee a new password, and records it.
async fn renew_password(cx: &Context, work: &Work, cluster: &Cluster, trustee: &str) -> Result<(), Failure> {
    let progress = Progress { step: "trustee", waiting_for: Some("a new password of the Keystone trustee".into()), ..Progress::default() };
    work.guard(cx, &progress).await?;
    let password = credentials::new_password_of(cx, work, trustee).await?;
    work.unload();
    let change = ClusterChange::trustee_password(cx.store.vault(), &cluster.cluster_id(), &password)?;
    let (id, operation_id) = (&cluster.cluster_id(), &work.operation.operation_id());
    let (progress, change, payload) = (&progress, &change, &credentials::without_password(work)?);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            operation::carry(conn, work.claim(), payload).await?;
            clusters::record(conn, id, change).await?;
            event::append(conn, operation_id, id, RENEWED, trustee).await?;
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
    renewal: &Renewal,
) -> Result<Turn, Failure> {
    let generation = generation(&renewal.by);
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
        Next::Done(seen) => finish(cx, work, rows, renewal, Some((session, &seen))).await,
        Next::Send(todo, seen) => {
            let made = replacement::prepare(cx, work, &rows.target(session)?, &replacing, (&todo, &seen)).await?;
            replacement::send(cx, work, session, &seen, &todo, &made).await
        }
    }
}

/// Ends the operation well; where masters were replaced, with their addresses.
async fn finish(cx: &Context, work: &Work, rows: &Rows, renewal: &Renewal, replaced: Option<(&Session, &Seen)>) -> Result<Turn, Failure> {
    let stay = credentials::end_former_trusts(cx, work, rows, !renewal.is_in_use).await?;
    let note = tell_those_that_stay(cx, work, &stay).await?;
    let mut of_cluster = ClusterChange::default();
    let mut of_groups = Vec::new();
    if let Some((session, seen)) = replaced {
        let facts = driver::facts(&rows.cluster, session, seen).await?;
        let addresses = NodegroupChange { node_addresses: Some(python_json(&facts.master_addresses)), ..NodegroupChange::default() };
        of_groups.extend(masters(rows).into_iter().map(|(_, group)| (group.nodegroup_id(), addresses.clone())));
        of_cluster.api_address = Some(facts.api_address);
    }
    let end = End { state: OperationState::Succeeded, group: None, facts: NodegroupChange::default(), reason: note.as_deref() };
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

/// Tells of former trusts that stay, each once; what the cluster's owner is told of them, if there are any.
async fn tell_those_that_stay(cx: &Context, work: &Work, stay: &[String]) -> Result<Option<String>, Failure> {
    if stay.is_empty() {
        return Ok(None);
    }
    tracing::warn!(?stay, "former trusts of a cluster stay");
    let told = stack::events_of(cx, &work.operation.operation_id(), &[STAYS]).await?;
    let new: Vec<(&'static str, &str)> =
        stay.iter().filter(|text| told.iter().all(|event| event.message != **text)).map(|text| (STAYS, text.as_str())).collect();
    stack::record(cx, work, &Progress { step: "trust", ..Progress::default() }, &new).await?;
    Ok(Some(format!("what was made from a former trust of the cluster is not ended: {}", stay.join("; "))))
}
