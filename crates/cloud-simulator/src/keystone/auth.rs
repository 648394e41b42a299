//! Tokens: issued for a password or another token, validated, revoked.
//!
//! A wrong name, a wrong password and a project without a role are one answer, as in Keystone: 401 and nothing more.

use serde_json::{Value, json};

use crate::{
    catalog,
    clock::{self, Moment},
    http::{Answer, Call, Outcome, Refusal},
    keystone::{Store, denied, missing},
    state::{World, hex_id},
    token::{HadBy, Scope, Token},
};

/// Who came in, and by what.
struct Identity {
    user: String,
    methods: Vec<String>,
    parent: Option<Token>,
}

pub(crate) fn issue(world: &mut World, call: &Call) -> Outcome {
    let body = call.json()?;
    let auth = &body["auth"];
    if !auth["identity"].is_object() {
        return Err(Refusal::bad_request("Expecting to find identity in auth. The server could not comply with the request."));
    }
    let token = match auth["identity"]["methods"].as_array().is_some_and(|methods| methods.iter().any(|m| m == "application_credential")) {
        true => issue_for_application(&world.keystone, auth, call.now)?,
        false => {
            let identity = identify(&world.keystone, &auth["identity"], call.now)?;
            world.keystone.issue(identity, &auth["scope"], call.now)?
        }
    };
    let infra = world.container_infra_url.clone();
    let with_catalog = call.query("nocatalog").is_none().then_some((call.base.as_str(), infra.as_deref()));
    let view = token.view(&world.keystone, with_catalog);
    let headers = vec![("X-Subject-Token", token.id.clone()), ("Vary", "X-Auth-Token".to_owned())];
    world.keystone.keep_token(token, call.now);
    Ok(Answer { status: 201, headers, body: Some(view) })
}

pub(crate) fn validate(world: &mut World, call: &Call) -> Outcome {
    let store = &world.keystone;
    let subject = call.subject.as_deref().ok_or_else(|| missing("token", ""))?;
    let caller = call.token()?;
    let token = store.tokens.get(subject);
    let is_own = token.is_some_and(|token| token.user == caller.user);
    if !(is_own || caller.has_role("admin") || caller.has_role("service")) {
        return Err(denied("identity:validate_token"));
    }
    let allow_expired = call.flag("allow_expired") == Some(true);
    let token = token
        .filter(|token| allow_expired || token.is_valid(call.now))
        .ok_or_else(|| Refusal::not_found("This is not a recognized Fernet token."))?;
    let infra = world.container_infra_url.as_deref();
    let with_catalog = call.query("nocatalog").is_none().then_some((call.base.as_str(), infra));
    let headers = vec![("X-Subject-Token", token.id.clone()), ("Vary", "X-Auth-Token".to_owned())];
    Ok(Answer { status: 200, headers, body: Some(token.view(store, with_catalog)) })
}

pub(crate) fn revoke(world: &mut World, call: &Call) -> Outcome {
    let subject = call.subject.as_deref().unwrap_or_default();
    let token = world.keystone.valid_token(subject, call.now).ok_or_else(|| missing("token", subject))?;
    let caller = call.token()?;
    if token.user != caller.user && !caller.has_role("admin") {
        return Err(denied("identity:revoke_token"));
    }
    world.keystone.tokens.remove(subject);
    Answer::empty(204)
}

pub(crate) fn show_catalog(world: &mut World, call: &Call) -> Outcome {
    let catalog = catalog::catalog(&call.base, world.container_infra_url.as_deref(), call.token()?.project_id(), &world.keystone.withdrawn);
    Answer::ok(json!({"catalog": catalog, "links": {}}))
}

/// A token for what an application credential is good for; its scope cannot be chosen.
fn issue_for_application(store: &Store, auth: &Value, now: Moment) -> Result<Token, Refusal> {
    if !auth["scope"].is_null() {
        return Err(Refusal::unauthorized());
    }
    let found = store.login_of_application(&auth["identity"]["application_credential"])?;
    let identity = Identity { user: found.user.clone(), methods: vec!["application_credential".to_owned()], parent: None };
    let mut token = store.issue(identity, &json!({"project": {"id": found.project}}), now)?;
    token.application_credential = Some(HadBy { id: found.id.clone(), restricted: true });
    Ok(token)
}

fn identify(store: &Store, identity: &Value, now: Moment) -> Result<Identity, Refusal> {
    let methods: Vec<&str> = identity["methods"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if methods.contains(&"password") {
        let given = &identity["password"]["user"];
        let user = match (given["id"].as_str(), given["name"].as_str()) {
            (Some(id), _) => store.users.get(id),
            (None, Some(name)) => store.domain_of(&given["domain"]).and_then(|domain| store.user_named(name, &domain)),
            (None, None) => None,
        };
        let user =
            user.filter(|user| user.enabled && given["password"].as_str() == Some(&user.password)).ok_or_else(Refusal::unauthorized)?;
        return Ok(Identity { user: user.id.clone(), methods: vec!["password".to_owned()], parent: None });
    }
    if methods.contains(&"token") {
        let id = identity["token"]["id"].as_str().unwrap_or_default();
        let parent = store.valid_token(id, now).ok_or_else(Refusal::unauthorized)?;
        if parent.trust_id().is_some() {
            return Err(Refusal::forbidden("Using trust-scoped token to create another token. Create a new trust-scoped token instead."));
        }
        let mut methods = vec!["token".to_owned()];
        methods.extend(parent.methods.iter().filter(|method| *method != "token").cloned());
        return Ok(Identity { user: parent.user.clone(), methods, parent: Some(parent.clone()) });
    }
    Err(Refusal::unauthorized())
}

impl Store {
    /// Makes a token for a user and a scope that both exist, without asking for a password.
    pub(crate) fn mint(&mut self, user: &str, project: &str, now: Moment) -> Option<String> {
        let identity = Identity { user: user.to_owned(), methods: vec!["password".to_owned()], parent: None };
        let token = self.issue(identity, &json!({"project": {"id": project}}), now).ok()?;
        let id = token.id.clone();
        self.keep_token(token, now);
        Some(id)
    }

    /// Makes a token with these roles, by their ids, without asking for a password or an assignment.
    pub(crate) fn mint_with(&mut self, user: &str, scope: Scope, roles: Vec<String>, now: Moment) -> String {
        let identity = Identity { user: user.to_owned(), methods: vec!["password".to_owned()], parent: None };
        let token = self.token(identity, user.to_owned(), scope, roles, now);
        let id = token.id.clone();
        self.keep_token(token, now);
        id
    }

    fn issue(&self, identity: Identity, scope: &Value, now: Moment) -> Result<Token, Refusal> {
        let mut user = identity.user.clone();
        let mut roles = Vec::new();
        let scope = if let Some(trust) = scope["OS-TRUST:trust"]["id"].as_str() {
            let (trustor, scope, held) = self.trust_scope(&user, trust, now)?;
            user = trustor;
            roles = held;
            scope
        } else if scope["project"].is_object() {
            let project = self.project_of(&scope["project"]).ok_or_else(Refusal::unauthorized)?;
            roles = self.roles_of(&user, &project);
            Scope::Project(project)
        } else if scope["domain"].is_object() {
            let domain = self.domain_of(&scope["domain"]).ok_or_else(Refusal::unauthorized)?;
            roles = self.roles_of(&user, &domain);
            Scope::Domain(domain)
        } else if let Some(project) = self.default_project(&user, scope) {
            roles = self.roles_of(&user, &project);
            Scope::Project(project)
        } else {
            Scope::Unscoped
        };
        if scope != Scope::Unscoped && roles.is_empty() {
            return Err(Refusal::unauthorized());
        }
        Ok(self.token(identity, user, scope, roles, now))
    }

    /// The token itself; nothing is checked any more.
    fn token(&self, identity: Identity, user: String, scope: Scope, roles: Vec<String>, now: Moment) -> Token {
        let role_names = roles.iter().filter_map(|id| self.roles.get(id)).map(|role| role.name.clone()).collect();
        let mut audit_ids = vec![hex_id()[..22].to_owned()];
        audit_ids.extend(identity.parent.as_ref().and_then(|parent| parent.audit_ids.last().cloned()));
        Token {
            id: format!("gAAAAAB{}{}", hex_id(), hex_id()),
            user,
            scope,
            roles,
            role_names,
            methods: identity.methods,
            application_credential: identity.parent.as_ref().and_then(|parent| parent.application_credential.clone()),
            audit_ids,
            issued_at: now,
            // A token made from a token dies with it.
            expires_at: identity.parent.map_or_else(|| now + self.token_lifetime, |parent| parent.expires_at),
        }
    }

    /// Whom a trust makes of its trustee, on what, and with which roles.
    fn trust_scope(&self, user: &str, trust: &str, now: Moment) -> Result<(String, Scope, Vec<String>), Refusal> {
        let found = self.live_trust(trust, now).ok_or_else(|| missing("trust", trust))?;
        if found.trustee != user {
            return Err(Refusal::forbidden("User is not a trustee."));
        }
        if !self.users.get(&found.trustor).is_some_and(|trustor| trustor.enabled) {
            return Err(Refusal::forbidden("Trustor is disabled."));
        }
        let project = found.project.clone().ok_or_else(Refusal::unauthorized)?;
        let held = self.roles_of(&found.trustor, &project);
        if !found.roles.iter().all(|role| held.contains(role)) {
            return Err(Refusal::forbidden("Trustee has no delegated roles."));
        }
        let mut roles = found.roles.clone();
        self.add_implied(&mut roles);
        let acting = if found.impersonation { &found.trustor } else { &found.trustee };
        Ok((acting.clone(), Scope::Trust { trust: found.id.clone(), project }, roles))
    }

    fn project_of(&self, named: &Value) -> Option<String> {
        if let Some(id) = named["id"].as_str() {
            return self.projects.contains_key(id).then(|| id.to_owned());
        }
        let domain = self.domain_of(&named["domain"])?;
        Some(self.project_named(named["name"].as_str()?, &domain)?.id.clone())
    }

    /// The default project is taken only when the request says nothing of a scope; `"unscoped"` says something.
    fn default_project(&self, user: &str, scope: &Value) -> Option<String> {
        if !scope.is_null() {
            return None;
        }
        let project = self.users.get(user)?.default_project.clone()?;
        (!self.roles_of(user, &project).is_empty()).then_some(project)
    }
}

/// An optional time in a request: absent, good, or refused.
pub(crate) fn optional_time(value: &Value) -> Result<Option<Moment>, Refusal> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => clock::parse(text).map(Some).ok_or_else(|| Refusal::bad_request("Invalid input for field 'expires_at'.")),
        _ => Err(Refusal::bad_request("Invalid input for field 'expires_at'.")),
    }
}
