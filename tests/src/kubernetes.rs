//! A stand-in for the API server of a cluster: TLS with a certificate of the cluster's authority, client certificates demanded, and faults
//! by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::{ExtendedKeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509Extension, X509Name};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::database::Database;

/// What gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// All is well: one node, ready.
    Well,
    /// One of two nodes is not ready.
    NodeNotReady,
    /// Answers only after this.
    Slow(Duration),
    /// `/healthz` fails as it does when etcd is away.
    Failing,
    /// Shows a certificate of another authority.
    WrongCertificate,
    /// No node has joined yet.
    Empty,
}

/// A certificate authority, to sign with.
pub struct Authority {
    certificate: X509,
    key: PKey<Private>,
}

/// The stand-in; listens on loopback until it is dropped.
pub struct ApiServer {
    address: String,
    state: Arc<Mutex<State>>,
    serving: JoinHandle<()>,
}

struct State {
    behaviour: Behaviour,
    /// What it answers to who asks for its nodes, in place of what the behaviour says.
    nodes: Option<Bytes>,
    /// Nodes that it keeps, by their names, in the place of either.
    kept: Option<BTreeMap<String, Object>>,
    /// Each of those is another one as soon as it was listed.
    is_restless: bool,
    /// How many objects there have been, and changes of them.
    versions: u64,
    asked: u64,
}

/// A node that can be removed.
struct Object {
    ready: String,
    uid: String,
    version: String,
}

impl Authority {
    /// The authority of a stored pair.
    pub fn stored(certificate: &str, encrypted_key: &str, passphrase: &str) -> Result<Self> {
        let key = PKey::private_key_from_pem_passphrase(encrypted_key.as_bytes(), passphrase.as_bytes())?;
        Ok(Self { certificate: X509::from_pem(certificate.as_bytes())?, key })
    }

    /// The one that signs for a cluster, of the database that keeps it.
    pub async fn of_cluster(database: &Database, cluster: &str) -> Result<Self> {
        let sql = format!(
            "SELECT x.certificate, x.private_key, x.private_key_passphrase FROM x509keypair x JOIN cluster c ON c.ca_cert_ref = x.uuid \
             WHERE c.uuid = '{cluster}'"
        );
        let row = database.rows::<(String, String, String)>(&sql).await?.pop();
        let (certificate, key, passphrase) = row.context("the cluster's authority")?;
        Self::stored(&certificate, &key, &passphrase)
    }

    /// One that nobody knows.
    pub fn unknown() -> Result<Self> {
        let key = PKey::from_rsa(Rsa::generate(2048)?)?;
        let certificate = signed("somebody else", &key, None, ExtendedKeyUsage::new().server_auth().build()?)?;
        Ok(Self { certificate, key })
    }

    /// Its certificate, PEM.
    pub fn certificate_pem(&self) -> Result<String> {
        String::from_utf8(self.certificate.to_pem()?).context("PEM is text")
    }

    /// The certificate of a client that it signs and its key, PEM.
    pub fn client(&self) -> Result<(String, String)> {
        let key = PKey::from_rsa(Rsa::generate(2048)?)?;
        let certificate = signed("a client", &key, Some(self), ExtendedKeyUsage::new().client_auth().build()?)?;
        Ok((String::from_utf8(certificate.to_pem()?)?, String::from_utf8(key.private_key_to_pem_pkcs8()?)?))
    }
}

/// A certificate for this machine's loopback, signed by the issuer or by its own key.
fn signed(name: &str, key: &PKey<Private>, issuer: Option<&Authority>, usage: X509Extension) -> Result<X509> {
    let mut subject = X509Name::builder()?;
    subject.append_entry_by_text("CN", name)?;
    let subject = subject.build();
    let mut builder = X509::builder()?;
    builder.set_version(2)?;
    let serial = BigNum::from_u32(u32::from_be_bytes(uuid::Uuid::new_v4().as_bytes()[..4].try_into()?))?.to_asn1_integer()?;
    builder.set_serial_number(&serial)?;
    builder.set_subject_name(&subject)?;
    builder.set_issuer_name(issuer.map_or(&*subject, |issuer| issuer.certificate.subject_name()))?;
    builder.set_pubkey(key)?;
    builder.set_not_before(&*Asn1Time::days_from_now(0)?)?;
    builder.set_not_after(&*Asn1Time::days_from_now(1)?)?;
    builder.append_extension(usage)?;
    let names = SubjectAlternativeName::new().ip("127.0.0.1").build(&builder.x509v3_context(None, None))?;
    builder.append_extension(names)?;
    builder.sign(issuer.map_or(key, |issuer| &issuer.key), MessageDigest::sha256())?;
    Ok(builder.build())
}

/// TLS with a certificate of this authority; clients must have one that one of `clients` signed.
fn tls(authority: &Authority, clients: &[X509]) -> Result<TlsAcceptor> {
    let key = PKey::from_rsa(Rsa::generate(2048)?)?;
    let certificate = signed("kube-apiserver", &key, Some(authority), ExtendedKeyUsage::new().server_auth().build()?)?;
    let mut roots = rustls::RootCertStore::empty();
    for client in clients {
        roots.add(CertificateDer::from(client.to_der()?))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![CertificateDer::from(certificate.to_der()?)],
            PrivateKeyDer::try_from(key.private_key_to_pkcs8()?).map_err(anyhow::Error::msg)?,
        )?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl ApiServer {
    /// Starts it for the cluster of this authority.
    pub async fn start(authority: &Authority) -> Result<Self> {
        Self::start_for(authority, &authority.certificate_pem()?).await
    }

    /// Starts it with a certificate of this authority, for clients whom one of a PEM bundle signed.
    pub async fn start_for(authority: &Authority, clients: &str) -> Result<Self> {
        let clients = X509::stack_from_pem(clients.as_bytes())?;
        let (right, wrong) = (tls(authority, &clients)?, tls(&Authority::unknown()?, &clients)?);
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let address = format!("https://{}", listener.local_addr()?);
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                let acceptor = if lock(&shared).behaviour == Behaviour::WrongCertificate { wrong.clone() } else { right.clone() };
                tokio::spawn(async move {
                    // A client that does not trust us leaves here.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| answer(request, shared.clone()));
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { address, state, serving })
    }

    /// Its address, as a cluster's `api_address` has it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// From now on it behaves so.
    pub fn behave(&self, behaviour: Behaviour) {
        lock(&self.state).behaviour = behaviour;
    }

    /// From now on it answers this to whoever asks for its nodes, whichever page of them; packed, if that is what it is.
    pub fn list(&self, answer: impl Into<Bytes>) {
        lock(&self.state).nodes = Some(answer.into());
    }

    /// From now on it keeps these nodes, which can be removed: their names, and what their condition `Ready` says.
    pub fn keep(&self, nodes: &[(&str, &str)]) {
        let mut state = lock(&self.state);
        let mut kept = BTreeMap::new();
        for (name, ready) in nodes {
            state.versions += 1;
            let uid = format!("{:08}-0000-4000-8000-000000000000", state.versions);
            kept.insert((*name).to_owned(), Object { ready: (*ready).to_owned(), uid, version: state.versions.to_string() });
        }
        state.kept = Some(kept);
    }

    /// The names of the nodes that it keeps.
    pub fn kept(&self) -> Vec<String> {
        lock(&self.state).kept.iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// Whether each node that it keeps changes as soon as it was listed.
    pub fn be_restless(&self, is_restless: bool) {
        lock(&self.state).is_restless = is_restless;
    }

    /// What it answers to `/healthz`, the client being the holder of this certificate and key (PEM), or nobody, and trusting these authorities.
    ///
    /// # Errors
    /// When one of them does not let the other in.
    pub async fn ask(&self, identity: Option<(&str, &str)>, ca_pem: &str) -> Result<u16> {
        let trusted = reqwest::Certificate::from_pem_bundle(ca_pem.as_bytes())?;
        let mut builder = reqwest::Client::builder().no_proxy().tls_certs_only(trusted);
        if let Some((certificate, key)) = identity {
            builder = builder.identity(reqwest::Identity::from_pem(format!("{certificate}\n{key}").as_bytes())?);
        }
        Ok(builder.build()?.get(format!("{}/healthz", self.address)).send().await?.status().as_u16())
    }

    /// How often `/healthz` was asked.
    pub fn asked(&self) -> u64 {
        lock(&self.state).asked
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for State {
    fn default() -> Self {
        Self { behaviour: Behaviour::Well, nodes: None, kept: None, is_restless: false, versions: 0, asked: 0 }
    }
}

impl State {
    /// The list of the nodes that it keeps, or what it answers in its place.
    fn list(&mut self) -> Option<Bytes> {
        let Some(kept) = &mut self.kept else { return self.nodes.clone() };
        let items: Vec<Value> = kept
            .iter()
            .map(|(name, object)| {
                json!({"metadata": {"name": name, "uid": object.uid, "resourceVersion": object.version},
                    "status": {"conditions": [{"type": "Ready", "status": object.ready}]}})
            })
            .collect();
        for object in kept.values_mut().filter(|_| self.is_restless) {
            self.versions += 1;
            object.version = self.versions.to_string();
        }
        Some(json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": items}).to_string().into())
    }

    /// Removes a node that it keeps, if it is the object that is meant.
    fn remove(&mut self, name: &str, options: &Value) -> u16 {
        let Some(kept) = &mut self.kept else { return 404 };
        let Some(object) = kept.get(name) else { return 404 };
        let meant = &options["preconditions"];
        if meant["uid"] != object.uid.as_str() || meant["resourceVersion"] != object.version.as_str() {
            return 409;
        }
        kept.remove(name);
        200
    }
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Result<Response<Full<Bytes>>> {
    let is_list = request.method() == Method::GET && request.uri().path() == "/api/v1/nodes";
    let (behaviour, listed) = {
        let mut state = lock(&state);
        state.asked += u64::from(request.uri().path() == "/healthz");
        (state.behaviour, if is_list { state.list() } else { None })
    };
    if let Behaviour::Slow(time) = behaviour {
        tokio::time::sleep(time).await;
    }
    let removed = request.uri().path().strip_prefix("/api/v1/nodes/").filter(|_| request.method() == Method::DELETE).map(str::to_owned);
    if let Some(name) = removed {
        let options = request.into_body().collect().await?.to_bytes();
        let status = lock(&state).remove(&name, &serde_json::from_slice(&options)?);
        return Ok(Response::builder().status(status).body(Full::new(Bytes::from("{}")))?);
    }
    if let Some(body) = listed {
        let mut builder = Response::builder();
        if body.starts_with(&GZIP) {
            builder = builder.header("content-encoding", "gzip");
        }
        return Ok(builder.body(Full::new(body))?);
    }
    let (status, body) = match (request.uri().path(), behaviour) {
        ("/healthz", Behaviour::Failing) => (500, "[+]ping ok\n[-]etcd failed: reason withheld\nhealthz check failed\n".to_owned()),
        ("/healthz", _) => (200, "ok".to_owned()),
        ("/api/v1/nodes", Behaviour::Empty) => (200, nodes(&[])),
        ("/api/v1/nodes", Behaviour::NodeNotReady) => (200, nodes(&[("node-0", "True"), ("node-1", "False")])),
        ("/api/v1/nodes", _) => (200, nodes(&[("node-0", "True")])),
        _ => (404, String::new()),
    };
    Ok(Response::builder().status(status).body(Full::new(Bytes::from(body)))?)
}

fn nodes(nodes: &[(&str, &str)]) -> String {
    let items: Vec<Value> = nodes
        .iter()
        .map(|(name, ready)| {
            json!({"metadata": {"name": name}, "status": {"conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": ready},
            ]}})
        })
        .collect();
    json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}).to_string()
}
