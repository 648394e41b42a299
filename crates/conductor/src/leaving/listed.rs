//! What there is in the cluster's project, and what of it goes with the cluster.

use std::collections::{BTreeMap, BTreeSet};

use model::cluster::Cluster;
use model::json::truth;
use model::labels::DELETE_VOLUMES;
use model::operation::Leak;
use model::resource::{CloudResource, ResourceKind};
use provider_clients::{CloudError, ErrorKind, LoadBalancer, LoadBalancerFilter, NeutronFilter, Session, Volume};

use super::Item;
use super::recognise::{Names, Verdict, floating_ip, load_balancer, volume};
use crate::cluster::Rows;
use crate::context::Context;
use crate::credentials::{self, Reach};
use crate::driver;
use crate::outcome::Failure;

/// What was seen of one kind.
#[derive(Default)]
pub(super) struct Seen {
    /// To be removed.
    pub ours: Vec<Item>,
    /// To be told, and left.
    pub kept: Vec<Leak>,
    /// Everything that is there, whoever it belongs to.
    pub ids: BTreeSet<String>,
}

/// The ports that load balancers have their addresses on.
#[derive(Default)]
pub(super) struct Ports {
    /// The load balancers that are to be removed, by their ports.
    ours: BTreeMap<String, String>,
    /// Of those that stay.
    others: BTreeSet<String>,
}

/// Whether the deletion of the cluster removes volumes.
pub(super) fn removes_volumes(cluster: &Cluster) -> bool {
    cluster.labels().0.get(DELETE_VOLUMES).and_then(|text| truth(text)).unwrap_or(false)
}

fn names(cluster: &Cluster) -> Names<'_> {
    Names { uuid: &cluster.uuid, name: cluster.name.as_deref().unwrap_or_default() }
}

pub(super) const LABEL_KEEPS: &str = "kept: the cluster's label delete_volumes is not true";
const SHARED: &str = "kept: another cluster uses it as well";
const USED: &str = "kept: Kubernetes uses it and has not made it";
const ELSEWHERE: &str = "kept: it leads to something that does not go with the cluster";
const NAMESAKE: &str = "kept: it says the cluster's name and not its uuid, which is no proof that it belongs to this cluster";

pub(super) async fn list_balancers(cx: &Context, rows: &Rows, reach: &Reach) -> Result<(Session, Vec<LoadBalancer>), Failure> {
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

/// What there is.
pub(super) async fn judge_balancers(rows: &Rows, reach: &Reach, listed: &[LoadBalancer]) -> Result<(Seen, Ports), Failure> {
    let mut seen = Seen { ids: listed.iter().map(|b| b.id.clone()).collect(), ..Seen::default() };
    let mut ports = Ports::default();
    if listed.is_empty() {
        return Ok((seen, ports));
    }
    let own = driver::surroundings(&rows.stack().handle, &reach.session).await?;
    // Stacks of earlier releases tell a subnet that was given among those that they made.
    let is_made = rows.cluster.fixed_subnet.as_deref().is_none_or(str::is_empty);
    for balancer in listed {
        let item = Item::of_balancer(balancer);
        let is_inside = || is_made && balancer.vip_subnet_id.as_ref().is_some_and(|id| own.subnets.contains(id));
        let kept = match load_balancer(balancer, names(&rows.cluster)) {
            _ if own.balancers.contains(&balancer.id) => Ok(()),
            Verdict::Ours => Ok(()),
            // On the subnet that the cluster's own stack made there is nobody else, and while it is there the stack cannot go.
            Verdict::Namesake | Verdict::Used if is_inside() => Ok(()),
            Verdict::Namesake if rows.is_recorded(ResourceKind::LoadBalancer, &balancer.id) => Ok(()),
            Verdict::Namesake => Err(Some(NAMESAKE)),
            Verdict::Shared => Err(Some(SHARED)),
            Verdict::Used => Err(Some(USED)),
            Verdict::Foreign => Err(None),
        };
        match kept {
            Ok(()) => {
                ports.ours.extend(balancer.vip_port_id.iter().map(|port| (port.clone(), balancer.id.clone())));
                seen.ours.push(item);
            }
            Err(told) => {
                ports.others.extend(balancer.vip_port_id.clone());
                seen.kept.extend(told.map(|reason| item.leak(reason)));
            }
        }
    }
    Ok((seen, ports))
}

/// What there is, and the load balancers that addresses lead to which are to be removed, by the ids of these.
///
/// An address bears the name of the cluster that it was made for for ever: one that leads to something else by now is somebody's who was given it.
pub(super) async fn judge_addresses(rows: &Rows, reach: &Reach, ports: &Ports) -> Result<(Seen, BTreeMap<String, String>), Failure> {
    let filter = NeutronFilter { project_id: project(&rows.cluster), ..NeutronFilter::default() };
    let listed = reach.session.neutron().floating_ips(&filter).await?;
    let mut seen = Seen { ids: listed.iter().map(|f| f.id.clone()).collect(), ..Seen::default() };
    let mut leads = BTreeMap::new();
    for address in &listed {
        let item = Item::of_address(address);
        let port = address.port_id.as_ref().filter(|port| !port.is_empty());
        let balancer = port.and_then(|port| ports.ours.get(port));
        // Of one that is recorded the load balancer may have gone in an earlier turn and left a port that somebody had made for it.
        let is_recorded = rows.is_recorded(ResourceKind::FloatingIp, &address.id);
        let is_elsewhere = port.is_some_and(|port| ports.others.contains(port) || (balancer.is_none() && !is_recorded));
        match floating_ip(address, names(&rows.cluster)) {
            Verdict::Ours if is_elsewhere => seen.kept.push(item.leak(ELSEWHERE)),
            Verdict::Namesake if balancer.is_none() && !is_recorded => seen.kept.push(item.leak(NAMESAKE)),
            Verdict::Ours | Verdict::Namesake => {
                leads.extend(balancer.map(|balancer| (address.id.clone(), balancer.clone())));
                seen.ours.push(item);
            }
            Verdict::Shared | Verdict::Used | Verdict::Foreign => {}
        }
    }
    Ok((seen, leads))
}

pub(super) async fn list_volumes(rows: &Rows, reach: &Reach) -> Result<Vec<Volume>, Failure> {
    // Of another project than the session's only an administrator may ask.
    let of = if reach.is_service { project(&rows.cluster) } else { None };
    match reach.session.cinder().volumes(of.as_deref()).await {
        Ok(listed) => Ok(listed),
        Err(error) if is_absent(&error) && rows.made_inside(ResourceKind::Volume).all(CloudResource::is_unseen) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn judge_volumes(cluster: &Cluster, listed: &[Volume]) -> Seen {
    let mut seen = Seen { ids: listed.iter().map(|v| v.id.clone()).collect(), ..Seen::default() };
    for listed in listed {
        match volume(listed, names(cluster)) {
            Verdict::Ours => seen.ours.push(Item::of_volume(listed)),
            Verdict::Namesake => seen.kept.push(Item::of_volume(listed).leak(NAMESAKE)),
            Verdict::Shared | Verdict::Used | Verdict::Foreign => {}
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
