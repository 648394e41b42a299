//! Projects, domains and roles, read only; and who has which role on a project.

use serde_json::{Value, json};

use crate::{
    http::{Answer, Call, Outcome, Refusal},
    keystone::{Assignment, Domain, Project, Role, Store, missing, no_links, require_admin},
    state::World,
};

pub(crate) fn projects(world: &mut World, call: &Call) -> Outcome {
    require_admin(call.token()?, None, "identity:list_projects")?;
    let projects = world.keystone.projects.values().filter(|project| {
        call.query("name").is_none_or(|name| name == project.name) && call.query("domain_id").is_none_or(|domain| domain == project.domain)
    });
    Answer::ok(json!({"projects": projects.map(project_view).collect::<Vec<_>>(), "links": no_links()}))
}

/// The projects the caller has a role on.
pub(crate) fn own_projects(world: &mut World, call: &Call) -> Outcome {
    let user = &call.token()?.user;
    let store = &world.keystone;
    let projects = store.projects.values().filter(|project| !store.roles_of(user, &project.id).is_empty());
    Answer::ok(json!({"projects": projects.map(project_view).collect::<Vec<_>>(), "links": no_links()}))
}

pub(crate) fn project(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    let token = call.token()?;
    // Whoever is scoped to it may see it; to others it is forbidden before it is missing.
    if token.project_id() != Some(id) {
        require_admin(token, None, "identity:get_project")?;
    }
    let project = world.keystone.projects.get(id).ok_or_else(|| missing("project", id))?;
    Answer::ok(json!({"project": project_view(project)}))
}

pub(crate) fn domains(world: &mut World, call: &Call) -> Outcome {
    require_admin(call.token()?, call.token()?.domain_id(), "identity:list_domains")?;
    let domains = world.keystone.domains.values().filter(|domain| call.query("name").is_none_or(|name| name == domain.name));
    Answer::ok(json!({"domains": domains.map(domain_view).collect::<Vec<_>>(), "links": no_links()}))
}

pub(crate) fn domain(world: &mut World, call: &Call) -> Outcome {
    let id = call.at(2);
    require_admin(call.token()?, Some(id), "identity:get_domain")?;
    let domain = world.keystone.domains.get(id).ok_or_else(|| missing("domain", id))?;
    Answer::ok(json!({"domain": domain_view(domain)}))
}

pub(crate) fn roles(world: &mut World, call: &Call) -> Outcome {
    require_admin(call.token()?, call.token()?.domain_id(), "identity:list_roles")?;
    let roles = world.keystone.roles.values().filter(|role| call.query("name").is_none_or(|name| name == role.name));
    Answer::ok(json!({"roles": roles.map(role_view).collect::<Vec<_>>(), "links": no_links()}))
}

pub(crate) fn role(world: &mut World, call: &Call) -> Outcome {
    require_admin(call.token()?, call.token()?.domain_id(), "identity:get_role")?;
    let role = world.keystone.roles.get(call.at(2)).ok_or_else(|| missing("role", call.at(2)))?;
    Answer::ok(json!({"role": role_view(role)}))
}

/// Who has which role on a project; with `effective` also what roles imply. The simulated Keystone has no groups.
pub(crate) fn assignments(world: &mut World, call: &Call) -> Outcome {
    require_admin(call.token()?, None, "identity:list_role_assignments")?;
    let needed = |key: &str| call.query(key).ok_or_else(|| Refusal::bad_request(format!("the simulated Keystone lists by {key} only")));
    let (user, project) = (needed("user.id")?, needed("scope.project.id")?);
    let store = &world.keystone;
    let held = if call.query("effective").is_some() { store.roles_of(user, project) } else { store.assigned(user, project) };
    let view = |role: String| json!({"role": {"id": role}, "user": {"id": user}, "scope": {"project": {"id": project}}, "links": {}});
    Answer::ok(json!({"role_assignments": held.into_iter().map(view).collect::<Vec<_>>(), "links": no_links()}))
}

/// Gives a user a role on a project; once is enough.
pub(crate) fn grant(world: &mut World, call: &Call) -> Outcome {
    require_admin(call.token()?, None, "identity:create_grant")?;
    let (project, user, role) = (call.at(2), call.at(4), call.at(6));
    let store = &mut world.keystone;
    for (kind, id, is_there) in [
        ("project", project, store.projects.contains_key(project)),
        ("user", user, store.users.contains_key(user)),
        ("role", role, store.roles.contains_key(role)),
    ] {
        if !is_there {
            return Err(missing(kind, id));
        }
    }
    let given = store.assignments.entry(user.to_owned()).or_default();
    if !given.iter().any(|known| known.target == project && known.role == role) {
        given.push(Assignment { target: project.to_owned(), role: role.to_owned() });
    }
    Answer::empty(204)
}

impl Store {
    /// The id of the domain a request names by `id` or `name`.
    pub(crate) fn domain_of(&self, named: &Value) -> Option<String> {
        if let Some(id) = named["id"].as_str() {
            return self.domains.contains_key(id).then(|| id.to_owned());
        }
        let name = named["name"].as_str()?;
        // Domain names know no case, as in the MariaDB under a real Keystone.
        self.domains.values().find(|domain| domain.name.eq_ignore_ascii_case(name)).map(|domain| domain.id.clone())
    }
}

fn project_view(project: &Project) -> Value {
    json!({"id": project.id, "name": project.name, "domain_id": project.domain, "parent_id": project.domain,
        "description": "", "enabled": true, "is_domain": false, "tags": [], "options": {}, "links": {}})
}

fn domain_view(domain: &Domain) -> Value {
    json!({"id": domain.id, "name": domain.name, "description": "", "enabled": true, "tags": [], "options": {}, "links": {}})
}

fn role_view(role: &Role) -> Value {
    json!({"id": role.id, "name": role.name, "domain_id": null, "description": null, "options": {}, "links": {}})
}
