//! `GET /v1/certificates/{cluster uuid or name}`.

use model::certificate::Authority;
use model::store::Conn;

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::certificate::CertificateView;
use crate::view::links::Links;

/// A cluster's authority, in the caller's own project (K-01).
pub async fn show(cx: Context) -> Result<Answer, ApiError> {
    let scope = cx.own_scope();
    let (scope, ident) = (&scope, cx.arg("cluster"));
    let cluster = cx.shared.store.read(async |conn: &mut Conn| crate::cluster::find(conn, scope, ident).await).await?;
    cx.allow_object(Act::CertificateGet, &cluster)?;
    let pair = super::stored(&cx, &cluster, Authority::of_type(cx.parameter("ca_cert_type"))).await?;
    Answer::ok(&CertificateView {
        cluster_uuid: &cluster.uuid,
        pem: pair.pem(),
        csr: None,
        ca_cert_type: None,
        links: Links { base: &cx.base, collection: "certificates", id: &cluster.uuid },
    })
}
