//! The cluster's key pair in the hands of its stacks' owner: Nova looks among those of the user who makes a server.
//!
//! It is a copy of the creator's public key under the same name. Nova knows key pairs by user and name, and keeps those of users who are gone; so
//! the inventory calls one by both, and it is found and removed when its owner is not there any more. The creator's own is only ever read.

use std::collections::BTreeSet;

use model::cluster::Cluster;
use model::operation::{Leak, Progress, Thing};
use model::resource::{CloudResource, ResourceKind};
use model::store::{Conn, operation, resource};
use provider_clients::{Keypair, Nova, Session};

use super::stack_owner::STEP;
use super::{announce, know, may_still_appear, not_yet, service};
use crate::cluster::Rows;
use crate::context::Context;
use crate::leaving;
use crate::outcome::Failure;
use crate::worker::Work;

/// Characters of a name in the inventory at most.
const NAME: usize = 255;

/// What came of it that an owner is to have the cluster's key pair.
pub(super) enum Lent {
    /// The cluster has none.
    Nothing,
    /// He has it, by this name in the inventory, where it is still to be recorded as made.
    Key(String),
    /// There is none that could be copied.
    Missing,
}

/// What the inventory calls a key pair: `USER/NAME`. Of a very long name it has the beginning.
pub(crate) fn reference(user: &str, name: &str) -> String {
    format!("{user}/{name}").chars().take(NAME).collect()
}

/// Whose key pair it is that the inventory calls so.
pub(crate) fn user_of(reference: &str) -> Option<&str> {
    reference.split_once('/').map(|(user, _)| user)
}

/// Sees to it that an owner, by its id and a session as it, has the cluster's key pair. Only the creator's is copied: of somebody else's with the
/// same name nobody knows whom it lets in. Where there is none to copy, Heat says what is missing, to the giver.
///
/// # Errors
/// While one may still appear that was asked for without a clear answer: a second request would leave the first one to come when the cluster is
/// gone.
pub(super) async fn lend(cx: &Context, work: &Work, rows: &Rows, giver: &Session, owner: &str, session: &Session) -> Result<Lent, Failure> {
    // Clusters of old upstreams have their template's.
    let of_template = || rows.template.as_ref().and_then(|template| template.keypair_id.as_deref());
    let Some(name) = rows.cluster.keypair.as_deref().or_else(of_template).filter(|name| !name.is_empty()) else {
        return Ok(Lent::Nothing);
    };
    let (cluster, key) = (&rows.cluster, reference(owner, name));
    if session.nova().keypair(name).await?.is_some() {
        return Ok(Lent::Key(key));
    }
    if may_still_appear(cx, work, cluster, ResourceKind::KeyPair, &key).await? {
        return Err(not_yet(ResourceKind::KeyPair, &key));
    }
    if cluster.user().0 != giver.info().await?.user_id {
        return Ok(Lent::Missing);
    }
    let Some(pair) = giver.nova().keypair(name).await? else { return Ok(Lent::Missing) };
    let progress = Progress { step: STEP, waiting_for: Some("the key pair of the stacks' owner".into()), ..Progress::default() };
    announce(cx, work, cluster, &progress, ResourceKind::KeyPair, &key).await?;
    let made = session.nova().import_keypair(name, &pair.public_key).await;
    know(cx, work, &progress, ResourceKind::KeyPair, &key, made).await?;
    Ok(Lent::Key(key))
}

/// Removes what was lent of a cluster: all key pairs of its stacks' owner, and those that the inventory has of former ones. As the service, for
/// none of them need be there any more. What may not be removed is no reason to keep the cluster, and is returned to be told.
pub(super) async fn remove(cx: &Context, work: &Work, cluster: &Cluster, owner: Option<&str>) -> Result<Vec<Leak>, Failure> {
    let id = &cluster.cluster_id();
    // Before the look: what may appear after it is not taken for gone.
    let is_settled = work.is_settled(cx);
    let recorded = cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
    let recorded: Vec<CloudResource> = recorded.into_iter().filter(|row| row.kind() == Some(ResourceKind::KeyPair)).collect();
    let users: BTreeSet<&str> = recorded.iter().filter_map(|row| user_of(&row.name)).chain(owner).collect();
    if users.is_empty() {
        return Ok(Vec::new());
    }
    let Some(admin) = service(cx).await? else {
        return stay(cx, cluster, "the cluster service has not the role admin any more").await;
    };
    let nova = admin.nova();
    for user in users {
        let mut there = match nova.keypairs_of(user).await {
            Ok(listed) => listed,
            Err(error) if error.repeating_may_mend() => return Err(error.into()),
            Err(error) => return stay(cx, cluster, &error.to_string()).await,
        };
        there.retain(|pair| Some(user) == owner || is_recorded(&recorded, &reference(user, &pair.name)));
        if let Some(reason) = take(cx, work, cluster, &nova, user, &there, &recorded).await? {
            return stay(cx, cluster, &reason).await;
        }
        let is_there = |row: &CloudResource| there.iter().any(|pair| reference(user, &pair.name) == row.name);
        for row in recorded.iter().filter(|row| user_of(&row.name) == Some(user) && !is_there(row)) {
            let was_made = row.resource_id.is_some();
            if was_made {
                leaving::about_to_remove(cx, work, cluster, &removing(), thing(&row.name)).await?;
            }
            if was_made || is_settled {
                forget(cx, work, cluster, &row.name, was_made).await?;
            }
        }
    }
    Ok(Vec::new())
}

/// Removes these key pairs of a user; why Nova refuses to, where it does. Each is in the inventory before it is asked for: one of an owner whom an
/// older program made need not be yet.
async fn take(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    nova: &Nova,
    user: &str,
    there: &[Keypair],
    recorded: &[CloudResource],
) -> Result<Option<String>, Failure> {
    for pair in there {
        let key = reference(user, &pair.name);
        if !is_recorded(recorded, &key) {
            record(cx, work, cluster, &key).await?;
        }
        leaving::about_to_remove(cx, work, cluster, &removing(), thing(&key)).await?;
        match nova.delete_keypair_of(user, &pair.name).await {
            Ok(was_there) => forget(cx, work, cluster, &key, !was_there).await?,
            Err(error) if error.repeating_may_mend() => return Err(error.into()),
            Err(error) => return Ok(Some(error.to_string())),
        }
    }
    Ok(None)
}

fn is_recorded(recorded: &[CloudResource], key: &str) -> bool {
    recorded.iter().any(|row| row.name == key)
}

fn removing() -> Progress {
    Progress { step: STEP, waiting_for: Some("the removal of the key pair of the stacks' owner".into()), ..Progress::default() }
}

fn thing(key: &str) -> Thing {
    Thing { kind: ResourceKind::KeyPair.as_str().into(), name: key.to_owned(), id: Some(key.to_owned()) }
}

async fn record(cx: &Context, work: &Work, cluster: &Cluster, key: &str) -> Result<(), Failure> {
    let (id, progress) = (&cluster.cluster_id(), &removing());
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            resource::record(conn, id, ResourceKind::KeyPair, key, Some(key)).await
        })
        .await?;
    Ok(())
}

async fn forget(cx: &Context, work: &Work, cluster: &Cluster, key: &str, was_gone: bool) -> Result<(), Failure> {
    let (id, progress, thing) = (&cluster.cluster_id(), &removing(), &thing(key));
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            if was_gone {
                leaving::tell_gone(conn, work, cluster, thing).await?;
            }
            resource::forget_one(conn, id, ResourceKind::KeyPair, key).await
        })
        .await?;
    Ok(())
}

/// What stays of them, by the inventory, and why.
async fn stay(cx: &Context, cluster: &Cluster, reason: &str) -> Result<Vec<Leak>, Failure> {
    tracing::warn!(reason, "the public key of a cluster's stacks stays in Nova, where nobody can use it");
    Ok(leaving::left(cx, cluster, &[ResourceKind::KeyPair], reason).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_pair_is_called_by_its_user_and_its_name_as_far_as_there_is_room() {
        assert_eq!(reference("5f1d", "key"), "5f1d/key");
        // A name may have anything in it; a user's id has not.
        for (name, user) in [("key", "5f1d"), ("a/b c", "5f1d"), ("", "5f1d"), ("ü".repeat(300).as_str(), "0123456789abcdef")] {
            let called = reference(user, name);
            assert_eq!(user_of(&called), Some(user), "{called}");
            assert!(called.chars().count() <= NAME, "{called}");
        }
        assert_ne!(reference("5f1d", "key"), reference("5f1e", "key"));
        assert_eq!(user_of("another program's"), None);
    }
}
