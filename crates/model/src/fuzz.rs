//! Doors for the fuzz targets (`tests/fuzz/` in the checkout): bytes from outside go in, and nothing but an answer may come of it. Not an interface.

use std::sync::OnceLock;

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::sign::Signer;
use openssl::stack::Stack;
use openssl::x509::extension::{BasicConstraints, KeyUsage};
use openssl::x509::store::{X509Store, X509StoreBuilder};
use openssl::x509::{X509, X509Name, X509NameRef, X509Ref, X509Req, X509StoreContext};

use crate::certificate::signing::{EXTENSION_REQUEST, EXTENSIONS, KEY_USAGES, Request, SigningRules, sign};
use crate::certificate::{Facts, Opened, StoredKeypair, is_authority, read_extension_value};
use crate::queue::amqp::ended_stack;

/// A certificate request, signed when it can be read; and the same bytes as what an extension of one holds, and as a certificate.
///
/// # Panics
/// When what was signed is an authority, or cannot be read.
pub fn csr(data: &[u8]) {
    read_extension_value(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = Facts::read(text);
    let Ok(request) = Request::read(text) else { return };
    if let Some(signed) = signed(&request, &SigningRules::default()) {
        assert!(!is_authority(&signed).expect("what was signed can be read"), "an authority was signed");
    }
}

/// What a certificate request is made of, which is signed then.
///
/// # Panics
/// When what was signed is an authority, cannot be read, or is not what was asked for.
pub fn signing(data: &[u8]) {
    made(data);
}

fn signed(request: &Request, rules: &SigningRules) -> Option<String> {
    let signed = sign(&site().authority, request, rules).ok()?;
    Facts::read(&signed).expect("it tells what it is");
    Some(signed)
}

/// Signs a request that is made of bytes, by a key of ours: else none that was changed would be read, for its own signature would be wrong.
///
/// The first byte says what is allowed ([`rules`]). Then comes part after part: what it is ([`entry`], [`extension`]), how long it is, and what
/// it holds.
fn made(data: &[u8]) -> Option<X509> {
    let (allowed, parts) = data.split_first()?;
    let (site, rules) = (site(), rules(*allowed));
    let asked = request(parts, &site.key).ok()?;
    let pem = String::from_utf8(asked.to_pem().expect("it was read")).expect("PEM is text");
    let signed = signed(&Request::read(&pem).expect("its signature is right"), &rules)?;
    let certificate = X509::from_pem(signed.as_bytes()).expect("a certificate");
    assert!(certificate.verify(site.authority.key()).expect("a signature"), "somebody else has signed");
    assert!(certificate.public_key().expect("a key").public_eq(&site.key), "it is of another key");
    let name = |name: &X509NameRef| name.to_der().expect("a name");
    assert!(name(certificate.subject_name()) == name(asked.subject_name()), "it is of another subject");
    assert!(rules.allow_ca || !signs_for_others(&certificate), "an authority was signed");
    Some(certificate)
}

/// As it is by default, everything but authorities, or authorities as well.
fn rules(allowed: u8) -> SigningRules {
    if allowed & 3 == 0 {
        return SigningRules::default();
    }
    SigningRules {
        allow_ca: allowed & 2 != 0,
        allowed_extensions: EXTENSIONS.iter().map(|(name, ..)| (*name).to_owned()).collect(),
        allowed_key_usage: KEY_USAGES.map(str::to_owned).into(),
        ..SigningRules::default()
    }
}

/// What is made once. The keys are of a kind that signs quickly.
struct Site {
    authority: Opened,
    /// Who believes the authority.
    believing: X509Store,
    /// Of whoever asks.
    key: PKey<Private>,
}

fn site() -> &'static Site {
    static SITE: OnceLock<Site> = OnceLock::new();
    SITE.get_or_init(|| {
        let (key, certificate) = authority().expect("an authority is made");
        let mut believing = X509StoreBuilder::new().expect("a store");
        believing.add_cert(certificate.clone()).expect("it is stored");
        let pem = |bytes: Result<Vec<u8>, ErrorStack>| String::from_utf8(bytes.expect("PEM")).expect("PEM is text");
        let pair = StoredKeypair::outside("fuzz", pem(certificate.to_pem()), pem(key.private_key_to_pem_pkcs8()).into(), None);
        Site { authority: pair.open().expect("it opens"), believing: believing.build(), key: new_key().expect("a key is made") }
    })
}

fn new_key() -> Result<PKey<Private>, ErrorStack> {
    PKey::from_ec_key(EcKey::generate(&*EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?)?)
}

/// One below which there may be others: what it signs is no authority by itself, not by its rule.
fn authority() -> Result<(PKey<Private>, X509), ErrorStack> {
    let (key, name) = (new_key()?, named("fuzz")?);
    let certificate = certificate(&name, &name, (&key, &key), true)?;
    Ok((key, certificate))
}

fn named(name: &str) -> Result<X509Name, ErrorStack> {
    let mut builder = X509Name::builder()?;
    builder.append_entry_by_nid(Nid::COMMONNAME, name)?;
    Ok(builder.build())
}

/// A certificate of a key, signed by another.
fn certificate(
    subject: &X509NameRef,
    issuer: &X509NameRef,
    (key, signer): (&PKey<Private>, &PKey<Private>),
    is_authority: bool,
) -> Result<X509, ErrorStack> {
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    builder.set_serial_number(&*BigNum::from_u32(1)?.to_asn1_integer()?)?;
    builder.set_subject_name(subject)?;
    builder.set_issuer_name(issuer)?;
    builder.set_pubkey(key)?;
    builder.set_not_before(&*Asn1Time::days_from_now(0)?)?;
    builder.set_not_after(&*Asn1Time::days_from_now(30)?)?;
    if is_authority {
        builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
        builder.append_extension(KeyUsage::new().critical().key_cert_sign().build()?)?;
    }
    builder.sign(signer, MessageDigest::sha256())?;
    Ok(builder.build())
}

/// Whether somebody who believes the authority believes what the key of this certificate signs. Its text does not tell: a name may say anything.
fn signs_for_others(certificate: &X509Ref) -> bool {
    let believed = || {
        let site = site();
        let leaf = self::certificate(&*named("leaf")?, certificate.subject_name(), (&site.key, &site.key), false)?;
        let mut chain = Stack::new()?;
        chain.push(certificate.to_owned())?;
        X509StoreContext::new()?.init(&site.believing, &leaf, &chain, |context| context.verify_cert())
    };
    // Who cannot say does not believe.
    believed().unwrap_or(false)
}

/// Parts at most.
const PARTS: usize = 64;

/// `ecdsa-with-SHA256`, in DER.
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

/// Fields of a subject, in DER: CN, C, O, OU, serialNumber, DC, emailAddress, and one that nobody knows.
const FIELDS: [&[u8]; 8] = [
    &[0x55, 4, 3],
    &[0x55, 4, 6],
    &[0x55, 4, 10],
    &[0x55, 4, 11],
    &[0x55, 4, 5],
    &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
    &[0x2a, 3],
];
/// Kinds of texts: UTF-8, printable, T.61, IA5, BMP, universal, visible; and what is no text.
const TEXTS: [u8; 8] = [0x0c, 0x13, 0x14, 0x16, 0x1e, 0x1c, 0x1a, 0x04];
/// An extension that nobody knows.
const UNKNOWN: &[u8] = &[0x2a, 3, 4];

/// A request of these parts, signed by its key.
fn request(parts: &[u8], key: &PKey<Private>) -> Result<X509Req, ErrorStack> {
    let (mut subject, mut extensions) = (Vec::new(), Vec::new());
    let mut rest = parts;
    for _ in 0..PARTS {
        let [what, length, after @ ..] = rest else { break };
        let (content, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        match what & 0x80 {
            0 => extensions.extend(extension(*what, content)),
            _ => subject.extend(entry(*what, content)),
        }
    }
    let attributes = match extensions.as_slice() {
        [] => Vec::new(),
        all => sequence(&[&element(0x06, EXTENSION_REQUEST), &element(0x31, &sequence(&[all]))]),
    };
    let info = sequence(&[&element(0x02, &[0]), &sequence(&[&subject]), &key.public_key_to_der()?, &element(0xa0, &attributes)]);
    let signature = Signer::new(MessageDigest::sha256(), key)?.sign_oneshot_to_vec(&info)?;
    let bits = element(0x03, &[&[0_u8][..], &signature].concat());
    X509Req::from_der(&sequence(&[&info, &sequence(&[&element(0x06, ECDSA_WITH_SHA256)]), &bits]))
}

/// A part of the subject: its field by the lowest three bits, the kind of its text by the next three.
fn entry(what: u8, content: &[u8]) -> Vec<u8> {
    let (field, text) = (FIELDS[usize::from(what & 7)], TEXTS[usize::from((what >> 3) & 7)]);
    element(0x31, &sequence(&[&element(0x06, field), &element(text, content)]))
}

/// An extension: which by the lowest four bits, how binding by the next two; with the next one the content is all of it.
fn extension(what: u8, content: &[u8]) -> Vec<u8> {
    if what & 0x40 != 0 {
        return content.to_vec();
    }
    let which = EXTENSIONS.get(usize::from(what & 15)).map_or(UNKNOWN, |(.., der)| *der);
    let binding: &[u8] = match (what >> 4) & 3 {
        0 => &[],
        1 => &[0x01, 1, 0xff],
        2 => &[0x01, 1, 0],
        // Not as DER has it, and read all the same.
        _ => &[0x01, 1, 1],
    };
    sequence(&[&element(0x06, which), binding, &element(0x04, content)])
}

fn sequence(all: &[&[u8]]) -> Vec<u8> {
    element(0x30, &all.concat())
}

/// An element of DER, whose length has the shortest form.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("few parts are short").to_be_bytes();
    let head = match length {
        [0, short] if short < 0x80 => vec![tag, short],
        [0, short] => vec![tag, 0x81, short],
        [high, low] => vec![tag, 0x82, high, low],
    };
    [head.as_slice(), content].concat()
}

/// A message of another program's.
///
/// # Panics
/// When it is heard as the end of a stack without an id.
pub fn message(data: &[u8]) {
    if let Some(id) = ended_stack(data) {
        assert!(!id.is_empty() && !id.contains('/'), "{id:?} is no id");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Common name and basic constraints, by what [`request`] calls them.
    const NAME: u8 = 0x80;
    const CONSTRAINTS: u8 = 4;
    const BINDING: u8 = 0x10;
    const AUTHORITY: &[u8] = &[0x30, 3, 1, 1, 0xff];

    fn input(allowed: u8, parts: &[(u8, &[u8])]) -> Vec<u8> {
        let mut all = vec![allowed];
        for (what, content) in parts {
            all.extend([*what, u8::try_from(content.len()).expect("short")]);
            all.extend_from_slice(content);
        }
        all
    }

    fn text(certificate: &X509Ref) -> String {
        String::from_utf8_lossy(&certificate.to_text().expect("it is printed")).into_owned()
    }

    #[test]
    fn what_the_bytes_ask_for_is_signed() {
        let (usage, names) = (1, 2);
        let parts: [(u8, &[u8]); 4] = [(NAME, b"admin"), (0x82, b"CA:TRUE"), (usage, &[3, 2, 5, 0xa0]), (names, &[0x30, 3, 0x82, 1, b'h'])];
        let signed = text(&made(&input(0, &parts)).expect("it is signed"));
        for words in ["admin", "CA:TRUE", "Digital Signature, Key Encipherment", "DNS:h"] {
            assert!(signed.contains(words), "{words}: {signed}");
        }
        assert!(made(&[]).is_none() && made(&[0]).is_some() && made(&input(0, &[(0x8f, b"x")])).is_some());
        assert!(made(&input(0, &[(15 | BINDING, b"x")])).is_none(), "what nobody knows is binding");
        assert!(made(&input(0, &[(usage, &[3, 2, 5, 0xa0]), (usage, &[3, 2, 5, 0xa0])])).is_none(), "one comes twice");
        assert!(made(&input(0, &[(0x40, &[0x31, 1, 0])])).is_none(), "the list is none of extensions");
    }

    #[test]
    fn an_authority_is_told_from_what_is_none() {
        let asks = |allowed: u8, binding: u8| made(&input(allowed, &[(NAME, b"below"), (CONSTRAINTS | binding, AUTHORITY)]));
        assert!(signs_for_others(&asks(2, BINDING).expect("it is allowed")));
        assert!(asks(0, BINDING).is_none() && asks(1, BINDING).is_none());
        assert!(!signs_for_others(&asks(1, 0).expect("what is not binding is left out")));
    }
}
