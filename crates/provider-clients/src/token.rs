//! What Keystone says about a token: whose it is, what for, and the catalogue. Never the token itself.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::CloudError;
use crate::json::or_default;
use crate::service::{Interface, Service};

/// The facts of a token. As JSON it is what processes of one version tell each other; one of another version may refuse it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenInfo {
    pub user_id: String,
    pub user_name: String,
    pub user_domain_id: String,
    pub user_domain_name: String,
    pub project_id: Option<String>,
    pub project_name: Option<String>,
    pub project_domain_id: Option<String>,
    pub project_domain_name: Option<String>,
    /// The domain it is scoped to, for a domain-scoped token.
    pub domain_id: Option<String>,
    pub domain_name: Option<String>,
    pub system_scope: bool,
    /// Role names.
    pub roles: Vec<String>,
    /// None where Keystone does not say.
    pub issued_at: Option<DateTime<Utc>>,
    pub expires_at: DateTime<Utc>,
    pub trust_id: Option<String>,
    /// True unless Keystone says otherwise, as its middleware reads it.
    pub is_admin_project: bool,
    pub application_credential_id: Option<String>,
    /// It was got with an application credential that may not delegate: Keystone makes no trust for such a token.
    pub may_not_delegate: bool,
    /// How the user logged in (`password`, `token`, `application_credential` …).
    pub methods: Vec<String>,
    /// Of the services that this crate speaks to; a catalogue has many more.
    pub catalog: Vec<CatalogEntry>,
}

/// A service in the catalogue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CatalogEntry {
    #[serde(rename = "type", default)]
    pub service_type: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub endpoints: Vec<CatalogEndpoint>,
}

/// One endpoint of a service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CatalogEndpoint {
    #[serde(default)]
    pub interface: String,
    #[serde(default)]
    pub region: Option<String>,
    #[serde(default)]
    pub region_id: Option<String>,
    #[serde(default)]
    pub url: String,
}

impl TokenInfo {
    /// The service's endpoint with its API version, for one interface and, if given, one region.
    pub fn endpoint(&self, service: Service, interface: Interface, region: Option<&str>) -> Result<Url, CloudError> {
        service
            .types()
            .iter()
            .flat_map(|name| self.catalog.iter().filter(move |entry| entry.service_type == *name))
            .flat_map(|entry| &entry.endpoints)
            .filter(|endpoint| endpoint.interface == interface.as_str() && endpoint.is_in(region))
            .find_map(|endpoint| Url::parse(&endpoint.url).ok().filter(|url| url.has_host() && !url.cannot_be_a_base()))
            .map(|url| service.normalise(url))
            .ok_or_else(|| CloudError::no_endpoint(service, "endpoint", region, interface))
    }

    /// Whether the catalogue lists the service at all.
    pub fn has_service(&self, service: Service) -> bool {
        self.catalog.iter().any(|entry| service.types().contains(&entry.service_type.as_str()))
    }

    /// How long Keystone lets a token live that is got with a password, as this one tells that is such a one. None of any other: a token that was
    /// made of another one ends with that, and one that was got with an application credential may end with it.
    pub fn lifetime(&self) -> Option<Duration> {
        let lives = (self.expires_at - self.issued_at?).to_std().ok()?;
        (self.methods == ["password"]).then_some(lives)
    }

    /// The memory that it takes, in bytes, about.
    pub fn size(&self) -> usize {
        let text = |text: &String| size_of::<String>() + text.capacity();
        let maybe = |it: &Option<String>| it.as_ref().map_or(0, String::capacity);
        let texts = [&self.user_id, &self.user_name, &self.user_domain_id, &self.user_domain_name];
        let others = [
            &self.project_id,
            &self.project_name,
            &self.project_domain_id,
            &self.project_domain_name,
            &self.domain_id,
            &self.domain_name,
            &self.trust_id,
            &self.application_credential_id,
        ];
        let lists = self.roles.iter().chain(&self.methods).map(text).sum::<usize>();
        let of_endpoint = |it: &CatalogEndpoint| {
            size_of::<CatalogEndpoint>() + it.interface.capacity() + maybe(&it.region) + maybe(&it.region_id) + it.url.capacity()
        };
        let of_entry = |it: &CatalogEntry| {
            size_of::<CatalogEntry>()
                + it.service_type.capacity()
                + it.name.capacity()
                + it.endpoints.iter().map(of_endpoint).sum::<usize>()
        };
        let catalog: usize = self.catalog.iter().map(of_entry).sum();
        size_of::<Self>() + texts.map(String::capacity).iter().sum::<usize>() + others.map(maybe).iter().sum::<usize>() + lists + catalog
    }
}

/// Whether a type of service is one that there is a client for.
fn is_spoken_to(service_type: &str) -> bool {
    Service::ALL.iter().any(|service| service.types().contains(&service_type))
}

impl CatalogEndpoint {
    fn is_in(&self, region: Option<&str>) -> bool {
        region.is_none_or(|wanted| self.region_id.as_deref() == Some(wanted) || self.region.as_deref() == Some(wanted))
    }
}

/// The answer of `/v3/auth/tokens`.
#[derive(Deserialize)]
pub(crate) struct TokenAnswer {
    token: Wire,
}

#[derive(Deserialize)]
struct Wire {
    user: Named,
    #[serde(default)]
    project: Option<Named>,
    #[serde(default)]
    domain: Option<Ref>,
    #[serde(default)]
    system: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "or_default")]
    roles: Vec<Ref>,
    #[serde(default)]
    issued_at: Option<DateTime<Utc>>,
    expires_at: DateTime<Utc>,
    #[serde(rename = "OS-TRUST:trust", default)]
    trust: Option<Ref>,
    #[serde(default)]
    is_admin_project: Option<bool>,
    #[serde(default)]
    application_credential: Option<ApplicationCredential>,
    #[serde(default, deserialize_with = "or_default")]
    methods: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    catalog: Vec<CatalogEntry>,
}

#[derive(Deserialize)]
struct ApplicationCredential {
    #[serde(default, deserialize_with = "or_default")]
    id: String,
    /// Those that are not say so.
    #[serde(default)]
    restricted: Option<bool>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default)]
    domain: Option<Ref>,
}

#[derive(Deserialize)]
struct Ref {
    #[serde(default, deserialize_with = "or_default")]
    id: String,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
}

impl From<TokenAnswer> for TokenInfo {
    fn from(TokenAnswer { token }: TokenAnswer) -> Self {
        let (user_domain_id, user_domain_name) = token.user.domain.map(|d| (d.id, d.name)).unwrap_or_default();
        let (project_id, project_name, project_domain) = match token.project {
            Some(project) => (Some(project.id), Some(project.name), project.domain),
            None => (None, None, None),
        };
        let (project_domain_id, project_domain_name) = project_domain.map(|d| (d.id, d.name)).unzip();
        let (domain_id, domain_name) = token.domain.map(|d| (d.id, d.name)).unzip();
        Self {
            user_id: token.user.id,
            user_name: token.user.name,
            user_domain_id,
            user_domain_name,
            project_id,
            project_name,
            project_domain_id,
            project_domain_name,
            domain_id,
            domain_name,
            system_scope: token.system.is_some_and(|system| !system.is_null()),
            roles: token.roles.into_iter().map(|role| role.name).collect(),
            issued_at: token.issued_at,
            expires_at: token.expires_at,
            trust_id: token.trust.map(|trust| trust.id),
            is_admin_project: token.is_admin_project.unwrap_or(true),
            may_not_delegate: token.application_credential.as_ref().is_some_and(|it| it.restricted.unwrap_or(true)),
            application_credential_id: token.application_credential.map(|it| it.id),
            methods: token.methods,
            catalog: token.catalog.into_iter().filter(|entry| is_spoken_to(&entry.service_type)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_of_the_project_of_admins_unless_keystone_says_otherwise() {
        for (said, wanted) in [(json!({}), true), (json!({"is_admin_project": true}), true), (json!({"is_admin_project": false}), false)] {
            let mut token = json!({"user": {"id": "u1"}, "expires_at": "2099-01-01T00:00:00.000000Z"});
            token.as_object_mut().expect("an object").extend(said.as_object().expect("an object").clone());
            let answer: TokenAnswer = serde_json::from_value(json!({"token": token})).expect("a token");
            assert_eq!(TokenInfo::from(answer).is_admin_project, wanted, "{said}");
        }
    }
    #[test]
    fn a_token_that_was_got_with_a_password_tells_how_long_tokens_live() {
        let hour = Some(Duration::from_secs(3600));
        for (methods, issued_at, wanted) in [
            (json!(["password"]), json!("2098-12-31T23:00:00.000000Z"), hour),
            (json!(["token", "password"]), json!("2098-12-31T23:59:00.000000Z"), None),
            (json!(["application_credential"]), json!("2098-12-31T23:00:00.000000Z"), None),
            (json!(["password"]), json!(null), None),
            // By a clock that was put back.
            (json!(["password"]), json!("2099-01-01T00:00:01.000000Z"), None),
        ] {
            let token =
                json!({"user": {"id": "u1"}, "methods": methods, "issued_at": issued_at, "expires_at": "2099-01-01T00:00:00.000000Z"});
            let answer: TokenAnswer = serde_json::from_value(json!({"token": token})).expect("a token");
            assert_eq!(TokenInfo::from(answer).lifetime(), wanted, "{token}");
        }
    }
}
