//! Certificate authorities and certificates made on the spot, good ones and bad ones.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::{BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};

/// A certificate and its key.
pub struct Pair {
    certificate: X509,
    key: PKey<Private>,
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An authority.
    Authority,
    /// A server of this name (DNS), good for a day.
    Server(&'static str),
    /// The same, but its time is over.
    Expired(&'static str),
    /// A client.
    Client,
}

impl Pair {
    /// A new authority.
    pub fn authority(name: &str) -> Result<Self> {
        made(name, Purpose::Authority, None)
    }

    /// A certificate that this authority signs.
    pub fn issue(&self, name: &str, purpose: Purpose) -> Result<Self> {
        made(name, purpose, Some(self))
    }

    /// The certificate, PEM.
    pub fn certificate_pem(&self) -> Result<String> {
        String::from_utf8(self.certificate.to_pem()?).context("PEM is text")
    }

    /// The key, PEM (PKCS#8).
    pub fn key_pem(&self) -> Result<String> {
        String::from_utf8(self.key.private_key_to_pem_pkcs8()?).context("PEM is text")
    }

    /// Writes `<name>.pem` and `<name>-key.pem` into a folder.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        fs::write(folder.join(format!("{name}.pem")), self.certificate_pem()?).context("write a certificate")?;
        fs::write(folder.join(format!("{name}-key.pem")), self.key_pem()?).context("write a key")
    }
}

fn made(name: &str, purpose: Purpose, issuer: Option<&Pair>) -> Result<Pair> {
    let key = PKey::from_rsa(Rsa::generate(2048)?)?;
    let mut subject = X509NameBuilder::new()?;
    subject.append_entry_by_text("CN", name)?;
    let subject = subject.build();
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let serial = BigNum::from_slice(&uuid::Uuid::new_v4().as_bytes()[..8])?.to_asn1_integer()?;
    builder.set_serial_number(&serial)?;
    builder.set_subject_name(&subject)?;
    builder.set_issuer_name(issuer.map_or(&*subject, |issuer| issuer.certificate.subject_name()))?;
    builder.set_pubkey(&key)?;
    let day = 86_400;
    let now = chrono::Utc::now().timestamp();
    let end = if matches!(purpose, Purpose::Expired(_)) { now - day } else { now + day };
    builder.set_not_before(&*Asn1Time::from_unix(now - 2 * day)?)?;
    builder.set_not_after(&*Asn1Time::from_unix(end)?)?;
    match purpose {
        Purpose::Authority => {
            builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
            builder.append_extension(KeyUsage::new().critical().key_cert_sign().build()?)?;
        }
        Purpose::Server(host) | Purpose::Expired(host) => {
            builder.append_extension(ExtendedKeyUsage::new().server_auth().build()?)?;
            let names = SubjectAlternativeName::new().dns(host).build(&builder.x509v3_context(None, None))?;
            builder.append_extension(names)?;
        }
        Purpose::Client => builder.append_extension(ExtendedKeyUsage::new().client_auth().build()?)?,
    }
    builder.sign(issuer.map_or(&key, |issuer| &issuer.key), MessageDigest::sha256())?;
    Ok(Pair { certificate: builder.build(), key })
}
