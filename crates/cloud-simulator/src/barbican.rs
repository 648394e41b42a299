//! Barbican: there, and empty.

use serde_json::json;

use crate::{
    catalog,
    http::{Answer, Call, Outcome, Route},
    state::World,
};

/// The calls Barbican knows.
pub(crate) fn route(method: &str, path: &[&str]) -> Option<Route> {
    match (method, path) {
        ("GET", [] | ["v1"]) => Route::open("barbican.version_show", catalog::version),
        ("GET", ["v1", "containers"]) => Route::new("barbican.container_list", containers),
        ("GET", ["v1", "secrets"]) => Route::new("barbican.secret_list", secrets),
        _ => None,
    }
}

fn containers(_: &mut World, _: &Call) -> Outcome {
    Answer::ok(json!({"containers": [], "total": 0}))
}

fn secrets(_: &mut World, _: &Call) -> Outcome {
    Answer::ok(json!({"secrets": [], "total": 0}))
}
