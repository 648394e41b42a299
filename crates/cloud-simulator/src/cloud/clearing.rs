//! What an administrator removes by hand, when a report says what was left.

use super::Cloud;

impl Cloud {
    /// Removes a thing by what a report calls its kind and by its id, or its name where the report has no id. It may be gone, or never have been made.
    /// Says whether things of the kind can be removed so.
    pub fn remove_reported(&self, kind: &str, name: &str, id: Option<&str>) -> bool {
        match kind {
            "heat_stack" => self.remove_stack(id.unwrap_or(name)),
            "keystone_user" | "stack_owner" => {
                let user = id.map(str::to_owned).or_else(|| self.user_named(name));
                user.is_some_and(|user| self.remove_user_by_id(&user))
            }
            "nova_keypair" => self.remove_public_key(id.unwrap_or(name)),
            "keystone_trust" => id.is_some_and(|id| self.remove_trust(id)),
            "octavia_load_balancer" => id.is_some_and(|id| self.remove_load_balancer(id)),
            "neutron_floating_ip" => id.is_some_and(|id| self.remove_floating_ip(id)),
            "cinder_volume" => id.is_some_and(|id| self.remove_volume(id)),
            "certificate" => self.remove_key_pair(name),
            _ => return false,
        };
        true
    }

    fn user_named(&self, name: &str) -> Option<String> {
        self.world().keystone.users.values().find(|user| user.name == name).map(|user| user.id.clone())
    }

    /// The public key of a user by both their names, `USER/NAME`; Nova keeps it when the user is gone.
    fn remove_public_key(&self, reference: &str) -> bool {
        let mut world = self.world();
        let before = world.nova.keypairs.len();
        world.nova.keypairs.retain(|pair| pair.seeded || format!("{}/{}", pair.user, pair.name) != reference);
        world.nova.keypairs.len() < before
    }

    /// Containers of this name, and secrets whose names end in it.
    fn remove_key_pair(&self, name: &str) -> bool {
        let barbican = &mut self.world().barbican;
        let before = barbican.containers.len() + barbican.secrets.len();
        barbican.containers.retain(|_, container| container.name != name);
        barbican.secrets.retain(|_, secret| !secret.name.ends_with(name));
        barbican.containers.len() + barbican.secrets.len() < before
    }
}
