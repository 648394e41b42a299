//! Certificates of clusters.

pub mod rotate;
pub mod show;
pub mod sign;

use model::certificate::{Authority, StoredKeypair};
use model::cluster::Cluster;
use model::id::KeypairId;

use crate::context::Context;
use crate::error::ApiError;

/// The stored key pair of one of a cluster's authorities.
async fn stored(cx: &Context, cluster: &Cluster, authority: Authority) -> Result<StoredKeypair, ApiError> {
    let reference = match authority {
        Authority::Kubernetes => &cluster.ca_cert_ref,
        Authority::Etcd => &cluster.etcd_ca_cert_ref,
        Authority::FrontProxy => &cluster.front_proxy_ca_cert_ref,
    };
    let Some(reference) = reference else {
        return Err(ApiError::Missing(format!("The certificates of cluster {} are not there yet.", cluster.uuid)));
    };
    Ok(cx.shared.keepers.fetch(&cx.shared.store, &KeypairId::new(reference.clone())).await?)
}
