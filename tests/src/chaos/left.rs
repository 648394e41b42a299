//! What removals have left in the cloud, as their reports say: an operator removes it, and what is there afterwards is an orphan.
//!
//! Who abandons a cluster leaves its stacks, and their owner, by design; a forced deletion leaves what it could not remove in time. Nothing may
//! be left that no report names, and what was abandoned must stand as it stood.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::StackView;
use model::operation::{EventDetails, Leak, Operation, OperationKind};
use model::resource::ResourceKind;

use super::check::{self, Finding, Wrong};
use crate::client::{self, Client};
use crate::management::Management;
use crate::wait::{self, Seen};
use crate::world::World;

/// How long the controllers of the management cluster may take to be rid of a cluster.
const CONTROLLERS: Duration = Duration::from_secs(60);
/// By this label the secrets of a cluster are known on the management cluster.
const CLUSTER_LABEL: &str = "magnum.openstack.org/cluster-uuid";

/// Whether an operation may have asked for the deletion of a stack: what is done again first clears away what the failed one left.
fn deletes_stacks(row: &Operation) -> bool {
    let is_deletion =
        |kind| matches!(kind, OperationKind::ClusterDelete | OperationKind::ClusterForceDelete | OperationKind::NodegroupDelete);
    row.kind().is_none_or(is_deletion) || !row.payload().is_ok_and(|payload| payload.retry_of.is_none())
}

/// One report.
struct Report {
    operation: String,
    cluster: String,
    /// Whether it was abandoned, and nothing of it was deleted before.
    stands: bool,
}

/// Whoever removes what is left.
#[derive(Default)]
pub struct Left {
    /// Operations whose reports were read.
    read: BTreeSet<String>,
    /// How much was left, by the words of reports.
    pub counts: BTreeMap<String, usize>,
}

impl Left {
    /// Removes what reports name; what is wrong with those that were not read before. The others are gone through once more: a stack that was
    /// asked for without a clear answer may have come since.
    ///
    /// # Errors
    /// When rows cannot be read, or something that is named cannot be removed although it is there.
    pub async fn remove(&mut self, world: &World, management: Option<&Management>) -> Result<Vec<Finding>> {
        let rows = check::rows(world).await?;
        let sql = "SELECT operation_uuid, cluster_uuid, COALESCE(details, '') FROM operation_event WHERE kind = 'leak_report' ORDER BY id";
        let mut found = Vec::new();
        for (operation, cluster, details) in world.database()?.rows::<(String, String, String)>(sql).await? {
            let is_new = self.read.insert(operation.clone());
            let details: EventDetails = serde_json::from_str(&details).with_context(|| format!("the report of operation {operation}"))?;
            let is_abandoned = rows.iter().any(|row| row.uuid == operation && row.kind() == Some(OperationKind::ClusterAbandon));
            let stands = is_abandoned && !rows.iter().any(|row| row.cluster_uuid == cluster && deletes_stacks(row));
            let report = Report { operation, cluster, stands };
            for leak in details.leaks.unwrap_or_default() {
                let wrong = remove(world, management, &report, &leak).await.with_context(|| format!("remove {leak:?}"))?;
                if is_new {
                    *self.counts.entry(leak.kind.clone()).or_default() += 1;
                    found.extend(wrong);
                }
            }
        }
        Ok(found)
    }
}

/// Removes one thing. It may be gone: its deletion may have been under way when it was left, and what nobody knows the id of may never have
/// been made.
async fn remove(world: &World, management: Option<&Management>, report: &Report, leak: &Leak) -> Result<Option<Finding>> {
    let cloud = &world.cloud;
    let id = leak.id.as_deref();
    let ident = id.unwrap_or(&leak.name);
    let stack = cloud.stacks().into_iter().find(|stack| stack.id == ident || stack.name == ident);
    match (ResourceKind::parse(&leak.kind), id) {
        (Some(ResourceKind::ApplicationCredential), None) => {}
        (Some(ResourceKind::ApplicationCredential), Some(id)) => remove_credential(world, id).await?,
        (Some(ResourceKind::HelmRelease), _) => {
            let management = management.context("a release without a management cluster")?;
            remove_release(world, management, &report.cluster, &leak.name).await?;
        }
        (Some(ResourceKind::Stack), _) => {
            cloud.remove_reported(&leak.kind, &leak.name, id);
            return Ok(touched(report, leak, stack.as_ref()));
        }
        _ if cloud.remove_reported(&leak.kind, &leak.name, id) => {}
        _ => {
            let what = format!("cluster {} has left what nobody here keeps: {leak:?}", report.cluster);
            return Ok(Some(Finding::about(Wrong::Other, &report.operation, what)));
        }
    }
    Ok(None)
}

/// A stack that was left alone was left alone.
fn touched(report: &Report, leak: &Leak, stack: Option<&StackView>) -> Option<Finding> {
    let is_known = leak.id.is_some();
    let is_sound = stack.is_some_and(|stack| !stack.status.starts_with("DELETE_"));
    if !report.stands || !is_known || is_sound {
        return None;
    }
    let status = stack.map_or("gone", |stack| stack.status.as_str());
    let what = format!("cluster {} was abandoned, and its stack {} is {status}", report.cluster, leak.name);
    Some(Finding::about(Wrong::Other, &report.operation, what))
}

/// An application credential (`USER/ID` in a report) is its user's, who alone may remove it.
async fn remove_credential(world: &World, id: &str) -> Result<()> {
    let (user, id) = id.split_once('/').with_context(|| format!("application credential {id} without its user"))?;
    let path = format!("/identity/v3/users/{user}/application_credentials/{id}");
    let answer = world.cloud_as("demo", "demo")?.delete(&path).await?;
    ensure!(matches!(answer.status, 204 | 404), "{}: {}", answer.status, answer.text);
    Ok(())
}

/// The release, which the controllers have to follow, then the secrets of the cluster.
async fn remove_release(world: &World, management: &Management, cluster: &str, release: &str) -> Result<()> {
    let namespace = model::capi::namespace("magnum", &world.cloud.project_id("demo"));
    if management.releases()?.iter().any(|(name, _)| name == release) {
        management.helm(&["uninstall", release, "--namespace", &namespace])?;
    }
    wait::until(&format!("the objects of release {release} to go"), CONTROLLERS, async || {
        let left: Vec<String> = ["Cluster", "Machine", "OpenStackCluster"]
            .into_iter()
            .flat_map(|kind| management.cluster.objects(kind))
            .filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned))
            .filter(|name| name.starts_with(release))
            .collect();
        Ok(Seen::when(left.is_empty(), || left.join(", ")))
    })
    .await?;
    let kubeconfig = management.cluster.kubeconfig();
    let server = kubeconfig.split("server: \"").nth(1).and_then(|rest| rest.split('"').next()).context("the address of the server")?;
    // Without TLS no token is asked for.
    let client = Client::new(client::http()?, &[server.to_owned()], None);
    for secret in management.cluster.objects("Secret") {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        if secret["metadata"]["labels"][CLUSTER_LABEL] == cluster {
            let answer = client.delete(&format!("/api/v1/namespaces/{namespace}/secrets/{name}")).await?;
            ensure!(matches!(answer.status, 200 | 202 | 404), "{}: {}", answer.status, answer.text);
        }
    }
    Ok(())
}
