//! Users: each has one cluster after the other, changes it, and mostly is rid of it, over HTTP through whichever API process answers.
//!
//! Every request carries an `Idempotency-Key` and is sent again until it has an answer that is an answer. What is asked for follows from the
//! seed and from how the cluster stands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use cloud_simulator::Cloud;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::ledger::{Answered, Entry, Ledger};
use super::wish::{self, CANCELLATIONS, CHANGES, FAREWELLS, Wish};
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
        self.client_of("demo")
    }

    /// An administrator with a fresh token.
    fn admin(&self) -> Client {
        self.client_of("admin")
    }

    fn client_of(&self, name: &str) -> Client {
        Client::new(self.http.clone(), &self.bases, Some(&self.cloud.token_for(name, name))).at(MICROVERSION)
    }
}

/// What a user's clusters are made from.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    pub template: String,
    pub is_on_cluster_api: bool,
}

/// One user.
pub struct User {
    door: Door,
    client: Client,
    /// He who does for him what users may not.
    admin: Client,
    ledger: Arc<Ledger>,
    random: StdRng,
    kind: Kind,
    number: u64,
    /// Requests so far; each has a key of its own.
    requests: u64,
}

/// A request.
struct Request {
    method: Method,
    path: String,
    body: Option<Value>,
}

impl Request {
    fn new(method: Method, path: String, body: impl Into<Option<Value>>) -> Self {
        Self { method, path, body: body.into() }
    }
}

/// A user's cluster and the groups that he has added to it.
#[derive(Default)]
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
    /// The user of this number, who goes on until the ledger is closed.
    pub fn new(door: &Door, ledger: &Arc<Ledger>, kind: Kind, seed: u64, number: u64) -> Self {
        Self {
            client: door.client(),
            admin: door.admin(),
            door: door.clone(),
            ledger: ledger.clone(),
            // Far apart, so that no two users of neighbouring seeds ask for the same.
            random: StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number)),
            kind,
            number,
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
        self.ledger.is_closed()
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
            "name": name, "cluster_template_id": self.kind.template, "keypair": "key", "master_count": 1,
            "node_count": self.random.random_range(1..=2),
        });
        let create = Request::new(Method::POST, "/v1/clusters".to_owned(), body);
        let Some(answer) = self.ask(None, Wish::Create, create).await else { return };
        let mut mine = Mine { id: text(&answer, "uuid"), ..Mine::default() };
        // Removed, or cancelled, while it is made.
        if self.chance(12) {
            self.pause(4000).await;
            if self.chance(60) {
                return self.leave(&mine).await;
            }
            self.cancel(&mine).await;
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
                    self.act(&mine, Wish::Retry, "retry").await;
                }
                Shown::Status(status) if status == "DELETE_FAILED" => {
                    if !self.chance(50) {
                        break;
                    }
                    self.act(&mine, Wish::Retry, "retry").await;
                }
                Shown::Status(status) if status.ends_with("_FAILED") && self.chance(70) => self.act(&mine, Wish::Retry, "retry").await,
                Shown::Status(_) => self.change(&mut mine).await,
            }
            if self.chance(8) {
                self.pause(1500).await;
                self.cancel(&mine).await;
            }
        }
        if self.chance(85) {
            self.leave(&mine).await;
        }
    }

    /// One change, or a few in a row that wait for each other.
    async fn change(&mut self, mine: &mut Mine) {
        loop {
            let wish = wish::draw(&mut self.random, CHANGES);
            self.one_change(mine, wish).await;
            if self.has_enough() || !self.chance(25) {
                return;
            }
        }
    }

    async fn one_change(&mut self, mine: &mut Mine, wish: Wish) {
        let group = (!mine.groups.is_empty()).then(|| mine.groups[self.random.random_range(0..mine.groups.len())].clone());
        let (wish, group) = match group {
            Some(group) if wish.needs_a_group() => (wish, group),
            None if wish.needs_a_group() => (Wish::AddGroup, String::new()),
            _ => (wish, String::new()),
        };
        match wish {
            Wish::DeleteGroup => mine.groups.retain(|name| *name != group),
            Wish::AddGroup => {
                mine.made += 1;
                mine.groups.push(format!("more-{}", mine.made));
            }
            _ => {}
        }
        let request = self.request(mine, wish, &group);
        self.ask(Some(&mine.id), wish, request).await;
    }

    /// What is sent for a change; of a new group the name is known already.
    fn request(&mut self, mine: &Mine, wish: Wish, group: &str) -> Request {
        let cluster = format!("/v1/clusters/{}", mine.id);
        let groups = format!("{cluster}/nodegroups");
        let resize = format!("{cluster}/actions/resize");
        let count: i32 = self.random.random_range(1..=4);
        let replace = |path: &str, value: Value| json!([{"op": "replace", "path": path, "value": value}]);
        match wish {
            Wish::Resize => Request::new(Method::POST, resize, json!({"node_count": count})),
            Wish::ResizeGroup => Request::new(Method::POST, resize, json!({"node_count": count, "nodegroup": group})),
            Wish::PatchSize => Request::new(Method::PATCH, cluster, replace("/node_count", count.into())),
            Wish::PatchHealth => {
                let status = if count > 2 { "HEALTHY" } else { "UNHEALTHY" };
                Request::new(Method::PATCH, cluster, replace("/health_status", status.into()))
            }
            Wish::Upgrade => {
                let body = json!({"cluster_template": self.kind.template, "max_batch_size": count});
                Request::new(Method::POST, format!("{cluster}/actions/upgrade"), body)
            }
            Wish::AddGroup => {
                let body = json!({"name": mine.groups.last(), "node_count": self.random.random_range(1..=2)});
                Request::new(Method::POST, groups, body)
            }
            Wish::PatchGroup => Request::new(Method::PATCH, format!("{groups}/{group}"), replace("/max_node_count", (count + 4).into())),
            Wish::DeleteGroup => Request::new(Method::DELETE, format!("{groups}/{group}"), None),
            Wish::RotateAuthorities => Request::new(Method::PATCH, format!("/v1/certificates/{}", mine.id), None),
            Wish::RotateCredentials => Request::new(Method::PATCH, format!("/v1/credentials/{}", mine.id), None),
            // Of what clusters are made from only its words may change: many users have it.
            Wish::PatchTemplate => {
                let tags = format!("user-{}-{}", self.number, self.requests);
                Request::new(Method::PATCH, format!("/v1/clustertemplates/{}", self.kind.template), replace("/tags", tags.into()))
            }
            Wish::Create | Wish::Delete | Wish::ForceDelete | Wish::Abandon | Wish::Retry | Wish::Cancel | Wish::CancelNewest => {
                unreachable!("{wish:?} is no change")
            }
        }
    }

    async fn act(&mut self, mine: &Mine, wish: Wish, action: &str) {
        let path = format!("/v1/clusters/{}/actions/{action}", mine.id);
        self.ask(Some(&mine.id), wish, Request::new(Method::POST, path, json!({}))).await;
    }

    async fn cancel(&mut self, mine: &Mine) {
        match wish::draw(&mut self.random, CANCELLATIONS) {
            Wish::CancelNewest => {
                // It may have ended by the time it is named: then that is refused.
                if let Some(operation) = self.newest(mine).await {
                    self.act(mine, Wish::CancelNewest, &format!("cancel?operation={operation}")).await;
                }
            }
            wish => self.act(mine, wish, "cancel").await,
        }
    }

    /// The operation that was accepted last and has not ended; none as well where nobody tells.
    async fn newest(&mut self, mine: &Mine) -> Option<String> {
        let answer = self.client.get(&format!("/v1/clusters/{}/operations", mine.id)).await.ok()?;
        let operations = answer.body["operations"].as_array()?;
        operations.iter().rfind(|operation| operation["finished_at"].is_null()).map(|operation| text(operation, "uuid"))
    }

    /// Is rid of the cluster, in one of the ways that there are; now and then by one that goes further before the first has ended.
    async fn leave(&mut self, mine: &Mine) {
        let first = wish::draw(&mut self.random, FAREWELLS);
        self.part(mine, first).await;
        if self.chance(15) {
            self.pause(3000).await;
            let further = wish::draw(&mut self.random, FAREWELLS);
            self.part(mine, further).await;
        }
        // What has not begun stays undone; what has goes on.
        if self.chance(5) {
            self.cancel(mine).await;
        }
        if self.chance(50) {
            self.rest(mine).await;
        }
    }

    async fn part(&mut self, mine: &Mine, wish: Wish) {
        match wish {
            Wish::Abandon if self.may_abandon(mine).await => self.act(mine, wish, "abandon").await,
            Wish::Abandon | Wish::ForceDelete => self.act(mine, Wish::ForceDelete, "force-delete").await,
            _ => self.delete(mine).await,
        }
    }

    /// A stack can be removed from outside in whatever state it was left, as what a run of helm was cut off from cannot: a release is left
    /// alone only where it is complete.
    async fn may_abandon(&mut self, mine: &Mine) -> bool {
        if !self.kind.is_on_cluster_api {
            return true;
        }
        matches!(self.rest(mine).await, Shown::Status(status) if status.ends_with("_COMPLETE"))
    }

    async fn delete(&mut self, mine: &Mine) {
        let delete = Request::new(Method::DELETE, format!("/v1/clusters/{}", mine.id), None);
        self.ask(Some(&mine.id), Wish::Delete, delete).await;
    }

    /// Waits until nothing is under way on the cluster.
    async fn rest(&mut self, mine: &Mine) -> Shown {
        let begin = Instant::now();
        let mut last = String::new();
        while begin.elapsed() < WAIT && !self.has_enough() {
            match self.client.get(&format!("/v1/clusters/{}", mine.id)).await {
                Ok(answer) if answer.status == 404 => return Shown::Gone,
                Ok(answer) if answer.status == 401 => self.log_in_again(),
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

    fn log_in_again(&mut self) {
        self.client = self.door.client();
        self.admin = self.door.admin();
    }

    /// Sends a request until it is answered, and writes it down; the answer's body when it was accepted.
    async fn ask(&mut self, cluster: Option<&str>, wish: Wish, request: Request) -> Option<Value> {
        self.requests += 1;
        let key = format!("chaos-{}-{}", self.number, self.requests);
        let (begin, sent_ms) = (Instant::now(), Utc::now().timestamp_millis());
        let (mut repeated, mut request_ids) = (Vec::new(), Vec::new());
        let body = request.body.as_ref().map(Value::to_string);
        let (answered, body) = loop {
            let client = if wish.is_of_admins() { &self.admin } else { &self.client };
            let sent = client.with("Idempotency-Key", &key).send(request.method.clone(), &request.path, body.clone()).await;
            let heard = match sent {
                Ok(answer) => {
                    request_ids.push(answer.header("x-openstack-request-id").to_owned());
                    match answer.status {
                        200..300 => break (Answered::Accepted, answer.body),
                        401 => self.log_in_again(),
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
        let answered_ms = Utc::now().timestamp_millis();
        let is_accepted = answered == Answered::Accepted;
        let cluster = cluster.map(str::to_owned).or_else(|| is_accepted.then(|| text(&body, "uuid")));
        let operation = body["operation_id"].as_str().map(str::to_owned);
        self.ledger.note(Entry { wish, cluster, operation, request_ids, repeated, sent_ms, answered_ms, answered });
        is_accepted.then_some(body)
    }
}

/// Somebody deletes a cluster that the users have left.
pub async fn delete(door: &Door, ledger: &Arc<Ledger>, cluster: &str) {
    let number = Uuid::new_v4().as_u64_pair().0;
    let mut user = User::new(door, ledger, Kind::default(), number, number);
    user.delete(&Mine { id: cluster.to_owned(), ..Mine::default() }).await;
}
