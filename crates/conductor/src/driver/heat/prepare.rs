//! From rows to what is asked of Heat: the stack of a cluster, the stack of a nodegroup, the first boot of workers yet to come.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::json::Labels;
use model::nodegroup::{Nodegroup, Nodes};
use model::operation::OutcomeCode;
use provider_clients::Session;
use secrecy::ExposeSecret;
use serde_json::{Map, Value};

use super::access::{self, CloudFacts};
use super::parameters::choices::DEFAULT_NETWORK_DRIVER;
use super::render::{self, RenderError};
use super::stack_input::{self, Distro, Joint, KnownAuthority, Pki, StackInput, WorkerGroup};
use super::{Stack, outputs, told};
use crate::certificates::Material;
use crate::context::{DefaultVolumes, Settings};
use crate::driver::{NewNodes, PoolKind, Succession, Target};
use crate::outcome::Failure;
use crate::plan::Seen;

/// The parameter of what secrets are encrypted with in etcd.
const SECRETS_KEY: &str = "secrets_key";

/// Renders the stack of a cluster: template, files and parameters.
pub(in crate::driver) fn prepare(
    settings: &Settings,
    target: &Target<'_>,
    facts: &CloudFacts,
    material: &Material,
    minutes: u32,
) -> Result<Stack, Failure> {
    let name = stack_input::stack_name(target.cluster.display_name(), &target.cluster.uuid);
    let mut rendered = with_input(settings, target, (None, facts), Some(material), minutes, render::render)?;
    if facts.has_secrets_key {
        // Heat keeps it, from the creation on: masters of any later day are made with the same.
        rendered.parameters.insert(SECRETS_KEY.into(), STANDARD.encode(model::random::bytes::<32>()).into());
    }
    Ok(stack(target, name, rendered, minutes))
}

/// The parameters of a cluster's stack without the first boot of its nodes, which holds keys that a cluster has once it is begun.
pub(super) async fn without_first_boot(settings: &Settings, target: &Target<'_>) -> Result<Map<String, Value>, Failure> {
    let facts = access::before_anything(settings, target).await?;
    with_input(settings, target, (None, &facts), None, 0, render::without_first_boot)
}

/// The version of Kubernetes that a pool's nodes are to have by these rows, as far as they can be judged without what their first boot holds.
pub(in crate::driver) async fn version_of_nodes(
    settings: &Settings,
    target: &Target<'_>,
    (kind, group): (PoolKind, &Nodegroup),
    seen: &Seen,
) -> Result<String, Failure> {
    let facts = access::of_workers(target, seen).await?;
    let group = Some(group).filter(|_| kind == PoolKind::Workers);
    with_input(settings, target, (group, &facts), None, 0, render::kube_version)
}

/// Renders the stack of a group of workers, which joins what the cluster's stack made.
pub(in crate::driver) fn prepare_group(
    settings: &Settings,
    target: &Target<'_>,
    (group, facts): (&Nodegroup, &CloudFacts),
    joint: &Joint,
    material: &Material,
    minutes: u32,
) -> Result<Stack, Failure> {
    let name = stack_input::group_stack_name(target.cluster.display_name(), &group.name, &group.uuid);
    let rendered = with_input(settings, target, (Some(group), facts), Some(material), minutes, |input| {
        render::render_group(input, joint, &group.uuid)
    })?;
    Ok(stack(target, name, rendered, minutes))
}

/// The first boot of the workers that a group gets from now on.
pub(in crate::driver) fn worker_user_data(
    settings: &Settings,
    target: &Target<'_>,
    group: &Nodegroup,
    facts: &CloudFacts,
    material: &Material,
    minutes: u32,
) -> Result<String, Failure> {
    with_input(settings, target, (Some(group), facts), Some(material), minutes, render::worker_user_data)
}

/// What the nodes of a pool are made of from now on.
pub(in crate::driver) fn new_nodes(
    settings: &Settings,
    target: &Target<'_>,
    (kind, group): (PoolKind, &Nodegroup),
    facts: &CloudFacts,
    material: &Material,
    (generation, minutes): (&str, u32),
    succession: Option<&Succession<'_>>,
) -> Result<NewNodes, Failure> {
    let group = match kind {
        PoolKind::Masters => None,
        PoolKind::Workers => Some(group),
    };
    with_input(settings, target, (group, facts), Some(material), minutes, |input| {
        let (user_data, kube_version) = render::first_boot(input, kind, succession)?;
        let image = match kind {
            PoolKind::Masters => input.master_image,
            PoolKind::Workers => input.worker_image,
        };
        Ok(NewNodes { generation: generation.to_owned(), image: image.to_owned(), user_data, kube_version })
    })
}

/// Reads from the cluster's stack what a group of workers joins.
pub(in crate::driver) async fn joint(session: &Session, seen: &Seen) -> Result<Joint, Failure> {
    let outputs = told(session, seen, &["api_private_address", "network", "subnet", "subnet_v6", "worker_security_groups"]).await?;
    let text = |name: &str| outputs::text(&outputs, name);
    let security_groups = outputs::list(outputs.get("worker_security_groups"));
    match (text("api_private_address"), text("network"), text("subnet"), security_groups) {
        (Some(api_address), Some(network), Some(subnet), security_groups) if !security_groups.is_empty() => {
            Ok(Joint { api_address, network, subnet, subnet_v6: text("subnet_v6"), security_groups })
        }
        _ => Err(Failure::fail(
            OutcomeCode::User,
            "the cluster's stack does not tell its network, security groups and API address: it was made by a driver that groups cannot join",
        )),
    }
}

fn stack(target: &Target<'_>, name: String, rendered: render::Rendered, minutes: u32) -> Stack {
    Stack {
        name,
        kube_version: rendered.kube_version,
        template: rendered.template,
        files: rendered.files,
        environment: Map::new(),
        parameters: rendered.parameters,
        minutes,
        owner: target.cluster.uuid.clone(),
    }
}

/// Labels in force for a stack: the cluster's, with a group's own for what its nodes are made of, and the version that the cluster runs.
fn labels(settings: &Settings, target: &Target<'_>, group: Option<&Nodegroup>) -> Labels {
    let mut labels = target.cluster.labels();
    if let Some(group) = group {
        let own = group.labels();
        for name in model::labels::OF_NODES {
            labels.0.shift_remove(name);
            if let Some(value) = own.0.get(name) {
                labels.0.insert(name.into(), value.clone());
            }
        }
    }
    // Not the default of the day, nor what the label said before an upgrade: all nodes of a cluster that is there are of its version.
    if let Some(version) = &target.cluster.coe_version {
        labels.0.insert("kube_tag".into(), version.clone());
    }
    for (name, value) in of_volumes(&settings.default_volumes) {
        labels.0.entry(name.into()).or_insert(value);
    }
    labels
}

/// What the operator has said of volumes, as the labels that would say it.
fn of_volumes(default: &DefaultVolumes) -> impl Iterator<Item = (&'static str, String)> {
    let size = (default.boot_size > 0).then(|| default.boot_size.to_string());
    [
        ("boot_volume_size", size),
        ("boot_volume_type", default.boot_type.clone()),
        ("docker_volume_type", default.docker_type.clone()),
        ("etcd_volume_type", default.etcd_type.clone()),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

/// Looks up everything a stack is rendered from; `group` none: the cluster's stack with its default worker group. `material` none: no first boot
/// is rendered.
fn with_input<T>(
    settings: &Settings,
    target: &Target<'_>,
    (group, facts): (Option<&Nodegroup>, &CloudFacts),
    material: Option<&Material>,
    minutes: u32,
    render: impl FnOnce(&StackInput<'_>) -> Result<T, RenderError>,
) -> Result<T, Failure> {
    let (cluster, template) = (target.cluster, target.template);
    let labels = labels(settings, target, group);
    let invalid = |text: String| Failure::fail(OutcomeCode::User, text);
    let need = |value: Option<String>, what: &str| value.ok_or_else(|| invalid(format!("the cluster template has no {what}")));
    let default = |master: bool| target.groups.iter().find(|g| g.is_master() == master && g.is_default());
    let (masters, workers) = (default(true), group.or_else(|| default(false)));
    let count = |g: Option<&Nodegroup>| g.map_or(1, |g| u32::try_from(g.node_count()).unwrap_or(0));
    let image = |g: Option<&Nodegroup>| g.and_then(|g| g.image_id.clone()).or_else(|| template.image_id.clone());
    let worker_flavor = workers.and_then(|g| g.flavor_id.clone()).or_else(|| cluster.flavor_id.clone());
    let project = cluster.project().0;
    let external_network = need(template.external_network_id.clone(), "external network")?;
    let (master_image, worker_image) = (need(image(masters), "image")?, need(image(workers), "image")?);
    let master_flavor = need(masters.and_then(|g| g.flavor_id.clone()), "master flavor")?;
    let worker_flavor = need(worker_flavor, "flavor")?;
    let dns = template.dns_nameserver.as_deref().unwrap_or("8.8.8.8");
    let docker_volume_size = group.map_or(cluster.docker_volume_size, |g| g.docker_volume_size);
    let (given, none) = (facts.given.as_ref(), Nodes::default());
    let input = StackInput {
        cluster_uuid: &cluster.uuid,
        cluster_name: cluster.display_name(),
        project_id: &project,
        distro: Distro::of(template.cluster_distro.as_deref()),
        ssh_key_name: cluster.keypair.as_deref(),
        external_network: &external_network,
        // Of a cluster that is there no stack is made of them: only whether it names any is read.
        fixed_network: given.map(|given| given.id.as_str()).or(cluster.fixed_network.as_deref()),
        fixed_subnet: given.map(|given| given.subnet.id.as_str()).or(cluster.fixed_subnet.as_deref()),
        fixed_range: given.map(|given| given.subnet.range),
        dns_nameservers: dns.split(',').map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect(),
        master_image: &master_image,
        worker_image: &worker_image,
        master_flavor: &master_flavor,
        worker_flavor: &worker_flavor,
        masters: count(masters),
        workers: count(workers),
        worker_group: WorkerGroup {
            name: workers.map_or(model::nodegroup::DEFAULT_WORKER, |g| g.name.as_str()),
            role: workers.and_then(|g| g.role.as_deref()).unwrap_or(model::nodegroup::WORKER),
            nodes: workers.and_then(|g| target.nodes.get(&g.uuid)).unwrap_or(&none),
        },
        master_lb_enabled: cluster.master_lb_enabled(),
        floating_ip_enabled: cluster.floating_ip_enabled(),
        docker_volume_size: docker_volume_size.and_then(|n| u32::try_from(n).ok()),
        http_proxy: template.http_proxy.as_deref(),
        https_proxy: template.https_proxy.as_deref(),
        no_proxy: template.no_proxy.as_deref(),
        insecure_registry: template.insecure_registry.as_deref(),
        network_driver: template.network_driver.as_deref().unwrap_or(DEFAULT_NETWORK_DRIVER),
        tls_disabled: template.is_tls_disabled(),
        cloud: &facts.provider,
        keystone: facts.keystone.as_ref(),
        has_secrets_key: facts.has_secrets_key,
        has_monitoring: facts.has_monitoring,
        dual_stack: facts.dual_stack.as_ref(),
        api_name: facts.api_name.as_deref(),
        post_install_manifest: settings.post_install_manifest.as_deref(),
        downloads: settings.downloads_mirror.as_deref(),
        volume_driver: template.volume_driver.as_deref(),
        labels: &labels,
        nodes_affinity_policy: &settings.nodes_affinity_policy,
        templates: &settings.heat_templates,
        openstack_ca: &settings.openstack_ca,
        verify_ca: settings.verify_ca,
        timeout_minutes: minutes,
        token_seconds: facts.token_seconds,
        kubernetes: material.map(pki).unwrap_or_default(),
    };
    render(&input).map_err(|e| invalid(e.to_string()))
}

fn pki(material: &Material) -> Pki<'_> {
    Pki {
        ca_cert: &material.kubernetes.certificate,
        ca_key: material.kubernetes.key.expose_secret(),
        etcd_ca_cert: &material.etcd.certificate,
        etcd_ca_key: material.etcd.key.expose_secret(),
        front_proxy_ca_cert: &material.front_proxy.certificate,
        front_proxy_ca_key: material.front_proxy.key.expose_secret(),
        sa_key_pem: material.service_account_key.expose_secret(),
        sa_pub_pem: &material.service_account_public_keys,
        authorities: material
            .kubernetes_authorities
            .iter()
            .map(|known| KnownAuthority { key: known.key.expose_secret(), public_key_hash: &known.public_key_hash })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_says_of_volumes_stands_for_the_labels_that_would_say_it() {
        let all = DefaultVolumes {
            boot_size: 20,
            boot_type: Some("fast".into()),
            docker_type: Some("slow".into()),
            etcd_type: Some("sure".into()),
        };
        let wanted =
            [("boot_volume_size", "20"), ("boot_volume_type", "fast"), ("docker_volume_type", "slow"), ("etcd_volume_type", "sure")];
        let found: Vec<(&str, String)> = of_volumes(&all).collect();
        assert_eq!(found, wanted.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(of_volumes(&DefaultVolumes::default()).count(), 0);
        for (name, _) in found {
            assert!(model::driver::DriverName::K8sFedoraCoreosV1.label(name).is_some(), "{name}");
        }
    }
}
