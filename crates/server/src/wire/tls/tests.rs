use std::fs;

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::PKey;
use openssl::x509::{X509, X509NameBuilder};
use tempfile::TempDir;

use super::*;

/// A certificate that signs itself, and its key, as PEM.
fn certificate(serial: u32) -> (Vec<u8>, Vec<u8>) {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("curve");
    let key = PKey::from_ec_key(EcKey::generate(&group).expect("key")).expect("key");
    let mut name = X509NameBuilder::new().expect("name");
    name.append_entry_by_text("CN", "localhost").expect("entry");
    let name = name.build();
    let mut made = X509::builder().expect("builder");
    made.set_version(2).expect("version");
    made.set_serial_number(&BigNum::from_u32(serial).and_then(|n| n.to_asn1_integer()).expect("serial")).expect("serial");
    made.set_subject_name(&name).expect("subject");
    made.set_issuer_name(&name).expect("issuer");
    made.set_pubkey(&key).expect("key");
    made.set_not_before(&Asn1Time::days_from_now(0).expect("time")).expect("time");
    made.set_not_after(&Asn1Time::days_from_now(1).expect("time")).expect("time");
    made.sign(&key, MessageDigest::sha256()).expect("sign");
    (made.build().to_pem().expect("PEM"), key.private_key_to_pem_pkcs8().expect("PEM"))
}

fn files(folder: &TempDir, chain: &[u8], key: &[u8]) -> Files {
    let files = Files { chain: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    write(&files, chain, key);
    files
}

fn write(files: &Files, chain: &[u8], key: &[u8]) {
    fs::write(&files.chain, chain).expect("write");
    fs::write(&files.key, key).expect("write");
}

/// Gives a file a time of its own: two writes may fall into one tick of the file system's clock.
fn age(path: &Path, seconds: u64) {
    let file = fs::File::options().write(true).open(path).expect("open");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("set the time");
}

#[test]
fn a_changed_certificate_is_used_for_the_next_client_and_a_bad_one_is_not() {
    let folder = TempDir::new().expect("folder");
    let (chain, key) = certificate(1);
    let paths = files(&folder, &chain, &key);
    let (cert_path, _) = (paths.chain.clone(), age(&paths.chain, 1));
    let renewing = Renewing::new(paths, Duration::ZERO).expect("a usable pair");
    let first = renewing.pair();
    assert!(Arc::ptr_eq(&first, &renewing.pair()));

    fs::write(&cert_path, b"half a file").expect("write");
    age(&cert_path, 2);
    assert!(Arc::ptr_eq(&first, &renewing.pair()));

    let (chain, key) = certificate(2);
    write(&renewing.files, &chain, &key);
    age(&cert_path, 3);
    assert_ne!(first.cert, renewing.pair().cert);
}

#[test]
fn the_files_are_not_looked_at_for_every_client() {
    let folder = TempDir::new().expect("folder");
    let (chain, key) = certificate(1);
    let renewing = Renewing::new(files(&folder, &chain, &key), Duration::from_secs(3600)).expect("a usable pair");
    let first = renewing.pair();
    let (chain, key) = certificate(2);
    write(&renewing.files, &chain, &key);
    age(&renewing.files.chain, 3);
    assert!(Arc::ptr_eq(&first, &renewing.pair()));
}

#[test]
fn a_start_with_unusable_files_names_option_and_file() {
    let (chain, key) = certificate(1);
    let (_, other_key) = certificate(2);
    for (chain, key, words) in [
        (&b"no PEM"[..], &key[..], ["ssl_cert_file", "cert.pem"]),
        (&chain, b"no PEM", ["ssl_key_file", "key.pem"]),
        (&chain, &other_key, ["ssl_key_file", "cert.pem"]),
    ] {
        let folder = TempDir::new().expect("folder");
        let error = files(&folder, chain, key).load().expect_err("unusable");
        let text = format!("{error:#}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    let missing = Files { chain: "/nonexistent/cert.pem".into(), key: "/nonexistent/key.pem".into() };
    let text = format!("{:#}", missing.load().expect_err("missing"));
    assert!(text.contains("ssl_cert_file") && text.contains("/nonexistent/cert.pem"), "{text}");
}

#[test]
fn tls_is_spoken_only_when_it_is_enabled() {
    let config = |text: &str| Config::parse_for_test(text).expect("a configuration");
    assert!(server(&config("[api]\nssl_cert_file = /x\nssl_key_file = /y\n")).expect("no TLS").is_none());
    assert!(server(&config("[api]\nenabled_ssl = true\nssl_cert_file = /x\nssl_key_file = /y\n")).is_err());
}
