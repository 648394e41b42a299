//! Operations: what was asked for, and what became of it. They outlive their clusters.

pub mod list;
pub mod show;

use model::id::ClusterId;
use model::store::{Conn, Scope, StoreError, cluster, history};

use crate::context::Context;
use crate::view::schema::{is_uuid_like, plain_uuid};

/// The cluster that the request's path names: one that is there, or one that is gone and of which the scope sees an operation (by uuid).
///
/// One statement either way, for the page that comes after it takes three. A second one where the path has another spelling of a uuid than the
/// usual: another program may have stored it so.
pub async fn subject(cx: &Context, scope: &Scope) -> Result<ClusterId, StoreError> {
    let ident = cx.arg("cluster");
    cx.shared
        .store
        .read(async |conn: &mut Conn| {
            if !is_uuid_like(ident) {
                return Ok(cluster::fetch_by_name(conn, scope, ident).await?.cluster_id());
            }
            let (plain, given) = (ClusterId::new(plain_uuid(ident)), ClusterId::new(ident));
            if history::is_known(conn, scope, &plain).await? {
                return Ok(plain);
            }
            if given != plain && history::is_known(conn, scope, &given).await? {
                return Ok(given);
            }
            Err(StoreError::NotFound { what: "cluster", key: ident.to_owned() })
        })
        .await
}
