//! What `openstack coe cluster config` does: a key and a certificate request of our own, signed by the cluster's CA.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::{X509Name, X509Req};
use serde_json::json;

use crate::client::{Client, text};

/// The parts of a kubeconfig.
pub struct Access {
    pub cluster: String,
    pub server: String,
    pub ca_pem: String,
    pub certificate_pem: String,
    pub key_pem: String,
}

/// A fresh key, and a request for a certificate of a cluster's administrator.
pub fn request() -> Result<(PKey<Private>, String)> {
    let key = PKey::from_rsa(Rsa::generate(2048)?)?;
    let mut name = X509Name::builder()?;
    name.append_entry_by_text("CN", "admin")?;
    name.append_entry_by_text("O", "system:masters")?;
    let mut request = X509Req::builder()?;
    request.set_version(0)?;
    request.set_subject_name(&name.build())?;
    request.set_pubkey(&key)?;
    request.sign(&key, MessageDigest::sha256())?;
    let pem = request.build().to_pem()?;
    Ok((key, String::from_utf8(pem).context("PEM is text")?))
}

/// Asks the API for everything an administrator of the cluster needs.
pub async fn access(client: &Client, cluster: &str) -> Result<Access> {
    let shown = client.cluster(cluster).await?;
    let ca = client.get(&format!("/v1/certificates/{cluster}")).await?.expect(200)?;
    let (key, csr) = request()?;
    let body = json!({"cluster_uuid": cluster, "csr": csr});
    let signed = client.post("/v1/certificates", &body).await?.expect(201)?;
    Ok(Access {
        cluster: text(&shown, "name"),
        server: text(&shown, "api_address"),
        ca_pem: text(&ca.body, "pem"),
        certificate_pem: text(&signed.body, "pem"),
        key_pem: String::from_utf8(key.private_key_to_pem_pkcs8()?).context("PEM is text")?,
    })
}

impl Access {
    /// The file, with its data cut to so many characters each if wanted.
    pub fn kubeconfig(&self, cut: Option<usize>) -> String {
        let data = |pem: &str| {
            let text = STANDARD.encode(pem);
            match cut {
                Some(length) if text.len() > length => {
                    format!("{}… ({} characters)", &text[..length], text.len())
                }
                _ => text,
            }
        };
        format!(
            "apiVersion: v1\n\
             clusters:\n\
             - cluster:\n\
             \x20   certificate-authority-data: {ca}\n\
             \x20   server: {server}\n\
             \x20 name: {name}\n\
             contexts:\n\
             - context:\n\
             \x20   cluster: {name}\n\
             \x20   user: admin\n\
             \x20 name: default\n\
             current-context: default\n\
             kind: Config\n\
             preferences: {{}}\n\
             users:\n\
             - name: admin\n\
             \x20 user:\n\
             \x20   client-certificate-data: {certificate}\n\
             \x20   client-key-data: {key}\n",
            ca = data(&self.ca_pem),
            server = self.server,
            name = self.cluster,
            certificate = data(&self.certificate_pem),
            key = data(&self.key_pem),
        )
    }
}
