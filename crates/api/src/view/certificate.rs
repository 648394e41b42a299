//! Certificates as clients see them.

use serde::Serialize;

use super::links::Links;
use super::schema::{Field, Kind, Schema};
use super::shape::{LINKS, Object, Property, Shape};

/// Longest PEM text taken, in characters.
const PEM_LIMIT: usize = 65_536;

/// `POST /v1/certificates` (rest-api.md 8.1).
pub static SIGN: Schema = Schema {
    argument: "certificate",
    fields: &[
        Field::needed("cluster_uuid", Kind::Text { min: 1, max: 255 }, "The cluster: its uuid or name."),
        Field::needed("csr", Kind::Text { min: 1, max: PEM_LIMIT }, "The certificate signing request, PEM."),
        Field::optional(
            "ca_cert_type",
            Kind::Text { min: 0, max: 255 },
            "Which authority signs: etcd, front_proxy, or (anything else) the cluster's.",
        ),
        Field::optional("pem", Kind::Text { min: 0, max: PEM_LIMIT }, "Taken and not used."),
        Field::read_only("links"),
        Field::read_only("created_at"),
        Field::read_only("updated_at"),
    ],
};

/// A certificate authority.
pub static AUTHORITY: Object = Object {
    name: "Authority",
    properties: &[
        Property::always("cluster_uuid", Shape::Uuid, "The cluster."),
        Property::always("pem", Shape::Text, "The certificate, PEM, without a newline at its end."),
        Property::always("links", LINKS, "Where it is."),
    ],
    like: None,
};

/// What an authority signed.
pub static SIGNED: Object = Object {
    name: "Certificate",
    properties: &[
        Property::always("cluster_uuid", Shape::Uuid, "The cluster."),
        Property::always("pem", Shape::Text, "The certificate, PEM, without a newline at its end."),
        Property::always("csr", Shape::Text, "The request, as it came."),
        Property::sometimes("ca_cert_type", Shape::Text, "As it came."),
        Property::always("links", LINKS, "Where the authority is."),
    ],
    like: None,
};

/// A certificate authority, or what it signed.
#[derive(Serialize)]
pub struct CertificateView<'a> {
    pub cluster_uuid: &'a str,
    pub pem: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csr: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_cert_type: Option<&'a str>,
    pub links: Links<'a>,
}
