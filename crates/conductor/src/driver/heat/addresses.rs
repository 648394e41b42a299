//! The addresses of the nodes of a stack.
//!
//! Its outputs tell them too, but these Heat works out node by node, with a look into the stack of each: 13 nodes took 8 s on a small cloud, and a
//! hundred take longer than Heat gives itself for an answer. So the resources tell which ports there are, and Neutron what their addresses
//! are, some dozens at once.

use std::collections::{BTreeMap, HashMap};

use provider_clients::{CloudError, NeutronFilter, Session, StackResource};

use super::tree::{Tree, id};
use super::{outputs, pools, told};
use crate::driver::{Member, PoolKind};
use crate::outcome::Failure;
use crate::plan::Seen;

/// The type of ports.
const PORT: &str = "OS::Neutron::Port";
/// How types of floating IPs end: upstream's templates have names of their own for them, behind which there may be nothing, which Neutron tells.
const FLOATING_IP: &str = "::FloatingIP";

/// What a node has of Neutron, by ids.
struct Doors<'a> {
    port: Option<&'a str>,
    floating_ip: Option<&'a str>,
}

impl<'a> Doors<'a> {
    fn of(parts: &[&'a StackResource], port: &str) -> Self {
        let find = |is: &dyn Fn(&StackResource) -> bool| parts.iter().copied().find(|part| is(part)).and_then(id);
        Self {
            // Templates of operators may call it otherwise, and give a node more than one.
            port: find(&|part| part.resource_name == port).or_else(|| find(&|part| part.resource_type == PORT)),
            floating_ip: find(&|part| part.resource_type.ends_with(FLOATING_IP)),
        }
    }
}

/// Adds their addresses to the members of a pool. One that Neutron does not know, or no more, has none. Where the asker may not see ports, which
/// Neutron hides from him rather than refuse him, the outputs tell what Heat may see.
///
/// # Errors
/// What Neutron says, or Heat.
pub(super) async fn add(session: &Session, seen: &Seen, tree: &Tree<'_>, kind: PoolKind, members: &mut [Member]) -> Result<(), Failure> {
    let named = pools::names(kind).port;
    // In one order always: a simulation goes the same way again.
    let doors: BTreeMap<&str, Doors<'_>> =
        tree.members(kind).iter().map(|member| (member.resource_name.as_str(), Doors::of(tree.parts(member), named))).collect();
    if doors.values().all(|doors| doors.port.is_none()) {
        return add_told(session, seen, kind, members).await;
    }
    let (mut ports, mut floating_ips) = match behind(session, &doors).await {
        Ok((ports, _)) if ports.is_empty() => return add_told(session, seen, kind, members).await,
        Ok(found) => found,
        Err(error) if error.status() == Some(403) => return add_told(session, seen, kind, members).await,
        Err(error) => return Err(error.into()),
    };
    for member in members {
        let Some(doors) = doors.get(member.number.as_str()) else { continue };
        member.addresses = doors.port.and_then(|id| ports.remove(id)).unwrap_or_default();
        member.floating_ip = doors.floating_ip.and_then(|id| floating_ips.remove(id)).filter(|address| !address.is_empty());
    }
    Ok(())
}

/// The addresses of ports, and floating IPs, each by its id.
type Found = (HashMap<String, Vec<String>>, HashMap<String, String>);

async fn behind(session: &Session, doors: &BTreeMap<&str, Doors<'_>>) -> Result<Found, CloudError> {
    let neutron = session.neutron();
    let (mut ports, mut floating_ips): Found = Default::default();
    if let Some(filter) = these(doors.values().filter_map(|doors| doors.port)) {
        for port in neutron.ports(&filter).await? {
            ports.insert(port.id, port.fixed_ips.into_iter().map(|ip| ip.ip_address).filter(|address| !address.is_empty()).collect());
        }
    }
    if let Some(filter) = these(doors.values().filter_map(|doors| doors.floating_ip)) {
        floating_ips.extend(neutron.floating_ips(&filter).await?.into_iter().map(|ip| (ip.id, ip.floating_ip_address)));
    }
    Ok((ports, floating_ips))
}

/// The same for nodes whose ports are not Heat's: what the outputs of the group tell, in the order of its members.
async fn add_told(session: &Session, seen: &Seen, kind: PoolKind, members: &mut [Member]) -> Result<(), Failure> {
    if members.is_empty() {
        return Ok(());
    }
    let [inside, outside] = pools::names(kind).outputs;
    let outputs = told(session, seen, &[inside, outside]).await?;
    let addresses = |name: &str| Some(outputs::positions(outputs.get(name))).filter(|addresses| addresses.len() == members.len());
    let (own, floating) = (addresses(inside), addresses(outside));
    for (member, address) in members.iter_mut().zip(own.unwrap_or_default()) {
        member.addresses = address.into_iter().collect();
    }
    for (member, address) in members.iter_mut().zip(floating.unwrap_or_default()) {
        member.floating_ip = address;
    }
    Ok(())
}

/// What is asked of Neutron; nothing for none, which would ask for all.
fn these<'a>(ids: impl Iterator<Item = &'a str>) -> Option<NeutronFilter> {
    let ids: Vec<String> = ids.map(str::to_owned).collect();
    (!ids.is_empty()).then(|| NeutronFilter { ids, ..NeutronFilter::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn part(name: &str, kind: &str, id: &str) -> StackResource {
        from_value(json!({"resource_name": name, "resource_type": kind, "physical_resource_id": id})).expect("a resource")
    }

    #[test]
    fn a_node_is_on_its_network_by_the_port_of_the_known_name_or_else_by_its_first() {
        let server = part("kube-minion", "OS::Nova::Server", "server");
        let (storage, eth0) = (part("storage", PORT, "storage"), part("kube_minion_eth0", PORT, "eth0"));
        let (unmade, given) =
            (part("kube_minion_eth0", PORT, ""), part("kube_minion_floating", "Magnum::Optional::KubeMinion::Neutron::FloatingIP", "ip"));
        for (parts, port, floating_ip) in [
            (vec![&server, &storage, &eth0, &given], Some("eth0"), Some("ip")),
            (vec![&server, &storage], Some("storage"), None),
            (vec![&unmade, &server], None, None),
            (vec![&server], None, None),
        ] {
            let doors = Doors::of(&parts, "kube_minion_eth0");
            assert_eq!((doors.port, doors.floating_ip), (port, floating_ip), "{parts:?}");
        }
    }
}
