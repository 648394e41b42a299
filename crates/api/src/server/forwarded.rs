//! What a client believes to be speaking to: scheme, host and prefix of links, and the client's own address.
//!
//! As oslo.middleware's `http_proxy_to_wsgi` and WebOb make it (rest-api.md 1.1, config-and-deploy.md 2): `Forwarded` if there is one, else
//! `X-Forwarded-Proto`, `-Host` and `-For`; `X-Forwarded-Prefix` with either. Only the first value of a list counts: the proxy nearest to the
//! client. Beyond oslo: quotes are undone, `X-Forwarded-Port` completes a host without port, and what can be no scheme, host or path is
//! ignored instead of printed into links. All of it counts only when the operator believes his proxies.

use std::net::SocketAddr;

use actix_web::http::header::HeaderMap;

/// How the client sees this service.
#[derive(Debug, PartialEq, Eq)]
pub struct Front {
    /// Scheme, host and prefix, without trailing slash.
    pub base: String,
    /// The client's address as the proxies or the connection tell it.
    pub client: Option<String>,
}

/// What is known of the connection itself.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Whether this process ends TLS.
    pub secure: bool,
    pub peer: Option<SocketAddr>,
}

/// Reads the headers of one request.
pub fn front(headers: &HeaderMap, connection: Connection, believe_proxies: bool) -> Front {
    let told = if believe_proxies { told(headers) } else { Told::default() };
    let own = if connection.secure { "https" } else { "http" };
    let scheme = told.scheme.unwrap_or(own);
    let host = match &told.host {
        Some(host) => host,
        None => header(headers, "host").filter(|host| is_host(host)).unwrap_or("localhost"),
    };
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(default_port).unwrap_or(host);
    let prefix = told.prefix.unwrap_or_default();
    let client = told.client.or_else(|| connection.peer.map(|peer| peer.ip().to_string()));
    Front { base: format!("{scheme}://{host}{prefix}"), client }
}

#[derive(Default)]
struct Told<'a> {
    scheme: Option<&'static str>,
    host: Option<String>,
    prefix: Option<&'a str>,
    client: Option<String>,
}

fn told(headers: &HeaderMap) -> Told<'_> {
    let mut told = Told::default();
    if let Some(forwarded) = header(headers, "forwarded") {
        for pair in first(forwarded).split(';') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = unquote(value.trim());
            match key.trim().to_ascii_lowercase().as_str() {
                "proto" => told.scheme = scheme(&value),
                "host" => told.host = Some(value).filter(|host| is_host(host)),
                "for" => told.client = Some(value).filter(|client| is_host(client)),
                _ => {}
            }
        }
    } else {
        let value = |name| header(headers, name).map(first).filter(|value| !value.is_empty());
        told.scheme = value("x-forwarded-proto").and_then(scheme);
        told.host = value("x-forwarded-host").filter(|host| is_host(host)).map(|host| match value("x-forwarded-port") {
            Some(port) if !has_port(host) && port.parse::<u16>().is_ok() => format!("{host}:{port}"),
            _ => host.to_owned(),
        });
        told.client = value("x-forwarded-for").filter(|client| is_host(client)).map(str::to_owned);
    }
    told.prefix = header(headers, "x-forwarded-prefix").map(|prefix| first(prefix).trim_end_matches('/')).filter(|prefix| is_path(prefix));
    told
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim).filter(|value| !value.is_empty())
}

fn first(list: &str) -> &str {
    list.split(',').next().unwrap_or_default().trim()
}

fn scheme(text: &str) -> Option<&'static str> {
    ["http", "https"].into_iter().find(|known| text.eq_ignore_ascii_case(known))
}

/// The text of a quoted string, or the text itself.
fn unquote(text: &str) -> String {
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace('\\', ""),
        None => text.to_owned(),
    }
}

fn has_port(host: &str) -> bool {
    match host.rsplit_once(']') {
        Some((_, rest)) => rest.starts_with(':'),
        None => host.contains(':'),
    }
}

/// Whether the text may be a host with or without port: names, addresses, `_` as RFC 7239 has it for hidden clients.
fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b))
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/.-_~%+@:".contains(&b))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn base(pairs: &[(&'static str, &'static str)], secure: bool, believe: bool) -> String {
        front(&headers(pairs), Connection { secure, peer: None }, believe).base
    }

    const HOST: (&str, &str) = ("host", "10.0.0.1:9511");
    const PROTO: (&str, &str) = ("x-forwarded-proto", "https");
    const FORWARDED_HOST: (&str, &str) = ("x-forwarded-host", "api.example.org");

    #[test]
    fn proxies_are_believed_only_when_the_operator_says_so() {
        let told = [HOST, PROTO, FORWARDED_HOST, ("x-forwarded-prefix", "/magnum"), ("forwarded", "host=evil.example.org;proto=https")];
        assert_eq!(base(&told, false, false), "http://10.0.0.1:9511");
        assert_eq!(base(&told, true, false), "https://10.0.0.1:9511");
    }

    #[test]
    fn links_begin_with_what_the_outermost_proxy_was_asked_for() {
        let cases: &[(&[(&'static str, &'static str)], &str)] = &[
            (&[HOST], "http://10.0.0.1:9511"),
            (&[], "http://localhost"),
            (&[HOST, PROTO], "https://10.0.0.1:9511"),
            (&[HOST, PROTO, FORWARDED_HOST], "https://api.example.org"),
            (&[HOST, PROTO, FORWARDED_HOST, ("x-forwarded-port", "443")], "https://api.example.org"),
            (&[HOST, PROTO, FORWARDED_HOST, ("x-forwarded-port", "8443")], "https://api.example.org:8443"),
            (&[HOST, PROTO, ("x-forwarded-host", "api.example.org:1"), ("x-forwarded-port", "2")], "https://api.example.org:1"),
            (&[HOST, ("x-forwarded-host", "[::1]"), ("x-forwarded-port", "99")], "http://[::1]:99"),
            (&[HOST, ("x-forwarded-port", "8443")], "http://10.0.0.1:9511"),
            (&[HOST, PROTO, ("x-forwarded-host", "a.org, b.org"), ("x-forwarded-prefix", "/c/, /d")], "https://a.org/c"),
            (&[("host", "a.org:80")], "http://a.org"),
            (&[("host", "a.org:443"), PROTO], "https://a.org"),
            (&[("host", "a.org:443")], "http://a.org:443"),
            (&[HOST, ("forwarded", "for=192.0.2.60;proto=https;host=a.org, for=192.0.2.43;host=b.org")], "https://a.org"),
            (&[HOST, ("forwarded", "Host=\"a.org:8443\"; Proto=HTTPS")], "https://a.org:8443"),
            (&[HOST, PROTO, FORWARDED_HOST, ("forwarded", "for=192.0.2.60")], "http://10.0.0.1:9511"),
            (&[HOST, ("forwarded", "host=a.org"), ("x-forwarded-prefix", "/p")], "http://a.org/p"),
        ];
        for (told, wanted) in cases {
            assert_eq!(base(told, false, true), *wanted, "{told:?}");
        }
    }

    #[test]
    fn what_can_be_no_scheme_host_or_path_is_not_printed_into_links() {
        let cases: &[&[(&'static str, &'static str)]] = &[
            &[HOST, ("x-forwarded-host", "a.org/evil?x=")],
            &[HOST, ("x-forwarded-host", "a b")],
            &[HOST, ("x-forwarded-host", "user@a.org")],
            &[HOST, ("x-forwarded-proto", "javascript")],
            &[HOST, ("x-forwarded-prefix", "evil.org")],
            &[HOST, ("x-forwarded-prefix", "/a\"b")],
            &[HOST, ("forwarded", "host=\"a.org<\";proto=ftp")],
        ];
        for told in cases {
            assert_eq!(base(told, false, true), "http://10.0.0.1:9511", "{told:?}");
        }
    }

    #[test]
    fn the_client_is_who_the_first_proxy_says_or_who_is_connected() {
        let peer = Some(SocketAddr::from(([192, 0, 2, 1], 5)));
        let connection = Connection { secure: false, peer };
        let client = |pairs: &[_], believe| front(&headers(pairs), connection, believe).client;
        let told = [HOST, ("x-forwarded-for", "192.0.2.9, 10.0.0.7")];
        assert_eq!(client(&told, true).as_deref(), Some("192.0.2.9"));
        assert_eq!(client(&told, false).as_deref(), Some("192.0.2.1"));
        assert_eq!(client(&[("forwarded", "for=\"[2001:db8::1]:47\"")], true).as_deref(), Some("[2001:db8::1]:47"));
        assert_eq!(client(&[("x-forwarded-for", "a b")], true).as_deref(), Some("192.0.2.1"));
    }
}
