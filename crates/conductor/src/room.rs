//! Whether the project has room for what an operation adds, asked of the cloud's quotas before anything moves: else it would come to an end half
//! way, and what was made by then would have to go again.
//!
//! It promises nothing, and only says no where the cloud would: what it cannot tell, it lets pass. Only what grows is counted, not the few
//! nodes more that there are while others are replaced.

use std::collections::BTreeMap;
use std::future::Future;

use futures::future::join_all;
use model::forecast::{QuotaUse, Thing};
use model::operation::{OperationEvent, OutcomeCode, Progress};
use provider_clients::{CloudError, ComputeLimits, Flavor, Limit, NetworkLimits, Session, VolumeLimits};

use crate::context::Context;
use crate::outcome::{Failure, Turn};
use crate::stack;
use crate::worker::Work;

/// The event of having found no room for the first time; its text is what is short.
const SHORT: &str = "quota_short";
/// The event of room after that, while there is nothing yet that takes it.
const FOUND: &str = "quota_found";

/// What is to be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// Nodes by their flavor's id or name.
    pub nodes: Vec<(u64, String)>,
    pub server_groups: u64,
    /// Of the largest of the new server groups.
    pub server_group_members: u64,
    pub volumes: u64,
    /// GiB of all of them.
    pub gigabytes: u64,
    pub networks: u64,
    pub subnets: u64,
    pub routers: u64,
    pub ports: u64,
    pub floating_ips: u64,
    pub security_groups: u64,
    pub security_group_rules: u64,
    pub load_balancers: u64,
}

impl Need {
    /// Nodes in all.
    pub fn count(&self) -> u64 {
        self.nodes.iter().map(|(count, _)| count).sum()
    }

    /// The things that are counted, by their kinds.
    pub fn things(&self) -> [(Thing, u64); 11] {
        [
            (Thing::Server, self.count()),
            (Thing::ServerGroup, self.server_groups),
            (Thing::Volume, self.volumes),
            (Thing::Network, self.networks),
            (Thing::Subnet, self.subnets),
            (Thing::Router, self.routers),
            (Thing::Port, self.ports),
            (Thing::FloatingIp, self.floating_ips),
            (Thing::SecurityGroup, self.security_groups),
            (Thing::SecurityGroupRule, self.security_group_rules),
            (Thing::LoadBalancer, self.load_balancers),
        ]
    }

    fn uses_network(&self) -> bool {
        self.ports + self.networks + self.floating_ips + self.security_groups > 0
    }
}

/// What the services tell; none where one does not.
#[derive(Default)]
struct Told {
    compute: Option<ComputeLimits>,
    volumes: Option<VolumeLimits>,
    network: Option<NetworkLimits>,
    load_balancers: Option<Limit>,
}

/// Nodes of one flavor.
struct Weighed {
    count: u64,
    flavor: Flavor,
    /// Whether Nova counts what the flavor says.
    is_plain: bool,
}

/// Something that a service counts, how much of it is to be added, and what there may be.
#[derive(Debug)]
pub(crate) struct Counted {
    service: &'static str,
    resource: &'static str,
    /// One of it, and several, in words.
    words: [&'static str; 2],
    /// At least so much.
    needed: u64,
    /// Whether it is no more.
    is_exact: bool,
    /// None where the service does not tell.
    limit: Option<Limit>,
}

impl Counted {
    /// What is left, where it is too little.
    fn left_of_too_little(&self) -> Option<u64> {
        self.limit?.left().filter(|left| self.needed > *left)
    }

    /// As it is told before anything is begun.
    pub fn quota_use(&self) -> QuotaUse {
        let limit = self.limit.and_then(|limit| limit.most);
        QuotaUse {
            service: self.service,
            resource: self.resource,
            needed: self.is_exact.then_some(self.needed),
            is_told: self.limit.is_some(),
            limit,
            // Where there is no limit, some services do not count.
            used: limit.and(self.limit).map(|limit| limit.used),
            is_short: self.left_of_too_little().is_some(),
        }
    }
}

/// What is short, if anything is. `flavors`: all that there are, where they have been looked up already.
pub(crate) async fn short(session: &Session, need: &Need, flavors: Option<Vec<Flavor>>) -> Option<String> {
    missing(need.count(), &look(session, &[need], flavors).await)
}

/// Asks the services what of all this the project may have. Of several needs, of which one comes behind the other, the largest counts.
pub(crate) async fn look(session: &Session, needs: &[&Need], flavors: Option<Vec<Flavor>>) -> Vec<Counted> {
    let (nova, cinder, neutron, octavia) = (session.nova(), session.cinder(), session.neutron(), session.octavia());
    let project = told("Keystone", session.info().await).and_then(|info| info.project_id.clone());
    let project = project.as_deref();
    let any = |wants: fn(&Need) -> bool| needs.iter().any(|need| wants(need));
    let flavors = async {
        match flavors {
            Some(flavors) => Some(flavors),
            None => wanted(any(|need| !need.nodes.is_empty()), "Nova", nova.flavors()).await,
        }
    };
    let weighed = async {
        let flavors = flavors.await;
        join_all(needs.iter().map(|need| weigh(session, &need.nodes, flavors.as_deref()))).await
    };
    // Each on the heap: this is asked deep inside a turn, whose thread has a stack of a few MiB.
    let (compute, weighed, volumes, network, load_balancers) = futures::join!(
        Box::pin(wanted(any(|need| need.count() + need.server_groups > 0), "Nova", nova.limits())),
        Box::pin(weighed),
        Box::pin(wanted(any(|need| need.volumes > 0), "Cinder", cinder.limits())),
        Box::pin(async { wanted(any(Need::uses_network), "Neutron", neutron.limits(project?)).await }),
        Box::pin(async { wanted(any(|need| need.load_balancers > 0), "Octavia", octavia.limit(project?)).await }),
    );
    let told = Told { compute, volumes, network, load_balancers };
    largest(needs.iter().zip(&weighed).map(|(need, weighed)| counted(need, weighed.as_deref(), &told)))
}

/// The largest of each, without what nobody needs.
fn largest(all: impl Iterator<Item = Vec<Counted>>) -> Vec<Counted> {
    let mut most: Vec<Counted> = Vec::new();
    for counted in all.flatten().filter(|counted| counted.needed > 0 || !counted.is_exact) {
        match most.iter_mut().find(|other| (other.service, other.resource) == (counted.service, counted.resource)) {
            Some(other) => {
                other.needed = other.needed.max(counted.needed);
                other.is_exact &= counted.is_exact;
            }
            None => most.push(counted),
        }
    }
    most
}

/// Waits a little for room: what was deleted just now counts until it is gone. `events`: the operation's; what was short before something was
/// asked of the cloud counts no more, nor what was before [`found`].
///
/// # Errors
/// What is short, when there was no room for a while.
pub(crate) async fn wait(cx: &Context, work: &Work, events: &[OperationEvent], short: String) -> Result<Turn, Failure> {
    let patience = 2 * cx.settings.timing.settle;
    let since_asked = events.iter().rev().take_while(|e| ![stack::MADE, stack::UPDATE, FOUND].contains(&e.kind.as_str()));
    let since = since_asked.filter(|e| e.kind == SHORT).last().map(|e| stack::age(stack::at(e)));
    if since.is_some_and(|since| since >= patience) {
        return Err(Failure::fail(OutcomeCode::Quota, short));
    }
    if since.is_none() {
        let progress = Progress { step: "quota", waiting_for: Some(short.clone()), ..Progress::default() };
        stack::record(cx, work, &progress, &[(SHORT, &short)]).await?;
    }
    Ok(Turn::Again { after: patience / 10 })
}

/// Records that there is room after all, where there was none at first: who finds none later waits again.
pub(crate) async fn found(cx: &Context, work: &Work) -> Result<(), Failure> {
    let told = stack::events_of(cx, &work.operation.operation_id(), &[SHORT, FOUND]).await?;
    if told.last().is_some_and(|last| last.kind == SHORT) {
        let progress = Progress { step: "quota", ..Progress::default() };
        stack::record(cx, work, &progress, &[(FOUND, "the project has room now")]).await?;
    }
    Ok(())
}

async fn wanted<T>(is_wanted: bool, service: &str, ask: impl Future<Output = Result<T, CloudError>>) -> Option<T> {
    if is_wanted { told(service, ask.await) } else { None }
}

/// None where the service does not tell: it says no itself then. Some clouds tell quotas to few.
fn told<T>(service: &str, answer: Result<T, CloudError>) -> Option<T> {
    let error = match answer {
        Ok(told) => return Some(told),
        Err(error) => error,
    };
    match error.status() {
        Some(403 | 404) => tracing::debug!(%error, "{service} does not tell what the project may have"),
        _ => tracing::warn!(%error, "{service} does not tell what the project may have; whether there is room shows later"),
    }
    None
}

/// None where one of the flavors is not found: that is told where it is needed.
async fn weigh(session: &Session, nodes: &[(u64, String)], flavors: Option<&[Flavor]>) -> Option<Vec<Weighed>> {
    if nodes.is_empty() {
        return Some(Vec::new());
    }
    let mut counts: BTreeMap<&str, (u64, &Flavor)> = BTreeMap::new();
    for (count, name) in nodes {
        let flavor = Flavor::named(flavors?, name)?;
        counts.entry(&flavor.id).or_insert((0, flavor)).0 += count;
    }
    let nova = &session.nova();
    let weighed = counts.into_values().map(async |(count, flavor)| {
        let specs = told("Nova", nova.extra_specs(&flavor.id).await);
        // With these Nova may count other resources than what the flavor says.
        let counts_otherwise = specs.is_none_or(|specs| specs.keys().any(|key| key.starts_with("resources") || key == "hw:cpu_policy"));
        Weighed { count, flavor: flavor.clone(), is_plain: !counts_otherwise }
    });
    Some(join_all(weighed).await)
}

/// All that services count, in the order in which it is told.
fn counted(need: &Need, weighed: Option<&[Weighed]>, told: &Told) -> Vec<Counted> {
    let plain = || weighed.into_iter().flatten().filter(|w| w.is_plain);
    let sum = |of: fn(&Flavor) -> u64| plain().map(|w| w.count * of(&w.flavor)).sum::<u64>();
    let is_weighed = weighed.is_some_and(|all| all.iter().all(|w| w.is_plain));
    let (compute, volumes, network) = (told.compute, told.volumes, told.network);
    let compute = |of: fn(ComputeLimits) -> Limit| compute.map(of);
    let volumes = |of: fn(VolumeLimits) -> Limit| volumes.map(of);
    let network = |of: fn(NetworkLimits) -> Limit| network.map(of);
    [
        ("nova", "instances", need.count(), ["instance", "instances"], compute(|c| c.instances)),
        ("nova", "cores", sum(|f| f.vcpus), ["core", "cores"], compute(|c| c.cores)),
        ("nova", "ram", sum(|f| f.ram), ["MiB of memory"; 2], compute(|c| c.ram)),
        ("nova", "server_groups", need.server_groups, ["server group", "server groups"], compute(|c| c.server_groups)),
        (
            "nova",
            "server_group_members",
            need.server_group_members,
            ["member", "members of one server group"],
            compute(|c| c.server_group_members),
        ),
        ("cinder", "volumes", need.volumes, ["volume", "volumes"], volumes(|v| v.volumes)),
        ("cinder", "gigabytes", need.gigabytes, ["GiB of volumes"; 2], volumes(|v| v.gigabytes)),
        ("neutron", "networks", need.networks, ["network", "networks"], network(|n| n.networks)),
        ("neutron", "subnets", need.subnets, ["subnet", "subnets"], network(|n| n.subnets)),
        ("neutron", "routers", need.routers, ["router", "routers"], network(|n| n.routers)),
        ("neutron", "ports", need.ports, ["port", "ports"], network(|n| n.ports)),
        ("neutron", "floating_ips", need.floating_ips, ["floating IP", "floating IPs"], network(|n| n.floating_ips)),
        ("neutron", "security_groups", need.security_groups, ["security group", "security groups"], network(|n| n.security_groups)),
        (
            "neutron",
            "security_group_rules",
            need.security_group_rules,
            ["security group rule", "security group rules"],
            network(|n| n.security_group_rules),
        ),
        ("octavia", "load_balancers", need.load_balancers, ["load balancer", "load balancers"], told.load_balancers),
    ]
    .map(|(service, resource, needed, words, limit)| {
        let is_exact = is_weighed || !["cores", "ram"].contains(&resource);
        Counted { service, resource, words, needed, is_exact, limit }
    })
    .into()
}

/// What does not fit, if anything does not, and how much of it is left.
pub(crate) fn missing(nodes: u64, counted: &[Counted]) -> Option<String> {
    let short: Vec<String> = counted
        .iter()
        .filter_map(|counted| {
            let left = counted.left_of_too_little()?;
            let ([one, many], wanted) = (counted.words, counted.needed);
            let (what, is) = if wanted == 1 { (one, "is") } else { (many, "are") };
            // A group is never full of others.
            let rest = if many.contains("of one") { "can be".to_owned() } else { format!("{} left", if left == 1 { "is" } else { "are" }) };
            Some(format!("{wanted} {what} {is} needed and {left} {rest}"))
        })
        .collect();
    if short.is_empty() {
        return None;
    }
    let added = match nodes {
        0 => String::new(),
        1 => " for 1 more node".to_owned(),
        nodes => format!(" for {nodes} more nodes"),
    };
    Some(format!("the project's quotas have no room{added}: {}", short.join(", ")))
}

#[cfg(test)]
mod tests;
