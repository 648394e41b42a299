//! Operations: what was asked for, and what became of it. They outlive their clusters.

pub mod list;
pub mod show;

use model::id::ClusterId;
use model::store::{Conn, Scope, StoreError, history};

use crate::context::Context;
use crate::view::schema::{is_uuid_like, plain_uuid};

/// The cluster that the request's path names: one that is there, or one that is gone and of which the scope sees an operation (by uuid).
pub async fn subject(cx: &Context, scope: &Scope) -> Result<ClusterId, StoreError> {
    let ident = cx.arg("cluster");
    cx.shared
        .store
        .read(async |conn: &mut Conn| match crate::cluster::find(conn, scope, ident).await {
            Err(missing @ StoreError::NotFound { .. }) if is_uuid_like(ident) => {
                let id = ClusterId::new(plain_uuid(ident));
                if history::is_known(conn, scope, &id).await? { Ok(id) } else { Err(missing) }
            }
            found => found.map(|row| row.cluster_id()),
        })
        .await
}
