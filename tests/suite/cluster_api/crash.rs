//! Effects of this driver's operations × the moment at which its conductor is killed, frozen, or left without an answer: the crash matrix
//! (`crash_matrix.rs`) for what is on a management cluster.
//!
//! Each operation is carried out once without faults; what it changed there and in the cloud is then met. helm alone makes dozens of changes:
//! of each kind the first and the last are candidates, and each moment takes its share of them. `cargo xtask test --every-cell` takes all.
//!
//! helm ends with its conductor, killed at once, frozen with its lease; the call that is held of it is on its way by then and comes late,
//! also where only the conductor is meant.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, Trouble};
use model::operation::OperationKind;
use reqwest::Method;
use rstest::rstest;
use serde_json::json;
use tests::cells::{self, Share};
use tests::client::Client;
use tests::management::{Management, next_template, template};
use tests::notifications;
use tests::wait::{self, Seen};
use tests::world::{Mix, Options, World};

use super::authorities;
use crate::crash_matrix::Moment;

/// Of the controllers.
const STEP: Duration = Duration::from_millis(20);
/// A takeover takes a lease (4 s), a run of helm that was cut off is waited for; on a busy machine all takes longer.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Create,
    /// Once more, after an addon has failed.
    RetryCreate,
    Patch,
    Grow,
    Shrink,
    CreateGroup,
    UpdateGroup,
    GrowGroup,
    DeleteGroup,
    Upgrade,
    RotateCredentials,
    RotateAuthorities,
    Delete,
    /// While it is made: the creation gives way.
    DeleteInMaking,
    ForceDelete,
    Abandon,
}

impl Act {
    fn kind(self) -> OperationKind {
        match self {
            Self::Create | Self::RetryCreate => OperationKind::ClusterCreate,
            Self::Patch => OperationKind::ClusterUpdate,
            Self::Grow | Self::Shrink | Self::GrowGroup => OperationKind::ClusterResize,
            Self::CreateGroup => OperationKind::NodegroupCreate,
            Self::UpdateGroup => OperationKind::NodegroupUpdate,
            Self::DeleteGroup => OperationKind::NodegroupDelete,
            Self::Upgrade => OperationKind::ClusterUpgrade,
            Self::RotateCredentials => OperationKind::CredentialRotate,
            Self::RotateAuthorities => OperationKind::CaRotate,
            Self::Delete | Self::DeleteInMaking => OperationKind::ClusterDelete,
            Self::ForceDelete => OperationKind::ClusterForceDelete,
            Self::Abandon => OperationKind::ClusterAbandon,
        }
    }

    /// Whether the cluster is gone afterwards.
    fn removes(self) -> bool {
        self.kind().removal().is_some()
    }

    /// How many of the operations that its cluster has had by its end did not succeed.
    fn unsuccessful(self) -> usize {
        usize::from(matches!(self, Self::RetryCreate | Self::DeleteInMaking))
    }
}

#[test]
fn every_kind_of_operation_is_met() {
    for kind in OperationKind::ALL {
        assert!(ACTS.iter().any(|act| act.kind() == *kind), "{kind:?}");
    }
}

const ACTS: [Act; 16] = [
    Act::Create,
    Act::RetryCreate,
    Act::Patch,
    Act::Grow,
    Act::Shrink,
    Act::CreateGroup,
    Act::UpdateGroup,
    Act::GrowGroup,
    Act::DeleteGroup,
    Act::Upgrade,
    Act::RotateCredentials,
    Act::RotateAuthorities,
    Act::Delete,
    Act::DeleteInMaking,
    Act::ForceDelete,
    Act::Abandon,
];

/// What is met where there are minutes: the others do the like.
const FEW: [Act; 10] = [
    Act::Create,
    Act::Grow,
    Act::CreateGroup,
    Act::GrowGroup,
    Act::DeleteGroup,
    Act::Upgrade,
    Act::RotateCredentials,
    Act::RotateAuthorities,
    Act::Delete,
    Act::DeleteInMaking,
];

/// A moment meets one of so many effects.
const SHARE: usize = 10;

/// One effect: the `nth` call of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Effect {
    name: &'static str,
    nth: u32,
}

impl Effect {
    fn is_there(&self) -> bool {
        self.name.starts_with("kubernetes.")
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.nth)
    }
}

/// What became of a cell.
#[derive(Clone, Copy)]
enum Came {
    /// What was to happen at the effect happened.
    Met,
    /// The operation ended before anybody was killed after the effect.
    Unhurt,
    /// The operation ended without the effect.
    No,
}

struct Scene {
    world: World,
    management: Management,
    demo: Client,
    admin: Client,
    template: String,
    /// With the next Kubernetes.
    next: String,
    made: u32,
}

#[rstest]
#[tokio::test]
async fn operations_survive_at_their_effects(
    #[values(Moment::KilledBefore, Moment::KilledDuring, Moment::KilledAfter, Moment::AnswerLost, Moment::OwnerLate, Moment::EffectLate)]
    moment: Moment,
) -> Result<()> {
    let mut scene = Scene::start().await?;
    let (mut cells, mut share) = (0, Share::new(SHARE, moment as usize));
    for act in FEW {
        let mut effects = ends(&scene.effects(act).await?);
        share.keep(&mut effects);
        cells += scene.cells(act, &effects, moment).await?;
    }
    ensure!(cells >= 3, "{cells} cells");
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
    let mut scene = Scene::start().await?;
    let effects = scene.effects(act).await?;
    let cells = scene.cells(act, &effects, moment).await?;
    scene.world.finish().await?;
    Ok(cells)
}

/// The first and the last of each kind.
fn ends(all: &[Effect]) -> Vec<Effect> {
    let last = |name: &str| all.iter().filter(|effect| effect.name == name).count();
    all.iter().filter(|effect| effect.nth == 1 || effect.nth as usize == last(effect.name)).cloned().collect()
}

impl Scene {
    async fn start() -> Result<Self> {
        let management = Management::start(STEP, "3").await?;
        let mut environment = management.with_controllers();
        // A run that was cut off is taken up soon, for the world ends soon.
        environment.insert("OS_OPERATIONS__SETTLE_SECONDS".into(), "1".into());
        environment.insert("OS_OPERATIONS__FORCE_DELETE_SECONDS".into(), "60".into());
        environment.append(&mut notifications::unheard());
        let options = Options { apis: 1, environment, ..Options::default() };
        let world = World::start(Mix::Distributed, options).await?;
        let (demo, admin) = (world.demo().at("1.12"), world.user("admin", "admin"));
        let template = demo.post("/v1/clustertemplates", &template("small")).await?.expect(201)?.uuid()?;
        let next = demo.post("/v1/clustertemplates", &next_template("next")).await?.expect(201)?.uuid()?;
        Ok(Self { world, management, demo, admin, template, next, made: 0 })
    }

    /// What an operation changes when nothing goes wrong.
    async fn effects(&mut self, act: Act) -> Result<Vec<Effect>> {
        let cluster = self.prepare(act).await?;
        let before = (self.management.cluster.effects().len(), self.world.cloud.effects().len());
        let cluster = self.ask(act, cluster).await?;
        self.settled(act, &cluster).await?;
        let there = self.management.cluster.effects().into_iter().skip(before.0);
        let here = self.world.cloud.effects().into_iter().skip(before.1).filter(|name| !name.starts_with("keystone.token_"));
        let mut found: Vec<Effect> = Vec::new();
        for name in there.chain(here) {
            let nth = 1 + u32::try_from(found.iter().filter(|effect| effect.name == name).count())?;
            found.push(Effect { name, nth });
        }
        ensure!(!found.is_empty() || act == Act::UpdateGroup, "{act:?} changed nothing");
        self.clear(act, &cluster).await?;
        Ok(found)
    }

    /// Meets these effects; at how many it was done. helm may do less, or it takes another run, when controllers are ahead of it: only the first of
    /// a kind is certain to come. The last may be followed by the end, so that nobody is left to be killed after it.
    async fn cells(&mut self, act: Act, effects: &[Effect], moment: Moment) -> Result<usize> {
        let (mut met, mut unhurt) = (0, 0);
        for effect in effects {
            match self.cell(act, effect, moment).await.with_context(|| format!("{act:?}, {effect}, {moment:?}"))? {
                Came::Met => met += 1,
                Came::Unhurt => unhurt += 1,
                Came::No => ensure!(effect.nth > 1, "{act:?} has not come to its effect {effect}"),
            }
        }
        let all = effects.len();
        ensure!(
            2 * (met + unhurt) >= all && 2 * unhurt <= all + 1,
            "{act:?}, {moment:?}: {met} of {all} effects met, {unhurt} without anybody"
        );
        Ok(met)
    }

    async fn cell(&mut self, act: Act, effect: &Effect, moment: Moment) -> Result<Came> {
        let mut is_hurt = true;
        let cluster = self.prepare(act).await?;
        let all = self.calls(effect) + effect.nth as usize;
        let fault = Fault { at: effect.name.to_owned(), nth: effect.nth, how: moment.how() };
        match effect.is_there() {
            true => self.management.cluster.inject(fault),
            false => self.world.cloud.inject(fault),
        }
        let cluster = self.ask(act, cluster).await?;
        match moment {
            Moment::AnswerLost => {}
            Moment::KilledAfter => {
                self.until_met(&cluster, |scene| scene.calls(effect) >= all).await?;
                // Whoever holds the operation still, if anybody does: it may have ended meanwhile.
                let owner = self.world.owner_now(&cluster).await?;
                is_hurt = owner.is_some();
                if let Some(owner) = owner {
                    self.world.kill(owner)?;
                    self.world.start_conductor()?;
                }
            }
            Moment::KilledBefore | Moment::KilledDuring => {
                if self.until_met(&cluster, |scene| scene.held() > 0).await? {
                    let owner = self.world.owner(&cluster).await?;
                    self.world.kill(owner)?;
                    self.world.start_conductor()?;
                }
            }
            Moment::OwnerLate | Moment::EffectLate => {
                if self.until_met(&cluster, |scene| scene.held() > 0).await? {
                    let owner = self.world.owner(&cluster).await?;
                    self.world.freeze(owner)?;
                    let settled = self.settled(act, &cluster).await;
                    self.let_go();
                    let gone_on = self.until_gone_on().await;
                    self.world.thaw(owner)?;
                    settled.and(gone_on)?;
                }
            }
        }
        self.settled(act, &cluster).await?;
        if !act.removes() {
            self.world.agrees(&cluster, PATIENCE).await?;
        }
        let came = match self.calls(effect) >= all {
            false => Came::No,
            true if is_hurt => Came::Met,
            true => Came::Unhurt,
        };
        self.let_go();
        self.until_gone_on().await?;
        self.management.cluster.clear_faults();
        self.world.cloud.clear_faults();
        self.clear(act, &cluster).await?;
        Ok(came)
    }

    /// How often such a call was made.
    fn calls(&self, effect: &Effect) -> usize {
        if effect.is_there() { self.management.cluster.calls(effect.name) } else { self.world.cloud.calls(effect.name) }
    }

    /// How many calls are held.
    fn held(&self) -> usize {
        self.management.cluster.held() + self.world.cloud.held()
    }

    /// Waits for an effect; false when the operation has ended without it.
    async fn until_met(&self, cluster: &str, is_met: impl Fn(&Self) -> bool) -> Result<bool> {
        wait::until_passing("the effect", PATIENCE, async || {
            if is_met(self) {
                return Ok(Seen::Yes(true));
            }
            let has_ended = self.world.has_ended(cluster).await?;
            // Once more: it may be what the end waited for.
            Ok(match is_met(self) {
                true => Seen::Yes(true),
                false if has_ended => Seen::Yes(false),
                false => Seen::Instead("not yet".to_owned()),
            })
        })
        .await
    }

    fn let_go(&self) {
        self.management.cluster.let_go();
        self.world.cloud.let_go();
    }

    async fn until_gone_on(&self) -> Result<()> {
        wait::until("the held calls to go on", PATIENCE, async || {
            let held = self.held();
            Ok(Seen::when(held == 0, || format!("{held} are held")))
        })
        .await
    }

    async fn create(&mut self) -> Result<String> {
        self.made += 1;
        self.demo.create_cluster(&format!("cluster-{}", self.made), &self.template).await
    }

    async fn prepare(&mut self, act: Act) -> Result<String> {
        match act {
            Act::Create => return Ok(String::new()),
            Act::RetryCreate => return self.failed().await,
            Act::DeleteInMaking => return self.in_making().await,
            _ => {}
        }
        let cluster = self.create().await?;
        self.demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
        if matches!(act, Act::UpdateGroup | Act::GrowGroup | Act::DeleteGroup) {
            self.ask(Act::CreateGroup, cluster.clone()).await?;
            self.settled(Act::CreateGroup, &cluster).await?;
        }
        Ok(cluster)
    }

    /// A cluster that has failed at an addon.
    async fn failed(&mut self) -> Result<String> {
        let trouble = Some(Trouble::Fail("chart calico not found".to_owned()));
        self.management.cluster.trouble("HelmRelease", "-cni-calico", trouble);
        let cluster = self.create().await?;
        self.demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
        self.management.cluster.trouble("HelmRelease", "-cni-calico", None);
        Ok(cluster)
    }

    /// A cluster that waits for its machines for as long as clusters are held.
    async fn in_making(&mut self) -> Result<String> {
        self.management.cluster.hold_clusters(true);
        let cluster = self.create().await?;
        wait::until("the release", PATIENCE, async || {
            let releases = self.management.releases()?;
            let is_there = releases.iter().any(|(_, status)| status == "deployed");
            Ok(Seen::when(is_there, || format!("{releases:?}")))
        })
        .await?;
        Ok(cluster)
    }

    async fn ask(&mut self, act: Act, cluster: String) -> Result<String> {
        let groups = format!("/v1/clusters/{cluster}/nodegroups");
        let resize = format!("/v1/clusters/{cluster}/actions/resize");
        let (method, path, body) = match act {
            Act::Create => return self.create().await,
            Act::ForceDelete | Act::Abandon => {
                let action = if act == Act::Abandon { "abandon" } else { "force-delete" };
                self.admin.post(&format!("/v1/clusters/{cluster}/actions/{action}"), &json!({})).await?.expect(202)?;
                return Ok(cluster);
            }
            Act::RetryCreate => (Method::POST, format!("/v1/clusters/{cluster}/actions/retry"), Some(json!({}))),
            Act::Patch => {
                let body = json!([{"op": "replace", "path": "/node_count", "value": 3}]);
                (Method::PATCH, format!("/v1/clusters/{cluster}"), Some(body))
            }
            Act::UpdateGroup => {
                let body = json!([{"op": "replace", "path": "/max_node_count", "value": 5}]);
                (Method::PATCH, format!("{groups}/more"), Some(body))
            }
            Act::Grow => (Method::POST, resize, Some(json!({"node_count": 3}))),
            Act::Shrink => (Method::POST, resize, Some(json!({"node_count": 1}))),
            Act::CreateGroup => (Method::POST, groups, Some(json!({"name": "more", "node_count": 1}))),
            Act::GrowGroup => (Method::POST, resize, Some(json!({"node_count": 2, "nodegroup": "more"}))),
            Act::DeleteGroup => (Method::DELETE, format!("{groups}/more"), None),
            Act::Upgrade => {
                let body = json!({"cluster_template": self.next});
                (Method::POST, format!("/v1/clusters/{cluster}/actions/upgrade"), Some(body))
            }
            Act::RotateCredentials => (Method::PATCH, format!("/v1/credentials/{cluster}"), None),
            Act::RotateAuthorities => (Method::PATCH, format!("/v1/certificates/{cluster}"), None),
            Act::Delete | Act::DeleteInMaking => (Method::DELETE, format!("/v1/clusters/{cluster}"), None),
        };
        let answer = self.demo.send(method, &path, body.map(|body| body.to_string())).await?;
        ensure!(matches!(answer.status, 202 | 204), "{act:?}: {}", answer.text);
        Ok(cluster)
    }

    /// Waits for the end of the operation, and checks that what it was about is there, once.
    async fn settled(&self, act: Act, cluster: &str) -> Result<()> {
        if act.removes() {
            return self.demo.wait_gone(cluster, PATIENCE).await;
        }
        let wanted = if act.kind() == OperationKind::ClusterCreate { "CREATE_COMPLETE" } else { "UPDATE_COMPLETE" };
        // Controllers are not restarted all the time.
        let patience = if act == Act::RotateAuthorities { 2 * PATIENCE } else { PATIENCE };
        let body = self.demo.wait_for(cluster, wanted, patience).await?;
        let nodes = match act {
            Act::Patch | Act::Grow | Act::CreateGroup | Act::UpdateGroup => 3,
            Act::GrowGroup => 4,
            Act::Shrink => 1,
            Act::Create | Act::RetryCreate | Act::DeleteGroup | Act::Upgrade | Act::RotateCredentials | Act::RotateAuthorities => 2,
            Act::Delete | Act::DeleteInMaking | Act::ForceDelete | Act::Abandon => 0,
        };
        ensure!(body["node_count"] == nodes, "{body}");
        let version = if act == Act::Upgrade { "v1.34.1" } else { "v1.33.4" };
        ensure!(body["coe_version"] == version, "{body}");
        ensure!(self.management.cluster.objects("Machine").len() == nodes + 1, "{body}");
        ensure!(self.management.cluster.objects("Cluster").len() == 1);
        let credentials = self.credentials();
        ensure!(credentials.len() == 1, "{credentials:?}");
        // Whatever came late: the controllers have the one that is there.
        let (held, _) = super::credential(&self.world, &self.management)?;
        ensure!(credentials[0].ends_with(&format!("({held})")), "{credentials:?}, not {held}");
        if act == Act::RotateAuthorities {
            authorities::are_new(&self.management, &self.demo, cluster).await?;
        }
        Ok(())
    }

    /// The release, and the cluster's secrets beside it, as its operator would.
    async fn remove_what_was_left(&self) -> Result<()> {
        let releases = self.management.releases()?;
        ensure!(releases.len() == 1 && releases[0].1 == "deployed", "{releases:?}");
        let namespace = format!("magnum-{}", self.world.cloud.project_id("demo"));
        self.management.helm(&["uninstall", &releases[0].0, "--namespace", &namespace])?;
        wait::until("secrets alone to be left", PATIENCE, async || {
            let others: Vec<String> = self.management.left().into_iter().filter(|line| !line.starts_with("Secret ")).collect();
            Ok(Seen::when(others.is_empty(), || format!("{others:#?}")))
        })
        .await?;
        self.management.cluster.delete_all("Secret");
        Ok(())
    }

    fn credentials(&self) -> Vec<String> {
        self.world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("application credential")).collect()
    }

    /// The cluster goes, and with it everything, whoever else is still at work on it.
    async fn clear(&self, act: Act, cluster: &str) -> Result<()> {
        if !act.removes() {
            let releases = self.management.releases()?;
            ensure!(releases.len() == 1 && releases[0].1 == "deployed", "{releases:?}");
            self.demo.delete_cluster(cluster).await?;
            self.demo.wait_gone(cluster, PATIENCE).await?;
        }
        self.management.cluster.hold_clusters(false);
        if act == Act::Abandon {
            self.remove_what_was_left().await?;
        }
        let left = self.world.cloud.leftovers(None);
        ensure!(left.is_empty(), "left in the cloud: {left:#?}");
        wait::until("the management cluster to be empty", PATIENCE, async || {
            let left = self.management.left();
            Ok(Seen::when(left.is_empty(), || format!("{left:#?}")))
        })
        .await?;
        let ends: Vec<String> = self.world.operation_states(cluster).await?;
        ensure!(ends.iter().filter(|state| *state != "SUCCEEDED").count() == act.unsuccessful(), "{ends:?}");
        self.world.agrees(cluster, PATIENCE).await?;
        self.world.tells_what_was_done(cluster).await
    }
}
