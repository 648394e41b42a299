//! `POST /v1/federations`: rules F-01 to F-04, and nothing more.

use model::store::Conn;

use crate::answer::Answer;
use crate::cluster;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::federation::CREATE;

/// Answers as upstream does; no federation comes of it.
pub async fn create(cx: Context) -> Result<Answer, ApiError> {
    let body = cx.read(&CREATE)?;
    cx.allow_own(Act::FederationCreate)?;
    let (scope, host) = (&cx.own_scope(), body.text("hostcluster_id").unwrap_or_default());
    cx.shared.store.read(async |conn: &mut Conn| cluster::find(conn, scope, host).await).await?;
    if body.labels("properties").is_none_or(|p| !p.0.contains_key("dns-zone")) {
        return Err(ApiError::field("properties", "It must have the key dns-zone"));
    }
    Answer::accepted(&uuid::Uuid::new_v4().to_string())
}
