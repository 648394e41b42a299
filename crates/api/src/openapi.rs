//! `GET /v1/openapi.json`: the API as an OpenAPI 3.1 document, made of the tables that the service itself works by: `routes::ROUTES`, the
//! request schemas and the shapes of answers. Nothing is described here a second time.
//!
//! It says what no caller may not know, so it needs no token. Microversions, which OpenAPI has no word for, are told as other OpenStack
//! documents do: `x-openstack: {"min-ver": …, "max-ver": …}` on what comes and goes with one.

mod operation;
mod schemas;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::microversion::{MAX, MIN};
use crate::routes::{self, ROUTES};
use crate::view::shape::{Object, Shape};
use crate::{discovery, health};
use schemas::Components;

/// Where it is served.
pub const PATH: &str = "/v1/openapi.json";

/// Stands in the document for the address that a client came by.
const BASE: &str = "{base}";

/// What of an API can be read before there is a token.
struct Public {
    path: &'static str,
    name: &'static str,
    about: &'static str,
    answer: Option<&'static Object>,
    /// Whether a microversion can be asked for, and is told.
    versioned: bool,
}

static PUBLIC: &[Public] = &[
    Public { path: "/", name: "list_versions", about: "The versions of the API.", answer: Some(&discovery::VERSIONS), versioned: false },
    Public { path: "/v1", name: "show_version", about: "What version 1 holds.", answer: Some(&discovery::VERSION), versioned: true },
    Public { path: PATH, name: "show_openapi", about: "This document.", answer: None, versioned: false },
];

/// The document as text, for clients that came by this address.
pub fn text(base: &str) -> String {
    static TEXT: OnceLock<String> = OnceLock::new();
    let quoted = Value::from(base).to_string();
    TEXT.get_or_init(|| document().to_string()).replacen(&format!("\"{BASE}\""), &quoted, 1)
}

/// Whether the document says that this request may be refused with this status. What it does not describe it says nothing wrong about: paths and
/// methods that there are not, and faults of ours.
pub fn tells_of(method: &str, path: &str, status: u16) -> bool {
    if status == 500 {
        return true;
    }
    if method == "GET" && (path == "/v1/" || PUBLIC.iter().any(|public| public.path == path)) {
        return operation::OF_PUBLIC.contains(&status);
    }
    routes::find(method, path).is_none_or(|route| operation::refusals_of(route).contains(&status))
}

/// The document.
fn document() -> Value {
    let mut components = Components::default();
    let mut paths = Map::new();
    for public in PUBLIC {
        let content = match public.answer {
            Some(object) => components.shape(&Shape::Object(object)),
            None => json!({"type": "object"}),
        };
        let operation = operation::public(public.name, public.about, &content, public.versioned);
        paths.insert(public.path.to_owned(), json!({"get": operation}));
    }
    let check = operation::health(&components.shape(&Shape::Object(&health::HEALTH)));
    paths.insert(health::PATH.to_owned(), json!({"get": check}));
    for route in ROUTES {
        let path = paths.entry(format!("/v1/{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation::of(route, &mut components);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Container Infrastructure Management",
            "version": format!("{MAX}"),
            "description": format!(
                "Clusters of Kubernetes on OpenStack. Microversions {MIN} to {MAX} are served; a request that asks for none gets {MIN}. \
                 What `x-openstack` marks with `min-ver` or `max-ver` is there from, or up to, that microversion."
            ),
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": BASE}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token", "description": "A Keystone token."},
            },
            "parameters": operation::parameters(),
            "headers": operation::headers(),
            "responses": operation::refusals(),
            "schemas": components.into_value(),
        },
    })
}
