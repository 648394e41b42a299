//! Whom we believe, and what we show, on connections to broker, database and cloud: the files that the options name.

use std::path::Path;

use anyhow::{Context, bail};
use model::queue::amqp::Tls;
use model::store::StoreTls;
use provider_clients::TlsTrust;
use secrecy::SecretString;

use super::read;
use crate::config::{Client, Credentials, MysqlUrl, Rabbit};

/// TLS to RabbitMQ.
pub(super) fn broker(rabbit: &Rabbit) -> anyhow::Result<Tls> {
    let section = "[oslo_messaging_rabbit]";
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

/// Whom to believe in calls to the cloud.
pub(super) fn cloud(login: &Credentials) -> anyhow::Result<TlsTrust> {
    let section = "[keystone_auth]";
    Ok(TlsTrust {
        ca: login.cafile.as_deref().map(|path| read(path, &format!("{section} cafile"))).transpose()?,
        insecure: login.insecure.unwrap_or(false),
        identity: identity(section, ("certfile", login.certfile.as_deref()), ("keyfile", login.keyfile.as_deref()))?,
    })
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
