//! The `Accept` header, as far as it matters to a service that makes JSON only.

/// What a client's `Accept` header says about JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// It names `application/json` as what it likes best.
    NamesJson,
    /// JSON will do.
    Any,
    /// It likes server-sent events best, which only some routes have; whether JSON will do as well.
    EventStream { or_json: bool },
    /// JSON is excluded.
    Refuses,
}

impl Accept {
    /// Whether an answer in JSON will do.
    pub fn takes_json(self) -> bool {
        matches!(self, Self::NamesJson | Self::Any | Self::EventStream { or_json: true })
    }
}

/// Reads the header; one that cannot be read counts as absent.
pub fn parse(header: Option<&str>) -> Accept {
    let Some(header) = header.map(str::trim).filter(|h| !h.is_empty()) else { return Accept::Any };
    let mut best: Option<(f32, &str)> = None;
    let mut json: Option<(u8, f32)> = None;
    let mut stream = 0.0_f32;
    for range in header.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let Some((kind, sub)) = media.split_once('/') else { return Accept::Any };
        if kind.is_empty() || sub.is_empty() {
            return Accept::Any;
        }
        let q = parts.find_map(|p| p.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse::<f32>().ok());
        let Some(q) = q else { return Accept::Any };
        if media.eq_ignore_ascii_case("text/event-stream") {
            stream = q;
        }
        if best.is_none_or(|(seen, _)| q > seen) {
            best = Some((q, media));
        }
        // The most specific range decides.
        let rank = match (kind, sub) {
            ("*", "*") => 1,
            (k, "*") if k.eq_ignore_ascii_case("application") => 2,
            (k, s) if k.eq_ignore_ascii_case("application") && s.eq_ignore_ascii_case("json") => 3,
            _ => continue,
        };
        if json.is_none_or(|(seen, _)| rank > seen) {
            json = Some((rank, q));
        }
    }
    let or_json = json.is_some_and(|(_, q)| q > 0.0);
    if stream > json.map_or(0.0, |(_, q)| q) {
        return Accept::EventStream { or_json };
    }
    match (json, best) {
        (Some((_, q)), Some((_, media))) if q > 0.0 => {
            if media.eq_ignore_ascii_case("application/json") {
                Accept::NamesJson
            } else {
                Accept::Any
            }
        }
        _ => Accept::Refuses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_that_exclude_json_are_refused() {
        for (header, expected) in [
            (None, Accept::Any),
            (Some(""), Accept::Any),
            (Some("*/*"), Accept::Any),
            (Some("application/*"), Accept::Any),
            (Some("application/json"), Accept::NamesJson),
            (Some("text/html, application/json;q=0.5"), Accept::Any),
            (Some("application/json, */*;q=0.5"), Accept::NamesJson),
            (Some("text/html"), Accept::Refuses),
            (Some("application/xml"), Accept::Refuses),
            (Some("application/vnd.openstack.magnum.v1+json"), Accept::Refuses),
            (Some("*/*, application/json;q=0"), Accept::Refuses),
            (Some("nonsense"), Accept::Any),
            (Some("text/event-stream"), Accept::EventStream { or_json: false }),
            (Some("text/event-stream, */*;q=0.1"), Accept::EventStream { or_json: true }),
            (Some("text/event-stream, application/json;q=0"), Accept::EventStream { or_json: false }),
            (Some("application/json, text/event-stream"), Accept::NamesJson),
            (Some("text/event-stream;q=0"), Accept::Refuses),
        ] {
            assert_eq!(parse(header), expected, "{header:?}");
        }
    }
}
