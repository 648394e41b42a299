//! `GET /v1/clusters/{cluster}/events`: a page, or a stream that goes on.

use model::store::{Conn, event};

use super::stream;
use crate::accept::Accept;
use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::event::{EventPage, EventView};

/// Answers in the form that the client asks for.
pub async fn list(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::EventGetAll)?;
    let scope = cx.wide_scope(Act::OperationGetAllEverywhere)?;
    let cluster = crate::operation::subject(&cx, &scope).await?;
    let (page, _place) = cx.numbered_page().await?;
    let after = number("marker", page.marker.as_deref())?;
    if matches!(cx.head.accept, Accept::EventStream { .. }) {
        let last = cx.head.last_event_id.as_deref().or(cx.parameter("last_event_id"));
        let seen = number("Last-Event-ID", last)?.max(after);
        let newest = cx.shared.store.read(async |conn: &mut Conn| event::newest(conn).await).await?;
        // A number beyond all that there are is another database's: whoever waits for what follows it would never hear anything, nor would
        // those who follow the cluster with him. Of the cluster's own the last ones may have been removed because they are old, and then he has
        // seen what is not there any more.
        return stream::open(&cx, cluster, if seen > newest { 0 } else { seen });
    }
    let (cluster, limit) = (&cluster, page.limit);
    let rows = cx.shared.store.read(async |conn: &mut Conn| event::of_cluster(conn, cluster, after, limit).await).await?;
    let next = rows
        .last()
        .filter(|_| i64::try_from(rows.len()) == Ok(limit))
        .map(|last| format!("{}/v1/clusters/{cluster}/events?limit={limit}&marker={}", cx.base, last.id));
    Answer::ok(&EventPage { events: rows.iter().map(EventView::of).collect(), next })
}

/// The number of an event; 0 is before the first.
fn number(name: &str, text: Option<&str>) -> Result<i64, ApiError> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(0) };
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let bad = || ApiError::value(name, text, "It must be the id of an event");
    if digits { text.parse().map_err(|_| bad()) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_named_by_its_number() {
        for (text, wanted) in
            [(None, Some(0)), (Some(""), Some(0)), (Some(" 17 "), Some(17)), (Some("9223372036854775807"), Some(i64::MAX))]
        {
            assert_eq!(number("marker", text).ok(), wanted, "{text:?}");
        }
        for text in ["-1", "+1", "x", "1.5", "9223372036854775808"] {
            assert!(number("marker", Some(text)).is_err_and(|e| e.to_string().contains("marker")), "{text}");
        }
    }
}
