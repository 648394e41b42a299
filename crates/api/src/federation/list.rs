//! `GET /v1/federations` and `/v1/federations/detail`.

use model::store::{Conn, federation};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::federation::{FederationPage, FederationView};
use crate::view::page::Next;

/// One page of the short form.
pub async fn short(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::FederationGetAll)?;
    list(&cx, "federations", |row, base| FederationView::short(row, base)).await
}

/// One page of the full form.
pub async fn detail(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::FederationDetail)?;
    list(&cx, "federations/detail", |row, base| FederationView::full(row, base)).await
}

async fn list(
    cx: &Context,
    collection: &'static str,
    view: for<'a> fn(&'a model::federation::Federation, &'a str) -> FederationView<'a>,
) -> Result<Answer, ApiError> {
    let (page, _place) = cx.page().await?;
    let (scope, page) = (&cx.own_scope(), &page);
    let rows = cx.shared.store.read(async |conn: &mut Conn| federation::list(conn, scope, page).await).await?;
    let next = Next::of(&cx.base, collection, page, rows.len(), rows.last().map(|row| row.uuid.as_str()));
    Answer::ok(&FederationPage { federations: rows.iter().map(|row| view(row, &cx.base)).collect(), next })
}
