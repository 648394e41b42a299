//! Clusters.

pub mod create;
pub mod delete;
pub mod exits;
pub mod list;
pub mod resize;
pub mod show;
pub mod transfer;
pub mod update;
pub mod upgrade;

use model::cluster::Cluster;
use model::id::ClusterId;
use model::store::{Conn, Scope, StoreError, cluster};

use crate::context::Context;
use crate::error::ApiError;
use crate::view::schema::is_uuid_like;

/// The one cluster that a path or body names: by uuid if it looks like one, else by name.
pub async fn find(conn: &mut Conn, scope: &Scope, ident: &str) -> Result<Cluster, StoreError> {
    if is_uuid_like(ident) {
        cluster::fetch(conn, scope, &ClusterId::new(ident)).await
    } else {
        cluster::fetch_by_name(conn, scope, ident).await
    }
}

/// The one cluster that the path names.
pub async fn named(cx: &Context, scope: &Scope) -> Result<Cluster, ApiError> {
    let ident = cx.arg("cluster");
    Ok(cx.shared.store.read(async |conn: &mut Conn| find(conn, scope, ident).await).await?)
}
