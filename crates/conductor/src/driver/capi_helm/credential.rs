//! The application credential with which controllers, and what runs in the cluster, speak to the cloud.
//!
//! Keystone tells its secret once. It is recorded by its name before it is made; one that was made and whose secret was not stored is of no
//! use to anybody and is removed before another is made, so that none is ever forgotten.

use model::capi::{credential_prefix, new_credential};
use model::cluster::Cluster;
use model::id::ClusterId;
use model::operation::{OutcomeCode, Progress, Thing};
use model::resource::{CloudResource, ResourceKind};
use model::store::{Conn, credential_health, event, history, operation, resource};
use model::time::{millis, now};
use provider_clients::{ApplicationCredential, CloudError, Credential, Session};
use serde_json::Value;

use super::objects::{self, CloudLogin, Held, Place};
use super::{Bench, health, secrets};
use crate::context::Context;
use crate::credentials;
use crate::leaving;
use crate::outcome::Failure;
use crate::stack;
use crate::worker::Work;

/// The event of a credential that was made and stored; its text is user and id.
const STORED: &str = "application_credential";

/// Operations of a cluster that are looked through for who may have a credential that was asked for without an answer.
const FORMER: i64 = 100;

/// `USER/ID`, the form in which the inventory names a credential.
fn reference(user: &str, id: &str) -> String {
    format!("{user}/{id}")
}

/// The credential that the cluster's secret holds; none without a secret that can be read.
pub(super) async fn stored(bench: &Bench<'_>) -> Result<Option<Held>, Failure> {
    let name = model::capi::derived(&bench.release, "cloud-credentials");
    let secret = bench.management.get("secret_get", &secrets(), Some(&bench.namespace), &name).await?;
    Ok(secret.as_ref().and_then(objects::held))
}

/// A session with the credential that the cluster's secret holds, for who only looks at it; none without a secret that can be read.
///
/// # Errors
/// When the management cluster cannot be asked: nothing is known then.
pub(crate) async fn for_looking(cx: &Context, cluster: &Cluster, recorded: Option<&str>) -> Result<Option<Session>, Failure> {
    let place = health::place(cx, cluster, recorded).await?;
    // One that is away is not waited for: the looks at clusters elsewhere would wait with it.
    if let Some(trouble) = place.door.trouble() {
        return Err(Failure::retry(place.capi.named(place.door, &trouble)));
    }
    let name = model::capi::derived(place.release, "cloud-credentials");
    let secret = place.door.open(place.capi)?.get("secret_get", &secrets(), Some(&place.namespace), &name).await?;
    let held = secret.as_ref().and_then(objects::held);
    Ok(held.map(|held| cx.cloud.session(Credential::Application { id: held.id, secret: held.secret })))
}

/// A session with the cluster's own credential: the project, and the view of its creator, whoever asked for the operation.
pub(super) fn session(bench: &Bench<'_>, held: &Held) -> Session {
    let credential = Credential::Application { id: held.id.clone(), secret: held.secret.clone() };
    let session = bench.cx.cloud.session(credential);
    match &bench.work.operation.request_id {
        Some(id) => session.with_request_id(id.clone()),
        None => session,
    }
}

/// Makes sure that the secret is there, and returns what it holds. `anew`: with a credential that this operation has made.
pub(super) async fn ensure(bench: &Bench<'_>, anew: bool) -> Result<Held, Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    let done = stack::events(cx, work).await?.iter().any(|e| e.kind == STORED);
    if (!anew || done)
        && let Some(held) = stored(bench).await?
    {
        return Ok(held);
    }
    let caller = credentials::of_caller(cx, work, cluster, "a new application credential is needed").await?;
    let user = caller.info().await?.user_id.clone();
    let Announced { name, is_first } = announce(bench, &user).await?;
    let keystone = caller.keystone();
    for left in keystone.application_credentials(&user, &name).await?.iter().filter(|c| c.name == name) {
        keystone.delete_application_credential(&user, &left.id).await?;
    }
    let made = keystone.create_application_credential(&user, &name, &format!("Magnum cluster ({})", cluster.display_name())).await;
    let progress = Progress { step: "credential", ..Progress::default() };
    // What an earlier attempt asked for may come all the same, whatever this one is told.
    let is_none = is_first && credentials::was_refused(&made);
    credentials::heard(cx, work, &progress, ResourceKind::ApplicationCredential, &name, is_none).await?;
    let made = made?;
    store(bench, &caller, &user, &name, &made, anew).await?;
    Ok(Held { id: made.id, secret: made.secret })
}

/// The credential that an operation is about to make.
struct Announced {
    name: String,
    /// Nobody can have asked for it before.
    is_first: bool,
}

/// The name of the credential that this operation makes for this user: recorded by an earlier attempt, or new.
///
/// A name that somebody else has asked for stays as it is recorded: his credential may be there or may come, and where the name were that of
/// another user's nobody would look for it among his any more.
async fn announce(bench: &Bench<'_>, user: &str) -> Result<Announced, Failure> {
    let (cx, work, cluster) = (bench.cx, bench.work, &bench.rows.cluster);
    let id = &cluster.cluster_id();
    let recorded = cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
    let is_open = |r: &CloudResource| r.kind() == Some(ResourceKind::ApplicationCredential) && r.resource_id.is_none();
    let mut open: Vec<CloudResource> = recorded.into_iter().filter(is_open).collect();
    if !open.is_empty() && former_callers(cx, id).await?.iter().any(|other| other != user) {
        let since = work.operation.started_ms.unwrap_or(work.operation.created_ms);
        open.retain(|r| r.created_ms >= since);
    }
    let open = open.pop().map(|r| r.name);
    let is_first = open.is_none();
    let name = open.unwrap_or_else(|| new_credential(&cluster.uuid));
    let progress = Progress { step: "credential", waiting_for: Some("an application credential".into()), ..Progress::default() };
    let (name_ref, progress) = (&name, &progress);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            resource::record(conn, id, ResourceKind::ApplicationCredential, name_ref, None).await
        })
        .await?;
    Ok(Announced { name, is_first })
}

/// Puts it where the controllers look for it, then records its id.
async fn store(
    bench: &Bench<'_>,
    caller: &Session,
    user: &str,
    name: &str,
    made: &ApplicationCredential,
    anew: bool,
) -> Result<(), Failure> {
    let (cx, work, cluster, settings) = (bench.cx, bench.work, &bench.rows.cluster, &bench.capi.settings);
    let auth_url = caller.keystone().public_endpoint().await?;
    let place = Place { namespace: &bench.namespace, release: &bench.release, cluster, user_id: user };
    let login = CloudLogin {
        auth_url: auth_url.as_str(),
        region: settings.region.as_deref(),
        interface: &settings.interface,
        verify: settings.verify_ca,
        id: &made.id,
        secret: &made.secret,
        ca: &settings.ca,
    };
    let secret = objects::credential(&place, &login);
    write(bench, &secret).await?;
    let progress = Progress { step: "credential", ..Progress::default() };
    let reference = reference(user, &made.id);
    let (id, operation_id, progress, reference) = (&cluster.cluster_id(), &work.operation.operation_id(), &progress, &reference);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            // What is left to do is done with the credential; but a rotation's caller has the former one to remove.
            if !anew {
                operation::forget_token(conn, work.claim()).await?;
            }
            resource::record(conn, id, ResourceKind::ApplicationCredential, name, Some(reference)).await?;
            event::append(conn, operation_id, id, STORED, reference).await?;
            credential_health::renewed(conn, id, millis(now())).await
        })
        .await?;
    Ok(())
}

/// Writes the secret over what is there, and over nothing else: what a former owner of the operation has sent and comes later than this is refused,
/// for the credential in it is gone.
async fn write(bench: &Bench<'_>, secret: &Value) -> Result<(), Failure> {
    let name = secret["metadata"]["name"].as_str().unwrap_or_default();
    let there = bench.management.get("secret_get", &secrets(), Some(&bench.namespace), name).await?;
    // After the look: who has lost the operation since then sends nothing.
    let progress = Progress { step: "credential", waiting_for: Some("the secret with the credential".into()), ..Progress::default() };
    bench.work.guard(bench.cx, &progress).await?;
    bench.management.apply_over("secret_apply", &secrets(), Some(&bench.namespace), there.as_ref(), secret).await?;
    Ok(())
}

/// Removes every credential of the cluster but the one with this id: those in the inventory, and those that a former program left.
/// The management cluster is not needed for it.
pub(super) async fn remove_all_but(cx: &Context, work: &Work, cluster: &Cluster, keep: Option<&str>) -> Result<(), Failure> {
    let id = &cluster.cluster_id();
    // Before the look: what may appear after it is not taken for gone.
    let is_settled = work.is_settled(cx);
    let recorded = cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
    let recorded: Vec<_> = recorded.into_iter().filter(|r| r.kind() == Some(ResourceKind::ApplicationCredential)).collect();
    let (mut users, mut names) = (vec![cluster.user().0], Vec::new());
    if recorded.iter().any(|row| row.resource_id.is_none()) {
        users.push(work.operation.user_id.clone());
        users.extend(former_callers(cx, id).await?);
    }
    for row in recorded {
        let user = row.resource_id.as_deref().and_then(|reference| reference.split_once('/')).map(|(user, _)| user.to_owned());
        users.extend(user);
        names.push((row.name, row.resource_id));
    }
    if let Ok(Some(caller)) = credentials::caller(cx, work)
        && let Ok(info) = caller.info().await
    {
        users.push(info.user_id.clone());
    }
    users.retain(|user| !user.is_empty());
    users.sort();
    users.dedup();
    // Each user's whatever became of the others'.
    let mut trouble = Ok(());
    for user in &users {
        match remove_of(cx, work, cluster, user, keep).await {
            Err(Failure::Stale) => return Err(Failure::Stale),
            removed => trouble = trouble.and(removed),
        }
    }
    trouble?;
    // Whatever is recorded is gone now: each was under one of these users, or its user is gone and it with him.
    for (name, reference) in names {
        let is_kept = keep.is_some_and(|keep| reference.as_deref().is_some_and(|r| r.ends_with(&format!("/{keep}"))));
        if !is_kept && (is_settled || reference.is_some()) {
            let name = &name;
            let progress = &Progress { step: "credential", ..Progress::default() };
            cx.store
                .write(async |conn: &mut Conn| {
                    operation::record(conn, work.claim(), progress).await?;
                    resource::forget_one(conn, id, ResourceKind::ApplicationCredential, name).await
                })
                .await?;
        }
    }
    Ok(())
}

/// Whoever asked for something of a cluster lately: whatever brings it in line makes a credential where there is none, or one is dead, and one whose maker came
/// to no end is under one of these.
async fn former_callers(cx: &Context, cluster: &ClusterId) -> Result<Vec<String>, Failure> {
    let operations = cx.store.read(async |conn: &mut Conn| history::finished(conn, cluster, FORMER).await).await?;
    Ok(operations.into_iter().map(|operation| operation.user_id).collect())
}

async fn remove_of(cx: &Context, work: &Work, cluster: &Cluster, user: &str, keep: Option<&str>) -> Result<(), Failure> {
    let session = owner_or_service(cx, work, user).await?;
    for found in session.keystone().application_credentials(user, &credential_prefix(&cluster.uuid)).await? {
        if keep != Some(found.id.as_str()) {
            remove(cx, work, cluster, &session, user, &found).await?;
        }
    }
    Ok(())
}

async fn remove(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    session: &Session,
    user: &str,
    found: &ApplicationCredential,
) -> Result<(), Failure> {
    let progress =
        Progress { step: "credential", waiting_for: Some("the removal of an application credential".into()), ..Progress::default() };
    let kind = ResourceKind::ApplicationCredential.as_str().into();
    let thing = Thing { kind, name: found.name.clone(), id: Some(found.id.clone()) };
    leaving::about_to_remove(cx, work, cluster, &progress, thing).await?;
    session.keystone().delete_application_credential(user, &found.id).await?;
    Ok(())
}

/// A session that may remove credentials of a user: his own when he asked for the operation, else the service's.
async fn owner_or_service(cx: &Context, work: &Work, user: &str) -> Result<Session, Failure> {
    // A token that cannot be opened is of no more use than one that is gone.
    let caller = credentials::caller(cx, work).unwrap_or_else(|_| {
        tracing::warn!("the request's token cannot be opened");
        None
    });
    if let Some(caller) = caller {
        match caller.info().await {
            Ok(info) if info.user_id == user => return Ok(caller),
            Ok(_) => {}
            Err(error) if error.retry_may_help() => return Err(CloudError::into(error)),
            Err(error) => tracing::debug!(%error, "the request's token is of no use any more"),
        }
    }
    let none = || {
        let text = "application credentials of the cluster's creator cannot be removed: the request is not his, and the cluster service has not the role admin";
        Failure::fail(OutcomeCode::Credentials, text)
    };
    credentials::service(cx).await?.ok_or_else(none)
}
