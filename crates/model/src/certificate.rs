//! The certificates of a cluster: made with OpenSSL, stored the way upstream stores them (PEM without trailing newline, key as encrypted
//! PKCS#8, passphrase beside it).
//!
//! Everything here but the making of keys ahead is CPU work without waiting; callers in async code run it on a blocking thread.

mod extension;
mod facts;
pub mod keeper;
mod keys;
mod references;
pub mod signing;

use openssl::asn1::{Asn1Integer, Asn1Time};
use openssl::bn::{BigNum, BigNumContext};
use openssl::ec::{EcGroup, EcKey, EcPoint};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, PKeyRef, Private};
use openssl::sign::Signer;
use openssl::symm::Cipher;
use openssl::x509::extension::{BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectKeyIdentifier};
use openssl::x509::{X509, X509Builder, X509Name, X509NameRef, X509Ref};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

pub use self::facts::Facts;
pub use self::keys::Keys;
pub use self::references::{Phase, References, Role, Rotation};

use crate::random;

/// Which of a cluster's certificate authorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Authority {
    Kubernetes,
    Etcd,
    FrontProxy,
}

impl Authority {
    /// The authority that a client's `ca_cert_type` names; anything unknown is the Kubernetes one (upstream's rule K-04).
    pub fn of_type(text: Option<&str>) -> Self {
        match text {
            Some("etcd") => Self::Etcd,
            Some("front_proxy" | "front-proxy") => Self::FrontProxy,
            _ => Self::Kubernetes,
        }
    }
}

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The request cannot be read.
    #[error("the CSR cannot be read: {0}")]
    InvalidCsr(String),
    /// The request asks for what may not be signed.
    #[error("{0}")]
    NotAllowed(String),
    /// A stored key pair cannot be opened.
    #[error("a stored key pair cannot be opened")]
    Stored(#[source] openssl::error::ErrorStack),
    /// What makes keys has panicked, or the process is about to end.
    #[error("the making of a key broke off")]
    BrokenOff,
    /// OpenSSL failed.
    #[error("OpenSSL failed")]
    OpenSsl(#[from] openssl::error::ErrorStack),
}

/// A key pair ready to be stored.
#[derive(Clone)]
pub struct NewKeypair {
    /// PEM, no trailing newline.
    pub certificate: String,
    /// `BEGIN ENCRYPTED PRIVATE KEY`.
    pub encrypted_key: SecretString,
    /// Twelve characters of a-z2-7.
    pub passphrase: SecretString,
}

/// A key pair as whoever keeps it has it: a row of upstream's `x509keypair` table, a container of Barbican, files.
#[derive(Clone)]
pub struct StoredKeypair {
    pub reference: String,
    pub certificate: Option<String>,
    /// Encrypted under the passphrase.
    pub private_key: Option<SecretString>,
    pub private_key_passphrase: Option<SecretString>,
}

impl StoredKeypair {
    /// A pair that is kept outside the database.
    pub fn outside(reference: &str, certificate: String, private_key: SecretString, passphrase: Option<SecretString>) -> Self {
        Self {
            reference: reference.to_owned(),
            certificate: Some(certificate),
            private_key: Some(private_key),
            private_key_passphrase: passphrase,
        }
    }

    /// The certificate as PEM without trailing newline; empty for a row that has none.
    pub fn pem(&self) -> &str {
        self.certificate.as_deref().unwrap_or_default().trim_end()
    }

    /// Whether an authority's key signed the pair's certificate.
    pub fn is_signed_by(&self, authority: &Self) -> Result<bool, CertificateError> {
        let read = |pair: &Self| X509::from_pem(pair.pem().as_bytes()).map_err(CertificateError::Stored);
        Ok(read(self)?.verify(&*read(authority)?.public_key()?)?)
    }

    /// Opens the pair for signing.
    pub fn open(&self) -> Result<Opened, CertificateError> {
        let text = |secret: &Option<SecretString>| secret.clone().unwrap_or_default();
        Opened::new(self.pem(), &text(&self.private_key), &text(&self.private_key_passphrase))
    }
}

/// A certificate with its private key in the clear, in memory only.
pub struct Opened {
    certificate: X509,
    key: PKey<Private>,
}

impl Opened {
    fn new(certificate: &str, key: &SecretString, passphrase: &SecretString) -> Result<Self, CertificateError> {
        let certificate = X509::from_pem(certificate.as_bytes()).map_err(CertificateError::Stored)?;
        let key = PKey::private_key_from_pem_passphrase(key.expose_secret().as_bytes(), passphrase.expose_secret().as_bytes())
            .map_err(CertificateError::Stored)?;
        Ok(Self { certificate, key })
    }

    /// The private key as unencrypted PKCS#8 PEM, for the control plane nodes that need it.
    pub fn key_pem(&self) -> Result<SecretString, CertificateError> {
        Ok(secret_pem_text(self.key.private_key_to_pem_pkcs8()?))
    }

    /// SHA-256 of the subject public key info, as hex: what `kubeadm join` pins.
    pub fn public_key_hash(&self) -> Result<String, CertificateError> {
        use sha2::Digest;
        let der = self.certificate.public_key()?.public_key_to_der()?;
        Ok(sha2::Sha256::digest(der).iter().map(|b| format!("{b:02x}")).collect())
    }

    pub(crate) fn certificate(&self) -> &X509Ref {
        &self.certificate
    }

    pub(crate) fn key(&self) -> &PKeyRef<Private> {
        &self.key
    }
}

impl NewKeypair {
    /// Opens the pair for signing.
    pub fn open(&self) -> Result<Opened, CertificateError> {
        Opened::new(&self.certificate, &self.encrypted_key, &self.passphrase)
    }
}

/// A new self-signed authority: basic constraints critical CA with path length 0, key usage critical certificate signing only.
pub fn new_authority(common_name: &str, validity_days: u32, keys: &Keys) -> Result<NewKeypair, CertificateError> {
    let key = keys.take()?;
    let name = subject(&[("CN", common_name)])?;
    let mut builder = certificate(&name, &name, &key, validity_days)?;
    builder.append_extension(BasicConstraints::new().critical().ca().pathlen(0).build()?)?;
    builder.append_extension(KeyUsage::new().critical().key_cert_sign().build()?)?;
    let id = SubjectKeyIdentifier::new().build(&builder.x509v3_context(None, None))?;
    builder.append_extension(id)?;
    builder.sign(&key, MessageDigest::sha256())?;
    keypair(&builder.build(), &key)
}

/// The conductor's own client certificate: CN admin, O system:masters.
pub fn new_client(authority: &Opened, validity_days: u32, keys: &Keys) -> Result<NewKeypair, CertificateError> {
    let key = keys.take()?;
    let name = subject(&[("CN", "admin"), ("O", "system:masters")])?;
    let mut builder = certificate(&name, authority.certificate().subject_name(), &key, validity_days)?;
    builder.append_extension(KeyUsage::new().critical().digital_signature().key_encipherment().build()?)?;
    builder.append_extension(ExtendedKeyUsage::new().client_auth().build()?)?;
    builder.append_extension(BasicConstraints::new().critical().build()?)?;
    let id = SubjectKeyIdentifier::new().build(&builder.x509v3_context(None, None))?;
    builder.append_extension(id)?;
    builder.sign(authority.key(), MessageDigest::sha256())?;
    keypair(&builder.build(), &key)
}

/// The key pair for service account tokens (ECDSA P-256): private PKCS#8 PEM and public PEM. It is derived from the authority's key, so that
/// masters made on any day sign and accept the same tokens, and nobody without that key can guess it.
pub fn service_account(authority: &Opened) -> Result<(SecretString, String), CertificateError> {
    let secret = PKey::hmac(&Zeroizing::new(authority.key.private_key_to_der()?))?;
    let mut mac = Signer::new(MessageDigest::sha512(), &secret)?;
    mac.update(b"service account key")?;
    // Twice the bits of the group's order: no number is noticeably likelier than another.
    let (mut wide, one) = (BigNum::new_secure()?, BigNum::from_u32(1)?);
    wide.copy_from_slice(&Zeroizing::new(mac.sign_to_vec()?))?;
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    let mut context = BigNumContext::new_secure()?;
    let (mut order, mut below, mut rest, mut scalar) = (BigNum::new()?, BigNum::new()?, BigNum::new_secure()?, BigNum::new_secure()?);
    group.order(&mut order, &mut context)?;
    below.checked_sub(&order, &one)?;
    rest.nnmod(&wide, &below, &mut context)?;
    scalar.checked_add(&rest, &one)?;
    let mut point = EcPoint::new(&group)?;
    point.mul_generator2(&group, &scalar, &mut context)?;
    let key = PKey::from_ec_key(EcKey::from_private_components(&group, &scalar, &point)?)?;
    Ok((secret_pem_text(key.private_key_to_pem_pkcs8()?), pem_text(key.public_key_to_pem()?)))
}

/// Certificates one after the other, as readers of PEM take several: the one that signs first.
pub fn bundle<'a>(pems: impl IntoIterator<Item = &'a str>) -> String {
    pems.into_iter().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Whether a certificate may sign others.
pub(crate) fn is_authority(pem: &str) -> Result<bool, CertificateError> {
    let text = X509::from_pem(pem.as_bytes()).and_then(|certificate| certificate.to_text()).map_err(CertificateError::Stored)?;
    Ok(String::from_utf8_lossy(&text).contains("CA:TRUE"))
}

/// What a request's extension holds, as each reader of such values reads it.
pub(crate) fn read_extension_value(value: &[u8]) {
    let _ = (extension::is_ca(value), extension::bits(value));
}

fn subject(parts: &[(&str, &str)]) -> Result<X509Name, CertificateError> {
    let mut name = X509Name::builder()?;
    for (field, text) in parts {
        name.append_entry_by_text(field, text)?;
    }
    Ok(name.build())
}

/// Version 3, random serial, valid from a day ago (clocks of nodes differ) for the configured term, in UTC.
fn certificate<T: openssl::pkey::HasPublic>(
    subject: &X509NameRef,
    issuer: &X509NameRef,
    key: &PKeyRef<T>,
    validity_days: u32,
) -> Result<X509Builder, CertificateError> {
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let serial = Asn1Integer::from_bn(&*BigNum::from_slice(random::uuid().as_bytes())?)?;
    builder.set_serial_number(&serial)?;
    builder.set_subject_name(subject)?;
    builder.set_issuer_name(issuer)?;
    builder.set_pubkey(key)?;
    let now = crate::time::now().timestamp();
    builder.set_not_before(&*Asn1Time::from_unix(now - 86_400)?)?;
    builder.set_not_after(&*Asn1Time::from_unix(now + i64::from(validity_days) * 86_400)?)?;
    Ok(builder)
}

fn keypair(certificate: &X509Ref, key: &PKeyRef<Private>) -> Result<NewKeypair, CertificateError> {
    let passphrase = passphrase();
    let encrypted = key.private_key_to_pem_pkcs8_passphrase(Cipher::aes_256_cbc(), passphrase.expose_secret().as_bytes())?;
    Ok(NewKeypair { certificate: pem_text(certificate.to_pem()?), encrypted_key: secret_pem_text(encrypted), passphrase })
}

fn passphrase() -> SecretString {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    const LENGTH: usize = 12;
    // With all its room from the beginning: a text that grows, or is made to fit, leaves what it was behind in memory.
    let mut text = String::with_capacity(LENGTH);
    text.extend((0..LENGTH).map(|_| char::from(ALPHABET[random::range(0..32)])));
    text.into()
}

/// As it is stored: without the newline at its end.
fn pem_text(pem: Vec<u8>) -> String {
    let mut text = String::from_utf8(pem).expect("PEM is ASCII");
    text.truncate(text.trim_end().len());
    text
}

/// The same of a key; what OpenSSL has handed out is overwritten.
fn secret_pem_text(pem: Vec<u8>) -> SecretString {
    let text = Zeroizing::new(String::from_utf8(pem).expect("PEM is ASCII"));
    text.trim_end().into()
}

#[cfg(test)]
mod tests;
