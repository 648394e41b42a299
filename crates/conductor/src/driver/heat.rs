//! The driver of Heat stacks.
//!
//! A cluster's stack has a deterministic name and carries the cluster's uuid as a parameter, so a stack that an earlier attempt made (or
//! whose answer was lost) is found and adopted, and one that only happens to have the name is left alone.

mod access;
mod addons;
mod addresses;
mod adopted;
mod agent;
mod api_name;
mod auto_healer;
mod autoscaler;
mod bootstrap;
mod catalogue;
mod cloud_config;
mod dual_stack;
mod given_network;
mod ingress;
mod keystone_auth;
mod monitoring;
mod need;
mod outputs;
mod parameters;
mod pools;
mod prepare;
mod proxies;
mod render;
mod stack_input;
mod templates;
mod tree;
mod workers;

use std::collections::BTreeMap;

use model::cluster::Cluster;
use model::template::ClusterTemplate;
use provider_clients::{CloudError, NewStack, Session, Stack as HeatStack, StackFilter, StackResource};
use serde_json::{Map, Value};

use super::{Facts, Handle, Listed, Member, NotMade, PoolKind, Surroundings, Tagged, Target};
use crate::context::Settings;
use crate::outcome::Failure;
use crate::plan::{Observed, Seen};
use crate::room::Need;

pub use templates::{HeatTemplates, SHIPPED_TEMPLATES, TemplateError};

pub(crate) use access::CloudFacts;
pub(super) use access::{of_masters as facts_of_masters, of_new as facts_of_new, of_workers as facts_of_workers};
pub(super) use adopted::prepare_group as prepare_adopted_group;
pub(crate) use catalogue::note as note_of_version;
use dual_stack::DualStack;
use parameters::choices::{DEFAULT_NETWORK_DRIVER, Ranges};
pub(super) use pools::{give_up, leave_api, replace};
pub(super) use prepare::{joint, new_nodes, prepare, prepare_group, version_of_nodes, worker_user_data};
use render::RenderError;
pub(crate) use stack_input::{group_stack_name, stack_name};
use tree::Tree;
pub(super) use workers::{excuse, excused, members, members_with_addresses, missing, resize};

/// How deep nested stacks are looked into: a node is one level below its group, its resources one below that.
const DEPTH: u32 = 2;

/// Names of resources at work that are shown.
const SHOWN: usize = 3;

/// The parameter that says whose stack it is; upstream's stacks carry it too.
const OWNER: &str = "cluster_uuid";

/// The parameter that says which version of Kubernetes new nodes get.
const KUBE_VERSION: &str = "kube_version";

/// The tag of every stack that we make, beside the uuid of its cluster.
const TAG: &str = "magnum";

/// A stack about to be made.
pub(crate) struct Stack {
    pub name: String,
    pub kube_version: String,
    template: String,
    files: BTreeMap<String, String>,
    environment: Map<String, Value>,
    parameters: Map<String, Value>,
    minutes: u32,
    owner: String,
}

impl Stack {
    /// What it takes of the project's quotas.
    pub(crate) fn need(&self) -> Need {
        need::of(&self.parameters)
    }
}

/// What the stack of a new cluster takes of the project's quotas, as [`Stack::need`], before there is anything that its nodes are made with.
pub(super) async fn need_of_new(settings: &Settings, target: &Target<'_>) -> Result<Need, Failure> {
    Ok(need::of(&prepare::without_first_boot(settings, target).await?))
}

/// What so many more nodes of a stack take of the project's quotas, which then has so many of their kind; nothing when the stack is gone, which
/// is told elsewhere.
pub(super) async fn need_of_more(session: &Session, seen: &Seen, kind: PoolKind, more: u64, then: u64) -> Result<Need, Failure> {
    let stack = session.heat().stack(&seen.stack_name, &seen.stack_id).await?;
    let of = match kind {
        PoolKind::Masters => need::of_masters,
        PoolKind::Workers => need::of_workers,
    };
    Ok(stack.map(|stack| of(&stack.parameters, more, then)).unwrap_or_default())
}

/// A stack by its id where one is recorded, else by its name.
async fn find(handle: &Handle, session: &Session) -> Result<Option<HeatStack>, CloudError> {
    let heat = session.heat();
    match &handle.id {
        // One request in place of two where the name is as we would give it, which it is unless upstream made the stack.
        Some(id) => match heat.stack(&handle.name, id).await? {
            Some(stack) => Ok(Some(stack)),
            None => heat.find_stack(id).await,
        },
        None => heat.find_stack(&handle.name).await,
    }
}

/// The id of a stack of which only the name is known, in whatever project it is; the session is an administrator's.
pub(super) async fn find_anywhere(handle: &Handle, session: &Session) -> Result<Option<String>, CloudError> {
    let tags = vec![TAG.into(), handle.cluster.clone()];
    let filter = StackFilter { name: Some(handle.name.clone()), tags, all_projects: true, ..StackFilter::default() };
    Ok(session.heat().stacks(&filter).await?.into_iter().find(|stack| stack.name == handle.name).map(|stack| stack.id))
}

/// Looks for a stack.
pub(super) async fn observe(handle: &Handle, session: &Session) -> Result<Observed, Failure> {
    let heat = session.heat();
    let Some(stack) = find(handle, session).await? else { return Ok(Observed::Absent) };
    if handle.id.is_none() && stack.parameters.get(OWNER).and_then(Value::as_str) != Some(handle.cluster.as_str()) {
        return Ok(Observed::Foreign { reason: format!("a stack named {} exists that does not belong to this cluster", handle.name) });
    }
    let (action, state) = stack.status.split_once('_').unwrap_or((stack.status.as_str(), ""));
    if (action, state) == ("DELETE", "COMPLETE") {
        return Ok(Observed::Absent);
    }
    let resources = match state {
        // What a complete stack is made of need not be counted.
        "COMPLETE" => Vec::new(),
        _ => match heat.resources(&stack.name, &stack.id, DEPTH).await {
            // Gone between the two calls: the next look tells.
            Err(error) if error.is_not_found() => Vec::new(),
            other => other?,
        },
    };
    Ok(judge(&stack, action, state, &resources))
}

/// Lists stacks by their ids.
pub(super) async fn list(session: &Session, ids: Vec<String>, all_projects: bool) -> Result<Vec<Listed>, CloudError> {
    let stacks = session.heat().stacks(&StackFilter { ids, all_projects, ..StackFilter::default() }).await?;
    let listed = |stack: HeatStack| Listed { changed: changed(&stack), stack_id: stack.id, status: stack.status };
    Ok(stacks.into_iter().map(listed).collect())
}

/// Lists the stacks that bear our tag, of all projects.
pub(super) async fn tagged(session: &Session) -> Result<Vec<Tagged>, CloudError> {
    let filter = StackFilter { tags: vec![TAG.into()], all_projects: true, ..StackFilter::default() };
    let stacks = session.heat().stacks(&filter).await?;
    Ok(stacks.into_iter().map(|stack| Tagged { id: stack.id, name: stack.name, tags: stack.tags }).collect())
}

/// Counts the resources of a stack that is at work.
pub(super) async fn progress(session: &Session, name: &str, id: &str, status: &str) -> Result<Seen, CloudError> {
    let resources = session.heat().resources(name, id, DEPTH).await?;
    let stack = HeatStack { id: id.to_owned(), name: name.to_owned(), status: status.to_owned(), ..HeatStack::default() };
    Ok(count(&stack, status.split_once('_').map_or(status, |(action, _)| action), &resources))
}

fn changed(stack: &HeatStack) -> String {
    stack.updated_time.map(|at| at.to_rfc3339()).unwrap_or_default()
}

fn judge(stack: &HeatStack, action: &str, state: &str, resources: &[StackResource]) -> Observed {
    let seen = count(stack, action, resources);
    match (action, state) {
        ("DELETE", "FAILED") => Observed::Stuck { reason: reason(stack, resources), seen },
        ("DELETE", _) => Observed::Leaving(seen),
        (_, "IN_PROGRESS") => Observed::Building(seen),
        ("ROLLBACK", "COMPLETE") => Observed::RolledBack { reason: format!("the change was rolled back: {}", stack.status_reason), seen },
        // Its servers are shut down, by somebody who has stopped more than one node.
        ("SUSPEND", "COMPLETE") => {
            Observed::Broken { reason: format!("stack {} is suspended (SUSPEND_COMPLETE); resume it", stack.name), seen }
        }
        (_, "COMPLETE") => Observed::Ready(seen),
        _ => Observed::Broken { reason: reason(stack, resources), seen },
    }
}

fn count(stack: &HeatStack, action: &str, resources: &[StackResource]) -> Seen {
    // An update leaves what it need not touch as it was made, and makes what is new.
    let is_done = |r: &&StackResource| match action {
        "CREATE" | "DELETE" => r.resource_status == format!("{action}_COMPLETE"),
        _ => r.resource_status.ends_with("_COMPLETE"),
    };
    let is_busy = |r: &&StackResource| match action {
        "CREATE" | "DELETE" => r.resource_status == format!("{action}_IN_PROGRESS"),
        _ => r.resource_status.ends_with("_IN_PROGRESS"),
    };
    let done = resources.iter().filter(is_done).count();
    let busy = resources.iter().filter(is_busy).map(|r| r.resource_name.clone()).take(SHOWN).collect();
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    Seen {
        stack_id: stack.id.clone(),
        stack_name: stack.name.clone(),
        done: number(done),
        total: number(resources.len()),
        busy,
        status: stack.status.clone(),
        changed: changed(stack),
        workers: workers::of(&stack.parameters),
        masters: pools::of(&stack.parameters, PoolKind::Masters),
        minions: pools::of(&stack.parameters, PoolKind::Workers),
        kube_version: stack.parameters.get(KUBE_VERSION).and_then(Value::as_str).map(str::to_owned),
        has_our_workers: stack.parameters.contains_key(workers::USER_DATA),
        has_cloud_provider: access::is_on(stack.parameters.get(access::PARAMETER)),
        has_keystone_auth: access::is_on(stack.parameters.get(keystone_auth::PARAMETER)),
        // Of the key itself Heat does not show whether there is one.
        has_secrets_key: access::is_on(stack.parameters.get(parameters::ENCRYPTED)),
        has_monitoring: access::is_on(stack.parameters.get(monitoring::PARAMETER)),
        has_ipv6: access::is_on(stack.parameters.get(dual_stack::PARAMETER)),
        api_name: api_name::seen(&stack.parameters),
    }
}

/// The innermost failure in the cloud's own words: the stack's reason names only the outermost resource.
fn reason(stack: &HeatStack, resources: &[StackResource]) -> String {
    let told = |r: &&StackResource| r.has_failed() && !r.resource_status_reason.is_empty() && !r.resource_status_reason.contains("aborted");
    // Heat lists outer resources first.
    let inner = resources.iter().rfind(told).map(|r| format!("{} ({}): {}", r.resource_name, r.resource_type, r.resource_status_reason));
    let outer = &stack.status_reason;
    match inner {
        Some(inner) if outer.contains(&inner) => format!("heat: {outer}"),
        Some(inner) => format!("heat: {outer} [{inner}]"),
        None => format!("heat: {} {outer}", stack.status),
    }
}

/// Makes the stack. A stack of this name that is there already is a conflict, which is answered by looking again.
pub(super) async fn make(session: &Session, stack: &Stack) -> Result<String, NotMade> {
    let new = NewStack {
        name: stack.name.clone(),
        template: stack.template.clone(),
        files: stack.files.clone(),
        environment: stack.environment.clone(),
        parameters: stack.parameters.clone(),
        hidden: parameters::SECRETS,
        timeout_mins: stack.minutes,
        tags: vec![TAG.into(), stack.owner.clone()],
        disable_rollback: true,
    };
    session.heat().create_stack(&new).await.map_err(|error| NotMade { is_unclear: error.may_have_made(), failure: error.into() })
}

/// Outputs of a stack that was seen, by their names; not in it: what the stack does not have.
async fn told(session: &Session, seen: &Seen, names: &[&str]) -> Result<Map<String, Value>, Failure> {
    let heat = session.heat();
    let mut outputs = Map::new();
    for name in names {
        if let Some(value) = heat.output(&seen.stack_name, &seen.stack_id, name).await? {
            outputs.insert((*name).to_owned(), value);
        }
    }
    // Heat says the same of a stack that is not there.
    if outputs.len() < names.len() {
        standing(session, seen).await?;
    }
    Ok(outputs)
}

/// A stack that was seen, as it is now. One that is gone Heat still shows by its id.
async fn standing(session: &Session, seen: &Seen) -> Result<HeatStack, Failure> {
    let stack = session.heat().stack(&seen.stack_name, &seen.stack_id).await?;
    stack.filter(|stack| stack.status != "DELETE_COMPLETE").ok_or_else(|| gone(seen))
}

/// Somebody has taken it away since: the next look tells.
fn gone(seen: &Seen) -> Failure {
    Failure::retry(format!("stack {} which was there a moment ago", seen.stack_name))
}

/// What a complete stack tells of its cluster, or of its group; nodes by their floating IPs where they have them, else by their addresses on the
/// cluster's network.
pub(super) async fn facts(session: &Session, seen: &Seen, floating_ip_enabled: bool) -> Result<Facts, Failure> {
    let stack = standing(session, seen).await?;
    let resources = match session.heat().resources(&seen.stack_name, &seen.stack_id, DEPTH).await {
        Err(error) if error.is_not_found() => return Err(gone(seen)),
        other => other?,
    };
    let tree = Tree::new(&resources);
    let (api_address, master_addresses) = match tree.has(PoolKind::Masters) {
        true => of_masters(session, seen, floating_ip_enabled).await?,
        // The stack of a group.
        false => (None, Vec::new()),
    };
    let workers = workers::of_tree(session, seen, &tree, PoolKind::Workers).await?;
    let shown = |member: Member| member.floating_ip.filter(|_| floating_ip_enabled).or_else(|| member.addresses.into_iter().next());
    Ok(Facts {
        api_address,
        master_addresses,
        worker_addresses: workers.into_iter().filter_map(shown).collect(),
        kube_version: stack.parameters.get(KUBE_VERSION).and_then(Value::as_str).map(str::to_owned),
    })
}

/// The addresses of the API and of the masters, which are few; and the public address of one without a load balancer is the API's, which only the
/// template knows.
async fn of_masters(session: &Session, seen: &Seen, floating_ip_enabled: bool) -> Result<(Option<String>, Vec<String>), Failure> {
    let api = outputs::api(&told(session, seen, &[outputs::API_ADDRESS]).await?);
    let [inside, outside] = pools::names(PoolKind::Masters).outputs;
    for name in floating_ip_enabled.then_some(outside).into_iter().chain([inside]) {
        let addresses = outputs::list(told(session, seen, &[name]).await?.get(name));
        if !addresses.is_empty() {
            return Ok((api, addresses));
        }
    }
    Ok((api, Vec::new()))
}

/// That the ranges of a cluster's labels hold so many nodes; nothing is said where one of them cannot be read, for they may be from before they were read
/// so. Its stack, or one of its groups', tells whether it has IPv6.
///
/// # Errors
/// The label of one that does not.
pub(super) fn hold(cluster: &Cluster, template: &ClusterTemplate, seen: &Seen, nodes: u64) -> Result<(), RenderError> {
    let network_driver = template.network_driver.as_deref().unwrap_or(DEFAULT_NETWORK_DRIVER);
    let has_ipv6 = DualStack::seen(seen).is_some();
    let ranges = Ranges::read(network_driver, &cluster.labels(), cluster.fixed_network.is_some(), has_ipv6);
    ranges.map_or(Ok(()), |ranges| ranges.hold(nodes))
}

/// The type of a subnet in our templates and in upstream's.
const SUBNET: [&str; 2] = ["OS::Neutron::Subnet", "Magnum::Optional::Neutron::Subnet"];
/// The type of the load balancers of API and etcd in upstream's templates. The members of their pools are deleted one by one with such a
/// stack, which may end in an error of Octavia's; with their balancer they go at once. Ours leave members to their pool.
const BALANCER: &str = "Magnum::Optional::Neutron::LBaaS::LoadBalancer";

/// What a stack made that bears on load balancers.
pub(super) async fn surroundings(handle: &Handle, session: &Session) -> Result<Surroundings, Failure> {
    let Some(stack) = find(handle, session).await? else { return Ok(Surroundings::default()) };
    let resources = session.heat().resources(&stack.name, &stack.id, DEPTH).await?;
    let ids = |types: &[&str]| -> Vec<String> {
        let found = resources.iter().filter(|r| types.contains(&r.resource_type.as_str()) && !r.physical_resource_id.is_empty());
        found.map(|r| r.physical_resource_id.clone()).collect()
    };
    Ok(Surroundings { subnets: ids(&SUBNET), balancers: ids(&[BALANCER]) })
}

/// Asks Heat to delete the stack.
pub(super) async fn remove(session: &Session, seen: &Seen) -> Result<(), Failure> {
    session.heat().delete_stack(&seen.stack_name, &seen.stack_id).await?;
    Ok(())
}
