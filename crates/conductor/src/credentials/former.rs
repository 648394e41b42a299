//! Trusts that a cluster had before the one by which it acts, and what somebody else than Heat had handed on to him.
//!
//! A new password of the trustee keeps out whoever logs in as him, and nobody else: who had a trust handed on to a user of his own while he knew the
//! former one acts by that as before. With a trust Keystone removes all that was made from it, so former trusts go as soon as nothing of Heat's hangs
//! on them. It does where a stack was made through one: for what Heat does after a request it has a trust of its own, which it makes from the login
//! that the request came by, and which is from the stacks' owner only where the stack is his.

use model::cluster::Cluster;
use model::operation::{Progress, Thing};
use model::resource::{CloudResource, ResourceKind};
use model::store::{Conn, operation, resource};
use provider_clients::{CloudError, Scope, Session, Trust};

use super::session::{as_trustee, of_trustee};
use super::trust::{former_name, pedigree};
use super::{UNOPENED, refusal, stack_owner, trusted, with_request};
use crate::cluster::Rows;
use crate::context::Context;
use crate::leaving;
use crate::outcome::Failure;
use crate::worker::Work;

/// The step of an operation.
const STEP: &str = "trust";

/// Why a former trust stays where stacks have an owner.
const OF_A_STACK: &str = "a stack of the cluster was made through it and has not been changed since the stacks have an owner: Heat could not change it \
                          any more. Once it has been changed, ask for new credentials again";
/// Why one stays where they have none: as whom Heat acts, nobody knows then.
const OF_HEAT: &str = "other trusts were made from it, by Heat or by somebody who knew the trustee's password, and the stacks have no owner of their own: \
                       Heat could change none of them any more. It goes with the cluster";
/// Why one stays by which somebody acted who has given the present one.
const OF_THE_PRESENT: &str = "the present one was made from it and would end with it; ask for new credentials with a password";

/// Removes, of the trusts of a cluster, what others than Heat have had handed on to them, and the former ones on which nothing of Heat's hangs.
/// Says of those that stay why they do.
///
/// The trustee must have a password that counts, which nobody else knows. `is_unused`: no stack can have been made or changed through the present
/// trust, so that nothing that was made from it is Heat's.
///
/// # Errors
/// While Keystone does not answer. That it refuses something is a reason why a trust stays.
pub(crate) async fn end_former_trusts(cx: &Context, work: &Work, rows: &Rows, is_unused: bool) -> Result<Vec<String>, Failure> {
    let cluster = &rows.cluster;
    let (Some(trustee), Some(present)) = (cluster.trustee_user_id.as_deref(), cluster.trust_id.as_deref()) else {
        return Ok(Vec::new());
    };
    let mut stay = Vec::new();
    if is_unused {
        stay.extend(evict_all(cx, work, cluster, present).await?);
    }
    let former = formers(cx, work, cluster, trustee, present).await?;
    if former.is_empty() {
        return Ok(stay);
    }
    let kept = Kept { heat: heat_users(cx, work, rows).await?, pedigree: of_present(cx, work, cluster, present).await? };
    for id in former {
        stay.extend(end(cx, work, cluster, &kept, &id).await?.map(|why| format!("{id}: {why}")));
    }
    Ok(stay)
}

/// On whose account a former trust may not go.
struct Kept {
    /// [`heat_users`].
    heat: Option<Vec<String>>,
    /// The present trust, and what it was handed on from: with any of these it would end.
    pedigree: Vec<Trust>,
}

/// The pedigree of the present trust, as far as anybody can log in by it.
async fn of_present(cx: &Context, work: &Work, cluster: &Cluster, present: &str) -> Result<Vec<Trust>, Failure> {
    let Some(session) = trusted(cx, work, cluster)? else { return Ok(Vec::new()) };
    // It is of no use then, whatever it was made from.
    if refusal(&session).await?.is_some() {
        return Ok(Vec::new());
    }
    pedigree(&session, present).await.map_err(|error| Failure::retry(error.to_string()))
}

/// Removes all that was made from the present trust: whoever knew the trustee's password may have found it before there was a new one. Says what stays.
async fn evict_all(cx: &Context, work: &Work, cluster: &Cluster, present: &str) -> Result<Vec<String>, Failure> {
    let Some(session) = trusted(cx, work, cluster)? else { return Ok(Vec::new()) };
    if let Some(error) = refusal(&session).await? {
        return Ok(vec![format!("{present}: {error}")]);
    }
    let mut stay = Vec::new();
    match made_from(&session, present).await {
        Ok(made) => {
            for stranger in made {
                stay.extend(evict(cx, work, cluster, &session, &stranger).await?);
            }
        }
        Err(error) => stay.push(unless_later(error)?),
    }
    Ok(stay)
}

/// The ids of the former trusts of a cluster: of all that Keystone lists for its trustee in its project but the present one. They are in the inventory
/// from now on, those too that were made before anybody recorded them, and what is there and not listed is forgotten. Where Keystone lists none, as
/// recorded.
async fn formers(cx: &Context, work: &Work, cluster: &Cluster, trustee: &str, present: &str) -> Result<Vec<String>, Failure> {
    let id = &cluster.cluster_id();
    let rows = cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
    let trusts = rows.into_iter().filter(|row: &CloudResource| row.kind() == Some(ResourceKind::Trust));
    let recorded: Vec<String> = trusts.filter_map(|row| row.resource_id).filter(|trust| trust != present).collect();
    let Some(session) = as_trustee(cx, cluster)? else { return Ok(recorded) };
    let listed: Vec<String> = match with_request(work, session).keystone().trusts_taken(trustee).await {
        // Anybody may give the trustee something of another project's: it is his.
        Ok(taken) => taken
            .into_iter()
            .filter(|trust| trust.id != present && trust.project_id.as_deref() == Some(cluster.project().0.as_str()))
            .map(|trust| trust.id)
            .collect(),
        Err(error) => {
            let why = unless_later(error)?;
            tracing::warn!(why, "Keystone does not list the trusts of a cluster's trustee: those that are recorded are looked at");
            return Ok(recorded);
        }
    };
    let gone: Vec<&String> = recorded.iter().filter(|trust| !listed.contains(trust)).collect();
    let new: Vec<(String, &String)> =
        listed.iter().filter(|trust| !recorded.contains(trust)).map(|trust| (former_name(cluster, trust), trust)).collect();
    if !gone.is_empty() || !new.is_empty() {
        let progress = &Progress { step: STEP, ..Progress::default() };
        let (gone, new) = (&gone, &new);
        cx.store
            .write(async |conn: &mut Conn| {
                operation::record(conn, work.claim(), progress).await?;
                for trust in gone {
                    resource::forget_id(conn, id, ResourceKind::Trust, trust).await?;
                }
                for (name, trust) in new {
                    resource::record(conn, id, ResourceKind::Trust, name, Some(trust.as_str())).await?;
                }
                Ok(())
            })
            .await?;
    }
    Ok(listed)
}

/// As whom Heat acts: the users whom the owner of the stacks trusts, with whom nobody else has anything to do; none as long as no stack is his. None at
/// all where the stacks have no owner.
async fn heat_users(cx: &Context, work: &Work, rows: &Rows) -> Result<Option<Vec<String>>, Failure> {
    let Some(owner) = stack_owner::session(cx, work, rows).await? else { return Ok(None) };
    let id = owner.info().await?.user_id.clone();
    match owner.keystone().trusts_given(&id).await {
        Ok(given) => Ok(Some(given.into_iter().map(|trust| trust.trustee_user_id).collect())),
        Err(error) => {
            let why = unless_later(error)?;
            tracing::warn!(why, "Keystone does not list the trusts of the stacks' owner: as whom Heat acts is not known");
            Ok(Some(Vec::new()))
        }
    }
}

/// Removes a former trust with all that was made from it; why it stays, if it does. Where it stays for Heat's sake, what others have had handed on to
/// them goes all the same, as far as it can be told from what is Heat's.
async fn end(cx: &Context, work: &Work, cluster: &Cluster, kept: &Kept, id: &str) -> Result<Option<String>, Failure> {
    let session = match as_giver(cx, work, cluster, id).await? {
        Giver::Session(session) => session,
        Giver::Gone => {
            forget(cx, work, cluster, id, None).await?;
            return Ok(None);
        }
        Giver::OutOfReach(why) => return Ok(Some(why)),
    };
    let made = match made_from(&session, id).await {
        Ok(made) => made,
        Err(error) => return unless_later(error).map(Some),
    };
    let is_of_present = |id: &str| kept.pedigree.iter().any(|trust| trust.id == id);
    let (of_heat, strangers) = told_apart(made, kept.heat.as_deref().unwrap_or_default());
    if of_heat.is_empty() && !is_of_present(id) {
        return take_away(cx, work, cluster, &session, (&former_name(cluster, id), id)).await;
    }
    for stranger in &strangers {
        if !is_of_present(&stranger.id)
            && let Some(why) = evict(cx, work, cluster, &session, stranger).await?
        {
            return Ok(Some(why));
        }
    }
    let why = match kept.heat {
        _ if is_of_present(id) => OF_THE_PRESENT,
        Some(_) => OF_A_STACK,
        None => OF_HEAT,
    };
    Ok(Some(why.to_owned()))
}

/// Which of the trusts that were made from one are Heat's, which acts as these users, and which are not. Where nobody knows as whom it acts, all of
/// them may be.
fn told_apart(made: Vec<Trust>, heat: &[String]) -> (Vec<Trust>, Vec<Trust>) {
    made.into_iter().partition(|trust| heat.is_empty() || heat.contains(&trust.trustee_user_id))
}

/// Who can remove a trust: whoever gave it.
enum Giver {
    Session(Session),
    /// There is no such trust any more.
    Gone,
    /// Nobody acts as the one who gave it: why.
    OutOfReach(String),
}

/// A session as whoever gave a trust: through it, or through the present one, which the same user may have given.
async fn as_giver(cx: &Context, work: &Work, cluster: &Cluster, id: &str) -> Result<Giver, Failure> {
    let Some(credential) = of_trustee(cx, cluster, Scope::Trust { id: id.to_owned() })? else {
        return Ok(Giver::OutOfReach(UNOPENED.to_owned()));
    };
    let own = with_request(work, cx.cloud.session(credential));
    // A 404 does not say that the trust is gone: Keystone has it for a giver who is, too, or whose domain is disabled, which may pass.
    let through_it = match refusal(&own).await? {
        None => giver_of(own, id).await?,
        Some(error) => Giver::OutOfReach(error.to_string()),
    };
    let why = match through_it {
        Giver::OutOfReach(why) => why,
        found => return Ok(found),
    };
    if let Some(present) = trusted(cx, work, cluster)?
        && refusal(&present).await?.is_none()
        && let found @ (Giver::Session(_) | Giver::Gone) = giver_of(present, id).await?
    {
        return Ok(found);
    }
    Ok(Giver::OutOfReach(format!("only its giver, or an administrator of Keystone, can remove it ({why})")))
}

/// The session, if it is that of whoever gave a trust.
async fn giver_of(session: Session, id: &str) -> Result<Giver, Failure> {
    let user = session.info().await?.user_id.clone();
    match session.keystone().trust(id).await {
        Ok(Some(trust)) if trust.trustor_user_id == user => Ok(Giver::Session(session)),
        Ok(Some(_)) => Ok(Giver::OutOfReach("who logs in by it is not taken for its giver".to_owned())),
        Ok(None) => Ok(Giver::Gone),
        Err(error) => unless_later(error).map(Giver::OutOfReach),
    }
}

/// The trusts that were made from one, as its giver; not what was made from those.
async fn made_from(session: &Session, id: &str) -> Result<Vec<Trust>, CloudError> {
    let giver = session.info().await?.user_id.clone();
    let mut given = session.keystone().trusts_given(&giver).await?;
    given.retain(|trust| trust.redelegated_trust_id.as_deref() == Some(id));
    Ok(given)
}

/// Removes what somebody else than Heat has had handed on to him; why it stays, if it does.
async fn evict(cx: &Context, work: &Work, cluster: &Cluster, session: &Session, stranger: &Trust) -> Result<Option<String>, Failure> {
    let (id, user) = (stranger.id.as_str(), stranger.trustee_user_id.as_str());
    tracing::warn!(trust.id = id, user.id = user, "a trust of a cluster was handed on to somebody else than Heat, and is removed");
    let stays = take_away(cx, work, cluster, session, (&format!("handed on to {user}"), id)).await?;
    Ok(stays.map(|why| format!("{id}, handed on to {user}: {why}")))
}

/// Removes a trust, by its name for those who read events and by its id, and forgets it; why it stays, if it does.
async fn take_away(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    session: &Session,
    (name, id): (&str, &str),
) -> Result<Option<String>, Failure> {
    let waiting_for = Some("the removal of a former Keystone trust".into());
    let progress = Progress { step: STEP, waiting_for, ..Progress::default() };
    let thing = Thing { kind: ResourceKind::Trust.as_str().into(), name: name.to_owned(), id: Some(id.to_owned()) };
    leaving::about_to_remove(cx, work, cluster, &progress, thing.clone()).await?;
    let was_there = match session.keystone().delete_trust(id).await {
        Ok(was_there) => was_there,
        // The session that it carried is refused since it is gone.
        Err(error) if error.is_unauthorized() && error.status() == Some(404) => false,
        Err(error) => return unless_later(error).map(Some),
    };
    forget(cx, work, cluster, id, Some(&thing).filter(|_| !was_there)).await?;
    Ok(None)
}

/// Forgets a trust that is not there any more; with what is to be told of one that was to be removed and was gone already.
async fn forget(cx: &Context, work: &Work, cluster: &Cluster, trust: &str, gone: Option<&Thing>) -> Result<(), Failure> {
    let (id, progress) = (&cluster.cluster_id(), &Progress { step: STEP, ..Progress::default() });
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            if let Some(thing) = gone {
                leaving::tell_gone(conn, work, cluster, thing).await?;
            }
            resource::forget_id(conn, id, ResourceKind::Trust, trust).await
        })
        .await?;
    Ok(())
}

/// What Keystone's answer says for good.
///
/// # Errors
/// When asking again may mend it. That is so where the trustee is refused, too, whose password is a new one.
fn unless_later(error: CloudError) -> Result<String, Failure> {
    if error.repeating_may_mend() {
        return Err(error.into());
    }
    if error.is_unauthorized() {
        return Err(Failure::retry(error.to_string()));
    }
    Ok(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(id: &str, trustee: &str) -> Trust {
        Trust {
            id: id.into(),
            trustor_user_id: "giver".into(),
            trustee_user_id: trustee.into(),
            project_id: Some("p".into()),
            impersonation: true,
            redelegation_count: 0,
            redelegated_trust_id: Some("former".into()),
            expires_at: None,
            remaining_uses: None,
            roles: Vec::new(),
        }
    }

    #[test]
    fn what_is_heats_is_told_by_whom_the_stacks_owner_trusts() {
        let made = || vec![trust("1", "heat"), trust("2", "somebody"), trust("3", "heat")];
        let ids = |heat: &[&str]| {
            let heat: Vec<String> = heat.iter().map(|user| (*user).to_owned()).collect();
            let (of_heat, strangers) = told_apart(made(), &heat);
            [of_heat, strangers].map(|all| all.into_iter().map(|trust| trust.id).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(ids(&["heat"]), ["1 3", "2"]);
        // Heat has another user since: what the former one was given is of no use to it.
        assert_eq!(ids(&["another"]), ["", "1 2 3"]);
        // Nobody knows.
        assert_eq!(ids(&[]), ["1 2 3", ""]);
    }
}
