//! Whom we believe, and what we show, on connections to broker, database and cloud: the files that the options name.

use std::path::Path;

use anyhow::{Context, bail};
use model::queue::amqp::Tls;
use model::store::StoreTls;
use provider_clients::TlsTrust;
use secrecy::SecretString;

use super::read;
use crate::config::{Client, Credentials, MysqlUrl, Rabbit};

/// TLS to RabbitMQ; `has_query`: the query of the brokers' address may have said some of it.
pub(super) fn broker(rabbit: &Rabbit, has_query: bool) -> anyhow::Result<Tls> {
    let section = if has_query { "[oslo_messaging_rabbit] or the query of transport_url," } else { "[oslo_messaging_rabbit]" };
    let ca_pem = rabbit.ssl_ca_file.as_deref().map(|path| text(path, &format!("{section} ssl_ca_file"))).transpose()?;
    let (certificate, key) = (rabbit.ssl_cert_file.as_deref(), rabbit.ssl_key_file.as_deref());
    let identity = pair(section, ("ssl_cert_file", certificate), ("ssl_key_file", key))?;
    let identity = identity.map(|(certificate, key)| (certificate, SecretString::from(key)));
    Ok(Tls { ca_pem, identity })
}

/// TLS to MariaDB, as the parameters of the connection's URL want it; none without any.
pub(super) fn database(url: &MysqlUrl) -> anyhow::Result<Option<StoreTls>> {
    let section = "[database] connection,";
    let path = |text: &Option<String>| text.as_deref().map(Path::new).map(Path::to_owned);
    let url = &url.parameters;
    let (certificate, key) = (path(&url.ssl_cert), path(&url.ssl_key));
    let identity = pair(section, ("ssl_cert", certificate.as_deref()), ("ssl_key", key.as_deref()))?;
    let Some(ca) = path(&url.ssl_ca) else {
        if identity.is_some() {
            bail!("{section} ssl_ca is missing: without it nobody would know whom the certificate is shown to");
        }
        if let Some(other) = url.ssl_others.first() {
            bail!("{section} ssl_ca is missing: {other} wants TLS, and the file of ssl_ca says whom to believe (of a folder, its bundle)");
        }
        return Ok(None);
    };
    if url.ssl_check_hostname == Some(false) {
        // The driver's own way to do without compares words that its TLS library has not any more.
        tracing::warn!(
            "{section} ssl_check_hostname=false has no effect: the server's certificate must bear the name by which it is called"
        );
    }
    let identity = identity.map(|(certificate, key)| (certificate.into_bytes(), SecretString::from(key)));
    Ok(Some(StoreTls { ca: read(&ca, &format!("{section} ssl_ca"))?, identity }))
}

/// Whom to believe in calls to the cloud; `section` is the one that says it.
pub(super) fn cloud(login: &Credentials, section: &str) -> anyhow::Result<TlsTrust> {
    Ok(TlsTrust {
        ca: login.cafile.as_deref().map(|path| read(path, &format!("[{section}] cafile"))).transpose()?,
        insecure: login.insecure.unwrap_or(false),
        identity: identity("[keystone_auth]", ("certfile", login.certfile.as_deref()), ("keyfile", login.keyfile.as_deref()))?,
    })
}

/// The same for Keystone, where both of its sections name authorities: logins go to one address of it and tokens of callers are checked at another,
/// whose certificates need not be of one authority. `checking` is the section about callers' tokens.
pub(super) fn keystone(login: &Credentials, checking: &Credentials, all: &TlsTrust) -> anyhow::Result<Option<TlsTrust>> {
    let (Some(ca), Some(path)) = (&all.ca, checking.cafile.as_deref()) else { return Ok(None) };
    if login.cafile.as_deref() == Some(path) || all.insecure || checking.insecure == Some(true) {
        return Ok(None);
    }
    let more = read(path, "[keystone_authtoken] cafile")?;
    let ca = [ca.as_slice(), b"\n".as_slice(), more.as_slice()].concat();
    Ok(Some(TlsTrust { ca: Some(ca), ..all.clone() }))
}

/// The same for one service, where its section says something of its own; what it does not say is as for all.
pub(super) fn service(section: &str, client: &Client, all: &TlsTrust) -> anyhow::Result<Option<TlsTrust>> {
    let ca = client.ca_file.as_deref().map(|path| read(path, &format!("[{section}] ca_file"))).transpose()?;
    let identity = identity(&format!("[{section}]"), ("cert_file", client.cert_file.as_deref()), ("key_file", client.key_file.as_deref()))?;
    if ca.is_none() && identity.is_none() && client.insecure.is_none() {
        return Ok(None);
    }
    let TlsTrust { ca: usual_ca, insecure: usually, identity: usual } = all.clone();
    // Who names authorities wants them asked.
    let insecure = client.insecure.unwrap_or(usually && ca.is_none());
    Ok(Some(TlsTrust { ca: ca.or(usual_ca), insecure, identity: identity.or(usual) }))
}

/// Certificate and key in one text, as HTTP clients take them.
fn identity(section: &str, certificate: (&str, Option<&Path>), key: (&str, Option<&Path>)) -> anyhow::Result<Option<SecretString>> {
    let both = pair(section, certificate, key)?;
    Ok(both.map(|(certificate, key)| format!("{certificate}\n{key}").into()))
}

/// A certificate with its key; one without the other is a mistake.
fn pair(section: &str, certificate: (&str, Option<&Path>), key: (&str, Option<&Path>)) -> anyhow::Result<Option<(String, String)>> {
    match (certificate, key) {
        ((of_certificate, Some(certificate)), (of_key, Some(key))) => {
            Ok(Some((text(certificate, &format!("{section} {of_certificate}"))?, text(key, &format!("{section} {of_key}"))?)))
        }
        ((_, None), (_, None)) => Ok(None),
        ((given, Some(_)), (missing, None)) | ((missing, None), (given, Some(_))) => {
            bail!("{section} {missing} is missing: {given} is of no use without it")
        }
    }
}

fn text(path: &Path, option: &str) -> anyhow::Result<String> {
    String::from_utf8(read(path, option)?).with_context(|| format!("{option}: {} is not PEM", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::{notifications, reach};
    use crate::config::Config;

    #[test]
    fn the_query_of_an_address_is_stronger_than_the_section_for_its_brokers_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).expect("a file");
            path.display().to_string()
        };
        let (one, other) = (file("one"), file("other"));
        let config = Config::parse_for_test(&format!(
            "[DEFAULT]\ntransport_url = rabbit://u:p@h/?ssl=1&ssl_ca_file={one}&heartbeat_timeout_threshold=7\n\
             [oslo_messaging_notifications]\ndriver = messagingv2\ntransport_url = rabbit://u:p@h/?rabbit_quorum_queue=true&ssl_version=x\n\
             [oslo_messaging_rabbit]\nssl = false\nssl_ca_file = {other}\nheartbeat_timeout_threshold = 9\n"
        ))
        .expect("a configuration");
        let bell = reach(&config, &config.service.transport_url).expect("an address");
        assert_eq!((bell.tls.and_then(|tls| tls.ca_pem).as_deref(), bell.heartbeat), (Some("one"), 7));
        let told = notifications(&config).expect("an address").expect("somebody is told").bus.expect("a bus");
        assert!(told.reach.tls.is_none() && told.queues.quorum && told.reach.heartbeat == 9);
        let idle: Vec<&str> = config.unknown.iter().map(|finding| finding.key.as_str()).collect();
        assert_eq!(idle, ["transport_url?ssl_version"]);
    }

    #[test]
    fn keystone_is_believed_by_the_authorities_of_both_its_sections_and_nobody_else_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).expect("a file");
            path.display().to_string()
        };
        let (one, other) = (file("one"), file("other"));
        let of = |auth: &str, authtoken: &str| {
            let config = Config::parse_for_test(&format!("[keystone_auth]\n{auth}\n[keystone_authtoken]\n{authtoken}\n"));
            let config = config.expect("a configuration");
            let all = super::cloud(&config.keystone_auth, &config.trust_section).expect("files");
            let keystone = super::keystone(&config.keystone_auth, &config.keystone_authtoken_login, &all).expect("files");
            let text = |ca: Option<Vec<u8>>| ca.map(|ca| String::from_utf8(ca).expect("a text"));
            (text(all.ca), text(keystone.and_then(|own| own.ca)))
        };
        let said = |all: Option<&str>, keystone: Option<&str>| (all.map(str::to_owned), keystone.map(str::to_owned));
        let (cafile, others) = (format!("cafile = {one}"), format!("cafile = {other}"));
        assert_eq!(of(&cafile, &others), said(Some("one"), Some("one\nother")));
        assert_eq!(of(&cafile, &cafile), said(Some("one"), None));
        assert_eq!(of("", &others), said(Some("other"), None));
        assert_eq!(of(&cafile, ""), said(Some("one"), None));
        // Authorities that nobody asks say nothing.
        assert_eq!(of(&cafile, &format!("{others}\ninsecure = true")), said(Some("one"), None));
        assert_eq!(of(&format!("{cafile}\ninsecure = true"), &others), said(Some("one"), None));
        assert_eq!(of("insecure = true", &others), said(None, None));
    }

    #[test]
    fn an_address_whose_query_lacks_what_it_needs_is_refused_by_the_names_of_both_places() {
        let of = |query: &str| {
            let config = Config::parse_for_test(&format!(
                "[DEFAULT]\ntransport_url = rabbit://u:p@h/{query}\n[oslo_messaging_rabbit]\nssl = true\nssl_key_file = /k\n"
            ));
            let config = config.expect("a configuration");
            reach(&config, &config.service.transport_url).map(drop).map_err(|error| error.to_string())
        };
        let rest = "ssl_cert_file is missing: ssl_key_file is of no use without it";
        assert_eq!(of(""), Err(format!("[oslo_messaging_rabbit] {rest}")));
        assert_eq!(of("?amqp_durable_queues=1"), Err(format!("[oslo_messaging_rabbit] or the query of transport_url, {rest}")));
        assert_eq!(of("?ssl=false"), Ok(()));
    }
}
