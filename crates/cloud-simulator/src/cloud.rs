//! The test's hold on the cloud: faults, the clock of stacks, counts, and what is left over.
//!
//! It shares the state that the HTTP side answers from; nothing here is reachable over HTTP, so nothing here can be mistaken for
//! what a real cloud offers.

mod clearing;
mod copies;
mod ends;
mod front;
mod tokens;
mod users;

use std::{
    fmt,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::{
    barbican, cinder, clock,
    fault::Fault,
    heat::{Resource, Stack, status_name},
    neutron, octavia,
    state::{Shared, World, dashed_id},
};

pub use copies::{StackBrief, StackCopy};
pub use tokens::TokenScope;

/// A hold on a simulated cloud; cheap to clone.
#[derive(Clone)]
pub struct Cloud {
    shared: Arc<Shared>,
}

/// A load balancer that no stack makes.
#[derive(Clone, Debug, Default)]
pub struct NewLoadBalancer {
    /// The id of its project.
    pub project: String,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// The id of the stack on whose network it has its address: while it is there, that stack cannot be deleted.
    pub stack: Option<String>,
}

/// A stack as a test sees it.
#[derive(Clone, PartialEq)]
pub struct StackView {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The id of its project.
    pub project: String,
    /// `CREATE_IN_PROGRESS` and the like.
    pub status: String,
    /// Why it has that status.
    pub status_reason: String,
    /// When it began what it is doing or did last.
    pub began: DateTime<Utc>,
    /// Its parameters, the hidden ones in clear.
    pub parameters: Map<String, Value>,
}

impl StackView {
    fn of(stack: &Stack) -> Self {
        Self {
            id: stack.id.clone(),
            name: stack.name.clone(),
            project: stack.project.clone(),
            status: status_name(stack.action, stack.phase),
            status_reason: stack.reason.clone(),
            began: stack.started,
            parameters: stack.parameters.clone(),
        }
    }
}

impl fmt::Debug for StackView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Parameters carry passwords and keys.
        let Self { id, name, project, status, status_reason, began: _, parameters: _ } = self;
        write!(formatter, "stack {name} ({id}) of {project}: {status} ({status_reason})")
    }
}

/// What a stack may leave behind, by resource type.
const THINGS: [(&str, &str); 10] = [
    ("OS::Nova::Server", "server"),
    ("OS::Neutron::Port", "port"),
    ("OS::Octavia::LoadBalancer", "load balancer"),
    ("OS::Neutron::FloatingIP", "floating ip"),
    ("OS::Neutron::SecurityGroup", "security group"),
    ("OS::Neutron::Net", "network"),
    ("OS::Neutron::Subnet", "subnet"),
    ("OS::Neutron::Router", "router"),
    ("OS::Cinder::Volume", "volume"),
    ("OS::Designate::RecordSet", "record"),
];

impl Cloud {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Makes a named call go wrong.
    pub fn inject(&self, fault: Fault) {
        self.world().faults.inject(fault);
    }

    /// Forgets the faults of a call that wait, as they name it.
    pub fn clear_faults_at(&self, at: &str) {
        self.world().faults.clear_at(at);
    }

    /// Forgets all faults that wait.
    pub fn clear_faults(&self) {
        self.world().faults.clear();
    }

    /// How often `heat.stack_create`, `heat.any` or `*.any` was called.
    pub fn calls(&self, at: &str) -> usize {
        self.world().faults.calls(at)
    }

    /// The calls so far that changed something, in their order; logins are among them.
    pub fn effects(&self) -> Vec<&'static str> {
        self.world().faults.effects().to_vec()
    }

    /// How many calls are held ([`crate::How::Hold`]).
    pub fn held(&self) -> usize {
        self.shared.gate.held()
    }

    /// Lets go of every call that is held.
    pub fn let_go(&self) {
        self.shared.gate.let_go();
    }

    /// The stacks that are not deleted.
    pub fn stacks(&self) -> Vec<StackView> {
        self.world().heat.all_live().map(StackView::of).collect()
    }

    /// How many stacks are not deleted.
    pub fn stack_count(&self) -> usize {
        self.world().heat.all_live().count()
    }

    /// All stacks that were made, also those that are deleted; but for the oldest of these, when there are very many.
    pub fn stacks_ever(&self) -> Vec<StackView> {
        self.world().heat.stacks.values().map(StackView::of).collect()
    }

    /// Whether administrators may list the stacks of all projects; Heat's own policy denies it.
    pub fn allow_global_index(&self, allow: bool) {
        self.world().heat.allows_global_index = allow;
    }

    /// While held, stacks stay in progress until [`Cloud::complete_stack`] or [`Cloud::fail_stack`] ends them.
    pub fn hold_stacks(&self, hold: bool) {
        self.world().heat.held_at = hold.then_some(usize::MAX);
    }

    /// As [`Cloud::hold_stacks`], and stacks stop when so many of the resources that they make or delete are done. One that has come further stays
    /// where it is.
    pub fn hold_stacks_at(&self, resources: usize) {
        self.world().heat.held_at = Some(resources);
    }

    /// Everything that a cluster made and that still exists, one line each; of one project, or of all.
    pub fn leftovers(&self, project_id: Option<&str>) -> Vec<String> {
        let world = self.world();
        let is_asked = |project: &str| project_id.is_none_or(|asked| asked == project);
        let mut lines = Vec::new();
        for stack in world.heat.all_live().filter(|stack| is_asked(&stack.project)) {
            lines.push(format!("stack {} ({}) {}", stack.name, stack.id, status_name(stack.action, stack.phase)));
        }
        let kinds: Vec<&str> = THINGS.iter().map(|(kind, _)| *kind).collect();
        for (_, resource) in world.heat.things(project_id, &kinds) {
            lines.push(format!("{} {} ({})", thing(resource), resource.label, resource.physical));
        }
        for (id, other) in world.octavia.others.iter().filter(|(_, other)| is_asked(&other.project)) {
            lines.push(format!("load balancer {} ({id})", other.name));
        }
        for (id, other) in world.neutron.floating_ips.iter().filter(|(_, other)| is_asked(&other.project)) {
            lines.push(format!("floating ip {} ({id})", other.description));
        }
        for (id, other) in world.cinder.others.iter().filter(|(_, other)| is_asked(&other.project)) {
            lines.push(format!("volume {} ({id})", other.name));
        }
        for (id, container) in world.barbican.containers.iter().filter(|(_, container)| is_asked(&container.project)) {
            lines.push(format!("container {} ({id})", container.name));
        }
        for (id, secret) in world.barbican.secrets.iter().filter(|(_, secret)| is_asked(&secret.project)) {
            lines.push(format!("secret {} ({id})", secret.name));
        }
        for trust in world.keystone.trusts.values().filter(|trust| trust.project.as_deref().is_none_or(is_asked)) {
            lines.push(format!("trust {} from {} to {}", trust.id, trust.trustor, trust.trustee));
        }
        for credential in world.keystone.application_credentials.values().filter(|known| is_asked(&known.project)) {
            lines.push(format!("application credential {} ({})", credential.name, credential.id));
        }
        for user in world.keystone.users.values().filter(|user| !user.seeded) {
            // One who works for a cluster belongs to no project; the name says which one it works for.
            if project_id.is_none_or(|project| user.name.contains(project)) {
                lines.push(format!("user {} ({})", user.name, user.id));
            }
        }
        for pair in world.nova.keypairs.iter().filter(|pair| !pair.seeded && project_id.is_none()) {
            lines.push(format!("key pair {} of {}", pair.name, pair.user));
        }
        lines
    }

    /// How much of a resource, by its service's name for it, a project may have, by its id; none: any number. Only told, never enforced.
    pub fn set_quota(&self, project: &str, resource: &str, most: Option<u64>) {
        let key = (project.to_owned(), resource.to_owned());
        let quotas = &mut self.world().quotas;
        match most {
            Some(most) => quotas.insert(key, most),
            None => quotas.remove(&key),
        };
    }

    /// Adds a load balancer that no stack made, as Kubernetes inside a cluster does. Returns its id.
    pub fn add_load_balancer(&self, new: NewLoadBalancer) -> String {
        let NewLoadBalancer { project, name, description, tags, stack } = new;
        let (status, created) = ("ACTIVE".to_owned(), clock::now());
        self.world().octavia.add(octavia::Other { project, name, description, tags, stack, status, created, leaves: None })
    }

    /// Gives a load balancer that no stack made another `provisioning_status`. Says whether there is such a one.
    pub fn set_load_balancer_status(&self, id: &str, status: &str) -> bool {
        let mut world = self.world();
        let found = world.octavia.others.get_mut(id);
        found.map(|other| status.clone_into(&mut other.status)).is_some()
    }

    /// The numbers of the masters that are in the pools of stacks.
    pub fn api_members(&self) -> Vec<String> {
        let world = self.world();
        let stacks = world.heat.all_live();
        // As in `kube_masters/0/api_pool_member`.
        let members = stacks.flat_map(octavia::members).filter_map(|member| member.path.rsplit('/').nth(1));
        members.map(str::to_owned).collect()
    }

    /// So many of the deletions of load balancers that are to come end in ERROR.
    pub fn fail_load_balancer_deletions(&self, count: u32) {
        self.world().octavia.failing = count;
    }

    /// Deletes a load balancer that no stack made at once, as somebody else might. Says whether there was such a one.
    pub fn remove_load_balancer(&self, id: &str) -> bool {
        let mut world = self.world();
        world.neutron.release(&[octavia::port_of(id)]);
        world.octavia.others.shift_remove(id).is_some()
    }

    /// Adds a floating IP that no stack made, on the port of a load balancer if one is given. Returns its id.
    pub fn add_floating_ip(&self, project: &str, description: &str, load_balancer: Option<&str>) -> String {
        let id = dashed_id();
        let (project, description) = (project.to_owned(), description.to_owned());
        let other = neutron::FloatingIp { project, description, port: load_balancer.map(octavia::port_of) };
        self.world().neutron.floating_ips.insert(id.clone(), other);
        id
    }

    /// Deletes a floating IP that no stack made, as its owner might. Says whether there was such a one.
    pub fn remove_floating_ip(&self, id: &str) -> bool {
        self.world().neutron.floating_ips.shift_remove(id).is_some()
    }

    /// Adds a network that no stack made, with a subnet `<name>-subnet`. As in a real cloud, others may be called the same.
    pub fn add_network(&self, project: &str, name: &str, is_external: bool) {
        self.world().neutron.add(name, &dashed_id(), project, "10.9.0.0/24", is_external);
    }

    /// Adds a volume that no stack made, attached to a server of a stack (by its id) if one is given. Returns its id.
    pub fn add_volume(&self, project: &str, name: &str, metadata: Value, stack: Option<&str>) -> String {
        let (project, name, stack) = (project.to_owned(), name.to_owned(), stack.map(str::to_owned));
        self.world().cinder.add(cinder::Other { project, name, metadata, stack, has_snapshot: false, created: clock::now() })
    }

    /// Makes a snapshot of a volume that no stack made, or removes it. Says whether there is such a volume.
    pub fn set_snapshot(&self, id: &str, is_there: bool) -> bool {
        self.world().cinder.others.get_mut(id).map(|other| other.has_snapshot = is_there).is_some()
    }

    /// Deletes a volume that no stack made, as its owner might. Says whether there was such a one.
    pub fn remove_volume(&self, id: &str) -> bool {
        self.world().cinder.others.shift_remove(id).is_some()
    }

    /// Adds an image that is as another one but for its name, which may be that of the other. Returns its id.
    ///
    /// # Panics
    /// When there is no such other.
    pub fn add_image(&self, name: &str, like: &str) -> String {
        self.world().glance.add(name, like).unwrap_or_else(|| panic!("there is no image {like}"))
    }

    /// Says what the nodes of the images of this name need: GiB of disk, and MiB of memory.
    pub fn set_image_needs(&self, name: &str, disk: u64, memory: u64) {
        self.world().glance.set_needs(name, disk, memory);
    }

    /// Says how large the disks are that are in the images of this name, in bytes.
    pub fn set_image_disk(&self, name: &str, size: u64) {
        self.world().glance.set_disk(name, size);
    }

    /// What every secret in Barbican holds.
    pub fn barbican_payloads(&self) -> Vec<String> {
        self.world().barbican.secrets.values().filter_map(|secret| secret.payload.clone()).collect()
    }

    /// Deletes all that Barbican holds, as an administrator might.
    pub fn empty_barbican(&self) {
        self.world().barbican = barbican::Store::default();
    }

    /// Takes a service out of the catalogue, by the type under which it is listed.
    pub fn withdraw_service(&self, kind: &'static str) {
        self.world().keystone.withdrawn.push(kind);
    }

    /// A new token for a seeded user on a project, both by name.
    ///
    /// # Panics
    /// When there is no such user or project, or the user has no role there.
    pub fn token_for(&self, user: &str, project: &str) -> String {
        let mut world = self.world();
        let keystone = &mut world.keystone;
        let user_id = keystone.users.values().find(|known| known.name == user).map(|known| known.id.clone());
        let project_id = keystone.project_named(project, "default").map(|known| known.id.clone());
        user_id
            .zip(project_id)
            .and_then(|(user, project)| keystone.mint(&user, &project, clock::now()))
            .unwrap_or_else(|| panic!("user {user} has no role on project {project}"))
    }

    /// Whether Keystone lets who came by an application credential manage trusts, as older ones do; it does not at first.
    pub fn allow_trusts_by_credential(&self, allow: bool) {
        self.world().keystone.trusts_by_credential = allow;
    }

    /// The id of a seeded project.
    ///
    /// # Panics
    /// When there is no such project.
    pub fn project_id(&self, name: &str) -> String {
        let world = self.world();
        let project = world.keystone.project_named(name, "default");
        project.unwrap_or_else(|| panic!("there is no project {name}")).id.clone()
    }

    /// The id of a seeded user.
    ///
    /// # Panics
    /// When there is no such user.
    pub fn user_id(&self, name: &str) -> String {
        let world = self.world();
        let user = world.keystone.users.values().find(|user| user.name == name);
        user.unwrap_or_else(|| panic!("there is no user {name}")).id.clone()
    }

    /// How long tokens live that are issued from now on.
    pub fn set_token_lifetime(&self, lifetime: Duration) {
        self.world().keystone.token_lifetime = clock::delta(lifetime);
    }

    /// Puts the container-infra service at this address into the catalogue.
    pub fn set_container_infra_url(&self, url: impl Into<String>) {
        self.world().container_infra_url = Some(url.into());
    }

    fn world(&self) -> MutexGuard<'_, World> {
        let mut world = self.shared.lock();
        world.advance(clock::now());
        world
    }
}

fn thing(resource: &Resource) -> &'static str {
    THINGS.iter().find(|(kind, _)| *kind == resource.acts_as).map_or("thing", |(_, name)| name)
}
