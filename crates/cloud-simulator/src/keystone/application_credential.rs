//! Application credentials: made by their users for themselves, told once, good for one project.

use serde_json::{Value, json};

use crate::{
    http::{Answer, Call, Outcome, Refusal},
    keystone::{Store, denied, missing},
    state::{World, hex_id},
    token::Token,
};

/// An application credential. No `Debug`: it holds a secret.
#[derive(Clone)]
pub(crate) struct ApplicationCredential {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: Value,
    pub(crate) user: String,
    pub(crate) project: String,
    /// Role ids, those that the token had by which it was made.
    pub(crate) roles: Vec<String>,
    pub(crate) secret: String,
}

pub(crate) fn create(world: &mut World, call: &Call) -> Outcome {
    let token = call.token()?;
    // Nobody makes one for somebody else, nor by a trust, and a restricted credential makes no other.
    let is_restricted = token.application_credential.as_ref().is_some_and(|had_by| had_by.restricted);
    if token.user != call.at(2) || is_restricted || token.trust_id().is_some() {
        return Err(denied("identity:create_application_credential"));
    }
    let project = token.project_id().ok_or_else(|| Refusal::bad_request("A project-scoped token is needed."))?.to_owned();
    let body = call.json()?;
    let given = &body["application_credential"];
    let name =
        given["name"].as_str().filter(|name| !name.is_empty()).ok_or_else(|| Refusal::bad_request("'name' is a required property"))?;
    let store = &mut world.keystone;
    if store.application_credentials.values().any(|known| known.user == token.user && known.name == name) {
        let message = format!("Conflict occurred attempting to store application_credential - Duplicate entry found with name {name}.");
        return Err(Refusal::new(409, "Conflict", message));
    }
    let made = ApplicationCredential {
        id: hex_id(),
        name: name.to_owned(),
        description: given["description"].clone(),
        user: token.user.clone(),
        project,
        roles: token.roles.clone(),
        secret: format!("{}{}", hex_id(), hex_id()),
    };
    let mut view = view(store, &made);
    view["secret"] = json!(made.secret);
    store.application_credentials.insert(made.id.clone(), made);
    Answer::with(201, json!({"application_credential": view}))
}

pub(crate) fn list(world: &mut World, call: &Call) -> Outcome {
    let user = readable(call)?;
    let store = &world.keystone;
    if !store.users.contains_key(&user) {
        return Err(missing("user", &user));
    }
    let all = store.application_credentials.values().filter(|known| known.user == user);
    let all: Vec<Value> = all.filter(|known| call.query("name").is_none_or(|name| name == known.name)).map(|c| view(store, c)).collect();
    Answer::ok(json!({"application_credentials": all, "links": {"next": null, "self": null, "previous": null}}))
}

pub(crate) fn show(world: &mut World, call: &Call) -> Outcome {
    let user = readable(call)?;
    let id = call.at(4);
    let found = world.keystone.application_credentials.get(id).filter(|known| known.user == user);
    let found = found.ok_or_else(|| missing("application credential", id))?;
    Answer::ok(json!({"application_credential": view(&world.keystone, found)}))
}

pub(crate) fn delete(world: &mut World, call: &Call) -> Outcome {
    let user = readable(call)?;
    let id = call.at(4);
    let store = &mut world.keystone;
    if store.application_credentials.get(id).is_none_or(|known| known.user != user) {
        return Err(missing("application credential", id));
    }
    store.forget_application_credential(id);
    Answer::empty(204)
}

/// The user of the path, if the caller may see what is his.
fn readable(call: &Call) -> Result<String, Refusal> {
    let token: &Token = call.token()?;
    let user = call.at(2).to_owned();
    let is_admin = token.has_role("admin") && token.project_id().is_some();
    if token.user == user || is_admin { Ok(user) } else { Err(denied("identity:list_application_credentials")) }
}

impl Store {
    /// Takes one away, with the tokens that were had by it.
    pub(crate) fn forget_application_credential(&mut self, id: &str) {
        self.application_credentials.shift_remove(id);
        self.tokens.retain(|_, token| token.application_credential.as_ref().is_none_or(|known| known.id != id));
    }

    /// The credential that a login names and knows the secret of, if its user still has its roles.
    pub(crate) fn login_of_application(&self, given: &Value) -> Result<&ApplicationCredential, Refusal> {
        let found = given["id"].as_str().and_then(|id| self.application_credentials.get(id));
        let found = found.filter(|known| given["secret"].as_str() == Some(&known.secret)).ok_or_else(Refusal::unauthorized)?;
        let held = self.roles_of(&found.user, &found.project);
        let is_enabled = self.users.get(&found.user).is_some_and(|user| user.enabled);
        if is_enabled && found.roles.iter().all(|role| held.contains(role)) { Ok(found) } else { Err(Refusal::unauthorized()) }
    }
}

fn view(store: &Store, known: &ApplicationCredential) -> Value {
    let roles: Vec<Value> = known.roles.iter().filter_map(|id| store.roles.get(id)).map(|r| json!({"id": r.id, "name": r.name})).collect();
    json!({
        "id": known.id,
        "name": known.name,
        "description": known.description,
        "project_id": known.project,
        "roles": roles,
        "expires_at": null,
        "unrestricted": false,
        "links": {},
    })
}
