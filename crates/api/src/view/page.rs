//! The parameters of a list, and the link to its next page.

use std::fmt;

use model::store::{Page, SortDir};
use serde::{Serialize, Serializer};

use super::schema::is_uuid_like;
use crate::error::ApiError;

/// What part of a list is asked for.
pub type PageQuery = Page;

/// Reads the query of a list (rules G-11 to G-13; G-05 is `routes::dispatch`'s, G-14 the store's).
pub fn parse(query: &[(String, String)], max_limit: i64) -> Result<PageQuery, ApiError> {
    let mut page = Page { limit: max_limit, marker: None, sort_key: "id".into(), sort_dir: SortDir::Asc };
    for (key, value) in query {
        match key.as_str() {
            "limit" => page.limit = limit(value, max_limit)?,
            "marker" if is_uuid_like(value) => page.marker = Some(value.clone()),
            "marker" => return Err(ApiError::value(key, value, "Expected a uuid")),
            "sort_key" if value.is_empty() => {}
            "sort_key" => page.sort_key.clone_from(value),
            "sort_dir" => {
                page.sort_dir = match value.as_str() {
                    "asc" => SortDir::Asc,
                    "desc" => SortDir::Desc,
                    _ => return Err(ApiError::Invalid(format!("Invalid sort direction: {value}. Acceptable values are 'asc' or 'desc'"))),
                };
            }
            // What else the route takes (`routes::dispatch` refuses the rest).
            _ => {}
        }
    }
    Ok(page)
}

/// Reads the query of a list whose markers are numbers.
pub fn parse_numbered(query: &[(String, String)], max_limit: i64) -> Result<PageQuery, ApiError> {
    let (marker, others): (Vec<_>, Vec<_>) = query.iter().cloned().partition(|(key, _)| key == "marker");
    let mut page = parse(&others, max_limit)?;
    if let Some((key, value)) = marker.first() {
        let text = value.trim();
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ApiError::value(key, value, "unable to convert to int"));
        }
        // No row has the number 0, which upstream takes for no marker.
        page.marker = digits.bytes().any(|b| b != b'0').then(|| text.to_owned());
    }
    Ok(page)
}

fn limit(text: &str, max: i64) -> Result<i64, ApiError> {
    let trimmed = text.trim();
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ApiError::value("limit", text, "unable to convert to int"));
    }
    // More digits than fit are above every maximum.
    let value = trimmed.parse().unwrap_or(if trimmed.starts_with('-') { i64::MIN } else { i64::MAX });
    if value <= 0 {
        return Err(ApiError::Invalid("Limit must be positive".into()));
    }
    Ok(value.min(max))
}

/// The absolute URL of the next page.
#[derive(Debug)]
pub struct Next<'a> {
    base: &'a str,
    collection: &'a str,
    page: &'a PageQuery,
    marker: &'a str,
    /// More of the query, beginning with `&`.
    more: String,
}

impl<'a> Next<'a> {
    /// There is a next page whenever this one is full, even if it is the last.
    pub fn of(base: &'a str, collection: &'a str, page: &'a PageQuery, items: usize, last: Option<&'a str>) -> Option<Self> {
        let marker = last?;
        (i64::try_from(items) == Ok(page.limit)).then_some(Self { base, collection, page, marker, more: String::new() })
    }

    /// With more of the query: `&name=value` for each that the list is narrowed by.
    pub fn with(self, more: String) -> Self {
        Self { more, ..self }
    }
}

impl fmt::Display for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Page { limit, sort_key, sort_dir, .. } = self.page;
        let dir = sort_dir.as_str();
        write!(
            f,
            "{}/v1/{}?sort_key={sort_key}&sort_dir={dir}&limit={limit}&marker={}{}",
            self.base, self.collection, self.marker, self.more
        )
    }
}

impl Serialize for Next<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    const UUID: &str = "f4a42e6f-27e2-4e13-8939-b72792da7568";

    #[test]
    fn pages_are_read_and_cut_to_the_maximum() {
        let page = parse(&query(&[("limit", "5000"), ("sort_dir", "desc"), ("sort_key", ""), ("marker", UUID)]), 1000).expect("valid");
        assert_eq!((page.limit, page.sort_dir, page.sort_key.as_str(), page.marker.as_deref()), (1000, SortDir::Desc, "id", Some(UUID)));
        assert_eq!(parse(&query(&[("limit", "99999999999999999999")]), 1000).expect("valid").limit, 1000);
    }

    #[test]
    fn bad_parameters_are_named() {
        for pair in [("limit", "0"), ("limit", "-1"), ("limit", "x"), ("limit", ""), ("marker", "5"), ("sort_dir", "ASC")] {
            assert!(matches!(parse(&query(&[pair]), 1000), Err(ApiError::Invalid(_))), "{pair:?}");
        }
    }

    #[test]
    fn a_full_page_has_a_next_and_an_empty_one_has_not() {
        let page = parse(&query(&[("limit", "1"), ("sort_key", "name")]), 1000).expect("valid");
        let next = Next::of("http://h", "clusters", &page, 1, Some(UUID)).expect("a next page").to_string();
        assert_eq!(next, format!("http://h/v1/clusters?sort_key=name&sort_dir=asc&limit=1&marker={UUID}"));
        assert!(Next::of("http://h", "clusters", &page, 0, None).is_none());
    }
}
