//! The Helm release: what it is run with, and what is done about a run that was cut off.

use model::operation::{OutcomeCode, Progress};
use provider_clients::{CloudError, HelmRun};
use serde_json::Value;

use super::Bench;
use super::values::chart_version;
use crate::outcome::Failure;
use crate::worker::Work;

impl Bench<'_> {
    /// What helm is run with.
    pub(super) fn run(&self) -> Result<HelmRun, Failure> {
        let settings = &self.capi.settings;
        let Some(template) = &self.rows.template else {
            return Err(Failure::fail(OutcomeCode::User, "the cluster's template is gone"));
        };
        Ok(HelmRun {
            release: self.release.clone(),
            namespace: self.namespace.clone(),
            chart: settings.chart_name.clone(),
            repo: settings.chart_repo.clone(),
            version: chart_version(settings, template),
        })
    }

    /// Makes or changes the release. Guarded by the caller.
    pub(super) async fn upgrade(&self, values: &Value) -> Result<(), Failure> {
        let run = self.run()?;
        self.end(self.capi.helm.upgrade(&run, values).await).await
    }

    /// Removes the release. Guarded by the caller.
    pub(super) async fn uninstall(&self) -> Result<(), Failure> {
        self.end(self.capi.helm.uninstall(&self.release, &self.namespace).await.map(drop)).await
    }

    async fn end(&self, outcome: Result<(), CloudError>) -> Result<(), Failure> {
        match outcome {
            Err(error) if error.is_conflict() => self.take_up(error).await,
            Err(error) => {
                self.work.has_asked();
                Err(error.into())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Another run is under way, or was cut off with its conductor. As long as it may still be the first, it is waited for.
    async fn take_up(&self, error: CloudError) -> Result<(), Failure> {
        let helm = &self.capi.helm;
        let last = helm.last(&self.release, &self.namespace).await?;
        let Some(last) = last.filter(|last| last.is_pending()) else {
            return Err(error.into());
        };
        if !is_quiet(self.work, self.cx.settings.timing.settle) {
            return Err(Failure::retry(format!("a helm run of release {} is under way or was cut off", self.release)));
        }
        let waiting_for = Some(format!("a helm run of release {} that was cut off", self.release));
        self.work.guard(self.cx, &Progress { step: "helm", waiting_for, ..Progress::default() }).await?;
        tracing::info!(release = self.release, revision = last.revision, status = last.status, "taking up a helm run that was cut off");
        helm.resume(&self.release, &self.namespace, last.revision).await?;
        Err(Failure::retry(format!("a helm run of release {} that was cut off has been taken up", self.release)))
    }
}

fn is_quiet(work: &Work, settle: std::time::Duration) -> bool {
    work.quiet() >= settle
}
