//! `PATCH /v1/certificates/{cluster uuid or name}`: rules K-01, K-03, K-09 to K-11.

use std::sync::Arc;
use std::time::Duration;

use model::driver::DriverName;
use model::nodegroup::Nodegroup;
use model::operation::{OperationKind, deadlines};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{Request, Subject, accept};
use crate::policy::Act;

/// Why a Cluster API cluster's authorities are not replaced where the operator has not said what is to be restarted.
const WITHOUT: &str = "The certificate authorities of Cluster API clusters are not rotated here: Cluster API's controllers go on trusting the old \
                       ones alone until they are restarted, and the operator has not named them ([capi_helm] controller_deployments).";

/// Accepts new certificate authorities for a cluster of the caller's own project.
pub async fn rotate(cx: Context) -> Result<Answer, ApiError> {
    let scope = cx.own_scope();
    let subject = Subject::find(&cx, &scope).await?;
    let row = &subject.cluster;
    let allowed = cx.allow_object(Act::CertificateRotate, row)?;
    if subject.template.as_ref().is_some_and(|t| t.is_tls_disabled()) {
        return Err(ApiError::Invalid("Rotating the CA certificate of a cluster without TLS is not supported.".into()));
    }
    subject.check_possible(OperationKind::CaRotate, DriverName::supports_ca_rotation)?;
    if !subject.can_replace_nodes(&cx).await? {
        let text = "Upstream's driver made this cluster, and its nodes cannot be replaced by ones with other authorities. Make a new cluster \
                    and move the workload.";
        return Err(ApiError::Invalid(text.to_owned()));
    }
    let pause = match subject.driver() {
        Some(DriverName::K8sCapiHelmV1) => cx.shared.settings.capi_rotation_pause.ok_or_else(|| ApiError::Invalid(WITHOUT.to_owned()))?,
        _ => Duration::ZERO,
    };
    let request = Request::new(&cx, OperationKind::CaRotate, row, scope);
    // Each node is replaced twice, masters three times, and each step may take as long as the making of the cluster.
    let request = Request { deadline: deadlines::of_steps(request.deadline, steps(&subject)).saturating_add(pause), ..request };
    accept(Arc::new(cx), request, allowed).await
}

fn steps(subject: &Subject) -> u32 {
    let times = |group: &Nodegroup| if group.is_master() { 3 } else { 2 };
    let of = |group: &Nodegroup| group.node_count().unsigned_abs().saturating_mul(times(group));
    subject.groups.iter().map(of).fold(0, u32::saturating_add).max(1)
}
