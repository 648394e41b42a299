//! `PATCH /v1/certificates/{cluster uuid or name}`: rules K-01, K-03, K-09 to K-11.

use std::sync::Arc;

use model::driver::DriverName;
use model::operation::OperationKind;

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{Request, Subject, accept};
use crate::policy::Act;

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
    let request = Request::new(&cx, OperationKind::CaRotate, row, scope);
    accept(Arc::new(cx), request, allowed).await
}
