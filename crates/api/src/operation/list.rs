//! `GET /v1/operations` and `GET /v1/clusters/{cluster}/operations`.

use model::id::ClusterId;
use model::operation::{OperationKind, OperationState};
use model::store::history::{self, Shown};
use model::store::{Conn, Scope};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::operation::{OperationPage, OperationView};
use crate::view::page::Next;
use crate::view::schema::{is_uuid_like, plain_uuid};

/// One page of the project's operations, or of all projects'.
pub async fn all(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::OperationGetAll)?;
    let scope = cx.wide_scope(Act::OperationGetAllEverywhere)?;
    let cluster = uuid(&cx, "cluster")?.map(ClusterId::new);
    answer(&cx, &scope, cluster, "operations").await
}

/// One page of a cluster's operations, also when it is gone.
pub async fn of_cluster(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::OperationGetAll)?;
    let scope = cx.wide_scope(Act::OperationGetAllEverywhere)?;
    let cluster = super::subject(&cx, &scope).await?;
    let collection = format!("clusters/{cluster}/operations");
    answer(&cx, &scope, Some(cluster), &collection).await
}

/// A query parameter that holds one of these words.
fn word(cx: &Context, name: &str, words: &[&str]) -> Result<Option<String>, ApiError> {
    match cx.parameter(name) {
        Some(text) if !words.contains(&text) => Err(ApiError::value(name, text, format_args!("It must be one of {}", words.join(", ")))),
        other => Ok(other.map(str::to_owned)),
    }
}

/// A query parameter that holds a uuid, in the plain spelling.
pub fn uuid(cx: &Context, name: &str) -> Result<Option<String>, ApiError> {
    match cx.parameter(name) {
        Some(text) if !is_uuid_like(text) => Err(ApiError::value(name, text, "It must be a uuid")),
        other => Ok(other.map(plain_uuid)),
    }
}

async fn answer(cx: &Context, scope: &Scope, cluster: Option<ClusterId>, collection: &str) -> Result<Answer, ApiError> {
    let (page, _place) = cx.page().await?;
    let shown = Shown { cluster, state: word(cx, "state", OperationState::WORDS)?, kind: word(cx, "kind", OperationKind::WORDS)? };
    let (page, shown) = (&page, &shown);
    let rows = cx.shared.store.read(async |conn: &mut Conn| history::page(conn, scope, shown, page).await).await?;
    let mut extra = String::new();
    for name in ["cluster", "state", "kind"] {
        if let Some(value) = cx.parameter(name) {
            // Words and uuids only: nothing of it needs to be escaped.
            extra += &format!("&{name}={value}");
        }
    }
    let next = Next::of(&cx.base, collection, page, rows.len(), rows.last().map(|r| r.uuid.as_str())).map(|next| next.with(extra));
    Answer::ok(&OperationPage { operations: rows.iter().map(|row| OperationView::short(row, &cx.base)).collect(), next })
}
