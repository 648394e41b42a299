//! Controllers of the management cluster that connect to clusters: what they know of one they read when they connect, or made of its secrets a
//! while ago. They are made to look anew as their operator would, by a restart of their Deployments.
//!
//! One restart serves all clusters whose secrets were written before it; there is none more often than every so many minutes.

use chrono::{DateTime, TimeDelta, Utc};
use model::capi::derived;
use model::operation::OutcomeCode;
use model::time::now;
use provider_clients::KubeKind;
use serde_json::{Value, json};

use super::written::{stamp, time};
use super::{InForce, give, guard, left, wait};
use crate::driver::capi_helm::Bench;
use crate::driver::capi_helm::seen;
use crate::outcome::{Failure, Turn};

/// When it was restarted for rotations of authorities.
const RESTARTED: &str = "magnum.openstack.org/restarted-at";
/// So many times as long as controllers have to see a change, 10 minutes by default, lie between two restarts.
const APART: u32 = 20;

fn deployments() -> KubeKind {
    KubeKind::new("apps/v1", "Deployment", "deployments")
}

/// Whether all that are named are there, and may be read.
pub(super) async fn check(bench: &Bench<'_>) -> Result<(), Failure> {
    for (namespace, name) in &bench.capi.settings.controllers {
        let found = bench.management.get("deployment_get", &deployments(), Some(namespace), name).await?;
        if found.is_none() {
            let text =
                format!("the management cluster has no deployment {namespace}/{name}, which [capi_helm] controller_deployments names");
            return Err(Failure::fail(OutcomeCode::User, text));
        }
    }
    Ok(())
}

/// None when all were begun anew after the cluster's secrets were written. The cluster's autoscaler, which the chart makes beside, as well.
pub(super) async fn restarted(bench: &Bench<'_>, stand: &InForce, since: DateTime<Utc>) -> Result<Option<Turn>, Failure> {
    let timing = bench.cx.settings.timing;
    // Clocks of conductors differ.
    let since = since + TimeDelta::from_std(timing.settle).unwrap_or_default();
    let autoscaler = (bench.namespace.clone(), derived(&bench.release, "autoscaler"));
    let mut waiting = Vec::new();
    let mut at_most = timing.poll_max;
    for (at, (namespace, name)) in bench.capi.settings.controllers.iter().chain([&autoscaler]).enumerate() {
        let is_named = at < bench.capi.settings.controllers.len();
        let Some(found) = bench.management.get("deployment_get", &deployments(), Some(namespace), name).await? else {
            if is_named {
                return Err(Failure::retry(format!("deployment {namespace}/{name} of the management cluster is not there")));
            }
            continue;
        };
        let before = time(&found["spec"]["template"]["metadata"]["annotations"][RESTARTED]);
        if before.is_some_and(|before| before >= since) {
            if !is_out(&found) {
                waiting.push(format!("{namespace}/{name}"));
            }
            continue;
        }
        waiting.push(format!("{namespace}/{name}"));
        if let Some(left) = before.and_then(|before| left(before, timing.settle * APART)) {
            at_most = at_most.max(left);
            continue;
        }
        guard(bench, "controllers to begin anew").await?;
        let template = json!({"metadata": {"annotations": {RESTARTED: stamp(now())}}});
        let metadata = json!({"name": seen::name_of(&found), "namespace": namespace});
        let change = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}});
        give(bench, &deployments(), namespace, &change).await?;
    }
    if waiting.is_empty() {
        return Ok(None);
    }
    let text = format!("controllers to begin anew: {}", waiting.join(", "));
    wait(bench, stand, &text, at_most).await.map(Some)
}

/// Whether a deployment's pods are all of its present template, and ready, and no others are left.
fn is_out(deployment: &Value) -> bool {
    let (status, wanted) = (&deployment["status"], deployment["spec"]["replicas"].as_i64().unwrap_or(1));
    let is_current = status["observedGeneration"].as_i64() >= deployment["metadata"]["generation"].as_i64();
    // A counter of none is left out.
    let is_all = |counter: &str| status[counter].as_i64().unwrap_or(0) == wanted;
    is_current && ["replicas", "updatedReplicas", "availableReplicas"].into_iter().all(is_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_out_when_nothing_of_before_is_left() {
        let status = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        let good = json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status});
        assert!(is_out(&good));
        for (field, value) in [("observedGeneration", 1), ("replicas", 3), ("updatedReplicas", 1), ("availableReplicas", 1)] {
            let mut other = good.clone();
            other["status"][field] = json!(value);
            assert!(!is_out(&other), "{field}");
        }
        assert!(!is_out(&json!({"metadata": {"generation": 1}, "spec": {}})));
    }
}
