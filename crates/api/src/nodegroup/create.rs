//! `POST /v1/clusters/{cluster}/nodegroups`: rules N-01 to N-17, then one transaction, then 202 with the group.

use std::sync::Arc;

use model::driver::DriverName;
use model::id::NodegroupId;
use model::json::Labels;
use model::nodegroup::{MASTER, NewNodegroup, WORKER};
use model::operation::{OperationKind, Payload};
use serde_json::Value;

use super::rules;
use crate::answer::Answer;
use crate::cloud_checks::{self, Wanted};
use crate::context::Context;
use crate::error::ApiError;
use crate::label;
use crate::lifecycle::{Change, Reply, Request, Subject, accept};
use crate::policy::Act;
use crate::template::boot_volume_size;
use crate::view::nodegroup::CREATE;
use crate::view::schema::{self, Body, invalid};

/// Accepts a new group of workers.
pub async fn create(cx: Context) -> Result<Answer, ApiError> {
    let body = cx.read(&CREATE)?;
    let allowed = cx.allow_own(Act::NodegroupCreate)?;
    let scope = cx.own_scope();
    let subject = Subject::find(&cx, &scope).await?;
    let cluster = &subject.cluster;
    let new = check(&cx, &body, &subject).await?;
    let request = Request {
        payload: Payload { nodegroup: Some(new.id.clone()), node_count: Some(new.node_count), ..Payload::default() },
        change: Change::Group(Box::new(new)),
        reply: Reply::Group,
        ..Request::new(&cx, OperationKind::NodegroupCreate, cluster, scope)
    };
    accept(Arc::new(cx), request, allowed).await
}

async fn check(cx: &Context, body: &Body, subject: &Subject) -> Result<NewNodegroup, ApiError> {
    let cluster = &subject.cluster;
    let Some(name) = body.owned("name") else {
        return Err(ApiError::missing_field("name"));
    };
    if cluster.api_address.as_deref().is_none_or(str::is_empty) {
        return Err(ApiError::Conflict(format!(
            "Cluster {} has no API address yet: nodegroups can be added once it has been made.",
            cluster.display_name()
        )));
    }
    if subject.groups.iter().any(|g| g.name == name) {
        return Err(ApiError::Conflict(format!("A nodegroup named {name} is in cluster {} already.", cluster.display_name())));
    }
    let node_count = body.integer("node_count").unwrap_or(1);
    let min_node_count = body.integer("min_node_count").unwrap_or(0);
    let max_node_count = body.integer("max_node_count");
    rules::bounds(&name, node_count, min_node_count, max_node_count)?;
    let role = body.text("role").unwrap_or(WORKER);
    let nodes = rules::nodes(role, body.given("node_labels"), body.given("node_taints"))?;
    if role == MASTER {
        return Err(ApiError::Invalid("Creating master nodegroups is currently not supported.".into()));
    }
    // An empty object means none at all, unlike for clusters.
    let given = body.labels("labels");
    // The cluster lives with its own labels, whatever they are.
    if let (Some(driver), Some(given)) = (subject.driver(), &given) {
        label::check(cx, driver, given)?;
    }
    let labels = cluster.labels().with(given, body.boolean("merge_labels").unwrap_or(false));
    schema::stored("labels", labels.column().len())?;
    if subject.driver() == Some(DriverName::K8sCapiHelmV1) {
        let others = subject.groups.iter().map(|group| group.name.as_str());
        model::capi::check_group(&name, cluster.stack_id.as_deref(), others)
            .map_err(|rule| invalid("name", &Value::from(name.as_str()), &rule))?;
    }
    let flavor = body.owned("flavor_id").or_else(|| cluster.flavor_id.clone());
    let of_nodes = labels_of_nodes(cx, subject, &labels).await?;
    check_flavor(cx, flavor.as_deref(), &of_nodes).await?;
    if let Some(image) = body.text("image_id") {
        check_image(cx, image, subject).await?;
    }
    let image = body.owned("image_id").or_else(|| subject.template.as_ref().and_then(|t| t.image_id.clone()));
    let of_nodes = match &subject.template {
        // It lays a cluster's labels over its template's, whatever was asked.
        Some(template) if subject.driver() == Some(DriverName::K8sCapiHelmV1) => template.labels().with(Some(of_nodes), true),
        _ => of_nodes,
    };
    check_room(cx, flavor.as_deref(), image.as_deref(), &of_nodes).await?;
    Ok(NewNodegroup {
        id: NodegroupId::generate(),
        cluster: cluster.cluster_id(),
        project: cluster.project(),
        role: role.to_owned(),
        flavor,
        image,
        node_count,
        min_node_count,
        max_node_count,
        docker_volume_size: body.integer("docker_volume_size"),
        labels,
        nodes,
        name,
    })
}

/// The flavor is there, with a root disk unless the group's nodes boot from volumes (N-17, which asks the cluster's labels; these nodes are made by the
/// group's).
pub(super) async fn check_flavor(cx: &Context, flavor: Option<&str>, labels: &Labels) -> Result<(), ApiError> {
    let size = boot_volume_size(cx, labels)?;
    let Some(flavor) = flavor else {
        return match size {
            1.. => Ok(()),
            _ => Err(ApiError::Invalid("flavor_id is needed: neither the request nor the cluster has one.".into())),
        };
    };
    let found = cloud_checks::look_up(cx, &Wanted { flavors: vec![flavor], ..Wanted::default() }).await?;
    found.flavor(flavor)?;
    found.root_disk(flavor, size)
}

/// The labels that say how the nodes of a group boot: its own, where ours made the cluster's stack; laid over the cluster's, where upstream's did;
/// and the cluster's alone with Cluster API.
async fn labels_of_nodes(cx: &Context, subject: &Subject, own: &Labels) -> Result<Labels, ApiError> {
    let of_cluster = subject.cluster.labels();
    Ok(match subject.driver() {
        Some(DriverName::K8sFedoraCoreosV1) if subject.can_replace_nodes(cx).await? => own.clone(),
        Some(DriverName::K8sFedoraCoreosV1) => of_cluster.with(Some(own.clone()), true),
        Some(DriverName::K8sCapiHelmV1) | None => of_cluster,
    })
}

/// The image is there, and boots as the cluster's nodes do: with Heat their first boot is written for the distribution of the cluster's template.
async fn check_image(cx: &Context, image: &str, subject: &Subject) -> Result<(), ApiError> {
    let template = subject.template.as_ref().filter(|_| subject.driver() == Some(DriverName::K8sFedoraCoreosV1));
    // The cluster's own image is what a group has that names none, whatever a patch of the template has said of it.
    let template = template.filter(|template| template.image_id.as_deref() != Some(image));
    let Some(distro) = template.and_then(|template| template.cluster_distro.as_deref()) else { return Ok(()) };
    let found = cloud_checks::look_up(cx, &Wanted { image: Some(image), ..Wanted::default() }).await?;
    match found.image(image)?.os_distro.as_deref() {
        Some(own) if own != distro => {
            let rule = format!("The nodes of this cluster boot as those of {distro}, and the image is of {own}");
            Err(invalid("image_id", &Value::from(image), &rule))
        }
        _ => Ok(()),
    }
}

/// The flavor, or the volume that nodes boot from, has room for the image, where the caller is shown one of this name: it may be lent to whom the
/// cluster acts for.
async fn check_room(cx: &Context, flavor: Option<&str>, image: Option<&str>, labels: &Labels) -> Result<(), ApiError> {
    let (Some(flavor), Some(image)) = (flavor, image) else { return Ok(()) };
    let found = match cloud_checks::look_up(cx, &Wanted { flavors: vec![flavor], image: Some(image), ..Wanted::default() }).await {
        Err(ApiError::Forbidden(_)) => return Ok(()),
        answer => answer?,
    };
    let volume = boot_volume_size(cx, labels).ok();
    found.only_image(image).map_or(Ok(()), |image| found.room(image, flavor, volume))
}
