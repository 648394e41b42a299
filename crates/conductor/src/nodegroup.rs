//! The reconcilers of nodegroups, and what they share with the resize of a cluster's default group.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod halfway;
pub(crate) mod objects;
pub(crate) mod update;

use model::json::python_json;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationState, OutcomeCode};
use model::resource::ResourceKind;
use model::store::{Conn, resource};
use model::template::ClusterTemplate;
use provider_clients::Session;

use crate::cluster::{Rows, addresses};
use crate::context::Context;
use crate::driver;
use crate::outcome::{Failure, Turn};
use crate::plan::{Observed, Seen};
use crate::settle::{self, End};
use crate::stack::{self, Whose};
use crate::worker::{Work, succeed};
use crate::{certificates, credentials};

/// Makes the stack of a group; the cluster's own tells what it joins.
pub(crate) async fn make(cx: &Context, work: &Work, rows: &Rows, group: &Nodegroup, session: &Session) -> Result<Turn, Failure> {
    let own = match driver::observe(&rows.stack().handle, session).await? {
        Observed::Building(seen) | Observed::Ready(seen) | Observed::RolledBack { seen, .. } | Observed::Broken { seen, .. } => seen,
        Observed::Absent | Observed::Foreign { .. } | Observed::Leaving(_) | Observed::Stuck { .. } => {
            return Err(Failure::fail(OutcomeCode::Cloud, "the cluster's own stack is gone"));
        }
    };
    let minutes = stack::minutes_left(cx, work);
    let whose = Whose::Group(&rows.cluster, group);
    if own.has_our_workers {
        let target = rows.target(session)?;
        boots(target.template, group, session).await?;
        addresses::suffice(cx, rows, group, &own, u64::try_from(group.node_count()).unwrap_or(0)).await?;
        let material = certificates::material(cx, &rows.cluster).await?;
        let new = driver::prepare_group(&cx.settings, &target, group, &own, &material, minutes).await?;
        return stack::make(cx, work, whose, &creating(group), &target, &new).await;
    }
    let maker = match session.info().await?.trust_id {
        None => session.clone(),
        // Heat makes a trust of its own for each stack, and upstream's cannot be delegated further.
        Some(_) => {
            let why = "the trust that upstream's driver made cannot carry a new stack";
            credentials::of_caller(cx, work, &rows.cluster, why).await?
        }
    };
    let target = rows.target(&maker)?;
    let password = rows.cluster.trustee_password(cx.store.vault())?;
    let new = driver::prepare_adopted_group(&cx.settings, &target, group, &own, password.as_ref(), minutes).await?;
    stack::make(cx, work, whose, &creating(group), &target, &new).await
}

/// Refuses a group whose image is of another distribution than what its nodes are given to boot from. The API refuses that too; an upgrade of the
/// cluster may have come between the request and its turn.
async fn boots(template: &ClusterTemplate, group: &Nodegroup, session: &Session) -> Result<(), Failure> {
    let Some(own) = other_distro(template, group.image_id.as_deref(), session).await? else { return Ok(()) };
    let distro = template.cluster_distro.as_deref().unwrap_or_default();
    let image = group.image_id.as_deref().unwrap_or_default();
    let text = format!("the nodes of this cluster boot as those of {distro}, and image {image} of nodegroup {} is of {own}", group.name);
    Err(Failure::fail(OutcomeCode::User, text))
}

/// The distribution of an image, where it is another one than that of a template.
pub(crate) async fn other_distro(template: &ClusterTemplate, image: Option<&str>, session: &Session) -> Result<Option<String>, Failure> {
    let Some(distro) = template.cluster_distro.as_deref() else { return Ok(None) };
    let Some(image) = image.filter(|image| template.image_id.as_deref() != Some(image)) else { return Ok(None) };
    // One that is not there is Heat's to tell.
    let found = session.glance().find_images(image).await?;
    Ok(found.into_iter().next().and_then(|image| image.os_distro).filter(|own| own != distro))
}

/// What is told of a group that is being made.
fn creating(group: &Nodegroup) -> String {
    format!("creating nodegroup {}", group.name)
}

/// What the stack of a group tells of it at rest: its nodes and how many they are.
async fn facts(rows: &Rows, session: &Session, seen: &Seen) -> Result<NodegroupChange, Failure> {
    let facts = driver::facts(&rows.cluster, session, seen).await?;
    Ok(NodegroupChange {
        stack_id: Some(Some(seen.stack_id.clone())),
        node_addresses: Some(python_json(&facts.worker_addresses)),
        node_count: seen.workers.count,
        ..NodegroupChange::default()
    })
}

/// Ends the operation well: the group is as wanted; its nodes are read from its stack. `note` is what its owner is to be told all the same.
pub(crate) async fn finish(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    group: &Nodegroup,
    session: &Session,
    seen: &Seen,
    note: Option<String>,
) -> Result<Turn, Failure> {
    let facts = facts(rows, session, seen).await?;
    let end = End { state: OperationState::Succeeded, group: Some(group), facts, reason: note.as_deref() };
    let (id, end, seen) = (&rows.cluster.cluster_id(), &end, &seen);
    succeed(cx, work, async |conn: &mut Conn| {
        resource::record(conn, id, ResourceKind::Stack, &seen.stack_name, Some(&seen.stack_id)).await?;
        settle::record(conn, &work.operation, end).await
    })
    .await
}
