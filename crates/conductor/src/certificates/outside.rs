//! Key pairs that are kept outside the database: one at a time, announced in the inventory before it is stored, under a name that follows
//! from cluster and operation, and looked for first.
//!
//! A pair that an earlier attempt stored and did not live to record is taken as it is; parts of one are replaced by the keeper.

use model::certificate::keeper::Keeper;
use model::certificate::{Authority, CertificateError, NewKeypair, Role, StoredKeypair, new_authority, new_client};
use model::cluster::Cluster;
use model::id::KeypairId;
use model::operation::{OutcomeCode, Progress, Thing};
use model::resource::{CloudResource, ResourceKind};
use model::store::{Conn, operation, resource};

use super::{Missing, Set};
use crate::context::Context;
use crate::outcome::Failure;
use crate::worker::Work;
use crate::{credentials, leaving};

/// The step, and what is told to be waited for.
const STEP: &str = "certificates";

/// Stores the first pair that the set lacks.
pub(super) async fn complete(cx: &Context, work: &Work, set: &Set<'_>, keeper: &dyn Keeper, missing: &Missing) -> Result<(), Failure> {
    let Some(role) = missing.first() else { return Ok(()) };
    let cluster = set.cluster();
    let (id, name) = (&cluster.cluster_id(), &name_of(set, role, work));
    let progress = &Progress { step: STEP, waiting_for: Some("certificates".into()), ..Progress::default() };
    if credentials::may_still_appear(cx, work, cluster, ResourceKind::Certificate, name).await? && keeper.find(name).await?.is_none() {
        return Err(credentials::not_yet(ResourceKind::Certificate, name));
    }
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            resource::record(conn, id, ResourceKind::Certificate, name, None).await
        })
        .await?;
    let issuer = match (role, set.references().kubernetes) {
        (Role::Client, Some(reference)) => Some(super::load(cx, &KeypairId::new(reference)).await?),
        _ => None,
    };
    let reference = match left_before(keeper, name, issuer.as_ref()).await? {
        Some(reference) => reference,
        None => {
            let pair = make(cx, cluster, role, issuer).await?;
            // The key took its time.
            work.guard(cx, progress).await?;
            let stored = keeper.store(name, &pair).await;
            work.has_asked();
            stored?
        }
    };
    let reference = &KeypairId::new(reference);
    let progress = &Progress { step: STEP, ..Progress::default() };
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            resource::record(conn, id, ResourceKind::Certificate, name, Some(reference.as_str())).await?;
            set.record(conn, role, reference).await
        })
        .await?;
    Ok(())
}

/// What an earlier attempt stored, unless it is a client's certificate of an authority that the cluster has no more.
async fn left_before(keeper: &dyn Keeper, name: &str, issuer: Option<&StoredKeypair>) -> Result<Option<String>, Failure> {
    let Some(reference) = keeper.find(name).await? else { return Ok(None) };
    if let Some(issuer) = issuer {
        let left = keeper.fetch(&reference).await?;
        if !left.is_signed_by(issuer)? {
            keeper.delete(&reference).await?;
            return Ok(None);
        }
    }
    Ok(Some(reference))
}

async fn make(cx: &Context, cluster: &Cluster, role: Role, issuer: Option<StoredKeypair>) -> Result<NewKeypair, Failure> {
    let (name, days, keys) = (cluster.display_name().to_owned(), cx.settings.validity_days, cx.keys.clone());
    let made = model::blocking::run(move || match (role, issuer) {
        (Role::Authority(_), _) => new_authority(&name, days, &keys),
        (Role::Client, Some(issuer)) => new_client(&issuer.open()?, days, &keys),
        (Role::Client, None) => Err(CertificateError::NotAllowed("the cluster has no authority to sign its client's certificate".into())),
    });
    Ok(made.await.map_err(|e| Failure::retry(format!("the making of certificates broke off: {e}")))??)
}

/// Removes what of a cluster's pairs is kept outside the database; each removal is told before it is asked for.
pub(crate) async fn remove(cx: &Context, work: &Work, cluster: &Cluster) -> Result<(), Failure> {
    let id = &cluster.cluster_id();
    let recorded = cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
    let recorded: Vec<CloudResource> = recorded.into_iter().filter(|row| row.kind() == Some(ResourceKind::Certificate)).collect();
    for row in &recorded {
        let is_gone = remove_one(cx, work, cluster, &row.name, row.resource_id.clone()).await?;
        forget(cx, work, cluster, &row.name, row.resource_id.clone(), is_gone).await?;
    }
    // What upstream stored is in no inventory.
    let is_recorded = |reference: &KeypairId| recorded.iter().any(|row| row.resource_id.as_deref() == Some(reference.as_str()));
    for reference in cluster.references().all().into_iter().filter(|r| !is_recorded(r)) {
        if !cx.keepers.may_be_outside(&reference).await {
            continue;
        }
        remove_one(cx, work, cluster, reference.as_str(), Some(reference.to_string())).await?;
    }
    Ok(())
}

/// Removes pairs that nobody is signed by any more, as far as they are kept outside the database.
pub(crate) async fn retire(cx: &Context, work: &Work, cluster: &Cluster, pairs: &[KeypairId]) -> Result<(), Failure> {
    let id = &cluster.cluster_id();
    let recorded = cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
    for reference in pairs {
        if !cx.keepers.may_be_outside(reference).await {
            continue;
        }
        let is_record =
            |row: &&CloudResource| row.kind() == Some(ResourceKind::Certificate) && row.resource_id.as_deref() == Some(reference.as_str());
        let name = recorded.iter().find(is_record).map_or(reference.as_str(), |row| row.name.as_str());
        let is_gone = remove_one(cx, work, cluster, name, Some(reference.to_string())).await?;
        forget(cx, work, cluster, name, Some(reference.to_string()), is_gone).await?;
    }
    Ok(())
}

/// Removes a pair by its reference, or by its name when an attempt did not live to record one; false when there was nothing.
async fn remove_one(cx: &Context, work: &Work, cluster: &Cluster, name: &str, reference: Option<String>) -> Result<bool, Failure> {
    let progress = Progress { step: STEP, waiting_for: Some("the removal of certificates".into()), ..Progress::default() };
    let thing = Thing { kind: ResourceKind::Certificate.as_str().into(), name: name.to_owned(), id: reference.clone() };
    leaving::about_to_remove(cx, work, cluster, &progress, thing).await?;
    remove_from_keeper(cx, name, reference).await
}

/// The same, for whoever has told of it.
pub(crate) async fn remove_from_keeper(cx: &Context, name: &str, reference: Option<String>) -> Result<bool, Failure> {
    match (reference, cx.keepers.outside()) {
        (Some(reference), _) => {
            let was_there = cx.keepers.delete_outside(&KeypairId::new(reference.clone())).await?;
            match &cx.keepers.barbican {
                // An attempt that was cut off may have removed the container alone, by which all that lies beside it is found. Upstream's names are
                // not known here, and would be those of many pairs.
                Some(barbican) if !was_there && name != reference => Ok(barbican.delete_named(name).await?),
                _ => Ok(was_there),
            }
        }
        (None, Some(keeper)) => Ok(keeper.delete_named(name).await?),
        (None, None) => {
            let text = format!("the certificate {name} was about to be stored outside the database, where none is stored any more");
            Err(Failure::fail(OutcomeCode::Internal, text))
        }
    }
}

async fn forget(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    name: &str,
    reference: Option<String>,
    was_there: bool,
) -> Result<(), Failure> {
    let (id, progress) = (&cluster.cluster_id(), &Progress { step: STEP, ..Progress::default() });
    let thing = &Thing { kind: ResourceKind::Certificate.as_str().into(), name: name.to_owned(), id: reference };
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            if !was_there {
                leaving::tell_gone(conn, work, cluster, thing).await?;
            }
            resource::forget_one(conn, id, ResourceKind::Certificate, name).await
        })
        .await?;
    Ok(())
}

/// The name of a pair: the cluster's uuid and what it is, so that no other is taken for it, and the operation, so that what another one has
/// stored is never taken for what this one is to make: a new authority comes beside the old one. A rotation has the name of the operation
/// that began it, so that whoever goes on finds what was stored.
fn name_of(set: &Set<'_>, role: Role, work: &Work) -> String {
    let what = match role {
        Role::Authority(Authority::Kubernetes) => "kubernetes",
        Role::Authority(Authority::Etcd) => "etcd",
        Role::Authority(Authority::FrontProxy) => "front_proxy",
        Role::Client => "client",
    };
    let operation = match set {
        Set::Own(_) => &work.operation.uuid,
        Set::Next(_, rotation) => &rotation.generation,
    };
    format!("magnum_{}_{what}_{}", set.cluster().uuid, operation.chars().take(8).collect::<String>())
}
