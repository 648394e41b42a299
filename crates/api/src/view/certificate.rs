//! Certificates as clients see them.

use serde::Serialize;

use super::links::Links;

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
