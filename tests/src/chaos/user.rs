//! Users: each has one cluster after the other, changes it, and mostly deletes it, over HTTP through whichever API process answers.
//!
//! Every request carries an `Idempotency-Key` and is sent again until it has an answer that is an answer. What is asked for follows from the
//! seed and from how the cluster stands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cloud_simulator::Cloud;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::ledger::{Answered, CANCEL, Entry, Ledger, RETRY};
use crate::client::{Client, text};

/// How long a request is sent again. A key whose holder died is free after twice the time that a request may be worked on (two minutes).
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a user waits for his cluster before he goes on all the same; what is stuck is the check's to find.
const WAIT: Duration = Duration::from_secs(240);
/// Microversion with everything in it.
const MICROVERSION: &str = "1.12";

/// How users reach the service.
#[derive(Clone)]
pub struct Door {
    pub http: reqwest::Client,
    pub bases: Vec<String>,
    pub cloud: Cloud,
}

impl Door {
    /// A user with a fresh token.
    pub fn client(&self) -> Client {
        Client::new(self.http.clone(), &self.bases, Some(&self.cloud.token_for("demo", "demo"))).at(MICROVERSION)
    }
}

/// One user.
pub struct User {
    door: Door,
    client: Client,
    ledger: Arc<Ledger>,
    random: StdRng,
    template: String,
    number: u64,
    wanted: usize,
    /// Requests so far; each has a key of its own.
    requests: u64,
}

/// A request.
struct Request {
    what: &'static str,
    kind: Option<&'static str>,
    method: Method,
    path: String,
    body: Option<Value>,
}

/// A user's cluster and the groups that he has added to it.
struct Mine {
    id: String,
    groups: Vec<String>,
    made: u32,
}

/// What a look at a cluster shows.
enum Shown {
    Status(String),
    Gone,
}

impl User {
    /// The user of this number, who goes on until so many operations are accepted in all.
    pub fn new(door: &Door, ledger: &Arc<Ledger>, template: &str, seed: u64, number: u64, wanted: usize) -> Self {
        Self {
            client: door.client(),
            door: door.clone(),
            ledger: ledger.clone(),
            // Far apart, so that no two users of neighbouring seeds ask for the same.
            random: StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number)),
            template: template.to_owned(),
            number,
            wanted,
            requests: 0,
        }
    }

    /// Asks and asks.
    pub async fn run(mut self) {
        let mut clusters = 0;
        while !self.has_enough() {
            clusters += 1;
            self.one_cluster(clusters).await;
        }
    }

    fn has_enough(&self) -> bool {
        self.ledger.accepted() >= self.wanted
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    async fn pause(&mut self, longest_ms: u64) {
        let pause = self.random.random_range(50..=longest_ms);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    async fn one_cluster(&mut self, number: u32) {
        let name = format!("chaos-{}-{number}", self.number);
        let body = json!({
            "name": name, "cluster_template_id": self.template, "keypair": "key", "master_count": 1,
            "node_count": self.random.random_range(1..=2),
        });
        let create = Request {
            what: "create",
            kind: Some("cluster_create"),
            method: Method::POST,
            path: "/v1/clusters".to_owned(),
            body: Some(body),
        };
        let Some(answer) = self.ask(None, create).await else { return };
        let mut mine = Mine { id: text(&answer, "uuid"), groups: Vec::new(), made: 0 };
        // Deleted, or cancelled, while it is made.
        if self.chance(12) {
            self.pause(4000).await;
            if self.chance(60) {
                self.delete(&mine).await;
                return;
            }
            self.act(&mine, CANCEL).await;
        }
        let rounds = self.random.random_range(3..=8);
        for _ in 0..rounds {
            if self.has_enough() {
                return;
            }
            match self.rest(&mine).await {
                Shown::Gone => return,
                Shown::Status(status) if status == "CREATE_FAILED" => {
                    if !self.chance(60) {
                        break;
                    }
                    self.act(&mine, RETRY).await;
                }
                Shown::Status(status) if status.ends_with("_FAILED") && self.chance(70) => self.act(&mine, RETRY).await,
                Shown::Status(_) => self.change(&mut mine).await,
            }
            if self.chance(6) {
                self.pause(1500).await;
                self.act(&mine, CANCEL).await;
            }
        }
        if self.chance(85) {
            self.delete(&mine).await;
        }
    }

    /// One change, or a few in a row that wait for each other.
    async fn change(&mut self, mine: &mut Mine) {
        loop {
            self.one_change(mine).await;
            if self.has_enough() || !self.chance(25) {
                return;
            }
        }
    }

    async fn one_change(&mut self, mine: &mut Mine) {
        let cluster = format!("/v1/clusters/{}", mine.id);
        let resize = format!("{cluster}/actions/resize");
        let count = self.random.random_range(1..=4);
        let group = (!mine.groups.is_empty()).then(|| mine.groups[self.random.random_range(0..mine.groups.len())].clone());
        let drawn = self.random.random_range(0..100);
        let (what, kind, method, path, body) = match (drawn, group) {
            (0..25, _) => ("resize", "cluster_resize", Method::POST, resize, Some(json!({"node_count": count}))),
            (25..32, _) => {
                let body = json!({"cluster_template": self.template, "max_batch_size": count});
                ("upgrade", "cluster_upgrade", Method::POST, format!("{cluster}/actions/upgrade"), Some(body))
            }
            (32..42, _) => {
                let body = json!([{"op": "replace", "path": "/node_count", "value": count}]);
                ("patch size", "cluster_update", Method::PATCH, cluster, Some(body))
            }
            (42..55, _) => {
                let path = format!("/v1/credentials/{}", mine.id);
                ("rotate credentials", "credential_rotate", Method::PATCH, path, None)
            }
            (55..70, Some(group)) => {
                let body = json!({"node_count": count, "nodegroup": group});
                ("resize group", "cluster_resize", Method::POST, resize, Some(body))
            }
            (70..80, Some(group)) => {
                let body = json!([{"op": "replace", "path": "/max_node_count", "value": count + 4}]);
                ("patch group", "nodegroup_update", Method::PATCH, format!("{cluster}/nodegroups/{group}"), Some(body))
            }
            (80..92, Some(group)) => {
                mine.groups.retain(|name| *name != group);
                ("delete group", "nodegroup_delete", Method::DELETE, format!("{cluster}/nodegroups/{group}"), None)
            }
            _ => {
                mine.made += 1;
                let name = format!("more-{}", mine.made);
                let body = json!({"name": name, "node_count": self.random.random_range(1..=2)});
                mine.groups.push(name);
                ("add group", "nodegroup_create", Method::POST, format!("{cluster}/nodegroups"), Some(body))
            }
        };
        self.ask(Some(&mine.id), Request { what, kind: Some(kind), method, path, body }).await;
    }

    async fn act(&mut self, mine: &Mine, what: &'static str) {
        let path = format!("/v1/clusters/{}/actions/{what}", mine.id);
        self.ask(Some(&mine.id), Request { what, kind: None, method: Method::POST, path, body: Some(json!({})) }).await;
    }

    async fn delete(&mut self, mine: &Mine) {
        let path = format!("/v1/clusters/{}", mine.id);
        let delete = Request { what: "delete", kind: Some("cluster_delete"), method: Method::DELETE, path, body: None };
        self.ask(Some(&mine.id), delete).await;
        if self.chance(50) {
            self.rest(mine).await;
        }
    }

    /// Waits until nothing is under way on the cluster.
    async fn rest(&mut self, mine: &Mine) -> Shown {
        let begin = Instant::now();
        let mut last = String::new();
        while begin.elapsed() < WAIT && !self.has_enough() {
            match self.client.get(&format!("/v1/clusters/{}", mine.id)).await {
                Ok(answer) if answer.status == 404 => return Shown::Gone,
                Ok(answer) if answer.status == 401 => self.client = self.door.client(),
                Ok(answer) if answer.status == 200 => {
                    last = text(&answer.body, "status");
                    if !last.ends_with("_IN_PROGRESS") {
                        return Shown::Status(last);
                    }
                }
                // Something is down; it will be back.
                Ok(_) | Err(_) => {}
            }
            self.pause(900).await;
        }
        Shown::Status(last)
    }

    /// Sends a request until it is answered, and writes it down; the answer's body when it was accepted.
    async fn ask(&mut self, cluster: Option<&str>, request: Request) -> Option<Value> {
        self.requests += 1;
        let key = format!("chaos-{}-{}", self.number, self.requests);
        let begin = Instant::now();
        let (mut repeated, mut request_ids) = (Vec::new(), Vec::new());
        let body = request.body.as_ref().map(Value::to_string);
        let (answered, body) = loop {
            let sent = self.client.with("Idempotency-Key", &key).send(request.method.clone(), &request.path, body.clone()).await;
            let heard = match sent {
                Ok(answer) => {
                    request_ids.push(answer.header("x-openstack-request-id").to_owned());
                    match answer.status {
                        200..300 => break (Answered::Accepted, answer.body),
                        401 => self.client = self.door.client(),
                        429 | 500.. => {}
                        409 if answer.text.contains("is being worked on") => {}
                        status => break (Answered::Refused(status), answer.body),
                    }
                    let detail = text(&answer.body["errors"][0], "detail");
                    // Not the words of the cloud, nor ids.
                    format!("{}: {}", answer.status, detail.split(['.', '(']).next().unwrap_or_default().trim_end())
                }
                Err(_) => "no answer".to_owned(),
            };
            repeated.push(heard.clone());
            if begin.elapsed() > PATIENCE {
                break (Answered::Silent(heard), Value::Null);
            }
            self.pause(600).await;
        };
        let is_accepted = answered == Answered::Accepted;
        let cluster = cluster.map(str::to_owned).or_else(|| is_accepted.then(|| text(&body, "uuid")));
        let operation = body["operation_id"].as_str().map(str::to_owned);
        let Request { what, kind, .. } = request;
        self.ledger.note(Entry { kind, what, cluster, operation, request_ids, repeated, answered });
        is_accepted.then_some(body)
    }
}

/// Somebody deletes a cluster that the users have left.
pub async fn delete(door: &Door, ledger: &Arc<Ledger>, cluster: &str) {
    let number = Uuid::new_v4().as_u64_pair().0;
    let mut user = User::new(door, ledger, "", number, number, 0);
    user.delete(&Mine { id: cluster.to_owned(), groups: Vec::new(), made: 0 }).await;
}
