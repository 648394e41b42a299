//! Clusters that are Heat stacks: a new one is counted from its parameters, one that is there from what its stack says.

use model::cluster::status::Status;
use model::forecast::{Forecast, Intent, Leaving, Replacement, Thing};
use model::nodegroup::Nodegroup;
use model::operation::{OperationKind, OutcomeCode};
use provider_clients::Session;

use super::{FOREIGN, no_such, quotas};
use crate::cluster::{concerned, resize, upgrade};
use crate::context::Settings;
use crate::driver::{self, Handle, Member, PoolKind, Target};
use crate::nodegroup::halfway;
use crate::outcome::Failure;
use crate::plan::{self, Seen, UpdateStep, Wanted};

/// What is rendered when the stack is made, and not before.
const FIRST_BOOT: &str =
    "the first boot of nodes is not rendered: it holds certificates that are made with the cluster, and files of the conductors' hosts";
/// What is not known of stacks of other templates.
const UPSTREAMS: &str = "upstream's driver made the stack: of what its nodes take, servers alone are counted";

pub(super) async fn tell(settings: &Settings, intent: &Intent, session: Option<&Session>, told: &mut Forecast) -> Result<(), Failure> {
    match intent.kind {
        OperationKind::ClusterCreate => create(settings, intent, session, told).await,
        OperationKind::ClusterResize => resize(intent, session, told).await,
        OperationKind::ClusterUpgrade => replace_all(settings, intent, session, told).await,
        other => Err(no_such(other)),
    }
}

async fn create(settings: &Settings, intent: &Intent, session: Option<&Session>, told: &mut Forecast) -> Result<(), Failure> {
    let Some((template, session)) = intent.template.as_ref().zip(session) else {
        told.unknown.push(FOREIGN.into());
        return Ok(());
    };
    let target = Target { cluster: &intent.cluster, groups: &intent.groups, nodes: &intent.nodes, template, session };
    let need = driver::need_of_new(settings, &target).await?;
    told.makes(Thing::Stack, 1);
    for (thing, count) in need.things() {
        told.makes(thing, count);
    }
    told.notes.push(FIRST_BOOT.into());
    quotas(session, &[&need], told).await;
    Ok(())
}

async fn resize(intent: &Intent, session: Option<&Session>, told: &mut Forecast) -> Result<(), Failure> {
    let group = concerned(&intent.groups, &intent.payload)?;
    let wanted = intent.payload.node_count.unwrap_or(group.node_count());
    let named = &intent.payload.nodes_to_remove;
    let Some(session) = session else {
        by_rows(group, wanted, told);
        told.unknown.push(FOREIGN.into());
        return Ok(());
    };
    let observed = match driver::observe(&Handle::of_group(&intent.cluster, group), session).await {
        Ok(observed) => observed,
        Err(failure) => {
            by_rows(group, wanted, told);
            return Err(failure);
        }
    };
    // Those that others have come for go unasked.
    let seen_off = observed.at_rest().map(halfway::seen_off).unwrap_or_default();
    let members = match observed.at_rest().filter(|_| !named.is_empty() || !seen_off.is_empty()) {
        Some(seen) => resize::candidates(session, seen, named).await?,
        None => Vec::new(),
    };
    let step = plan::update(observed, &Wanted { count: wanted, remove: Vec::new() }, None);
    let Some(seen) = at_rest(step, group, told) else {
        by_rows(group, wanted, told);
        return Ok(());
    };
    let mut leaving = resize::numbers(session, group, named, &members).await?;
    leaving.extend(seen_off.into_iter().filter(|number| !leaving.contains(number)).collect::<Vec<_>>());
    told.leaving = leaving_of(group, &leaving, &members);
    if !seen.has_our_workers {
        told.unknown.push(UPSTREAMS.into());
    }
    let Some(present) = seen.settled_workers() else {
        by_rows(group, wanted, told);
        told.unknown
            .push(format!("stack {} is {}: how many workers it has is known once a change of it went well", seen.stack_name, seen.status));
        return Ok(());
    };
    let (made, removed) = moves(present, wanted, told.leaving.len());
    let ask = async |count: u64| driver::need_of_more(session, &seen, PoolKind::Workers, count, 0).await;
    let (coming, going) = futures::try_join!(ask(made), ask(removed))?;
    coming.things().into_iter().for_each(|(thing, count)| told.makes(thing, count));
    going.things().into_iter().for_each(|(thing, count)| told.removes(thing, count));
    if removed > told.leaving.len() as u64 {
        told.notes.push("Heat chooses which nodes go beside those that are named".into());
    }
    if let Some((more, then)) = resize::growth(&seen, wanted) {
        let need = driver::need_of_more(session, &seen, PoolKind::Workers, more, then).await?;
        quotas(session, &[&need], told).await;
    }
    if let Some(template) = &intent.template
        && resize::growth(&seen, wanted).is_some()
    {
        let nodes = u64::try_from(wanted).unwrap_or(0) + others(&intent.groups, group);
        told.obstacles.extend(driver::too_many(&intent.cluster, template, &seen, nodes));
    }
    Ok(())
}

/// The nodes of all other groups, as they are when it is this request's turn: of one that could not be made there are none, and none are left of one that
/// is being deleted.
fn others(groups: &[Nodegroup], group: &Nodegroup) -> u64 {
    let was_made = |other: &Nodegroup| other.is_default() || other.stack_id.is_some() || !has_failed(other);
    let is_there = |other: &&Nodegroup| other.uuid != group.uuid && was_made(other) && other.status() != Some(Status::DeleteInProgress);
    groups.iter().filter(is_there).map(|other| u64::try_from(other.node_count()).unwrap_or(0)).sum()
}

fn has_failed(group: &Nodegroup) -> bool {
    group.status().is_some_and(Status::is_failed)
}

/// Workers that are made and removed. One that is named goes, also where another comes in its place.
fn moves(present: i32, wanted: i32, named: usize) -> (u64, u64) {
    let removed = u64::try_from(present - wanted).unwrap_or(0).max(named as u64);
    let made = i64::from(wanted) - i64::from(present) + i64::try_from(removed).unwrap_or(i64::MAX);
    (u64::try_from(made).unwrap_or(0), removed)
}

/// Servers alone, where the stack does not tell more.
fn by_rows(group: &Nodegroup, wanted: i32, told: &mut Forecast) {
    let (made, removed) = moves(group.node_count(), wanted, 0);
    told.makes(Thing::Server, made);
    told.removes(Thing::Server, removed);
}

fn leaving_of(group: &Nodegroup, numbers: &[String], members: &[Member]) -> Vec<Leaving> {
    let member = |number: &&String| members.iter().find(|member| member.number == **number);
    let leaving =
        |member: &Member| Leaving { nodegroup: group.name.clone(), number: member.number.clone(), server_id: member.server_id.clone() };
    numbers.iter().filter_map(|number| member(&number)).map(leaving).collect()
}

/// The stack, where something can be asked of it now.
fn at_rest(step: UpdateStep, group: &Nodegroup, told: &mut Forecast) -> Option<Seen> {
    match step {
        UpdateStep::Finish(seen) | UpdateStep::Send(seen) | UpdateStep::WaitForBeginning(seen) => return Some(seen),
        UpdateStep::Make if group.is_default() => told.obstacles.push("the cluster's stack is gone".into()),
        UpdateStep::Make => {
            told.unknown.push(format!("nodegroup {} has no stack: it would be made with all its nodes, which are not counted", group.name));
        }
        UpdateStep::Wait(seen) => {
            told.unknown.push(format!("stack {} is {}: what it takes is known once it is at rest", seen.stack_name, seen.status));
        }
        UpdateStep::Fail { reason, .. } => told.obstacles.push(reason),
    }
    None
}

async fn replace_all(settings: &Settings, intent: &Intent, session: Option<&Session>, told: &mut Forecast) -> Result<(), Failure> {
    let group = concerned(&intent.groups, &intent.payload)?;
    let masters = intent.groups.iter().find(|other| group.is_default() && other.is_default() && other.is_master());
    let batch = u64::try_from(intent.payload.max_batch_size.unwrap_or(1)).unwrap_or(1).max(1);
    let pools = masters.map(|masters| (PoolKind::Masters, masters, 1)).into_iter().chain([(PoolKind::Workers, group, batch)]);
    let pools: Vec<_> = pools.collect();
    let replaced = |nodes: &dyn Fn(PoolKind, &Nodegroup) -> i32| -> Vec<Replacement> {
        let one = |(kind, group, at_once): &(PoolKind, &Nodegroup, u64)| Replacement {
            nodegroup: group.name.clone(),
            nodes: u64::try_from(nodes(*kind, group)).unwrap_or(0),
            at_once: Some(*at_once),
        };
        pools.iter().map(one).collect()
    };
    told.replaced = replaced(&|_, group| group.node_count());
    told.notes.push(FIRST_BOOT.into());
    let Some(session) = session else {
        told.unknown.push(FOREIGN.into());
        return Ok(());
    };
    let observed = driver::observe(&Handle::of_group(&intent.cluster, group), session).await?;
    let Some(seen) = at_rest(plan::change(observed, false, None), group, told) else { return Ok(()) };
    if pools.iter().any(|(kind, ..)| kind.of(&seen).is_none()) {
        return Err(Failure::fail(OutcomeCode::User, format!("the nodes of stack {} cannot be replaced", seen.stack_name)));
    }
    told.obstacles.extend(refusal(settings, intent, (group, masters), session, &seen).await?);
    told.replaced = replaced(&|kind, group| kind.of(&seen).map_or(group.node_count(), |pool| pool.count));
    // The new ones come before the old ones go.
    let needs = pools.iter().zip(&told.replaced).map(async |((kind, _, at_once), replaced)| {
        let more = (*at_once).min(replaced.nodes);
        driver::need_of_more(session, &seen, *kind, more, replaced.nodes + more).await
    });
    let needs = futures::future::try_join_all(needs).await?;
    told.notes.push("the quotas are to have room for the nodes that come before others go".into());
    quotas(session, &needs.iter().collect::<Vec<_>>(), told).await;
    Ok(())
}

/// Why the driver would not begin an upgrade, if it would not: nodes cannot be made of what the new template says, or their version may not follow the
/// present one, nor be beside that of other groups.
async fn refusal(
    settings: &Settings,
    intent: &Intent,
    (group, masters): (&Nodegroup, Option<&Nodegroup>),
    session: &Session,
    seen: &Seen,
) -> Result<Option<String>, Failure> {
    let Some(template) = &intent.wanted else { return Ok(Some("the template of the upgrade is gone".into())) };
    let rows = (&intent.cluster, &intent.groups[..]);
    let (cluster, groups) = upgrade::rows_after(rows, group, (intent.template.as_ref(), template), false);
    let target = Target { cluster: &cluster, groups: &groups, nodes: &intent.nodes, template, session };
    let then = |group: &Nodegroup| groups.iter().find(|other| other.uuid == group.uuid);
    let pools = masters.and_then(then).map(|group| (PoolKind::Masters, group)).into_iter();
    let looked = async {
        let mut wanted = None;
        for pool in pools.chain(then(group).map(|group| (PoolKind::Workers, group))) {
            wanted = Some(driver::version_of_nodes(settings, &target, pool, seen).await?);
        }
        // All of them are to run one version, and whoever asks waits: the stacks of the other groups are looked at once.
        match wanted {
            Some(wanted) => upgrade::check_versions((&intent.cluster, &intent.groups), (group, seen), session, &wanted).await,
            None => Ok(()),
        }
    };
    match looked.await {
        Ok(()) => Ok(None),
        Err(Failure::Final { reason, error: None, .. }) => Ok(Some(reason)),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_other_groups_are_those_that_are_there_when_it_is_this_requests_turn() {
        let group = |uuid: &str, stack_id: Option<&str>, status: Status| Nodegroup {
            uuid: uuid.into(),
            node_count: Some(10),
            stack_id: stack_id.map(Into::into),
            status: Some(status.as_str().into()),
            ..Nodegroup::default()
        };
        let this = group("this", Some("s"), Status::UpdateInProgress);
        for (other, nodes) in [
            (group("there", Some("s"), Status::UpdateFailed), 10),
            (group("waits", None, Status::CreateInProgress), 10),
            (group("was never made", None, Status::CreateFailed), 0),
            (group("is going", Some("s"), Status::DeleteInProgress), 0),
            (group("did not go", Some("s"), Status::DeleteFailed), 10),
        ] {
            let uuid = other.uuid.clone();
            assert_eq!(others(&[this.clone(), other], &this), nodes, "{uuid}");
        }
    }

    #[test]
    fn who_is_named_goes_and_the_rest_is_made_up() {
        for (present, wanted, named, moved) in [
            (3, 5, 0, (2, 0)),
            (3, 1, 0, (0, 2)),
            (3, 1, 1, (0, 2)),
            (3, 3, 1, (1, 1)),
            (3, 4, 2, (3, 2)),
            (3, 2, 2, (1, 2)),
            (0, 0, 0, (0, 0)),
        ] {
            assert_eq!(moves(present, wanted, named), moved, "{present} to {wanted}, {named} named");
        }
    }
}
