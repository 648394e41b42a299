//! Whether the project has room for what an operation adds, asked of the cloud's quotas before anything moves: else it would come to an end half
//! way, and what was made by then would have to go again.
//!
//! It promises nothing, and only says no where the cloud would: what it cannot tell, it lets pass. Only what grows is counted, not the few
//! nodes more that there are while others are replaced.

use std::collections::BTreeMap;
use std::future::Future;

use futures::future::join_all;
use model::operation::{OperationEvent, OutcomeCode, Progress};
use provider_clients::{CloudError, ComputeLimits, Flavor, Limit, NetworkLimits, Session, VolumeLimits};

use crate::context::Context;
use crate::outcome::{Failure, Turn};
use crate::stack;
use crate::worker::Work;

/// The event of having found no room for the first time; its text is what is short.
const SHORT: &str = "quota_short";

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
    fn count(&self) -> u64 {
        self.nodes.iter().map(|(count, _)| count).sum()
    }
}

/// What the services tell; none where one does not.
#[derive(Default)]
struct Told {
    compute: Option<ComputeLimits>,
    /// How many nodes of which flavor; none where one of them is not found: that is told where it is needed.
    flavors: Option<Vec<(u64, Flavor)>>,
    volumes: Option<VolumeLimits>,
    network: Option<NetworkLimits>,
    load_balancers: Option<Limit>,
}

/// What is short, if anything is. `flavors`: all that there are, where they have been looked up already.
pub(crate) async fn short(session: &Session, need: &Need, flavors: Option<Vec<Flavor>>) -> Option<String> {
    let (nova, cinder, neutron, octavia) = (session.nova(), session.cinder(), session.neutron(), session.octavia());
    let project = told("Keystone", session.info().await).and_then(|info| info.project_id.clone());
    let project = project.as_deref();
    let uses_network = need.ports + need.networks + need.floating_ips + need.security_groups > 0;
    let (compute, flavors, volumes, network, load_balancers) = futures::join!(
        wanted(need.count() + need.server_groups > 0, "Nova", nova.limits()),
        of_flavors(session, &need.nodes, flavors),
        wanted(need.volumes > 0, "Cinder", cinder.limits()),
        async { wanted(uses_network, "Neutron", neutron.limits(project?)).await },
        async { wanted(need.load_balancers > 0, "Octavia", octavia.limit(project?)).await },
    );
    fits(need, &Told { compute, flavors, volumes, network, load_balancers }).err()
}

/// Waits a little for room: what was deleted just now counts until it is gone. `events`: the operation's; what was short before something was
/// asked of the cloud counts no more.
///
/// # Errors
/// What is short, when there was no room for a while.
pub(crate) async fn wait(cx: &Context, work: &Work, events: &[OperationEvent], short: String) -> Result<Turn, Failure> {
    let patience = 2 * cx.settings.timing.settle;
    let since_asked = events.iter().rev().take_while(|e| ![stack::MADE, stack::UPDATE].contains(&e.kind.as_str()));
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

async fn of_flavors(session: &Session, nodes: &[(u64, String)], known: Option<Vec<Flavor>>) -> Option<Vec<(u64, Flavor)>> {
    let nova = &session.nova();
    let all = match known {
        Some(flavors) => flavors,
        None => wanted(!nodes.is_empty(), "Nova", nova.flavors()).await?,
    };
    let mut counts: BTreeMap<&str, (u64, &Flavor)> = BTreeMap::new();
    for (count, name) in nodes {
        let flavor = Flavor::named(&all, name)?;
        counts.entry(&flavor.id).or_insert((0, flavor)).0 += count;
    }
    let counted = counts.into_values().map(async |(count, flavor)| {
        let specs = told("Nova", nova.extra_specs(&flavor.id).await);
        // With these Nova may count other resources than what the flavor says.
        let counts_otherwise = specs.is_none_or(|specs| specs.keys().any(|key| key.starts_with("resources") || key == "hw:cpu_policy"));
        (count, if counts_otherwise { Flavor { vcpus: 0, ram: 0, ..flavor.clone() } } else { flavor.clone() })
    });
    Some(join_all(counted).await)
}

/// Whether all of it fits; the error says what does not, and how much of it is left.
fn fits(need: &Need, told: &Told) -> Result<(), String> {
    let (compute, volumes, network) =
        (told.compute.unwrap_or_default(), told.volumes.unwrap_or_default(), told.network.unwrap_or_default());
    let sum = |of: fn(&Flavor) -> u64| told.flavors.iter().flatten().map(|(count, flavor)| count * of(flavor)).sum::<u64>();
    let wants = [
        (need.count(), ["instance", "instances"], compute.instances),
        (sum(|f| f.vcpus), ["core", "cores"], compute.cores),
        (sum(|f| f.ram), ["MiB of memory"; 2], compute.ram),
        (need.server_groups, ["server group", "server groups"], compute.server_groups),
        (need.server_group_members, ["member", "members of one server group"], compute.server_group_members),
        (need.volumes, ["volume", "volumes"], volumes.volumes),
        (need.gigabytes, ["GiB of volumes"; 2], volumes.gigabytes),
        (need.networks, ["network", "networks"], network.networks),
        (need.subnets, ["subnet", "subnets"], network.subnets),
        (need.routers, ["router", "routers"], network.routers),
        (need.ports, ["port", "ports"], network.ports),
        (need.floating_ips, ["floating IP", "floating IPs"], network.floating_ips),
        (need.security_groups, ["security group", "security groups"], network.security_groups),
        (need.security_group_rules, ["security group rule", "security group rules"], network.security_group_rules),
        (need.load_balancers, ["load balancer", "load balancers"], told.load_balancers.unwrap_or_default()),
    ];
    let short: Vec<String> = wants
        .into_iter()
        .filter_map(|(wanted, [one, many], limit)| {
            let left = limit.left().filter(|left| wanted > *left)?;
            let (what, is) = if wanted == 1 { (one, "is") } else { (many, "are") };
            // A group is never full of others.
            let rest = if many.contains("of one") { "can be".to_owned() } else { format!("{} left", if left == 1 { "is" } else { "are" }) };
            Some(format!("{wanted} {what} {is} needed and {left} {rest}"))
        })
        .collect();
    if short.is_empty() {
        return Ok(());
    }
    let added = match need.count() {
        0 => String::new(),
        1 => " for 1 more node".to_owned(),
        nodes => format!(" for {nodes} more nodes"),
    };
    Err(format!("the project's quotas have no room{added}: {}", short.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(most: Option<u64>, used: u64) -> Limit {
        Limit { most, used }
    }

    #[test]
    fn what_is_short_is_told_with_what_is_left() {
        let flavor = |ram, vcpus| Flavor { ram, vcpus, ..Flavor::default() };
        let need = Need { nodes: vec![(3, "small".into()), (1, "large".into())], ..Need::default() };
        let says = |instances, cores, ram| {
            let compute =
                ComputeLimits { instances: limit(instances, 2), cores: limit(cores, 4), ram: limit(ram, 0), ..ComputeLimits::default() };
            let flavors = Some(vec![(3, flavor(2048, 2)), (1, flavor(8192, 4))]);
            fits(&need, &Told { compute: Some(compute), flavors, ..Told::default() }).err().unwrap_or_default()
        };
        assert_eq!(says(Some(6), Some(14), Some(14_336)), "");
        assert_eq!(says(None, None, None), "");
        assert!(says(Some(5), None, None).ends_with("4 more nodes: 4 instances are needed and 3 are left"));
        let both = "10 cores are needed and 9 are left, 14336 MiB of memory are needed and 100 are left";
        assert!(says(None, Some(13), Some(100)).ends_with(both));
        // Lowered below what is used.
        assert!(says(Some(1), None, None).ends_with("and 0 are left"));
    }

    #[test]
    fn every_service_may_be_short_and_one_that_does_not_tell_is_not() {
        let need =
            Need { server_group_members: 11, gigabytes: 30, volumes: 3, ports: 5, floating_ips: 2, load_balancers: 1, ..Need::default() };
        assert_eq!(fits(&need, &Told::default()), Ok(()));
        let told = Told {
            compute: Some(ComputeLimits { server_group_members: limit(Some(10), 0), ..ComputeLimits::default() }),
            volumes: Some(VolumeLimits { volumes: limit(Some(3), 0), gigabytes: limit(Some(1000), 980) }),
            network: Some(NetworkLimits { ports: limit(Some(5), 0), floating_ips: limit(Some(1), 0), ..NetworkLimits::default() }),
            load_balancers: Some(limit(Some(0), 0)),
            ..Told::default()
        };
        let short = fits(&need, &told).expect_err("no room");
        let want = [
            "11 members of one server group are needed and 10 can be",
            "30 GiB of volumes are needed and 20 are left",
            "2 floating IPs are needed and 1 is left",
            "1 load balancer is needed and 0 are left",
        ];
        assert!(short.ends_with(&want.join(", ")), "{short}");
    }
}
