//! What a certificate says of itself, for those who look after it.

use chrono::{DateTime, NaiveDateTime};
use openssl::asn1::{Asn1Time, Asn1TimeRef};
use openssl::nid::Nid;
use openssl::pkey::{Id, PKeyRef, Public};
use openssl::x509::{X509, X509NameRef};

use super::CertificateError;

/// Facts of a certificate. Nothing of it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `CN=admin, O=system:masters`.
    pub subject: String,
    pub issuer: String,
    /// Hexadecimal, lower case.
    pub serial: String,
    /// UTC.
    pub not_before: NaiveDateTime,
    /// UTC.
    pub not_after: NaiveDateTime,
    /// `RSA 2048`, `EC prime256v1`, or the kind alone.
    pub key: String,
    /// SHA-256 of the whole certificate, hexadecimal.
    pub fingerprint: String,
}

impl Facts {
    /// Reads PEM.
    ///
    /// # Errors
    /// [`CertificateError::Stored`] when it is no certificate.
    pub fn read(pem: &str) -> Result<Self, CertificateError> {
        use sha2::Digest;
        let certificate = X509::from_pem(pem.as_bytes()).map_err(CertificateError::Stored)?;
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        Ok(Self {
            subject: name(certificate.subject_name()),
            issuer: name(certificate.issuer_name()),
            serial: hex(&certificate.serial_number().to_bn()?.to_vec()),
            not_before: time(certificate.not_before())?,
            not_after: time(certificate.not_after())?,
            key: key(&*certificate.public_key()?),
            fingerprint: hex(&sha2::Sha256::digest(certificate.to_der()?)),
        })
    }
}

/// A certificate's time, UTC.
pub(super) fn time(at: &Asn1TimeRef) -> Result<NaiveDateTime, CertificateError> {
    let since = Asn1Time::from_unix(0)?.diff(at)?;
    let seconds = i64::from(since.days) * 86_400 + i64::from(since.secs);
    Ok(DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::UNIX_EPOCH).naive_utc())
}

fn name(name: &X509NameRef) -> String {
    let entries = name.entries().map(|entry| {
        let field = entry.object().nid().short_name().unwrap_or("?").to_owned();
        let text = entry.data().to_string().unwrap_or_default();
        format!("{field}={text}")
    });
    entries.collect::<Vec<_>>().join(", ")
}

fn key(key: &PKeyRef<Public>) -> String {
    match key.id() {
        Id::RSA => format!("RSA {}", key.bits()),
        Id::EC => {
            let curve = key.ec_key().ok().and_then(|key| key.group().curve_name());
            format!("EC {}", curve.and_then(|nid: Nid| nid.short_name().ok()).unwrap_or("of no name"))
        }
        Id::ED25519 => "Ed25519".to_owned(),
        Id::ED448 => "Ed448".to_owned(),
        _ => "other".to_owned(),
    }
}
