//! With whose rights an operation works: as the owner of the cluster's stacks, through the cluster's trust, as the request's caller, or as the service.

use model::cluster::Cluster;
use model::operation::{OperationKind, OutcomeCode};
use model::seal::vault::VaultError;
use model::store::{Conn, operation};
use provider_clients::{CloudError, Credential, Scope, Session, UserRef};

use super::{UNOPENED, expired, refusal, stack_owner, with_request};
use crate::cluster::Rows;
use crate::context::Context;
use crate::outcome::Failure;
use crate::worker::Work;

/// A session as the cluster's creator, through the trust; none when there is no trust.
///
/// # Errors
/// When the trustee's password is sealed and cannot be opened.
pub(crate) fn trusted(cx: &Context, work: &Work, cluster: &Cluster) -> Result<Option<Session>, VaultError> {
    let Some((trust, credential)) = through_trust(cx, cluster)? else { return Ok(None) };
    Ok(Some(work.session_as(&trust, || with_request(work, cx.cloud.session(credential)))))
}

/// As [`trusted`], outside any operation: nobody else uses the session.
///
/// # Errors
/// When the trustee's password is sealed and cannot be opened.
pub(crate) fn trusted_anew(cx: &Context, cluster: &Cluster) -> Result<Option<Session>, VaultError> {
    Ok(through_trust(cx, cluster)?.map(|(_, credential)| cx.cloud.session(credential)))
}

/// The trust of a cluster, and what logs in through it.
fn through_trust(cx: &Context, cluster: &Cluster) -> Result<Option<(String, Credential)>, VaultError> {
    let Some(trust) = cluster.trust_id.clone() else { return Ok(None) };
    let credential = of_trustee(cx, cluster, Scope::Trust { id: trust.clone() })?;
    Ok(credential.map(|credential| (trust, credential)))
}

/// A session as the trustee himself, who may do nothing: that it can be had says that his password is right.
///
/// # Errors
/// When the password is sealed and cannot be opened.
pub(super) fn as_trustee(cx: &Context, cluster: &Cluster) -> Result<Option<Session>, VaultError> {
    Ok(of_trustee(cx, cluster, Scope::Unscoped)?.map(|credential| cx.cloud.session(credential)))
}

/// What logs in as the trustee, for this scope; none without trustee or password.
///
/// # Errors
/// When the password is sealed and cannot be opened.
pub(super) fn of_trustee(cx: &Context, cluster: &Cluster, scope: Scope) -> Result<Option<Credential>, VaultError> {
    let (Some(user), Some(password)) = (cluster.trustee_user_id.clone(), cluster.trustee_password(cx.store.vault())?) else {
        return Ok(None);
    };
    Ok(Some(Credential::Password { user: UserRef { id: Some(user), ..UserRef::default() }, password, scope }))
}

/// A session as whoever made the request; none when its token was wiped.
pub(crate) fn caller(cx: &Context, work: &Work) -> Result<Option<Session>, Failure> {
    let Some(sealed) = &work.operation.sealed_token else { return Ok(None) };
    let token = cx.sealer.open(&work.operation.operation_id(), sealed)?;
    Ok(Some(with_request(work, cx.cloud.session(Credential::Token(token)))))
}

/// A session that makes, sees and changes the cluster's stacks: as their owner, who is made if need be; where there can be none, through the
/// trust while it works and Heat can be given one of its own by it, else as the caller if he is of the same project.
///
/// The project matters: a token of another project would find no stack, and a delete would take that for done.
pub(crate) async fn for_stacks(cx: &Context, work: &Work, rows: &Rows) -> Result<Session, Failure> {
    if let Some(owner) = stack_owner::session(cx, work, rows).await? {
        spare_token(cx, work).await?;
        return Ok(owner);
    }
    let cluster = &rows.cluster;
    let giver = through(cx, work, cluster, trusted(cx, work, cluster)?).await?;
    if let Some(owner) = stack_owner::make(cx, work, rows, &giver).await? {
        return Ok(owner);
    }
    // The trust of a cluster that has an owner of its stacks was not made to be handed on: Heat would answer 202, make nothing of it, and tell nobody.
    if stack_owner::recorded(rows).is_some() && !can_be_handed_on(&giver).await? {
        let why = "the owner of the cluster's stacks cannot log in";
        let caller = of_caller(cx, work, cluster, why).await?;
        if can_be_handed_on(&caller).await? {
            return Ok(caller);
        }
        let text = format!("{why}, and Heat can be given nothing by a trust that may not be handed on; ask with a password");
        return Err(Failure::fail(OutcomeCode::Credentials, text));
    }
    Ok(giver)
}

/// Whether Heat can make a trust of its own by a session: by one that came by a trust as far as that may be handed on.
async fn can_be_handed_on(session: &Session) -> Result<bool, Failure> {
    let info = session.info().await?;
    let Some(id) = &info.trust_id else { return Ok(true) };
    Ok(session.keystone().trust(id).await?.is_none_or(|trust| trust.redelegation_count > 0))
}

/// Wipes the caller's token where all that is left to do is the stacks' owner's, who stays; an operation can last for hours. Credentials that
/// are made anew need it to their end.
async fn spare_token(cx: &Context, work: &Work) -> Result<(), Failure> {
    let is_needed = work.operation.kind() == Some(OperationKind::CredentialRotate);
    if work.operation.sealed_token.is_none() || is_needed || work.has_spared_token() {
        return Ok(());
    }
    cx.store.write(async |conn: &mut Conn| operation::forget_token(conn, work.claim()).await).await?;
    work.spares_token();
    Ok(())
}

/// As [`for_stacks`], for one who only looks or removes: no owner is made.
pub(crate) async fn for_looking(cx: &Context, work: &Work, rows: &Rows) -> Result<Session, Failure> {
    match stack_owner::session(cx, work, rows).await? {
        Some(owner) => Ok(owner),
        None => through(cx, work, &rows.cluster, trusted(cx, work, &rows.cluster)?).await,
    }
}

/// Gives the owner of the cluster's stacks, where there is one or can be one, what the request's caller has and it lacks. True when there is one.
pub(crate) async fn renew_stack_owner(cx: &Context, work: &Work, rows: &Rows) -> Result<bool, Failure> {
    let caller = of_caller(cx, work, &rows.cluster, "the owner of the cluster's stacks has the roles of whoever asks for it").await?;
    // An administrator hands nothing on to one that there is since another caller asked.
    Ok(stack_owner::make(cx, work, rows, &caller).await?.is_some() || stack_owner::session(cx, work, rows).await?.is_some())
}

/// As [`for_stacks`], for one who makes the credentials anew or removes them: none is made, and neither may depend on a password that cannot be
/// opened any more.
pub(crate) async fn for_renewal(cx: &Context, work: &Work, rows: &Rows) -> Result<Session, Failure> {
    if let Some(owner) = stack_owner::session(cx, work, rows).await? {
        return Ok(owner);
    }
    let cluster = &rows.cluster;
    match trusted(cx, work, cluster) {
        Ok(session) => through(cx, work, cluster, session).await,
        Err(error) => {
            tracing::error!(%error, "the trustee's password cannot be opened; the request's caller is asked instead");
            of_caller(cx, work, cluster, UNOPENED).await
        }
    }
}

async fn through(cx: &Context, work: &Work, cluster: &Cluster, session: Option<Session>) -> Result<Session, Failure> {
    let why = match session {
        None => "the cluster has no trust".to_owned(),
        Some(session) => match refusal(&session).await? {
            None => {
                if is_of_project(&session, cluster).await? {
                    return Ok(session);
                }
                "the cluster's trust is for another project".to_owned()
            }
            Some(error) => format!("the cluster's trust does not work any more ({error})"),
        },
    };
    of_caller(cx, work, cluster, &why).await
}

/// Whether a session works in the cluster's project.
pub(super) async fn is_of_project(session: &Session, cluster: &Cluster) -> Result<bool, CloudError> {
    Ok(session.info().await?.project_id.as_deref() == Some(cluster.project().0.as_str()))
}

/// A session as whoever made the request, if he is of the cluster's project; `why` says what he is needed for.
pub(crate) async fn of_caller(cx: &Context, work: &Work, cluster: &Cluster, why: &str) -> Result<Session, Failure> {
    let Some(caller) = caller(cx, work)? else {
        return Err(Failure::fail(OutcomeCode::Credentials, format!("{why}, and the request's token is gone; ask again")));
    };
    if !is_of_project(&caller, cluster).await.map_err(expired)? {
        let text = format!("{why}, and the request came from another project; a member of the cluster's project can ask for this");
        return Err(Failure::fail(OutcomeCode::Credentials, text));
    }
    Ok(caller)
}

/// With whose rights things of a cluster are removed.
pub(crate) struct Reach {
    pub session: Session,
    /// It is the service's own, which sees every project and belongs to another one than the cluster's.
    pub is_service: bool,
}

/// A session that can remove the cluster's resources: as [`for_renewal`], and as the service where user, project or trust are gone.
pub(crate) async fn for_removal(cx: &Context, work: &Work, rows: &Rows) -> Result<Reach, Failure> {
    match for_renewal(cx, work, rows).await {
        Ok(session) => Ok(Reach { session, is_service: false }),
        Err(Failure::Final { code: OutcomeCode::Credentials, reason, error }) => match service(cx).await? {
            Some(session) => Ok(Reach { session: with_request(work, session), is_service: true }),
            None => {
                let reason = format!("{reason}; nor may the cluster service act itself: it has not the role admin");
                Err(Failure::Final { code: OutcomeCode::Credentials, reason, error })
            }
        },
        Err(other) => Err(other),
    }
}

/// The service's own session; none where it is no administrator: whom a service does not take for one, it tells that there is nothing.
pub(crate) async fn service(cx: &Context) -> Result<Option<Session>, Failure> {
    let Some(session) = &cx.admin else { return Ok(None) };
    let info = session.info().await?;
    let is_admin = info.is_admin_project && info.roles.iter().any(|role| role == "admin");
    Ok(is_admin.then(|| session.clone()))
}
