//! The trust that delegates from the cluster's creator to its trustee.

use model::cluster::{Cluster, ClusterChange};
use model::operation::{OutcomeCode, Progress};
use model::planted::{self, Bug};
use model::resource::ResourceKind;
use model::store::{Conn, cluster as clusters, event, operation, resource};
use provider_clients::NewTrust;

use super::{TRUSTED, announce, caller, expired, heard, may_still_appear, no_delegator, refusal, trusted, trustee_name, was_refused};
use crate::context::Context;
use crate::outcome::Failure;
use crate::worker::Work;

/// Has the request's caller delegate to the trustee, and records the trust. One that he has given already is taken, if it works.
pub(crate) async fn make_trust(cx: &Context, work: &Work, cluster: &Cluster) -> Result<(), Failure> {
    let trustee = cluster.trustee_user_id.clone().unwrap_or_default();
    let name = trustee_name(cluster);
    let progress = Progress { step: "trust", waiting_for: Some("a Keystone trust".into()), ..Progress::default() };
    let caller = caller(cx, work)?.ok_or_else(no_delegator)?;
    let info = caller.info().await.map_err(expired)?;
    let Some(project) = info.project_id.clone().filter(|p| *p == cluster.project().0) else {
        return Err(Failure::fail(OutcomeCode::Credentials, "the request's token is not scoped to the cluster's project"));
    };
    let keystone = caller.keystone();
    let useless = useless_trust(cx, work, cluster).await?;
    let found = keystone.find_trust(&info.user_id, &trustee, useless).await.map_err(expired)?;
    // What an earlier attempt asked for may come all the same, whatever this one is told.
    let is_first = !may_still_appear(cx, work, cluster, ResourceKind::Trust, &name).await?;
    // After all that may fail before it is asked for: whoever removes the cluster waits for what is announced.
    announce(cx, work, cluster, &progress, ResourceKind::Trust, &name).await?;
    let trust = match found.filter(|_| !planted::has(Bug::DoubleApply)) {
        Some(trust) => trust,
        None => {
            let roles = if cx.settings.trust_roles.is_empty() { info.roles.clone() } else { cx.settings.trust_roles.clone() };
            let new = NewTrust {
                trustor_user_id: info.user_id.clone(),
                trustee_user_id: trustee,
                project_id: project,
                roles,
                impersonation: true,
                allow_redelegation: true,
            };
            let made = keystone.create_trust(&new).await;
            heard(cx, work, &progress, ResourceKind::Trust, &name, is_first && was_refused(&made)).await?;
            made.map_err(expired)?
        }
    };
    let change = ClusterChange { trust_id: Some(Some(trust.id.clone())), ..ClusterChange::default() };
    let id = cluster.cluster_id();
    let (id, change, progress, name, trust) = (&id, &change, &progress, &name, &trust);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            operation::forget_token(conn, &work.claim).await?;
            resource::record(conn, id, ResourceKind::Trust, name, Some(&trust.id)).await?;
            event::append(conn, &work.claim.operation, id, TRUSTED, &trust.id).await?;
            clusters::record(conn, id, change).await
        })
        .await?;
    work.spares_token();
    Ok(())
}

/// The trust that the cluster has, if nobody can log in through it any more, for instance because its giver has lost one of its roles:
/// Keystone lists it all the same.
async fn useless_trust<'a>(cx: &Context, work: &Work, cluster: &'a Cluster) -> Result<Option<&'a str>, Failure> {
    let Some(session) = trusted(cx, work, cluster)? else { return Ok(None) };
    let refused = refusal(&session).await?;
    if let Some(error) = &refused {
        tracing::info!(%error, "the cluster's trust does not work any more; another is made");
    }
    Ok(refused.and(cluster.trust_id.as_deref()))
}
