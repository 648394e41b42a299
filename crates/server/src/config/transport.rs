//! The broker address, `transport_url`, by the rules of oslo.messaging.
//!
//! General URL parsers accept a list of hosts and read it wrongly (the last host, and the others as its password), so the
//! text is split by hand.

use percent_encoding::percent_decode_str;
use secrecy::SecretString;

use super::value::Value;

const DEFAULT_PORT: u16 = 5672;

/// Where the brokers are and how to log in.
#[derive(Debug, Clone)]
pub struct TransportUrl {
    /// All brokers of the cluster, in the order given; at least one.
    pub hosts: Vec<TransportHost>,
    /// The virtual host; `/` unless another one is named.
    pub virtual_host: String,
    /// `ssl=1` in the query: TLS whatever the section `[oslo_messaging_rabbit]` says.
    pub ssl: Option<bool>,
}

/// One broker.
#[derive(Debug, Clone)]
pub struct TransportHost {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: SecretString,
}

impl Value for TransportUrl {
    const SECRET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("a URL of the form rabbit://user:password@host:port//virtual_host")?;
        if !matches!(scheme, "rabbit" | "amqp" | "amqps") {
            return Err("a rabbit:// URL: no other transport is supported".to_owned());
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = hosts.split(',').filter(|host| !host.is_empty()).map(host).collect::<Result<Vec<_>, _>>()?;
        let ssl = url::form_urlencoded::parse(query.as_bytes())
            .find(|(key, _)| key == "ssl")
            .map(|(_, value)| bool::parse(&value))
            .transpose()
            .map_err(|rule| format!("a URL whose parameter ssl is {rule}"))?;
        let virtual_host = decode(path)?;
        Ok(Self {
            hosts: if hosts.is_empty() { vec![host("localhost")?] } else { hosts },
            virtual_host: if virtual_host.is_empty() { "/".to_owned() } else { virtual_host },
            ssl: ssl.or((scheme == "amqps").then_some(true)),
        })
    }
}

fn host(text: &str) -> Result<TransportHost, String> {
    let (login, address) = match text.rsplit_once('@') {
        Some((login, address)) => (Some(login), address),
        None => (None, text),
    };
    let (user, password) = match login {
        None => ("guest".to_owned(), "guest".to_owned()),
        Some(login) => {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            (decode(user)?, decode(password)?)
        }
    };
    let (host, port) = host_and_port(address)?;
    if host.is_empty() {
        return Err("a URL whose hosts have names".to_owned());
    }
    Ok(TransportHost { host, port: port.unwrap_or(DEFAULT_PORT), user, password: password.into() })
}

/// Splits `host:port`, `[::1]:port` and a bare IPv6 address.
pub(super) fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("a URL whose IPv6 addresses end with ]")?;
        (host, rest.strip_prefix(':').unwrap_or(rest))
    } else if text.matches(':').count() > 1 {
        (text, "")
    } else {
        text.split_once(':').unwrap_or((text, ""))
    };
    let port = match port {
        "" => None,
        port => Some(
            port.parse()
                .map_err(|_| "a URL whose ports are numbers from 0 to 65535 (reserved characters in a password must be percent-encoded)")?,
        ),
    };
    Ok((host.to_owned(), port))
}

/// Undoes percent-encoding.
pub(super) fn decode(text: &str) -> Result<String, String> {
    percent_decode_str(text)
        .decode_utf8()
        .map(|text| text.into_owned())
        .map_err(|_| "a URL whose percent-encoded parts are UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    type Host<'a> = (&'a str, u16, &'a str, &'a str);

    #[test]
    fn urls_are_read_as_oslo_messaging_reads_them() {
        let cases: &[(&str, &[Host<'_>], &str, Option<bool>)] = &[
            ("rabbit://", &[("localhost", 5672, "guest", "guest")], "/", None),
            ("rabbit://h/v", &[("h", 5672, "guest", "guest")], "v", None),
            ("rabbit://u:p@h", &[("h", 5672, "u", "p")], "/", None),
            ("rabbit://u:p@h:5673/", &[("h", 5673, "u", "p")], "/", None),
            ("rabbit://u:p@h:5673//", &[("h", 5673, "u", "p")], "/", None),
            ("rabbit://u:p@h//mag", &[("h", 5672, "u", "p")], "/mag", None),
            ("rabbit://u:p@h/a%2Fb", &[("h", 5672, "u", "p")], "a/b", None),
            (
                "rabbit://u:p%40%2F@[::1]:5673,u2:p:2@h2/%2F?ssl=1&x=2",
                &[("::1", 5673, "u", "p@/"), ("h2", 5672, "u2", "p:2")],
                "/",
                Some(true),
            ),
            ("rabbit://u:p@@h/?ssl=no", &[("h", 5672, "u", "p@")], "/", Some(false)),
            ("amqps://u@h/", &[("h", 5672, "u", "")], "/", Some(true)),
        ];
        for (text, hosts, virtual_host, ssl) in cases {
            let url = TransportUrl::parse(text).expect(text);
            let seen: Vec<Host<'_>> = url.hosts.iter().map(|h| (&*h.host, h.port, &*h.user, h.password.expose_secret())).collect();
            assert_eq!(&seen, hosts, "{text}");
            assert_eq!(url.virtual_host, *virtual_host, "{text}");
            assert_eq!(url.ssl, *ssl, "{text}");
        }
    }

    #[test]
    fn wrong_urls_are_refused_without_repeating_them() {
        for text in [
            "h:1",
            "kafka://u:hunter2@h/",
            "rabbit://u:hunter2@h:x/",
            "rabbit://u:hunter2/x@h/",
            "rabbit://u:hunter2@/",
            "rabbit://u:hunter2@[::1/",
            "rabbit://u:%ffhunter2@h/",
            "rabbit://u:hunter2@h/?ssl=maybe",
        ] {
            let rule = TransportUrl::parse(text).expect_err(text);
            assert!(!rule.contains("hunter2"), "{rule}");
        }
    }

    #[test]
    fn the_password_is_not_printed() {
        let url = TransportUrl::parse("rabbit://u:hunter2@h//").expect("url");
        assert!(!format!("{url:?}").contains("hunter2"));
    }
}
