//! The reconcilers of clusters.

pub(crate) mod create;
pub(crate) mod delete;

use chrono::{DateTime, Utc};
use model::cluster::{Cluster, ClusterChange};
use model::nodegroup::Nodegroup;
use model::operation::Progress;
use model::resource::ResourceKind;
use model::store::{Conn, Scope, StoreError, cluster as clusters, nodegroup, operation, resource, template};
use model::template::ClusterTemplate;
use model::time::{from_millis, now};

use crate::context::Context;
use crate::outcome::{Failure, Turn};
use crate::plan::{self, Seen};
use crate::worker::Work;

/// The rows that an operation on a cluster works from.
pub(crate) struct Rows {
    pub cluster: Cluster,
    pub groups: Vec<Nodegroup>,
    /// None when the template's row is missing (upstream's old databases have such clusters).
    pub template: Option<ClusterTemplate>,
    /// Whether a stack was made, or may have been: its id is known, or the intention to make it is recorded.
    pub may_have_stack: bool,
    /// When a stack was last asked for without a clear answer: it may still appear.
    pub unclear_since: Option<DateTime<Utc>>,
}

impl Rows {
    /// Whether "there is no stack" can be believed yet.
    pub fn is_settled(&self, cx: &Context) -> bool {
        self.unclear_since.is_none_or(|at| (now() - at).to_std().unwrap_or_default() >= cx.settings.timing.settle)
    }
}

/// Reads the rows; none when the cluster is gone.
pub(crate) async fn rows(cx: &Context, work: &Work) -> Result<Option<Rows>, StoreError> {
    let id = work.operation.cluster_id();
    cx.store
        .read(async |conn: &mut Conn| {
            let Some(cluster) = clusters::find(conn, &Scope::All, &id).await? else { return Ok(None) };
            let groups = nodegroup::of_cluster(conn, &id).await?;
            let reference = cluster.cluster_template_id.clone().unwrap_or_default();
            let template = template::by_ids(conn, &[&reference]).await?.pop();
            let recorded = resource::of_cluster(conn, &id).await?.into_iter().find(|r| r.kind == ResourceKind::Stack.as_str());
            let may_have_stack = recorded.is_some() || cluster.stack_id.is_some();
            let unclear_since = recorded.filter(|r| r.resource_id.is_none()).map(|r| from_millis(r.updated_ms));
            Ok(Some(Rows { cluster, groups, template, may_have_stack, unclear_since }))
        })
        .await
}

/// Shows how far a stack has come, and says when to look again: the older the operation the later, with jitter.
async fn follow(cx: &Context, work: &Work, cluster: &Cluster, verb: &str, seen: &Seen) -> Result<Turn, Failure> {
    show_progress(cx, work, cluster, "stack", verb, seen).await?;
    let age = (now() - work.operation.created()).to_std().unwrap_or_default();
    let pause = plan::next_look(age, cx.settings.timing.poll_min, cx.settings.timing.poll_max);
    Ok(Turn::Again { after: pause.mul_f64(rand::random_range(0.8..1.2)) })
}

/// Waits for a stack that was asked for without a clear answer: it may still appear (see [`Rows::is_settled`]).
async fn await_unclear_stack(cx: &Context, work: &Work) -> Result<Turn, Failure> {
    let waiting_for = Some("a stack that was asked for without a clear answer".to_owned());
    work.guard(cx, &Progress { step: "stack", waiting_for, ..Progress::default() }).await?;
    Ok(Turn::Again { after: cx.settings.timing.poll_min })
}

/// Records how far a stack has come: on the operation, and in words in the cluster's `status_reason`, where every old client shows it.
pub(crate) async fn show_progress(
    cx: &Context,
    work: &Work,
    cluster: &Cluster,
    step: &'static str,
    verb: &str,
    seen: &Seen,
) -> Result<(), Failure> {
    let progress = Progress { step, waiting_for: Some(seen.waiting_for()), done: seen.done, total: seen.total };
    let text = format!("{verb}: {} of {} resources complete, waiting for {}", seen.done, seen.total, seen.waiting_for());
    if cluster.status_reason.as_deref() == Some(text.as_str()) && cluster.stack_id.as_deref() == Some(seen.stack_id.as_str()) {
        return Ok(());
    }
    let change = ClusterChange { status_reason: Some(Some(text)), stack_id: Some(Some(seen.stack_id.clone())), ..ClusterChange::default() };
    let id = cluster.cluster_id();
    let (id, change, progress) = (&id, &change, &progress);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            clusters::record(conn, id, change).await
        })
        .await?;
    Ok(())
}
