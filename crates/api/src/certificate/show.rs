//! `GET /v1/certificates/{cluster uuid or name}`.

use model::certificate::{Authority, Facts, bundle};
use model::cluster::Cluster;
use model::id::KeypairId;
use model::store::{Conn, rotation};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::certificate::{CertificateView, FactsView};
use crate::view::links::Links;

/// A cluster's authority, in the caller's own project (K-01).
pub async fn show(cx: Context) -> Result<Answer, ApiError> {
    let scope = cx.own_scope();
    let (scope, ident) = (&scope, cx.arg("cluster"));
    let cluster = cx.shared.store.read(async |conn: &mut Conn| crate::cluster::find(conn, scope, ident).await).await?;
    cx.allow_object(Act::CertificateGet, &cluster)?;
    let pem = trusted(&cx, &cluster, Authority::of_type(cx.parameter("ca_cert_type"))).await?;
    let certificates = if wants_info(&cx)? { Some(facts(&cx, &cluster).await?) } else { None };
    Answer::ok(&CertificateView {
        cluster_uuid: &cluster.uuid,
        pem: &pem,
        csr: None,
        ca_cert_type: None,
        certificates,
        links: Links { base: &cx.base, collection: "certificates", id: &cluster.uuid },
    })
}

/// The authority that signs, and while it is on its way out or in, the other one: a client that trusts both reaches every master.
async fn trusted(cx: &Context, cluster: &Cluster, authority: Authority) -> Result<String, ApiError> {
    let own = super::stored(cx, &cluster.references(), &cluster.uuid, authority).await?;
    let id = &cluster.cluster_id();
    match cx.shared.store.read(async |conn: &mut Conn| rotation::beside(conn, id).await).await? {
        Some(beside) => {
            let beside = super::stored(cx, &beside, &cluster.uuid, authority).await?;
            Ok(bundle([own.pem(), beside.pem()]))
        }
        None => Ok(own.pem().to_owned()),
    }
}

/// `info` alone says yes too.
fn wants_info(cx: &Context) -> Result<bool, ApiError> {
    match cx.parameter("info") {
        Some("") => Ok(true),
        _ => Ok(cx.flag("info")?.unwrap_or(false)),
    }
}

/// What the cluster's certificates say of themselves, as far as there are any.
async fn facts(cx: &Context, cluster: &Cluster) -> Result<Vec<FactsView>, ApiError> {
    let references = [
        ("kubernetes", &cluster.ca_cert_ref),
        ("etcd", &cluster.etcd_ca_cert_ref),
        ("front_proxy", &cluster.front_proxy_ca_cert_ref),
        ("client", &cluster.magnum_cert_ref),
    ];
    let now = model::time::now().naive_utc();
    let mut views = Vec::new();
    for (name, reference) in references {
        let Some(reference) = reference else { continue };
        let pair = cx.shared.keepers.fetch(&cx.shared.store, &KeypairId::new(reference.clone())).await?;
        let facts =
            Facts::read(pair.pem()).map_err(|e| ApiError::Internal(format!("read the {name} certificate of {}: {e:?}", cluster.uuid)))?;
        views.push(FactsView::of(name, facts, now));
    }
    Ok(views)
}
