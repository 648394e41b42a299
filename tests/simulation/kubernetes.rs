//! What Kubernetes makes in the cloud while its clusters live: load balancers of services, their floating IPs, volumes of claims.
//!
//! It is the users'. As long as nobody asks for the cluster's removal none of it may go, and of other clusters never. With the cluster it goes,
//! but for volumes that the cluster's label does not give up, or the report of the removal names it. An abandoned cluster keeps it.

use std::time::Duration;

use cloud_simulator::{Cloud, NewLoadBalancer, StackView};
use model::cluster::Cluster;
use model::id::{ClusterId, ProjectId};
use model::json::truth;
use model::labels::DELETE_VOLUMES;
use model::operation::{Leak, Operation, OperationKind, OperationState};
use model::random::range;
use model::resource::ResourceKind;
use model::store::{Conn, Store, StoreError, event};
use serde_json::json;

use crate::ends::Ends;
use crate::rows::Rows;

/// One thing.
#[derive(Clone, Debug)]
pub struct Thing {
    pub cluster: ClusterId,
    pub kind: ResourceKind,
    pub id: String,
    /// Whether it outlasts its cluster: a volume, where no label says otherwise.
    pub stays: bool,
}

/// When Kubernetes of a cluster does something.
pub struct Moment {
    pub at: Duration,
    pub cluster: usize,
}

/// The moments of a seed, in order.
pub fn draw(end: Duration, clusters: usize) -> Vec<Moment> {
    let end_ms = u64::try_from(end.as_millis()).expect("short");
    let mut moments = Vec::new();
    for cluster in 0..clusters {
        for _ in 0..range(0..5) {
            moments.push(Moment { at: Duration::from_millis(range(0..end_ms)), cluster });
        }
    }
    moments.sort_by_key(|moment| moment.at);
    moments
}

/// Whom things are made for: by the uuid that Kubernetes was told.
struct Owner<'a> {
    cluster: ClusterId,
    project: String,
    /// The stack on whose network and servers they are.
    stack: Option<&'a StackView>,
    keeps_volumes: bool,
}

impl Owner<'_> {
    fn thing(&self, kind: ResourceKind, id: String) -> Thing {
        Thing { cluster: self.cluster.clone(), kind, id, stays: kind == ResourceKind::Volume && self.keeps_volumes }
    }

    fn stack(&self) -> Option<String> {
        self.stack.map(|stack| stack.id.clone())
    }

    /// A service that is to be reached from outside, or from inside the project only.
    fn service(&self, cloud: &Cloud, is_outside: bool) -> Vec<Thing> {
        let (id, name) = (&self.cluster, format!("web{}", range(0..1000)));
        let balancer = cloud.add_load_balancer(NewLoadBalancer {
            project: self.project.clone(),
            name: format!("kube_service_{id}_default_{name}"),
            description: format!("Kubernetes external service default/{name} from cluster {id}"),
            tags: Vec::new(),
            stack: self.stack(),
        });
        let mut things = Vec::new();
        if is_outside {
            let text = format!("Floating IP for Kubernetes external service default/{name} from cluster {id}");
            things.push(self.thing(ResourceKind::FloatingIp, cloud.add_floating_ip(&self.project, &text, Some(&balancer))));
        }
        things.push(self.thing(ResourceKind::LoadBalancer, balancer));
        things
    }

    fn claim(&self, cloud: &Cloud) -> Thing {
        let metadata = json!({"cinder.csi.openstack.org/cluster": self.cluster.as_str()});
        let volume = cloud.add_volume(&self.project, &format!("pvc-{}", range(0..1000)), metadata, self.stack().as_deref());
        self.thing(ResourceKind::Volume, volume)
    }
}

/// Kubernetes of a cluster makes something, or gives up something that it made. Says what, in words; none where no Kubernetes runs.
pub fn act(cloud: &Cloud, cluster: &Cluster, things: &mut Vec<Thing>) -> Option<String> {
    let stack = cloud.stacks().into_iter().find(|stack| cluster.stack_id.as_deref() == Some(stack.id.as_str()))?;
    // From the first complete master on, until the masters go.
    if cluster.api_address.is_none() || stack.status.starts_with("DELETE_") {
        return None;
    }
    let id = cluster.cluster_id();
    let own: Vec<usize> = (0..things.len()).filter(|place| things[*place].cluster == id).collect();
    if !own.is_empty() && range(0..4) == 0 {
        let gone = things.remove(own[range(0..own.len())]);
        remove(cloud, &gone);
        return Some(format!("Kubernetes of cluster {id} gives up {}", words(&gone)));
    }
    let keeps_volumes = !cluster.labels().get(DELETE_VOLUMES).and_then(truth).unwrap_or(false);
    let owner = Owner { cluster: id.clone(), project: cluster.project().0, stack: Some(&stack), keeps_volumes };
    let made = match range(0..4) {
        0 | 1 => vec![owner.claim(cloud)],
        2 => owner.service(cloud, false),
        _ => owner.service(cloud, true),
    };
    let told: Vec<String> = made.iter().map(words).collect();
    things.extend(made);
    Some(format!("Kubernetes of cluster {id} makes {}", told.join(", ")))
}

/// What Kubernetes of a cluster has made that this service knows nothing of.
pub fn of_a_stranger(cloud: &Cloud, project: &ProjectId) -> Vec<Thing> {
    let owner = Owner { cluster: ClusterId::generate(), project: project.0.clone(), stack: None, keeps_volumes: true };
    let mut things = owner.service(cloud, true);
    things.push(owner.claim(cloud));
    things
}

/// What is not as it should be with these things, in words. Before what reports name is removed from the cloud; afterwards only those are among
/// the things whose cluster is there, and those of strangers, which go at the end. What became of the others is noted.
///
/// # Errors
/// What the store says.
pub async fn broken(
    store: &Store,
    cloud: &Cloud,
    things: &mut Vec<Thing>,
    ends: &mut Ends,
    is_end: bool,
) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let present = cloud.leftovers(None).join("\n");
    let mut clusters: Vec<ClusterId> = things.iter().map(|thing| thing.cluster.clone()).collect();
    clusters.sort();
    clusters.dedup();
    let mut kept = Vec::new();
    for id in clusters {
        let rows = Rows::read(store, &id).await?;
        let is_removal = |o: &&Operation| o.kind().is_some_and(|kind| kind.removal().is_some()) && o.started_ms.is_some();
        let removals: Vec<&Operation> = rows.operations.iter().filter(is_removal).collect();
        let last = removals.iter().find(|o| o.state() == Some(OperationState::Succeeded)).copied();
        let is_strangers = rows.operations.is_empty();
        let leaks = match last {
            Some(removal) => leaks(store, removal).await?,
            None => Vec::new(),
        };
        for thing in things.iter().filter(|thing| thing.cluster == id) {
            let is_there = present.contains(&thing.id);
            match last.and_then(Operation::kind) {
                None | Some(OperationKind::ClusterAbandon) => {
                    // A removal that failed, or was superseded, had begun with what is to go.
                    let others = if last.is_some() { removals.len() > 1 } else { !removals.is_empty() };
                    if !is_there && (thing.stays || !others) {
                        found.push(format!("{} of cluster {id} is gone, and nobody had it removed", words(thing)));
                    }
                }
                Some(kind) => found.extend(after_removal(kind, thing, is_there, &leaks, ends)),
            }
            if last.is_none() && !(is_strangers && is_end) {
                kept.push(thing.clone());
            } else if is_strangers || !is_told(thing, &leaks) {
                // Whoever sees to an abandoned stack, or to one that is told, finds it there.
                remove(cloud, thing);
            }
        }
    }
    *things = kept;
    Ok(found)
}

/// What is not as it should be with a thing whose cluster was removed.
fn after_removal(kind: OperationKind, thing: &Thing, is_there: bool, leaks: &[Leak], ends: &mut Ends) -> Option<String> {
    let (what, id, is_told) = (words(thing), &thing.cluster, is_told(thing, leaks));
    if is_there && !is_told && !is_implied(thing, leaks) {
        return Some(format!("{what} is left of cluster {id}, which was deleted, and nobody was told"));
    }
    if !is_there && thing.stays {
        return Some(format!("{what} went with cluster {id}, whose labels do not say that volumes go"));
    }
    if is_there && kind == OperationKind::ClusterDelete && !thing.stays {
        return Some(format!("{what} is left of cluster {id} by a deletion that went well"));
    }
    ends.note(thing.kind.as_str(), if is_there { "LEFT" } else { "REMOVED" });
    None
}

/// Whether the report names it.
fn is_told(thing: &Thing, leaks: &[Leak]) -> bool {
    leaks.iter().any(|leak| leak.kind == thing.kind.as_str() && leak.id.as_deref() == Some(thing.id.as_str()))
}

/// Whether whoever sees to what the report names comes upon it: it is in a stack that was left, or nobody could tell what there is of its kind.
fn is_implied(thing: &Thing, leaks: &[Leak]) -> bool {
    leaks.iter().any(|leak| leak.kind == ResourceKind::Stack.as_str() || (leak.kind == thing.kind.as_str() && leak.id.is_none()))
}

async fn leaks(store: &Store, removal: &Operation) -> Result<Vec<Leak>, StoreError> {
    let id = &removal.operation_id();
    let reports = store.read(async |conn: &mut Conn| event::of_kinds(conn, id, &["leak_report"]).await).await?;
    Ok(reports.iter().flat_map(|report| report.details().leaks.unwrap_or_default()).collect())
}

fn words(thing: &Thing) -> String {
    format!("{} {}", thing.kind.as_str(), thing.id)
}

/// Takes it out of the cloud, where it is there.
fn remove(cloud: &Cloud, thing: &Thing) {
    match thing.kind {
        ResourceKind::LoadBalancer => cloud.remove_load_balancer(&thing.id),
        ResourceKind::FloatingIp => cloud.remove_floating_ip(&thing.id),
        _ => cloud.remove_volume(&thing.id),
    };
}
