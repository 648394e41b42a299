//! A management cluster: a Kubernetes API with the kinds that a chart of Cluster API clusters makes, and a player in the place of the
//! controllers that would make machines of them.
//!
//! The API is honest where Helm and a driver can tell: versions of objects and generations, apply with owners of fields and conflicts, merge
//! patches, finalizers, owner references, lists by label, discovery. It checks no schemas and has no admission. The player makes no machine:
//! it walks the objects through what the real controllers would report, one step after the other, and fails where a test says so.

mod apply;
mod discovery;
mod http;
mod labels;
mod player;
mod protobuf;
mod store;
mod watch;

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use actix_web::{
    dev::ServerHandle,
    web::{self, Data},
};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::{
    clock,
    fault::{Fault, Faults},
    gate::Gate,
    management::{
        player::Player,
        store::{Key, Store},
        watch::Watches,
    },
    server,
    state::hex_id,
};

/// Deployments of controllers that connect to clusters: namespaces and names.
const CONTROLLERS: [(&str, &str); 3] = [
    ("capi-system", "capi-controller-manager"),
    ("capi-kubeadm-bootstrap-system", "capi-kubeadm-bootstrap-controller-manager"),
    ("capi-kubeadm-control-plane-system", "capi-kubeadm-control-plane-controller-manager"),
];

/// How a management cluster behaves.
#[derive(Clone, Debug)]
pub struct ManagementOptions {
    /// How long the controllers take for one step: a machine, an addon, a network.
    pub step: Duration,
}

impl Default for ManagementOptions {
    fn default() -> Self {
        Self { step: Duration::from_millis(100) }
    }
}

/// What the controllers do about an object otherwise than usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing more.
    Stall,
    /// They report a failure with this message.
    Fail(String),
    /// They do not let it go when it is deleted.
    Keep,
}

/// Everything behind one lock.
pub(crate) struct World {
    pub(crate) faults: Faults,
    pub(crate) store: Store,
    pub(crate) player: Player,
    pub(crate) watches: Watches,
    /// The last pass of the player.
    passed: Option<clock::Moment>,
}

pub(crate) struct Shared {
    world: Mutex<World>,
    token: Mutex<String>,
    gate: Gate,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn token(&self) -> MutexGuard<'_, String> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    pub(crate) fn advance(&mut self) {
        let now = clock::now();
        self.passed = Some(now);
        self.player.pass(&mut self.store, now);
    }

    /// As [`Self::advance`], for those who only wait that something happens: together they cost one pass in a tick.
    pub(crate) fn advance_seldom(&mut self) {
        if self.passed.is_none_or(|passed| clock::now() - passed >= clock::delta(watch::TICK)) {
            self.advance();
        }
    }
}

/// A running management cluster. Dropping it closes the port.
pub struct ManagementCluster {
    shared: Arc<Shared>,
    server: ServerHandle,
    url: String,
}

impl ManagementCluster {
    /// Binds a free port and starts. Works from any runtime.
    ///
    /// # Errors
    /// When no port can be bound or the server's thread cannot be started.
    pub async fn start(options: ManagementOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let url = format!("http://{}", listener.local_addr()?);
        let world = World {
            faults: Faults::default(),
            store: Store::default(),
            player: Player::new(clock::delta(options.step)),
            watches: Watches::default(),
            passed: None,
        };
        let shared = Arc::new(Shared { world: Mutex::new(world), token: Mutex::new(hex_id()), gate: Gate::default() });
        let data = Data::from(Arc::clone(&shared));
        let server = server::start("management-cluster", listener, move |app| {
            app.app_data(data.clone()).default_service(web::to(http::answer));
        })
        .await?;
        Ok(Self { shared, server, url })
    }

    /// A kubeconfig for it, with the token that it wants.
    pub fn kubeconfig(&self) -> String {
        let Self { url, shared, .. } = self;
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: management\n\
             contexts:\n- name: management\n  context: {{cluster: management, user: magnum}}\n\
             clusters:\n- name: management\n  cluster: {{server: \"{url}\"}}\n\
             users:\n- name: magnum\n  user: {{token: \"{}\"}}\n",
            shared.token()
        )
    }

    /// Makes a call go wrong: `kubernetes.get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `discover`, or `kubernetes.any`.
    pub fn inject(&self, fault: Fault) {
        self.world().faults.inject(fault);
    }

    /// Forgets all faults that wait.
    pub fn clear_faults(&self) {
        self.world().faults.clear();
    }

    /// How often a call was made.
    pub fn calls(&self, at: &str) -> usize {
        self.world().faults.calls(at)
    }

    /// The calls that changed something, in their order: `kubernetes.create` and so on.
    pub fn effects(&self) -> Vec<&'static str> {
        self.world().faults.effects().to_vec()
    }

    /// How many calls are held.
    pub fn held(&self) -> usize {
        self.shared.gate.held()
    }

    /// Lets go of every call that is held.
    pub fn let_go(&self) {
        self.shared.gate.let_go();
    }

    /// Cuts off every watch that is open, without a word.
    pub fn drop_watches(&self) {
        self.world().watches.cut_off();
    }

    /// Has every watch that is open stay open and say nothing any more, not even bookmarks.
    pub fn silence_watches(&self) {
        self.world().watches.silence();
    }

    /// Forgets all that has happened: who goes on from an earlier version is told 410.
    pub fn compact(&self) {
        self.world().store.compact();
    }

    /// Watches that were told 410: their version is too old.
    pub fn expired_watches(&self) -> usize {
        self.world().watches.expired()
    }

    /// Gives it another token; the former one is of no use any more.
    pub fn change_token(&self) {
        *self.shared.token() = hex_id();
    }

    /// Watches that are open.
    pub fn open_watches(&self) -> usize {
        self.world().watches.open()
    }

    /// Has the controllers be in trouble with every object of this kind whose name ends so; none: no more.
    pub fn trouble(&self, kind: &str, name_end: &str, trouble: Option<Trouble>) {
        self.world().player.set_trouble(kind, name_end, trouble);
    }

    /// Changes every object of this kind whose name ends so, by a merge patch, as somebody else who may. How many there were.
    pub fn change(&self, kind: &str, name_end: &str, patch: &Value) -> usize {
        let mut world = self.world();
        let named = world.store.of_kind(kind).filter(|(key, _)| key.name.ends_with(name_end));
        let found: Vec<(Key, Value)> = named.map(|(key, object)| (key.clone(), object.clone())).collect();
        let count = found.len();
        for (key, mut object) in found {
            apply::merge(&mut object, patch);
            world.store.replace(&key, object, false);
        }
        count
    }

    /// Deletes every object of this kind, as its operator may.
    pub fn delete_all(&self, kind: &str) {
        let mut world = self.world();
        let keys: Vec<Key> = world.store.of_kind(kind).map(|(key, _)| key.clone()).collect();
        for key in &keys {
            world.store.delete(key, clock::now());
        }
    }

    /// Has clusters stand still: nothing of them is made; or all of them go on.
    pub fn hold_clusters(&self, is_held: bool) {
        self.world().player.hold(is_held);
    }

    /// Puts the deployments of controllers there that connect to clusters: their namespaces and names, separated by slashes.
    pub fn install_controllers(&self) -> Vec<String> {
        let mut world = self.world();
        let find = |group, plural| discovery::find(group, "v1", plural).unwrap_or_default();
        let (namespaces, deployments) = (find("", "namespaces"), find("apps", "deployments"));
        for (namespace, name) in CONTROLLERS {
            let key = Key { kind: namespaces, namespace: String::new(), name: namespace.to_owned() };
            world.store.insert(key, json!({"metadata": {}}), clock::now());
            let key = Key { kind: deployments, namespace: namespace.to_owned(), name: name.to_owned() };
            let object = json!({"metadata": {}, "spec": {"replicas": 1, "template": {"metadata": {"labels": {"app": name}}}}});
            world.store.insert(key, object, clock::now());
        }
        CONTROLLERS.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect()
    }

    /// Has one cluster go on, by its name.
    pub fn let_cluster_go(&self, name: &str) {
        self.world().player.let_go(name);
    }

    /// When the status of anything of each cluster last changed, by the cluster's name.
    pub fn moved(&self) -> HashMap<String, DateTime<Utc>> {
        self.world().store.moved().clone()
    }

    /// All objects of a kind, as they are now.
    pub fn objects(&self, kind: &str) -> Vec<Value> {
        let mut world = self.world();
        world.advance();
        world.store.of_kind(kind).map(|(_, object)| object.clone()).collect()
    }

    /// What there is of each kind that a cluster leaves behind, one line each: everything but namespaces and the controllers.
    pub fn leftovers(&self) -> Vec<String> {
        let mut world = self.world();
        world.advance();
        let is_controller = |object: &Value| CONTROLLERS.iter().any(|(namespace, _)| object["metadata"]["namespace"] == *namespace);
        let all = world.store.all().filter(|(kind, object)| *kind != "Namespace" && !is_controller(object));
        all.map(|(kind, object)| format!("{kind} {}", object["metadata"]["name"].as_str().unwrap_or_default())).collect()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.shared.lock()
    }
}

impl Drop for ManagementCluster {
    fn drop(&mut self) {
        drop(self.server.stop(false));
    }
}

/// The troubles of a player, by kind and end of name.
pub(crate) type Troubles = HashMap<(String, String), Trouble>;
