//! The version documents; no token needed.

use serde_json::{Value, json};

use crate::microversion::{MAX, MIN};

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
