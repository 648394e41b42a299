//! `PATCH /v1/credentials/{cluster uuid or name}`: rules K-12 to K-16.

use std::sync::Arc;

use model::driver::DriverName;
use model::operation::{OperationKind, deadlines};

use crate::answer::Answer;
use crate::cloud_checks;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{Request, Subject, accept};
use crate::policy::Act;

/// Accepts new credentials for a cluster of the caller's own project; he becomes the one who delegates.
pub async fn rotate(cx: Context) -> Result<Answer, ApiError> {
    let allowed = cx.allow_own(Act::CredentialRotate)?;
    let scope = cx.own_scope();
    let subject = Subject::find(&cx, &scope).await?;
    cloud_checks::must_delegate(&cx, subject.driver()).await?;
    let row = &subject.cluster;
    subject.check_possible(OperationKind::CredentialRotate, DriverName::supports_credential_rotation)?;
    let request = Request::new(&cx, OperationKind::CredentialRotate, row, scope);
    // Where masters are replaced for it they are so one by one, and each may take as long as the making of the cluster.
    let masters = match subject.driver() {
        Some(DriverName::K8sFedoraCoreosV1) => subject.groups.iter().filter(|g| g.is_master()).map(|g| g.node_count().unsigned_abs()).sum(),
        Some(DriverName::K8sCapiHelmV1) | None => 1_u32,
    };
    let request = Request { deadline: deadlines::of_steps(request.deadline, masters.max(1)), ..request };
    accept(Arc::new(cx), request, allowed).await
}
