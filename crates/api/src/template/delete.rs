//! `DELETE /v1/clustertemplates/{uuid or name}`: not while a cluster refers to it (T-28), or is being brought to it.

use model::store::{Conn, template};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;

/// Removes a template.
pub async fn delete(cx: Context) -> Result<Answer, ApiError> {
    let visible = super::visible(&cx, cx.wide_scope(Act::TemplateDeleteEverywhere)?);
    let (visible, ident) = (&visible, cx.arg("template"));
    let row = cx.shared.store.read(async |conn: &mut Conn| super::find(conn, visible, ident).await).await?;
    cx.allow_object(Act::TemplateDelete, &row)?;
    let id = row.template_id();
    let (id, answer) = (&id, Answer::no_content());
    let (cx, kept) = (&cx, &answer);
    cx.shared
        .store
        .write(async |conn: &mut Conn| {
            template::delete(conn, id).await?;
            cx.keep(conn, kept).await
        })
        .await?;
    Ok(answer)
}
