//! Whom a cluster's stacks belong to: a Keystone user of the cluster's own.
//!
//! What Heat does after a request it does for the stack's owner, by a trust of its own that ends with that user. Then it can change the stack
//! for nobody any more: it answers 202, Keystone refuses the trust, and nobody is told (Heat 24.1). So stacks are made and changed as a user
//! that stays as long as the cluster does. It has the roles of whoever asked for the cluster. Unlike the trustee's, its password is on no node,
//! and no table holds it. Heat makes a stack over to whoever changes it: one that somebody else made comes to the owner with its next change.
//!
//! There is none where the service gives no roles (it is no administrator, or Keystone refuses), and none for an administrator's cluster: what
//! he may everywhere is not handed on to a user who stays. Then stacks are made and changed through the trust, which Heat must be able to have handed on.

use model::operation::{Leak, OutcomeCode, Progress};
use model::resource::ResourceKind;
use model::store::{Conn, operation, resource};
use provider_clients::{CloudError, Credential, Keystone, Scope, Session, User, UserRef};

use super::lent_key::{self, Lent};
use super::session::is_of_project;
use super::{
    SETTLED, administrator, find_announced, know, refusal, remove_user, service, trustee_domain, trustee_name, user_left, with_request,
};
use crate::cluster::Rows;
use crate::context::Context;
use crate::outcome::Failure;
use crate::worker::Work;

/// The role of those who have no owner.
const ADMIN: &str = "admin";
/// A role that is not handed on: it counts everywhere, and the owner works in one project.
const SERVICE: &str = "service";

/// A session as the owner that is recorded; none when there is none, or it cannot log in whatever is done.
///
/// # Errors
/// While a new password of its counts for nothing yet: it is given one when it cannot log in (the service's own has changed, from which it is
/// derived, or it had run out).
pub(super) async fn session(cx: &Context, work: &Work, rows: &Rows) -> Result<Option<Session>, Failure> {
    let Some(user) = recorded(rows) else { return Ok(None) };
    let session = open(cx, work, rows, user);
    Ok(if lets_in(cx, work, rows, user, &session).await? { Some(session) } else { None })
}

/// Whether a user of this cluster can log in; where not, it is put in order once.
async fn lets_in(cx: &Context, work: &Work, rows: &Rows, user: &str, session: &Session) -> Result<bool, Failure> {
    let mended = work.mended_stack_owner();
    let not_yet = || Failure::retry("the owner of the cluster's stacks has a new password");
    if mended.is_some_and(|ago| ago < SETTLED) {
        return Err(not_yet());
    }
    let Some(error) = refusal(session).await? else { return Ok(true) };
    tracing::warn!(%error, "the owner of the cluster's stacks cannot log in");
    if mended.is_some() {
        return Ok(false);
    }
    let progress = Progress { step: STEP, waiting_for: Some("a new password of the stacks' owner".into()), ..Progress::default() };
    work.guard(cx, &progress).await?;
    match administrator(cx, work).keystone().set_password(user, &cx.sealer.password(&name(rows))).await {
        Ok(()) => {
            work.has_mended_stack_owner();
            Err(not_yet())
        }
        Err(error) if error.repeating_may_mend() => Err(error.into()),
        // It is gone, or Keystone does not let the domain's administrator: what is to be done can be done without.
        Err(error) => {
            tracing::warn!(%error, "the owner of the cluster's stacks can be given no new password");
            Ok(false)
        }
    }
}

/// The step of an operation.
pub(super) const STEP: &str = "stack_owner";

/// Makes the owner, or gives it what it lacks, with the roles of `giver`; none where that is not to be had, which is not tried again by this
/// operation.
///
/// It is recorded before it is made, and as made when it can do its work; everything here can be done again.
pub(super) async fn make(cx: &Context, work: &Work, rows: &Rows, giver: &Session) -> Result<Option<Session>, Failure> {
    if work.has_no_stack_owner() {
        return Ok(None);
    }
    match attempt(cx, work, rows, giver).await {
        Ok(Some(session)) => Ok(Some(session)),
        Ok(None) => {
            work.gives_up_stack_owner();
            Ok(None)
        }
        // What is to be done can be done without.
        Err(Failure::Final { reason, .. }) => {
            tracing::warn!(reason, "the cluster's stacks have no owner of their own: they depend on the one who asked for the cluster");
            work.gives_up_stack_owner();
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

async fn attempt(cx: &Context, work: &Work, rows: &Rows, giver: &Session) -> Result<Option<Session>, Failure> {
    let Some(admin) = service(cx).await?.map(|admin| with_request(work, admin)) else { return Ok(None) };
    let (info, cluster) = (giver.info().await?, &rows.cluster);
    // What he may there is given here.
    if !is_of_project(giver, cluster).await? {
        return Err(Failure::fail(OutcomeCode::Credentials, "the owner's roles would be those of another project than the cluster's"));
    }
    let Some(wanted) = roles(&info.roles, &cx.settings.trust_roles) else { return Ok(None) };
    let name = name(rows);
    let progress = Progress { step: STEP, waiting_for: Some("a Keystone user for the cluster's stacks".into()), ..Progress::default() };
    let domain = trustee_domain(cx).await?;
    let user = match find_announced(cx, work, cluster, &progress, ResourceKind::StackOwner, &name, &domain).await? {
        Some(user) => user,
        None => {
            let made = administrator(cx, work).keystone().create_service_user(&name, &domain, &cx.sealer.password(&name)).await;
            know(cx, work, &progress, ResourceKind::StackOwner, &name, made).await?
        }
    };
    if let Err(error) = give(&admin.keystone(), &cluster.project().0, &user, &wanted).await {
        return if error.status() == Some(403) { tell_refused(&error) } else { Err(error.into()) };
    }
    let session = open(cx, work, rows, &user.id);
    if !lets_in(cx, work, rows, &user.id, &session).await? {
        return Ok(None);
    }
    let key = match lent_key::lend(cx, work, rows, giver, &user.id, &session).await? {
        Lent::Key(key) => Some(key),
        Lent::Nothing => None,
        Lent::Missing => return Ok(None),
    };
    let id = cluster.cluster_id();
    let (id, progress, name, user, key) = (&id, &progress, &name, &user, key.as_deref());
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            if let Some(key) = key {
                resource::record(conn, id, ResourceKind::KeyPair, key, Some(key)).await?;
            }
            resource::record(conn, id, ResourceKind::StackOwner, name, Some(&user.id)).await
        })
        .await?;
    Ok(Some(session))
}

fn tell_refused(error: &CloudError) -> Result<Option<Session>, Failure> {
    tracing::warn!(%error, "Keystone lets the service give no roles: the stacks of clusters depend on those who asked for them");
    Ok(None)
}

/// The roles that an owner is given: of those that the giver has, those that trusts carry; none where there are none, or an administrator's is among
/// them.
fn roles(held: &[String], of_trusts: &[String]) -> Option<Vec<String>> {
    let is = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
    let is_carried = |role: &&String| of_trusts.is_empty() || of_trusts.iter().any(|carried| is(carried, role));
    let wanted: Vec<String> = held.iter().filter(|role| !is(role, SERVICE)).filter(is_carried).cloned().collect();
    (!wanted.is_empty() && !wanted.iter().any(|role| is(role, ADMIN))).then_some(wanted)
}

/// Gives a user roles on a project, by their names; those that it has already stay.
async fn give(admin: &Keystone, project: &str, user: &User, names: &[String]) -> Result<(), CloudError> {
    for role in admin.roles().await?.iter().filter(|role| names.iter().any(|name| name.eq_ignore_ascii_case(&role.name))) {
        admin.grant_role(project, &user.id, &role.id).await?;
    }
    Ok(())
}

/// Removes the owner and its key pairs; of these, what is left.
pub(crate) async fn remove(cx: &Context, work: &Work, rows: &Rows) -> Result<Vec<Leak>, Failure> {
    let cluster = &rows.cluster;
    // Where the inventory was dropped the name still says whose it is.
    if rows.stack_owner.is_none() && cluster.trustee_user_id.is_none() {
        return Ok(Vec::new());
    }
    let progress = Progress { step: STEP, waiting_for: Some("the removal of the stacks' owner".into()), ..Progress::default() };
    let name = name(rows);
    let user = user_left(cx, recorded(rows), &name).await?;
    let left = lent_key::remove(cx, work, cluster, user.as_deref()).await?;
    if let Some(user) = &user {
        remove_user(cx, work, cluster, &progress, ResourceKind::StackOwner, &name, user).await?;
    }
    let (id, progress) = (&cluster.cluster_id(), &progress);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            resource::forget(conn, id, ResourceKind::StackOwner).await
        })
        .await?;
    Ok(left)
}

/// A session as a user that has this cluster's password of an owner.
fn open(cx: &Context, work: &Work, rows: &Rows, user: &str) -> Session {
    work.session_as(user, || with_request(work, log_in(cx, user, &name(rows))))
}

/// A session as an owner, by its id and its name, which says what it works for.
fn log_in(cx: &Context, user: &str, name: &str) -> Session {
    let project = name.split('_').nth(1).map(str::to_owned);
    cx.cloud.session(Credential::Password {
        user: UserRef { id: Some(user.to_owned()), ..UserRef::default() },
        password: cx.sealer.password(name),
        scope: Scope::Project { id: project, name: None, domain_id: None, domain_name: None },
    })
}

/// Its id, once it has been made.
pub(super) fn recorded(rows: &Rows) -> Option<&str> {
    rows.stack_owner.as_ref()?.resource_id.as_deref()
}

fn name(rows: &Rows) -> String {
    format!("{}_stacks", trustee_name(&rows.cluster))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_what_the_giver_has_and_trusts_carry() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let given = |held: &[&str], carried: &[&str]| roles(&names(held), &names(carried));
        assert_eq!(given(&["member", "reader"], &[]), Some(names(&["member", "reader"])));
        assert_eq!(given(&["member", "reader", "service"], &["Member", "creator"]), Some(names(&["member"])));
        // As through a trust, which does not carry what makes him an administrator.
        assert_eq!(given(&["admin", "member"], &["member"]), Some(names(&["member"])));
        for (held, carried) in [
            (&["admin", "member"][..], &[][..]),
            (&["Admin"], &["admin", "member"]),
            (&["service"], &[]),
            (&["reader"], &["member"]),
            (&[], &["member"]),
        ] {
            assert_eq!(given(held, carried), None, "{held:?} {carried:?}");
        }
    }
}
