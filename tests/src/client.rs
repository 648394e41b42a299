//! A client of the REST API that shows everything of an answer, also of a wrong one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::events::Events;
use crate::heard::Heard;
use crate::wait::{self, Seen};

/// No single request takes longer.
const LIMIT: Duration = Duration::from_secs(40);

/// An HTTP client; one for a whole test.
pub fn http() -> Result<reqwest::Client> {
    http_trusting(None)
}

/// An HTTP client that trusts nobody but this certificate authority (PEM).
pub fn http_trusting(authority: Option<&[u8]>) -> Result<reqwest::Client> {
    // Another part of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // No connection is kept for later: the server may close it in the moment in which the next request goes out on it.
    let mut builder = reqwest::Client::builder().timeout(LIMIT).no_proxy().pool_max_idle_per_host(0);
    if let Some(pem) = authority {
        builder = builder.tls_certs_only([reqwest::Certificate::from_pem(pem)?]);
    }
    builder.build().context("make an HTTP client")
}

/// Somebody who talks to the API, or to several API processes in turn.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    bases: Arc<[String]>,
    turn: Arc<AtomicUsize>,
    token: Option<String>,
    microversion: Option<String>,
    headers: Vec<(String, String)>,
    /// Where answers are kept; none: nowhere.
    heard: Option<Arc<Heard>>,
}

/// Headers that are others in each answer, and tell nothing.
const OF_ONE_ANSWER: [&str; 2] = ["date", "x-openstack-request-id"];

/// All of an answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// Null when the body is no JSON.
    pub body: Value,
    pub text: String,
}

impl Client {
    /// Somebody with this token; requests go to the addresses in turn.
    pub fn new(http: reqwest::Client, bases: &[String], token: Option<&str>) -> Self {
        Self {
            http,
            bases: bases.into(),
            turn: Arc::default(),
            token: token.map(str::to_owned),
            microversion: None,
            headers: Vec::new(),
            heard: None,
        }
    }

    /// The same, whose answers are kept here.
    pub fn heard_by(self, heard: &Arc<Heard>) -> Self {
        Self { heard: Some(heard.clone()), ..self }
    }

    /// The same, with one more header in each request.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    /// The same, asking for a microversion.
    pub fn at(&self, microversion: &str) -> Self {
        Self { microversion: Some(microversion.to_owned()), ..self.clone() }
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, None).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(Method::DELETE, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(Method::POST, path, Some(body.to_string())).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(Method::PATCH, path, Some(body.to_string())).await
    }

    /// One request; the body is sent as JSON, whether it is or not.
    pub async fn send(&self, method: Method, path: &str, body: Option<String>) -> Result<Answer> {
        let mut request = self.request(&method, path).header("Accept", "application/json");
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body);
        }
        let what = || format!("{method} {path}");
        let response = request.send().await.with_context(what)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.with_context(|| format!("the body of {method} {path}"))?;
        if let Some(heard) = &self.heard {
            let told = headers.iter().filter(|(name, _)| !OF_ONE_ANSWER.contains(&name.as_str()));
            let told: String = told.map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()))).collect();
            heard.keep("an answer of the API", &format!("{told}\n{text}"));
        }
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status, headers, body, text })
    }

    /// A request to the next address, with everything that is this somebody's.
    fn request(&self, method: &Method, path: &str) -> RequestBuilder {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let base = &self.bases[turn % self.bases.len()];
        let mut request = self.http.request(method.clone(), format!("{base}{path}"));
        if let Some(token) = &self.token {
            request = request.header("X-Auth-Token", token);
        }
        if let Some(microversion) = &self.microversion {
            request = request.header("OpenStack-API-Version", format!("container-infra {microversion}"));
        }
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// The events of a cluster as they come, after the one of this id.
    pub async fn events(&self, cluster: &str, after: Option<i64>) -> Result<Events> {
        let mut request = self.request(&Method::GET, &format!("/v1/clusters/{cluster}/events")).header("Accept", "text/event-stream");
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after.to_string());
        }
        let response = request.send().await.context("open a stream of events")?;
        let status = response.status().as_u16();
        ensure!(status == 200, "the stream was answered with {status}: {}", response.text().await.unwrap_or_default());
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        ensure!(kind == "text/event-stream", "the stream is of type {kind}");
        Ok(Events::new(response, self.heard.clone()))
    }

    /// Makes a template that works in the simulated cloud; its uuid.
    pub async fn create_template(&self, name: &str) -> Result<String> {
        let answer = self.post("/v1/clustertemplates", &template(name)).await?;
        answer.expect(201)?.uuid()
    }

    /// Asks for a cluster of two workers; its uuid.
    pub async fn create_cluster(&self, name: &str, template: &str) -> Result<String> {
        let answer = self.post("/v1/clusters", &cluster(name, template)).await?;
        answer.expect(202)?.uuid()
    }

    /// Asks for a cluster's deletion.
    pub async fn delete_cluster(&self, cluster: &str) -> Result<()> {
        self.delete(&format!("/v1/clusters/{cluster}")).await?.expect(204)?;
        Ok(())
    }

    /// The cluster as it is now.
    pub async fn cluster(&self, cluster: &str) -> Result<Value> {
        Ok(self.get(&format!("/v1/clusters/{cluster}")).await?.expect(200)?.body)
    }

    /// Asks for another number of default workers.
    pub async fn resize(&self, cluster: &str, count: u32) -> Result<Answer> {
        let path = format!("/v1/clusters/{cluster}/actions/resize");
        self.at("1.10").post(&path, &json!({"node_count": count})).await?.expect(202)
    }

    /// Asks for new credentials.
    pub async fn rotate_credentials(&self, cluster: &str) -> Result<Answer> {
        self.at("1.12").send(Method::PATCH, &format!("/v1/credentials/{cluster}"), None).await?.expect(202)
    }

    /// Waits until a cluster has this status; any final status but this one is an error at once.
    pub async fn wait_for(&self, cluster: &str, wanted: &str, patience: Duration) -> Result<Value> {
        let what = format!("cluster {cluster} to be {wanted}");
        wait::until_lasting(&what, patience, async || {
            let body = self.cluster(cluster).await?;
            let status = text(&body, "status");
            let seen = format!("{status}: {}", body["status_reason"]);
            if status == wanted {
                return Ok(Seen::Yes(body));
            }
            ensure!(status.ends_with("_IN_PROGRESS"), "waited for {what}, which is {seen}");
            Ok(Seen::Instead(seen))
        })
        .await
    }

    /// Waits until a cluster is gone.
    pub async fn wait_gone(&self, cluster: &str, patience: Duration) -> Result<()> {
        let what = format!("cluster {cluster} to be gone");
        wait::until_lasting(&what, patience, async || {
            let answer = self.get(&format!("/v1/clusters/{cluster}")).await?;
            if answer.status == 404 {
                return Ok(Seen::Yes(()));
            }
            let body = answer.expect(200)?.body;
            let seen = format!("{}: {}", body["status"], body["status_reason"]);
            ensure!(body["status"] == "DELETE_IN_PROGRESS", "waited for {what}, which is {seen}");
            Ok(Seen::Instead(seen))
        })
        .await
    }
}

impl Answer {
    /// Itself when it has this status, else an error that shows it.
    pub fn expect(self, status: u16) -> Result<Self> {
        ensure!(self.status == status, "expected {status}, got {}: {}", self.status, self.text);
        Ok(self)
    }

    /// Itself when it is an error of this status in upstream's form, whose message has this word in it.
    pub fn expect_error(self, status: u16, word: &str) -> Result<Self> {
        let answer = self.expect(status)?;
        let error = &answer.body["errors"][0];
        let detail = text(error, "detail");
        let code = if status < 500 { "client" } else { "server" };
        ensure!(
            error["status"] == status
                && error["code"] == code
                && error["request_id"] == ""
                && error["links"] == json!([])
                && error["title"] == detail.split('.').next().unwrap_or_default()
                && !detail.is_empty(),
            "not upstream's form of an error: {}",
            answer.text
        );
        ensure!(detail.to_lowercase().contains(&word.to_lowercase()), "the message does not say {word:?}: {detail}");
        ensure!(answer.header("x-openstack-request-id").starts_with("req-"), "the answer has no request id");
        Ok(answer)
    }

    /// A header's text; empty without that header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The uuid in the answer.
    pub fn uuid(&self) -> Result<String> {
        let uuid = self.body["uuid"].as_str();
        Ok(uuid.with_context(|| format!("no uuid in {}", self.text))?.to_owned())
    }
}

/// The body of a request for a template that works in the simulated cloud.
pub fn template(name: &str) -> Value {
    json!({
        "name": name, "coe": "kubernetes", "image_id": "fedora-coreos", "flavor_id": "m1.small",
        "master_flavor_id": "m1.small", "external_network_id": "public", "dns_nameserver": "192.0.2.53",
    })
}

/// The body of a request for a cluster of two workers.
pub fn cluster(name: &str, template: &str) -> Value {
    json!({"name": name, "cluster_template_id": template, "keypair": "key", "master_count": 1, "node_count": 2})
}

/// A text in an object; empty when there is none.
pub fn text(body: &Value, key: &str) -> String {
    body[key].as_str().unwrap_or_default().to_owned()
}
