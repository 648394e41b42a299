//! What Kubernetes itself made in the cloud for a cluster, and the telling of all that is removed with it.
//!
//! Before the stack goes: load balancers, whose ports would keep its network from going (and those of a stack that upstream's driver made, which
//! Heat itself does not always get rid of), and their floating IPs. After it, when no server
//! holds them any more: volumes, where the cluster's label says so. What is found is recorded in the inventory before anything is removed,
//! and each removal is recorded just before it is asked for, so that all of it can be cut off anywhere and repeated.

mod ledger;
mod recognise;
mod report;
mod unclear;
mod unseen;

use std::collections::BTreeSet;

use model::cluster::Cluster;
use model::json::truth;
use model::labels::DELETE_VOLUMES;
use model::operation::{Leak, OperationEvent, OutcomeCode};
use model::resource::{CloudResource, ResourceKind};
use provider_clients::{CloudError, ErrorKind, FloatingIp, LoadBalancer, LoadBalancerFilter, NeutronFilter, Session, Volume};

use crate::cluster::Rows;
use crate::context::Context;
use crate::credentials::{self, Reach};
use crate::driver;
use crate::outcome::{Failure, Turn};
use crate::plan::{self, RemovalStep};
use crate::stack;
use crate::worker::Work;

use ledger::{Tried, forget, forget_gone, intend, mark, record, tell};
use recognise::{Names, Verdict, floating_ip, load_balancer, volume};
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

/// What was seen of one kind.
#[derive(Default)]
struct Seen {
    /// To be removed.
    ours: Vec<Item>,
    /// To be told, and left.
    kept: Vec<Leak>,
    /// Everything that is there, whoever it belongs to.
    ids: BTreeSet<String>,
}

/// Whether load balancers are to be looked for: at first, and once more after each request to delete the cluster's stack, which Kubernetes
/// may have overtaken.
pub(crate) fn are_balancers_due(events: &[OperationEvent]) -> bool {
    let looked = events.iter().filter(|e| e.kind == BALANCERS_GONE).count();
    looked <= events.iter().filter(|e| stack::is_request_to_delete(&e.kind)).count()
}

/// Whether volumes are to be looked for once the stack is gone. That it is gone since a deletion before this one, which has not looked, is recorded
/// among the volumes (`unseen.rs`).
pub(crate) fn are_volumes_due(events: &[OperationEvent], rows: &Rows) -> bool {
    let has = |kind| events.iter().any(|e| e.kind == kind);
    let may_have_made = || rows.stack().may_exist || rows.made_inside(ResourceKind::Volume).next().is_some();
    !has(VOLUMES_GONE) && (has(BALANCERS_GONE) || may_have_made())
}

/// Whether the deletion of the cluster removes volumes.
fn removes_volumes(cluster: &Cluster) -> bool {
    cluster.labels().0.get(DELETE_VOLUMES).and_then(|text| truth(text)).unwrap_or(false)
}

fn names(cluster: &Cluster) -> Names<'_> {
    Names { uuid: &cluster.uuid, name: cluster.name.as_deref().unwrap_or_default() }
}

/// One step of removing load balancers, then floating IPs; none once they are gone.
pub(crate) async fn load_balancers(cx: &Context, work: &Work, rows: &Rows, reach: &Reach) -> Result<Option<Turn>, Failure> {
    let events = stack::events(cx, work).await?;
    let tried = Tried::of(&events);
    let (session, balancers) = list_balancers(cx, rows, reach).await?;
    let balancers = judge_balancers(rows, reach, &balancers).await?;
    let addresses = judge_addresses(rows, reach, &balancers.1).await?;
    let balancers = balancers.0;
    let mut fresh: Vec<&Item> = balancers.ours.iter().chain(&addresses.ours).collect();
    // Before the stack goes, so that whoever takes over knows of them when nothing else is left.
    let volumes =
        if removes_volumes(&rows.cluster) { judge_volumes(&rows.cluster, &list_volumes(rows, reach).await?) } else { Seen::default() };
    fresh.extend(&volumes.ours);
    let kept: Vec<&Leak> = balancers.kept.iter().chain(&addresses.kept).collect();
    record(cx, work, rows, &events, &fresh, &kept).await?;
    forget_gone(cx, work, rows, &tried, ResourceKind::LoadBalancer, &balancers.ids).await?;

    let (mut waiting, mut asks_first) = (Vec::new(), false);
    for item in &balancers.ours {
        match plan::balancer(&item.status, tried.times(item)) {
            RemovalStep::Gone => forget(cx, work, &rows.cluster, item, None).await?,
            RemovalStep::Wait => waiting.push(item),
            RemovalStep::Fail => {
                let text = format!("octavia: load balancer {} could not be deleted: it is in {}", item.name, item.status);
                return Err(Failure::fail(OutcomeCode::Cloud, text));
            }
            RemovalStep::Remove => {
                intend(cx, work, &rows.cluster, item).await?;
                if session.octavia().delete_load_balancer(&item.id, true).await? {
                    asks_first |= tried.times(item) == 0;
                    waiting.push(item);
                } else {
                    forget(cx, work, &rows.cluster, item, Some(FOUND_GONE)).await?;
                }
            }
        }
    }
    if !waiting.is_empty() {
        return wait(cx, work, rows, &events, &waiting, asks_first).await.map(Some);
    }
    forget_gone(cx, work, rows, &tried, ResourceKind::FloatingIp, &addresses.ids).await?;
    for item in &addresses.ours {
        intend(cx, work, &rows.cluster, item).await?;
        let was_there = reach.session.neutron().delete_floating_ip(&item.id).await?;
        forget(cx, work, &rows.cluster, item, (!was_there).then_some(FOUND_GONE)).await?;
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
    let mut waiting = Vec::new();
    for item in &ours {
        match plan::volume(&item.status, tried.times(item)) {
            RemovalStep::Gone => forget(cx, work, &rows.cluster, item, None).await?,
            RemovalStep::Wait => waiting.push(item),
            RemovalStep::Fail => {
                let text = format!("cinder: volume {} could not be deleted: it is in {}", item.name, item.status);
                return Err(Failure::fail(OutcomeCode::Cloud, text));
            }
            RemovalStep::Remove => {
                intend(cx, work, &rows.cluster, item).await?;
                if reach.session.cinder().delete_volume(&item.id).await? {
                    waiting.push(item);
                } else {
                    forget(cx, work, &rows.cluster, item, Some(FOUND_GONE)).await?;
                }
            }
        }
    }
    if !waiting.is_empty() {
        tell(cx, work, &rows.cluster, "volumes", format!("volumes that Kubernetes made: {}", few(&waiting)), None).await?;
        return Ok(Some(Turn::Again { after: cx.settings.timing.poll_min }));
    }
    mark(cx, work, &rows.cluster, "volumes gone", VOLUMES_GONE).await?;
    Ok(None)
}

const LABEL_KEEPS: &str = "kept: the cluster's label delete_volumes is not true";
const SHARED: &str = "kept: another cluster uses it as well";
const NAMESAKE: &str = "kept: it says the cluster's name and not its uuid, which is no proof that it belongs to this cluster";

async fn list_balancers(cx: &Context, rows: &Rows, reach: &Reach) -> Result<(Session, Vec<LoadBalancer>), Failure> {
    let filter = LoadBalancerFilter { project_id: project(&rows.cluster), ..LoadBalancerFilter::default() };
    let session = reach.session.clone();
    match session.octavia().load_balancers(&filter).await {
        Ok(listed) => Ok((session, listed)),
        Err(error) if is_absent(&error) && rows.made_inside(ResourceKind::LoadBalancer).next().is_none() => Ok((session, Vec::new())),
        // The creator need not have the role that Octavia asks for.
        Err(error) if error.status() == Some(403) => match credentials::service(cx).await? {
            Some(service) => Ok((service.clone(), service.octavia().load_balancers(&filter).await?)),
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// What there is, and the ports of those that are to be removed.
async fn judge_balancers(rows: &Rows, reach: &Reach, listed: &[LoadBalancer]) -> Result<(Seen, BTreeSet<String>), Failure> {
    let mut seen = Seen { ids: listed.iter().map(|b| b.id.clone()).collect(), ..Seen::default() };
    let mut ports = BTreeSet::new();
    if listed.is_empty() {
        return Ok((seen, ports));
    }
    let own = driver::surroundings(&rows.stack().handle, &reach.session).await?;
    for balancer in listed {
        let item = Item::of_balancer(balancer);
        let is_ours = match load_balancer(balancer, names(&rows.cluster)) {
            _ if own.balancers.contains(&balancer.id) => true,
            Verdict::Ours => true,
            Verdict::Foreign => false,
            Verdict::Shared => {
                seen.kept.push(item.leak(SHARED));
                false
            }
            // On the subnet that the cluster's own stack made there is nobody else.
            Verdict::Namesake => {
                let is_inside = balancer.vip_subnet_id.as_ref().is_some_and(|id| own.subnets.contains(id));
                if !is_inside && !rows.is_recorded(ResourceKind::LoadBalancer, &balancer.id) {
                    seen.kept.push(item.leak(NAMESAKE));
                    continue;
                }
                true
            }
        };
        if is_ours {
            ports.extend(balancer.vip_port_id.clone());
            seen.ours.push(item);
        }
    }
    Ok((seen, ports))
}

async fn judge_addresses(rows: &Rows, reach: &Reach, ports: &BTreeSet<String>) -> Result<Seen, Failure> {
    let filter = NeutronFilter { project_id: project(&rows.cluster), ..NeutronFilter::default() };
    let listed = reach.session.neutron().floating_ips(&filter).await?;
    let mut seen = Seen { ids: listed.iter().map(|f| f.id.clone()).collect(), ..Seen::default() };
    for address in &listed {
        let item = Item::of_address(address);
        let leads_here = address.port_id.as_ref().is_some_and(|port| ports.contains(port));
        match floating_ip(address, names(&rows.cluster)) {
            Verdict::Ours => seen.ours.push(item),
            Verdict::Namesake if leads_here || rows.is_recorded(ResourceKind::FloatingIp, &address.id) => seen.ours.push(item),
            Verdict::Namesake => seen.kept.push(item.leak(NAMESAKE)),
            Verdict::Shared | Verdict::Foreign => {}
        }
    }
    Ok(seen)
}

async fn list_volumes(rows: &Rows, reach: &Reach) -> Result<Vec<Volume>, Failure> {
    // Of another project than the session's only an administrator may ask.
    let of = if reach.is_service { project(&rows.cluster) } else { None };
    match reach.session.cinder().volumes(of.as_deref()).await {
        Ok(listed) => Ok(listed),
        Err(error) if is_absent(&error) && rows.made_inside(ResourceKind::Volume).all(CloudResource::is_unseen) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn judge_volumes(cluster: &Cluster, listed: &[Volume]) -> Seen {
    let mut seen = Seen { ids: listed.iter().map(|v| v.id.clone()).collect(), ..Seen::default() };
    for listed in listed {
        match volume(listed, names(cluster)) {
            Verdict::Ours => seen.ours.push(Item::of_volume(listed)),
            Verdict::Namesake => seen.kept.push(Item::of_volume(listed).leak(NAMESAKE)),
            Verdict::Shared | Verdict::Foreign => {}
        }
    }
    seen
}

fn is_absent(error: &CloudError) -> bool {
    error.kind() == ErrorKind::NoEndpoint
}

fn project(cluster: &Cluster) -> Option<String> {
    Some(cluster.project().0).filter(|id| !id.is_empty())
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
