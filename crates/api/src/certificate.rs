//! Certificates of clusters.

pub mod rotate;
pub mod show;
pub mod sign;

use model::certificate::{Authority, References, Role, StoredKeypair};
use model::id::KeypairId;

use crate::context::Context;
use crate::error::ApiError;

/// The stored key pair of one of a cluster's authorities.
async fn stored(cx: &Context, references: &References, cluster: &str, authority: Authority) -> Result<StoredKeypair, ApiError> {
    let Some(reference) = references.of(Role::Authority(authority)) else {
        return Err(ApiError::Missing(format!("The certificates of cluster {cluster} are not there yet.")));
    };
    Ok(cx.shared.keepers.fetch(&cx.shared.store, &KeypairId::new(reference.clone())).await?)
}
