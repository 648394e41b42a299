//! `GET /v1/clustertemplates/{uuid or name}`.

use model::store::Conn;

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::template::TemplateView;

/// One template.
pub async fn show(cx: Context) -> Result<Answer, ApiError> {
    let visible = super::visible(&cx, cx.wide_scope(Act::TemplateGetOneEverywhere)?);
    let (visible, ident) = (&visible, cx.arg("template"));
    let row = cx.shared.store.read(async |conn: &mut Conn| super::find(conn, visible, ident).await).await?;
    if !row.is_public() {
        cx.allow_object(Act::TemplateGet, &row)?;
    }
    Answer::ok(&TemplateView { row: &row, base: &cx.base })
}
