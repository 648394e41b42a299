//! How many nodes each group keeps while its nodes are replaced: as many as its stack was asked for last.
//!
//! A row says more after a change that was cancelled or failed, for a quota must not give away what may be there, and whoever went by it would
//! bring nodes back that had gone, or bring those that never came. While nodes are replaced the stack in turn has some nodes more. So it is
//! decided once, before anything of a pool is replaced, and kept with what the operation carries, for whoever takes it over; whoever does a
//! failed one again is told when that is accepted (`model::store::lifecycle`). The row says it when the operation has ended well.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use model::id::NodegroupId;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{Operation, OutcomeCode, Payload, Progress};
use model::store::lifecycle::{self, Left};
use model::store::{Conn, StoreError, nodegroup, operation};

use super::Replacing;
use crate::cluster::resize;
use crate::context::Context;
use crate::driver::PoolKind;
use crate::outcome::{Failure, Turn};
use crate::plan::{Pool, Seen};
use crate::stack;
use crate::worker::Work;

/// The sizes that are kept, by group, those of all that is replaced in this stack at rest among them; or what comes before they can be told.
pub(super) async fn kept(
    cx: &Context,
    work: &Work,
    replacing: &Replacing<'_>,
    seen: &Seen,
) -> Result<ControlFlow<Turn, BTreeMap<NodegroupId, i32>>, Failure> {
    let id = &work.operation.operation_id();
    // As it is now: what was read with the claim does not tell what was decided since.
    let row = cx.store.read(async |conn: &mut Conn| operation::find(conn, id).await).await?.ok_or(Failure::Stale)?;
    let mut payload = row.payload().map_err(|_| Failure::fail(OutcomeCode::Internal, "the operation's row cannot be read"))?;
    let open: Vec<(NodegroupId, i32, i32)> = replacing
        .pools
        .iter()
        .filter(|(_, group)| !payload.sizes.contains_key(&group.nodegroup_id()))
        .map(|(kind, group)| {
            let told = told(&payload, group);
            (group.nodegroup_id(), told, size(*kind, kind.of(seen), replacing.generation, told))
        })
        .collect();
    if open.is_empty() {
        return Ok(ControlFlow::Continue(payload.sizes));
    }
    // Somebody who ended badly may have asked for something else a moment ago, and Heat may show what was before the last change.
    if !work.is_settled(cx) && open.iter().any(|(_, told, size)| size != told) {
        return stack::wait_for(cx, work, &resize::stays(seen)).await.map(ControlFlow::Break);
    }
    for (group, _, size) in open {
        payload.keep(group, size);
    }
    let (payload, progress) = (&payload, &Progress { step: "replacement", ..Progress::default() });
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            operation::carry(conn, work.claim(), payload).await
        })
        .await?;
    Ok(ControlFlow::Continue(payload.sizes.clone()))
}

/// What the row of a group said when the operation was accepted: another request may have changed it since, which waits behind this one and is
/// not its to fulfil.
fn told(payload: &Payload, group: &Nodegroup) -> i32 {
    let told = payload.before.as_ref().and_then(|before| before.sizes.get(&group.nodegroup_id()).copied());
    told.unwrap_or_else(|| group.node_count())
}

/// The size that a group keeps whose row says `told`, by its pool in a stack at rest.
fn size(kind: PoolKind, pool: Option<&Pool>, generation: &str, told: i32) -> i32 {
    match (kind, pool) {
        // Nobody asks for another number of masters, and a replacement that was cut off may have left one more.
        (PoolKind::Masters, _) | (PoolKind::Workers, None) => told,
        // None of them is there beside those that it is to replace.
        (PoolKind::Workers, Some(pool)) if pool.former.is_empty() && !pool.is_of(generation) => pool.count,
        (PoolKind::Workers, Some(pool)) => pool.count.min(told),
    }
}

/// Has the rows say what was kept, in the transaction that ends the operation well, and so the quota count it. Where others wait that are about
/// the group, the row says their wish, and they learn what they have to put back.
pub(crate) async fn settle(conn: &mut Conn, ended: &Operation) -> Result<(), StoreError> {
    let (id, cluster) = (ended.operation_id(), ended.cluster_id());
    let sizes = match operation::find(conn, &id).await? {
        Some(row) => row.payload().unwrap_or_default().sizes,
        None => return Ok(()),
    };
    for group in nodegroup::of_cluster(conn, &cluster).await? {
        let Some(kept) = sizes.get(&group.nodegroup_id()).copied() else { continue };
        if lifecycle::waiting(conn, &cluster, &id, Some(&group)).await?.on_group {
            let left = Left { status: None, group: Some((&group, None, Some(kept))) };
            lifecycle::rebase(conn, ended, &left).await?;
        } else if group.node_count() != kept {
            let change = NodegroupChange { node_count: Some(kept), ..NodegroupChange::default() };
            nodegroup::record(conn, &group.nodegroup_id(), &change).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(count: i32, generation: &str, former: &[&str]) -> Pool {
        let former = former.iter().map(|number| ((*number).to_owned(), "old".to_owned())).collect();
        Pool { count, generation: generation.into(), former, ..Pool::default() }
    }

    #[test]
    fn a_group_keeps_the_size_that_its_stack_was_asked_for_whatever_its_row_says() {
        for (count, told) in [(2, 5), (5, 2), (3, 3), (0, 4)] {
            for generation in ["", "first"] {
                assert_eq!(size(PoolKind::Workers, Some(&pool(count, generation, &[])), "second", told), count, "{count} {told}");
            }
        }
    }

    #[test]
    fn nodes_that_are_there_beside_those_that_they_replace_are_not_kept() {
        // One more than the three has come, and the replacement was cut off: this one, in its second round, and another one.
        for generation in ["second", "2.second", "first"] {
            assert_eq!(size(PoolKind::Workers, Some(&pool(4, generation, &["0", "1", "2"])), "second", 3), 3, "{generation}");
        }
        // Its last nodes were to go when it was cut off.
        assert_eq!(size(PoolKind::Workers, Some(&pool(4, "second", &[])), "second", 3), 3);
        // Fewer were asked for before it began.
        assert_eq!(size(PoolKind::Workers, Some(&pool(2, "first", &["0"])), "second", 5), 2);
    }

    #[test]
    fn masters_are_as_many_as_the_row_says() {
        let (none, some): (&[&str], &[&str]) = (&[], &["0"]);
        for former in [none, some] {
            assert_eq!(size(PoolKind::Masters, Some(&pool(4, "first", former)), "second", 3), 3);
        }
    }

    #[test]
    fn what_the_row_said_when_the_request_came_is_not_what_a_later_request_wishes() {
        let group = Nodegroup { uuid: "g".into(), node_count: Some(9), ..Nodegroup::default() };
        let mut payload = Payload::default();
        assert_eq!(told(&payload, &group), 9);
        let sizes = [(group.nodegroup_id(), 4)].into();
        payload.before = Some(model::operation::Before { sizes, ..Default::default() });
        assert_eq!(told(&payload, &group), 4);
        // Releases that know nothing of it go by the same once it is decided.
        payload.keep(group.nodegroup_id(), 3);
        assert_eq!((told(&payload, &group), payload.sizes.get(&group.nodegroup_id())), (3, Some(&3)));
    }
}
