//! `GET /v1/quotas`: of the own project, or of all with `all_tenants`.

use model::store::{Conn, Scope, quota};

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::page::Next;
use crate::view::quota::{QuotaPage, QuotaView};

/// One page. Its marker is the number of a quota.
pub async fn list(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::QuotaGetAll)?;
    let everything = cx.flag("all_tenants")?.unwrap_or(false) && cx.caller.is_admin;
    let scope = if everything { Scope::All } else { cx.own_scope() };
    let (page, _place) = cx.numbered_page().await?;
    let (scope, page) = (&scope, &page);
    let rows = cx.shared.store.read(async |conn: &mut Conn| quota::list(conn, scope, page).await).await?;
    let last = rows.last().map(|row| row.id.to_string());
    let next = Next::of(&cx.base, "quotas", page, rows.len(), last.as_deref());
    Answer::ok(&QuotaPage { quotas: rows.iter().map(QuotaView::of).collect(), next })
}
