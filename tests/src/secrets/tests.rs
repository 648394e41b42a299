use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use openssl::ec::{EcGroup, EcKey};
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::X509;

use super::*;
use crate::pki::Pair;

const SECRET: &str = "aB1-of-a-trustee";

fn packed(text: &str) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(text.as_bytes()).expect("to memory");
    STANDARD_NO_PAD.encode(gzip.finish().expect("to memory"))
}

fn secrets(all: &[(&str, &'static str)]) -> Secrets {
    let mut secrets = Secrets::default();
    for (secret, what) in all {
        secrets.keep(secret, what);
    }
    secrets
}

/// What is found in a text in which these things may be.
fn found(secrets: &Secrets, text: &str, rightly: &[&str]) -> Vec<String> {
    let mut search = secrets.search();
    search.look("the place", text.as_bytes(), rightly);
    search.leaks()
}

#[test]
fn a_planted_secret_is_found_however_it_is_wrapped() {
    let secrets = secrets(&[(SECRET, TRUSTEE_PASSWORD), ("another-of-them", PASSPHRASE)]);
    let ignition = |text: &str| format!(r#"{{"contents":{{"compression":"gzip","source":"data:;base64,{}"}}}}"#, packed(text));
    let all = packed(&format!("{SECRET}, and what of it does not repeat: 1234567890 qwertzuiop"));
    let mut wrapped = vec![
        ("raw", SECRET.to_owned()),
        ("raw, within", format!("password=\\\"{SECRET}\\\"")),
        ("packed", packed(SECRET)),
        ("in a file of a first boot", ignition(&format!("line\npassword=\"{SECRET}\"\n"))),
        ("behind another file", ignition("nothing") + &ignition(SECRET)),
        ("packed twice", packed(&ignition(SECRET))),
        ("in base 64 of what is packed", packed(&STANDARD_NO_PAD.encode(format!("a: {SECRET}")))),
        ("cut off", all[..all.len() - 16].to_owned()),
    ];
    for before in ["", "x", "xy", "xyz"] {
        wrapped.push(("in base 64", format!("clouds.yaml: {}", STANDARD_NO_PAD.encode(format!("{before}{SECRET}{before}")))));
    }
    for (how, text) in wrapped {
        let leaks = found(&secrets, &text, &[]);
        assert!(leaks.len() == 1 && leaks[0].starts_with("the place has the password of a trustee in it: "), "{how}: {leaks:?} in {text}");
        assert!(leaks[0].len() < 400, "{how}: {}", leaks[0].len());
        assert_eq!(found(&secrets, &text, &[PASSPHRASE]).len(), 1, "{how}");
        assert_eq!(found(&secrets, &text, &[PASSPHRASE, TRUSTEE_PASSWORD]), [""; 0], "{how}");
    }
}

#[test]
fn what_is_no_secret_is_not_found() {
    let secrets = secrets(&[(SECRET, TRUSTEE_PASSWORD), ("too-short", PASSPHRASE)]);
    let text = format!("too-short {} {} aB1-of-a-truste H4sI H4sIAAAA", &SECRET[1..], packed("nothing of it"));
    assert_eq!(found(&secrets, &text, &[]), [""; 0]);
    assert_eq!(found(&secrets, "", &[]), [""; 0]);
    assert_eq!(found(&Secrets::default(), SECRET, &[]), [""; 0]);
    secrets.search().end().expect("nothing was looked at");
}

#[test]
fn a_text_that_is_several_things_may_be_where_one_of_them_may() {
    let secrets = secrets(&[(SECRET, TRUSTEE_PASSWORD), (SECRET, PASSPHRASE)]);
    assert_eq!(found(&secrets, SECRET, &[PASSPHRASE]), [""; 0]);
    assert_eq!(found(&secrets, SECRET, &[KEY]).len(), 1);
}

fn pem(key: &PKey<Private>) -> String {
    String::from_utf8(key.private_key_to_pem_pkcs8().expect("PEM")).expect("text")
}

fn public_pem(key: &PKey<Private>) -> String {
    String::from_utf8(key.public_key_to_pem().expect("PEM")).expect("text")
}

/// A key is found where it is, in one line or in many, and neither its certificate nor its public half is taken for it.
#[test]
fn a_key_is_told_from_what_is_public_of_it() {
    let pair = Pair::authority("an authority").expect("it is made");
    let (certificate, key) = (pair.certificate_pem().expect("PEM"), pair.key_pem().expect("PEM"));
    let curve = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
    let elliptic = PKey::from_ec_key(EcKey::generate(&curve).expect("a key")).expect("a key");
    let small = PKey::from_rsa(Rsa::generate(1024).expect("a key")).expect("a key");
    let of_certificate = X509::from_pem(certificate.as_bytes()).and_then(|it| it.public_key()).expect("a key");
    let mut public = vec![certificate, String::from_utf8(of_certificate.public_key_to_pem().expect("PEM")).expect("text")];
    public.extend([public_pem(&elliptic), public_pem(&small)]);
    for key in [key, pem(&elliptic), pem(&small)] {
        let mut secrets = Secrets::default();
        secrets.keep_key(&key, KEY);
        for text in &public {
            for text in [text.clone(), text.replace('\n', "\\n"), text.replace('\n', ""), packed(text), STANDARD_NO_PAD.encode(text)] {
                assert_eq!(found(&secrets, &text, &[]), [""; 0]);
            }
        }
        for text in [key.clone(), key.replace('\n', "\\n"), packed(&key), STANDARD_NO_PAD.encode(&key)] {
            assert_eq!(found(&secrets, &text, &[]).len(), 1, "{text}");
        }
    }
}

#[test]
fn the_secrets_of_a_first_boot_are_known() {
    let made = || pem(&PKey::from_rsa(Rsa::generate(1024).expect("a key")).expect("a key"));
    let (key, among_others) = (made(), made());
    let token = "abcdef.0123456789abcdef";
    let document =
        serde_json::json!({"stringData": {"cloud.conf": "[Global]\nuser-id=\"u\"\npassword=\"Abcdefghijkmnopq23\"\n"}}).to_string();
    let join = format!("{:#}", serde_json::json!({"discovery": {"bootstrapToken": {"token": token}}}));
    let in_one_line = |text: &str| text.trim_end().replace('\n', "\u{1f}");
    let documents = format!("addons/secret {document}\njoin.yaml {}\npki/sa.key {}\n", in_one_line(&join), in_one_line(&among_others));
    let files = [key.clone(), documents, "echo --password=\"$1\"\n".to_owned()];
    let user_data: String = files.iter().map(|file| format!("\"source\":\"data:;base64,{}\"", packed(file))).collect();
    let mut secrets = Secrets::default();
    secrets.keep_first_boot(&user_data);
    for (text, what) in
        [(key.as_str(), KEY), (among_others.as_str(), KEY), (token, BOOTSTRAP_TOKEN), ("Abcdefghijkmnopq23", TRUSTEE_PASSWORD)]
    {
        assert_eq!(found(&secrets, text, &[]).len(), 1, "{what}");
        assert_eq!(found(&secrets, text, &[what]), [""; 0], "{what}");
    }
    assert_eq!(found(&secrets, &user_data, &[KEY, BOOTSTRAP_TOKEN, TRUSTEE_PASSWORD]), [""; 0]);
    assert_eq!(found(&secrets, &user_data, &[BOOTSTRAP_TOKEN, TRUSTEE_PASSWORD]).len(), 1);
}
