//! The `Accept` header, as far as it matters to a service that makes JSON only.

/// What a client's `Accept` header says about JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// It likes `application/json` better than `text/html`.
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
    let (mut json, mut html, mut stream) = (Liked::default(), Liked::default(), 0.0_f32);
    for range in header.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        if media.split_once('/').is_none_or(|(kind, sub)| kind.is_empty() || sub.is_empty()) {
            return Accept::Any;
        }
        let q = parts.find_map(|p| p.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse::<f32>().ok());
        let Some(q) = q else { return Accept::Any };
        match media.as_str() {
            "text/event-stream" => stream = q,
            "*/*" => {
                json.see(1, q);
                html.see(1, q);
            }
            "application/*" => json.see(2, q),
            "application/json" => json.see(3, q),
            "text/*" => html.see(2, q),
            "text/html" => html.see(3, q),
            _ => {}
        }
    }
    let or_json = json.q > 0.0;
    if stream > json.q {
        return Accept::EventStream { or_json };
    }
    // Upstream's framework has its texts in HTML as well, and prefers them where the client does not care.
    match or_json {
        true if json.q > html.q => Accept::NamesJson,
        true => Accept::Any,
        false => Accept::Refuses,
    }
}

/// How much a client likes a media type: the most specific range decides, the first of several.
#[derive(Default)]
struct Liked {
    rank: u8,
    q: f32,
}

impl Liked {
    fn see(&mut self, rank: u8, q: f32) {
        if rank > self.rank {
            *self = Self { rank, q };
        }
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
            (Some("application/*"), Accept::NamesJson),
            (Some("application/json"), Accept::NamesJson),
            (Some("text/html, application/json;q=0.5"), Accept::Any),
            (Some("application/json, */*;q=0.5"), Accept::NamesJson),
            (Some("application/json, text/plain, */*"), Accept::Any),
            (Some("text/plain, Application/JSON"), Accept::NamesJson),
            (Some("text/*;q=0.5, application/json;q=0.6"), Accept::NamesJson),
            (Some("text/html;q=0.1, */*"), Accept::NamesJson),
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
