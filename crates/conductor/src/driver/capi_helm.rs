//! The driver of Cluster API clusters: Helm releases of a chart on a management cluster, whose controllers do the work.
//!
//! One road for all that makes or changes a cluster (`converge.rs`): what is wanted follows from the rows and the operation's payload, is
//! written as one document, handed to helm, and waited for until every controller says that it is so. Names are recorded before anything
//! has them; each step looks before it makes. What upstream's driver made is found under the same names and taken over as it is.

mod authorities;
mod converge;
pub(crate) mod credential;
pub(crate) mod door;
pub(crate) mod health;
mod labels;
mod lookup;
pub(crate) mod need;
pub(crate) mod news;
mod objects;
mod release;
mod remove;
mod rotate;
mod scaling;
mod seen;
mod settings;
mod site;
mod values;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use model::capi::namespace;
use model::driver::DriverName;
use model::operation::{OperationKind, OutcomeCode};
use model::resource::ResourceKind;
use model::store::{Conn, resource};
use provider_clients::{KubeKind, Management, Service};
use tokio::sync::OwnedSemaphorePermit;

use crate::certificates;
use crate::cluster::{Rows, force};
use crate::context::Context;
use crate::outcome::{Failure, Turn};
use crate::worker::Work;

pub use door::{Capi, DoorParts};
pub use news::News;
pub use settings::{CapiSettings, Kinds};

pub(crate) use converge::ASKED;
use door::Door;
pub(crate) use remove::release_left;

/// Why nothing can be done without a management cluster.
const NONE: &str = "no management cluster is configured: [capi_helm] kubeconfig_file, management_clusters";

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
    door: &'a Door,
    management: Management,
    /// The turn's place among those who speak to this management cluster.
    _place: OwnedSemaphorePermit,
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
            site::choose(cx, work, rows, configured(cx)?).await?;
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
    let bench = match bench(cx, work, rows, release).await {
        Ok(Entry::Bench(bench)) => bench,
        // What is to end in a bounded time waits in the row with the others for as long as there is time.
        Ok(Entry::Full(door)) if force::left_in_row(work).is_some_and(|left| left.is_zero()) => {
            let reason = format!("management cluster {}: too many operations wait for it", door.cluster.name);
            return remove::without_management(cx, work, rows, Failure::retry(reason)).await;
        }
        Ok(Entry::Full(door)) => return Ok(Turn::Room { places: door.turns.clone() }),
        Err(failure) if removes => return remove::without_management(cx, work, rows, failure).await,
        Err(failure) => return Err(failure),
    };
    work_at(&bench).await.map_err(|failure| named(&bench, failure))
}

async fn work_at(bench: &Bench<'_>) -> Result<Turn, Failure> {
    match bench.work.operation.kind() {
        Some(
            OperationKind::ClusterCreate
            | OperationKind::ClusterUpdate
            | OperationKind::ClusterResize
            // With the rows as they will be.
            | OperationKind::ClusterUpgrade
            | OperationKind::NodegroupCreate
            | OperationKind::NodegroupUpdate
            | OperationKind::NodegroupDelete,
        ) => converge::turn(bench).await,
        Some(OperationKind::ClusterDelete) => remove::turn(bench).await,
        Some(OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon) => remove::by_force(bench).await,
        Some(OperationKind::CredentialRotate) => rotate::turn(bench).await,
        Some(OperationKind::CaRotate) => authorities::turn(bench).await,
        None => Err(Failure::Stale),
    }
}

/// Says which management cluster it was, of what it or helm said.
fn named(bench: &Bench<'_>, failure: Failure) -> Failure {
    let is_its = |service: &str| [Service::ManagementCluster, Service::Helm].iter().any(|s| s.name() == service);
    let name = |reason: String| bench.capi.named(bench.door, &reason);
    match failure {
        Failure::Retry { reason, error: Some(error) } if is_its(&error.service) => {
            Failure::Retry { reason: name(reason), error: Some(error) }
        }
        Failure::Final { code, reason, error: Some(error) } if is_its(&error.service) => {
            Failure::Final { code, reason: name(reason), error: Some(error) }
        }
        other => other,
    }
}

fn configured(cx: &Context) -> Result<&Capi, Failure> {
    cx.capi.as_deref().ok_or_else(|| Failure::fail(OutcomeCode::Internal, NONE))
}

impl Bench<'_> {
    /// To be asked where nothing is found of a release that was made: whether this can be the management cluster that it was made on. The
    /// cluster's secrets are the last of all that goes; a kubeconfig that names another cluster must not make clusters seem gone, nor have
    /// them made a second time.
    async fn is_the_right_one(&self) -> Result<(), Failure> {
        let id = &self.rows.cluster.cluster_id();
        let recorded = self.cx.store.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
        if !recorded.iter().any(|row| row.kind() == Some(ResourceKind::HelmRelease) && row.resource_id.is_some()) {
            return Ok(());
        }
        let labels = objects::secrets_of(&self.rows.cluster);
        if self.management.has_any("secret_list", &secrets(), Some(&self.namespace), &labels).await? {
            return Ok(());
        }
        Err(Failure::retry(format!(
            "{} has nothing of release {}, which was made: its kubeconfig may name another one",
            self.capi.called(Some(&self.door.cluster.name)),
            self.release
        )))
    }
}

/// Whether a turn may begin.
enum Entry<'a> {
    Bench(Bench<'a>),
    /// So many speak to the management cluster that this one has to wait.
    Full(&'a Door),
}

async fn bench<'a>(cx: &'a Context, work: &'a Work, rows: &'a Rows, release: String) -> Result<Entry<'a>, Failure> {
    let capi = configured(cx)?;
    let namespace = namespace(&capi.settings.namespace_prefix, &rows.cluster.project().0);
    let door = site::of(cx, work, rows, capi, &namespace, &release).await?;
    let Some(place) = work.enter(&door.turns) else { return Ok(Entry::Full(door)) };
    let management = door.open(capi)?;
    let news = door.news.listen(&namespace, &release);
    Ok(Entry::Bench(Bench { cx, work, rows, capi, door, management, _place: place, namespace, release, news }))
}
