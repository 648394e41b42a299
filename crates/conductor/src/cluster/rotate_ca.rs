//! A cluster gets new certificate authorities, for Kubernetes, etcd and the front proxy, and with the first a new key for service accounts.
//!
//! At no time does a part of the cluster meet one that it does not trust. Three phases follow one another (`model::certificate::Phase`),
//! each of which replaces nodes as an upgrade does, by ones of the same image and version: first every node learns to trust the new
//! authorities beside the old ones, then masters show what the new ones signed, then all forget the old ones. The row of the rotation says
//! which phase it is and holds the second set of pairs; what nodes are made of follows from it (`certificates::material`), also for those
//! that a resize or an upgrade makes in between. An operation that failed can be done again, by whomever, and goes on where it was.

use std::sync::Arc;

use model::certificate::{Phase, References, Rotation};
use model::cluster::{Cluster, ClusterChange};
use model::json::python_json;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationState, OutcomeCode, Progress};
use model::store::{Conn, certificate, cluster as clusters, event, nodegroup, operation, rotation};
use provider_clients::Session;

use super::replacement::{self, Next, Replacing, sizes};
use super::{Rows, rows, upgrade};
use crate::context::Context;
use crate::driver::{PoolKind, capi_helm};
use crate::outcome::{Failure, Turn};
use crate::plan::{Observed, Seen};
use crate::settle::{self, End};
use crate::stack::Whose;
use crate::worker::{Work, succeed};
use crate::{certificates, credentials, driver};

/// The event of a phase's beginning, in words.
pub(crate) const PHASE: &str = "ca_rotation";
/// Each is a pass over nodes; the others are another driver's.
const PASSES: [Phase; 3] = [Phase::Trust, Phase::Sign, Phase::Retire];

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    if capi_helm::is_ours(&rows) {
        return capi_helm::turn(cx, work, &rows).await;
    }
    let session = credentials::for_stacks(cx, work, &rows).await?;
    let id = &rows.cluster.cluster_id();
    let Some(rotation) = cx.store.read(async |conn: &mut Conn| rotation::find(conn, id).await).await? else {
        return begin(cx, work, &rows, &session).await;
    };
    let Some(phase) = rotation.phase().filter(|phase| PASSES.contains(phase)) else { return Err(unknown(&rotation)) };
    if phase == Phase::Trust && certificates::ensure_next(cx, work, &rows.cluster, &rotation).await? {
        return Ok(Turn::NOW);
    }
    let generation = format!("{}-{}", rotation.generation, phase.as_str());
    let mut done: Vec<(&Nodegroup, Seen)> = Vec::new();
    for leg in legs(&rows, phase) {
        let observed = driver::observe(&rows.stack_of(leg.group).handle, &session).await?;
        let batch = batch(leg.group.node_count(), |newcomers| has_room(&rows, observed.seen(), newcomers));
        let replacing = Replacing {
            whose: leg.whose(&rows.cluster),
            pools: leg.pools,
            beside: leg.beside,
            generation: &generation,
            batch,
            aim: words(phase),
        };
        match replacement::next(cx, work, &session, observed, &replacing).await? {
            Next::Turn(turn) => return Ok(turn),
            Next::Done(seen) => done.push((leg.group, seen)),
            Next::Send(todo, seen) => {
                let made = replacement::prepare(cx, work, &rows.target(&session)?, &replacing, (&todo, &seen)).await?;
                return replacement::send(cx, work, &session, &seen, &todo, &made).await;
            }
        }
    }
    let (own, beside) = (&rows.cluster.references(), &rotation.references);
    let told = |phase| (phase, words(phase));
    match phase {
        // Those who will sign change places with those who did.
        Phase::Trust | Phase::Spread => enter(cx, work, &rows.cluster, told(Phase::Sign), beside, own).await,
        Phase::Sign => enter(cx, work, &rows.cluster, told(Phase::Retire), own, beside).await,
        Phase::Leave | Phase::Retire => finish(cx, work, &rows, &rotation, &session, &done).await,
    }
}

/// Where a row stands of which this version can make nothing.
pub(crate) fn unknown(rotation: &Rotation) -> Failure {
    let text = format!("the rotation is in phase {:?}, which this version does not know", rotation.phase);
    Failure::fail(OutcomeCode::Internal, text)
}

/// What is told of a phase.
fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Trust | Phase::Spread => "rotating certificate authorities 1/3: nodes that trust the new ones too",
        Phase::Sign => "rotating certificate authorities 2/3: masters with certificates of the new ones",
        Phase::Leave | Phase::Retire => "rotating certificate authorities 3/3: nodes that trust the new ones alone",
    }
}

/// Workers replaced at once: a tenth of a group, or as many as there is room for beside all nodes that are there.
fn batch(nodes: i32, has_room: impl Fn(u64) -> bool) -> i32 {
    let tenth = (nodes / 10).max(1);
    (1..=tenth).rev().find(|newcomers| has_room(u64::from(newcomers.unsigned_abs()))).unwrap_or(1)
}

/// Whether so many nodes more have addresses, as far as is known here. One of them has, wherever there are as many nodes as there may be.
fn has_room(rows: &Rows, seen: Option<&Seen>, newcomers: u64) -> bool {
    let (Some(template), Some(seen)) = (&rows.template, seen) else { return true };
    let made = rows.groups.iter().filter(|group| group.is_default() || group.stack_id.is_some());
    let there: u64 = made.map(|group| u64::try_from(group.node_count()).unwrap_or(0)).sum();
    driver::too_many(&rows.cluster, template, seen, (there + newcomers).saturating_sub(1)).is_none()
}

/// What a phase replaces in one stack.
struct Leg<'a> {
    /// The default worker group stands for the cluster's own stack.
    group: &'a Nodegroup,
    pools: Vec<(PoolKind, &'a Nodegroup)>,
    /// What else is in the stack.
    beside: Option<(PoolKind, &'a Nodegroup)>,
}

impl Leg<'_> {
    /// Groups keep their own status and reason: they are not what the operation is about.
    fn whose<'c>(&self, cluster: &'c Cluster) -> Whose<'c> {
        if self.group.is_default() { Whose::Cluster(cluster) } else { Whose::Nobody(cluster) }
    }
}

/// In this order: whoever is to be met must be trusted, and whoever is trusted no more must have gone.
fn legs(rows: &Rows, phase: Phase) -> Vec<Leg<'_>> {
    let default = |master: bool| rows.groups.iter().find(|g| g.is_default() && g.is_master() == master);
    let (Some(masters), Some(workers)) = (default(true), default(false)) else { return Vec::new() };
    let (master_pool, worker_pool) = ((PoolKind::Masters, masters), (PoolKind::Workers, workers));
    let own = |pools, beside| Leg { group: workers, pools, beside };
    let groups = others(rows).map(|group| Leg { group, pools: vec![(PoolKind::Workers, group)], beside: None });
    match phase {
        Phase::Trust | Phase::Spread => std::iter::once(own(vec![master_pool, worker_pool], None)).chain(groups).collect(),
        Phase::Sign => vec![own(vec![master_pool], Some(worker_pool))],
        Phase::Leave | Phase::Retire => {
            let (first, last) = (own(vec![worker_pool], Some(master_pool)), own(vec![master_pool], Some(worker_pool)));
            std::iter::once(first).chain(groups).chain(std::iter::once(last)).collect()
        }
    }
}

/// Groups in stacks of their own.
fn others(rows: &Rows) -> impl Iterator<Item = &Nodegroup> {
    rows.groups.iter().filter(|group| !group.is_default() && rows.stack_of(group).may_exist)
}

/// Refuses what cannot be done before anything is, and begins.
async fn begin(cx: &Context, work: &Work, rows: &Rows, session: &Session) -> Result<Turn, Failure> {
    let legs = legs(rows, Phase::Trust);
    if legs.is_empty() {
        return Err(Failure::fail(OutcomeCode::Internal, "the cluster has no default nodegroups"));
    }
    for leg in legs {
        let known = rows.stack_of(leg.group);
        match driver::observe(&known.handle, session).await? {
            Observed::Absent => return Err(Failure::fail(OutcomeCode::Cloud, format!("stack {} is gone", known.handle.name))),
            Observed::Foreign { reason } => return Err(Failure::fail(OutcomeCode::Cloud, reason)),
            observed => {
                if let Some(seen) = observed.seen() {
                    replacement::check(seen, &leg.pools)?;
                    if leg.group.is_default() {
                        upgrade::check_whole(&rows.cluster, seen, "rotate its certificate authorities")?;
                    }
                }
            }
        }
    }
    started(cx, work, &rows.cluster, words(Phase::Trust)).await
}

/// Records that a rotation has begun, with what is told of its first phase.
pub(crate) async fn started(cx: &Context, work: &Work, cluster: &Cluster, words: &str) -> Result<Turn, Failure> {
    let (operation_id, id) = (&work.operation.operation_id(), &cluster.cluster_id());
    let progress = &Progress { step: "certificates", ..Progress::default() };
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            rotation::begin(conn, id, operation_id.as_str()).await?;
            event::append(conn, operation_id, id, PHASE, words).await
        })
        .await?;
    Ok(Turn::NOW)
}

/// Goes on to a phase, of which this is told, and in which `own` sign, and `beside` are on their way out.
pub(crate) async fn enter(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    (phase, words): (Phase, &str),
    own: &References,
    beside: &References,
) -> Result<Turn, Failure> {
    let (operation_id, id) = (&work.operation.operation_id(), &cluster.cluster_id());
    let (progress, change) = (&Progress { step: "replacement", ..Progress::default() }, &ClusterChange::references(own));
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            clusters::record(conn, id, change).await?;
            rotation::enter(conn, id, phase, beside).await?;
            event::append(conn, operation_id, id, PHASE, words).await
        })
        .await?;
    Ok(Turn::NOW)
}

/// Removes the pairs that nobody trusts any more, and ends the operation: the rows tell the addresses of the new nodes.
async fn finish(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    rotation: &Rotation,
    session: &Session,
    done: &[(&Nodegroup, Seen)],
) -> Result<Turn, Failure> {
    let (mut of_groups, mut of_cluster) = (Vec::new(), ClusterChange::default());
    let addresses = |of: &[String]| NodegroupChange { node_addresses: Some(python_json(of)), ..NodegroupChange::default() };
    for (group, seen) in done {
        let facts = driver::facts(&rows.cluster, session, seen).await?;
        of_groups.push((group.nodegroup_id(), addresses(&facts.worker_addresses)));
        if group.is_default() {
            let masters = rows.groups.iter().filter(|g| g.is_default() && g.is_master());
            of_groups.extend(masters.map(|group| (group.nodegroup_id(), addresses(&facts.master_addresses))));
            of_cluster.api_address = Some(facts.api_address);
        }
    }
    let retired = &rotation.references.all();
    certificates::retire(cx, work, &rows.cluster, retired).await?;
    let end = End { state: OperationState::Succeeded, group: None, facts: NodegroupChange::default(), reason: None };
    let (id, end, of_groups, of_cluster) = (&rows.cluster.cluster_id(), &end, &of_groups, &of_cluster);
    succeed(cx, work, async |conn: &mut Conn| {
        certificate::delete(conn, retired).await?;
        rotation::end(conn, id).await?;
        for (group, change) in of_groups {
            nodegroup::record(conn, group, change).await?;
        }
        sizes::settle(conn, &work.operation).await?;
        clusters::record(conn, id, of_cluster).await?;
        settle::record(conn, &work.operation, end).await
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_a_group_is_replaced_at_once_and_less_where_there_is_no_room_for_so_many_more() {
        assert_eq!([5, 10, 230].map(|nodes| batch(nodes, |_| true)), [1, 1, 23]);
        assert_eq!(batch(230, |newcomers| newcomers <= 18), 18);
        // Else nothing would ever be replaced: the driver says what is lacking.
        assert_eq!(batch(230, |_| false), 1);
    }
}
