//! The Helm release: what it is run with, where it is, and what is done about a run that was cut off.

use model::operation::{Operation, OperationState, OutcomeCode, Progress};
use model::store::{Conn, history};
use model::time::{millis, now};
use provider_clients::{CloudError, HelmRun, HelmUntil, LastRelease};
use serde_json::Value;

use super::values::chart_version;
use super::{Bench, secrets, seen};
use crate::cluster::Rows;
use crate::context::Context;
use crate::outcome::Failure;

impl Bench<'_> {
    /// helm, for as long as the operation is ours.
    fn helm(&self) -> HelmUntil {
        self.door.helm.until(self.work.lease().end(&self.cx.settings.timing))
    }

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

    /// The document that the release was last given; null when there is no release.
    pub(super) async fn released(&self) -> Result<Value, Failure> {
        let helm = self.helm();
        match helm.last(&self.release, &self.namespace).await? {
            Some(last) => Ok(helm.values(&self.release, &self.namespace, last.revision).await?),
            None => Ok(Value::Null),
        }
    }

    /// Makes or changes the release. Guarded by the caller.
    pub(super) async fn upgrade(&self, values: &Value) -> Result<(), Failure> {
        let run = self.run()?;
        self.end(self.helm().upgrade(&run, values).await).await
    }

    /// Removes the release. Guarded by the caller.
    pub(super) async fn uninstall(&self) -> Result<(), Failure> {
        self.end(self.helm().uninstall(&self.release, &self.namespace).await.map(drop)).await
    }

    /// Whether helm knows of the release, in whatever state.
    pub(super) async fn is_recorded(&self) -> Result<bool, Failure> {
        let records = format!("owner=helm,name={}", self.release);
        Ok(self.management.has_any("helm_record_list", &secrets(), Some(&self.namespace), &records).await?)
    }

    /// Whether "there is nothing of it" cannot be believed before all is settled ([`Work::is_settled`](crate::worker::Work::is_settled)): a helm run
    /// before this claim may have been cut off with a request under way. Whoever ended well has seen the end of what he asked for.
    pub(super) async fn may_still_appear(&self) -> Result<bool, Failure> {
        // Of this operation itself.
        if self.work.operation.attempt > 1 {
            return Ok(true);
        }
        let id = &self.rows.cluster.cluster_id();
        let former = self.cx.store.read(async |conn: &mut Conn| history::finished(conn, id, history::LOOKED_THROUGH).await).await?;
        // One that was superseded was held for a while after its end.
        let since = millis(now() - (self.cx.settings.timing.settle + self.cx.settings.timing.lease));
        let was_begun = |o: &Operation| o.started_ms.is_some() && o.finished_ms.is_some_and(|at| at > since);
        Ok(former.iter().any(|o| was_begun(o) && o.state() != Some(OperationState::Succeeded)))
    }

    /// Deletes the Cluster itself, of which helm knows nothing any more; Cluster API deletes what is under it. Guarded by the caller.
    pub(super) async fn delete_cluster(&self) -> Result<(), Failure> {
        let labels = format!("{}={}", seen::RELEASE, self.release);
        let kind = &self.capi.settings.kinds.cluster;
        Ok(self.management.delete_labelled("cluster_delete", kind, Some(&self.namespace), &labels).await?)
    }

    async fn end(&self, outcome: Result<(), CloudError>) -> Result<(), Failure> {
        match outcome {
            // Another run is under way, or was cut off with its conductor.
            Err(error) if error.is_conflict() => match self.take_up().await? {
                true => Err(Failure::retry(format!("a helm run of release {} that was cut off has been taken up", self.release))),
                false => Err(error.into()),
            },
            Err(error) => {
                self.work.has_asked();
                Err(error.into())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Takes up a run that was cut off; whether there was one. As long as what it asked for last may be on its way, it is waited for.
    pub(super) async fn take_up(&self) -> Result<bool, Failure> {
        let helm = self.helm();
        let last = helm.last(&self.release, &self.namespace).await?;
        let Some(last) = last.filter(LastRelease::is_pending) else { return Ok(false) };
        if !self.work.is_settled(self.cx) {
            return Err(Failure::retry(format!("a helm run of release {} is under way or was cut off", self.release)));
        }
        let waiting_for = Some(format!("a helm run of release {} that was cut off", self.release));
        self.work.guard(self.cx, &Progress { step: "helm", waiting_for, ..Progress::default() }).await?;
        tracing::info!(release = self.release, revision = last.revision, status = last.status, "taking up a helm run that was cut off");
        let taken_up = match last.is_install() {
            true => helm.resume(&self.release, &self.namespace, last.revision).await.map_err(Failure::from),
            false => self.do_again(&last).await,
        };
        if taken_up.is_err() {
            self.work.has_asked();
        }
        taken_up?;
        Ok(true)
    }
}

impl Bench<'_> {
    /// Does a change again that was cut off, whoever wanted it, as if it had not begun: its record goes, and with it helm's belief that all
    /// of it is done. helm 3 (and 4, for releases that 3 made) finds out what to send for custom objects by comparing two records and never
    /// looks at the object, so that what a taken-up revision had not sent yet would never be sent. What it had sent is sent again, so that
    /// no other wish is compared with a record that is not true.
    async fn do_again(&self, last: &LastRelease) -> Result<(), Failure> {
        let LastRelease { revision, status } = last;
        let helm = self.helm();
        let values = helm.values(&self.release, &self.namespace, *revision).await?;
        // By its status as well: a run that has ended after all keeps its record.
        let record = format!("owner=helm,name={},version={revision},status={status}", self.release);
        self.management.delete_labelled("helm_record_delete", &secrets(), Some(&self.namespace), &record).await?;
        Ok(helm.upgrade(&self.run()?, &values).await?)
    }
}

impl Bench<'_> {
    /// Where the release is.
    pub(super) fn place(&self) -> String {
        place(&self.namespace, &self.capi.called(Some(&self.door.cluster.name)))
    }
}

/// Where the release is, as far as the rows tell.
pub(super) fn recorded_place(cx: &Context, rows: &Rows) -> String {
    let prefix = cx.capi.as_ref().map_or("magnum", |capi| capi.settings.namespace_prefix.as_str());
    let namespace = model::capi::namespace(prefix, &rows.cluster.project().0);
    let known = rows.management_cluster.as_deref();
    let called = cx.capi.as_ref().map_or_else(|| "the management cluster".to_owned(), |capi| capi.called(known));
    place(&namespace, &called)
}

fn place(namespace: &str, called: &str) -> String {
    format!("namespace {namespace} of {called}")
}
