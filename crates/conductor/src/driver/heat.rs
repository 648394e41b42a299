//! The driver of Heat stacks.
//!
//! A cluster's stack has a deterministic name and carries the cluster's uuid as a parameter, so a stack that an earlier attempt made (or
//! whose answer was lost) is found and adopted, and one that only happens to have the name is left alone.

mod bootstrap;
mod outputs;
mod parameters;
mod render;
mod stack_input;

use std::collections::BTreeMap;

use model::cluster::Cluster;
use model::operation::OutcomeCode;
use provider_clients::{NewStack, Outputs, Session, Stack as HeatStack, StackResource};
use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use super::{Facts, NotMade, Target};
use crate::certificates::Material;
use crate::context::Settings;
use crate::outcome::Failure;
use crate::plan::{Observed, Seen};
use stack_input::{Distro, Pki, StackInput};

/// How deep nested stacks are looked into: a node is one level below its group, its resources one below that.
const DEPTH: u32 = 2;

/// Names of resources at work that are shown.
const SHOWN: usize = 3;

/// The parameter that says whose stack it is; upstream's stacks carry it too.
const OWNER: &str = "cluster_uuid";

/// A stack about to be made.
pub(crate) struct Stack {
    pub name: String,
    pub kube_version: String,
    template: String,
    files: BTreeMap<String, String>,
    parameters: Map<String, Value>,
    minutes: u32,
    owner: String,
}

/// Looks for the cluster's stack: by its id where one is recorded, else by its name.
pub(super) async fn observe(cluster: &Cluster, session: &Session) -> Result<Observed, Failure> {
    let heat = session.heat();
    let name = stack_input::stack_name(cluster.display_name(), &cluster.uuid);
    let found = match &cluster.stack_id {
        Some(id) => heat.find_stack(id).await?,
        None => heat.find_stack(&name).await?,
    };
    let Some(stack) = found else { return Ok(Observed::Absent) };
    if cluster.stack_id.is_none() && stack.parameters.get(OWNER).and_then(Value::as_str) != Some(cluster.uuid.as_str()) {
        return Ok(Observed::Foreign { reason: format!("a stack named {name} exists that does not belong to this cluster") });
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

fn judge(stack: &HeatStack, action: &str, state: &str, resources: &[StackResource]) -> Observed {
    let seen = count(stack, action, resources);
    match (action, state) {
        ("DELETE", "FAILED") => Observed::Stuck { reason: reason(stack, resources), seen },
        ("DELETE", _) => Observed::Leaving(seen),
        (_, "IN_PROGRESS") => Observed::Building(seen),
        (_, "COMPLETE") => Observed::Ready(seen),
        _ => Observed::Broken { reason: reason(stack, resources), seen },
    }
}

fn count(stack: &HeatStack, action: &str, resources: &[StackResource]) -> Seen {
    let complete = format!("{action}_COMPLETE");
    let at_work = format!("{action}_IN_PROGRESS");
    let done = resources.iter().filter(|r| r.resource_status == complete).count();
    let busy = resources.iter().filter(|r| r.resource_status == at_work).map(|r| r.resource_name.clone()).take(SHOWN).collect();
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    Seen { stack_id: stack.id.clone(), stack_name: stack.name.clone(), done: number(done), total: number(resources.len()), busy }
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

/// Renders template, files and parameters.
pub(super) fn prepare(settings: &Settings, target: &Target<'_>, material: &Material, minutes: u32) -> Result<Stack, Failure> {
    let (cluster, template) = (target.cluster, target.template);
    let mut labels = cluster.labels();
    if settings.default_boot_volume_size > 0 {
        labels.0.entry("boot_volume_size".into()).or_insert_with(|| settings.default_boot_volume_size.to_string());
    }
    if let Some(kind) = &settings.default_boot_volume_type {
        labels.0.entry("boot_volume_type".into()).or_insert_with(|| kind.clone());
    }
    let invalid = |text: String| Failure::fail(OutcomeCode::Invalid, text);
    let need = |value: &Option<String>, what: &str| value.clone().ok_or_else(|| invalid(format!("the cluster template has no {what}")));
    let group = |master: bool| target.groups.iter().find(|g| g.is_master() == master && g.is_default == Some(true));
    let nodes = |master: bool| group(master).map_or(1, |g| u32::try_from(g.node_count()).unwrap_or(0));
    let image = |master: bool| group(master).and_then(|g| g.image_id.clone()).or_else(|| template.image_id.clone());
    let flavor = |master: bool| group(master).and_then(|g| g.flavor_id.clone());
    let project = cluster.project().0;
    let (external_network, master_image, worker_image) =
        (need(&template.external_network_id, "external network")?, need(&image(true), "image")?, need(&image(false), "image")?);
    let (master_flavor, worker_flavor) = (need(&flavor(true), "master flavor")?, need(&flavor(false), "flavor")?);
    let distro = match template.cluster_distro.as_deref() {
        Some("ubuntu") => Distro::Ubuntu,
        _ => Distro::FedoraCoreos,
    };
    let dns = template.dns_nameserver.as_deref().unwrap_or("8.8.8.8");
    let input = StackInput {
        cluster_uuid: &cluster.uuid,
        cluster_name: cluster.display_name(),
        project_id: &project,
        distro,
        ssh_key_name: cluster.keypair.as_deref(),
        external_network: &external_network,
        fixed_network: cluster.fixed_network.as_deref(),
        fixed_subnet: cluster.fixed_subnet.as_deref(),
        dns_nameservers: dns.split(',').map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect(),
        master_image: &master_image,
        worker_image: &worker_image,
        master_flavor: &master_flavor,
        worker_flavor: &worker_flavor,
        masters: nodes(true),
        workers: nodes(false),
        master_lb_enabled: cluster.master_lb_enabled(),
        floating_ip_enabled: cluster.floating_ip_enabled(),
        docker_volume_size: cluster.docker_volume_size.and_then(|n| u32::try_from(n).ok()),
        http_proxy: template.http_proxy.as_deref(),
        https_proxy: template.https_proxy.as_deref(),
        no_proxy: template.no_proxy.as_deref(),
        insecure_registry: template.insecure_registry.as_deref(),
        network_driver: template.network_driver.as_deref().unwrap_or("flannel"),
        tls_disabled: template.is_tls_disabled(),
        labels: &labels,
        nodes_affinity_policy: &settings.nodes_affinity_policy,
        timeout_minutes: minutes,
        kubernetes: Pki {
            ca_cert: &material.kubernetes.certificate,
            ca_key: material.kubernetes.key.expose_secret(),
            etcd_ca_cert: &material.etcd.certificate,
            etcd_ca_key: material.etcd.key.expose_secret(),
            front_proxy_ca_cert: &material.front_proxy.certificate,
            front_proxy_ca_key: material.front_proxy.key.expose_secret(),
            sa_key_pem: material.service_account_key.expose_secret(),
            sa_pub_pem: &material.service_account_public_key,
            ca_public_key_hash: &material.ca_public_key_hash,
        },
    };
    let rendered = render::render(&input).map_err(|e| invalid(e.to_string()))?;
    Ok(Stack {
        name: stack_input::stack_name(cluster.display_name(), &cluster.uuid),
        kube_version: rendered.kube_version,
        template: rendered.template,
        files: rendered.files,
        parameters: rendered.parameters,
        minutes,
        owner: cluster.uuid.clone(),
    })
}

/// Makes the stack. A stack of this name that is there already is a conflict, which is answered by looking again.
pub(super) async fn make(session: &Session, stack: &Stack) -> Result<String, NotMade> {
    let new = NewStack {
        name: stack.name.clone(),
        template: stack.template.clone(),
        files: stack.files.clone(),
        parameters: stack.parameters.clone(),
        timeout_mins: stack.minutes,
        tags: vec!["magnum".into(), stack.owner.clone()],
        disable_rollback: true,
    };
    session.heat().create_stack(&new).await.map_err(|error| {
        // A conflict says that a stack of this name is there: looking again finds it.
        let is_unclear = error.outcome_is_unknown() || error.is_conflict();
        NotMade { is_unclear, failure: error.into() }
    })
}

/// Reads the outputs of a complete stack.
pub(super) async fn facts(target: &Target<'_>, seen: &Seen) -> Result<Facts, Failure> {
    let heat = target.session.heat();
    let Some(stack) = heat.stack(&seen.stack_name, &seen.stack_id, Outputs::Resolve).await? else {
        return Err(Failure::Retry { reason: format!("stack {} which was there a moment ago", seen.stack_name) });
    };
    let found = outputs::facts(&stack.outputs.into_iter().collect(), target.cluster.floating_ip_enabled());
    Ok(Facts {
        api_address: found.api_address,
        master_addresses: found.master_addresses,
        worker_addresses: found.worker_addresses,
        kube_version: stack.parameters.get("kube_version").and_then(Value::as_str).map(str::to_owned),
    })
}

/// Asks Heat to delete the stack.
pub(super) async fn remove(session: &Session, seen: &Seen) -> Result<(), Failure> {
    session.heat().delete_stack(&seen.stack_name, &seen.stack_id).await?;
    Ok(())
}
