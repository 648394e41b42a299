//! Federations: upstream has the routes, checks requests and answers that they are accepted, and its conductor then has no such operation.
//! The same here: nothing is ever stored, so that lists are empty and look-ups fail (rest-api.md 8.6).

pub mod create;
pub mod delete;
pub mod list;
pub mod show;
pub mod update;

use model::federation::Federation;
use model::store::{Conn, federation};

use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::schema::is_uuid_like;

/// The one federation that the path names, in the caller's own project, if a policy allows him to touch it.
async fn find(cx: &Context, act: Act) -> Result<Federation, ApiError> {
    let (scope, ident) = (&cx.own_scope(), cx.arg("federation"));
    let found = cx.shared.store.read(async |conn: &mut Conn| match is_uuid_like(ident) {
        true => federation::fetch(conn, scope, ident).await,
        false => federation::fetch_by_name(conn, scope, ident).await,
    });
    let row = found.await?;
    cx.allow_on(act, row.project_id.as_deref(), None)?;
    Ok(row)
}
