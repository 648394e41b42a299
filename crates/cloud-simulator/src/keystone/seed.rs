//! Who is there from the start: the users and projects of the real lab, with the same passwords.

use std::collections::HashMap;

use chrono::TimeDelta;
use indexmap::IndexMap;

use crate::{
    keystone::{Assignment, Domain, MANY_TOKENS, Project, Role, Store, User},
    state::seeded,
};

const DOMAINS: [&str; 2] = ["Default", "magnum"];
const PROJECTS: [&str; 4] = ["admin", "service", "demo", "demo2"];
const ROLES: [&str; 8] = ["admin", "manager", "member", "reader", "service", "load-balancer_member", "creator", "heat_stack_user"];

/// The password of the users of services: a word of its own, so that where it is printed it is found.
pub const SERVICE_PASSWORD: &str = "simulated-service";

/// Name, password, domain, and the roles by target; a target that is no project is a domain.
type Seed = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

const USERS: [Seed; 9] = [
    ("admin", "admin", "Default", "admin", &["admin"]),
    ("magnum", SERVICE_PASSWORD, "Default", "service", &["admin", "service"]),
    // Whom Heat acts through later; nobody logs in as this user.
    ("heat", SERVICE_PASSWORD, "Default", "service", &["admin", "service"]),
    ("demo", "demo", "Default", "demo", &["member", "load-balancer_member", "creator"]),
    ("demo2", "demo2", "Default", "demo2", &["member", "load-balancer_member", "creator"]),
    ("reader", "reader", "Default", "demo", &["reader"]),
    ("member2", "member2", "Default", "demo", &["member", "load-balancer_member", "creator"]),
    ("nobody", "nobody", "Default", "demo", &["heat_stack_user"]),
    ("magnum_domain_admin", SERVICE_PASSWORD, "magnum", "magnum", &["admin"]),
];

impl Store {
    /// Keystone with the seeded domains, projects, users and roles.
    pub(crate) fn seeded() -> Self {
        let domains: IndexMap<_, _> = DOMAINS
            .iter()
            .map(|name| Domain { id: domain_id(name), name: (*name).to_owned() })
            .map(|domain| (domain.id.clone(), domain))
            .collect();
        let projects: IndexMap<_, _> = PROJECTS
            .iter()
            .map(|name| Project { id: id("project", name), name: (*name).to_owned(), domain: "default".to_owned() })
            .map(|project| (project.id.clone(), project))
            .collect();
        let roles: IndexMap<_, _> =
            ROLES.iter().map(|name| Role { id: id("role", name), name: (*name).to_owned() }).map(|role| (role.id.clone(), role)).collect();
        let mut users = IndexMap::new();
        let mut assignments = HashMap::new();
        for (name, password, domain, target, held) in USERS {
            let is_project = PROJECTS.contains(&target);
            let target = if is_project { id("project", target) } else { domain_id(target) };
            let user = User {
                id: id("user", name),
                name: name.to_owned(),
                domain: domain_id(domain),
                password: password.to_owned(),
                description: None,
                default_project: is_project.then(|| target.clone()),
                enabled: true,
                seeded: true,
            };
            let given = held.iter().map(|role| Assignment { target: target.clone(), role: id("role", role) });
            assignments.entry(user.id.clone()).or_insert_with(Vec::new).extend(given);
            users.insert(user.id.clone(), user);
        }
        Self {
            domains,
            projects,
            users,
            roles,
            assignments,
            trusts: IndexMap::new(),
            application_credentials: IndexMap::new(),
            tokens: HashMap::new(),
            many_tokens: MANY_TOKENS,
            token_lifetime: TimeDelta::hours(1),
            trusts_by_credential: false,
            withdrawn: Vec::new(),
            admin_project: None,
        }
    }
}

fn id(kind: &str, name: &str) -> String {
    seeded(kind, name).simple().to_string()
}

fn domain_id(name: &str) -> String {
    if name == "Default" { "default".to_owned() } else { id("domain", name) }
}
