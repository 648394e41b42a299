//! Groups of workers in clusters that upstream's driver made.
//!
//! Their nodes are upstream's as well. Heat holds what the cluster's stack was made from: template, files, environment. The stack of a new group is
//! made of the same, with the parameters that upstream's driver gives to such a stack (`heat-driver`'s names: `is_cluster_stack` false, what the
//! cluster's stack made by id, and the group's own). Nothing is asked of the cluster's stack itself, so none of its nodes can be replaced.

use model::cluster::Cluster;
use model::driver::DriverName;
use model::nodegroup::{Nodegroup, WORKER};
use model::operation::OutcomeCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use provider_clients::{Blueprint, HIDDEN, Session, StackResource};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use super::{DEPTH, Stack, gone, outputs, stack_input, told, workers};
use crate::context::Settings;
use crate::driver::Target;
use crate::outcome::Failure;
use crate::plan::Seen;

/// What Python's `quote` leaves as it is, beside letters and digits.
const QUOTED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~').remove(b'/');

/// The type names that upstream's templates use for the volume of container images, and what stands for them when a group has one.
const VOLUME: [(&str, &str); 2] = [
    ("Magnum::Optional::Cinder::Volume", "OS::Cinder::Volume"),
    ("Magnum::Optional::Cinder::VolumeAttachment", "OS::Cinder::VolumeAttachment"),
];
const NOTHING: &str = "OS::Heat::None";

/// What the cluster's stack made and the group joins.
struct Joint {
    api_address: String,
    network: String,
    subnet: String,
    security_group: String,
}

/// The stack of a group.
///
/// # Errors
/// When the cluster's stack is not one of upstream's driver, or the group asks for what its nodes cannot be given.
pub(in crate::driver) async fn prepare_group(
    settings: &Settings,
    target: &Target<'_>,
    group: &Nodegroup,
    seen: &Seen,
    password: Option<&SecretString>,
    minutes: u32,
) -> Result<Stack, Failure> {
    let nodes = target.nodes.get(&group.uuid);
    if nodes.is_some_and(|n| !n.labels.0.is_empty() || !n.taints.is_empty()) {
        let text = "node_labels, node_taints: upstream's driver made this cluster, and its nodes register without them";
        return Err(Failure::fail(OutcomeCode::User, text));
    }
    let mut made_from = target.session.heat().blueprint(&seen.stack_name, &seen.stack_id).await?.ok_or_else(|| gone(seen))?;
    let given = object(&made_from.environment, "parameters");
    let joint = joint(target.session, seen, &given).await?;
    let parameters = parameters(settings, (target.cluster, password), group, &made_from, given, &joint)?;
    made_from.environment = environment(&made_from.environment, group.docker_volume_size.is_some());
    Ok(Stack {
        name: stack_input::group_stack_name(target.cluster.display_name(), &group.name, &group.uuid),
        kube_version: target.cluster.coe_version.clone().unwrap_or_default(),
        template: made_from.template.to_string(),
        files: made_from.files,
        environment: made_from.environment,
        parameters,
        minutes,
        owner: target.cluster.uuid.clone(),
    })
}

/// Reads from the cluster's stack what a group of workers joins.
async fn joint(session: &Session, seen: &Seen, given: &Map<String, Value>) -> Result<Joint, Failure> {
    let resources = session.heat().resources(&seen.stack_name, &seen.stack_id, DEPTH).await?;
    let outputs = told(session, seen, &["api_address"]).await?;
    // A network that was there before is a parameter; otherwise the stack made one.
    let made = |name: &str| physical(&resources, name);
    let net = |parameter: &str, resource: &str| text(given, parameter).or_else(|| made(resource));
    let api_address = outputs::text(&outputs, "api_address");
    match (api_address, net("fixed_network", "private_network"), net("fixed_subnet", "private_subnet"), made("secgroup_kube_minion")) {
        (Some(api_address), Some(network), Some(subnet), Some(security_group)) => {
            Ok(Joint { api_address, network, subnet, security_group })
        }
        _ => Err(Failure::fail(
            OutcomeCode::User,
            "the cluster's stack does not tell its network, security group and API address: it was made by a driver that groups cannot join",
        )),
    }
}

/// The id of the one thing that a stack made under this name.
fn physical(resources: &[StackResource], name: &str) -> Option<String> {
    let found = resources.iter().find(|r| r.resource_name == name && r.resource_type != NOTHING)?;
    Some(found.physical_resource_id.clone()).filter(|id| !id.is_empty())
}

fn text(map: &Map<String, Value>, name: &str) -> Option<String> {
    map.get(name).and_then(Value::as_str).filter(|t| !t.is_empty() && *t != HIDDEN).map(str::to_owned)
}

fn object(environment: &Map<String, Value>, section: &str) -> Map<String, Value> {
    environment.get(section).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Registry and defaults as they were; parameters travel beside. Whether there is a volume for images is the group's own choice.
fn environment(before: &Map<String, Value>, has_volume: bool) -> Map<String, Value> {
    let mut registry = object(before, "resource_registry");
    for (name, stands_for) in VOLUME {
        if registry.contains_key(name) {
            registry.insert(name.into(), if has_volume { stands_for } else { NOTHING }.into());
        }
    }
    let mut after = Map::from_iter([("resource_registry".to_owned(), Value::Object(registry))]);
    if let Some(defaults) = before.get("parameter_defaults") {
        after.insert("parameter_defaults".into(), defaults.clone());
    }
    after
}

/// What the cluster's stack was given, with what differs for a group of it.
fn parameters(
    settings: &Settings,
    (cluster, password): (&Cluster, Option<&SecretString>),
    group: &Nodegroup,
    made_from: &Blueprint,
    given: Map<String, Value>,
    joint: &Joint,
) -> Result<Map<String, Value>, Failure> {
    let declared = made_from.template.get("parameters").and_then(Value::as_object).ok_or_else(|| {
        Failure::fail(
            OutcomeCode::User,
            "the template of the cluster's stack has no parameters: it was made by a driver that groups cannot join",
        )
    })?;
    let labels = group.labels();
    let own = [
        ("is_cluster_stack", json!(false)),
        ("existing_master_private_ip", json!(joint.api_address)),
        ("existing_security_group", json!(joint.security_group)),
        ("fixed_network", json!(joint.network)),
        ("fixed_subnet", json!(joint.subnet)),
        ("master_role", json!("")),
        ("worker_role", json!(group.role.as_deref().unwrap_or(WORKER))),
        ("worker_nodegroup_name", json!(group.name)),
        (workers::COUNT, json!(group.node_count())),
        // These are hidden, and known here as well; the CA travels quoted.
        ("trustee_password", json!(password.map(ExposeSecret::expose_secret))),
        ("trust_id", json!(cluster.trust_id.as_deref().filter(|_| settings.cluster_user_trust).unwrap_or_default())),
        // Of the masters; a worker is never asked for them.
        ("kube_service_account_key", json!("")),
        ("kube_service_account_private_key", json!("")),
        ("openstack_ca", json!(utf8_percent_encode(&settings.openstack_ca, QUOTED).to_string())),
    ];
    let optional = [
        ("minion_image", group.image_id.as_ref().map(|v| json!(v))),
        ("minion_flavor", group.flavor_id.as_ref().map(|v| json!(v))),
        ("docker_volume_size", group.docker_volume_size.map(|v| json!(v))),
    ];
    let described = labels.0.iter().filter(|(name, _)| DriverName::K8sFedoraCoreosV1.label(name).is_some());
    let mut parameters = given;
    // Members that the cluster's own group has lost say nothing about this one, nor do the masters; without a volume there is no size.
    for name in [workers::REMOVE, "docker_volume_size", "master_image", "master_flavor", "master_nodegroup_name"] {
        parameters.remove(name);
    }
    parameters.extend(described.map(|(name, value)| (name.clone(), json!(value))));
    parameters.extend(own.map(|(name, value)| (name.to_owned(), value)));
    parameters.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    parameters.retain(|name, value| declared.contains_key(name) && value.as_str() != Some(HIDDEN));
    let is_needed = |schema: &Value| schema.get("default").is_none();
    match declared.iter().find(|(name, schema)| is_needed(schema) && !parameters.contains_key(*name)) {
        Some((name, _)) => {
            let text = format!("the cluster's stack hides its parameter {name}, which the stack of a group needs");
            Err(Failure::fail(OutcomeCode::User, text))
        }
        None => Ok(parameters),
    }
}
