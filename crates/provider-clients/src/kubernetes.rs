//! The API of a Kubernetes cluster, as far as its health is seen from outside, and nodes that are gone are taken out of it.
//!
//! Not the cloud's: another trust, a client certificate instead of a token, and an address that may well not be reachable from here. Every
//! call has a deadline and no repetition; whoever asks will ask again anyway.
//!
//! Who answers is the tenant's to say, and so is where: what is kept of an answer is small whatever it is, and where no connection may lead
//! none is made.

mod networks;

use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::{Value, json};
use url::{Host, Url};

use self::networks::DENIED;
use crate::transport::innermost;

pub use self::networks::Networks;
pub(crate) use self::networks::Permitted;

/// Nodes asked for at once, pages at most, and nodes of all pages at most.
const PAGE: usize = 100;
const PAGES: usize = 100;
const NODES: usize = PAGE * PAGES;
/// A longer page is not read: one of nodes with many images each stays far below.
const LONGEST: usize = 16 * 1024 * 1024;
/// Nor more of all pages together: of 5000 nodes, the most that Kubernetes is made for, each has 13 KiB.
const IN_ALL: usize = 64 * 1024 * 1024;
/// A longer answer to `/healthz` is not read: a line for each check is far below.
const TEXT: usize = 64 * 1024;
/// Longest token of a next page: a version and a name, in base 64.
const TOKEN: usize = 4 * 1024;
/// Longest name of a node, as that of any subdomain.
const NAME: usize = 253;
/// Longest id of an object, and longest word for one of its versions: a UUID and a number.
const IDENTITY: usize = 64;
/// Characters of an answer that is no JSON which are repeated.
const TOLD: usize = 200;
/// Characters of an error of the connection which are repeated: it may list what names a certificate is for.
const WORDS: usize = 2000;

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
    /// Where no connection may lead.
    pub denied: Networks,
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

/// A node, as far as its health goes, and which object it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub ready: Ready,
    /// Another object of the same name has another one.
    pub uid: String,
    /// Another one after each change of the object.
    pub version: String,
}

impl Node {
    /// Whether its condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        self.ready == Ready::True
    }
}

/// The status of a node's condition `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    True,
    False,
    Unknown,
}

impl Ready {
    /// Kubernetes' word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    fn read(word: &str) -> Option<Self> {
        [Self::True, Self::False, Self::Unknown].into_iter().find(|ready| ready.as_str() == word)
    }
}

/// A client of one cluster.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    client: reqwest::Client,
    base: String,
    denied: Networks,
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
            // A page that is small on the way may be large in memory.
            .no_gzip()
            .dns_resolver(Permitted(options.denied.clone()))
            // Whoever answers must prove that he is the cluster, whatever its row says of the address.
            .https_only(true)
            .pool_max_idle_per_host(1)
            .connect_timeout(options.connect_timeout)
            .timeout(options.timeout)
            .tls_certs_only(ca)
            .identity(identity)
            .build()
            .map_err(|_| unusable("the cluster's authority"))?;
        Ok(Self { client, base: options.url.trim_end_matches('/').to_owned(), denied: options.denied.clone() })
    }

    /// What `/healthz` says; `ok` when all is well.
    pub async fn healthz(&self) -> Result<String, KubernetesError> {
        let (status, body) = self.get("/healthz", TEXT).await?;
        let text = told(&body);
        if status.is_success() { Ok(text) } else { Err(bad(status, &text)) }
    }

    /// All nodes.
    pub async fn nodes(&self) -> Result<Vec<Node>, KubernetesError> {
        let mut nodes = Vec::new();
        let mut next = String::new();
        let mut left = IN_ALL;
        let no_list = || KubernetesError::Bad("an answer that is no list of nodes".into());
        for _ in 0..PAGES {
            let mut path = format!("/api/v1/nodes?limit={PAGE}");
            if !next.is_empty() {
                let token = percent_encoding::utf8_percent_encode(&next, percent_encoding::NON_ALPHANUMERIC);
                path = format!("{path}&continue={token}");
            }
            let (status, body) = self.get(&path, left.min(LONGEST)).await?;
            if !status.is_success() {
                return Err(bad(status, &told(&body)));
            }
            left -= body.len();
            let list: NodeList = serde_json::from_slice(&body).map_err(|_| no_list())?;
            nodes.extend(list.items);
            if nodes.len() > NODES {
                break;
            }
            next = list.metadata.next.unwrap_or_default();
            if next.is_empty() {
                return Ok(nodes);
            }
            if next.len() > TOKEN {
                return Err(no_list());
            }
        }
        Err(KubernetesError::Bad(format!("more than {NODES} nodes")))
    }

    /// Removes a node, as it was when it was listed; one that is not there any more is removed.
    ///
    /// # Errors
    /// [`KubernetesError::Bad`], beside what may come of every call, where it has changed since it was listed.
    pub async fn delete_node(&self, node: &Node) -> Result<(), KubernetesError> {
        if node.uid.is_empty() || node.version.is_empty() {
            return Err(KubernetesError::Bad("a list that does not tell which objects its nodes are".into()));
        }
        let as_listed = json!({"uid": node.uid, "resourceVersion": node.version});
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": as_listed});
        let (status, body) = self.ask(Method::DELETE, &format!("/api/v1/nodes/{}", node.name), Some(&options), LONGEST).await?;
        match status.is_success() || status == StatusCode::NOT_FOUND {
            true => Ok(()),
            false => Err(bad(status, &told(&body))),
        }
    }

    async fn get(&self, path: &str, longest: usize) -> Result<(StatusCode, Vec<u8>), KubernetesError> {
        self.ask(Method::GET, path, None, longest).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        longest: usize,
    ) -> Result<(StatusCode, Vec<u8>), KubernetesError> {
        let unusable = |_| KubernetesError::Options("the address cannot be used".into());
        let url = Url::parse(&format!("{}{path}", self.base)).map_err(unusable)?;
        // Nobody resolves an address that is written as one.
        if literal(&url).is_some_and(|address| self.denied.contain(address)) {
            return Err(KubernetesError::Unreachable(DENIED.into()));
        }
        let mut request = self.client.request(method, url);
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(|error| lost(&error))?;
        let mut answer = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| lost(&error))? {
            if answer.len() + part.len() > longest {
                return Err(KubernetesError::Bad("an answer that is too long".into()));
            }
            answer.extend_from_slice(&part);
        }
        Ok((response.status(), answer))
    }
}

/// The address that a URL names itself.
fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

fn lost(error: &reqwest::Error) -> KubernetesError {
    let words: String = innermost(error).chars().take(WORDS).collect();
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
    #[serde(deserialize_with = "nodes")]
    items: Vec<Node>,
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
    #[serde(default)]
    uid: String,
    #[serde(default, rename = "resourceVersion")]
    version: String,
}

#[derive(Default, Deserialize)]
struct NodeStatus {
    /// What the first condition of that type says.
    #[serde(default, rename = "conditions", deserialize_with = "ready")]
    ready: Option<Ready>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

fn nodes<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<Node>, D::Error> {
    let mut nodes = Vec::new();
    each(list, |item: Item| {
        if nodes.len() == NODES {
            return Err("too many nodes");
        }
        let Meta { name, uid, version } = item.metadata;
        if !is_name(&name) || uid.len() > IDENTITY || version.len() > IDENTITY {
            return Err("no name of a node, or no identity");
        }
        nodes.push(Node { name, ready: item.status.ready.unwrap_or(Ready::Unknown), uid, version });
        Ok(())
    })?;
    Ok(nodes)
}

fn ready<'de, D: Deserializer<'de>>(list: D) -> Result<Option<Ready>, D::Error> {
    let mut ready = None;
    each(list, |condition: Condition| {
        if ready.is_none() && condition.kind == "Ready" {
            ready = Some(Ready::read(&condition.status).ok_or("no status of a condition")?);
        }
        Ok(())
    })?;
    Ok(ready)
}

/// Reads a list one by one: what is not kept of an element takes no room, however many there are.
fn each<'de, D, T, F>(list: D, take: F) -> Result<(), D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    F: FnMut(T) -> Result<(), &'static str>,
{
    struct Each<T, F>(F, PhantomData<T>);

    impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), &'static str>> Visitor<'de> for Each<T, F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(element) = list.next_element::<T>()? {
                (self.0)(element).map_err(A::Error::custom)?;
            }
            Ok(())
        }
    }

    list.deserialize_seq(Each(take, PhantomData))
}

/// Whether an API server would let a node be called so.
fn is_name(name: &str) -> bool {
    (1..=NAME).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(items: &Value) -> Option<Vec<Node>> {
        serde_json::from_str(&json!({"kind": "NodeList", "items": items}).to_string()).ok().map(|list: NodeList| list.items)
    }

    fn item(name: &str, conditions: &Value) -> Value {
        json!({"metadata": {"name": name, "uid": "u", "resourceVersion": "7"}, "status": {"conditions": conditions, "images": []}})
    }

    #[test]
    fn a_node_is_a_name_and_one_of_three_words() {
        let conditions = |ready: &str| json!([{"type": "DiskPressure", "status": "Perhaps"}, {"type": "Ready", "status": ready}]);
        let longest = "n".repeat(NAME);
        for (word, ready) in [("True", Ready::True), ("False", Ready::False), ("Unknown", Ready::Unknown)] {
            for name in ["n", "blue-a1b2-node-0.example.org", &longest] {
                let nodes = read(&json!([item(name, &conditions(word))]));
                let wanted = Node { name: name.to_owned(), ready, uid: "u".into(), version: "7".into() };
                assert_eq!(nodes, Some(vec![wanted]), "{name} {word}");
            }
        }
        let silent = json!([item("a", &json!([])), {"metadata": {"name": "b"}}]);
        assert!(read(&silent).is_some_and(|nodes| nodes.len() == 2 && nodes.iter().all(|node| node.ready == Ready::Unknown)));
        for word in ["", "true", "Perhaps"] {
            assert_eq!(read(&json!([item("n", &conditions(word))])), None, "{word}");
        }
        let long = "u".repeat(IDENTITY + 1);
        for identity in [json!({"name": "n", "uid": long}), json!({"name": "n", "resourceVersion": long})] {
            assert_eq!(read(&json!([{"metadata": identity}])), None, "{identity}");
        }
        for name in ["", "a b", "a\u{e9}", "a\"b", &"n".repeat(NAME + 1)] {
            assert_eq!(read(&json!([item(name, &conditions("True"))])), None, "{name}");
        }
    }

    #[test]
    fn a_page_has_no_more_nodes_than_a_cluster() {
        let node = item("n", &json!([{"type": "Ready", "status": "True"}]));
        assert_eq!(read(&json!(vec![node.clone(); NODES])).map(|nodes| nodes.len()), Some(NODES));
        assert_eq!(read(&json!(vec![node; NODES + 1])), None);
    }
}
