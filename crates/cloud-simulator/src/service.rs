//! The services there are: where each is, which calls it knows, and the form of its errors.

use actix_web::http::{Method, StatusCode};
use serde_json::json;

use crate::{
    barbican, cinder, glance, heat,
    http::{Answer, Refusal, Route},
    keystone, neutron, nova, octavia,
};

/// The services, each behind a path prefix of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Keystone,
    Heat,
    Nova,
    Neutron,
    Glance,
    Octavia,
    Cinder,
    Barbican,
}

impl Service {
    /// Every service, in the order of the catalogue.
    pub(crate) const ALL: [Self; 8] =
        [Self::Keystone, Self::Heat, Self::Nova, Self::Neutron, Self::Glance, Self::Octavia, Self::Cinder, Self::Barbican];

    /// The service behind a path's first segment.
    pub(crate) fn of_prefix(prefix: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|service| service.prefix() == prefix)
    }

    /// The first segment of its paths.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Keystone => "identity",
            Self::Heat => "orchestration",
            Self::Nova => "compute",
            Self::Neutron => "network",
            Self::Glance => "image",
            Self::Octavia => "load-balancer",
            Self::Cinder => "volume",
            Self::Barbican => "key-manager",
        }
    }

    /// The route of a path below the prefix.
    pub(crate) fn route(self, method: &Method, path: &[&str]) -> Option<Route> {
        let method = method.as_str();
        match self {
            Self::Keystone => keystone::route(method, path),
            Self::Heat => heat::route(method, path),
            Self::Nova => nova::route(method, path),
            Self::Neutron => neutron::route(method, path),
            Self::Glance => glance::route(method, path),
            Self::Octavia => octavia::route(method, path),
            Self::Cinder => cinder::route(method, path),
            Self::Barbican => barbican::route(method, path),
        }
    }

    /// A refusal in the form of this service.
    pub(crate) fn refuse(self, refusal: &Refusal) -> Answer {
        let Refusal { status, kind, message } = refusal;
        let title = StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Error");
        // Every service but Keystone has the same middleware in front, and this is how that one says it.
        let body = if *status == 401 {
            json!({"error": {"code": 401, "title": title, "message": message}})
        } else {
            match self {
                Self::Keystone => {
                    json!({"error": {"code": status, "title": title, "message": message}})
                }
                Self::Heat => heat::error_body(*status, title, kind, message),
                Self::Nova | Self::Cinder => {
                    let key = match status {
                        400 => "badRequest",
                        403 => "forbidden",
                        404 => "itemNotFound",
                        409 => "conflictingRequest",
                        429 => "overLimit",
                        _ => "computeFault",
                    };
                    json!({key: {"code": status, "message": message}})
                }
                Self::Neutron => {
                    json!({"NeutronError": {"type": kind, "message": message, "detail": ""}})
                }
                Self::Glance => json!({"code": status, "title": title, "message": message}),
                Self::Octavia => {
                    json!({"faultcode": "Client", "faultstring": message, "debuginfo": null})
                }
                Self::Barbican => json!({"code": status, "title": title, "description": message}),
            }
        };
        let mut headers = Vec::new();
        if *status == 401 {
            headers.push(("WWW-Authenticate", "Keystone uri=\"/identity\"".to_owned()));
        }
        Answer { status: *status, headers, body: Some(body) }
    }
}
