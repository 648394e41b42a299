//! `POST /v1/clusters/{uuid or name}/actions/upgrade`: rules U-01 to U-09.

use std::sync::Arc;

use model::driver::DriverName;
use model::id::OperationId;
use model::kubernetes::Version;
use model::labels;
use model::nodegroup::Nodegroup;
use model::operation::{OperationKind, Payload, deadlines};
use model::store::{Conn, rotation};
use model::template::ClusterTemplate;

use crate::answer::Answer;
use crate::cloud_checks;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{self, Request, Subject, accept};
use crate::microversion::UPGRADE;
use crate::policy::Act;
use crate::view::cluster::UPGRADE as SCHEMA;

/// Accepts the upgrade of a worker group, or of the cluster, to a template.
pub async fn upgrade(cx: Context) -> Result<Answer, ApiError> {
    // The route came with 1.7, by accident, and has worked from 1.8 on.
    if cx.version < UPGRADE {
        return Err(ApiError::Invalid(format!("Cluster upgrade needs a higher microversion: {UPGRADE} at least.")));
    }
    let body = cx.read(&SCHEMA)?;
    let scope = cx.wide_scope(Act::ClusterUpgradeEverywhere)?;
    // An admin sees every project's templates here, as he sees its clusters (rest-api.md 4.5).
    let visible = crate::template::visible(&cx, scope.clone());
    let subject = Subject::find(&cx, &scope).await?;
    let row = &subject.cluster;
    let allowed = cx.allow_object(Act::ClusterUpgrade, row)?;
    let Some(ident) = body.text("cluster_template") else {
        return Err(ApiError::missing_field("cluster_template"));
    };
    let wanted = {
        let visible = &visible;
        cx.shared.store.read(async |conn: &mut Conn| crate::template::find(conn, visible, ident).await).await?
    };
    let group = lifecycle::named(&subject.groups, body.text("nodegroup"))?;
    // Of a Cluster API cluster all groups go, whichever is named.
    if group.is_master() && subject.driver() == Some(DriverName::K8sFedoraCoreosV1) {
        let text = format!(
            "{} goes with its cluster: leave nodegroup out, or name default-worker, and masters and workers are upgraded.",
            group.name
        );
        return Err(ApiError::field("nodegroup", text));
    }
    if !group.is_default() && row.cluster_template_id.as_deref() != Some(wanted.uuid.as_str()) {
        return Err(ApiError::Conflict(format!(
            "Nodegroup {} can be upgraded to the template of its cluster only, and that is {}.",
            group.name,
            row.cluster_template_id.as_deref().unwrap_or("gone")
        )));
    }
    subject.check_possible(OperationKind::ClusterUpgrade, DriverName::supports_upgrade)?;
    check(&cx, &subject, group, &wanted).await?;
    let batch = body.integer("max_batch_size").unwrap_or(1);
    let request = Request::new(&cx, OperationKind::ClusterUpgrade, row, scope);
    let request = Request {
        // Each step may take as long as the making of the cluster.
        deadline: deadlines::of_steps(request.deadline, steps(&subject, group, batch)),
        payload: Payload {
            template: Some(wanted.template_id()),
            max_batch_size: Some(batch),
            generation: Some(OperationId::generate().as_str().to_owned()),
            ..lifecycle::about(group)
        },
        ..request
    };
    accept(Arc::new(cx), request, allowed).await
}

/// Batches of nodes: masters go one by one. With Cluster API all groups go with the default one, side by side, and the nodes of each one by one.
fn steps(subject: &Subject, group: &Nodegroup, batch: i32) -> u32 {
    let count = |group: &Nodegroup| group.node_count().unsigned_abs();
    let masters =
        subject.groups.iter().filter(|g| group.is_default() && g.is_default() && g.is_master()).map(count).fold(0, u32::saturating_add);
    let workers = match subject.driver() {
        Some(DriverName::K8sCapiHelmV1) => {
            let concerned = |other: &&Nodegroup| !other.is_master() && (group.is_default() || other.uuid == group.uuid);
            subject.groups.iter().filter(concerned).map(count).max().unwrap_or_default()
        }
        _ => count(group).div_ceil(batch.unsigned_abs().max(1)),
    };
    masters.saturating_add(workers).max(1)
}

/// Refuses at once what the driver would refuse (U-09): the conductor asks the cloud too.
async fn check(cx: &Context, subject: &Subject, group: &Nodegroup, wanted: &ClusterTemplate) -> Result<(), ApiError> {
    let (cluster, present) = (&subject.cluster, subject.template.as_ref());
    // A driver that was disabled makes no new clusters, and goes on with those that it made.
    crate::template::serving(wanted, &[])?;
    if subject.driver() != wanted.driver_name() {
        let text = format!("Template {} is of another driver than the cluster.", wanted.uuid);
        return Err(ApiError::field("cluster_template", text));
    }
    if present.is_some_and(|present| present.network_driver != wanted.network_driver) {
        let text = "The pod network of a cluster stays as it is: the templates differ in network_driver.".to_owned();
        return Err(ApiError::field("cluster_template", text));
    }
    let by_heat = wanted.driver_name() == Some(DriverName::K8sFedoraCoreosV1);
    let others: Vec<&str> = subject.groups.iter().filter(|group| !group.is_default()).map(|group| group.name.as_str()).collect();
    if by_heat && !others.is_empty() && present.is_some_and(|present| present.cluster_distro != wanted.cluster_distro) {
        // They keep their image until they are upgraded themselves, and what they would be given to boot from now on is for the new one.
        let text = format!(
            "The templates differ in cluster_distro, and the image of these nodegroups stays as it is: {}. Delete them, and add them again \
             after the upgrade.",
            others.join(", ")
        );
        return Err(ApiError::field("cluster_template", text));
    }
    // The templates are of one driver.
    if !subject.can_replace_nodes(cx).await? {
        let text = "Upstream's driver made this cluster, and its nodes cannot be replaced. Make a new cluster from the template and move the \
                    workload; everything but upgrade, rotation of authorities and credentials, labels and taints works as before.";
        return Err(ApiError::Invalid(text.to_owned()));
    }
    let name = wanted.image_id.as_deref().unwrap_or_default();
    // Of a Cluster API cluster all groups go with a default one.
    let goes_along = |other: &Nodegroup| group.is_default() && (other.is_default() || !by_heat);
    let renewed = subject.groups.iter().filter(|other| other.uuid == group.uuid || goes_along(other));
    let flavors: Vec<&str> = renewed.filter_map(|renewed| renewed.flavor_id.as_deref()).collect();
    let wants = cloud_checks::Wanted { image: Some(name), flavors: flavors.clone(), ..cloud_checks::Wanted::default() };
    let found = cloud_checks::look_up(cx, &wants).await?;
    let image = found.image(name)?;
    // What comes in the place of its nodes is of their flavors and boots as they did. Where no label says how, the stack knows alone: the default
    // may have been another one. A flavor that the caller does not see may be lent to the cluster's project.
    let told = match (by_heat, group.is_default()) {
        (true, true) => cluster.labels(),
        (true, false) => group.labels(),
        (false, _) => wanted.labels().with(Some(cluster.labels()), true),
    };
    let volume = told.get("boot_volume_size").and_then(|size| size.trim().parse().ok());
    flavors.iter().filter(|name| found.flavor(name).is_ok()).try_for_each(|name| found.room(image, name, volume))?;
    if !group.is_default() {
        return Ok(());
    }
    let id = &cluster.cluster_id();
    if cx.shared.store.read(async |conn: &mut Conn| rotation::find(conn, id).await).await?.is_some() {
        let text = "A rotation of the cluster's certificate authorities is unfinished, and masters made now might not be trusted by its workers. \
                    Ask for the rotation again; when it has ended, the cluster can be upgraded.";
        return Err(ApiError::Invalid(text.to_owned()));
    }
    let from = present.map(ClusterTemplate::labels).unwrap_or_default();
    let after = labels::upgraded(&cluster.labels(), &from, &wanted.labels());
    let default = || wanted.driver_name().and_then(|driver| driver.label("kube_tag")).and_then(|label| label.default);
    let version = match wanted.driver_name() {
        // Its images carry Kubernetes with them.
        Some(DriverName::K8sCapiHelmV1) => image.kube_version.as_deref(),
        Some(DriverName::K8sFedoraCoreosV1) | None => after.get("kube_tag").or_else(default),
    };
    if let Some(text) = version.filter(|text| by_heat && Version::parse(text).is_none()) {
        let text = format!("Its label kube_tag must be a version of Kubernetes such as v1.33.5, and is {text}.");
        return Err(ApiError::field("cluster_template", text));
    }
    match (cluster.coe_version.as_deref().and_then(Version::parse), version.and_then(Version::parse)) {
        (Some(present), Some(wanted)) => present.may_become(wanted).map_err(|rule| ApiError::field("cluster_template", format!("{rule}."))),
        _ => Ok(()),
    }
}
