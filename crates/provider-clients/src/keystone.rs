//! Keystone: users, roles on projects, trusts, projects and domains.
//!
//! Its lists are asked without `limit`: they are narrow, and Keystone refuses query keys it does not know.

use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use url::Url;

use crate::error::CloudError;
use crate::json::or_default;
use crate::request::Request;
use crate::service::{Interface, Service};
use crate::session::Session;

/// Identity calls of a session.
#[derive(Clone, Debug)]
pub struct Keystone(Session);

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct User {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub domain_id: String,
}

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Project {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default)]
    pub domain_id: Option<String>,
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Domain {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Role {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
}

/// A trust to be made. Keystone lets only the trustor make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTrust {
    pub trustor_user_id: String,
    pub trustee_user_id: String,
    pub project_id: String,
    /// Role names.
    pub roles: Vec<String>,
    /// The trustee acts as the trustor.
    pub impersonation: bool,
    /// How often the trustee may pass it on, as Heat has done for its deferred work; 0 is never.
    pub redelegation_count: u64,
    /// The trust that the trustor's session came by, if it came by one. This one is handed on from it: it ends with it, and may be passed on as
    /// often as that leaves, if at all.
    pub redelegated_from: Option<Trust>,
}

/// A trust.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Trust {
    pub id: String,
    pub trustor_user_id: String,
    pub trustee_user_id: String,
    #[serde(default)]
    pub project_id: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub impersonation: bool,
    /// How often it may be passed on.
    #[serde(default, deserialize_with = "or_default")]
    pub redelegation_count: u64,
    /// The trust that it was handed on from.
    #[serde(default)]
    pub redelegated_trust_id: Option<String>,
    /// When it ends by itself, in Keystone's words; none: never.
    #[serde(default)]
    pub expires_at: Option<String>,
    /// How many logins are left; none: any number.
    #[serde(default)]
    pub remaining_uses: Option<u64>,
    /// None in a list: Keystone tells them of one trust at a time.
    #[serde(default, deserialize_with = "or_default")]
    pub roles: Vec<Role>,
}

impl NewTrust {
    /// How often it may be passed on once it is made: of what is handed on Keystone counts down by itself.
    fn redelegations(&self) -> u64 {
        match &self.redelegated_from {
            Some(parent) if self.redelegation_count > 0 => parent.redelegation_count.saturating_sub(1),
            _ => self.redelegation_count,
        }
    }

    /// Whether a trust is what is asked for here: no less, and no more that anybody could make use of. It must be told with its roles.
    pub fn is_met_by(&self, trust: &Trust) -> bool {
        let parent = self.redelegated_from.as_ref();
        let is_between = trust.trustor_user_id == self.trustor_user_id && trust.trustee_user_id == self.trustee_user_id;
        let is_for_good = trust.remaining_uses.is_none() && trust.expires_at == parent.and_then(|parent| parent.expires_at.clone());
        let is_handed_on_as_this = trust.redelegation_count == self.redelegations()
            && trust.redelegated_trust_id.as_deref() == parent.map(|parent| parent.id.as_str());
        let has = |wanted: &String| trust.roles.iter().any(|role| role.name.eq_ignore_ascii_case(wanted));
        let is_wanted = |role: &Role| self.roles.iter().any(|wanted| wanted.eq_ignore_ascii_case(&role.name));
        is_between
            && trust.project_id.as_deref() == Some(self.project_id.as_str())
            && trust.impersonation == self.impersonation
            && is_for_good
            && is_handed_on_as_this
            && self.roles.iter().all(has)
            && trust.roles.iter().all(is_wanted)
    }
}

/// An application credential. Its secret is told once, when it is made.
#[derive(Clone, Debug, Deserialize)]
pub struct ApplicationCredential {
    pub id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default)]
    pub project_id: Option<String>,
    /// Empty but in the answer to its making.
    #[serde(default, deserialize_with = "secret")]
    pub secret: SecretString,
}

#[derive(Deserialize)]
struct ApplicationCredentialAnswer {
    application_credential: ApplicationCredential,
}
#[derive(Deserialize)]
struct ApplicationCredentialsAnswer {
    application_credentials: Vec<ApplicationCredential>,
}
#[derive(Deserialize)]
struct UserAnswer {
    user: User,
}
#[derive(Deserialize)]
struct UsersAnswer {
    users: Vec<User>,
}
#[derive(Deserialize)]
struct TrustsAnswer {
    trusts: Vec<Trust>,
}
#[derive(Deserialize)]
struct DomainsAnswer {
    domains: Vec<Domain>,
}
#[derive(Deserialize)]
struct TrustAnswer {
    trust: Trust,
}
#[derive(Deserialize)]
struct RolesAnswer {
    roles: Vec<Role>,
}
#[derive(Deserialize)]
struct RoleAssignmentsAnswer {
    role_assignments: Vec<serde::de::IgnoredAny>,
}
#[derive(Deserialize)]
struct ProjectAnswer {
    project: Project,
}

impl Session {
    /// Identity calls with this session.
    pub fn keystone(&self) -> Keystone {
        Keystone(self.clone())
    }
}

impl Keystone {
    /// Makes an enabled user.
    pub async fn create_user(&self, name: &str, domain_id: &str, password: &SecretString) -> Result<User, CloudError> {
        let user = json!({"name": name, "domain_id": domain_id, "password": password.expose_secret(), "enabled": true});
        let request = post("user_create", ["users"], json!({"user": user})).hide(password);
        Ok(self.0.fetch::<UserAnswer>(request).await?.user)
    }

    /// The same, of one whom rules for people's passwords do not reach: it never logs in for weeks, and nobody changes its password.
    pub async fn create_service_user(&self, name: &str, domain_id: &str, password: &SecretString) -> Result<User, CloudError> {
        let options = json!({"ignore_change_password_upon_first_use": true, "ignore_password_expiry": true,
            "ignore_lockout_failure_attempts": true, "ignore_user_inactivity": true});
        let user = json!({"name": name, "domain_id": domain_id, "password": password.expose_secret(), "enabled": true, "options": options});
        let request = post("user_create", ["users"], json!({"user": user})).hide(password);
        Ok(self.0.fetch::<UserAnswer>(request).await?.user)
    }

    /// The user of that name in that domain.
    pub async fn find_user(&self, name: &str, domain_id: &str) -> Result<Option<User>, CloudError> {
        let request = get("user_list", ["users"]).query("name", name).query("domain_id", domain_id);
        let answer: UsersAnswer = self.0.fetch(request).await?;
        Ok(answer.users.into_iter().find(|user| user.name == name && user.domain_id == domain_id))
    }

    /// All users of a domain, as an administrator of it.
    pub async fn users_of(&self, domain_id: &str) -> Result<Vec<User>, CloudError> {
        let answer: UsersAnswer = self.0.fetch(get("user_list", ["users"]).query("domain_id", domain_id)).await?;
        Ok(answer.users.into_iter().filter(|user| user.domain_id == domain_id).collect())
    }

    /// Gives the user another password, as an administrator of its domain.
    pub async fn set_password(&self, user_id: &str, password: &SecretString) -> Result<(), CloudError> {
        let body = json!({"user": {"password": password.expose_secret()}});
        let request = Request::patch(Service::Identity, "user_update", ["users", user_id], body).hide(password);
        self.0.answer(&request).await.map(drop)
    }

    /// Deletes the user; false when there was none.
    pub async fn delete_user(&self, id: &str) -> Result<bool, CloudError> {
        self.0.remove(Request::delete(Service::Identity, "user_delete", ["users", id])).await
    }

    /// Every role that is not of one domain only.
    pub async fn roles(&self) -> Result<Vec<Role>, CloudError> {
        Ok(self.0.fetch::<RolesAnswer>(get("role_list", ["roles"])).await?.roles)
    }

    /// Gives a user a role on a project, as an administrator; one that the user has already is no error.
    pub async fn grant_role(&self, project_id: &str, user_id: &str, role_id: &str) -> Result<(), CloudError> {
        let path = ["projects", project_id, "users", user_id, "roles", role_id];
        self.0.answer(&Request::new(Service::Identity, "role_grant", Method::PUT, path)).await.map(drop)
    }

    /// Whether a user has any role on a project, by itself or by a group, as an administrator; false also where there is no such user.
    pub async fn has_a_role(&self, user_id: &str, project_id: &str) -> Result<bool, CloudError> {
        let request = get("role_assignment_list", ["role_assignments"]).query("user.id", user_id).query("scope.project.id", project_id);
        let answer: RoleAssignmentsAnswer = self.0.fetch(request.query("effective", "true")).await?;
        Ok(!answer.role_assignments.is_empty())
    }

    /// Makes a trust; the session must be the trustor's.
    pub async fn create_trust(&self, trust: &NewTrust) -> Result<Trust, CloudError> {
        let roles: Vec<_> = trust.roles.iter().map(|name| json!({"name": name})).collect();
        let mut body = json!({"trust": {
            "trustor_user_id": trust.trustor_user_id,
            "trustee_user_id": trust.trustee_user_id,
            "project_id": trust.project_id,
            "impersonation": trust.impersonation,
            "allow_redelegation": trust.redelegation_count > 0,
            "roles": roles,
        }});
        // Without a number it may be passed on as often as Keystone lets any (three times, unless its operator says otherwise). Of what is
        // handed on it refuses every number but the one that is left.
        if trust.redelegation_count > 0 && trust.redelegated_from.is_none() {
            body["trust"]["redelegation_count"] = trust.redelegation_count.into();
        }
        Ok(self.0.fetch::<TrustAnswer>(post("trust_create", ["OS-TRUST", "trusts"], body)).await?.trust)
    }

    /// Whether Keystone lets this session, which is that user's, have anything to do with trusts. Since 27.1 it does not with the token of an
    /// application credential or another delegation that is no trust.
    pub async fn may_manage_trusts(&self, user: &str) -> Result<bool, CloudError> {
        match self.trusts_given(user).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(403) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A trust by its id, as one of the two whom it is between; none when there is no such trust, or no more.
    pub async fn trust(&self, id: &str) -> Result<Option<Trust>, CloudError> {
        Ok(self.0.find::<TrustAnswer>(get("trust_show", ["OS-TRUST", "trusts", id])).await?.map(|answer| answer.trust))
    }

    /// The trusts that a user has given, as that user; without their roles.
    pub async fn trusts_given(&self, trustor_user_id: &str) -> Result<Vec<Trust>, CloudError> {
        let request = get("trust_list", ["OS-TRUST", "trusts"]).query("trustor_user_id", trustor_user_id);
        let answer: TrustsAnswer = self.0.fetch(request).await?;
        Ok(answer.trusts.into_iter().filter(|trust| trust.trustor_user_id == trustor_user_id).collect())
    }

    /// The trusts that a user was given, as that user; without their roles.
    pub async fn trusts_taken(&self, trustee_user_id: &str) -> Result<Vec<Trust>, CloudError> {
        let request = get("trust_list", ["OS-TRUST", "trusts"]).query("trustee_user_id", trustee_user_id);
        let answer: TrustsAnswer = self.0.fetch(request).await?;
        Ok(answer.trusts.into_iter().filter(|trust| trust.trustee_user_id == trustee_user_id).collect())
    }

    /// A trust that is what is asked for, and the others between the same two, all but those of these ids; as the trustor.
    pub async fn find_trust(&self, wanted: &NewTrust, except: &[String]) -> Result<(Option<Trust>, Vec<Trust>), CloudError> {
        let (mut found, mut others) = (None, Vec::new());
        for listed in self.trusts_given(&wanted.trustor_user_id).await? {
            if listed.trustee_user_id != wanted.trustee_user_id || except.contains(&listed.id) {
                continue;
            }
            match self.trust(&listed.id).await {
                Ok(Some(trust)) if found.is_none() && wanted.is_met_by(&trust) => found = Some(trust),
                Ok(Some(trust)) => others.push(trust),
                Ok(None) => {}
                // One that was handed on and cannot be used any more, as when somebody on the way to it is disabled.
                Err(error) if error.status() == Some(403) => others.push(listed),
                Err(error) => return Err(error),
            }
        }
        Ok((found, others))
    }

    /// Deletes the trust; false when there was none.
    pub async fn delete_trust(&self, id: &str) -> Result<bool, CloudError> {
        self.0.remove(Request::delete(Service::Identity, "trust_delete", ["OS-TRUST", "trusts", id])).await
    }

    /// Makes an application credential of the session's user for the session's project, with all roles that the token has. Keystone lets
    /// nobody make one for somebody else.
    pub async fn create_application_credential(
        &self,
        user_id: &str,
        name: &str,
        description: &str,
    ) -> Result<ApplicationCredential, CloudError> {
        let body = json!({"application_credential": {"name": name, "description": description}});
        let request = post("application_credential_create", ["users", user_id, "application_credentials"], body);
        Ok(self.0.fetch::<ApplicationCredentialAnswer>(request).await?.application_credential)
    }

    /// The application credentials of a user whose names begin so; none of a user who is not there.
    pub async fn application_credentials(&self, user_id: &str, prefix: &str) -> Result<Vec<ApplicationCredential>, CloudError> {
        let request = get("application_credential_list", ["users", user_id, "application_credentials"]);
        let found = self.0.find::<ApplicationCredentialsAnswer>(request).await?;
        let mut found = found.map(|answer| answer.application_credentials).unwrap_or_default();
        found.retain(|credential| credential.name.starts_with(prefix));
        Ok(found)
    }

    /// Deletes an application credential, as its user or as an administrator; false when there was none.
    pub async fn delete_application_credential(&self, user_id: &str, id: &str) -> Result<bool, CloudError> {
        let path = ["users", user_id, "application_credentials", id];
        self.0.remove(Request::delete(Service::Identity, "application_credential_delete", path)).await
    }

    /// The project, if there is one of that id.
    pub async fn project(&self, id: &str) -> Result<Option<Project>, CloudError> {
        Ok(self.0.find::<ProjectAnswer>(get("project_show", ["projects", id])).await?.map(|answer| answer.project))
    }

    /// The domain of that name.
    pub async fn domain_by_name(&self, name: &str) -> Result<Option<Domain>, CloudError> {
        let answer: DomainsAnswer = self.0.fetch(get("domain_list", ["domains"]).query("name", name)).await?;
        Ok(answer.domains.into_iter().find(|domain| domain.name == name))
    }

    /// Keystone as the outside sees it, with `/v3`: what nodes are given as `auth_url`.
    pub async fn public_endpoint(&self) -> Result<Url, CloudError> {
        self.0.endpoint_on(Service::Identity, Interface::Public, None).await
    }
}

fn secret<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    Option::<String>::deserialize(deserializer).map(|text| text.unwrap_or_default().into())
}

fn get<const N: usize>(operation: &'static str, path: [&str; N]) -> Request {
    Request::new(Service::Identity, operation, Method::GET, path)
}

fn post<const N: usize>(operation: &'static str, path: [&str; N], body: serde_json::Value) -> Request {
    Request::post(Service::Identity, operation, path, body)
}
