//! Barbican: secrets, and the containers that hold them together.
//!
//! References are whole URLs, in whose host only Barbican's own configuration shows: the last part of the path is what counts, and every
//! call goes to the endpoint of the catalogue.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::CloudError;
use crate::json::or_default;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// Barbican gives 10 at once unless it is asked for more, and 100 at most.
const PAGE: &str = "100";

/// Secrets and containers, with a session.
#[derive(Clone, Debug)]
pub struct Barbican(Session);

/// What a secret holds.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Bytes (`application/octet-stream`).
    Bytes(&'a [u8]),
    /// Text (`text/plain`).
    Text(&'a str),
}

/// What is known of a secret without its payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SecretFacts {
    pub secret_ref: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    content_types: ContentTypes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct ContentTypes {
    #[serde(default)]
    default: Option<String>,
}

/// Secrets held together, each under the name of its part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Container {
    pub container_ref: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub secret_refs: Vec<Part>,
}

/// One part of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Part {
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    pub secret_ref: String,
}

impl Container {
    /// The reference of a part.
    pub fn part(&self, name: &str) -> Option<&str> {
        self.secret_refs.iter().find(|part| part.name == name).map(|part| part.secret_ref.as_str())
    }
}

#[derive(Deserialize)]
struct SecretMade {
    secret_ref: String,
}
#[derive(Deserialize)]
struct ContainerMade {
    container_ref: String,
}
#[derive(Deserialize)]
struct Secrets {
    secrets: Vec<SecretFacts>,
}
#[derive(Deserialize)]
struct Containers {
    containers: Vec<Container>,
}

impl Session {
    /// Barbican calls with this session.
    pub fn barbican(&self) -> Barbican {
        Barbican(self.clone())
    }
}

impl Barbican {
    /// Stores a secret; its reference.
    pub async fn create_secret(&self, name: &str, payload: Payload<'_>) -> Result<String, CloudError> {
        let mut body = json!({"name": name, "secret_type": "opaque"});
        let hidden: SecretString = match payload {
            Payload::Text(text) => {
                body["payload_content_type"] = json!("text/plain");
                text.into()
            }
            Payload::Bytes(bytes) => {
                body["payload_content_type"] = json!("application/octet-stream");
                body["payload_content_encoding"] = json!("base64");
                STANDARD.encode(bytes).into()
            }
        };
        body["payload"] = hidden.expose_secret().into();
        let request = post("secret_create", ["secrets"], body).hide(&hidden);
        Ok(self.0.fetch::<SecretMade>(request).await?.secret_ref)
    }

    /// The secrets of exactly this name.
    pub async fn secrets_named(&self, name: &str) -> Result<Vec<SecretFacts>, CloudError> {
        let request = get("secret_list", ["secrets"]).query("name", name).query("limit", PAGE);
        let found: Secrets = self.0.fetch(request).await?;
        Ok(found.secrets.into_iter().filter(|secret| secret.name == name).collect())
    }

    /// The payload of a secret, whatever its type; none when there is no such secret.
    pub async fn payload(&self, reference: &str) -> Result<Option<SecretSlice<u8>>, CloudError> {
        let id = id_of(reference);
        let Some(facts) = self.0.find::<SecretFacts>(get("secret_show", ["secrets", id])).await? else { return Ok(None) };
        // It is given out only as the type that it was stored as.
        let text = facts.content_types.default.as_deref().is_some_and(|kind| kind.starts_with("text/plain"));
        let mut request = get("secret_payload", ["secrets", id, "payload"]);
        request.accept = if text { "text/plain" } else { "application/octet-stream" };
        match self.0.answer(&request).await {
            Ok(answer) => Ok(Some(answer.into_body().into())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a secret; false when there was none.
    pub async fn delete_secret(&self, reference: &str) -> Result<bool, CloudError> {
        self.0.remove(Request::delete(Service::KeyManager, "secret_delete", ["secrets", id_of(reference)])).await
    }

    /// Puts a certificate's parts, each with its secret's reference, into a container; its reference.
    pub async fn create_certificate(&self, name: &str, parts: &[(&str, &str)]) -> Result<String, CloudError> {
        let parts: Vec<Value> = parts.iter().map(|(name, secret)| json!({"name": name, "secret_ref": secret})).collect();
        let body = json!({"name": name, "type": "certificate", "secret_refs": parts});
        Ok(self.0.fetch::<ContainerMade>(post("container_create", ["containers"], body)).await?.container_ref)
    }

    /// The containers of exactly this name.
    pub async fn containers_named(&self, name: &str) -> Result<Vec<Container>, CloudError> {
        let request = get("container_list", ["containers"]).query("name", name).query("limit", PAGE);
        let found: Containers = self.0.fetch(request).await?;
        Ok(found.containers.into_iter().filter(|container| container.name == name).collect())
    }

    /// The container of a reference.
    pub async fn container(&self, reference: &str) -> Result<Option<Container>, CloudError> {
        self.0.find(get("container_show", ["containers", id_of(reference)])).await
    }

    /// Deletes a container, not the secrets in it; false when there was none.
    pub async fn delete_container(&self, reference: &str) -> Result<bool, CloudError> {
        self.0.remove(Request::delete(Service::KeyManager, "container_delete", ["containers", id_of(reference)])).await
    }
}

/// The last part of a reference's path.
fn id_of(reference: &str) -> &str {
    reference.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

fn get<const N: usize>(operation: &'static str, path: [&str; N]) -> Request {
    Request::new(Service::KeyManager, operation, Method::GET, path)
}

fn post<const N: usize>(operation: &'static str, path: [&str; N], body: Value) -> Request {
    Request::post(Service::KeyManager, operation, path, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_reference_only_the_id_counts() {
        for reference in ["http://another.host:9311/v1/containers/1a-2b", "https://h/key-manager/v1/containers/1a-2b/", "1a-2b"] {
            assert_eq!(id_of(reference), "1a-2b", "{reference}");
        }
    }

    #[test]
    fn a_payload_is_no_part_of_what_a_secret_prints() {
        let payload: SecretSlice<u8> = b"hunter2hunter2".to_vec().into();
        assert!(!format!("{payload:?}").contains("hunter2") && payload.expose_secret().len() == 14);
    }
}
