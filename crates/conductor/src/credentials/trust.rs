//! The trust that delegates from the cluster's creator to its trustee.

use model::cluster::{Cluster, ClusterChange};
use model::operation::{OutcomeCode, Progress};
use model::planted::{self, Bug};
use model::resource::{CloudResource, ResourceKind};
use model::store::{Conn, cluster as clusters, event, operation, resource};
use provider_clients::{CloudError, NewTrust, Session, Trust};

use super::{TRUSTED, announce, caller, expired, heard, may_still_appear, no_delegator, not_yet, trustee_name, was_refused};
use crate::context::Context;
use crate::outcome::Failure;
use crate::worker::Work;

/// How often a trust may be handed on where Heat has to be given one of its own by it. One that was handed on may not be once more.
const TO_HEAT: u64 = 1;

/// What a trust's name in the inventory has behind its trustee's while it is made beside one that the cluster has.
const NEXT: &str = "_next";

/// The trustee's name, by that of a trust in the inventory which the cluster has or is to have.
pub(crate) fn trustee_of(name: &str) -> &str {
    name.strip_suffix(NEXT).unwrap_or(name)
}

/// The name in the inventory of a trust that is not the one by which the cluster acts.
pub(super) fn former_name(cluster: &Cluster, id: &str) -> String {
    format!("{}_former_{id}", trustee_name(cluster))
}

/// Has the request's caller delegate to the trustee, and records the trust: the first one, or one in the place of that by which the cluster acts,
/// which is a former one from then on. One that an attempt before this one has made and did not live to record is taken, if it is what is wanted;
/// what else he has given the trustee is recorded as former, so that it is not forgotten.
///
/// `has_owner`: stacks belong to an owner of their own. Then the trust may not be handed on: with a cloud provider, nodes know what it takes to log in
/// by it, and whoever could hand it on would have it for himself. Without an owner Heat makes a trust of its own from it for each stack.
///
/// # Errors
/// While the trust may still appear that this or an earlier operation asked for without a clear answer; and when the caller cannot give one.
pub(crate) async fn make_trust(cx: &Context, work: &Work, cluster: &Cluster, has_owner: bool) -> Result<(), Failure> {
    let own_name = trustee_name(cluster);
    let name = if cluster.trust_id.is_some() { format!("{own_name}{NEXT}") } else { own_name.clone() };
    let progress = Progress { step: "trust", waiting_for: Some("a Keystone trust".into()), ..Progress::default() };
    let caller = caller(cx, work)?.ok_or_else(no_delegator)?;
    let info = caller.info().await.map_err(expired)?;
    let Some(project) = info.project_id.clone().filter(|p| *p == cluster.project().0) else {
        return Err(Failure::fail(OutcomeCode::Credentials, "the request's token is not scoped to the cluster's project"));
    };
    let keystone = caller.keystone();
    let pedigree = match &info.trust_id {
        Some(id) => pedigree(&caller, id).await.map_err(expired)?,
        None => Vec::new(),
    };
    if pedigree.iter().any(|trust| Some(&trust.trustee_user_id) == cluster.trustee_user_id.as_ref()) {
        let text = "who acts by the cluster's own trust cannot give it another one, which would end with that; ask with a password";
        return Err(Failure::fail(OutcomeCode::Credentials, text));
    }
    let wanted = NewTrust {
        trustor_user_id: info.user_id.clone(),
        trustee_user_id: cluster.trustee_user_id.clone().unwrap_or_default(),
        project_id: project,
        roles: if cx.settings.trust_roles.is_empty() { info.roles.clone() } else { cx.settings.trust_roles.clone() },
        impersonation: true,
        redelegation_count: if has_owner { 0 } else { TO_HEAT },
        redelegated_from: pedigree.into_iter().next(),
    };
    let known = known(cx, cluster).await?;
    let (found, others) = keystone.find_trust(&wanted, &known).await.map_err(expired)?;
    // A second request would leave one of two trusts that nobody knows of.
    if found.is_none() && may_still_appear(cx, work, cluster, ResourceKind::Trust, &name).await? {
        return Err(not_yet(ResourceKind::Trust, &name));
    }
    // After all that may fail before it is asked for: whoever removes the cluster waits for what is announced.
    announce(cx, work, cluster, &progress, ResourceKind::Trust, &name).await?;
    let trust = match found.filter(|_| !planted::has(Bug::DoubleApply)) {
        Some(trust) => trust,
        None => {
            let made = keystone.create_trust(&wanted).await;
            heard(cx, work, &progress, ResourceKind::Trust, &name, was_refused(&made)).await?;
            // Of those between the same two that end at the same time Keystone takes no second one, not even when the first was removed.
            let ends = wanted.redelegated_from.as_ref().is_some_and(|parent| parent.expires_at.is_some());
            if ends && made.as_ref().is_err_and(CloudError::is_conflict) {
                let text = "who acts by a trust that ends cannot give the cluster another one that ends with it; ask with a password";
                return Err(Failure::fail(OutcomeCode::Credentials, text));
            }
            made.map_err(expired)?
        }
    };
    let others = others.into_iter().filter(|other| other.project_id.as_deref() == Some(wanted.project_id.as_str())).map(|other| other.id);
    let former: Vec<(String, String)> =
        cluster.trust_id.iter().cloned().chain(others).map(|former| (former_name(cluster, &former), former)).collect();
    let change = ClusterChange { trust_id: Some(Some(trust.id.clone())), ..ClusterChange::default() };
    let id = cluster.cluster_id();
    let (id, change, progress, name, own_name, trust, former) = (&id, &change, &progress, &name, &own_name, &trust, &former);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            operation::forget_token(conn, work.claim()).await?;
            for (name, former) in former {
                resource::record(conn, id, ResourceKind::Trust, name, Some(former.as_str())).await?;
            }
            if name != own_name {
                resource::unannounce(conn, id, ResourceKind::Trust, name).await?;
            }
            resource::record(conn, id, ResourceKind::Trust, own_name, Some(&trust.id)).await?;
            event::append(conn, &work.claim().operation, id, TRUSTED, &trust.id).await?;
            clusters::record(conn, id, change).await
        })
        .await?;
    work.spares_token();
    Ok(())
}

/// A trust and those that it was handed on from, the nearest first, as far as its giver is told of them.
pub(super) async fn pedigree(session: &Session, id: &str) -> Result<Vec<Trust>, CloudError> {
    let mut all: Vec<Trust> = Vec::new();
    let mut next = Some(id.to_owned());
    while let Some(id) = next.take() {
        match session.keystone().trust(&id).await {
            Ok(Some(trust)) => {
                next.clone_from(&trust.redelegated_trust_id);
                all.push(trust);
            }
            Ok(None) => {}
            Err(error) if error.status() == Some(403) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// The ids of the trusts that the cluster has and had: none of them was made by an attempt of this operation before this one.
async fn known(cx: &Context, cluster: &Cluster) -> Result<Vec<String>, Failure> {
    let (id, own_name) = (&cluster.cluster_id(), trustee_name(cluster));
    let rows = cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
    // What is recorded under the cluster's name and is not in its row is what it is to have.
    let is_old = |row: &CloudResource| row.kind() == Some(ResourceKind::Trust) && (row.name != own_name || cluster.trust_id.is_some());
    let recorded = rows.into_iter().filter(is_old).filter_map(|row| row.resource_id);
    Ok(recorded.chain(cluster.trust_id.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::capi_helm::tests::cluster;

    #[test]
    fn names_in_the_inventory_tell_what_a_trust_is_to_its_cluster() {
        let own = trustee_name(&cluster());
        assert_eq!((trustee_of(&own), trustee_of(&format!("{own}{NEXT}"))), (own.as_str(), own.as_str()));
        let former = former_name(&cluster(), "t");
        assert!(former.starts_with(&own) && former.ends_with("_t"), "{former}");
        assert_ne!(trustee_of(&former), own);
    }
}
