//! Keystone: who there is, what they may do, tokens and trusts. Passwords are checked and tokens expire.
//!
//! The store is here, the acts are one file a noun.

mod application_credential;
mod assignment;
mod auth;
mod seed;
pub(crate) mod trust;
mod user;

pub use self::seed::SERVICE_PASSWORD;

use std::collections::HashMap;

use chrono::TimeDelta;
use indexmap::IndexMap;
use serde_json::{Value, json};

pub(crate) use crate::keystone::trust::NewTrust;
use crate::{
    catalog,
    clock::Moment,
    http::{Answer, Call, Outcome, Refusal, Route},
    state::World,
    token::{Scope, Token},
};

/// A domain.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// A project.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) domain: String,
}

/// A user. No `Debug`: it holds a password.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) domain: String,
    pub(crate) password: String,
    pub(crate) description: Option<String>,
    pub(crate) default_project: Option<String>,
    pub(crate) enabled: bool,
    pub(crate) seeded: bool,
}

/// A role.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// A role on a project or a domain.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(crate) target: String,
    pub(crate) role: String,
}

/// A trust.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    pub(crate) id: String,
    pub(crate) trustor: String,
    pub(crate) trustee: String,
    pub(crate) project: Option<String>,
    pub(crate) impersonation: bool,
    pub(crate) roles: Vec<String>,
    pub(crate) expires_at: Option<Moment>,
    /// How often it may be handed on; 0 is never.
    pub(crate) redelegation_count: u64,
    pub(crate) redelegated_from: Option<String>,
}

/// Everything Keystone knows.
pub(crate) struct Store {
    pub(crate) domains: IndexMap<String, Domain>,
    pub(crate) projects: IndexMap<String, Project>,
    pub(crate) users: IndexMap<String, User>,
    pub(crate) roles: IndexMap<String, Role>,
    /// The roles of each user, by the user's id.
    pub(crate) assignments: HashMap<String, Vec<Assignment>>,
    pub(crate) trusts: IndexMap<String, Trust>,
    pub(crate) application_credentials: IndexMap<String, application_credential::ApplicationCredential>,
    pub(crate) tokens: HashMap<String, Token>,
    /// From so many tokens on, those that have expired are forgotten.
    many_tokens: usize,
    pub(crate) token_lifetime: TimeDelta,
    /// Who came by an application credential may manage trusts (`[security_compliance] allow_insecure_application_credential_trust_escalation`).
    pub(crate) trusts_by_credential: bool,
    /// Types of services that the catalogue does not show.
    pub(crate) withdrawn: Vec<&'static str>,
    /// The id of the project whose administrators alone are the cloud's (`[resource] admin_project_name`); none: tokens say nothing of it.
    pub(crate) admin_project: Option<String>,
}

/// From this many tokens on, those that have expired are forgotten, and again whenever those that are left have become twice as many.
const MANY_TOKENS: usize = 10_000;

/// The calls Keystone knows.
pub(crate) fn route(method: &str, path: &[&str]) -> Option<Route> {
    match (method, path) {
        ("GET", [] | ["v3"]) => Route::open("keystone.version_show", catalog::version),
        (_, ["v3", rest @ ..]) => match (method, rest) {
            ("POST", ["auth", "tokens"]) => Route::open("keystone.token_issue", auth::issue),
            ("GET", ["auth", "tokens"]) => Route::new("keystone.token_validate", auth::validate),
            ("DELETE", ["auth", "tokens"]) => Route::new("keystone.token_revoke", auth::revoke),
            ("GET", ["auth", "catalog"]) => Route::new("keystone.catalog_show", auth::show_catalog),
            ("GET", ["auth", "projects"]) => Route::new("keystone.project_list", assignment::own_projects),
            ("POST", ["users"]) => Route::new("keystone.user_create", user::create),
            ("GET", ["users"]) => Route::new("keystone.user_list", user::list),
            ("GET", ["users", _]) => Route::new("keystone.user_show", user::show),
            ("PATCH", ["users", _]) => Route::new("keystone.user_update", user::update),
            ("DELETE", ["users", _]) => Route::new("keystone.user_delete", user::delete),
            ("POST", ["users", _, "application_credentials"]) => {
                Route::new("keystone.application_credential_create", application_credential::create)
            }
            ("GET", ["users", _, "application_credentials"]) => {
                Route::new("keystone.application_credential_list", application_credential::list)
            }
            ("GET", ["users", _, "application_credentials", _]) => {
                Route::new("keystone.application_credential_show", application_credential::show)
            }
            ("DELETE", ["users", _, "application_credentials", _]) => {
                Route::new("keystone.application_credential_delete", application_credential::delete)
            }
            ("GET", ["projects"]) => Route::new("keystone.project_list", assignment::projects),
            ("GET", ["projects", _]) => Route::new("keystone.project_show", assignment::project),
            ("PUT", ["projects", _, "users", _, "roles", _]) => Route::new("keystone.role_grant", assignment::grant),
            ("GET", ["role_assignments"]) => Route::new("keystone.role_assignment_list", assignment::assignments),
            ("GET", ["domains"]) => Route::new("keystone.domain_list", assignment::domains),
            ("GET", ["domains", _]) => Route::new("keystone.domain_show", assignment::domain),
            ("GET", ["roles"]) => Route::new("keystone.role_list", assignment::roles),
            ("GET", ["roles", _]) => Route::new("keystone.role_show", assignment::role),
            ("POST", ["OS-TRUST", "trusts"]) => Route::new("keystone.trust_create", trust::create),
            ("GET", ["OS-TRUST", "trusts"]) => Route::new("keystone.trust_list", trust::list),
            ("GET", ["OS-TRUST", "trusts", _]) => Route::new("keystone.trust_show", trust::show),
            ("DELETE", ["OS-TRUST", "trusts", _]) => Route::new("keystone.trust_delete", trust::delete),
            ("GET", ["services"]) => Route::new("keystone.service_list", list_services),
            ("GET", ["services", _]) => Route::new("keystone.service_show", show_service),
            ("GET", ["endpoints"]) => Route::new("keystone.endpoint_list", list_endpoints),
            _ => None,
        },
        _ => None,
    }
}

impl Store {
    /// A token that is known and has not expired.
    pub(crate) fn valid_token(&self, id: &str, now: Moment) -> Option<&Token> {
        self.tokens.get(id).filter(|token| token.is_valid(now))
    }

    /// Keeps a token.
    pub(crate) fn keep_token(&mut self, token: Token, now: Moment) {
        if self.tokens.len() >= self.many_tokens {
            self.tokens.retain(|_, token| token.is_valid(now));
            self.many_tokens = MANY_TOKENS.max(2 * self.tokens.len());
        }
        self.tokens.insert(token.id.clone(), token);
    }

    /// A user by name in a domain.
    pub(crate) fn user_named(&self, name: &str, domain: &str) -> Option<&User> {
        self.users.values().find(|user| user.name == name && user.domain == domain)
    }

    /// A project by name in a domain.
    pub(crate) fn project_named(&self, name: &str, domain: &str) -> Option<&Project> {
        self.projects.values().find(|project| project.name == name && project.domain == domain)
    }

    /// The ids of the roles a user holds on a project or domain, with the roles these imply.
    pub(crate) fn roles_of(&self, user: &str, target: &str) -> Vec<String> {
        let mut held = self.assigned(user, target);
        self.add_implied(&mut held);
        held
    }

    /// The ids of the roles that a user was given on a project or domain.
    pub(crate) fn assigned(&self, user: &str, target: &str) -> Vec<String> {
        let given = self.assignments.get(user).into_iter().flatten();
        given.filter(|known| known.target == target).map(|known| known.role.clone()).collect()
    }

    /// Adds what admin (manager, member, reader), manager (member, reader) and member (reader) imply.
    pub(crate) fn add_implied(&self, held: &mut Vec<String>) {
        let mut next = 0;
        while let Some(id) = held.get(next) {
            let implied: &[&str] = match self.roles.get(id).map(|role| role.name.as_str()) {
                Some("admin") => &["manager"],
                Some("manager") => &["member"],
                Some("member") => &["reader"],
                _ => &[],
            };
            for role in self.roles.values().filter(|role| implied.contains(&role.name.as_str())) {
                if !held.contains(&role.id) {
                    held.push(role.id.clone());
                }
            }
            next += 1;
        }
    }

    /// Deletes a project with everything in Keystone that rests on it.
    pub(crate) fn delete_project(&mut self, id: &str) -> bool {
        if self.projects.shift_remove(id).is_none() {
            return false;
        }
        for given in self.assignments.values_mut() {
            given.retain(|known| known.target != id);
        }
        self.tokens.retain(|_, token| token.project_id() != Some(id));
        self.application_credentials.retain(|_, known| known.project != id);
        let trusts: Vec<String> =
            self.trusts.values().filter(|trust| trust.project.as_deref() == Some(id)).map(|trust| trust.id.clone()).collect();
        for trust in trusts {
            self.delete_trust(&trust);
        }
        true
    }

    /// Takes a trust away, with the trusts that were made from it and the tokens of all of them.
    pub(crate) fn delete_trust(&mut self, id: &str) {
        if self.trusts.shift_remove(id).is_none() {
            return;
        }
        self.tokens.retain(|_, token| token.trust_id() != Some(id));
        let handed_on: Vec<String> =
            self.trusts.values().filter(|trust| trust.redelegated_from.as_deref() == Some(id)).map(|trust| trust.id.clone()).collect();
        for trust in handed_on {
            self.delete_trust(&trust);
        }
    }

    pub(crate) fn user_view_in_token(&self, id: &str) -> Value {
        self.users.get(id).map_or(Value::Null, |user| {
            json!({"domain": self.domain_view_in_token(&user.domain), "id": user.id, "name": user.name, "password_expires_at": null})
        })
    }

    pub(crate) fn project_view_in_token(&self, id: &str) -> Value {
        self.projects.get(id).map_or(
            Value::Null,
            |project| json!({"domain": self.domain_view_in_token(&project.domain), "id": project.id, "name": project.name}),
        )
    }

    pub(crate) fn domain_view_in_token(&self, id: &str) -> Value {
        self.domains.get(id).map_or(Value::Null, |domain| json!({"id": domain.id, "name": domain.name}))
    }
}

/// Refuses whoever is no administrator: of everything, or with a domain-scoped token of the domain in question.
fn require_admin(token: &Token, domain: Option<&str>, action: &str) -> Result<(), Refusal> {
    let allowed = token.has_role("admin")
        && match &token.scope {
            Scope::Domain(own) => domain == Some(own),
            _ => true,
        };
    if allowed { Ok(()) } else { Err(denied(action)) }
}

fn denied(action: &str) -> Refusal {
    Refusal::forbidden(format!("You are not authorized to perform the requested action: {action}."))
}

fn missing(what: &str, id: &str) -> Refusal {
    Refusal::not_found(format!("Could not find {what}: {id}."))
}

fn no_links() -> Value {
    json!({"next": null, "self": null, "previous": null})
}

fn list_services(_: &mut World, call: &Call) -> Outcome {
    require_admin(call.token()?, None, "identity:list_services")?;
    Answer::ok(catalog::services(call.query("type"), call.query("name")))
}

fn show_service(_: &mut World, call: &Call) -> Outcome {
    require_admin(call.token()?, None, "identity:get_service")?;
    let services = catalog::services(None, None);
    let mut all = services["services"].as_array().into_iter().flatten();
    let found = all.find(|service| service["id"] == call.at(2));
    Answer::ok(json!({"service": found.ok_or_else(|| missing("service", call.at(2)))?}))
}

fn list_endpoints(world: &mut World, call: &Call) -> Outcome {
    require_admin(call.token()?, None, "identity:list_endpoints")?;
    Answer::ok(catalog::endpoints(&call.base, world.container_infra_url.as_deref(), call))
}
