//! Signing a certificate request: the subject as asked for, extensions only as far as the operator allows (rules K-05 to K-08).

use std::time::Duration;

use openssl::asn1::{Asn1Object, Asn1OctetString, Asn1Time};
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Public};
use openssl::stack::Stack;
use openssl::x509::extension::{BasicConstraints, KeyUsage, SubjectKeyIdentifier};
use openssl::x509::{X509Extension, X509Req};

use super::extension::{self, Extension};
use super::{CertificateError, Opened};

/// What may be signed (`[x509]`), by the names of the configuration.
#[derive(Clone, Debug)]
pub struct SigningRules {
    pub allow_ca: bool,
    pub allowed_extensions: Vec<String>,
    pub allowed_key_usage: Vec<String>,
    /// Days from today to the end of validity, where nobody asks for less.
    pub validity_days: u32,
    /// The longest for which a request is signed; none: the term of validity.
    pub longest: Option<Duration>,
}

impl SigningRules {
    /// The longest for which a request is signed.
    pub fn longest(&self) -> Duration {
        let term = Duration::from_secs(u64::from(self.validity_days) * 86_400);
        self.longest.map_or(term, |longest| longest.min(term))
    }
}

impl Default for SigningRules {
    fn default() -> Self {
        let texts = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        Self {
            allow_ca: false,
            allowed_extensions: texts(&["keyUsage", "extendedKeyUsage", "subjectAltName", "basicConstraints", "subjectKeyIdentifier"]),
            allowed_key_usage: texts(&["Digital Signature", "Key Encipherment", "Non Repudiation"]),
            validity_days: 1825,
            longest: None,
        }
    }
}

/// Extension names of the configuration, their object identifiers in text and in DER.
pub(crate) const EXTENSIONS: &[(&str, &str, &[u8])] = &[
    ("subjectKeyIdentifier", "2.5.29.14", &[0x55, 0x1d, 14]),
    ("keyUsage", "2.5.29.15", &[0x55, 0x1d, 15]),
    ("subjectAltName", "2.5.29.17", &[0x55, 0x1d, 17]),
    ("issuerAltName", "2.5.29.18", &[0x55, 0x1d, 18]),
    ("basicConstraints", "2.5.29.19", &[0x55, 0x1d, 19]),
    ("nameConstraints", "2.5.29.30", &[0x55, 0x1d, 30]),
    ("cRLDistributionPoints", "2.5.29.31", &[0x55, 0x1d, 31]),
    ("certificatePolicies", "2.5.29.32", &[0x55, 0x1d, 32]),
    ("authorityKeyIdentifier", "2.5.29.35", &[0x55, 0x1d, 35]),
    ("extendedKeyUsage", "2.5.29.37", &[0x55, 0x1d, 37]),
    ("inhibitAnyPolicy", "2.5.29.54", &[0x55, 0x1d, 54]),
    ("authorityInfoAccess", "1.3.6.1.5.5.7.1.1", &[0x2b, 6, 1, 5, 5, 7, 1, 1]),
    ("OCSPNoCheck", "1.3.6.1.5.5.7.48.1.5", &[0x2b, 6, 1, 5, 5, 7, 48, 1, 5]),
];

/// Key usages in the order of their bits, by the names of the configuration.
pub(crate) const KEY_USAGES: [&str; 9] = [
    "Digital Signature",
    "Non Repudiation",
    "Key Encipherment",
    "Data Encipherment",
    "Key Agreement",
    "Certificate Sign",
    "CRL Sign",
    "Encipher Only",
    "Decipher Only",
];

/// A request that can be read and was signed by its own key.
pub struct Request {
    inner: X509Req,
    key: PKey<Public>,
    lasting: Option<Duration>,
}

impl Request {
    /// Reads PEM.
    ///
    /// # Errors
    /// [`CertificateError::InvalidCsr`].
    pub fn read(csr: &str) -> Result<Self, CertificateError> {
        if let Some(other) = other_pem(csr) {
            return Err(CertificateError::InvalidCsr(format!("it is a {other}, not a CERTIFICATE REQUEST")));
        }
        let inner = X509Req::from_pem(csr.as_bytes()).map_err(|e| CertificateError::InvalidCsr(reason(&e)))?;
        let key = inner.public_key().map_err(|e| CertificateError::InvalidCsr(reason(&e)))?;
        if !inner.verify(&key).unwrap_or(false) {
            return Err(CertificateError::InvalidCsr("it is not signed by its own key".into()));
        }
        Ok(Self { inner, key, lasting: None })
    }

    /// The same, to be signed for so long only; less when the rules do not allow it.
    pub fn lasting(self, time: Option<Duration>) -> Self {
        Self { lasting: time, ..self }
    }
}

/// What a PEM text holds that is no request: people mistake one file for another.
fn other_pem(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (what, _) = rest.split_once("-----")?;
    let is_request = what.ends_with("CERTIFICATE REQUEST");
    // Only words that PEM has: the answer repeats them.
    let is_known = what.ends_with("CERTIFICATE") || what.ends_with("PRIVATE KEY") || what.ends_with("PUBLIC KEY");
    (!is_request && is_known && what.len() <= 32).then_some(what)
}

/// When what is signed now ends: as asked for and allowed, and not after the authority itself, without which it proves nothing.
fn end(authority: &Opened, lasting: Option<Duration>, rules: &SigningRules) -> Result<Asn1Time, CertificateError> {
    let longest = rules.longest();
    let time = lasting.map_or(longest, |time| time.min(longest));
    let now = crate::time::now().timestamp();
    let end = now.saturating_add(i64::try_from(time.as_secs()).unwrap_or(i64::MAX / 2));
    let of_authority = super::facts::time(authority.certificate().not_after())?.and_utc();
    if of_authority.timestamp() <= now {
        let day = of_authority.format("%Y-%m-%d");
        return Err(CertificateError::NotAllowed(format!("the cluster's certificate authority ended on {day}; rotate it first")));
    }
    Ok(Asn1Time::from_unix(end.min(of_authority.timestamp()))?)
}

/// Signs a request and returns the certificate as PEM without trailing newline.
///
/// # Errors
/// [`CertificateError::InvalidCsr`] when an extension cannot be read, [`CertificateError::NotAllowed`] when a critical extension asks for
/// what is not allowed.
pub fn sign(authority: &Opened, request: &Request, rules: &SigningRules) -> Result<String, CertificateError> {
    let end = end(authority, request.lasting, rules)?;
    let (request, key) = (&request.inner, &request.key);
    let mut builder = super::certificate(request.subject_name(), authority.certificate().subject_name(), key, rules.validity_days)?;
    builder.set_not_after(&end)?;
    let mut known: Vec<Vec<u8>> = Vec::new();
    // A request without extensions is an error to the binding, not an empty list.
    for raw in request.extensions().map_or_else(|_| without_extensions(request), Ok)? {
        let found = extension::read(&raw).ok_or_else(|| CertificateError::InvalidCsr("an extension is malformed".into()))?;
        if known.contains(&found.oid) {
            // RFC 5280, 4.2: a certificate has one of each; Go refuses one that has two.
            return Err(CertificateError::InvalidCsr("it has an extension twice".into()));
        }
        known.push(found.oid.clone());
        if let Some(kept) = keep(&found, rules)? {
            builder.append_extension(kept)?;
        }
    }
    let id = SubjectKeyIdentifier::new().build(&builder.x509v3_context(Some(authority.certificate()), None))?;
    builder.append_extension(id)?;
    builder.sign(authority.key(), MessageDigest::sha256())?;
    Ok(super::pem_text(builder.build().to_pem()?))
}

/// The attribute `extensionRequest`, in DER.
pub(crate) const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
/// Attributes of a request that hold extensions: the usual one and Microsoft's.
const ASKING: [&[u8]; 2] = [EXTENSION_REQUEST, &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 1, 14]];

/// No extensions, unless the request has some that cannot be read: what they ask for would be left out without a word.
fn without_extensions(request: &X509Req) -> Result<Stack<X509Extension>, CertificateError> {
    let whole = request.to_der()?;
    if ASKING.iter().any(|attribute| whole.windows(attribute.len()).any(|part| part == *attribute)) {
        return Err(CertificateError::InvalidCsr("its extensions are malformed".into()));
    }
    Ok(Stack::new()?)
}

fn reason(stack: &openssl::error::ErrorStack) -> String {
    stack.errors().first().and_then(|e| e.reason()).unwrap_or("it is not a PEM certificate request").to_owned()
}

fn keep(found: &Extension, rules: &SigningRules) -> Result<Option<X509Extension>, CertificateError> {
    let known = EXTENSIONS.iter().find(|(_, _, der)| *der == found.oid.as_slice());
    let Some((name, oid, _)) = known.filter(|(name, ..)| rules.allowed_extensions.iter().any(|a| a == name)) else {
        return if found.critical {
            let name = known.map_or("an unknown extension", |(name, ..)| name);
            Err(CertificateError::NotAllowed(format!("the CSR has the critical extension {name}, which is not allowed")))
        } else {
            Ok(None)
        };
    };
    match *name {
        // Always ours; upstream fails on a request that brings its own.
        "subjectKeyIdentifier" => Ok(None),
        "keyUsage" => key_usage(found, rules),
        "basicConstraints" if !rules.allow_ca && extension::is_ca(&found.value) != Some(false) => match extension::is_ca(&found.value) {
            None => Err(CertificateError::InvalidCsr("its basicConstraints are malformed".into())),
            Some(_) if found.critical => {
                Err(CertificateError::NotAllowed("the CSR asks for a CA certificate, which is not allowed".into()))
            }
            Some(_) => Ok(Some(BasicConstraints::new().build()?)),
        },
        _ => {
            let oid = Asn1Object::from_str(oid)?;
            let value = Asn1OctetString::new_from_bytes(&found.value)?;
            Ok(Some(X509Extension::new_from_der(&oid, found.critical, &value)?))
        }
    }
}

fn key_usage(found: &Extension, rules: &SigningRules) -> Result<Option<X509Extension>, CertificateError> {
    let asked: Vec<&str> = KEY_USAGES.iter().zip(extension::bits(&found.value)).filter(|(_, bit)| *bit).map(|(name, _)| *name).collect();
    let allowed = |usage: &&str| {
        let ca_only = matches!(*usage, "Certificate Sign" | "CRL Sign");
        rules.allowed_key_usage.iter().any(|a| a == usage) && (!ca_only || rules.allow_ca)
    };
    if let Some(refused) = asked.iter().find(|u| !allowed(u)).filter(|_| found.critical) {
        return Err(CertificateError::NotAllowed(format!("the CSR has the critical key usage {refused}, which is not allowed")));
    }
    let kept: Vec<&str> = asked.into_iter().filter(|u| allowed(u)).collect();
    if kept.is_empty() {
        return Ok(None);
    }
    let mut usage = KeyUsage::new();
    if found.critical {
        usage.critical();
    }
    for name in kept {
        match name {
            "Digital Signature" => usage.digital_signature(),
            "Non Repudiation" => usage.non_repudiation(),
            "Key Encipherment" => usage.key_encipherment(),
            "Data Encipherment" => usage.data_encipherment(),
            "Key Agreement" => usage.key_agreement(),
            "Certificate Sign" => usage.key_cert_sign(),
            "CRL Sign" => usage.crl_sign(),
            "Encipher Only" => usage.encipher_only(),
            _ => usage.decipher_only(),
        };
    }
    Ok(Some(usage.build()?))
}
