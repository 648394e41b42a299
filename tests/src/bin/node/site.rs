//! What nodes reach: the sites of what they download, with stand-ins in place of programs, and the Heat that they signal.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use openssl::sha::sha256;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::Value;
use tests::pki::{Pair, Purpose};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio_rustls::TlsAcceptor;

/// Where programs and manifests are published.
pub const SITES: [&str; 3] = ["dl.k8s.io", "github.com", "raw.githubusercontent.com"];

/// The cloud's Heat, whose certificate is of the cloud's own authority.
pub const HEAT: &str = "heat.cloud.test";

/// The token that Heat knows a node by.
pub const SIGNAL_TOKEN: &str = "the-token-of-the-nodes-own-signal";

const CONTAINERD: &str = include_str!("stand_ins/containerd");
const FLANNEL: &str = include_str!("stand_ins/kube-flannel.yml");
const KUBEADM: &str = include_str!("stand_ins/kubeadm");
const KUBECTL: &str = include_str!("stand_ins/kubectl");
const KUBELET: &str = include_str!("stand_ins/kubelet");

/// Listens until the program ends.
#[derive(Clone)]
pub struct Site {
    state: Arc<Mutex<State>>,
    /// The authority of the sites, which images trust.
    pub public: String,
    /// The cloud's own, which they do not.
    pub cloud: String,
}

#[derive(Default)]
struct State {
    /// All that was asked for, as `host/path`, and by whom: the last number of the address.
    asked: Vec<(u8, String)>,
    signals: Vec<Signal>,
    /// Where somebody signalled without the token, or something that is no signal.
    refused: Vec<String>,
    archives: BTreeMap<String, Vec<u8>>,
    /// The end of a path whose content is not what its sum says.
    spoiled: Option<&'static str>,
    /// The end of a path that is never answered.
    withheld: Option<&'static str>,
}

/// What a node said to Heat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    pub path: String,
    pub status: String,
    pub reason: String,
    pub id: String,
    /// What it is to the cluster.
    pub data: String,
}

impl Site {
    /// On all addresses, at the ports of HTTPS and of the Kubernetes API (where every API is ready).
    pub async fn start(folder: &Path, containerd: &str) -> Result<Self> {
        let (public, cloud) = (Pair::authority("the public")?, Pair::authority("the cloud")?);
        let mut names = BTreeMap::new();
        for host in SITES {
            names.insert(host, certified(&public.issue(host, Purpose::Server(host))?)?);
        }
        names.insert(HEAT, certified(&cloud.issue(HEAT, Purpose::Server(HEAT))?)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let acceptor = TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_cert_resolver(Arc::new(Names(names)))));
        let state = State {
            archives: [
                (
                    "containerd".to_owned(),
                    archive(folder, "bin/containerd", &CONTAINERD.replace("@CONTAINERD_VERSION@", containerd)).await?,
                ),
                ("cni-plugins".to_owned(), archive(folder, "bridge", "#!/bin/sh\n").await?),
            ]
            .into(),
            ..State::default()
        };
        let site = Self { state: Arc::new(Mutex::new(state)), public: public.certificate_pem()?, cloud: cloud.certificate_pem()? };
        for port in [443, 6443] {
            let listener = TcpListener::bind(("0.0.0.0", port)).await.with_context(|| format!("listen at port {port}"))?;
            tokio::spawn(site.clone().serve(listener, acceptor.clone()));
        }
        Ok(site)
    }

    async fn serve(self, listener: TcpListener, acceptor: TlsAcceptor) {
        while let Ok((stream, peer)) = listener.accept().await {
            let std::net::IpAddr::V4(peer) = peer.ip() else { continue };
            tokio::spawn(self.clone().converse(stream, acceptor.clone(), peer.octets()[3]));
        }
    }

    async fn converse(self, stream: TcpStream, acceptor: TlsAcceptor, peer: u8) {
        // A client that does not trust us leaves here.
        let Ok(stream) = acceptor.accept(stream).await else { return };
        let service = service_fn(move |request| self.clone().answer(request, peer));
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(self, request: Request<Incoming>, peer: u8) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let header = |name: &str| request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let (host, path) = (header("host"), request.uri().path().to_owned());
        if path == "/readyz" {
            return Ok(response(200, b"ok".to_vec()));
        }
        if host == HEAT {
            let is_known = header("x-auth-token") == SIGNAL_TOKEN;
            let body = request.into_body().collect().await?.to_bytes();
            let Some(signal) = Signal::read(path.clone(), &body).filter(|_| is_known) else {
                self.state().refused.push(path);
                return Ok(response(400, Vec::new()));
            };
            self.state().signals.push(signal);
            return Ok(response(200, Vec::new()));
        }
        let whole = format!("{host}{path}");
        let (content, is_withheld) = {
            let mut state = self.state();
            state.asked.push((peer, whole.clone()));
            (state.content(&whole), state.withheld.is_some_and(|end| whole.ends_with(end)))
        };
        if is_withheld {
            std::future::pending::<()>().await;
        }
        Ok(content.map_or_else(|| response(404, Vec::new()), |content| response(200, content)))
    }

    /// What the machine at this address asked for, in order.
    pub fn asked(&self, address: std::net::Ipv4Addr) -> Vec<String> {
        let state = self.state();
        state.asked.iter().filter(|(peer, _)| *peer == address.octets()[3]).map(|(_, path)| path.clone()).collect()
    }

    /// The signals to an address of Heat's.
    pub fn signals(&self, path: &str) -> Vec<Signal> {
        self.state().signals.iter().filter(|signal| signal.path == path).cloned().collect()
    }

    /// Whether somebody signalled to an address of Heat's as a node does not.
    pub fn has_refused(&self, path: &str) -> bool {
        self.state().refused.iter().any(|refused| refused == path)
    }

    /// From now on the content at the path with this end is another one than its sum says.
    pub fn spoil(&self, end: Option<&'static str>) {
        self.state().spoiled = end;
    }

    /// From now on who asks for a path with this end waits.
    pub fn withhold(&self, end: Option<&'static str>) {
        self.state().withheld = end;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn content(&self, whole: &str) -> Option<Vec<u8>> {
        let name = whole.rsplit('/').next()?;
        // Sums, as the projects publish them: bare, or with names.
        if let Some(of) = whole.strip_suffix(".sha256") {
            let bare = whole.starts_with("dl.k8s.io/");
            let sum = sum(&self.original(of)?);
            return Some(if bare { sum } else { format!("{sum}  {}\n", of.rsplit('/').next()?) }.into_bytes());
        }
        if name == "runc.sha256sum" {
            let arch = arch();
            let own = sum(&self.original(&whole.replace("runc.sha256sum", &format!("runc.{arch}")))?);
            return Some(format!("{}  runc.riscv64\n{own}  runc.{arch}\n", "0".repeat(64)).into_bytes());
        }
        if let Some(of) = whole.strip_suffix(".sha256sum") {
            return Some(format!("{}  {}\n", sum(&self.original(of)?), of.rsplit('/').next()?).into_bytes());
        }
        let mut content = self.original(whole)?;
        if self.spoiled.is_some_and(|end| whole.ends_with(end)) {
            content.push(b'#');
        }
        Some(content)
    }

    fn original(&self, whole: &str) -> Option<Vec<u8>> {
        let (host, path) = whole.split_once('/')?;
        let name = path.rsplit('/').next()?;
        let program = |text: &str| Some(text.as_bytes().to_vec());
        match host {
            "dl.k8s.io" if path.contains(&format!("/bin/linux/{}/", arch())) => match name {
                "kubeadm" => program(KUBEADM),
                "kubectl" => program(KUBECTL),
                "kubelet" => program(KUBELET),
                _ => None,
            },
            "github.com" if name == format!("runc.{}", arch()) => program("#!/bin/sh\n"),
            "github.com" if name.ends_with(".tar.gz") || name.ends_with(".tgz") => {
                self.archives.iter().find(|(project, _)| name.starts_with(project.as_str())).map(|(_, content)| content.clone())
            }
            "github.com" | "raw.githubusercontent.com" if name == "kube-flannel.yml" => Some(format!("# {path}\n{FLANNEL}").into_bytes()),
            "github.com" | "raw.githubusercontent.com" if name.ends_with(".yaml") || name.ends_with(".yml") => {
                Some(format!("# {path}\nkind: List\n").into_bytes())
            }
            _ => None,
        }
    }
}

impl Signal {
    fn read(path: String, body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        Some(Self { path, status: text("status")?, reason: text("reason")?, id: text("id")?, data: text("data")? })
    }
}

/// Certificates by the name that a client asks for; who asks for none (an address) is shown the first.
struct Names(BTreeMap<&'static str, Arc<CertifiedKey>>);

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match hello.server_name() {
            Some(name) => self.0.get(name).cloned(),
            None => self.0.values().next().cloned(),
        }
    }
}

fn certified(pair: &Pair) -> Result<Arc<CertifiedKey>> {
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate_pem()?.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(pair.key_pem()?.as_bytes())?;
    Ok(Arc::new(CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())?))
}

/// A gzipped tar with one program.
async fn archive(folder: &Path, path: &str, content: &str) -> Result<Vec<u8>> {
    let folder = folder.join(path.replace('/', "-"));
    let program = folder.join(path);
    std::fs::create_dir_all(program.parent().context("a folder")?).context("make a folder")?;
    std::fs::write(&program, content).context("write a program")?;
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).context("make it executable")?;
    let top = path.split('/').next().context("a name")?;
    let output = Command::new("tar").arg("-C").arg(&folder).args(["--owner=0", "--group=0", "-cz", top]).output().await.context("tar")?;
    ensure!(output.status.success(), "tar: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

fn sum(content: &[u8]) -> String {
    sha256(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn response(status: u16, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response
}

/// This machine's architecture, as releases are named.
pub fn arch() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}
