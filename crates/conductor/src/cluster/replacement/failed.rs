//! Members of a stack that failed which did not become nodes. Heat keeps what they said, and would fail at them however often it is asked.

use provider_clients::Session;

use super::{Replacing, Todo};
use crate::driver::{self, Missing, PoolKind};
use crate::outcome::Failure;
use crate::plan::{self, RollStep, Seen};

/// What is to be done first about those that are `missing`: they are recorded, pool by pool, then Heat is told not to wait for them and tried again.
/// Those of them that are known to be no part of the cluster are taken away with that, of one pool at a time; but what is not replaced keeps the number
/// of its members, and so all of them: Heat passes by, and whoever asks for that number again has others come (`cluster/resize.rs`).
pub(super) async fn to_be_given_up<'a>(
    session: &Session,
    replacing: &Replacing<'a>,
    seen: &Seen,
    missing: &[Missing],
) -> Result<Option<Todo<'a>>, Failure> {
    let Some(first) = replacing.pools.first().copied().filter(|_| !missing.is_empty()) else { return Ok(None) };
    let discarding = replacing.pools.iter().copied().find(|(kind, _)| missing.iter().any(|m| m.kind == *kind && m.is_absent));
    let goes = |m: &Missing| m.is_absent && discarding.is_some_and(|(kind, _)| kind == m.kind);
    for (kind, group) in replacing.all() {
        let failed = missing.iter().filter(|m| m.kind == kind && !goes(m)).map(|m| m.number.clone());
        if let Some(step) = kind.of(seen).and_then(|pool| plan::give_up(pool, failed)) {
            return Ok(Some(Todo::of((kind, group), step, Vec::new())));
        }
    }
    let others: Vec<Missing> = missing.iter().filter(|m| !goes(m)).cloned().collect();
    if let Some((kind, group)) = discarding {
        let members = numbers(session, seen, kind).await?;
        let absent = missing.iter().filter(|m| goes(m)).map(|m| m.number.clone());
        if let Some(step) = kind.of(seen).and_then(|pool| plan::discard(pool, &members, absent)) {
            return Ok(Some(Todo::of((kind, group), step, others)));
        }
    }
    Ok((!others.is_empty()).then(|| Todo::of(first, RollStep::Done, others)))
}

/// The numbers of the members of a pool, in their order.
pub(super) async fn numbers(session: &Session, seen: &Seen, kind: PoolKind) -> Result<Vec<String>, Failure> {
    Ok(driver::members(session, seen, kind).await?.into_iter().map(|member| member.number).collect())
}

/// Why no more come, and what helps.
pub(super) fn overfull(group: &str, step: &RollStep, wanted: i32) -> String {
    let present = match step {
        RollStep::Add { count, newcomers, .. } => count - newcomers,
        _ => wanted,
    };
    format!(
        "nodegroup {group} has {present} nodes in the cloud and is to have {wanted}: those that came lately did not tell that they became nodes, or those \
         that were to go did not, and no more are made. Find out why, then resize the nodegroup to {wanted} with nodes_to_remove naming those that are \
         none, and ask again"
    )
}
