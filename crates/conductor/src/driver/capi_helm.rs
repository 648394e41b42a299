//! The driver of Cluster API clusters: Helm releases of a chart on a management cluster, whose controllers do the work.
//!
//! One road for all that makes or changes a cluster (`converge.rs`): what is wanted follows from the rows and the operation's payload, is
//! written as one document, handed to helm, and waited for until every controller says that it is so. Names are recorded before anything
//! has them; each step looks before it makes. What upstream's driver made is found under the same names and taken over as it is.

mod converge;
mod credential;
pub(crate) mod health;
mod labels;
mod lookup;
pub(crate) mod news;
mod objects;
mod release;
mod remove;
mod rotate;
mod scaling;
mod seen;
mod settings;
mod values;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::capi::{namespace, new_release};
use model::cluster::ClusterChange;
use model::driver::DriverName;
use model::nodegroup::NodegroupChange;
use model::operation::{OperationKind, OutcomeCode, Progress};
use model::resource::ResourceKind;
use model::store::{Conn, cluster as clusters, nodegroup, operation, resource};
use provider_clients::{KubeKind, Management};

use crate::certificates;
use crate::cluster::Rows;
use crate::context::Context;
use crate::outcome::{Failure, Turn};
use crate::worker::Work;

pub use news::News;
pub use settings::{Capi, CapiSettings, Kinds};

/// Secrets.
fn secrets() -> KubeKind {
    KubeKind::new("v1", "Secret", "secrets")
}

/// Everything that a turn on one cluster works with.
struct Bench<'a> {
    cx: &'a Context,
    work: &'a Work,
    rows: &'a Rows,
    capi: &'a Capi,
    management: Management,
    namespace: String,
    release: String,
    /// Begun before anything is looked at.
    news: news::Listening,
}

/// Whether a cluster is this driver's. One without a template is known by its `stack_id`, which Heat would have made a UUID.
pub(crate) fn is_ours(rows: &Rows) -> bool {
    match &rows.template {
        Some(template) => template.driver_name() == Some(DriverName::K8sCapiHelmV1),
        None => rows.cluster.stack_id.as_deref().is_some_and(|id| uuid::Uuid::try_parse(id).is_err()),
    }
}

/// One turn of an operation on a cluster of this driver.
pub(crate) async fn turn(cx: &Arc<Context>, work: &Work, rows: &Rows) -> Result<Turn, Failure> {
    let kind = work.operation.kind();
    if kind == Some(OperationKind::ClusterCreate) {
        if certificates::ensure(cx, work, &rows.cluster).await? {
            return Ok(Turn::NOW);
        }
        if rows.cluster.stack_id.is_none() {
            name(cx, work, rows).await?;
            return Ok(Turn::NOW);
        }
    }
    let removes = matches!(kind, Some(OperationKind::ClusterDelete | OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon));
    let Some(release) = rows.cluster.stack_id.clone() else {
        if removes {
            return remove::rows_only(cx, work, rows).await;
        }
        return Err(Failure::fail(OutcomeCode::User, "the cluster was never made"));
    };
    let bench = match bench(cx, work, rows, release) {
        Ok(bench) => bench,
        Err(failure) if removes => return remove::without_management(cx, work, rows, failure).await,
        Err(failure) => return Err(failure),
    };
    match kind {
        Some(
            OperationKind::ClusterCreate
            | OperationKind::ClusterUpdate
            | OperationKind::ClusterResize
            // With the rows as they will be.
            | OperationKind::ClusterUpgrade
            | OperationKind::NodegroupCreate
            | OperationKind::NodegroupUpdate
            | OperationKind::NodegroupDelete,
        ) => converge::turn(&bench).await,
        Some(OperationKind::ClusterDelete) => remove::turn(&bench).await,
        Some(OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon) => remove::by_force(&bench).await,
        Some(OperationKind::CredentialRotate) => rotate::turn(&bench).await,
        Some(kind @ OperationKind::CaRotate) => {
            Err(Failure::fail(OutcomeCode::User, format!("the cluster's driver does not support {}", kind.phrase())))
        }
        None => Err(Failure::Stale),
    }
}

fn bench<'a>(cx: &'a Context, work: &'a Work, rows: &'a Rows, release: String) -> Result<Bench<'a>, Failure> {
    let Some(capi) = &cx.capi else {
        let text = "no management cluster is configured: [capi_helm] kubeconfig_file";
        return Err(Failure::fail(OutcomeCode::Internal, text));
    };
    let management = match &*capi.management.borrow() {
        Ok(management) => management.clone(),
        // Its operator may be in the middle of writing it.
        Err(reason) => return Err(Failure::retry(format!("the management cluster: {reason}"))),
    };
    let namespace = namespace(&capi.settings.namespace_prefix, &rows.cluster.project().0);
    let news = capi.news.listen(&namespace, &release);
    Ok(Bench { cx, work, rows, capi, management, namespace, release, news })
}

/// Gives the cluster the name of its release; it keeps it whatever happens.
async fn name(cx: &Context, work: &Work, rows: &Rows) -> Result<(), Failure> {
    let release = new_release(rows.cluster.display_name());
    let progress = Progress { step: "name", ..Progress::default() };
    let change = ClusterChange { stack_id: Some(Some(release.clone())), ..ClusterChange::default() };
    let of_groups = NodegroupChange { stack_id: Some(Some(release.clone())), ..NodegroupChange::default() };
    let (id, progress, change, of_groups, release) = (&rows.cluster.cluster_id(), &progress, &change, &of_groups, &release);
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, &work.claim, progress).await?;
            resource::record(conn, id, ResourceKind::HelmRelease, release, None).await?;
            nodegroup::record_all(conn, id, of_groups).await?;
            clusters::record(conn, id, change).await
        })
        .await?;
    Ok(())
}
