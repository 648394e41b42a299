//! Tokens of every scope and role, without an assignment behind them.

use chrono::TimeDelta;

use super::Cloud;
use crate::{
    clock,
    keystone::trust::NewTrust,
    state::seeded,
    token::{HadBy, Scope},
};

/// What a token is for.
#[derive(Clone, Copy, Debug)]
pub enum TokenScope<'a> {
    /// Nothing: its holder has proved who he is, and has no roles.
    Unscoped,
    /// A seeded project, by name.
    Project(&'a str),
    /// A seeded domain, by name.
    Domain(&'a str),
    /// The whole system.
    System,
}

impl Cloud {
    /// A token of a seeded user with exactly these roles and those that they imply.
    ///
    /// # Panics
    /// When there is no such user, project, domain or role, or roles are asked for without a scope.
    pub fn token_with(&self, user: &str, scope: TokenScope<'_>, roles: &[&str]) -> String {
        let user = self.user_id(user);
        let mut world = self.world();
        let keystone = &mut world.keystone;
        let scope = match scope {
            TokenScope::Unscoped => Scope::Unscoped,
            TokenScope::System => Scope::System,
            TokenScope::Project(name) => {
                let project = keystone.project_named(name, "default");
                Scope::Project(project.unwrap_or_else(|| panic!("there is no project {name}")).id.clone())
            }
            TokenScope::Domain(name) => {
                let domain = keystone.domains.values().find(|domain| domain.name == name);
                Scope::Domain(domain.unwrap_or_else(|| panic!("there is no domain {name}")).id.clone())
            }
        };
        assert!(scope != Scope::Unscoped || roles.is_empty(), "an unscoped token has no roles");
        let mut held: Vec<String> = roles
            .iter()
            .map(|name| {
                keystone.roles.values().find(|role| role.name == *name).unwrap_or_else(|| panic!("there is no role {name}")).id.clone()
            })
            .collect();
        keystone.add_implied(&mut held);
        keystone.mint_with(&user, scope, held, clock::now())
    }

    /// A token of a seeded user with all his roles on a project, got with an application credential.
    ///
    /// # Panics
    /// When there is no such user or project, or the user has no role there.
    pub fn token_of_credential(&self, user: &str, project: &str, restricted: bool) -> String {
        let id = self.token_for(user, project);
        let mut world = self.world();
        let token = world.keystone.tokens.get_mut(&id).expect("it was made a moment ago");
        token.methods = vec!["application_credential".to_owned()];
        let credential = seeded("application credential", user).simple().to_string();
        token.application_credential = Some(HadBy { id: credential, restricted });
        id
    }

    /// A token of a seeded user through a trust that another one gave him with all roles on a project, to be handed on so many times; and the
    /// trust's id.
    ///
    /// # Panics
    /// When there is no such user or project, or the giver has no role there.
    pub fn token_through_trust(&self, giver: &str, project: &str, taker: &str, times: u64) -> (String, String) {
        let id = self.token_for(giver, project);
        let (trustor, trustee, project) = (self.user_id(giver), self.user_id(taker), self.project_id(project));
        let keystone = &mut self.world().keystone;
        let token = keystone.tokens[&id].clone();
        let wanted = NewTrust {
            trustor: trustor.clone(),
            trustee,
            project: Some(project.clone()),
            impersonation: true,
            roles: token.roles.clone(),
            expires_at: None,
            allow_redelegation: times > 0,
            redelegation_count: Some(times),
        };
        let trust = keystone.make_trust(&token, wanted, clock::now()).unwrap_or_else(|_| panic!("{giver} cannot give what he has"));
        let scope = Scope::Trust { trust: trust.id.clone(), project };
        (keystone.mint_with(&trustor, scope, token.roles, clock::now()), trust.id)
    }

    /// Takes a token back, as Keystone does when its user is disabled.
    pub fn revoke_token(&self, token: &str) {
        self.world().keystone.tokens.remove(token);
    }

    /// Ends a token's life.
    pub fn expire_token(&self, token: &str) {
        if let Some(token) = self.world().keystone.tokens.get_mut(token) {
            token.expires_at = clock::now() - TimeDelta::seconds(1);
        }
    }
}
