//! The simulated cloud without HTTP, for deterministic simulations: the same routes and handlers, called on the caller's thread, with the
//! caller's clock and ids that follow from a seed.

use std::marker::PhantomData;
use std::sync::Arc;

use actix_web::{http::Method, web::Bytes};
use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::{
    clock,
    cloud::Cloud,
    http::{self, Answer, Refusal},
    simulator::Options,
    state::{Shared, World, seed_ids},
};

/// Where it pretends to be.
const BASE: &str = "http://cloud.simulated";

/// A request.
pub struct Asked<'a> {
    /// `GET` and the like.
    pub method: &'a str,
    /// The path from the root of the host.
    pub path: &'a str,
    /// The query, without its question mark.
    pub query: &'a str,
    pub token: Option<String>,
    pub subject: Option<String>,
    /// As `OpenStack-API-Version` has it.
    pub microversion: Option<String>,
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answered {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

/// A simulated cloud on this thread, one at a time.
pub struct InProcess {
    shared: Arc<Shared>,
    _on_this_thread: PhantomData<*const ()>,
}

impl InProcess {
    /// Begins; `bind` is of no use here.
    pub fn start(options: Options, seed: u64, at: DateTime<Utc>) -> Self {
        clock::set(Some(at));
        seed_ids(Some(seed));
        let world = World::new(options.stack_duration, options.delete_duration, options.container_infra_url);
        Self { shared: Arc::new(Shared::new(BASE.to_owned(), world)), _on_this_thread: PhantomData }
    }

    /// Sets the cloud's clock.
    pub fn set_clock(&self, at: DateTime<Utc>) {
        clock::set(Some(at));
    }

    /// Where Keystone is.
    pub fn auth_url(&self) -> String {
        format!("{BASE}/identity/v3")
    }

    /// The test's hold on the cloud.
    pub fn cloud(&self) -> Cloud {
        Cloud::new(Arc::clone(&self.shared))
    }

    /// The name of a call, `heat.stack_create` for example; none for what no service knows.
    pub fn name_of(&self, method: &str, path: &str) -> Option<&'static str> {
        let method = method.parse::<Method>().ok()?;
        http::find(BASE, &method, path).ok().map(|found| found.route.operation)
    }

    /// Carries a request out.
    pub fn answer(&self, asked: Asked<'_>) -> Answered {
        let Ok(method) = asked.method.parse::<Method>() else { return rendered(None) };
        let found = match http::find(BASE, &method, asked.path) {
            Ok(found) => found,
            Err(answer) => return rendered(answer),
        };
        let asked = http::Asked {
            method: &method,
            query: asked.query,
            token: asked.token,
            subject: asked.subject,
            accept: None,
            microversion: asked.microversion,
            body: Bytes::from(asked.body),
        };
        rendered(Some(http::perform(&self.shared, found, asked)))
    }

    /// The refusal of a call with this status, in the form of its service; nothing is carried out.
    pub fn refuse(&self, method: &str, path: &str, status: u16, message: &str) -> Answered {
        let found = method.parse::<Method>().ok().and_then(|method| http::find(BASE, &method, path).ok());
        rendered(found.map(|found| found.service.refuse(&Refusal::new(status, "InjectedFault", message))))
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        clock::set(None);
        seed_ids(None);
    }
}

fn rendered(answer: Option<Answer>) -> Answered {
    match answer {
        Some(Answer { status, headers, body: Some(Value::String(text)) }) => Answered { status, headers, body: text.into_bytes() },
        Some(answer) => Answered {
            status: answer.status,
            headers: answer.headers,
            body: answer.body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
        },
        None => Answered { status: 404, headers: Vec::new(), body: Vec::new() },
    }
}
