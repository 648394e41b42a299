//! A replacement of nodes that was cut off, as by the deadline of an upgrade: some nodes of a group are of before it, others of after it.

use std::collections::BTreeSet;

use model::cluster::Cluster;
use model::nodegroup::Nodegroup;
use model::operation::{Operation, OperationKind, OperationState};
use model::store::{Conn, history, lifecycle};
use provider_clients::Session;

use crate::context::Context;
use crate::driver::{self, Missing, PoolKind};
use crate::outcome::Failure;
use crate::plan::{Pool, Seen};

/// What is told of a group of which such a replacement is not at its end.
pub(crate) const NOTE: &str =
    "not all of its nodes have been replaced that were to be: ask again for the upgrade or the rotation that was replacing them";

/// Whether it is so of a group in a stack at rest. `excused`: workers that were given up, which are of former ones whatever was replaced.
pub(crate) async fn is(
    cx: &Context,
    (cluster, group): (&Cluster, &Nodegroup),
    session: &Session,
    seen: &Seen,
    excused: &[Missing],
) -> Result<bool, Failure> {
    if group.is_master() {
        return Ok(false);
    }
    let former = former(seen.minions.as_deref(), excused);
    // The stack keeps numbers of workers that went otherwise.
    let are_there = match former.is_empty() {
        true => false,
        false => driver::members(session, seen, PoolKind::Workers).await?.iter().any(|member| former.contains(member.number.as_str())),
    };
    if are_there || has_other_image(group, seen) || (group.is_default() && has_other_masters(cluster, seen)) {
        return Ok(true);
    }
    if !group.is_default() || !are_of_two_replacements(seen) {
        return Ok(false);
    }
    let id = &cluster.cluster_id();
    let ended = cx.store.read(async |conn: &mut Conn| history::finished(conn, id, history::LOOKED_THROUGH).await).await?;
    Ok(has_masters_of_failed(&ended, group, seen))
}

/// Whether masters were replaced by something else than workers: by an upgrade that has not come to these, or by what replaces masters alone.
fn are_of_two_replacements(seen: &Seen) -> bool {
    seen.masters.as_ref().zip(seen.minions.as_ref()).is_some_and(|(masters, workers)| masters.generation != workers.generation)
}

/// Whether the masters are those of an upgrade that failed, and the workers are not. An upgrade that changes neither version nor image leaves no other
/// sign where it is cut off between the two. `ended`: the last operations of the cluster that have ended, the newest first.
fn has_masters_of_failed(ended: &[Operation], group: &Nodegroup, seen: &Seen) -> bool {
    let upgrades = ended.iter().filter(|o| o.understood() == Some(OperationKind::ClusterUpgrade) && lifecycle::is_about(o, group));
    let mut failed = upgrades.take_while(|o| o.state() != Some(OperationState::Succeeded)).filter_map(|o| o.payload().ok()?.generation);
    let is_of = |pool: &Option<Box<Pool>>, generation: &str| pool.as_ref().is_some_and(|pool| pool.is_of(generation));
    failed.any(|generation| is_of(&seen.masters, &generation) && !is_of(&seen.minions, &generation))
}

fn former<'a>(workers: Option<&'a Pool>, excused: &[Missing]) -> BTreeSet<&'a str> {
    let numbers = workers.into_iter().flat_map(|pool| pool.former.keys());
    numbers.map(String::as_str).filter(|number| !excused.iter().any(|one| one.number == *number)).collect()
}

/// The row of a group says what all its workers were made of, its stack what new ones are.
fn has_other_image(group: &Nodegroup, seen: &Seen) -> bool {
    group.image_id.as_ref().zip(seen.minions.as_ref()).is_some_and(|(then, workers)| workers.image != *then)
}

/// With the workers of the default group go the masters, and go first: the stack says what new ones are of, the row what all were of.
fn has_other_masters(cluster: &Cluster, seen: &Seen) -> bool {
    let Some(masters) = seen.masters.as_deref() else { return false };
    let is_other_version = seen.kube_version.as_ref().zip(cluster.coe_version.as_ref()).is_some_and(|(now, then)| now != then);
    !masters.former.is_empty() || is_other_version || seen.minions.as_ref().is_some_and(|workers| workers.image != masters.image)
}

/// Workers that are still there, and have been seen off by those that came for them: their pods are elsewhere and Kubernetes knows them no more. Only of a
/// stack that is complete is that known.
pub(crate) fn seen_off(seen: &Seen) -> Vec<String> {
    let workers = seen.minions.as_deref().filter(|_| seen.status.ends_with("_COMPLETE"));
    let replaced = workers.into_iter().flat_map(|pool| pool.replaces.iter().filter(|number| pool.former.contains_key(*number)));
    replaced.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::capi_helm::tests as rows;

    fn pool(image: &str, former: &[&str]) -> Option<Box<Pool>> {
        let former = former.iter().map(|number| ((*number).to_owned(), "old".to_owned())).collect();
        Some(Box::new(Pool { image: image.into(), former, ..Pool::default() }))
    }

    #[test]
    fn masters_of_an_upgrade_that_was_cut_off_are_known_by_their_number_version_or_image() {
        let cluster = Cluster { coe_version: Some("v1.35.0".into()), ..rows::cluster() };
        let seen = |version: &str, masters, minions| Seen { kube_version: Some(version.into()), masters, minions, ..Seen::default() };
        for (what, seen, wanted) in [
            ("nothing", seen("v1.35.0", pool("a", &[]), pool("a", &[])), false),
            ("one that is to go", seen("v1.35.0", pool("b", &["0"]), pool("a", &[])), true),
            ("image", seen("v1.35.0", pool("b", &[]), pool("a", &[])), true),
            ("version", seen("v1.36.9", pool("a", &[]), pool("a", &[])), true),
            ("a stack that upstream made", Seen { kube_version: Some("v1.36.9".into()), ..Seen::default() }, false),
        ] {
            assert_eq!(has_other_masters(&cluster, &seen), wanted, "{what}");
        }
    }

    #[test]
    fn workers_of_an_upgrade_that_was_cut_off_at_its_last_step_are_known_by_their_image() {
        let seen = |minions| Seen { minions, ..Seen::default() };
        let group = |image: Option<&str>| Nodegroup { image_id: image.map(Into::into), ..Nodegroup::default() };
        assert!(has_other_image(&group(Some("a")), &seen(pool("b", &[]))));
        for (image, minions) in [(Some("b"), pool("b", &[])), (None, pool("b", &[])), (Some("a"), None)] {
            assert!(!has_other_image(&group(image), &seen(minions)), "{image:?}");
        }
    }

    #[test]
    fn workers_that_were_given_up_are_no_sign_of_a_replacement() {
        let workers = pool("a", &["1", "2"]);
        let excused = [Missing { kind: PoolKind::Workers, number: "2".into(), is_awaited: false, is_absent: false }];
        assert_eq!(former(workers.as_deref(), &excused), ["1"].into());
        assert_eq!(former(None, &excused), BTreeSet::new());
    }

    #[test]
    fn workers_are_seen_off_once_those_that_came_for_them_are_nodes() {
        let of = |status: &str, replaces: &[&str], former: &[&str]| {
            let mut workers = pool("a", former).expect("a pool");
            workers.replaces = replaces.iter().map(|number| (*number).to_owned()).collect();
            seen_off(&Seen { status: status.into(), minions: Some(workers), ..Seen::default() })
        };
        assert_eq!(of("UPDATE_COMPLETE", &["0"], &["0", "1"]), ["0"]);
        assert!(of("UPDATE_FAILED", &["0"], &["0", "1"]).is_empty());
        assert!(of("UPDATE_COMPLETE", &["0"], &["1"]).is_empty());
        assert!(seen_off(&Seen::default()).is_empty());
    }
}
