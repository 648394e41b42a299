//! Which pages of other origins may use the API in a browser: oslo.middleware's CORS layer, header for header (config-and-deploy.md 2, `[cors]`).
//!
//! It stands outermost, as in upstream's pipeline: an `OPTIONS` request never fails, whether an origin is allowed or not, because upstream's
//! layer replaces every failure of the application by an empty 200; what a page may do is said by the headers alone.

use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Request headers that need no leave.
const SIMPLE_HEADERS: &[&str] =
    &["Accept", "Accept-Language", "Content-Type", "Cache-Control", "Content-Language", "Expires", "Last-Modified", "Pragma"];

/// `[cors]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    /// Origins whose pages may read answers; `*` allows every one, none turns the layer off.
    pub allowed_origins: Vec<String>,
    /// Whether pages may send what the browser knows of the user.
    pub allow_credentials: bool,
    /// Answer headers that pages may read.
    pub expose_headers: Vec<String>,
    /// Seconds for which a browser may remember a preflight; 0 says nothing.
    pub max_age: i64,
    /// Methods that pages may use.
    pub allow_methods: Vec<String>,
    /// Request headers that pages may send.
    pub allow_headers: Vec<String>,
}

impl Cors {
    /// The answer to an `OPTIONS` request: empty, with the leave that a preflight asks for if it is given.
    pub fn preflight(&self, request: &HeaderMap) -> HttpResponse {
        let mut response = HttpResponse::Ok().finish();
        let Some((origin, method)) = self.origin(request).zip(text(request, &header::ACCESS_CONTROL_REQUEST_METHOD)) else {
            return response;
        };
        let wanted = text(request, &header::ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
        let wanted: Vec<&str> = wanted.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let allowed = |name: &str| {
            let mut known = self.allow_headers.iter().map(String::as_str).chain(SIMPLE_HEADERS.iter().copied());
            known.any(|known| known.eq_ignore_ascii_case(name))
        };
        if !self.allow_methods.iter().any(|allowed| allowed == method) || !wanted.iter().all(|name| allowed(name)) {
            return response;
        }
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        self.give_leave(headers, origin);
        if self.max_age != 0 {
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(self.max_age));
        }
        insert(headers, header::ACCESS_CONTROL_ALLOW_METHODS, method);
        if !wanted.is_empty() {
            insert(headers, header::ACCESS_CONTROL_ALLOW_HEADERS, &wanted.join(","));
        }
        response
    }

    /// Says on any other answer whether the page that asked may read it.
    pub fn decorate(&self, request: &HeaderMap, response: &mut HeaderMap) {
        let Some(origin) = self.origin(request) else { return };
        let vary = text(response, &header::VARY).map_or_else(|| "Origin".to_owned(), |vary| format!("{vary},Origin"));
        insert(response, header::VARY, &vary);
        self.give_leave(response, origin);
        if !self.expose_headers.is_empty() {
            insert(response, header::ACCESS_CONTROL_EXPOSE_HEADERS, &self.expose_headers.join(","));
        }
    }

    fn give_leave(&self, headers: &mut HeaderMap, origin: &str) {
        insert(headers, header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.allow_credentials {
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }

    /// The allowed origin that a request comes from, in the configuration's words.
    fn origin(&self, request: &HeaderMap) -> Option<&str> {
        let origin = text(request, &header::ORIGIN)?;
        let allowed = |wanted: &str| self.allowed_origins.iter().map(String::as_str).find(|allowed| *allowed == wanted);
        allowed(origin).or_else(|| allowed("*"))
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Adds a header unless the configuration holds what no header can.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const ORIGIN: &str = "https://horizon.example.com";

    fn cors(change: impl FnOnce(&mut Cors)) -> Cors {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut cors = Cors {
            allowed_origins: list(&[ORIGIN]),
            allow_credentials: true,
            expose_headers: list(&["X-Auth-Token", "X-OpenStack-Request-ID"]),
            max_age: 3600,
            allow_methods: list(&["GET", "PUT", "POST", "DELETE", "PATCH"]),
            allow_headers: list(&["X-Auth-Token", "X-Tenant-Id"]),
        };
        change(&mut cors);
        cors
    }

    fn request(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn seen(headers: &HeaderMap) -> BTreeMap<String, String> {
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned())).collect()
    }

    fn wanted(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const ASKS: &[(&str, &str)] = &[
        ("origin", ORIGIN),
        ("access-control-request-method", "PATCH"),
        ("access-control-request-headers", "content-type, X-AUTH-TOKEN,, x-tenant-id"),
    ];

    #[test]
    fn a_preflight_is_answered_with_what_was_asked_for() {
        let leave = [
            ("vary", "Origin"),
            ("access-control-allow-origin", ORIGIN),
            ("access-control-allow-credentials", "true"),
            ("access-control-max-age", "3600"),
            ("access-control-allow-methods", "PATCH"),
            ("access-control-allow-headers", "content-type,X-AUTH-TOKEN,x-tenant-id"),
        ];
        let response = cors(|_| {}).preflight(&request(ASKS));
        assert_eq!(response.status(), 200);
        assert_eq!(seen(response.headers()), wanted(&leave));

        let plain = cors(|cors| (cors.allow_credentials, cors.max_age) = (false, 0));
        let asks = [("origin", ORIGIN), ("access-control-request-method", "GET")];
        let leave = [("vary", "Origin"), ("access-control-allow-origin", ORIGIN), ("access-control-allow-methods", "GET")];
        assert_eq!(seen(plain.preflight(&request(&asks)).headers()), wanted(&leave));
    }

    #[test]
    fn a_preflight_without_leave_is_an_empty_200() {
        let all = cors(|_| {});
        for asks in [
            &[("access-control-request-method", "GET")][..],
            &[("origin", "https://other.example.com"), ("access-control-request-method", "GET")],
            &[("origin", ORIGIN)],
            &[("origin", ORIGIN), ("access-control-request-method", "TRACE")],
            &[("origin", ORIGIN), ("access-control-request-method", "get")],
            &[("origin", ORIGIN), ("access-control-request-method", "GET"), ("access-control-request-headers", "x-auth-token,x-other")],
        ] {
            let response = all.preflight(&request(asks));
            assert_eq!(response.status(), 200, "{asks:?}");
            assert_eq!(seen(response.headers()), wanted(&[]), "{asks:?}");
        }
        assert_eq!(seen(Cors::default().preflight(&request(ASKS)).headers()), wanted(&[]));
    }

    #[test]
    fn answers_to_allowed_origins_say_so() {
        let with_star = cors(|cors| cors.allowed_origins.push("*".to_owned()));
        let other = [("origin", "https://other.example.com")];
        let mut answer = request(&[("vary", "OpenStack-API-Version")]);
        cors(|_| {}).decorate(&request(&other), &mut answer);
        assert_eq!(seen(&answer), wanted(&[("vary", "OpenStack-API-Version")]));

        for (origin, named) in [(ORIGIN, ORIGIN), ("https://other.example.com", "*")] {
            let mut answer = request(&[("vary", "OpenStack-API-Version")]);
            with_star.decorate(&request(&[("origin", origin)]), &mut answer);
            let leave = [
                ("vary", "OpenStack-API-Version,Origin"),
                ("access-control-allow-origin", named),
                ("access-control-allow-credentials", "true"),
                ("access-control-expose-headers", "X-Auth-Token,X-OpenStack-Request-ID"),
            ];
            assert_eq!(seen(&answer), wanted(&leave));
        }
    }
}
