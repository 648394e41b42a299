use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::stack::Stack;
use openssl::x509::extension::{BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName, SubjectKeyIdentifier};
use openssl::x509::{X509, X509Extension, X509Name, X509Req};

use super::signing::{Request, SigningRules};
use super::*;

fn keys() -> Keys {
    Keys::new(2048, 0)
}

fn authority() -> Opened {
    new_authority("blue", 1825, &keys()).and_then(|p| p.open()).expect("an authority is made")
}

fn csr(extensions: impl FnOnce() -> Vec<X509Extension>) -> String {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut name = X509Name::builder().unwrap();
    name.append_entry_by_text("CN", "admin").unwrap();
    name.append_entry_by_text("O", "system:masters").unwrap();
    let mut request = X509Req::builder().unwrap();
    request.set_subject_name(&name.build()).unwrap();
    request.set_pubkey(&key).unwrap();
    let mut stack = Stack::new().unwrap();
    for extension in extensions() {
        stack.push(extension).unwrap();
    }
    if !stack.is_empty() {
        request.add_extensions(&stack).unwrap();
    }
    request.sign(&key, MessageDigest::sha256()).unwrap();
    String::from_utf8(request.build().to_pem().unwrap()).unwrap()
}

fn sign(authority: &Opened, csr: &str, rules: &SigningRules) -> Result<String, CertificateError> {
    super::signing::sign(authority, &Request::read(csr)?, rules)
}

fn text(pem: &str) -> String {
    // OpenSSL versions differ in the blanks around "=".
    String::from_utf8(X509::from_pem(pem.as_bytes()).unwrap().to_text().unwrap()).unwrap().replace(" = ", "=")
}

#[test]
fn an_authority_and_its_client_are_as_upstream_makes_them() {
    let ca = new_authority("blue", 1825, &keys()).unwrap();
    assert!(ca.encrypted_key.expose_secret().starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"));
    assert!(!ca.certificate.ends_with('\n'));
    let passphrase = ca.passphrase.expose_secret();
    assert_eq!(passphrase.len(), 12);
    assert!(passphrase.chars().all(|c| c.is_ascii_lowercase() || ('2'..='7').contains(&c)));
    let shown = text(&ca.certificate);
    assert!(shown.contains("CA:TRUE, pathlen:0") && shown.contains("Certificate Sign") && !shown.contains("CRL Sign"));
    let opened = ca.open().unwrap();
    let client = new_client(&opened, 1825, &keys()).unwrap();
    let certificate = X509::from_pem(client.certificate.as_bytes()).unwrap();
    assert!(certificate.verify(&opened.certificate().public_key().unwrap()).unwrap());
    let shown = text(&client.certificate);
    assert!(shown.contains("CN=admin") && shown.contains("O=system:masters") && shown.contains("TLS Web Client Authentication"));
}

#[test]
fn keys_are_handed_out_as_they_are_stored_without_a_newline_at_their_end() {
    let pair = new_authority("blue", 1825, &keys()).unwrap();
    let opened = pair.open().unwrap();
    let (of_accounts, public) = service_account(&opened).unwrap();
    let key = opened.key_pem().unwrap();
    for (text, what) in [
        (pair.encrypted_key.expose_secret(), "ENCRYPTED PRIVATE KEY"),
        (key.expose_secret(), "PRIVATE KEY"),
        (of_accounts.expose_secret(), "PRIVATE KEY"),
        (&*public, "PUBLIC KEY"),
        (&*pair.certificate, "CERTIFICATE"),
    ] {
        assert!(text.starts_with(&format!("-----BEGIN {what}-----\n")) && text.ends_with(&format!("\n-----END {what}-----")), "{what}");
    }
    assert!(PKey::private_key_from_pem(key.expose_secret().as_bytes()).unwrap().public_eq(opened.key()));
}

#[test]
fn a_plain_request_is_signed_with_its_subject() {
    let ca = authority();
    let pem = sign(&ca, &csr(Vec::new), &SigningRules::default()).unwrap();
    let certificate = X509::from_pem(pem.as_bytes()).unwrap();
    assert!(certificate.verify(&ca.certificate().public_key().unwrap()).unwrap());
    let shown = text(&pem);
    assert!(shown.contains("O=system:masters") && shown.contains("X509v3 Subject Key Identifier"));
}

#[test]
fn forbidden_extensions_are_dropped_or_refused() {
    let ca = authority();
    let rules = SigningRules::default();
    let soft = csr(|| {
        vec![
            KeyUsage::new().digital_signature().key_cert_sign().build().unwrap(),
            BasicConstraints::new().ca().build().unwrap(),
            ExtendedKeyUsage::new().server_auth().build().unwrap(),
        ]
    });
    let shown = text(&sign(&ca, &soft, &rules).unwrap());
    assert!(shown.contains("Digital Signature") && !shown.contains("Certificate Sign") && shown.contains("CA:FALSE"));
    assert!(shown.contains("TLS Web Server Authentication"));
    for hard in [
        csr(|| vec![KeyUsage::new().critical().key_cert_sign().build().unwrap()]),
        csr(|| vec![BasicConstraints::new().critical().ca().build().unwrap()]),
    ] {
        assert!(matches!(sign(&ca, &hard, &rules), Err(CertificateError::NotAllowed(_))));
    }
    let allowed = SigningRules { allow_ca: true, allowed_key_usage: vec!["Certificate Sign".into()], ..SigningRules::default() };
    let both =
        csr(|| vec![KeyUsage::new().critical().key_cert_sign().build().unwrap(), BasicConstraints::new().critical().ca().build().unwrap()]);
    assert!(text(&sign(&ca, &both, &allowed).unwrap()).contains("CA:TRUE"));
}

#[test]
fn a_request_with_its_own_key_identifier_and_names_is_signed() {
    let ca = authority();
    let request = csr(|| {
        let builder = X509::builder().unwrap();
        let context = builder.x509v3_context(None, None);
        let names = SubjectAlternativeName::new().dns("kubernetes").ip("10.0.0.1").build(&context).unwrap();
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let mut other = X509::builder().unwrap();
        other.set_pubkey(&key).unwrap();
        let id = SubjectKeyIdentifier::new().build(&other.x509v3_context(None, None)).unwrap();
        vec![names, id]
    });
    let shown = text(&sign(&ca, &request, &SigningRules::default()).unwrap());
    assert_eq!(shown.matches("X509v3 Subject Key Identifier").count(), 1);
    assert!(shown.contains("DNS:kubernetes") && shown.contains("IP Address:10.0.0.1"));
}

#[test]
fn what_is_no_request_is_refused() {
    for bad in ["", "nonsense", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----"] {
        assert!(matches!(sign(&authority(), bad, &SigningRules::default()), Err(CertificateError::InvalidCsr(_))), "{bad}");
    }
}

#[test]
fn a_clusters_service_account_key_is_always_the_same_and_no_other_clusters() {
    let (one, other) = (authority(), authority());
    let (key, public) = service_account(&one).unwrap();
    let again = service_account(&one).unwrap();
    assert_eq!((key.expose_secret(), &public), (again.0.expose_secret(), &again.1));
    assert_ne!(public, service_account(&other).unwrap().1);
    let key = PKey::private_key_from_pem(key.expose_secret().as_bytes()).unwrap();
    assert!(key.ec_key().unwrap().check_key().is_ok());
    let mut signer = Signer::new(MessageDigest::sha256(), &key).unwrap();
    let signature = signer.sign_oneshot_to_vec(b"token").unwrap();
    let public = PKey::public_key_from_pem(public.as_bytes()).unwrap();
    assert!(openssl::sign::Verifier::new(MessageDigest::sha256(), &public).unwrap().verify_oneshot(&signature, b"token").unwrap());
}

#[test]
fn a_file_mistaken_for_a_request_is_named() {
    let ca = new_authority("blue", 1825, &keys()).unwrap();
    for (text, wanted) in [
        (ca.certificate.as_str(), "it is a CERTIFICATE, not a CERTIFICATE REQUEST"),
        (ca.encrypted_key.expose_secret(), "it is a ENCRYPTED PRIVATE KEY, not a CERTIFICATE REQUEST"),
    ] {
        let Err(CertificateError::InvalidCsr(reason)) = Request::read(text) else { panic!("{wanted}") };
        assert_eq!(reason, wanted);
    }
    // What is no word of PEM is not repeated.
    let Err(CertificateError::InvalidCsr(reason)) = Request::read("-----BEGIN hunter2 CERTIFICATE of mine-----\n") else { panic!("read") };
    assert!(!reason.contains("hunter2"), "{reason}");
}

#[test]
fn requests_with_keys_of_every_kind_are_signed() {
    use openssl::ec::{EcGroup, EcKey};
    use openssl::nid::Nid;
    let ca = authority();
    let curve = |nid| PKey::from_ec_key(EcKey::generate(&EcGroup::from_curve_name(nid).unwrap()).unwrap()).unwrap();
    let keys = [
        (curve(Nid::X9_62_PRIME256V1), "EC prime256v1", MessageDigest::sha256()),
        (curve(Nid::SECP384R1), "EC secp384r1", MessageDigest::sha384()),
        (PKey::generate_ed25519().unwrap(), "Ed25519", MessageDigest::null()),
        (PKey::from_rsa(Rsa::generate(4096).unwrap()).unwrap(), "RSA 4096", MessageDigest::sha512()),
    ];
    for (key, kind, digest) in keys {
        let mut request = X509Req::builder().unwrap();
        request.set_pubkey(&key).unwrap();
        request.sign(&key, digest).unwrap();
        let pem = sign(&ca, &String::from_utf8(request.build().to_pem().unwrap()).unwrap(), &SigningRules::default()).unwrap();
        let signed = X509::from_pem(pem.as_bytes()).unwrap();
        assert!(signed.verify(&ca.certificate().public_key().unwrap()).unwrap());
        assert!(signed.public_key().unwrap().public_eq(&key));
        assert_eq!(Facts::read(&pem).unwrap().key, kind);
    }
}

#[test]
fn a_signature_lasts_as_long_as_asked_for_and_allowed_and_never_longer_than_its_authority() {
    use std::time::Duration;
    let day = Duration::from_secs(86_400);
    let (long, short) = (authority(), new_authority("blue", 2, &keys()).unwrap().open().unwrap());
    let text = csr(Vec::new);
    let capped = SigningRules { longest: Some(day * 7), ..SigningRules::default() };
    let free = SigningRules::default();
    assert_eq!((capped.longest(), free.longest()), (day * 7, day * 1825));
    for (ca, rules, asked, wanted) in [
        (&long, &free, None, day * 1825),
        (&long, &free, Some(day / 24), day / 24),
        (&long, &capped, None, day * 7),
        (&long, &capped, Some(day * 30), day * 7),
        (&short, &free, None, day * 2),
        (&short, &free, Some(day), day),
    ] {
        let request = Request::read(&text).unwrap().lasting(asked);
        let facts = Facts::read(&super::signing::sign(ca, &request, rules).unwrap()).unwrap();
        let left = facts.not_after - crate::time::now().naive_utc();
        let off = (left - chrono::TimeDelta::from_std(wanted).unwrap()).num_seconds().abs();
        assert!(off < 60, "{asked:?}: {left}, not {wanted:?}");
        assert!(facts.not_before < crate::time::now().naive_utc());
    }
}

#[test]
fn a_certificate_tells_what_it_is_in_utc() {
    let ca = new_authority("blue", 10, &keys()).unwrap();
    let client = new_client(&ca.open().unwrap(), 10, &keys()).unwrap();
    let (ca, client) = (Facts::read(&ca.certificate).unwrap(), Facts::read(&client.certificate).unwrap());
    assert_eq!((ca.subject.as_str(), ca.issuer.as_str(), ca.key.as_str()), ("CN=blue", "CN=blue", "RSA 2048"));
    assert_eq!((client.subject.as_str(), client.issuer.as_str()), ("CN=admin, O=system:masters", "CN=blue"));
    assert_ne!(ca.fingerprint, client.fingerprint);
    assert!(ca.serial.len() >= 30 && ca.fingerprint.len() == 64);
    assert_eq!(ca.not_after - ca.not_before, chrono::TimeDelta::days(11));
    assert!(matches!(Facts::read("nonsense"), Err(CertificateError::Stored(_))));
}

/// Others read these as an authority's, although DER has no such forms.
#[test]
fn an_authority_in_disguise_is_not_signed() {
    use openssl::asn1::{Asn1Object, Asn1OctetString};
    let ca = authority();
    let rules = SigningRules::default();
    for value in [
        // Of indefinite length.
        &[0x30, 0x80, 0x01, 0x01, 0xff, 0x00, 0x00][..],
        // More behind it; a boolean of two octets; something before the boolean; no sequence.
        &[0x30, 0x03, 0x01, 0x01, 0xff, 0x00],
        &[0x30, 0x04, 0x01, 0x02, 0x00, 0xff],
        &[0x30, 0x06, 0x02, 0x01, 0x00, 0x01, 0x01, 0xff],
        &[0x31, 0x03, 0x01, 0x01, 0xff],
        &[],
    ] {
        let request = csr(|| {
            let value = Asn1OctetString::new_from_bytes(value).unwrap();
            vec![X509Extension::new_from_der(&Asn1Object::from_str("2.5.29.19").unwrap(), false, &value).unwrap()]
        });
        assert!(matches!(sign(&ca, &request, &rules), Err(CertificateError::InvalidCsr(_))), "{value:02x?}");
    }
    for value in [&[0x30, 0x00][..], &[0x30, 0x03, 0x01, 0x01, 0x00], &[0x30, 0x81, 0x03, 0x01, 0x01, 0xff]] {
        let request = csr(|| {
            let value = Asn1OctetString::new_from_bytes(value).unwrap();
            vec![X509Extension::new_from_der(&Asn1Object::from_str("2.5.29.19").unwrap(), false, &value).unwrap()]
        });
        assert!(text(&sign(&ca, &request, &rules).unwrap()).contains("CA:FALSE"), "{value:02x?}");
    }
}

/// Made by the library that upstream uses, with upstream's calls; and the same key with parameters of older releases of it.
#[test]
fn what_upstreams_library_wrote_is_opened_and_signs() {
    let (pair, older) = (include_str!("tests/cryptography.pem"), include_str!("tests/older.pem"));
    let at = pair.find("-----BEGIN ENCRYPTED PRIVATE KEY-----").unwrap();
    let stored = |key: &str| StoredKeypair::outside("r", pair[..at].to_owned(), key.into(), Some("abcdefgh2345".into()));
    for key in [&pair[at..], older] {
        let opened = stored(key).open().unwrap();
        assert!(opened.certificate().public_key().unwrap().public_eq(opened.key()));
        let pem = sign(&opened, &csr(Vec::new), &SigningRules::default()).unwrap();
        assert!(X509::from_pem(pem.as_bytes()).unwrap().verify(&opened.certificate().public_key().unwrap()).unwrap());
    }
    let wrong = StoredKeypair { private_key_passphrase: Some("wrong".into()), ..stored(older) };
    assert!(matches!(wrong.open(), Err(CertificateError::Stored(_))));
}
