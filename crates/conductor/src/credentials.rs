//! The right to act for the cluster's creator: a trustee user of the cluster's own and a trust that delegates to it.
//!
//! The caller's token travels sealed in the operation only until the trust exists. Heat makes a trust of its own from the login by which a stack is
//! made: that is one of the stacks' owner, whom the cluster has before it has the trust, and the trust may not be handed on. Where there can be no such
//! owner, it may be once, to Heat. Trustee, owner, his key pair and trust are recorded before they are made and looked for first, so that a repeated
//! step finds what an earlier attempt left. The inventory has the trust under the trustee's name; others that the cluster had under names of their own, until they are gone.

mod former;
pub(crate) mod lent_key;
mod session;
pub(crate) mod stack_owner;
mod trust;

use std::time::Duration;

use model::cluster::{Cluster, ClusterChange};
use model::operation::{OutcomeCode, Payload, Progress, Thing};
use model::planted::{self, Bug};
use model::resource::ResourceKind;
use model::store::{Conn, StoreError, cluster as clusters, operation, resource};
use provider_clients::{CloudError, Session, User};
use secrecy::SecretString;

pub(crate) use former::end_former_trusts;
pub(crate) use session::{
    Reach, caller, for_looking, for_removal, for_renewal, for_stacks, of_caller, renew_stack_owner, service, trusted, trusted_anew,
};
pub(crate) use trust::{make_trust, trustee_of};

use crate::cluster::Rows;
use crate::context::Context;
use crate::leaving;
use crate::outcome::Failure;
use crate::worker::Work;

/// What upstream's trustee passwords are made of (`[DEFAULT] password_symbols`).
const SYMBOLS: [&str; 3] = ["23456789", "ABCDEFGHJKLMNPQRSTUVWXYZ", "abcdefghijkmnopqrstuvwxyz"];
const PASSWORD_LENGTH: usize = 18;

/// What a tenant reads of a sealed password that cannot be opened; the log has the cause.
pub(crate) const UNOPENED: &str = "a stored credential of the cluster cannot be opened; the service's operator finds the cause in the log";

/// The event of a recorded trust.
pub(crate) const TRUSTED: &str = "trust";

/// How long after a new password nobody logs in: to Keystone a token of the same second is one from before.
pub(crate) const SETTLED: Duration = Duration::from_secs(2);

/// The trustee's name, as upstream names it.
pub(crate) fn trustee_name(cluster: &Cluster) -> String {
    format!("{}_{}", cluster.uuid, cluster.project())
}

/// Makes trustee and trust where they are missing, and the stacks' owner before the trust, of which he decides what it must allow. True when something
/// was made: the row has changed.
pub(crate) async fn ensure(cx: &Context, work: &Work, rows: &Rows) -> Result<bool, Failure> {
    let cluster = &rows.cluster;
    // A create that was found half-way has nobody to delegate: no trustee is made in vain.
    if cluster.trust_id.is_none() && work.operation.sealed_token.is_none() {
        return Err(no_delegator());
    }
    if cluster.trustee_user_id.is_none() {
        make_trustee(cx, work, cluster).await?;
        return Ok(true);
    }
    if cluster.trust_id.is_none() {
        let has_owner = stack_owner::session(cx, work, rows).await?.is_some() || renew_stack_owner(cx, work, rows).await?;
        make_trust(cx, work, cluster, has_owner).await?;
        return Ok(true);
    }
    Ok(false)
}

async fn make_trustee(cx: &Context, work: &Work, cluster: &Cluster) -> Result<(), Failure> {
    let name = trustee_name(cluster);
    let progress = Progress { step: "trustee", waiting_for: Some("a Keystone trustee".into()), ..Progress::default() };
    let domain = trustee_domain(cx).await?;
    let keystone = administrator(cx, work).keystone();
    let password = trustee_password(cx, work).await?;
    let there = find_announced(cx, work, cluster, &progress, ResourceKind::Trustee, &name, &domain).await?;
    let user = match there {
        // An earlier attempt made it and did not live to record the password.
        Some(user) => {
            keystone.set_password(&user.id, &password).await?;
            user
        }
        None => {
            let made = keystone.create_user(&name, &domain, &password).await;
            know(cx, work, &progress, ResourceKind::Trustee, &name, made).await?
        }
    };
    let id = cluster.cluster_id();
    let change = ClusterChange {
        trustee_user_id: Some(Some(user.id.clone())),
        trustee_username: Some(Some(name.clone())),
        ..ClusterChange::trustee_password(cx.store.vault(), &id, &password)?
    };
    let payload = &without_password(work)?;
    let (id, change, progress, name, user) = (&id, &change, &progress, &name, &user);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            operation::carry(conn, work.claim(), payload).await?;
            resource::record(conn, id, ResourceKind::Trustee, name, Some(&user.id)).await?;
            clusters::record(conn, id, change).await
        })
        .await?;
    Ok(())
}

/// Why nobody can log in so any more; none: one can.
async fn refusal(session: &Session) -> Result<Option<CloudError>, Failure> {
    match session.token().await {
        Ok(_) => Ok(None),
        Err(error) if error.retry_may_help() => Err(error.into()),
        Err(error) => Ok(Some(error)),
    }
}

/// There is neither a trust nor anybody who could give one.
fn no_delegator() -> Failure {
    Failure::fail(OutcomeCode::Credentials, "the request's token is gone and no trust was made from it; ask again")
}

/// Gives the trustee the password of this operation, which the caller of this records; until then nobody can log in as the trustee.
pub(crate) async fn new_password_of(cx: &Context, work: &Work, trustee: &str) -> Result<SecretString, Failure> {
    let password = trustee_password(cx, work).await?;
    administrator(cx, work).keystone().set_password(trustee, &password).await?;
    Ok(password)
}

/// The password that an operation gives to a cluster's trustee: whoever works on it, and however often he asks, it is the same one. A request
/// of which nobody has heard, and that Keystone carries out after a later one, so changes nothing of what is recorded. Drawn, and not derived from
/// what the service knows: those who have the cluster read it.
async fn trustee_password(cx: &Context, work: &Work) -> Result<SecretString, Failure> {
    if planted::has(Bug::PasswordOfAttempt) {
        return Ok(new_password());
    }
    if let Some(drawn) = work.drawn_password() {
        return Ok(drawn);
    }
    let (id, payload) = (work.operation.operation_id(), work.payload()?);
    // One that was sealed with a former secret of the service is drawn anew.
    let drawn = payload.sealed_password.as_deref().and_then(|sealed| cx.sealer.open_password(&id, sealed).ok());
    let password = match drawn {
        Some(drawn) => drawn,
        // The request for one that nobody can read any more may be on its way.
        None if payload.sealed_password.is_some() && !work.is_settled(cx) => {
            return Err(Failure::retry("a password that was asked for before may still be set"));
        }
        None => {
            let password = new_password();
            let payload = &Payload { sealed_password: Some(cx.sealer.seal_password(&id, &password)), ..payload };
            cx.store.write(async |conn: &mut Conn| operation::carry(conn, work.claim(), payload).await).await?;
            password
        }
    };
    work.draws_password(password.clone());
    Ok(password)
}

/// What the operation carries once the trustee's password is where it belongs.
pub(crate) fn without_password(work: &Work) -> Result<Payload, Failure> {
    Ok(Payload { sealed_password: None, ..work.payload()? })
}

/// Removes trust and trustee, and forgets both in the row. What is not there any more is no error. Former trusts go with the trustee.
///
/// A trust can be removed by its trustor only, whom the trust itself impersonates; what it carried ends with it.
pub(crate) async fn remove(cx: &Context, work: &Work, cluster: &Cluster) -> Result<(), Failure> {
    let id = cluster.cluster_id();
    let name = trustee_name(cluster);
    let session = trusted(cx, work, cluster).unwrap_or_else(|error| {
        tracing::error!(%error, "the trustee's password cannot be opened; the trust goes with its trustee");
        None
    });
    if let (Some(trust), Some(session)) = (&cluster.trust_id, session) {
        let progress = Progress { step: "trust", waiting_for: Some("the removal of the Keystone trust".into()), ..Progress::default() };
        let thing = Thing { kind: ResourceKind::Trust.as_str().into(), name: name.clone(), id: Some(trust.clone()) };
        leaving::about_to_remove(cx, work, cluster, &progress, thing.clone()).await?;
        let was_there = match session.keystone().delete_trust(trust).await {
            Ok(was_there) => was_there,
            // Already removed, perhaps by an attempt that did not live to record it: the session that it carried is refused now.
            Err(error) if error.is_unauthorized() || error.is_not_found() => false,
            // Made by somebody else: Keystone drops it with the trustee below.
            Err(error) if error.status() == Some(403) => {
                tracing::info!(%error, "the trust goes with its trustee");
                true
            }
            Err(error) => return Err(error.into()),
        };
        let change = ClusterChange { trust_id: Some(None), ..ClusterChange::default() };
        let (id, change, progress, thing, name) = (&id, &change, &progress, &thing, &name);
        cx.store
            .write(async |conn: &mut Conn| {
                operation::record(conn, work.claim(), progress).await?;
                if !was_there {
                    leaving::tell_gone(conn, work, cluster, thing).await?;
                }
                resource::forget_one(conn, id, ResourceKind::Trust, name).await?;
                clusters::record(conn, id, change).await
            })
            .await?;
    }
    let progress = Progress { step: "trustee", waiting_for: Some("the removal of the Keystone trustee".into()), ..Progress::default() };
    let user = user_left(cx, cluster.trustee_user_id.as_deref(), &name).await?;
    match user {
        Some(user) => remove_user(cx, work, cluster, &progress, ResourceKind::Trustee, &name, &user).await,
        None => Ok(work.guard(cx, &progress).await?),
    }
}

/// The id of a user of the trustee domain that a cluster has: as it is recorded, or of one by this name, which an attempt made that did not
/// live to record it.
async fn user_left(cx: &Context, recorded: Option<&str>, name: &str) -> Result<Option<String>, Failure> {
    match recorded {
        Some(id) => Ok(Some(id.to_owned())),
        None => Ok(cx.trustee_admin.keystone().find_user(name, &trustee_domain(cx).await?).await?.map(|user| user.id)),
    }
}

/// Removes a user of the trustee domain; one that is not there any more is told as gone.
async fn remove_user(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    progress: &Progress,
    kind: ResourceKind,
    name: &str,
    id: &str,
) -> Result<(), Failure> {
    let thing = Thing { kind: kind.as_str().into(), name: name.to_owned(), id: Some(id.to_owned()) };
    leaving::about_to_remove(cx, work, cluster, progress, thing.clone()).await?;
    if administrator(cx, work).keystone().delete_user(id).await? {
        return Ok(());
    }
    let thing = &thing;
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            leaving::tell_gone(conn, work, cluster, thing).await
        })
        .await?;
    Ok(())
}

/// A user of the trustee domain that a cluster is to have, if an earlier attempt made it; announced in the inventory, so that it can be made.
///
/// # Errors
/// While one may still appear that was asked for without a clear answer: a second request for the same name would leave one of them to come
/// when the cluster is gone.
async fn find_announced(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    progress: &Progress,
    kind: ResourceKind,
    name: &str,
    domain: &str,
) -> Result<Option<User>, Failure> {
    let found = administrator(cx, work).keystone().find_user(name, domain).await?;
    if found.is_none() && may_still_appear(cx, work, cluster, kind, name).await? {
        return Err(not_yet(kind, name));
    }
    announce(cx, work, cluster, progress, kind, name).await?;
    Ok(found)
}

/// Whether "there is no such thing" cannot be believed yet: it was announced and no clear answer is recorded, and something may still be under
/// way.
pub(crate) async fn may_still_appear(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    kind: ResourceKind,
    name: &str,
) -> Result<bool, Failure> {
    if work.is_settled(cx) {
        return Ok(false);
    }
    let id = &cluster.cluster_id();
    let rows = cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
    Ok(rows.iter().any(|row| row.kind() == Some(kind) && row.name == name && row.resource_id.is_none()))
}

/// What [`may_still_appear`] is waited for.
pub(crate) fn not_yet(kind: ResourceKind, name: &str) -> Failure {
    Failure::retry(format!("{} {name} was asked for without a clear answer, and may still appear", kind.as_str()))
}

/// What came of the request for a thing that is announced: of one that was certainly not made the announcement is taken back.
async fn know<T>(
    cx: &Context,
    work: &Work,
    progress: &Progress,
    kind: ResourceKind,
    name: &str,
    made: Result<T, CloudError>,
) -> Result<T, Failure> {
    heard(cx, work, progress, kind, name, was_refused(&made)).await?;
    Ok(made?)
}

/// Whether a request has certainly made nothing.
pub(crate) fn was_refused<T>(made: &Result<T, CloudError>) -> bool {
    made.as_ref().is_err_and(|error| !error.may_have_made())
}

/// The request for a thing that is announced is over; one that [was refused](was_refused) is not announced any more.
pub(crate) async fn heard(
    cx: &Context,
    work: &Work,
    progress: &Progress,
    kind: ResourceKind,
    name: &str,
    was_refused: bool,
) -> Result<(), StoreError> {
    work.has_asked();
    if was_refused {
        work.unannounce(cx, progress, kind, name).await?;
    }
    Ok(())
}

async fn announce(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    progress: &Progress,
    kind: ResourceKind,
    name: &str,
) -> Result<(), Failure> {
    let id = cluster.cluster_id();
    let id = &id;
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            resource::record(conn, id, kind, name, None).await
        })
        .await?;
    Ok(())
}

pub(crate) async fn trustee_domain(cx: &Context) -> Result<String, Failure> {
    if let Some(id) = &cx.settings.trustee_domain_id {
        return Ok(id.clone());
    }
    let info = cx.trustee_admin.info().await?;
    info.domain_id.clone().ok_or_else(|| {
        tracing::error!("the trustee domain admin's token is not scoped to a domain: see [trust] in the configuration");
        Failure::fail(OutcomeCode::Internal, "the cluster service has no trustee domain; its operator must configure one")
    })
}

/// Who administers the domain of trustees, in the name of a request.
fn administrator(cx: &Context, work: &Work) -> Session {
    with_request(work, cx.trustee_admin.clone())
}

fn with_request(work: &Work, session: Session) -> Session {
    match &work.operation.request_id {
        Some(id) => session.with_request_id(id.clone()),
        None => session,
    }
}

/// A caller's token that Keystone no longer knows is the caller's affair; everything else is classified as usual.
fn expired(error: CloudError) -> Failure {
    if error.is_unauthorized() || error.is_not_found() {
        let text = format!("the request's token is not valid any more, ask again ({error})");
        return Failure::fail(OutcomeCode::Credentials, text);
    }
    error.into()
}

fn new_password() -> SecretString {
    let pick = |set: &str| char::from(set.as_bytes()[model::random::range(0..set.len())]);
    let all = SYMBOLS.concat();
    let mut chars: Vec<char> = SYMBOLS.iter().map(|set| pick(set)).collect();
    chars.extend((chars.len()..PASSWORD_LENGTH).map(|_| pick(&all)));
    for i in (1..chars.len()).rev() {
        chars.swap(i, model::random::range(0..=i));
    }
    SecretString::from(chars.into_iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn passwords_have_one_of_each_kind() {
        for _ in 0..100 {
            let password = new_password();
            let text = password.expose_secret();
            assert_eq!(text.len(), PASSWORD_LENGTH);
            assert!(SYMBOLS.iter().all(|set| text.chars().any(|c| set.contains(c))), "{text}");
        }
    }
}
