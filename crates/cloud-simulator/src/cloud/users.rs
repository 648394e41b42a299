//! What an administrator of Keystone might do to users and projects.

use super::Cloud;
use crate::keystone;
use crate::state::hex_id;

impl Cloud {
    /// Deletes a seeded user, with tokens and trusts, as an administrator might. Says whether there was such a user.
    pub fn remove_user(&self, name: &str) -> bool {
        let mut world = self.world();
        let id = world.keystone.users.values().find(|user| user.name == name).map(|user| user.id.clone());
        id.and_then(|id| world.keystone.delete_user(&id)).is_some()
    }

    /// Deletes a seeded project, with what Keystone deletes along with it, as an administrator might; what is in it stays. Says whether there
    /// was such a project.
    pub fn remove_project(&self, name: &str) -> bool {
        let mut world = self.world();
        let id = world.keystone.project_named(name, "default").map(|project| project.id.clone());
        id.is_some_and(|id| world.keystone.delete_project(&id))
    }

    /// Takes a role of a project from a seeded user, all by name, as an administrator might. Says whether the user had it.
    pub fn take_role(&self, user: &str, project: &str, role: &str) -> bool {
        let mut world = self.world();
        let keystone = &mut world.keystone;
        let user = keystone.users.values().find(|known| known.name == user).map(|known| known.id.clone());
        let role = keystone.roles.values().find(|known| known.name == role).map(|known| known.id.clone());
        let project = keystone.project_named(project, "default").map(|known| known.id.clone());
        let Some(given) = user.and_then(|user| keystone.assignments.get_mut(&user)) else { return false };
        let before = given.len();
        given.retain(|known| (Some(&known.target), Some(&known.role)) != (project.as_ref(), role.as_ref()));
        given.len() < before
    }

    /// From now on tokens say whether they are of this project, whose administrators alone are the cloud's; none: they say nothing of it, as at
    /// first.
    ///
    /// # Panics
    /// When there is no such project.
    pub fn set_admin_project(&self, name: Option<&str>) {
        let id = name.map(|name| self.project_id(name));
        self.world().keystone.admin_project = id;
    }

    /// Deletes a trust by its id, with those that were made from it, as its giver might. Says whether there was such a trust.
    pub fn remove_trust(&self, id: &str) -> bool {
        let keystone = &mut self.world().keystone;
        let was_there = keystone.trusts.contains_key(id);
        keystone.delete_trust(id);
        was_there
    }

    /// Lets a trust be handed on so many times, as one that an earlier release of the service made. Says whether there is such a trust.
    pub fn set_redelegations(&self, id: &str, times: u64) -> bool {
        let mut world = self.world();
        let Some(trust) = world.keystone.trusts.get_mut(id) else { return false };
        trust.redelegation_count = times;
        true
    }

    /// Makes a user of the trustee domain that no cluster has, as one that was forgotten. Returns its id.
    ///
    /// # Panics
    /// When there is no such domain.
    pub fn add_user(&self, name: &str, domain: &str) -> String {
        let mut world = self.world();
        let domain = world.keystone.domains.values().find(|known| known.name == domain).map(|known| known.id.clone());
        let user = keystone::User {
            id: hex_id(),
            name: name.to_owned(),
            domain: domain.unwrap_or_else(|| panic!("there is no such domain")),
            password: String::new(),
            description: None,
            default_project: None,
            enabled: true,
            seeded: false,
        };
        let id = user.id.clone();
        world.keystone.users.insert(id.clone(), user);
        id
    }

    /// Gives another password to each user whose name ends so, which ends what was opened with the former ones. Says how many there are.
    pub fn change_passwords(&self, ending: &str, password: &str) -> usize {
        let keystone = &mut self.world().keystone;
        let mut changed = Vec::new();
        for user in keystone.users.values_mut().filter(|user| user.name.ends_with(ending)) {
            user.password = password.to_owned();
            changed.push(user.id.clone());
        }
        keystone.tokens.retain(|_, token| !changed.contains(&token.user));
        changed.len()
    }

    /// Deletes a user by its id, and the key pairs that were made for it, as an administrator might. Says whether there was such a user.
    pub fn remove_user_with_keys(&self, id: &str) -> bool {
        let mut world = self.world();
        world.nova.keypairs.retain(|pair| pair.user != id || pair.seeded);
        world.keystone.delete_user(id).is_some()
    }

    /// Deletes a user by its id, as an administrator might. Says whether there was such a user.
    pub fn remove_user_by_id(&self, id: &str) -> bool {
        self.world().keystone.delete_user(id).is_some()
    }
}
