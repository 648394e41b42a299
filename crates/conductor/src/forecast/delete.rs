//! What the deletion of a cluster would take away, by the rows and the inventory: the cloud is not asked.

use std::collections::BTreeSet;

use model::driver::DriverName;
use model::forecast::{Forecast, Intent, Thing};
use model::nodegroup::Nodegroup;
use model::resource::ResourceKind;

/// What nobody has recorded yet.
const INSIDE: &str = "load balancers, floating IPs and volumes that Kubernetes made are looked for when the deletion begins; only those recorded are counted";

pub(super) fn tell(intent: &Intent, told: &mut Forecast) {
    let nodes = intent.groups.iter().map(|group| u64::try_from(Nodegroup::node_count(group)).unwrap_or(0)).sum();
    told.removes(Thing::Server, nodes);
    let recorded = |thing: Thing| intent.recorded.iter().filter(move |r| r.kind().map(of) == Some(thing) && !r.is_unseen());
    told.removes(Thing::Stack, stacks(intent).len() as u64);
    for thing in [
        Thing::HelmRelease,
        Thing::LoadBalancer,
        Thing::FloatingIp,
        Thing::Volume,
        Thing::User,
        Thing::KeyPair,
        Thing::Trust,
        Thing::ApplicationCredential,
        Thing::Certificate,
    ] {
        told.removes(thing, recorded(thing).filter(|r| r.is_to_go()).count() as u64);
        let kept = recorded(thing).filter(|r| !r.is_to_go()).count();
        if kept > 0 {
            told.notes.push(format!("{kept} of {} stay where they are", thing.as_str()));
        }
    }
    told.notes.push("ports, volumes and all else that nodes are made of go with their stacks or release, and are not counted".into());
    told.notes.push(INSIDE.into());
}

/// Stacks that are recorded, and those that rows know alone, which an older program made.
fn stacks(intent: &Intent) -> BTreeSet<&str> {
    let recorded = intent.recorded.iter().filter(|r| r.kind() == Some(ResourceKind::Stack));
    let mut all: BTreeSet<&str> = recorded.map(|r| r.resource_id.as_deref().unwrap_or(&r.name)).collect();
    if intent.driver() != Some(DriverName::K8sCapiHelmV1) {
        let of_groups = intent.groups.iter().filter_map(|group| group.stack_id.as_deref());
        all.extend(intent.cluster.stack_id.as_deref().into_iter().chain(of_groups));
    }
    all
}

fn of(kind: ResourceKind) -> Thing {
    match kind {
        ResourceKind::Trustee | ResourceKind::StackOwner => Thing::User,
        ResourceKind::KeyPair => Thing::KeyPair,
        ResourceKind::Trust => Thing::Trust,
        ResourceKind::Stack => Thing::Stack,
        ResourceKind::LoadBalancer => Thing::LoadBalancer,
        ResourceKind::FloatingIp => Thing::FloatingIp,
        ResourceKind::Volume => Thing::Volume,
        ResourceKind::Certificate => Thing::Certificate,
        ResourceKind::HelmRelease => Thing::HelmRelease,
        ResourceKind::ApplicationCredential => Thing::ApplicationCredential,
    }
}
