//! Users: made, found, changed and deleted by an administrator of everything or of their domain.

use serde_json::{Value, json};

use crate::{
    http::{Answer, Call, Outcome, Refusal},
    keystone::{Store, User, missing, no_links, require_admin},
    state::{World, hex_id},
};

pub(crate) fn create(world: &mut World, call: &Call) -> Outcome {
    let body = call.json()?;
    let given = &body["user"];
    let name = given["name"].as_str().filter(|name| !name.is_empty() && name.len() <= 255);
    let name = name.ok_or_else(|| Refusal::bad_request("Invalid input for field 'name': a name of 1 to 255 characters is required."))?;
    let token = call.token()?;
    let store = &mut world.keystone;
    let domain = match given["domain_id"].as_str() {
        Some(id) => id.to_owned(),
        None => token.domain_id().unwrap_or("default").to_owned(),
    };
    require_admin(token, Some(&domain), "identity:create_user")?;
    if !store.domains.contains_key(&domain) {
        return Err(missing("domain", &domain));
    }
    if store.user_named(name, &domain).is_some() {
        return Err(Refusal::new(
            409,
            "Conflict",
            format!("Conflict occurred attempting to store user - Duplicate entry found with name {name} at domain ID {domain}."),
        ));
    }
    let user = User {
        id: hex_id(),
        name: name.to_owned(),
        domain,
        password: given["password"].as_str().unwrap_or_default().to_owned(),
        description: given["description"].as_str().map(str::to_owned),
        default_project: given["default_project_id"].as_str().map(str::to_owned),
        enabled: given["enabled"].as_bool().unwrap_or(true),
        seeded: false,
    };
    let view = json!({"user": view(&user)});
    store.users.insert(user.id.clone(), user);
    Answer::with(201, view)
}

pub(crate) fn list(world: &mut World, call: &Call) -> Outcome {
    let token = call.token()?;
    // A domain administrator sees the own domain, asked for or not.
    let domain = call.query("domain_id").or(token.domain_id());
    require_admin(token, domain, "identity:list_users")?;
    let users = world
        .keystone
        .users
        .values()
        .filter(|user| domain.is_none_or(|domain| domain == user.domain) && call.query("name").is_none_or(|name| name == user.name));
    Answer::ok(json!({"users": users.map(view).collect::<Vec<_>>(), "links": no_links()}))
}

pub(crate) fn show(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    let token = call.token()?;
    let user = world.keystone.users.get(id);
    if token.user != id {
        require_admin(token, user.map(|user| user.domain.as_str()).or(token.domain_id()), "identity:get_user")?;
    }
    Answer::ok(json!({"user": view(user.ok_or_else(|| missing("user", id))?)}))
}

pub(crate) fn update(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    let body = call.json()?;
    let given = &body["user"];
    let token = call.token()?;
    let store = &mut world.keystone;
    let domain = store.users.get(id).map(|user| user.domain.clone());
    require_admin(token, domain.as_deref().or(token.domain_id()), "identity:update_user")?;
    let user = store.users.get_mut(id).ok_or_else(|| missing("user", id))?;
    if let Some(password) = given["password"].as_str() {
        user.password = password.to_owned();
    }
    if let Some(name) = given["name"].as_str() {
        user.name = name.to_owned();
    }
    if let Some(enabled) = given["enabled"].as_bool() {
        user.enabled = enabled;
    }
    if let Some(description) = given["description"].as_str() {
        user.description = Some(description.to_owned());
    }
    let view = json!({"user": view(user)});
    if given["password"].is_string() || given["enabled"] == json!(false) {
        // A changed password ends what was opened with the old one, as Keystone's revocation events do.
        store.tokens.retain(|_, token| token.user != id);
    }
    Answer::ok(view)
}

pub(crate) fn delete(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    let token = call.token()?;
    let store = &mut world.keystone;
    let domain = store.users.get(id).map(|user| user.domain.clone());
    require_admin(token, domain.as_deref().or(token.domain_id()), "identity:delete_user")?;
    store.delete_user(id).ok_or_else(|| missing("user", id))?;
    Answer::empty(204)
}

impl Store {
    /// Deletes a user with everything that rests on the user.
    pub(crate) fn delete_user(&mut self, id: &str) -> Option<User> {
        let user = self.users.shift_remove(id)?;
        self.assignments.remove(id);
        self.tokens.retain(|_, token| token.user != id);
        self.application_credentials.retain(|_, known| known.user != id);
        let trusts: Vec<String> =
            self.trusts.values().filter(|trust| trust.trustor == id || trust.trustee == id).map(|trust| trust.id.clone()).collect();
        for trust in trusts {
            self.delete_trust(&trust);
        }
        Some(user)
    }
}

fn view(user: &User) -> Value {
    let mut view = json!({
        "id": user.id,
        "name": user.name,
        "domain_id": user.domain,
        "enabled": user.enabled,
        "password_expires_at": null,
        "options": {},
        "links": {},
    });
    if let Some(description) = &user.description {
        view["description"] = json!(description);
    }
    if let Some(project) = &user.default_project {
        view["default_project_id"] = json!(project);
    }
    view
}
