//! `POST /v1/certificates`: signs a request with one of a cluster's authorities.

use model::certificate::signing::{Request, sign as sign_request};
use model::certificate::{Authority, CertificateError};
use model::store::Conn;

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::certificate::{CertificateView, SIGN};
use crate::view::links::Links;

/// Signs (K-02 to K-08); an unknown cluster is 400 here (K-02).
pub async fn sign(cx: Context) -> Result<Answer, ApiError> {
    let body = cx.read(&SIGN)?;
    let (ident, csr, kind) =
        (body.owned("cluster_uuid").unwrap_or_default(), body.owned("csr").unwrap_or_default(), body.text("ca_cert_type"));
    let scope = cx.own_scope();
    let (scope, ident) = (&scope, &ident);
    let found = cx.shared.store.read(async |conn: &mut Conn| crate::cluster::find(conn, scope, ident).await).await;
    let cluster = found.map_err(|error| match ApiError::from(error) {
        ApiError::NotFound { what, key } => ApiError::Invalid(format!("{what} {key} could not be found.")),
        other => other,
    })?;
    cx.allow_object(Act::CertificateCreate, &cluster)?;
    let request = Request::read(&csr).map_err(refused)?;
    let pair = super::stored(&cx, &cluster, Authority::of_type(kind)).await?;
    let rules = cx.shared.settings.signing.clone();
    // Decrypting the key and signing are CPU work: not on a thread that serves others.
    let signed = tokio::task::spawn_blocking(move || sign_request(&pair.open()?, &request, &rules))
        .await
        .map_err(|e| ApiError::Internal(format!("sign a certificate: {e}")))?;
    let pem = signed.map_err(refused)?;
    let view = CertificateView {
        cluster_uuid: &cluster.uuid,
        pem: &pem,
        csr: Some(&csr),
        ca_cert_type: kind,
        links: Links { base: &cx.base, collection: "certificates", id: &cluster.uuid },
    };
    Answer::created(&view, String::new())
}

fn refused(error: CertificateError) -> ApiError {
    match error {
        CertificateError::InvalidCsr(_) | CertificateError::NotAllowed(_) => ApiError::Invalid(format!("Invalid csr: {error}.")),
        CertificateError::Stored(_) | CertificateError::OpenSsl(_) => ApiError::Internal(format!("sign a certificate: {error:?}")),
    }
}
