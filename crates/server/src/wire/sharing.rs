//! Where API processes tell each other what Keystone said of tokens: `[keystone_authtoken] memcached_servers` and what belongs to it.

use std::time::Duration;

use anyhow::{Context, bail};
use api::TokenSharing;
use secrecy::ExposeSecret;

use crate::config::{Config, MemcacheStrategy};

/// The port that memcached listens at by default.
const PORT: u16 = 11211;

/// None where nothing is configured, or where memcached wants what is not spoken, which is told.
pub(super) fn tokens(config: &Config) -> anyhow::Result<Option<TokenSharing>> {
    let options = &config.keystone_authtoken;
    let given: Vec<&str> = options.memcached_servers.iter().map(|server| server.trim()).filter(|server| !server.is_empty()).collect();
    if given.is_empty() {
        return Ok(None);
    }
    let strategy = options.memcache_security_strategy;
    let key = options.memcache_secret_key.clone().filter(|key| !key.expose_secret().is_empty());
    if strategy != MemcacheStrategy::None && key.is_none() {
        let strategy = strategy.as_str();
        bail!("[keystone_authtoken] memcache_secret_key: needed where memcache_security_strategy is {strategy}");
    }
    let wanted = [("memcache_tls_enabled", options.memcache_tls_enabled), ("memcache_sasl_enabled", options.memcache_sasl_enabled)];
    if let Some((option, _)) = wanted.iter().find(|(_, is_wanted)| *is_wanted) {
        tracing::warn!("[keystone_authtoken] {option}: not done; each API process asks Keystone for itself");
        return Ok(None);
    }
    let servers = given.into_iter().map(address).collect::<anyhow::Result<_>>().context("[keystone_authtoken] memcached_servers")?;
    let secret = match key {
        Some(key) => key,
        None => super::secret(config)?.clone(),
    };
    Ok(Some(TokenSharing {
        servers,
        secret,
        patience: Duration::from_secs(u64::from(options.memcache_pool_socket_timeout.0)),
        rest: Duration::from_secs(options.memcache_pool_dead_retry),
    }))
}

/// `host:port` of a server as python-memcached writes it: also `inet6:[address]:port`, and without port.
fn address(given: &str) -> anyhow::Result<String> {
    let text = ["inet6:", "inet:"].iter().find_map(|family| given.strip_prefix(family)).unwrap_or(given);
    if text.starts_with("unix:") || text.starts_with('/') {
        bail!("{given}: a socket file is not supported; write host:port");
    }
    let is_whole_v6 = text.ends_with(']') || (!text.starts_with('[') && text.matches(':').count() > 1);
    if is_whole_v6 {
        return Ok(format!("[{}]:{PORT}", text.trim_matches(['[', ']'])));
    }
    match text.rsplit_once(':') {
        None => Ok(format!("{text}:{PORT}")),
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(text.to_owned()),
        Some(_) => bail!("{given}: write host:port"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_written_as_python_memcached_takes_them() {
        for (given, wanted) in [
            ("10.0.0.1:11212", "10.0.0.1:11212"),
            ("cache.example", "cache.example:11211"),
            ("inet:10.0.0.1:11211", "10.0.0.1:11211"),
            ("inet6:[fd00::1]:11212", "[fd00::1]:11212"),
            ("[fd00::1]:11211", "[fd00::1]:11211"),
            ("[fd00::1]", "[fd00::1]:11211"),
            ("fd00::1", "[fd00::1]:11211"),
        ] {
            assert_eq!(address(given).expect("taken"), wanted, "{given}");
        }
        for wrong in ["unix:/run/memcached.sock", "/run/memcached.sock", "host:", ":11211", "host:port", "host:0", "host:70000"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_strategy_needs_its_key_and_what_is_not_spoken_shares_nothing() {
        let of = |text: &str| {
            let text = format!("[keystone_auth]\nusername = m\npassword = p\n[keystone_authtoken]\n{text}");
            tokens(&Config::parse_for_test(&text).expect("a configuration"))
        };
        assert!(of("").expect("good").is_none());
        let plain = of("memcached_servers = a:1,b").expect("good").expect("shared");
        assert_eq!((plain.servers, plain.secret.expose_secret()), (vec!["a:1".to_owned(), "b:11211".to_owned()], "p"));
        let kolla = "memcached_servers = a:1\nmemcache_security_strategy = ENCRYPT\nmemcache_secret_key = k\n";
        assert_eq!(of(kolla).expect("good").expect("shared").secret.expose_secret(), "k");
        assert!(of(&format!("{kolla}memcache_tls_enabled = true")).expect("good").is_none());
        let refused = of("memcached_servers = a\nmemcache_security_strategy = MAC").err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), Some("[keystone_authtoken] memcache_secret_key: needed where memcache_security_strategy is MAC"));
    }
}
