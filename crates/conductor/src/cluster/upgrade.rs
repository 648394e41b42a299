//! A cluster, or one of its groups, is brought to a template: all its nodes are replaced, a few at a time.
//!
//! The rows say what the cluster was until all is done (of a Cluster API cluster: until helm is asked, which then brings it all along): a
//! failed upgrade can be done again and goes on where it was.

use std::sync::Arc;

use futures::future::try_join_all;
use model::cluster::{Cluster, ClusterChange};
use model::id::TemplateId;
use model::json::python_json;
use model::kubernetes::Version;
use model::labels;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationState, OutcomeCode, Payload};
use model::resource::ResourceKind;
use model::store::{Conn, cluster as clusters, nodegroup, resource, rotation, template};
use model::template::ClusterTemplate;
use provider_clients::Session;

use super::replacement::{self, Next, Replacing};
use super::{Rows, rows};
use crate::context::Context;
use crate::driver::{Handle, PoolKind, Target, capi_helm};
use crate::outcome::{Failure, Turn};
use crate::plan::Seen;
use crate::settle::{self, End};
use crate::stack::Whose;
use crate::worker::{Work, succeed};
use crate::{credentials, driver};

/// Stacks of groups that are looked at at a time.
const AT_ONCE: usize = 8;

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    let payload = work.payload()?;
    let goal = Goal::read(cx, &rows, rows.group(&payload)?, &payload).await?;
    check_kept(rows.template.as_ref(), &goal.template)?;
    if capi_helm::is_ours(&rows) {
        // Its version is the image's, and what it has been is asked before it changes.
        let cluster = Cluster { coe_version: rows.cluster.coe_version.clone(), ..goal.cluster };
        return capi_helm::turn(cx, work, &rows.after(cluster, goal.groups, goal.template)).await;
    }
    check_distro(&rows, &goal.template)?;
    check_authorities(cx, &rows, goal.group).await?;
    let session = credentials::for_stacks(cx, work, &rows).await?;
    let observed = driver::observe(&rows.stack_of(goal.group).handle, &session).await?;
    let aim = goal.aim();
    let replacing = Replacing {
        whose: Whose::of(&rows.cluster, goal.group),
        pools: goal.pools(),
        beside: None,
        generation: &goal.generation,
        batch: goal.batch,
        aim: &aim,
    };
    match replacement::next(cx, work, &session, observed, &replacing).await? {
        Next::Turn(turn) => Ok(turn),
        Next::Done(seen) => finish(cx, work, &rows, &goal, &session, &seen).await,
        Next::Send(todo, seen) => {
            let target = goal.target(&rows, &session);
            let made = replacement::prepare(cx, work, &target, &replacing, (&todo, &seen)).await?;
            if todo.begins {
                check_versions((&rows.cluster, &rows.groups), (goal.group, &seen), &session, &made.new.kube_version).await?;
            }
            replacement::send(cx, work, &session, &seen, &todo, &made).await
        }
    }
}

/// Refuses masters that workers would not trust: those that are made while a rotation of authorities has not come to its end. The API says so of a new
/// request; an older one may be done again in the midst of a rotation that has failed.
async fn check_authorities(cx: &Context, rows: &Rows, group: &Nodegroup) -> Result<(), Failure> {
    if !group.is_default() {
        return Ok(());
    }
    let id = &rows.cluster.cluster_id();
    match cx.store.read(async |conn: &mut Conn| rotation::find(conn, id).await).await? {
        Some(_) => {
            let text = "a rotation of the cluster's certificate authorities is unfinished: ask for it again, and for the upgrade when it has ended";
            Err(Failure::fail(OutcomeCode::User, text))
        }
        None => Ok(()),
    }
}

/// What the cluster shall be.
struct Goal<'a> {
    /// The group that the request names: with the default one go the masters.
    group: &'a Nodegroup,
    /// The rows as they will be.
    cluster: Cluster,
    groups: Vec<Nodegroup>,
    template: ClusterTemplate,
    generation: String,
    batch: i32,
}

/// The rows as an upgrade of a group leaves them; with the default one goes the cluster. `all`: all groups run what the control plane runs.
pub(crate) fn rows_after(
    (cluster, groups): (&Cluster, &[Nodegroup]),
    group: &Nodegroup,
    (from, to): (Option<&ClusterTemplate>, &ClusterTemplate),
    all: bool,
) -> (Cluster, Vec<Nodegroup>) {
    let (old, new) = (from.map(ClusterTemplate::labels).unwrap_or_default(), to.labels());
    let mut cluster = cluster.clone();
    let concerned = |other: &Nodegroup| match group.is_default() {
        true => all || other.is_default(),
        false => other.uuid == group.uuid,
    };
    if group.is_default() {
        let labels = labels::upgraded(&cluster.labels(), &old, &new);
        // The version that new workers get is the cluster's, which is now what its labels say.
        cluster.coe_version = labels.get("kube_tag").map(str::to_owned);
        cluster.labels = Some(labels.column());
        cluster.cluster_template_id = Some(to.uuid.clone());
    }
    let mut groups = groups.to_vec();
    for group in groups.iter_mut().filter(|other| concerned(other)) {
        group.image_id.clone_from(&to.image_id);
        group.labels = Some(labels::upgraded(&group.labels(), &old, &new).column());
    }
    (cluster, groups)
}

impl<'a> Goal<'a> {
    async fn read(cx: &Context, rows: &Rows, group: &'a Nodegroup, payload: &Payload) -> Result<Self, Failure> {
        let id = payload.template.as_ref().map(TemplateId::as_str).unwrap_or_default();
        if group.is_master() && !capi_helm::is_ours(rows) {
            return Err(Failure::fail(OutcomeCode::User, "masters are upgraded with their cluster, whose group is default-worker"));
        }
        let found = cx.store.read(async |conn: &mut Conn| template::with_uuid(conn, id).await).await?;
        let template = found.ok_or_else(|| Failure::fail(OutcomeCode::User, "the template of the upgrade is gone"))?;
        let templates = (rows.template.as_ref(), &template);
        let (cluster, groups) = rows_after((&rows.cluster, &rows.groups), group, templates, capi_helm::is_ours(rows));
        let generation =
            payload.generation.clone().ok_or_else(|| Failure::fail(OutcomeCode::Internal, "an upgrade without a generation"))?;
        Ok(Self { group, cluster, groups, template, generation, batch: payload.max_batch_size.unwrap_or(1) })
    }

    /// What is replaced, in this order.
    fn pools(&self) -> Vec<(PoolKind, &Nodegroup)> {
        let workers = (PoolKind::Workers, self.future(self.group));
        let master = self.groups.iter().find(|g| g.is_default() && g.is_master());
        match master.filter(|_| self.group.is_default()) {
            Some(master) => vec![(PoolKind::Masters, master), workers],
            None => vec![workers],
        }
    }

    fn future<'b>(&'b self, group: &'b Nodegroup) -> &'b Nodegroup {
        self.groups.iter().find(|g| g.uuid == group.uuid).unwrap_or(group)
    }

    /// What is told while the stack is at work.
    fn aim(&self) -> String {
        let what = if self.group.is_default() { "cluster" } else { &self.group.name };
        format!("upgrading {what} to {}", self.template.name.as_deref().unwrap_or(&self.template.uuid))
    }

    fn target<'b>(&'b self, rows: &'b Rows, session: &'b Session) -> Target<'b> {
        Target { cluster: &self.cluster, groups: &self.groups, nodes: &rows.nodes, template: &self.template, session }
    }
}

/// Refuses another driver and another pod network: nodes of both would be no cluster. The API refuses them too; a template that the cluster has not come to
/// may have been changed since, and the upgrade be done again.
fn check_kept(present: Option<&ClusterTemplate>, wanted: &ClusterTemplate) -> Result<(), Failure> {
    let Some(present) = present else { return Ok(()) };
    let differs = if present.driver_name() != wanted.driver_name() {
        "driver"
    } else if present.network_driver != wanted.network_driver {
        "network_driver"
    } else {
        return Ok(());
    };
    let text = format!(
        "the templates differ in {differs}, and that of a cluster stays as it is: change template {} back, or take another",
        wanted.uuid
    );
    Err(Failure::fail(OutcomeCode::User, text))
}

/// Refuses another distribution beside groups that have nodes: they keep their image, and what they would boot from from now on is written for the new
/// one. The API refuses that too; a group may have come since, and the upgrade be done again. One that waits has no stack, and is refused at its turn.
fn check_distro(rows: &Rows, wanted: &ClusterTemplate) -> Result<(), Failure> {
    if rows.template.as_ref().is_none_or(|present| present.cluster_distro == wanted.cluster_distro) {
        return Ok(());
    }
    let others = rows.groups.iter().filter(|group| !group.is_default() && group.stack_id.is_some());
    let others: Vec<&str> = others.map(|group| group.name.as_str()).collect();
    if others.is_empty() {
        return Ok(());
    }
    let text = format!(
        "the templates differ in cluster_distro, and the image of these nodegroups stays as it is: {}; delete them, and add them again after the upgrade",
        others.join(", ")
    );
    Err(Failure::fail(OutcomeCode::User, text))
}

/// What the masters of a cluster run: what its row says, or more where an upgrade has replaced all of them and was cut off before its end.
fn present(cluster: &Cluster, group: &Nodegroup, seen: &Seen) -> Option<Version> {
    let row = cluster.coe_version.as_deref().and_then(Version::parse)?;
    let masters = seen.masters.as_deref().filter(|masters| group.is_default() && masters.former.is_empty());
    let stack = masters.and(seen.kube_version.as_deref()).and_then(Version::parse);
    Some(stack.map_or(row, |stack| row.max(stack)))
}

/// Checked before anything moves: which version may follow which, and what may stay beside it. The rows are those of now; `wanted` is what the nodes
/// of the group will run, `seen` the stack that they are in.
pub(crate) async fn check_versions(
    (cluster, groups): (&Cluster, &[Nodegroup]),
    (group, seen): (&Nodegroup, &Seen),
    session: &Session,
    wanted: &str,
) -> Result<(), Failure> {
    let refuse = |rule: String| Failure::fail(OutcomeCode::User, rule);
    let Some(wanted) = Version::parse(wanted) else { return Ok(()) };
    let Some(present) = present(cluster, group, seen) else { return Ok(()) };
    if !group.is_default() {
        return wanted.may_serve(present).map_err(refuse);
    }
    present.may_become(wanted).map_err(refuse)?;
    let others: Vec<&Nodegroup> = groups.iter().filter(|g| !g.is_default()).collect();
    for some in others.chunks(AT_ONCE) {
        let handles: Vec<Handle> = some.iter().map(|group| Handle::of_group(cluster, group)).collect();
        let observed = try_join_all(handles.iter().map(|handle| driver::observe(handle, session))).await?;
        for (group, observed) in some.iter().zip(observed) {
            let version = observed.seen().and_then(|seen| seen.kube_version.as_deref()).and_then(Version::parse);
            if let Some(version) = version {
                version.may_serve(wanted).map_err(|rule| refuse(format!("nodegroup {}: {rule}; upgrade it first", group.name)))?;
            }
        }
    }
    Ok(())
}

/// Refuses whatever makes masters of what the rows say while an upgrade is half done: the rows say what the cluster was until all is done, and
/// masters of then would join those of now. `seen` is the cluster's stack, `then` what is to be asked for when the upgrade has ended.
pub(super) fn check_whole(cluster: &Cluster, seen: &Seen, then: &str) -> Result<(), Failure> {
    if seen.kube_version.is_none() || cluster.coe_version.is_none() || seen.kube_version == cluster.coe_version {
        return Ok(());
    }
    let text = format!("an upgrade of the cluster is half done: resize it to the size it has, upgrade it again, and {then} then");
    Err(Failure::fail(OutcomeCode::User, text))
}

/// Ends the operation well: the rows say what the cluster has become.
async fn finish(cx: &Context, work: &Work, rows: &Rows, goal: &Goal<'_>, session: &Session, seen: &Seen) -> Result<Turn, Failure> {
    let facts = driver::facts(&rows.cluster, session, seen).await?;
    let change = |group: &Nodegroup, addresses: &[String]| NodegroupChange {
        stack_id: Some(Some(seen.stack_id.clone())),
        image_id: Some(group.image_id.clone()),
        labels: Some(group.labels.clone()),
        node_addresses: Some(python_json(addresses)),
        ..NodegroupChange::default()
    };
    let workers = NodegroupChange { node_count: seen.workers.count, ..change(goal.future(goal.group), &facts.worker_addresses) };
    let masters: Vec<_> = goal
        .pools()
        .into_iter()
        .filter(|(kind, _)| *kind == PoolKind::Masters)
        .map(|(_, group)| (group.nodegroup_id(), change(group, &facts.master_addresses)))
        .collect();
    let of_cluster = goal.group.is_default().then(|| ClusterChange {
        cluster_template_id: Some(goal.cluster.cluster_template_id.clone()),
        labels: Some(goal.cluster.labels.clone()),
        coe_version: facts.kube_version.clone().map(Some),
        api_address: Some(facts.api_address.clone()),
        ..ClusterChange::default()
    });
    let note = driver::note_of_version(facts.kube_version.as_deref()).filter(|_| goal.group.is_default());
    let end = End { state: OperationState::Succeeded, group: Some(goal.group), facts: workers, reason: note.as_deref() };
    let (id, end, masters, of_cluster) = (&rows.cluster.cluster_id(), &end, &masters, &of_cluster);
    succeed(cx, work, async |conn: &mut Conn| {
        resource::record(conn, id, ResourceKind::Stack, &seen.stack_name, Some(&seen.stack_id)).await?;
        for (group, change) in masters {
            nodegroup::record(conn, group, change).await?;
        }
        if let Some(change) = of_cluster {
            clusters::record(conn, id, change).await?;
        }
        settle::record(conn, &work.operation, end).await
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::capi_helm::tests as rows;
    use crate::plan::Pool;

    #[test]
    fn a_cluster_whose_stack_is_of_another_version_than_its_row_is_not_whole() {
        let check = |row: Option<&str>, stack: Option<&str>| {
            let cluster = Cluster { coe_version: row.map(str::to_owned), ..rows::cluster() };
            let seen = Seen { kube_version: stack.map(str::to_owned), ..Seen::default() };
            check_whole(&cluster, &seen, "rotate")
        };
        for (row, stack) in [(Some("v1.33.1"), Some("v1.33.1")), (None, Some("v1.33.1")), (Some("v1.33.1"), None)] {
            assert_eq!(check(row, stack), Ok(()), "{row:?} {stack:?}");
        }
        let told = check(Some("v1.33.1"), Some("v1.34.0"));
        assert!(
            matches!(&told, Err(Failure::Final { code: OutcomeCode::User, reason, .. }) if reason.ends_with("upgrade it again, and rotate then")),
            "{told:?}"
        );
    }

    #[test]
    fn masters_that_were_all_replaced_are_of_the_version_of_their_stack() {
        let cluster = Cluster { coe_version: Some("v1.35.0".into()), ..rows::cluster() };
        let seen = |version: &str, former: &[&str]| {
            let former = former.iter().map(|number| ((*number).to_owned(), "old".to_owned())).collect();
            Seen { kube_version: Some(version.into()), masters: Some(Box::new(Pool { former, ..Pool::default() })), ..Seen::default() }
        };
        let group = |is_default| Nodegroup { is_default: Some(is_default), ..Nodegroup::default() };
        for (what, is_default, seen, wanted) in [
            ("at rest", true, seen("v1.35.0", &[]), "v1.35.0"),
            ("all replaced", true, seen("v1.36.9", &[]), "v1.36.9"),
            ("one never became a node, and another version is to be tried", true, seen("v1.36.99", &["0"]), "v1.35.0"),
            ("a group with a stack of its own", false, seen("v1.36.9", &[]), "v1.35.0"),
            ("a stack that upstream made", true, Seen { kube_version: Some("v1.36.9".into()), ..Seen::default() }, "v1.35.0"),
        ] {
            assert_eq!(present(&cluster, &group(is_default), &seen), Version::parse(wanted), "{what}");
        }
    }
}
