//! The clients against a server of a few lines: what is sent, when it is sent again, and what errors say.

#[path = "clients/failures.rs"]
mod failures;
#[path = "clients/management.rs"]
mod management;
#[path = "clients/server.rs"]
mod server;
#[path = "clients/services.rs"]
mod services;
#[path = "clients/session.rs"]
mod session;

use provider_clients::NewStack;
use serde_json::{Value, json};

use crate::server::Reply;

fn stack(status: &str) -> Value {
    json!({"stack": {"id": "id1", "stack_name": "s", "stack_status": status, "outputs": []}})
}

fn new_stack() -> NewStack {
    NewStack { name: "s".into(), template: "heat_template_version: queens".into(), timeout_mins: 60, ..NewStack::default() }
}

fn not_found() -> Reply {
    Reply::json(404, json!({"error": {"message": "not here"}}))
}
