//! A conductor's way to the cloud, and who may change the cloud.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use cloud_simulator::{Answered, Asked};
use futures::FutureExt;
use futures::future::BoxFuture;
use model::id::OperationId;
use model::random::range;
use model::store::{Conn, operation};
use provider_clients::exchange::{Carrier, Incoming, NoAnswer, Outgoing};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use tokio::time::sleep;

use crate::{mishaps, scene};

/// Of the conductor with this number, in this life.
pub struct Road {
    pub conductor: usize,
    /// As its owner names begin.
    pub host: String,
}

/// A request that the cloud carries out at some time although nobody waits for it any more.
pub struct Late {
    pub at: DateTime<Utc>,
    pub request: Message,
}

/// A request as the simulated cloud takes it.
#[derive(Clone)]
pub struct Message {
    pub name: &'static str,
    method: Method,
    path: String,
    query: String,
    token: Option<String>,
    subject: Option<String>,
    microversion: Option<String>,
    operation: Option<String>,
    body: Vec<u8>,
}

/// How old what the cloud shows can be: as where its databases follow one another.
const LIE: TimeDelta = TimeDelta::seconds(3);

/// Requests that may be carried out long after nobody waits for them any more: what makes something, what gives it a new password, and what deletes it
/// by its id.
const LATE: [&str; 7] = [
    "heat.stack_create",
    "heat.stack_delete",
    "keystone.user_create",
    "keystone.user_update",
    "keystone.user_delete",
    "barbican.secret_create",
    "barbican.container_create",
];

/// Requests that whoever is on the way may send twice. (What bears no name of which there can be one only would be there twice; such a request
/// nobody repeats.)
const REPEATED: [&str; 6] =
    ["heat.stack_create", "heat.stack_update", "heat.stack_delete", "keystone.user_create", "keystone.user_update", "keystone.user_delete"];

/// What becomes of a request.
enum Fate {
    Well,
    Refused,
    LostBefore,
    LostAfter,
    Late,
    Twice,
    Status(u16),
    /// What was true a moment ago.
    Lie(Answered),
}

/// When a conductor dies of an effect. After it, it has the answer and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Before,
    During,
    After,
}

impl Carrier for Road {
    fn carry(&self, request: Outgoing) -> BoxFuture<'_, Result<Incoming, NoAnswer>> {
        async move {
            scene::while_alive(self.conductor).await;
            let message = Message::of(&request);
            let death = if message.is_effect() { self.strike(&message).await } else { None };
            if death == Some(Death::Before) {
                scene::with(|s| s.dead.insert(self.conductor));
                scene::while_alive(self.conductor).await;
            }
            if message.is_effect() {
                self.check_owner(&message).await;
            }
            let fate = self.fate(&message);
            sleep(self.pace()).await;
            scene::while_alive(self.conductor).await;
            let answered = match fate {
                Fate::Refused => return Err(NoAnswer::Refused),
                Fate::LostBefore => None,
                Fate::Late => {
                    let at = scene::with(|s| s.true_time(self.conductor)) + TimeDelta::milliseconds(range(200..20_000));
                    scene::with(|s| s.late.push(Late { at, request: message.clone() }));
                    None
                }
                Fate::Status(status) => Some(scene::with(|s| s.cloud.refuse(message.method.as_str(), &message.path, status, "on purpose"))),
                Fate::Lie(answered) => Some(answered),
                Fate::Well => {
                    let at = scene::with(|s| s.true_time(self.conductor));
                    let answered = message.perform(at);
                    if message.may_be_lied_about() {
                        scene::with(|s| s.shown.insert(message.question(), (at, answered.clone())));
                    }
                    Some(answered)
                }
                Fate::Twice => {
                    let at = scene::with(|s| s.true_time(self.conductor));
                    message.perform(at);
                    Some(message.perform(at))
                }
                Fate::LostAfter => {
                    message.perform(scene::with(|s| s.true_time(self.conductor)));
                    None
                }
            };
            if death.is_some() {
                scene::with(|s| s.dead.insert(self.conductor));
            }
            if death == Some(Death::During) {
                scene::while_alive(self.conductor).await;
            }
            let Some(answered) = answered else {
                sleep(Duration::from_millis(range(1..8_000))).await;
                return Err(NoAnswer::Lost);
            };
            sleep(self.pace()).await;
            if scene::with(|s| s.cut(self.conductor).cloud) {
                return Err(NoAnswer::Lost);
            }
            Ok(incoming(answered))
        }
        .boxed()
    }

    fn now(&self) -> DateTime<Utc> {
        model::time::now()
    }
}

impl Road {
    /// Whether the conductor dies of this effect, and when; it may also stand still before it.
    async fn strike(&self, message: &Message) -> Option<Death> {
        let (stands, dies) = scene::with(|s| (s.happens(|w| w.stands), s.happens(|w| w.dies)));
        if stands {
            scene::with(|s| {
                s.trace(&format!("c{} stands still before {}", self.conductor, message.name));
                s.standing.insert(self.conductor);
            });
            // Longer than the moment that is left to it: the effect comes when it goes on.
            sleep(Duration::from_millis(200)).await;
        }
        let death = dies.then(|| [Death::Before, Death::During, Death::After][range(0..3)])?;
        scene::with(|s| s.trace(&format!("c{} dies: {death:?} {}", self.conductor, message.name)));
        Some(death)
    }

    fn fate(&self, message: &Message) -> Fate {
        let may_be_late = LATE.contains(&message.name);
        scene::with(|s| {
            s.counts.calls += 1;
            let bad_luck = s.bad_luck(message.name);
            let fate = if s.cut(self.conductor).cloud {
                Fate::Refused
            } else if may_be_late && s.happens(|w| w.stored_late) {
                Fate::Late
            } else if REPEATED.contains(&message.name) && s.happens(|w| w.doubled) {
                Fate::Twice
            } else if s.comes(bad_luck) {
                match range(0..6) {
                    0 => Fate::Refused,
                    1 => Fate::LostBefore,
                    2 | 3 => Fate::LostAfter,
                    4 => Fate::Status(503),
                    _ => Fate::Status(if message.is_effect() { 409 } else { 500 }),
                }
            } else if let Some((at, answered)) = s.shown.get(&message.question()).cloned()
                && s.true_time(self.conductor) - at <= LIE
                && s.happens(|w| w.cloud_lies)
            {
                Fate::Lie(answered)
            } else {
                Fate::Well
            };
            let word = match fate {
                Fate::Well => "",
                Fate::Refused => " is refused",
                Fate::LostBefore => " is lost",
                Fate::LostAfter => " is carried out and its answer lost",
                Fate::Late => " is carried out late",
                Fate::Twice => " is carried out twice",
                Fate::Status(_) => " is answered with an error",
                Fate::Lie(_) => " is answered with what was",
            };
            if message.is_effect() || !word.is_empty() {
                s.trace(&format!("c{} {}{word}", self.conductor, message.name));
            }
            fate
        })
    }

    /// How long one way takes: tens of milliseconds, sometimes seconds.
    fn pace(&self) -> Duration {
        let is_slow = scene::with(|s| s.cut(self.conductor).is_slow || s.happens(|w| w.cloud_slow));
        Duration::from_millis(range(1..if is_slow { 12_000 } else { 60 }))
    }

    /// Whoever changes the cloud for an operation must hold it at that moment.
    async fn check_owner(&self, message: &Message) {
        let Some(id) = &message.operation else { return };
        let (store, id) = (scene::with(|s| s.store.clone()), OperationId::new(id.clone()));
        let row = store.read(async |conn: &mut Conn| operation::find(conn, &id).await).await.expect("the store is there");
        let lease = row.as_ref().and_then(|row| row.lease_ms);
        let owner = row.and_then(|row| row.owner);
        if !owner.as_ref().is_some_and(|owner| owner.starts_with(&format!("{}:", self.host))) {
            let owner = owner.map_or("nobody".to_owned(), |o| o.split(':').next().unwrap_or_default().to_owned());
            scene::with(|s| s.found(format!("{} by {} for operation {id}, which {owner} holds", message.name, self.host)));
        } else if lease < Some(model::time::now().timestamp_millis()) {
            scene::with(|s| s.found(format!("{} by {} for operation {id}, whose lease is over", message.name, self.host)));
        }
    }
}

impl Message {
    pub fn of(request: &Outgoing) -> Self {
        let text = |name: &str| request.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let (method, path) = (request.method.clone(), request.url.path().to_owned());
        Self {
            name: scene::with(|s| s.cloud.name_of(method.as_str(), &path)).unwrap_or("unknown"),
            query: request.url.query().unwrap_or_default().to_owned(),
            token: text("x-auth-token"),
            subject: text("x-subject-token"),
            microversion: text("openstack-api-version"),
            operation: text("x-openstack-request-id").and_then(|id| id.strip_prefix("req-").map(str::to_owned)),
            body: request.body.clone().unwrap_or_default().into_bytes(),
            method,
            path,
        }
    }

    fn is_effect(&self) -> bool {
        self.method != Method::GET && self.method != Method::HEAD && self.name != "keystone.token_issue"
    }

    fn may_be_lied_about(&self) -> bool {
        self.method == Method::GET && self.name.starts_with("heat.")
    }

    fn question(&self) -> String {
        format!("{} {}?{}", self.method, self.path, self.query)
    }

    /// Carries it out at this time.
    pub fn perform(&self, at: DateTime<Utc>) -> Answered {
        scene::with(|s| {
            s.cloud.set_clock(at);
            let answered = s.cloud.answer(Asked {
                method: self.method.as_str(),
                path: &self.path,
                query: &self.query,
                token: self.token.clone(),
                subject: self.subject.clone(),
                microversion: self.microversion.clone(),
                body: self.body.clone(),
            });
            mishaps::befall(s, self.name, &self.path, &answered);
            answered
        })
    }
}

pub fn incoming(answered: Answered) -> Incoming {
    let mut headers = HeaderMap::new();
    for (name, value) in answered.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
            headers.insert(name, value);
        }
    }
    Incoming { status: StatusCode::from_u16(answered.status).expect("a status"), headers, body: answered.body }
}
