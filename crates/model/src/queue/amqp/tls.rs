//! Whom a connection to the broker believes, and what it shows.

use std::fmt;

use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use openssl::x509::X509;
use secrecy::{ExposeSecret, SecretString};

/// TLS settings.
#[derive(Clone, Default)]
pub struct Tls {
    pub ca_pem: Option<String>,
    /// The certificate that we show (PEM, with its chain), and its key (PEM, not encrypted).
    pub identity: Option<(String, SecretString)>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("ca", &self.ca_pem.is_some()).field("identity", &self.identity.is_some()).finish()
    }
}

/// What the client of AMQP is told. It knows no authorities of its own.
pub(super) async fn config(tls: Option<&Tls>) -> Result<OwnedTLSConfig, String> {
    let Some(Tls { ca_pem, identity }) = tls else { return Ok(OwnedTLSConfig::default()) };
    let identity = identity.as_ref().map(|(certificate, key)| OwnedIdentity::PKCS8 {
        pem: certificate.clone().into_bytes(),
        key: key.expose_secret().to_owned().into_bytes(),
    });
    let cert_chain = match ca_pem {
        Some(named) => named.clone(),
        None => authorities_of_the_machine().await?,
    };
    Ok(OwnedTLSConfig { identity, cert_chain: Some(cert_chain) })
}

/// In PEM. Nobody else is believed: the client itself knows no authorities.
async fn authorities_of_the_machine() -> Result<String, String> {
    let found = crate::blocking::run(|| {
        let found = rustls_native_certs::load_native_certs();
        let pem = |der: &[u8]| X509::from_der(der).and_then(|certificate| certificate.to_pem()).ok();
        let texts: Vec<u8> = found.certs.iter().filter_map(|der| pem(der)).flatten().collect();
        (String::from_utf8(texts).unwrap_or_default(), found.errors.first().map(ToString::to_string))
    });
    match found.await.map_err(|error| format!("connect: {error}"))? {
        (text, error) if text.is_empty() => {
            let reason = error.map(|error| format!(" ({error})")).unwrap_or_default();
            Err(format!(
                "connect: the machine has no certificates of authorities{reason}: name a file in [oslo_messaging_rabbit] ssl_ca_file"
            ))
        }
        (text, _) => Ok(text),
    }
}
