//! Drivers: what is done in the cloud, and nothing about rows.
//!
//! A driver looks (`observe`, reads only) and does one thing that is safe to repeat. What it may be asked is decided in `plan.rs`; what is
//! seen is recorded by the handlers.

mod heat;

use model::cluster::Cluster;
use model::driver::DriverName;
use model::nodegroup::Nodegroup;
use model::template::ClusterTemplate;
use provider_clients::Session;

use crate::certificates::Material;
use crate::context::Settings;
use crate::outcome::Failure;
use crate::plan::{Observed, Seen};

pub(crate) use heat::Stack;

/// What a driver works on.
pub(crate) struct Target<'a> {
    pub cluster: &'a Cluster,
    pub groups: &'a [Nodegroup],
    pub template: &'a ClusterTemplate,
    /// Acts as the cluster's creator.
    pub session: &'a Session,
}

impl Target<'_> {
    /// The template's driver, or the one that serves its triple.
    fn driver(&self) -> Result<DriverName, Failure> {
        let t = self.template;
        let text = |o: &Option<String>| o.clone().unwrap_or_default();
        let found = match &t.driver {
            Some(name) => DriverName::parse(name),
            None => DriverName::for_triple(t.server_type.as_deref().unwrap_or("vm"), &text(&t.cluster_distro), &text(&t.coe), &[]),
        };
        found.ok_or_else(|| {
            let asked = t.driver.clone().unwrap_or_else(|| format!("{:?}, {:?}, {:?}", t.server_type, t.cluster_distro, t.coe));
            Failure::fail(model::operation::OutcomeCode::Invalid, format!("no driver serves the cluster's template ({asked})"))
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

/// Looks at the cluster's stack.
pub(crate) async fn observe(target: &Target<'_>) -> Result<Observed, Failure> {
    match target.driver()? {
        DriverName::K8sFedoraCoreosV1 => heat::observe(target.cluster, target.session).await,
    }
}

/// Looks at the stack of a cluster whose template may be gone (every driver so far keeps a Heat stack).
pub(crate) async fn observe_stack(cluster: &Cluster, session: &Session) -> Result<Observed, Failure> {
    heat::observe(cluster, session).await
}

/// Computes what is to be made; no call to the cloud.
pub(crate) fn prepare(settings: &Settings, target: &Target<'_>, material: &Material, minutes: u32) -> Result<Stack, Failure> {
    match target.driver()? {
        DriverName::K8sFedoraCoreosV1 => heat::prepare(settings, target, material, minutes),
    }
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
    }
}

/// Reads what a complete stack tells.
pub(crate) async fn facts(target: &Target<'_>, seen: &Seen) -> Result<Facts, Failure> {
    match target.driver()? {
        DriverName::K8sFedoraCoreosV1 => heat::facts(target, seen).await,
    }
}

/// Asks for the deletion of a stack.
pub(crate) async fn remove(session: &Session, seen: &Seen) -> Result<(), Failure> {
    heat::remove(session, seen).await
}
