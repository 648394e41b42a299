//! `GET /v1/clustertemplates` and `/v1/clustertemplates/detail`; both show everything.

use model::store::{Conn, template};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::page::Next;
use crate::view::template::{TemplatePage, TemplateView};

/// What sets the two routes apart.
pub struct Variant {
    act: Act,
    everywhere: Act,
    collection: &'static str,
}

/// The plain list.
pub const LIST: Variant = Variant { act: Act::TemplateGetAll, everywhere: Act::TemplateGetAllEverywhere, collection: "clustertemplates" };
/// The detail list.
pub const DETAIL: Variant =
    Variant { act: Act::TemplateDetail, everywhere: Act::TemplateDetailEverywhere, collection: "clustertemplates/detail" };

/// One page.
pub async fn list(cx: Context, variant: Variant) -> Result<Answer, ApiError> {
    cx.allow_own(variant.act)?;
    let visible = super::visible(&cx, cx.wide_scope(variant.everywhere)?);
    let (page, _place) = cx.page().await?;
    let (visible, page) = (&visible, &page);
    let rows = cx.shared.store.read(async |conn: &mut Conn| template::list(conn, visible, page).await).await?;
    let next = Next::of(&cx.base, variant.collection, page, rows.len(), rows.last().map(|r| r.uuid.as_str()));
    let clustertemplates = rows.iter().map(|row| TemplateView { row, base: &cx.base }).collect();
    Answer::ok(&TemplatePage { clustertemplates, next })
}
