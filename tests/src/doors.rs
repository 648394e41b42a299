//! A cloud that speaks TLS: services behind doors, each with a certificate of its own, and a catalogue that says where they are.

use std::cmp::Reverse;
use std::sync::Arc;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::client;
use crate::front::acceptor;
use crate::pki::Pair;

/// The end of Keystone's address.
const KEYSTONE: &str = "/identity/v3";

/// A door.
pub struct Door<'a> {
    /// The first part of the paths of the service behind it; empty: all that have no door of their own.
    pub service: &'a str,
    /// What it shows: a certificate of `localhost`.
    pub certificate: &'a Pair,
    /// The authority of those who may come, where not all may.
    pub clients: Option<&'a Pair>,
}

/// Open until this is dropped.
pub struct Doors {
    cloud: Arc<Cloud>,
    _serving: JoinSet<()>,
}

/// What is behind them.
struct Cloud {
    http: reqwest::Client,
    /// Its own address.
    address: String,
    /// What it calls its services, and what stands for that in its answers; the longest first, for all begin alike.
    names: Vec<(String, String)>,
}

impl Doors {
    /// Before the simulated cloud whose Keystone is at this address.
    pub async fn open(auth_url: &str, doors: &[Door<'_>]) -> Result<Self> {
        let address = auth_url.strip_suffix(KEYSTONE).context("the address of the cloud")?.to_owned();
        let (mut names, mut waiting) = (Vec::new(), Vec::new());
        for door in doors {
            let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
            let here = format!("https://localhost:{}", listener.local_addr()?.port());
            let path = if door.service.is_empty() { String::new() } else { format!("/{}", door.service) };
            names.push((format!("{address}{path}"), format!("{here}{path}")));
            waiting.push((listener, acceptor(door.certificate, door.clients)?));
        }
        names.sort_by_key(|(name, _)| Reverse(name.len()));
        let cloud = Arc::new(Cloud { http: client::http()?, address, names });
        let mut serving = JoinSet::new();
        for (listener, acceptor) in waiting {
            serving.spawn(serve(listener, acceptor, cloud.clone()));
        }
        Ok(Self { cloud, _serving: serving })
    }

    /// Where Keystone is.
    pub fn auth_url(&self) -> String {
        self.cloud.as_told(format!("{}{KEYSTONE}", self.cloud.address))
    }
}

impl Cloud {
    /// A text of the cloud's, as it is told before the doors.
    fn as_told(&self, text: String) -> String {
        self.names.iter().fold(text, |text, (name, here)| text.replace(name, here))
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, cloud: Arc<Cloud>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, cloud) = (acceptor.clone(), cloud.clone());
        tokio::spawn(async move {
            // Whoever does not believe us leaves here, and so does whom we do not believe.
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| pass(request, cloud.clone()));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Carries a request in, and its answer out.
async fn pass(request: Request<Incoming>, cloud: Arc<Cloud>) -> Result<Response<Full<Bytes>>> {
    let (mut head, body) = request.into_parts();
    head.headers.remove(HOST);
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let asked = cloud.http.request(head.method, format!("{}{path}", cloud.address)).headers(head.headers);
    let answer = asked.body(body.collect().await?.to_bytes()).send().await?;
    let mut told = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        // What another text, on another connection, has otherwise.
        if ![CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING].contains(name) {
            told = told.header(name, value);
        }
    }
    Ok(told.body(Full::from(cloud.as_told(answer.text().await?)))?)
}
