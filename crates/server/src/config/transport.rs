//! The broker address, `transport_url`, by the rules of oslo.messaging.
//!
//! General URL parsers accept a list of hosts and read it wrongly (the last host, and the others as its password), so the
//! text is split by hand.

use percent_encoding::percent_decode_str;
use secrecy::SecretString;

use super::messaging::Rabbit;
use super::options::{self, Reader, Section};
use super::source::Sources;
use super::value::Value;
use super::{Finding, Place, Reason, known};

const DEFAULT_PORT: u16 = 5672;
/// The section whose options a query may set.
const SECTION: &str = "oslo_messaging_rabbit";
/// Options of oslo.messaging's driver that a query may set too, and that do as little there as in the section (`known.rs` says why). Old names are
/// not among them: the driver reads those in its section only.
const IGNORED: &[&str] = &[
    "amqp_auto_delete",
    "conn_pool_min_size",
    "conn_pool_ttl",
    "direct_mandatory_flag",
    "enable_cancel_on_failover",
    "heartbeat_in_pthread",
    "hostname",
    "kombu_compression",
    "kombu_failover_strategy",
    "kombu_missing_consumer_retry_timeout",
    "kombu_reconnect_delay",
    "kombu_reconnect_splay",
    "processname",
    "rabbit_ha_queues",
    "rabbit_login_method",
    "rabbit_qos_prefetch_count",
    "rabbit_stream_fanout",
    "rabbit_transient_queues_ttl",
    "rabbit_transient_quorum_queue",
    "rpc_conn_pool_size",
    "ssl_enforce_fips_mode",
    "ssl_enforce_hostname_verification",
    "ssl_version",
    "use_queue_manager",
];

/// Where the brokers are and how to log in.
#[derive(Debug, Clone)]
pub struct TransportUrl {
    /// All brokers of the cluster, in the order given; at least one.
    pub hosts: Vec<TransportHost>,
    /// The virtual host; `/` unless another one is named.
    pub virtual_host: String,
    query: Query,
}

/// What the query of an address says.
#[derive(Debug, Clone, Default)]
struct Query {
    /// Of options of `[oslo_messaging_rabbit]`: name and text, which can be read.
    options: Vec<(String, String)>,
    /// Names of options that have no effect.
    ignored: Vec<String>,
}

impl TransportUrl {
    /// Whether its query says anything of `[oslo_messaging_rabbit]`.
    pub fn has_options(&self) -> bool {
        !self.query.options.is_empty()
    }

    /// What its query says of that section: names and texts of options, which can be read.
    pub(super) fn options(&self) -> &[(String, String)] {
        &self.query.options
    }

    /// Options of the query that have no effect, where they say something else than what is so anyway. `section` and `place` are where the
    /// address stands.
    pub(super) fn without_effect(&self, section: &str, place: &Place) -> impl Iterator<Item = Finding> {
        let is_idle = |name: &str, text: &str| known::is_inert(SECTION, name) && options::default_of(SECTION, name) != Some(text.trim());
        let idle = self.options().iter().filter(move |(name, text)| is_idle(name, text)).map(|(name, _)| name);
        idle.chain(&self.query.ignored).map(move |name| Finding {
            section: section.to_owned(),
            key: format!("transport_url?{name}"),
            place: place.clone(),
            reason: Reason::NoEffect,
        })
    }
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
        let mut query = Query::read(query)?;
        if scheme == "amqps" && !query.options.iter().any(|(name, _)| name == "ssl") {
            query.options.push(("ssl".to_owned(), "true".to_owned()));
        }
        let virtual_host = decode(path)?;
        Ok(Self {
            hosts: if hosts.is_empty() { vec![host("localhost")?] } else { hosts },
            virtual_host: if virtual_host.is_empty() { "/".to_owned() } else { virtual_host },
            query,
        })
    }
}

impl Query {
    /// Reads it as oslo.messaging does: what is empty is not there, and what comes again is one text with commas.
    ///
    /// # Errors
    /// What is no option of the driver, and what cannot be read as the option it names.
    fn read(text: &str) -> Result<Self, String> {
        let mut given: Vec<(String, String)> = Vec::new();
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()).filter(|(_, value)| !value.is_empty()) {
            match given.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => *all = format!("{all},{value}"),
                None => given.push((name.into_owned(), value.into_owned())),
            }
        }
        let mut read = Self::default();
        if given.is_empty() {
            return Ok(read);
        }
        let mut tried = Rabbit::read(&Reader { sources: &Sources::default() }, SECTION).map_err(|error| error.to_string())?;
        for (name, value) in given {
            match tried.set(&name, &value) {
                Some(Ok(())) => read.options.push((name, value)),
                Some(Err(rule)) => return Err(format!("a URL whose parameter {name} is {rule}")),
                None if IGNORED.contains(&name.as_str()) => read.ignored.push(name),
                // Where a password has a question mark, what follows it is no name.
                None if text.contains('@') => {
                    return Err(format!(
                        "a URL whose query names options of [{SECTION}] only (reserved characters in a password must be percent-encoded)"
                    ));
                }
                None => return Err(format!("a URL whose query names options of [{SECTION}] only, by their present names: {name} is none")),
            }
        }
        Ok(read)
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
    type Options<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn urls_are_read_as_oslo_messaging_reads_them() {
        let cases: &[(&str, &[Host<'_>], &str, Options<'_>)] = &[
            ("rabbit://", &[("localhost", 5672, "guest", "guest")], "/", &[]),
            ("rabbit://h/v", &[("h", 5672, "guest", "guest")], "v", &[]),
            ("rabbit://u:p@h", &[("h", 5672, "u", "p")], "/", &[]),
            ("rabbit://u:p@h:5673/", &[("h", 5673, "u", "p")], "/", &[]),
            ("rabbit://u:p@h:5673//", &[("h", 5673, "u", "p")], "/", &[]),
            ("rabbit://u:p@h//mag", &[("h", 5672, "u", "p")], "/mag", &[]),
            ("rabbit://u:p@h/a%2Fb", &[("h", 5672, "u", "p")], "a/b", &[]),
            (
                "rabbit://u:p%40%2F@[::1]:5673,u2:p:2@h2/%2F?ssl=1&ssl_ca_file=%2Fetc/ca.pem",
                &[("::1", 5673, "u", "p@/"), ("h2", 5672, "u2", "p:2")],
                "/",
                &[("ssl", "1"), ("ssl_ca_file", "/etc/ca.pem")],
            ),
            ("rabbit://u:p@@h/?ssl=no", &[("h", 5672, "u", "p@")], "/", &[("ssl", "no")]),
            ("amqps://u@h/", &[("h", 5672, "u", "")], "/", &[("ssl", "true")]),
            ("amqps://u@h/?ssl=no&hostname=x", &[("h", 5672, "u", "")], "/", &[("ssl", "no")]),
            // Empty is not there.
            ("rabbit://u@h/?ssl=&no_option=", &[("h", 5672, "u", "")], "/", &[]),
        ];
        for (text, hosts, virtual_host, options) in cases {
            let url = TransportUrl::parse(text).expect(text);
            let seen: Vec<Host<'_>> = url.hosts.iter().map(|h| (&*h.host, h.port, &*h.user, h.password.expose_secret())).collect();
            assert_eq!(&seen, hosts, "{text}");
            assert_eq!(url.virtual_host, *virtual_host, "{text}");
            let seen: Vec<(&str, &str)> = url.options().iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            assert_eq!(&seen, options, "{text}");
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
            "rabbit://u:hunter2@h/?ssl=1&ssl=0",
            "rabbit://u:hunter2@h/?heartbeat_timeout_threshold=soon",
            "rabbit://u:hun?hunter2=x@h/",
            "rabbit://u?hunter2=x@h/",
        ] {
            let rule = TransportUrl::parse(text).expect_err(text);
            assert!(!rule.contains("hunter2"), "{rule}");
        }
    }

    #[test]
    fn what_is_no_option_of_the_driver_is_refused_by_its_name() {
        let rule = |query: &str| TransportUrl::parse(&format!("rabbit://u:p@h/?{query}")).map(drop);
        let none = |name: &str| -> Result<(), String> {
            Err(format!("a URL whose query names options of [oslo_messaging_rabbit] only, by their present names: {name} is none"))
        };
        // A misspelling, options of other drivers, and old names, which the driver takes in its section only.
        for name in ["ssl_cafile", "x", "kombu_ssl_ca_certs", "rabbit_use_ssl", "rabbit_host", "kombu_reconnect_timeout"] {
            assert_eq!(rule(&format!("ssl=1&{name}=/ca")), none(name));
        }
        let said = "a URL whose parameter ssl is a boolean: true, 1, on, yes, false, 0, off or no".to_owned();
        assert_eq!(rule("ssl=maybe"), Err(said));
        for name in IGNORED {
            assert_eq!(rule(&format!("{name}=1")), Ok(()), "{name}");
            assert!(known::is_known(SECTION, name), "{name}");
        }
    }

    #[test]
    fn the_password_is_not_printed() {
        let url = TransportUrl::parse("rabbit://u:hunter2@h//").expect("url");
        assert!(!format!("{url:?}").contains("hunter2"));
    }
}
