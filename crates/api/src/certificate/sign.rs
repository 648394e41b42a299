//! `POST /v1/certificates`: signs a request with one of a cluster's authorities.

use std::time::Duration;

use model::certificate::signing::{Request, SigningRules, sign as sign_request};
use model::certificate::{Authority, CertificateError};
use model::store::Conn;

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::certificate::{CertificateView, SIGN};
use crate::view::links::Links;
use crate::view::schema::Body;

/// Characters of what is no request at all that the refusal repeats.
const SHOWN: usize = 40;

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
    let rules = cx.shared.settings.signing.clone();
    let lasting = expiry(&body, &rules)?;
    let request = Request::read(&csr).map_err(|error| refused(error, &csr))?.lasting(lasting);
    let pair = super::stored(&cx, &cluster.references(), &cluster.uuid, Authority::of_type(kind)).await?;
    // Decrypting the key and signing are CPU work: not on a thread that serves others.
    let signed = tokio::task::spawn_blocking(move || sign_request(&pair.open()?, &request, &rules))
        .await
        .map_err(|e| ApiError::Internal(format!("sign a certificate: {e}")))?;
    let pem = signed.map_err(|error| refused(error, &csr))?;
    let view = CertificateView {
        cluster_uuid: &cluster.uuid,
        pem: &pem,
        csr: Some(&csr),
        ca_cert_type: kind,
        certificates: None,
        links: Links { base: &cx.base, collection: "certificates", id: &cluster.uuid },
    };
    Answer::created(&view, String::new())
}

/// For how long the certificate is asked to be valid, if the operator allows as much.
fn expiry(body: &Body, rules: &SigningRules) -> Result<Option<Duration>, ApiError> {
    let Some(seconds) = body.integer("expiry_seconds") else { return Ok(None) };
    let asked = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let longest = rules.longest();
    if asked > longest {
        let rule = format!("It must be at most {}, the longest for which this cloud signs certificates", longest.as_secs());
        return Err(ApiError::value("expiry_seconds", seconds, rule));
    }
    Ok(Some(asked))
}

fn refused(error: CertificateError, csr: &str) -> ApiError {
    match error {
        // What is PEM at all is not repeated: it may be a key, sent by mistake.
        CertificateError::InvalidCsr(_) if !csr.contains("-----BEGIN") => {
            let shown: String = csr.chars().take(SHOWN).collect();
            ApiError::Invalid(format!("Invalid csr '{shown}': {error}."))
        }
        CertificateError::InvalidCsr(_) | CertificateError::NotAllowed(_) => ApiError::Invalid(format!("Invalid csr: {error}.")),
        CertificateError::Stored(_) | CertificateError::BrokenOff | CertificateError::OpenSsl(_) => {
            ApiError::Internal(format!("sign a certificate: {error:?}"))
        }
    }
}
