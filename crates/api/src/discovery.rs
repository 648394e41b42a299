//! The version documents; no token needed.

use serde_json::{Value, json};

use crate::microversion::{MAX, MIN};
use crate::view::shape::{LINKS, Object, Property, Shape};

/// `GET /` (rest-api.md 1.1).
pub static VERSIONS: Object = Object {
    name: "Versions",
    properties: &[
        Property::always("name", Shape::Text, "What serves."),
        Property::always("description", Shape::Text, "What it is."),
        Property::always("versions", Shape::List(&Shape::Object(&RANGE)), "The versions."),
    ],
    like: None,
};

static RANGE: Object = Object {
    name: "VersionRange",
    properties: &[
        Property::always("id", Shape::OneOf(&["v1"]), "Its name."),
        Property::always("status", Shape::OneOf(&["CURRENT"]), "Whether it is in use."),
        Property::always("min_version", Shape::Text, "The lowest microversion."),
        Property::always("max_version", Shape::Text, "The highest microversion."),
        Property::always("links", DOCUMENTS, "Where it is."),
    ],
    like: None,
};

/// `GET /v1` (rest-api.md 1.2).
pub static VERSION: Object = Object {
    name: "Version",
    properties: &[
        Property::always("id", Shape::OneOf(&["v1"]), "Its name."),
        Property::always("media_types", Shape::List(&Shape::StringMap), "What it speaks."),
        Property::always("links", DOCUMENTS, "Where it and its description are."),
        Property::always("clustertemplates", LINKS, "Where templates are."),
        Property::always("clusters", LINKS, "Where clusters are."),
        Property::always("quotas", LINKS, "Where quotas are."),
        Property::always("certificates", LINKS, "Where certificates are."),
        Property::always("mservices", LINKS, "Where services are."),
        Property::always("stats", LINKS, "Where statistics are."),
        Property::always("federations", LINKS, "Where federations are."),
        Property::always("credentials", LINKS, "Where credentials are."),
        Property::always("nodegroups", Shape::List(&Shape::Object(&PATTERN)), "Where the nodegroups of a cluster are."),
    ],
    like: None,
};

static PATTERN: Object = Object {
    name: "LinkPattern",
    properties: &[
        Property::always("href", Shape::Text, "The address, with `{cluster_id}` for the cluster."),
        Property::always("rel", Shape::OneOf(&["self", "bookmark"]), "self: with the version in its path; bookmark: without."),
    ],
    like: None,
};

const DOCUMENTS: Shape = Shape::List(&Shape::Object(&DOCUMENT));

static DOCUMENT: Object = Object {
    name: "DocumentLink",
    properties: &[
        Property::always("href", Shape::Url, "The address."),
        Property::always("rel", Shape::OneOf(&["self", "describedby"]), "What is there."),
        Property::sometimes("type", Shape::Text, "The media type."),
    ],
    like: None,
};

/// `GET /`.
pub fn root(base: &str) -> Value {
    json!({
        "name": "OpenStack Magnum API",
        "description": "Magnum is an OpenStack project which aims to provide container cluster management.",
        "versions": [{
            "id": "v1",
            "links": [{"href": format!("{base}/v1/"), "rel": "self"}],
            "status": "CURRENT",
            "max_version": MAX.to_string(),
            "min_version": MIN.to_string(),
        }],
    })
}

/// `GET /v1`.
pub fn v1(base: &str) -> Value {
    let pair = |name: &str| {
        json!([
            {"href": format!("{base}/v1/{name}/"), "rel": "self"},
            {"href": format!("{base}/{name}/"), "rel": "bookmark"},
        ])
    };
    json!({
        "id": "v1",
        "media_types": [{"base": "application/json", "type": "application/vnd.openstack.magnum.v1+json"}],
        "links": [
            {"href": format!("{base}/v1/"), "rel": "self"},
            {"href": "http://docs.openstack.org/developer/magnum/dev/api-spec-v1.html", "rel": "describedby", "type": "text/html"},
        ],
        "clustertemplates": pair("clustertemplates"),
        "clusters": pair("clusters"),
        "quotas": pair("quotas"),
        "certificates": pair("certificates"),
        "mservices": pair("mservices"),
        "stats": pair("stats"),
        "federations": pair("federations"),
        "credentials": pair("credentials"),
        "nodegroups": [
            {"href": format!("{base}/v1/clusters/{{cluster_id}}/nodegroups"), "rel": "self"},
            {"href": format!("{base}/clusters/{{cluster_id}}/nodegroups"), "rel": "bookmark"},
        ],
    })
}
