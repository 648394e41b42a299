//! `[api] enabled_ssl`, with a certificate authority made on the spot.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, KeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509NameBuilder};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tests::raw::Raw;
use tests::world::{Mix, Options, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Pair = (X509, PKey<Private>);

fn key() -> Result<PKey<Private>> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    Ok(PKey::from_ec_key(EcKey::generate(&group)?)?)
}

/// A certificate that begins with what all have, signed once `more` has been added to it.
fn certificate(name: &str, serial: u32, issuer: Option<&Pair>, more: impl Fn(&mut X509Builder) -> Result<()>) -> Result<Pair> {
    let own = key()?;
    let mut subject = X509NameBuilder::new()?;
    subject.append_entry_by_text("CN", name)?;
    let subject = subject.build();
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let serial = BigNum::from_u32(serial)?.to_asn1_integer()?;
    builder.set_serial_number(&serial)?;
    builder.set_subject_name(&subject)?;
    builder.set_issuer_name(issuer.map_or(&*subject, |(issuer, _)| issuer.subject_name()))?;
    builder.set_pubkey(&own)?;
    let (begin, end) = (Asn1Time::days_from_now(0)?, Asn1Time::days_from_now(1)?);
    builder.set_not_before(&begin)?;
    builder.set_not_after(&end)?;
    more(&mut builder)?;
    builder.sign(issuer.map_or(&own, |(_, key)| key), MessageDigest::sha256())?;
    Ok((builder.build(), own))
}

fn authority() -> Result<Pair> {
    certificate("an authority", 1, None, |builder| {
        builder.append_extension(BasicConstraints::new().critical().ca().build()?)?;
        builder.append_extension(KeyUsage::new().critical().key_cert_sign().build()?)?;
        Ok(())
    })
}

fn of_server(authority: &Pair) -> Result<Pair> {
    certificate("localhost", 2, Some(authority), |builder| {
        let names =
            SubjectAlternativeName::new().dns("localhost").ip("127.0.0.1").build(&builder.x509v3_context(Some(&authority.0), None))?;
        builder.append_extension(names)?;
        Ok(())
    })
}

#[tokio::test]
async fn the_api_speaks_tls_when_it_is_enabled() -> Result<()> {
    let authority = authority()?;
    let (cert, key) = of_server(&authority)?;
    let folder = tempfile::tempdir()?;
    let (cert_file, key_file) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert_file, cert.to_pem()?)?;
    std::fs::write(&key_file, key.private_key_to_pem_pkcs8()?)?;
    let api = format!(
        "[api]\nenabled_ssl = true\nssl_cert_file = {}\nssl_key_file = {}\n[requests]\nhead_timeout = 5\n",
        cert_file.display(),
        key_file.display()
    );
    let trusted = authority.0.to_pem()?;
    let options = Options { apis: 1, conductors: 0, api, authority: Some(trusted.clone()), ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;

    // The usual client, which believes this authority only: handshake, request, links.
    let root = world.client(None).get("/").await?.expect(200)?.body;
    let link = tests::client::text(&root["versions"][0]["links"][0], "href");
    ensure!(link == format!("https://{}/v1/", world.addresses()[0]), "{link}");
    world.demo().create_template("small").await?;

    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let answer = get_with(version, &trusted, world.addresses()[0]).await.with_context(|| format!("{:?}", version.version))?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    // Somebody who does not know the authority, one who speaks no TLS, and one who says nothing.
    ensure!(tests::client::http()?.get(format!("https://{}/", world.addresses()[0])).send().await.is_err());
    let mut plain = Raw::connect(world.addresses()[0]).await?;
    plain.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    ensure!(plain.answer().await.is_err());
    let mut silent = Raw::connect(world.addresses()[0]).await?;
    silent.closed().await?;
    world.client(None).get("/healthcheck").await?.expect(200)?;
    world.finish().await
}

/// One request over a connection of exactly this version.
async fn get_with(version: &'static rustls::SupportedProtocolVersion, trusted: &[u8], address: &str) -> Result<String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted)?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let mut stream = connector.connect(ServerName::try_from("localhost")?, stream).await?;
    ensure!(stream.get_ref().1.protocol_version() == Some(version.version), "{:?}", stream.get_ref().1.protocol_version());
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
