//! A cluster, or one of its groups, is brought to a template: all its nodes are replaced, a few at a time.
//!
//! Masters go one by one, then workers by batches: new nodes are made first, they see off as many old ones (from inside the cluster: see
//! `driver/heat/scripts/succession.sh`) before they report ready, then those are taken away. The stack's own parameters tell how far it is
//! (`plan/roll.rs`). The rows say what the cluster was until all is done: a failed upgrade can be done again and goes on where it was.

use std::sync::Arc;

use model::cluster::{Cluster, ClusterChange};
use model::id::TemplateId;
use model::json::python_json;
use model::kubernetes::Version;
use model::labels;
use model::nodegroup::{Nodegroup, NodegroupChange};
use model::operation::{OperationEvent, OperationState, OutcomeCode, Payload, Progress};
use model::resource::ResourceKind;
use model::store::{Conn, cluster as clusters, nodegroup, resource, template};
use model::template::ClusterTemplate;
use provider_clients::Session;

use super::{Rows, rows};
use crate::context::Context;
use crate::driver::{Handle, NewNodes, PoolKind, Target, capi_helm};
use crate::outcome::{Failure, Turn};
use crate::plan::{self, Observed, Replacement, RollStep, Seen, Sent, UpdateStep};
use crate::settle::{self, End};
use crate::stack::{self, Whose};
use crate::worker::{Work, succeed};
use crate::{certificates, credentials, driver};

/// The event of a step of the replacement, in words.
const STEP: &str = "node_replacement";

/// What a user can do about it.
const WAY_OUT: &str = "the nodes of this cluster cannot be replaced: upstream's driver or an early release made its stack. Make a new cluster \
    from the template and move the workload; resize, nodegroups, health and deletion go on working";

/// One turn.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work) -> Result<Turn, Failure> {
    let rows = rows(cx, work).await?;
    let payload = work.payload()?;
    let goal = Goal::read(cx, &rows, rows.group(&payload)?, &payload).await?;
    if capi_helm::is_ours(&rows) {
        // Its version is the image's, and what it has been is asked before it changes.
        let cluster = Cluster { coe_version: rows.cluster.coe_version.clone(), ..goal.cluster };
        return capi_helm::turn(cx, work, &rows.after(cluster, goal.groups, goal.template)).await;
    }
    let session = credentials::for_existing(cx, work, &rows.cluster).await?;
    let observed = driver::observe(&rows.stack_of(goal.group).handle, &session).await?;
    tracing::debug!(?observed, "observed");
    if let Some(seen) = observed.seen()
        && (seen.masters.is_none() && goal.group.is_default() || seen.minions.is_none())
    {
        return Err(Failure::fail(OutcomeCode::User, WAY_OUT));
    }
    let events = stack::events(cx, work).await?;
    let is_broken = matches!(observed, Observed::Broken { .. });
    let todo = match observed.at_rest() {
        Some(seen) => first_undone(work, &goal, &session, seen, is_broken).await?,
        None => None,
    };
    let sent = sent(cx, &events, todo.as_ref());
    match plan::change(observed, todo.is_none(), sent.as_ref()) {
        UpdateStep::Make => Err(Failure::fail(OutcomeCode::Cloud, "the stack is gone")),
        UpdateStep::Wait(seen) => {
            let verb = goal.verb(work, &seen);
            stack::follow(cx, work, Whose::of(&rows.cluster, goal.group), &verb, seen, &session).await
        }
        UpdateStep::WaitForBeginning(seen) => stack::wait_for(cx, work, &format!("the change of stack {}", seen.stack_name)).await,
        UpdateStep::Finish(seen) => finish(cx, work, &rows, &goal, &session, &seen).await,
        UpdateStep::Fail { reason, .. } => Err(Failure::of_stack(reason)),
        UpdateStep::Send(seen) => match todo {
            Some(todo) => send(cx, work, &rows, &goal, &session, &seen, todo).await,
            None => Err(Failure::retry("there is nothing to change, and the stack is not at rest")),
        },
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

impl<'a> Goal<'a> {
    async fn read(cx: &Context, rows: &Rows, group: &'a Nodegroup, payload: &Payload) -> Result<Self, Failure> {
        let id = payload.template.as_ref().map(TemplateId::as_str).unwrap_or_default();
        let found = cx.store.read(async |conn: &mut Conn| template::by_ids(conn, &[id]).await).await?.pop();
        let template = found.ok_or_else(|| Failure::fail(OutcomeCode::User, "the template of the upgrade is gone"))?;
        let (from, to) = (rows.template.as_ref().map(ClusterTemplate::labels).unwrap_or_default(), template.labels());
        let mut cluster = rows.cluster.clone();
        let concerned = |other: &Nodegroup| if group.is_default() { other.is_default() } else { other.uuid == group.uuid };
        if group.is_default() {
            let labels = labels::upgraded(&cluster.labels(), &from, &to);
            // The version that new workers get is the cluster's, which is now what its labels say.
            cluster.coe_version = labels.get("kube_tag").map(str::to_owned);
            cluster.labels = Some(labels.column());
            cluster.cluster_template_id = Some(template.uuid.clone());
        }
        let mut groups = rows.groups.clone();
        for group in groups.iter_mut().filter(|other| concerned(other)) {
            group.image_id.clone_from(&template.image_id);
            group.labels = Some(labels::upgraded(&group.labels(), &from, &to).column());
        }
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

    fn replacement(&self, kind: PoolKind, group: &Nodegroup) -> Replacement {
        // Etcd changes by one member at a time.
        let batch = if kind == PoolKind::Masters { 1 } else { self.batch };
        Replacement { generation: self.generation.clone(), count: group.node_count(), batch }
    }

    /// What is told while the stack is at work.
    fn verb(&self, work: &Work, seen: &Seen) -> String {
        let what = if self.group.is_default() { "cluster" } else { &self.group.name };
        let left = |kind: PoolKind| kind.of(seen).filter(|pool| pool.generation == self.generation).map(|pool| pool.former.len());
        let progress = match (left(PoolKind::Masters), left(PoolKind::Workers)) {
            (_, Some(left)) => format!("{left} workers left to replace"),
            (Some(left), None) => format!("{left} masters left to replace"),
            (None, None) => "beginning".to_owned(),
        };
        tracing::debug!(operation = %work.operation.uuid, %progress, "upgrading");
        format!("upgrading {what} to {} ({progress})", self.template.name.as_deref().unwrap_or(&self.template.uuid))
    }

    fn target<'b>(&'b self, rows: &'b Rows, session: &'b Session) -> Target<'b> {
        Target { cluster: &self.cluster, groups: &self.groups, nodes: &rows.nodes, template: &self.template, session }
    }
}

/// A pool that is not wholly of the wanted generation, and what to do about it.
struct Todo<'a> {
    kind: PoolKind,
    group: &'a Nodegroup,
    step: RollStep,
    /// In words; the same for the same step.
    words: String,
    begins: bool,
}

async fn first_undone<'a>(
    work: &Work,
    goal: &'a Goal<'_>,
    session: &Session,
    seen: &Seen,
    is_broken: bool,
) -> Result<Option<Todo<'a>>, Failure> {
    for (kind, group) in goal.pools() {
        let Some(pool) = kind.of(seen) else { continue };
        let members: Vec<String> = driver::members(session, seen, kind).await?.into_iter().map(|m| m.number).collect();
        let wanted = goal.replacement(kind, group);
        let begins = pool.generation != wanted.generation;
        let step = match plan::next_replacement(pool, &members, &wanted) {
            RollStep::Done if !is_broken => continue,
            // What the stack failed at is tried again before anything else: what was to come first may not be there.
            _ if is_broken && !begins => RollStep::Done,
            step => step,
        };
        tracing::debug!(operation = %work.operation.uuid, ?kind, ?step, "replacement");
        return Ok(Some(Todo { words: words(&group.name, &step), kind, group, step, begins }));
    }
    Ok(None)
}

fn words(group: &str, step: &RollStep) -> String {
    match step {
        RollStep::Add { count, replaces, .. } if replaces.is_empty() => format!("{group}: {count} nodes, new ones are of the template"),
        RollStep::Add { count, replaces, .. } => format!("{group}: {count} nodes, new ones replace {}", replaces.join(", ")),
        RollStep::Remove { count, numbers } => format!("{group}: {count} nodes, without {}", numbers.join(", ")),
        RollStep::Done => format!("{group}: once more what failed"),
    }
}

/// What was asked last, and how often the step that comes now.
fn sent(cx: &Context, events: &[OperationEvent], todo: Option<&Todo<'_>>) -> Option<Sent> {
    let is_same = |e: &&OperationEvent| todo.is_some_and(|todo| e.message == todo.words);
    let tries = events.iter().rev().filter(|e| e.kind == STEP).take_while(is_same).count();
    stack::sent(cx, events, tries)
}

/// Asks the stack for the next step, recorded first.
async fn send(
    cx: &Context,
    work: &Work,
    rows: &Rows,
    goal: &Goal<'_>,
    session: &Session,
    seen: &Seen,
    todo: Todo<'_>,
) -> Result<Turn, Failure> {
    // A step has as long as the making of the cluster had.
    let whole = rows.cluster.create_timeout.and_then(|minutes| u32::try_from(minutes).ok()).filter(|minutes| *minutes > 0);
    let minutes = stack::minutes_left(cx, work).min(whole.unwrap_or(cx.settings.create_timeout_minutes));
    let material = certificates::material(cx, &goal.cluster).await?;
    let target = goal.target(rows, session);
    let new = driver::new_nodes(&cx.settings, &target, (todo.kind, todo.group), &material, (&goal.generation, minutes))?;
    if todo.begins {
        check_versions(rows, goal, session, &new).await?;
    }
    let waiting_for = Some(format!("the change of stack {}", seen.stack_name));
    let progress = Progress { step: "replacement", waiting_for, ..Progress::default() };
    stack::record(cx, work, &progress, &[(STEP, &todo.words), (stack::UPDATE, &seen.changed)]).await?;
    driver::replace(session, seen, todo.kind, &todo.step, &new, minutes).await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_min })
}

/// Checked before anything moves: which version may follow which, and what may stay beside it.
async fn check_versions(rows: &Rows, goal: &Goal<'_>, session: &Session, new: &NewNodes) -> Result<(), Failure> {
    let refuse = |rule: String| Failure::fail(OutcomeCode::User, rule);
    let Some(wanted) = Version::parse(&new.kube_version) else { return Ok(()) };
    let Some(present) = rows.cluster.coe_version.as_deref().and_then(Version::parse) else { return Ok(()) };
    if !goal.group.is_default() {
        return wanted.may_serve(present).map_err(refuse);
    }
    present.may_become(wanted).map_err(refuse)?;
    for group in rows.groups.iter().filter(|g| !g.is_default()) {
        let observed = driver::observe(&Handle::of_group(&rows.cluster, group), session).await?;
        let version = observed.seen().and_then(|seen| seen.kube_version.as_deref()).and_then(Version::parse);
        if let Some(version) = version {
            version.may_serve(wanted).map_err(|rule| refuse(format!("nodegroup {}: {rule}; upgrade it first", group.name)))?;
        }
    }
    Ok(())
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
    let end = End { state: OperationState::Succeeded, group: Some(goal.group), facts: workers, reason: None };
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
