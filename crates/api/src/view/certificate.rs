//! Certificates as clients see them.

use chrono::NaiveDateTime;
use model::certificate::Facts;
use serde::Serialize;

use super::links::Links;
use super::schema::{Field, Kind, Schema};
use super::shape::{LINKS, Object, Property, Shape};
use super::time::Time;

/// Longest PEM text taken, in characters.
const PEM_LIMIT: usize = 65_536;

/// Seconds for which a certificate is signed at least: as Kubernetes has it.
const SHORTEST: i32 = 600;

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
        Field::optional(
            "expiry_seconds",
            Kind::Integer { min: SHORTEST, max: i32::MAX },
            "For how long it is valid from now on; at most what the operator allows, which is also what holds without it.",
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
        Property::sometimes(
            "certificates",
            Shape::List(&Shape::Object(&FACTS)),
            "With info: what the cluster's certificates say of themselves.",
        ),
        Property::always("links", LINKS, "Where it is."),
    ],
    like: None,
};

/// What a certificate says of itself.
static FACTS: Object = Object {
    name: "CertificateFacts",
    properties: &[
        Property::always(
            "name",
            Shape::OneOf(&["kubernetes", "etcd", "front_proxy", "client"]),
            "Which of the cluster's: one of its authorities, or the certificate that the service itself shows to the cluster.",
        ),
        Property::always("subject", Shape::Text, "Whose it is."),
        Property::always("issuer", Shape::Text, "Who signed it."),
        Property::always("serial", Shape::Text, "Its number, hexadecimal."),
        Property::always("not_before", Shape::Time, "From when on it is valid."),
        Property::always("not_after", Shape::Time, "Until when it is valid."),
        Property::always("is_expired", Shape::Boolean, "Whether that is past."),
        Property::always("key", Shape::Text, "The kind of its key, with size or curve."),
        Property::always("fingerprint", Shape::Text, "SHA-256 of the certificate, hexadecimal."),
    ],
    like: None,
};

/// What a certificate says of itself.
#[derive(Serialize)]
pub struct FactsView {
    name: &'static str,
    subject: String,
    issuer: String,
    serial: String,
    not_before: Time,
    not_after: Time,
    is_expired: bool,
    key: String,
    fingerprint: String,
}

impl FactsView {
    /// Of one of a cluster's certificates, as things are at this moment.
    pub fn of(name: &'static str, facts: Facts, now: NaiveDateTime) -> Self {
        let Facts { subject, issuer, serial, not_before, not_after, key, fingerprint } = facts;
        let is_expired = not_after <= now;
        Self { name, subject, issuer, serial, not_before: Time(not_before), not_after: Time(not_after), is_expired, key, fingerprint }
    }
}

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Vec<FactsView>>,
    pub links: Links<'a>,
}
