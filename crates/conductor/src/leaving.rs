//! What Kubernetes itself made in the cloud for a cluster, and the telling of all that is removed with it.
//!
//! Before the stack goes: load balancers, whose ports would keep its network from going (and those of a stack that upstream's driver made, which
//! Heat itself does not always get rid of), and their floating IPs. After it, when no server
//! holds them any more: volumes, where the cluster's label says so. What is found is recorded in the inventory before anything is removed,
//! and each removal is recorded just before it is asked for, so that all of it can be cut off anywhere and repeated.

mod ledger;
mod listed;
mod recognise;
mod report;
mod round;
mod unclear;
mod unseen;

use model::operation::{Leak, OperationEvent, OperationKind, OutcomeCode};
use model::resource::{CloudResource, ResourceKind};
use provider_clients::{FloatingIp, LoadBalancer, Volume};

use crate::cluster::Rows;
use crate::context::Context;
use crate::credentials::Reach;
use crate::outcome::{Failure, Turn};
use crate::stack;
use crate::worker::Work;

use ledger::{Tried, forget, forget_gone, intend, mark, record, tell};
use listed::{LABEL_KEEPS, Seen, judge_addresses, judge_balancers, judge_volumes, list_balancers, list_volumes, removes_volumes};
use report::FOUND_GONE;

pub(crate) use ledger::{about_to_remove, left, tell_gone};
pub(crate) use report::{REMOVE, REPORT, leak, report};
pub(crate) use unclear::may_appear;
pub(crate) use unseen::{kept_before, volumes_are_unseen};

/// The event of load balancers and floating IPs that were found.
const FOUND: &str = "load_balancers_found";
/// The event of having nothing left to do about them but to wait: `[cluster] pre_delete_lb_timeout` counts from it, once for each look at them.
const AWAITED: &str = "load_balancers_awaited";
/// The event of their being gone.
const BALANCERS_GONE: &str = "load_balancers_gone";
/// The event of volumes being gone.
const VOLUMES_GONE: &str = "volumes_gone";

/// Characters of a thing's own name in the inventory at most.
const NAME: usize = 150;

/// A thing to be removed.
struct Item {
    kind: ResourceKind,
    /// Its name in the inventory.
    name: String,
    id: String,
    status: String,
}

impl Item {
    fn new(kind: ResourceKind, name: &str, id: &str, status: &str) -> Self {
        // Names need not be unique in the cloud; in the inventory they must be.
        let name = format!("{} ({id})", name.chars().take(NAME).collect::<String>());
        Self { kind, name, id: id.to_owned(), status: status.to_owned() }
    }

    fn of_balancer(balancer: &LoadBalancer) -> Self {
        Self::new(ResourceKind::LoadBalancer, &balancer.name, &balancer.id, &balancer.provisioning_status)
    }

    fn of_address(address: &FloatingIp) -> Self {
        Self::new(ResourceKind::FloatingIp, &address.floating_ip_address, &address.id, &address.status)
    }

    fn of_volume(volume: &Volume) -> Self {
        Self::new(ResourceKind::Volume, &volume.name, &volume.id, &volume.status)
    }

    fn leak(&self, reason: &str) -> Leak {
        leak(self.kind, &self.name, Some(self.id.clone()), reason)
    }

    fn text(&self) -> String {
        format!("{} {}", self.name, self.status)
    }
}

/// Whether load balancers are to be looked for: at first, and once more after each request to delete the cluster's stack, which Kubernetes
/// may have overtaken.
pub(crate) fn are_balancers_due(events: &[OperationEvent]) -> bool {
    let (looked, asked) = looks(events);
    looked <= asked
}

/// Whether load balancers are to be looked for once more since the cluster's stack is gone: as long as its last server ran, Kubernetes may have made
/// some, and on a network that was given they keep no stack from going. That is so until volumes were looked for, which comes next; once is enough.
pub(crate) fn are_balancers_due_again(events: &[OperationEvent], rows: &Rows) -> bool {
    let is_gone = || !rows.stack().may_exist && rows.made_inside(ResourceKind::Volume).any(CloudResource::is_unseen);
    let (looked, asked) = looks(events);
    looked < asked + 2 && is_gone()
}

/// How often load balancers were found gone, and how often stacks were asked to go.
fn looks(events: &[OperationEvent]) -> (usize, usize) {
    let count = |is_one: &dyn Fn(&str) -> bool| events.iter().filter(|e| is_one(&e.kind)).count();
    (count(&|kind| kind == BALANCERS_GONE), count(&stack::is_request_to_delete))
}

/// Whether volumes are to be looked for once the stack is gone. That it is gone since a deletion before this one, which has not looked, is recorded
/// among the volumes (`unseen.rs`).
pub(crate) fn are_volumes_due(events: &[OperationEvent], rows: &Rows) -> bool {
    let has = |kind| events.iter().any(|e| e.kind == kind);
    let may_have_made = || rows.stack().may_exist || rows.made_inside(ResourceKind::Volume).next().is_some();
    !has(VOLUMES_GONE) && (has(BALANCERS_GONE) || may_have_made())
}

/// One step of removing load balancers, then floating IPs; none once they are gone.
pub(crate) async fn load_balancers(cx: &Context, work: &Work, rows: &Rows, reach: &Reach) -> Result<Option<Turn>, Failure> {
    let events = stack::events(cx, work).await?;
    let tried = Tried::of(&events);
    let (session, listed) = list_balancers(cx, rows, reach).await?;
    let (balancers, ports) = judge_balancers(rows, reach, &listed).await?;
    let (addresses, leads) = judge_addresses(rows, reach, &ports).await?;
    let mut fresh: Vec<&Item> = balancers.ours.iter().chain(&addresses.ours).collect();
    // Before the stack goes, so that whoever takes over knows of them when nothing else is left. What Cinder refuses, and by force whatever it
    // says, keeps no load balancer: the step for volumes will tell.
    let may_wait = work.operation.kind() == Some(OperationKind::ClusterDelete);
    let volumes = match removes_volumes(&rows.cluster) {
        true => match list_volumes(rows, reach).await {
            Ok(listed) => judge_volumes(&rows.cluster, &listed),
            Err(error @ Failure::Retry { .. }) if may_wait => return Err(error),
            Err(_) => Seen::default(),
        },
        false => Seen::default(),
    };
    fresh.extend(&volumes.ours);
    let kept: Vec<&Leak> = balancers.kept.iter().chain(&addresses.kept).collect();
    record(cx, work, rows, &events, &fresh, &kept).await?;
    forget_gone(cx, work, rows, &tried, ResourceKind::LoadBalancer, &balancers.ids).await?;

    let mut round = round::round(cx, work, &rows.cluster, &tried, &session, &balancers.ours).await?;
    if !round.waiting.is_empty() {
        match wait(cx, work, rows, &events, &round.waiting, round.asks_first).await {
            Ok(turn) => return Ok(Some(turn)),
            Err(over @ Failure::Final { .. }) => round.failed = Some(over),
            Err(other) => return Err(other),
        }
    }
    forget_gone(cx, work, rows, &tried, ResourceKind::FloatingIp, &addresses.ids).await?;
    // What is there still is reached by its address.
    let is_used = |address: &&Item| leads.get(&address.id).is_some_and(|balancer| round.there().any(|item| item.id == *balancer));
    for item in addresses.ours.iter().filter(|address| !is_used(address)) {
        intend(cx, work, &rows.cluster, item).await?;
        let was_there = reach.session.neutron().delete_floating_ip(&item.id).await?;
        forget(cx, work, &rows.cluster, item, (!was_there).then_some(FOUND_GONE)).await?;
    }
    if let Some(failed) = round.failed {
        return Err(failed);
    }
    mark(cx, work, &rows.cluster, "load balancers gone", BALANCERS_GONE).await?;
    Ok(None)
}

/// One step of removing volumes, or of saying which are kept; none once that is done. The stack is gone.
pub(crate) async fn volumes(cx: &Context, work: &Work, rows: &Rows, reach: &Reach) -> Result<Option<Turn>, Failure> {
    let events = stack::events(cx, work).await?;
    let tried = Tried::of(&events);
    let is_wanted = removes_volumes(&rows.cluster);
    let (seen, are_known) = match list_volumes(rows, reach).await {
        Ok(listed) => (judge_volumes(&rows.cluster, &listed), true),
        // None was to be removed: what there is cannot be told, and that is all.
        Err(Failure::Final { reason, .. } | Failure::Retry { reason, .. }) if !is_wanted => {
            let unknown = leak(ResourceKind::Volume, "not known", None, &format!("it cannot be told which volumes are left: {reason}"));
            (Seen { kept: vec![unknown], ..Seen::default() }, false)
        }
        Err(error) => return Err(error),
    };
    let (ours, mut kept) = match is_wanted {
        true => (seen.ours, seen.kept),
        false => (Vec::new(), seen.ours.iter().map(|item| item.leak(LABEL_KEEPS)).chain(seen.kept).collect()),
    };
    kept.sort_by(|a, b| a.name.cmp(&b.name));
    record(cx, work, rows, &events, &ours.iter().collect::<Vec<_>>(), &kept.iter().collect::<Vec<_>>()).await?;
    // Those that there are stand in the inventory now.
    unseen::looked(cx, work, rows, are_known).await?;
    if is_wanted {
        forget_gone(cx, work, rows, &tried, ResourceKind::Volume, &seen.ids).await?;
    }
    let round = round::round(cx, work, &rows.cluster, &tried, &reach.session, &ours).await?;
    if !round.waiting.is_empty() {
        tell(cx, work, &rows.cluster, "volumes", format!("volumes that Kubernetes made: {}", few(&round.waiting)), None).await?;
        return Ok(Some(Turn::Again { after: cx.settings.timing.poll_min }));
    }
    if let Some(failed) = round.failed {
        return Err(failed);
    }
    mark(cx, work, &rows.cluster, "volumes gone", VOLUMES_GONE).await?;
    Ok(None)
}

/// Waits for load balancers, for `[cluster] pre_delete_lb_timeout` at most. That counts from the last turn that asked for one for the first time, or
/// else from the first of this look: before it, Octavia or all conductors may have been away, and an earlier look waited for others.
async fn wait(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    events: &[OperationEvent],
    waiting: &[&Item],
    asks_first: bool,
) -> Result<Turn, Failure> {
    let longest = cx.settings.load_balancer_timeout;
    let began = began_to_wait(events, waiting).filter(|_| !asks_first);
    if began.is_some_and(|event| stack::age(stack::at(event)) >= longest) {
        let text = format!("octavia: load balancers were not gone within {} seconds: {}", longest.as_secs(), few(waiting));
        return Err(Failure::fail(OutcomeCode::Timeout, text));
    }
    let begins = began.is_none().then_some(AWAITED);
    tell(cx, work, &rows.cluster, "load balancers", format!("load balancers: {}", few(waiting)), begins).await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_min })
}

/// The event of the wait that is under way: an earlier look has ended when its load balancers were gone, and what was asked for the first time
/// since has its own time, also where whoever asked has not come to say that he waits.
fn began_to_wait<'a>(events: &'a [OperationEvent], waiting: &[&Item]) -> Option<&'a OperationEvent> {
    let look = events.iter().rposition(|e| e.kind == BALANCERS_GONE).map_or(0, |gone| gone + 1);
    let place = look + events[look..].iter().rposition(|e| e.kind == AWAITED)?;
    let (before, now) = (Tried::of(&events[..place]), Tried::of(events));
    let is_asked_since = waiting.iter().any(|item| before.times(item) == 0 && now.times(item) > 0);
    (!is_asked_since).then(|| &events[place])
}

/// A few of many, in words.
fn few(items: &[&Item]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = items.iter().take(SHOWN).map(|item| item.text()).collect();
    let more = if items.len() > SHOWN { format!(" and {} more", items.len() - SHOWN) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use model::operation::{EventDetails, Thing};

    use super::*;
    use crate::stack::tests::event;

    #[test]
    fn each_look_at_load_balancers_waits_for_its_own() {
        let asked = |id: &str| {
            let details = EventDetails {
                thing: Some(Thing { kind: "octavia_load_balancer".into(), name: id.into(), id: Some(id.into()) }),
                ..EventDetails::default()
            };
            OperationEvent { details: Some(details.column()), ..event(REMOVE, "") }
        };
        let told = |kind: &str| event(kind, "");
        let item = Item::new(ResourceKind::LoadBalancer, "web", "lb", "PENDING_DELETE");
        let place = |events: &[OperationEvent]| {
            began_to_wait(events, &[&item]).and_then(|found| events.iter().position(|event| std::ptr::eq(event, found)))
        };
        // What was found or asked to go does not begin it: the service may have been away since.
        assert_eq!(place(&[told(FOUND), asked("lb")]), None);
        assert_eq!(place(&[told(FOUND), asked("lb"), told(AWAITED), asked("lb")]), Some(2));
        assert_eq!(place(&[told(FOUND), asked("lb"), told(AWAITED), told(BALANCERS_GONE), told(FOUND)]), None);
        assert_eq!(place(&[told(AWAITED), told(BALANCERS_GONE), asked("lb"), told(AWAITED)]), Some(3));
        // It was changed by somebody else at first, and asked to go when that was over.
        assert_eq!(place(&[told(AWAITED), asked("lb")]), None);
        assert_eq!(place(&[told(AWAITED), asked("other")]), Some(0));
    }
}
