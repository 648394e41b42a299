//! What operations would do, told without any of them being begun: rows and the cloud are read, nothing is made or changed.
//!
//! What is counted here is counted by the code that counts when an operation begins (the drivers' `need`, `room.rs`), and whether a stack can
//! be changed is for `plan.rs` to say in both places. It runs where the API does: it has no store, no management cluster, and of the files of
//! the conductors' hosts nothing.

mod cluster_api;
mod delete;
mod stack;

use std::collections::BTreeMap;

use model::driver::DriverName;
use model::forecast::{Forecast, Intent, NotForeseen};
use model::operation::{OperationKind, OutcomeCode};
use provider_clients::Session;

use crate::context::Settings;
use crate::outcome::Failure;
use crate::room::{self, Counted, Need};

/// What is told where the session cannot ask for the cluster's project.
const FOREIGN: &str = "the token is of another project than the cluster: neither its quotas nor its cloud resources were looked at";

/// Tells what operations would do.
pub struct Forecaster {
    settings: Settings,
    /// What holds for clusters of Cluster API without a label, by the label's name.
    cluster_api_labels: BTreeMap<&'static str, String>,
}

impl Forecaster {
    /// By these settings; of those about single conductors none counts.
    pub fn new(settings: Settings, cluster_api_labels: BTreeMap<&'static str, String>) -> Self {
        Self { settings, cluster_api_labels }
    }

    /// Tells what one would do. `session`: acts in the cluster's project; none where nobody does.
    ///
    /// # Errors
    /// When the cloud was asked and failed, but for a service that does not tell what the project may have.
    pub async fn forecast(&self, intent: &Intent, session: Option<&Session>) -> Result<Forecast, NotForeseen> {
        let mut told = Forecast::default();
        let looked = match (intent.kind, intent.driver()) {
            (OperationKind::ClusterDelete, _) => {
                delete::tell(intent, &mut told);
                Ok(())
            }
            (_, Some(DriverName::K8sFedoraCoreosV1)) => stack::tell(&self.settings, intent, session, &mut told).await,
            (_, Some(DriverName::K8sCapiHelmV1)) => cluster_api::tell(&self.cluster_api_labels, intent, session, &mut told).await,
            (_, None) => Err(Failure::fail(OutcomeCode::User, "no driver serves the cluster's template")),
        };
        match looked {
            Ok(()) => Ok(told),
            Err(failure) => end(failure, told),
        }
    }
}

/// What would fail an operation is an obstacle; what was not told is not known; and where the cloud failed there is nothing to tell.
fn end(failure: Failure, mut told: Forecast) -> Result<Forecast, NotForeseen> {
    let (reason, error, retry_may_help) = match failure {
        Failure::Final { reason, error: None, .. } => {
            told.obstacles.push(reason);
            return Ok(told);
        }
        Failure::Final { reason, error: Some(error), .. } if matches!(error.status, Some(403 | 404)) => {
            told.unknown.push(format!("it could not be looked at: {reason}"));
            return Ok(told);
        }
        Failure::Final { reason, error, .. } => (reason, error, false),
        Failure::Retry { reason, error } => (reason, error, true),
        Failure::Stale => ("the cluster has changed".to_owned(), None, true),
    };
    Err(NotForeseen { reason, status: error.and_then(|error| error.status), retry_may_help })
}

/// Which kinds are asked about at all.
fn no_such(kind: OperationKind) -> Failure {
    Failure::fail(OutcomeCode::Internal, format!("what {} would do is not told", kind.phrase()))
}

/// Tells whether the project has room. Of several needs one comes behind the other.
async fn quotas(session: &Session, needs: &[&Need], told: &mut Forecast) {
    let counted = room::look(session, needs, None).await;
    told.quotas.extend(counted.iter().map(Counted::quota_use));
    let nodes = needs.iter().map(|need| need.count()).max().unwrap_or(0);
    told.obstacles.extend(room::missing(nodes, &counted));
    for quota in told.quotas.iter().filter(|quota| quota.is_enough().is_none()) {
        told.unknown.push(match quota.is_told {
            false => format!("{} does not tell how many {} the project may have", quota.service, quota.resource),
            true => format!("how much of {} {} counts for nodes of these flavors is not known", quota.resource, quota.service),
        });
    }
}

#[cfg(test)]
mod tests;
