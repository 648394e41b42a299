//! The API of a Kubernetes cluster, as far as its health is seen from outside.
//!
//! Not the cloud's: another trust, a client certificate instead of a token, and an address that may well not be reachable from here. Every
//! call has a deadline and no repetition; whoever asks will ask again anyway.

use std::time::Duration;

use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::transport::innermost;

/// Nodes asked for at once, and pages at most.
const PAGE: u32 = 100;
const PAGES: u32 = 100;
/// A longer answer is not read: a page of nodes with many images each stays far below.
const LONGEST: usize = 16 * 1024 * 1024;
/// Characters of an answer that is no JSON which are repeated.
const TOLD: usize = 200;

/// Where the API is, whom to trust and who we are. PEM throughout.
#[derive(Clone, Debug)]
pub struct KubernetesOptions {
    pub url: String,
    pub ca: String,
    pub certificate: String,
    pub key: SecretString,
    pub connect_timeout: Duration,
    /// Of one call, connecting included.
    pub timeout: Duration,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubernetesError {
    /// Address or certificates cannot be used.
    #[error("{0}")]
    Options(String),
    /// No connection to this cluster was made: nothing is known of it.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// It was reached, and gave no good answer.
    #[error("{0}")]
    Bad(String),
}

/// A node, as far as its health goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// The status of its condition `Ready`: `True`, `False` or `Unknown`.
    pub ready: String,
}

/// A client of one cluster.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    client: reqwest::Client,
    base: String,
}

impl Kubernetes {
    /// Makes the client. Connects to nothing yet.
    ///
    /// # Errors
    /// [`KubernetesError::Options`].
    pub fn new(options: &KubernetesOptions) -> Result<Self, KubernetesError> {
        let unusable = |what: &str| KubernetesError::Options(format!("{what} cannot be used"));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let ca = reqwest::Certificate::from_pem_bundle(options.ca.as_bytes()).map_err(|_| unusable("the cluster's authority"))?;
        let pair = SecretString::from(format!("{}\n{}\n", options.certificate, options.key.expose_secret()));
        let identity = reqwest::Identity::from_pem(pair.expose_secret().as_bytes()).map_err(|_| unusable("the client certificate"))?;
        let client = reqwest::Client::builder()
            .user_agent("magnum")
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            // Whoever answers must prove that he is the cluster, whatever its row says of the address.
            .https_only(true)
            .pool_max_idle_per_host(1)
            .connect_timeout(options.connect_timeout)
            .timeout(options.timeout)
            .tls_certs_only(ca)
            .identity(identity)
            .build()
            .map_err(|_| unusable("the cluster's authority"))?;
        Ok(Self { client, base: options.url.trim_end_matches('/').to_owned() })
    }

    /// What `/healthz` says; `ok` when all is well.
    pub async fn healthz(&self) -> Result<String, KubernetesError> {
        let (status, body) = self.get("/healthz").await?;
        let text = told(&body);
        if status.is_success() { Ok(text) } else { Err(bad(status, &text)) }
    }

    /// All nodes.
    pub async fn nodes(&self) -> Result<Vec<Node>, KubernetesError> {
        let mut nodes = Vec::new();
        let mut next = String::new();
        for _ in 0..PAGES {
            let mut path = format!("/api/v1/nodes?limit={PAGE}");
            if !next.is_empty() {
                let token = percent_encoding::utf8_percent_encode(&next, percent_encoding::NON_ALPHANUMERIC);
                path = format!("{path}&continue={token}");
            }
            let list: NodeList = self.json(&path).await?;
            nodes.extend(list.items.into_iter().map(Node::from));
            next = list.metadata.next.unwrap_or_default();
            if next.is_empty() {
                return Ok(nodes);
            }
        }
        Err(KubernetesError::Bad(format!("more than {} nodes", PAGE * PAGES)))
    }

    async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, KubernetesError> {
        let (status, body) = self.get(path).await?;
        if !status.is_success() {
            return Err(bad(status, &told(&body)));
        }
        serde_json::from_slice(&body).map_err(|_| KubernetesError::Bad("an answer that is no list of nodes".into()))
    }

    async fn get(&self, path: &str) -> Result<(StatusCode, Vec<u8>), KubernetesError> {
        let mut response = self.client.get(format!("{}{path}", self.base)).send().await.map_err(|error| lost(&error))?;
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| lost(&error))? {
            if body.len() + part.len() > LONGEST {
                return Err(KubernetesError::Bad("an answer that is too long".into()));
            }
            body.extend_from_slice(&part);
        }
        Ok((response.status(), body))
    }
}

fn lost(error: &reqwest::Error) -> KubernetesError {
    let words = innermost(error);
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => KubernetesError::Unreachable("no answer in time".into()),
        (true, false) => KubernetesError::Unreachable(words),
        (false, true) => KubernetesError::Bad("no answer in time".into()),
        (false, false) if error.is_builder() => KubernetesError::Options("the address cannot be used".into()),
        (false, false) => KubernetesError::Bad(format!("the connection was lost before the answer was complete: {words}")),
    }
}

fn bad(status: StatusCode, text: &str) -> KubernetesError {
    KubernetesError::Bad(format!("{} {text}", status.as_u16()).trim_end().to_owned())
}

/// An answer that is text, on one line, no longer than is worth repeating.
fn told(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * TOLD)]);
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TOLD).collect()
}

#[derive(Deserialize)]
struct NodeList {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<Item>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Meta,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Deserialize)]
struct Meta {
    name: String,
}

#[derive(Default, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl From<Item> for Node {
    fn from(item: Item) -> Self {
        let ready = item.status.conditions.into_iter().find(|condition| condition.kind == "Ready");
        Self { name: item.metadata.name, ready: ready.map_or_else(|| "Unknown".to_owned(), |condition| condition.status) }
    }
}
