//! Every effect of every operation × the moment at which its conductor is killed, frozen, or left without an answer.
//!
//! No effect is listed by hand: each operation is carried out once without faults, the simulated cloud notes what it changed, and each of
//! those changes is then met, at every other moment, but where others of the same kind stand for it (`thinned`). After each cell the operation has
//! ended well, everything exists once, and once the cluster is deleted nothing is left. What an operation stores in the database is met in the
//! same way (`commits.rs`). `cargo xtask test --every-cell` leaves none out and says how many there are.

mod act;
mod commits;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How, NewLoadBalancer};
use model::operation::OperationKind;
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tests::cells::{self, Share};
use tests::client::{Client, cluster, text};
use tests::login::Held;
use tests::nodes::servers_by_id;
use tests::notifications;
use tests::wait::{self, Seen};
use tests::world::{Mix, Options, World};

use act::{ACTS, Act};

/// A takeover takes a lease (4 s); on a busy machine much more.
const PATIENCE: Duration = Duration::from_secs(90);

/// Where there are minutes, a moment meets one of so many effects.
const SHARE: usize = 3;

/// What happens at the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The owner is killed when the cloud has the request and has not begun.
    KilledBefore,
    /// The owner is killed when the cloud has done it and has not answered.
    KilledDuring,
    /// The owner is killed when it has the answer: somewhere between that and the next effect.
    KilledAfter,
    /// The answer is lost; the owner lives and does the step again.
    AnswerLost,
    /// The owner freezes while it waits for the answer, another one finishes, and then it goes on.
    OwnerLate,
    /// The request itself is late: it reaches the cloud when another owner has finished.
    EffectLate,
}

impl Moment {
    /// What the cloud does about the call.
    pub(crate) fn how(self) -> How {
        match self {
            Self::KilledBefore | Self::EffectLate => How::Hold,
            Self::KilledDuring | Self::OwnerLate => How::ActThenHold,
            Self::KilledAfter => How::Slow(Duration::from_millis(1)),
            Self::AnswerLost => How::AcceptThenLose,
        }
    }
}

/// One effect of an operation: the `nth` call of this name.
#[derive(PartialEq, Eq)]
struct Effect {
    name: &'static str,
    nth: u32,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.nth)
    }
}

/// What clusters are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One master; certificates in the database.
    Usual,
    /// Three masters behind a load balancer; certificates with Barbican.
    Large,
}

impl Shape {
    fn options(self) -> Options {
        // Both who gives a forced deletion its time and who works in it: one that loses its conductor has time for all of it still.
        let mut environment: BTreeMap<_, _> = [("OS_OPERATIONS__FORCE_DELETE_SECONDS".to_owned(), "60".to_owned())].into();
        environment.append(&mut notifications::unheard());
        if self == Self::Large {
            environment.insert("OS_CERTIFICATES__CERT_MANAGER_TYPE".to_owned(), "barbican".to_owned());
        }
        Options { apis: 1, stack: Duration::from_millis(200), environment, ..Options::default() }
    }
}

struct Scene {
    world: World,
    demo: Client,
    admin: Client,
    template: String,
    shape: Shape,
    /// Clusters so far; each has a name of its own.
    made: u32,
    /// What the cluster had before the act.
    before: Before,
}

/// What an act must have replaced by others, or left as it was.
#[derive(Default)]
struct Before {
    /// The ids of its servers.
    servers: BTreeSet<String>,
    /// Its certificate authority.
    authority: Value,
    /// How many key pairs the database has.
    pairs: Option<i64>,
    /// The trust that its masters act by.
    trust: String,
}

#[rstest]
#[tokio::test]
async fn every_operation_survives_at_its_effects(
    #[values(Moment::KilledBefore, Moment::KilledDuring, Moment::KilledAfter, Moment::AnswerLost, Moment::OwnerLate, Moment::EffectLate)]
    moment: Moment,
) -> Result<()> {
    let mut scene = Scene::start(Shape::Usual).await?;
    let (mut cells, mut share) = (0, Share::new(SHARE, moment as usize));
    for act in ACTS {
        let mut effects = act.thinned(scene.effects(act).await?);
        share.keep(&mut effects);
        cells += scene.cells(act, &effects, moment).await?;
    }
    ensure!(cells >= 12, "{cells} cells");
    scene.world.finish().await
}

#[rstest]
#[tokio::test]
#[ignore = "hours; by `cargo xtask test --every-cell`"]
async fn every_cell_of_effects(
    #[values(Moment::KilledBefore, Moment::KilledDuring, Moment::KilledAfter, Moment::AnswerLost, Moment::OwnerLate, Moment::EffectLate)]
    moment: Moment,
) -> Result<()> {
    cells::of_each(&ACTS, moment, async |act| every_cell_of(act, moment).await).await
}

async fn every_cell_of(act: Act, moment: Moment) -> Result<usize> {
    let mut scene = Scene::start(Shape::Usual).await?;
    let effects = scene.effects(act).await?;
    let cells = scene.cells(act, &effects, moment).await?;
    scene.world.finish().await?;
    Ok(cells)
}

/// What only clusters with several masters do, and those whose certificates are with Barbican: the first of each kind.
#[rstest]
#[tokio::test]
async fn large_clusters_survive_at_effects_of_their_own(
    #[values(Moment::KilledBefore, Moment::KilledDuring, Moment::KilledAfter, Moment::AnswerLost, Moment::OwnerLate, Moment::EffectLate)]
    moment: Moment,
) -> Result<()> {
    // One of them for each moment, so that each is met at two.
    let act = [Act::Create, Act::Upgrade, Act::Delete][moment as usize % 3];
    let cells = own_cells_of(act, moment, |effect| effect.nth == 1).await?;
    ensure!(cells > 0, "{act:?} of a large cluster does nothing of its own");
    Ok(())
}

#[rstest]
#[tokio::test]
#[ignore = "hours; by `cargo xtask test --every-cell`"]
async fn every_cell_of_effects_of_large_clusters(
    #[values(Moment::KilledBefore, Moment::KilledDuring, Moment::KilledAfter, Moment::AnswerLost, Moment::OwnerLate, Moment::EffectLate)]
    moment: Moment,
) -> Result<()> {
    cells::of_each(&ACTS, moment, async |act| own_cells_of(act, moment, |_| true).await).await
}

/// Meets those of an act's effects which large clusters alone have.
async fn own_cells_of(act: Act, moment: Moment, is_met: impl Fn(&Effect) -> bool) -> Result<usize> {
    let mut usual = Scene::start(Shape::Usual).await?;
    let known = usual.effects(act).await?;
    usual.world.finish().await?;
    let mut scene = Scene::start(Shape::Large).await?;
    let mut effects = scene.effects(act).await?;
    effects.retain(|effect| is_met(effect) && !known.contains(effect));
    let cells = scene.cells(act, &effects, moment).await?;
    scene.world.finish().await?;
    Ok(cells)
}

impl Scene {
    async fn start(shape: Shape) -> Result<Self> {
        Self::start_with(shape, shape.options()).await
    }

    async fn start_with(shape: Shape, options: Options) -> Result<Self> {
        let world = World::start(Mix::Distributed, options).await?;
        let (demo, admin) = (world.demo().at("1.12"), world.user("admin", "admin"));
        let template = demo.create_template("small").await?;
        Ok(Self { world, demo, admin, template, shape, made: 0, before: Before::default() })
    }

    /// What an operation changes in the cloud when nothing goes wrong, all of it.
    async fn effects(&mut self, act: Act) -> Result<Vec<Effect>> {
        let cluster = self.prepare(act).await?;
        let before = self.world.cloud.effects().len();
        let cluster = self.ask(act, cluster).await?;
        self.is_well(act, &cluster).await?;
        let mut found: Vec<Effect> = Vec::new();
        for name in self.world.cloud.effects().into_iter().skip(before).filter(|name| !name.starts_with("keystone.token_")) {
            let nth = 1 + u32::try_from(found.iter().filter(|effect| effect.name == name).count())?;
            found.push(Effect { name, nth });
        }
        // A group's new bounds are in the rows alone.
        ensure!(!found.is_empty() || act == Act::UpdateGroup, "{act:?} changed nothing in the cloud");
        self.clear(act, &cluster).await?;
        Ok(found)
    }

    /// Meets these effects; at how many it was done. The last effect of an operation may be followed by its end, so that nobody is left to be killed after
    /// it.
    async fn cells(&mut self, act: Act, effects: &[Effect], moment: Moment) -> Result<usize> {
        let mut unhurt = 0;
        for effect in effects {
            let is_hurt = self.cell(act, effect, moment).await.with_context(|| format!("{act:?}, {effect}, {moment:?}"))?;
            unhurt += usize::from(!is_hurt);
        }
        ensure!(2 * unhurt <= effects.len() + 1, "{act:?}, {moment:?}: nobody was killed at {unhurt} of {} effects", effects.len());
        Ok(effects.len() - unhurt)
    }

    /// False when there was nobody to be killed.
    async fn cell(&mut self, act: Act, effect: &Effect, moment: Moment) -> Result<bool> {
        let mut is_hurt = true;
        let cluster = self.prepare(act).await?;
        let calls = self.world.cloud.calls(effect.name);
        self.world.cloud.inject(Fault { at: effect.name.to_owned(), nth: effect.nth, how: moment.how() });
        let cluster = self.ask(act, cluster).await?;
        match moment {
            Moment::AnswerLost => {}
            Moment::KilledAfter => {
                let is_there = || self.world.cloud.calls(effect.name) >= calls + effect.nth as usize;
                wait::until_passing("the effect", PATIENCE, async || Ok(Seen::when(is_there(), || "not yet".to_owned()))).await?;
                // Whoever holds the operation still, if anybody does: it may have ended meanwhile.
                let owner = self.world.owner_now(&cluster).await?;
                is_hurt = owner.is_some();
                if let Some(owner) = owner {
                    self.world.kill(owner)?;
                    self.world.start_conductor()?;
                }
            }
            Moment::KilledBefore | Moment::KilledDuring => {
                self.until("a call to be held", |world| world.cloud.held() > 0).await?;
                let owner = self.world.owner(&cluster).await?;
                self.world.kill(owner)?;
                self.world.start_conductor()?;
            }
            Moment::OwnerLate | Moment::EffectLate => {
                self.until("a call to be held", |world| world.cloud.held() > 0).await?;
                let owner = self.world.owner(&cluster).await?;
                self.world.freeze(owner)?;
                let is_well = self.is_well(act, &cluster).await;
                self.world.cloud.let_go();
                self.until("the held call to go on", |world| world.cloud.held() == 0).await?;
                self.world.thaw(owner)?;
                is_well?;
            }
        }
        // What comes so late, long after the time for which it is waited, is undone by nobody: only what hangs on it is looked at once more.
        match moment {
            Moment::EffectLate => self.settled(act, &cluster).await?,
            _ => self.is_well(act, &cluster).await?,
        }
        let met = self.world.cloud.calls(effect.name);
        ensure!(met >= calls + effect.nth as usize, "it was not met: {calls} before, {met} now");
        self.world.cloud.let_go();
        self.world.cloud.clear_faults();
        self.clear(act, &cluster).await?;
        Ok(is_hurt)
    }

    /// What must be there before; the cluster, unless the act is to make it.
    async fn prepare(&mut self, act: Act) -> Result<String> {
        if act == Act::Create {
            return Ok(String::new());
        }
        match act {
            Act::RetryCreate => return self.failed().await,
            Act::DeleteInMaking => return Ok(self.in_making().await?.0),
            _ => {}
        }
        let cluster = self.create().await?;
        let complete = self.demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
        if matches!(act, Act::Delete | Act::ForceDelete) {
            self.use_cluster(&cluster, complete["stack_id"].as_str().context("a stack")?);
        }
        if matches!(act, Act::UpdateGroup | Act::GrowGroup | Act::DeleteGroup) {
            self.ask(Act::CreateGroup, cluster.clone()).await?;
            self.settled(Act::CreateGroup, &cluster).await?;
        }
        if act == Act::RetryGrow {
            self.fail_to_grow(&cluster, complete["stack_id"].as_str().context("a stack")?).await?;
        }
        self.before = Before {
            servers: self.servers(),
            authority: self.authority(&cluster).await?,
            pairs: self.pairs().await?,
            trust: Held::by(&self.world, &cluster).await?.trust,
        };
        Ok(cluster)
    }

    /// A cluster whose stack is made for as long as stacks are held, and that stack.
    async fn in_making(&mut self) -> Result<(String, String)> {
        self.world.cloud.hold_stacks(true);
        let cluster = self.create().await?;
        let stack = wait::until("the stack to be recorded", PATIENCE, async || {
            let body = self.demo.cluster(&cluster).await?;
            Ok(Seen::from_option(body["stack_id"].as_str().map(str::to_owned), "none"))
        })
        .await?;
        Ok((cluster, stack))
    }

    /// A cluster whose stack has failed while it was made.
    async fn failed(&mut self) -> Result<String> {
        let (cluster, id) = self.in_making().await?;
        ensure!(self.world.cloud.fail_stack(&id, "ResourceInError: resources.kube_masters: no valid host"), "{id}");
        self.demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
        self.world.cloud.hold_stacks(false);
        Ok(cluster)
    }

    /// Has a cluster's stack fail at more nodes.
    async fn fail_to_grow(&mut self, cluster: &str, stack: &str) -> Result<()> {
        self.world.cloud.hold_stacks(true);
        self.ask(Act::Grow, cluster.to_owned()).await?;
        let is_at_work = |world: &World| world.cloud.stacks().iter().any(|stack| stack.status == "UPDATE_IN_PROGRESS");
        self.until("the stack to grow", is_at_work).await?;
        ensure!(self.world.cloud.fail_stack(stack, "ResourceInError: resources.kube_minions: no valid host"), "{stack}");
        self.demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
        self.world.cloud.hold_stacks(false);
        Ok(())
    }

    /// The ids of all servers.
    fn servers(&self) -> BTreeSet<String> {
        servers_by_id(&self.world).into_iter().map(|(_, id)| id).collect()
    }

    async fn authority(&self, cluster: &str) -> Result<Value> {
        Ok(self.demo.get(&format!("/v1/certificates/{cluster}")).await?.expect(200)?.body["pem"].clone())
    }

    /// How many key pairs the database has.
    async fn pairs(&self) -> Result<Option<i64>> {
        Ok(self.world.counts().await?.get("x509keypair").copied())
    }

    /// What Kubernetes makes when the cluster is used: a load balancer with its floating IP, and a volume.
    fn use_cluster(&self, cluster: &str, stack: &str) {
        let cloud = &self.world.cloud;
        let project = cloud.project_id("demo");
        let service = format!("Kubernetes external service default/web from cluster {cluster}");
        let balancer = cloud.add_load_balancer(NewLoadBalancer {
            project: project.clone(),
            name: format!("kube_service_{cluster}_default_web"),
            description: service.clone(),
            stack: Some(stack.to_owned()),
            ..NewLoadBalancer::default()
        });
        cloud.add_floating_ip(&project, &format!("Floating IP for {service}"), Some(&balancer));
        cloud.add_volume(&project, "pvc-1", json!({"cinder.csi.openstack.org/cluster": cluster}), Some(stack));
    }

    async fn create(&mut self) -> Result<String> {
        self.made += 1;
        let mut body = cluster(&format!("cluster-{}", self.made), &self.template);
        body["labels"] = json!({"delete_volumes": "true"});
        if self.shape == Shape::Large {
            (body["master_count"], body["master_lb_enabled"]) = (json!(3), json!(true));
        }
        let answer = self.demo.post("/v1/clusters", &body).await?.expect(202)?;
        answer.uuid()
    }

    /// Sends the request; the cluster it concerns.
    async fn ask(&mut self, act: Act, cluster: String) -> Result<String> {
        let groups = format!("/v1/clusters/{cluster}/nodegroups");
        let group = format!("{groups}/more");
        let resize = format!("/v1/clusters/{cluster}/actions/resize");
        let (method, path, body) = match act {
            Act::Create => return self.create().await,
            Act::RetryCreate | Act::RetryGrow => (Method::POST, format!("/v1/clusters/{cluster}/actions/retry"), Some(json!({}))),
            Act::Delete | Act::DeleteInMaking => (Method::DELETE, format!("/v1/clusters/{cluster}"), None),
            Act::ForceDelete | Act::Abandon => {
                let action = if act == Act::Abandon { "abandon" } else { "force-delete" };
                self.admin.post(&format!("/v1/clusters/{cluster}/actions/{action}"), &json!({})).await?.expect(202)?;
                return Ok(cluster);
            }
            Act::Patch => {
                let body = json!([{"op": "replace", "path": "/node_count", "value": 3}]);
                (Method::PATCH, format!("/v1/clusters/{cluster}"), Some(body))
            }
            Act::Grow => (Method::POST, resize, Some(json!({"node_count": 3}))),
            Act::RemoveNode => (Method::POST, resize, Some(json!({"node_count": 1, "nodes_to_remove": ["0"]}))),
            Act::CreateGroup => (Method::POST, groups, Some(json!({"name": "more", "node_count": 1}))),
            Act::UpdateGroup => (Method::PATCH, group, Some(json!([{"op": "replace", "path": "/max_node_count", "value": 5}]))),
            Act::GrowGroup => (Method::POST, resize, Some(json!({"node_count": 2, "nodegroup": "more"}))),
            Act::DeleteGroup => (Method::DELETE, group, None),
            Act::RotateCredentials => (Method::PATCH, format!("/v1/credentials/{cluster}"), None),
            Act::RotateAuthorities => (Method::PATCH, format!("/v1/certificates/{cluster}"), None),
            Act::Upgrade => {
                let body = json!({"cluster_template": self.template, "max_batch_size": 2});
                (Method::POST, format!("/v1/clusters/{cluster}/actions/upgrade"), Some(body))
            }
        };
        let answer = self.demo.send(method, &path, body.map(|body| body.to_string())).await?;
        ensure!(matches!(answer.status, 202 | 204), "{act:?}: {}", answer.text);
        if act == Act::DeleteInMaking {
            self.world.cloud.hold_stacks(false);
        }
        Ok(cluster)
    }

    /// Waits for the end of the operation and checks that what it was about is there, once.
    async fn settled(&self, act: Act, cluster: &str) -> Result<()> {
        let stacks = || self.world.cloud.stacks();
        if act.removes() {
            self.demo.wait_gone(cluster, PATIENCE).await?;
            ensure!(stacks().len() == usize::from(act == Act::Abandon), "{:?}", stacks());
            return Ok(());
        }
        let wanted = if act.kind() == OperationKind::ClusterCreate { "CREATE_COMPLETE" } else { "UPDATE_COMPLETE" };
        let body = self.demo.wait_for(cluster, wanted, PATIENCE).await?;
        let with_group = matches!(act, Act::CreateGroup | Act::UpdateGroup | Act::GrowGroup);
        ensure!(stacks().len() == 1 + usize::from(with_group), "{:?}", stacks());
        let nodes = match act {
            Act::Patch | Act::Grow | Act::RetryGrow | Act::CreateGroup | Act::UpdateGroup => 3,
            Act::GrowGroup => 4,
            Act::RemoveNode => 1,
            Act::Create | Act::RetryCreate | Act::DeleteGroup | Act::RotateCredentials | Act::RotateAuthorities | Act::Upgrade => 2,
            Act::Delete | Act::DeleteInMaking | Act::ForceDelete | Act::Abandon => 0,
        };
        let shown = body["node_count"].as_i64().context("a node count")?;
        ensure!(shown == nodes && addresses(&body) == usize::try_from(nodes)?, "{nodes} nodes wanted: {body}");
        if act == Act::UpdateGroup {
            let group = self.demo.get(&format!("/v1/clusters/{cluster}/nodegroups/more")).await?.expect(200)?.body;
            ensure!(group["max_node_count"] == 5 && group["status"] == "UPDATE_COMPLETE", "{group}");
        }
        // Whatever came late: what is recorded of the trustee is what Keystone lets in.
        let held = Held::by(&self.world, cluster).await?;
        held.token(&self.world).await?;
        Ok(())
    }

    /// The same, and that all agree.
    async fn is_well(&self, act: Act, cluster: &str) -> Result<()> {
        self.settled(act, cluster).await?;
        if act.removes() {
            return Ok(());
        }
        self.replaced(act, cluster).await?;
        self.world.agrees(cluster, PATIENCE).await
    }

    /// Checks that there is what was to come in the place of something else, and nothing of that.
    async fn replaced(&self, act: Act, cluster: &str) -> Result<()> {
        if matches!(act, Act::Upgrade | Act::RotateAuthorities) {
            let servers = self.servers();
            ensure!(servers.len() == self.before.servers.len() && servers.is_disjoint(&self.before.servers), "{servers:?}");
        }
        if act == Act::RotateAuthorities {
            ensure!(self.authority(cluster).await? != self.before.authority, "the authority of before");
            let pairs = self.pairs().await?;
            ensure!(pairs == self.before.pairs, "{pairs:?} key pairs, {:?} before", self.before.pairs);
        }
        if act == Act::RotateCredentials {
            let trusts = || self.world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("trust "));
            let held = Held::by(&self.world, cluster).await?;
            let to_trustee: Vec<String> = trusts().filter(|line| line.ends_with(&format!(" to {}", held.user))).collect();
            ensure!(held.trust != self.before.trust && to_trustee.len() == 1 && to_trustee[0].contains(&held.trust), "{to_trustee:?}");
        }
        Ok(())
    }

    /// The cluster goes, and with it everything.
    async fn clear(&self, act: Act, cluster: &str) -> Result<()> {
        self.world.keep_secrets_of_stacks();
        if !act.removes() {
            self.demo.delete_cluster(cluster).await?;
            self.demo.wait_gone(cluster, PATIENCE).await?;
        }
        if act == Act::Abandon {
            self.remove_what_was_left(cluster).await?;
        }
        let left = self.world.cloud.leftovers(None);
        ensure!(left.is_empty(), "left in the cloud: {left:#?}");
        let ends: Vec<String> = self.world.operation_states(cluster).await?;
        ensure!(ends.iter().filter(|state| *state != "SUCCEEDED").count() == act.unsuccessful(), "{ends:?}");
        self.world.agrees(cluster, PATIENCE).await?;
        self.world.tells_what_was_done(cluster).await
    }

    /// The stack, its owner and his key pair, as the report names them.
    async fn remove_what_was_left(&self, cluster: &str) -> Result<()> {
        let body = self.demo.get(&format!("/v1/clusters/{cluster}/events?limit=500")).await?.expect(200)?.body;
        let events = body["events"].as_array().context("events")?;
        let report = events.iter().rfind(|event| event["kind"] == "leak_report").context("a report")?;
        for leak in report["leaks"].as_array().context("a list of leaks")? {
            let (kind, name) = (text(leak, "kind"), text(leak, "name"));
            ensure!(matches!(kind.as_str(), "heat_stack" | "stack_owner" | "nova_keypair") && leak["id"].is_string(), "{leak}");
            ensure!(self.world.cloud.remove_reported(&kind, &name, leak["id"].as_str()), "{leak}");
        }
        Ok(())
    }

    async fn until(&self, what: &str, seen: impl Fn(&World) -> bool) -> Result<()> {
        wait::until(what, PATIENCE, async || Ok(Seen::when(seen(&self.world), || "not yet".to_owned()))).await
    }
}

fn addresses(cluster: &Value) -> usize {
    cluster["node_addresses"].as_array().map_or(0, |list| list.iter().filter(|address| !address.is_null()).count())
}
