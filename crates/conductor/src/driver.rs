//! Drivers: what is done in the cloud, and nothing about rows.
//!
//! What is here is of drivers that keep Heat stacks. Clusters of the other one go a road of their own from the handlers on
//! (`capi_helm.rs`): what a stack tells in one answer is there in many objects, and one document asks for all that a stack asks for in steps.
//!
//! A driver looks (`observe`, reads only) and does one thing that is safe to repeat. What it may be asked is decided in `plan.rs`; what is
//! seen is recorded by the handlers.

pub(crate) mod capi_helm;
pub(crate) mod heat;
mod nodes;

use std::collections::HashMap;

use model::cluster::Cluster;
use model::driver::DriverName;
use model::nodegroup::{Nodegroup, Nodes};
use model::seal::vault::Vault;
use model::template::ClusterTemplate;
use provider_clients::{CloudError, Session};
use secrecy::SecretString;

use crate::certificates::Material;
use crate::context::Settings;
use crate::outcome::Failure;
use crate::plan::{Observed, RollStep, Seen};
use crate::room::Need;

pub(crate) use heat::{CloudFacts, Stack, note_of_version};
pub(crate) use nodes::{Member, Missing, NewNodes, PoolKind, Resize, Succession};

/// A stack, by what is known of it before it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Its deterministic name.
    pub name: String,
    /// Its id, once known.
    pub id: Option<String>,
    /// The uuid of the cluster it belongs to.
    pub cluster: String,
}

impl Handle {
    /// The cluster's own stack.
    pub fn of_cluster(cluster: &Cluster) -> Self {
        let name = heat::stack_name(cluster.display_name(), &cluster.uuid);
        Self { name, id: cluster.stack_id.clone(), cluster: cluster.uuid.clone() }
    }

    /// The stack that a group is in: the default groups are in the cluster's, every other has one of its own.
    pub fn of_group(cluster: &Cluster, group: &Nodegroup) -> Self {
        if group.is_default() {
            return Self::of_cluster(cluster);
        }
        let name = heat::group_stack_name(cluster.display_name(), &group.name, &group.uuid);
        Self { name, id: group.stack_id.clone(), cluster: cluster.uuid.clone() }
    }
}

/// What a driver works on.
pub(crate) struct Target<'a> {
    pub cluster: &'a Cluster,
    pub groups: &'a [Nodegroup],
    /// How the nodes of groups register, by the group's uuid.
    pub nodes: &'a HashMap<String, Nodes>,
    pub template: &'a ClusterTemplate,
    /// Acts as the cluster's creator.
    pub session: &'a Session,
}

impl Target<'_> {
    /// What its owner is to be told when all went well: labels that the driver does not know, and that its version of Kubernetes is not known.
    pub(crate) fn note(&self, version: Option<&str>) -> Option<String> {
        let labels = model::labels::note(self.driver().ok()?, &self.cluster.labels());
        let notes: Vec<String> = labels.into_iter().chain(note_of_version(version)).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// The template's driver, or the one that serves its triple.
    fn driver(&self) -> Result<DriverName, Failure> {
        let t = self.template;
        t.driver_name().ok_or_else(|| {
            let asked = t.driver.clone().unwrap_or_else(|| format!("{:?}, {:?}, {:?}", t.server_type, t.cluster_distro, t.coe));
            Failure::fail(model::operation::OutcomeCode::User, format!("no driver serves the cluster's template ({asked})"))
        })
    }
}

/// What a complete cluster tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// `https://ADDRESS:PORT`.
    pub api_address: Option<String>,
    pub master_addresses: Vec<String>,
    pub worker_addresses: Vec<String>,
    pub kube_version: Option<String>,
}

/// Looks at a stack.
pub(crate) async fn observe(handle: &Handle, session: &Session) -> Result<Observed, Failure> {
    heat::observe(handle, session).await
}

/// The id of a stack of which only the name is known, in whatever project it is; the session is an administrator's whom Heat lets list the
/// stacks of all projects.
pub(crate) async fn find_anywhere(handle: &Handle, session: &Session) -> Result<Option<String>, CloudError> {
    heat::find_anywhere(handle, session).await
}

/// A stack in a list: enough to tell whether it has moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub stack_id: String,
    /// As in [`Seen::status`].
    pub status: String,
    /// As in [`Seen::changed`].
    pub changed: String,
}

/// Lists the stacks with these ids that there are, of the session's project or of all; those that are deleted are left out.
pub(crate) async fn list(session: &Session, ids: Vec<String>, all_projects: bool) -> Result<Vec<Listed>, CloudError> {
    heat::list(session, ids, all_projects).await
}

/// A stack that bears our tags.
pub(crate) struct Tagged {
    pub id: String,
    pub name: String,
    pub tags: Vec<String>,
}

/// Every stack that bears our tags, in whatever project; the session is an administrator's.
pub(crate) async fn tagged(session: &Session) -> Result<Vec<Tagged>, CloudError> {
    heat::tagged(session).await
}

/// Counts how far a stack has come that is known to be at work.
pub(crate) async fn progress(session: &Session, stack_name: &str, stack_id: &str, status: &str) -> Result<Seen, CloudError> {
    heat::progress(session, stack_name, stack_id, status).await
}

/// A driver without stacks was asked for one: its clusters go another road before anything comes here.
fn no_stack() -> Failure {
    Failure::fail(model::operation::OutcomeCode::Internal, "the cluster's driver has no stacks")
}

/// Computes what is to be made; no call to the cloud.
pub(crate) fn prepare(
    settings: &Settings,
    target: &Target<'_>,
    facts: &CloudFacts,
    material: &Material,
    minutes: u32,
) -> Result<Stack, Failure> {
    match target.driver()? {
        DriverName::K8sFedoraCoreosV1 => heat::prepare(settings, target, facts, material, minutes),
        DriverName::K8sCapiHelmV1 => Err(no_stack()),
    }
}

/// As [`prepare`], for a group in a stack of its own; `seen` is the cluster's stack, which is asked what the group joins.
pub(crate) async fn prepare_group(
    settings: &Settings,
    target: &Target<'_>,
    group: &Nodegroup,
    seen: &Seen,
    material: &Material,
    minutes: u32,
) -> Result<Stack, Failure> {
    match target.driver()? {
        DriverName::K8sFedoraCoreosV1 => {
            let joint = heat::joint(target.session, seen).await?;
            let facts = heat::facts_of_workers(target, seen).await?;
            heat::prepare_group(settings, target, (group, &facts), &joint, material, minutes)
        }
        DriverName::K8sCapiHelmV1 => Err(no_stack()),
    }
}

/// As [`prepare_group`], for a cluster that upstream's driver made: what `seen` was made from makes the group too. Its nodes are told the
/// trustee's password.
pub(crate) async fn prepare_adopted_group(
    settings: &Settings,
    target: &Target<'_>,
    group: &Nodegroup,
    seen: &Seen,
    password: Option<&SecretString>,
    minutes: u32,
) -> Result<Stack, Failure> {
    match target.driver()? {
        DriverName::K8sFedoraCoreosV1 => heat::prepare_adopted_group(settings, target, group, seen, password, minutes).await,
        DriverName::K8sCapiHelmV1 => Err(no_stack()),
    }
}

/// The first boot of the workers that a group gets from now on; `seen` is the stack that it is in.
pub(crate) async fn worker_user_data(
    settings: &Settings,
    target: &Target<'_>,
    group: &Nodegroup,
    seen: &Seen,
    material: &Material,
    minutes: u32,
) -> Result<String, Failure> {
    match target.driver()? {
        DriverName::K8sFedoraCoreosV1 => {
            let facts = heat::facts_of_workers(target, seen).await?;
            heat::worker_user_data(settings, target, group, &facts, material, minutes)
        }
        DriverName::K8sCapiHelmV1 => Err(no_stack()),
    }
}

/// The nodes of a pool in a stack, in the order of their numbers, by these and their servers.
pub(crate) async fn members(session: &Session, seen: &Seen, kind: PoolKind) -> Result<Vec<Member>, Failure> {
    heat::members(session, seen, kind).await
}

/// The same with their addresses.
pub(crate) async fn members_with_addresses(session: &Session, seen: &Seen, kind: PoolKind) -> Result<Vec<Member>, Failure> {
    heat::members_with_addresses(session, seen, kind).await
}

/// Looks up what the nodes of a cluster that is to be made are told of the cloud.
///
/// # Errors
/// When its labels ask for what the operator does not allow, and whatever the cloud's services say.
pub(crate) async fn facts_of_new(settings: &Settings, vault: &Vault, target: &Target<'_>) -> Result<CloudFacts, Failure> {
    match target.driver()? {
        DriverName::K8sFedoraCoreosV1 => heat::facts_of_new(settings, vault, target).await,
        DriverName::K8sCapiHelmV1 => Err(no_stack()),
    }
}

/// The same for new nodes of a cluster that is there; workers are told only where they are.
pub(crate) async fn facts_of_more(
    settings: &Settings,
    vault: &Vault,
    target: &Target<'_>,
    kind: PoolKind,
    seen: &Seen,
) -> Result<CloudFacts, Failure> {
    match kind {
        PoolKind::Masters => heat::facts_of_masters(settings, vault, target, seen).await,
        PoolKind::Workers => heat::facts_of_workers(target, seen).await,
    }
}

/// Computes what the nodes of a pool are made of; no call to the cloud. The group is the one whose nodes they are. Workers that are to replace
/// others are told with whom.
pub(crate) fn new_nodes(
    settings: &Settings,
    target: &Target<'_>,
    pool: (PoolKind, &Nodegroup),
    facts: &CloudFacts,
    material: &Material,
    terms: (&str, u32),
    succession: Option<&Succession<'_>>,
) -> Result<NewNodes, Failure> {
    match target.driver()? {
        DriverName::K8sFedoraCoreosV1 => heat::new_nodes(settings, target, pool, facts, material, terms, succession),
        DriverName::K8sCapiHelmV1 => Err(no_stack()),
    }
}

/// The version of Kubernetes that nodes of a pool would be made with, for a cluster or group whose stack is `seen`, as far as the rows can be judged
/// without keys.
///
/// # Errors
/// What nodes cannot be made of, as [`new_nodes`]; and what the cloud says of the network that they are on.
pub(crate) async fn version_of_nodes(
    settings: &Settings,
    target: &Target<'_>,
    pool: (PoolKind, &Nodegroup),
    seen: &Seen,
) -> Result<String, Failure> {
    match target.driver()? {
        DriverName::K8sFedoraCoreosV1 => heat::version_of_nodes(settings, target, pool, seen).await,
        DriverName::K8sCapiHelmV1 => Err(no_stack()),
    }
}

/// Takes masters out of the API's load balancer for a step of the replacement of all masters that is about to be asked for. What was done before is not
/// done again, and the load balancer is never without a master that may serve.
pub(crate) async fn leave_api(session: &Session, seen: &Seen, step: &RollStep) -> Result<(), Failure> {
    heat::leave_api(session, seen, step).await
}

/// Carries out a step of the replacement of all nodes of a pool. When the answer is lost, looking at the stack tells whether it was taken.
pub(crate) async fn replace(
    session: &Session,
    seen: &Seen,
    kind: PoolKind,
    step: &RollStep,
    new: &NewNodes,
    minutes: u32,
) -> Result<(), Failure> {
    heat::replace(session, seen, kind, step, new, minutes).await
}

/// The nodes of these pools that did not become any, of a stack that failed.
pub(crate) async fn missing(session: &Session, seen: &Seen, kinds: &[PoolKind]) -> Result<Vec<Missing>, Failure> {
    heat::missing(session, seen, kinds).await
}

/// Has Heat wait no longer for these nodes, which are given up; until the stack is changed this changes nothing. False when Heat has not taken note
/// yet: it answers before it does.
pub(crate) async fn excuse(session: &Session, seen: &Seen, missing: &[Missing]) -> Result<bool, Failure> {
    heat::excuse(session, seen, missing).await
}

/// Members of a pool that were given up, for which Heat was told to wait no longer; they are members of their stack.
pub(crate) async fn excused(session: &Session, seen: &Seen, kind: PoolKind) -> Result<Vec<Missing>, Failure> {
    heat::excused(session, seen, kind).await
}

/// Makes these members of a pool former ones of the round before `generation`, at which a stack that failed at them fails once more. When the answer is
/// lost, looking at the stack tells whether it was taken.
pub(crate) async fn give_up(
    session: &Session,
    seen: &Seen,
    kind: PoolKind,
    numbers: &[String],
    generation: &str,
    minutes: u32,
) -> Result<(), Failure> {
    heat::give_up(session, seen, kind, numbers, generation, minutes).await
}

/// What a new cluster's stack takes of the project's quotas, as its [`Stack::need`]; no call to the cloud.
pub(crate) async fn need_of_new(settings: &Settings, target: &Target<'_>) -> Result<Need, Failure> {
    heat::need_of_new(settings, target).await
}

/// What more masters or workers of a stack take of the project's quotas, which then has so many of them.
pub(crate) async fn need_of_more(session: &Session, seen: &Seen, kind: PoolKind, more: u64, then: u64) -> Result<Need, Failure> {
    heat::need_of_more(session, seen, kind, more, then).await
}

/// What a cluster has no addresses for, were it to have so many nodes; none where there are enough, or where that is not known here. `seen` is its stack,
/// or a group's, of a template of ours.
pub(crate) fn too_many(cluster: &Cluster, template: &ClusterTemplate, seen: &Seen, nodes: u64) -> Option<String> {
    match template.driver_name() {
        Some(DriverName::K8sFedoraCoreosV1) if seen.has_our_workers => {
            heat::hold(cluster, template, seen, nodes).err().map(|error| error.to_string())
        }
        Some(DriverName::K8sFedoraCoreosV1 | DriverName::K8sCapiHelmV1) | None => None,
    }
}

/// Asks for a new number of workers. When the answer is lost, looking at the stack tells whether it was taken.
pub(crate) async fn resize(session: &Session, seen: &Seen, resize: Resize) -> Result<(), Failure> {
    heat::resize(session, seen, &resize.wanted, resize.user_data, resize.minutes, resize.rollback).await
}

/// Why a stack was not made, or may have been.
pub(crate) struct NotMade {
    pub failure: Failure,
    /// The request may have been carried out all the same.
    pub is_unclear: bool,
}

/// Makes the stack and returns its id.
pub(crate) async fn make(target: &Target<'_>, stack: &Stack) -> Result<String, NotMade> {
    match target.driver().map_err(|failure| NotMade { failure, is_unclear: false })? {
        DriverName::K8sFedoraCoreosV1 => heat::make(target.session, stack).await,
        DriverName::K8sCapiHelmV1 => Err(NotMade { failure: no_stack(), is_unclear: false }),
    }
}

/// Reads what a complete stack tells.
pub(crate) async fn facts(cluster: &Cluster, session: &Session, seen: &Seen) -> Result<Facts, Failure> {
    heat::facts(session, seen, cluster.floating_ip_enabled()).await
}

/// What a stack made that bears on load balancers, by their ids; nothing where there is no such stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// Subnets: whatever has its address on one of them belongs to the cluster.
    pub subnets: Vec<String>,
    /// Load balancers that must be gone before the stack is deleted.
    pub balancers: Vec<String>,
}

/// Looks at what a stack made that bears on load balancers.
pub(crate) async fn surroundings(handle: &Handle, session: &Session) -> Result<Surroundings, Failure> {
    heat::surroundings(handle, session).await
}

/// Asks for the deletion of a stack.
pub(crate) async fn remove(session: &Session, seen: &Seen) -> Result<(), Failure> {
    heat::remove(session, seen).await
}
