//! Waiting for a stack, and telling meanwhile how far it has come.

use std::time::Duration;

use model::cluster::ClusterChange;
use model::id::NodegroupId;
use model::nodegroup::NodegroupChange;
use model::operation::Progress;
use model::store::{Conn, cluster as clusters, nodegroup, operation};
use provider_clients::Session;

use super::Whose;
use crate::context::Context;
use crate::outcome::{Failure, Follow, Turn};
use crate::plan::Seen;
use crate::worker::Work;

/// Shows how far a stack has come, and waits until it has moved.
pub(crate) async fn follow(
    cx: &Context,
    work: &Work,
    whose: Whose<'_>,
    verb: &str,
    seen: Seen,
    session: &Session,
) -> Result<Turn, Failure> {
    show_progress(cx, work, whose, "stack", verb, &seen).await?;
    Ok(Turn::Follow(vec![Follow::new(whose, verb, seen, session)]))
}

/// As [`follow`], and looks at the stack after a time at the latest, whether it has moved or not.
pub(crate) async fn follow_for(
    cx: &Context,
    work: &Work,
    whose: Whose<'_>,
    verb: &str,
    seen: Seen,
    session: &Session,
    longest: Duration,
) -> Result<Turn, Failure> {
    show_progress(cx, work, whose, "stack", verb, &seen).await?;
    Ok(Turn::Follow(vec![Follow { at_most: Some(longest), ..Follow::new(whose, verb, seen, session) }]))
}

/// Waits for something that was asked for and cannot be seen yet.
pub(crate) async fn wait_for(cx: &Context, work: &Work, what: &str) -> Result<Turn, Failure> {
    work.guard(cx, &Progress { step: "stack", waiting_for: Some(what.to_owned()), ..Progress::default() }).await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_min })
}

/// Waits for a stack that was asked for without a clear answer: it may still appear (see [`Known::is_settled`](super::Known::is_settled)).
pub(crate) async fn await_unclear(cx: &Context, work: &Work) -> Result<Turn, Failure> {
    wait_for(cx, work, "a stack that was asked for without a clear answer").await
}

/// Waits until nothing can be on its way any more that the failed operation has asked for which this one does again (see [`Work::is_settled`]).
pub(crate) async fn await_former(cx: &Context, work: &Work) -> Result<Turn, Failure> {
    wait_for(cx, work, "what the failed attempt before may still have under way").await
}

/// Where the progress of a stack is told, and in which words; what is kept of it while an operation waits.
pub(crate) struct Told {
    /// The group, where the stack is a group's alone.
    group: Option<NodegroupId>,
    is_of_cluster: bool,
    verb: Box<str>,
}

impl Follow {
    pub(super) fn new(whose: Whose<'_>, verb: &str, seen: Seen, session: &Session) -> Self {
        let (project, told) = (whose.cluster().project().0, Told::of(whose, verb));
        Self { project, seen, session: session.clone(), told, at_most: None }
    }
}

impl Told {
    fn of(whose: Whose<'_>, verb: &str) -> Self {
        let is_of_cluster = matches!(whose, Whose::Cluster(_));
        Self { group: whose.group_id(), is_of_cluster, verb: verb.into() }
    }

    fn text(&self, seen: &Seen) -> String {
        format!("{}: {} of {} resources complete, waiting for {}", self.verb, seen.done, seen.total, seen.waiting_for())
    }
}

/// As [`tell`], unless the row says so already.
pub(crate) async fn show_progress(
    cx: &Context,
    work: &Work,
    whose: Whose<'_>,
    step: &'static str,
    verb: &str,
    seen: &Seen,
) -> Result<(), Failure> {
    let told = Told::of(whose, verb);
    let stack_id = match whose {
        Whose::Cluster(cluster) => &cluster.stack_id,
        Whose::Group(_, group) => &group.stack_id,
        Whose::Nobody(_) => &None,
    };
    let is_told = whose.cluster().status_reason.as_deref() == Some(told.text(seen).as_str());
    if is_told && stack_id.as_deref() == Some(seen.stack_id.as_str()) {
        return Ok(());
    }
    tell(cx, work, &told, step, seen).await
}

/// Records how far a stack has come: on the operation, and in words in the `status_reason` of cluster and group, where every old client
/// shows it.
pub(crate) async fn tell(cx: &Context, work: &Work, told: &Told, step: &'static str, seen: &Seen) -> Result<(), Failure> {
    let progress = Progress { step, waiting_for: Some(seen.waiting_for()), done: seen.done, total: seen.total };
    let text = told.text(seen);
    let own = told.is_of_cluster.then(|| Some(seen.stack_id.clone()));
    let change = ClusterChange { status_reason: Some(Some(text.clone())), stack_id: own, ..ClusterChange::default() };
    let of_group =
        NodegroupChange { status_reason: Some(Some(text)), stack_id: Some(Some(seen.stack_id.clone())), ..NodegroupChange::default() };
    let id = &work.operation.cluster_id();
    let (change, progress, group, of_group) = (&change, &progress, &told.group, &of_group);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            if let Some(group) = group {
                nodegroup::record(conn, group, of_group).await?;
            }
            clusters::record(conn, id, change).await
        })
        .await?;
    Ok(())
}
