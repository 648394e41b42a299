//! Lists that come in pages: asked with `limit` and `marker` until a page is not full.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::CloudError;
use crate::request::Request;
use crate::session::Session;

/// How many we ask for at once.
const PAGE: usize = 200;
/// More pages than any real list has: a server that never ends must not hold us.
const MOST_PAGES: usize = 500;

/// Every item of the list under `key`.
pub(crate) async fn all<T: DeserializeOwned>(
    session: &Session,
    key: &'static str,
    request: impl Fn() -> Request,
) -> Result<Vec<T>, CloudError> {
    let mut items = Vec::new();
    let mut marker: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let asked = request().query("limit", PAGE.to_string()).query_if("marker", marker.clone());
        let answer = session.answer(&asked).await?;
        let mut body: Value = answer.json()?;
        let more = has_next(&body, key);
        let Some(Value::Array(page)) = body.get_mut(key).map(Value::take) else {
            return Err(answer.malformed(&format!("the answer has no list {key}")));
        };
        let full = page.len() >= PAGE;
        let last = page.last().and_then(|item| item.get("id")).and_then(Value::as_str).map(str::to_owned);
        // A server that ignores the marker gives the same page again: it is taken once.
        if marker.is_some() && last == marker {
            return Ok(items);
        }
        for item in page {
            items.push(serde_json::from_value(item).map_err(|_| answer.malformed(&format!("an item of {key} is not as expected")))?);
        }
        if last.is_none() || !(full || more) {
            return Ok(items);
        }
        marker = last;
    }
    let asked = request();
    Err(CloudError::malformed(asked.service, asked.operation, 200, None, "the list does not end"))
}

/// Glance says `next`; Nova, Neutron and the others `<key>_links`; Heat and Keystone `links`.
fn has_next(body: &Value, key: &str) -> bool {
    if body.get("next").is_some_and(Value::is_string) {
        return true;
    }
    let links = body.get(format!("{key}_links")).or_else(|| body.get("links"));
    match links {
        Some(Value::Array(links)) => links.iter().any(|link| link.get("rel").and_then(Value::as_str) == Some("next")),
        Some(Value::Object(links)) => links.get("next").is_some_and(Value::is_string),
        _ => false,
    }
}
