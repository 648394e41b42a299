//! Effects of this driver's operations × the moment at which its conductor is killed or left without an answer: the crash matrix
//! (`crash_matrix.rs`) for what is on a management cluster.
//!
//! Each operation is carried out once without faults; what it changed there and in the cloud is then met. helm alone makes dozens of changes:
//! of each kind the first and the last are candidates, and each moment takes its share of them.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use reqwest::Method;
use rstest::rstest;
use serde_json::json;
use tests::client::Client;
use tests::config::SMALL_KEYS;
use tests::management::{Management, next_template, template};
use tests::wait::{self, Seen};
use tests::world::{Mix, Options, World};

/// Of the controllers.
const STEP: Duration = Duration::from_millis(20);
/// A takeover takes a lease (4 s), a run of helm that was cut off is waited for; on a busy machine all takes longer.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Create,
    Grow,
    CreateGroup,
    GrowGroup,
    DeleteGroup,
    Upgrade,
    RotateCredentials,
    Delete,
}

const ACTS: [Act; 8] =
    [Act::Create, Act::Grow, Act::CreateGroup, Act::GrowGroup, Act::DeleteGroup, Act::Upgrade, Act::RotateCredentials, Act::Delete];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The owner is killed when the call has arrived and nothing is done.
    KilledBefore,
    /// The owner is killed when it is done and not answered.
    KilledDuring,
    /// The answer is lost; the owner lives and does the step again.
    AnswerLost,
}

/// Each moment takes so large a part of the effects.
const SHARE: usize = 4;

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

struct Scene {
    world: World,
    management: Management,
    demo: Client,
    template: String,
    /// With the next Kubernetes.
    next: String,
    made: u32,
}

#[rstest]
#[tokio::test]
async fn operations_survive_at_their_effects(
    #[values(Moment::KilledBefore, Moment::KilledDuring, Moment::AnswerLost)] moment: Moment,
) -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    // A run that was cut off is taken up soon, for the world ends soon.
    environment.insert("OS_OPERATIONS__SETTLE_SECONDS".into(), "1".into());
    let world =
        World::start(Mix::Distributed, Options { apis: 1, environment, conductor: SMALL_KEYS.to_owned(), ..Options::default() }).await?;
    let demo = world.demo().at("1.12");
    let template = demo.post("/v1/clustertemplates", &template("small")).await?.expect(201)?.uuid()?;
    let next = demo.post("/v1/clustertemplates", &next_template("next")).await?.expect(201)?.uuid()?;
    let mut scene = Scene { world, management, demo, template, next, made: 0 };
    let (mut seen, mut cells) = (moment as usize, 0);
    for act in ACTS {
        for effect in scene.effects(act).await? {
            seen += 1;
            if seen % SHARE != 0 {
                continue;
            }
            scene.cell(act, &effect, moment).await.with_context(|| format!("{act:?}, {effect}, {moment:?}"))?;
            cells += 1;
        }
    }
    ensure!(cells >= 3, "{cells} cells");
    scene.world.finish().await
}

impl Scene {
    /// The first and the last of each kind of change that an operation makes when nothing goes wrong.
    async fn effects(&mut self, act: Act) -> Result<Vec<Effect>> {
        let cluster = self.prepare(act).await?;
        let before = (self.management.cluster.effects().len(), self.world.cloud.effects().len());
        let cluster = self.ask(act, cluster).await?;
        self.settled(act, &cluster).await?;
        let there = self.management.cluster.effects().into_iter().skip(before.0);
        let here = self.world.cloud.effects().into_iter().skip(before.1).filter(|name| name.starts_with("keystone.application_credential"));
        let mut counts: Vec<(&'static str, u32)> = Vec::new();
        for name in there.chain(here) {
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => counts.push((name, 1)),
            }
        }
        ensure!(!counts.is_empty(), "{act:?} changed nothing");
        self.clear(act, &cluster).await?;
        let mut all: Vec<Effect> = counts.iter().flat_map(|(name, last)| [1, *last].map(|nth| Effect { name, nth })).collect();
        all.dedup();
        Ok(all)
    }

    async fn cell(&mut self, act: Act, effect: &Effect, moment: Moment) -> Result<()> {
        let cluster = self.prepare(act).await?;
        let how = match moment {
            Moment::KilledBefore => How::Hold,
            Moment::KilledDuring => How::ActThenHold,
            Moment::AnswerLost => How::AcceptThenLose,
        };
        let fault = Fault { at: effect.name.to_owned(), nth: effect.nth, how };
        match effect.is_there() {
            true => self.management.cluster.inject(fault),
            false => self.world.cloud.inject(fault),
        }
        let cluster = self.ask(act, cluster).await?;
        match moment {
            Moment::AnswerLost => {}
            Moment::KilledBefore | Moment::KilledDuring => {
                self.until_held(true).await?;
                let owner = self.world.owner(&cluster).await?;
                self.world.kill(owner)?;
                self.world.start_conductor()?;
            }
        }
        self.settled(act, &cluster).await?;
        self.let_go();
        self.until_held(false).await?;
        self.management.cluster.clear_faults();
        self.world.cloud.clear_faults();
        self.clear(act, &cluster).await
    }

    fn let_go(&self) {
        self.management.cluster.let_go();
        self.world.cloud.let_go();
    }

    async fn until_held(&self, wanted: bool) -> Result<()> {
        wait::until("calls to be held, or to go on", PATIENCE, async || {
            let held = self.management.cluster.held() + self.world.cloud.held();
            Ok(Seen::when((held > 0) == wanted, || format!("{held} are held")))
        })
        .await
    }

    async fn create(&mut self) -> Result<String> {
        self.made += 1;
        self.demo.create_cluster(&format!("cluster-{}", self.made), &self.template).await
    }

    async fn prepare(&mut self, act: Act) -> Result<String> {
        if act == Act::Create {
            return Ok(String::new());
        }
        let cluster = self.create().await?;
        self.demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
        if matches!(act, Act::GrowGroup | Act::DeleteGroup) {
            self.ask(Act::CreateGroup, cluster.clone()).await?;
            self.settled(Act::CreateGroup, &cluster).await?;
        }
        Ok(cluster)
    }

    async fn ask(&mut self, act: Act, cluster: String) -> Result<String> {
        let groups = format!("/v1/clusters/{cluster}/nodegroups");
        let resize = format!("/v1/clusters/{cluster}/actions/resize");
        let (method, path, body) = match act {
            Act::Create => return self.create().await,
            Act::Grow => (Method::POST, resize, Some(json!({"node_count": 3}))),
            Act::CreateGroup => (Method::POST, groups, Some(json!({"name": "more", "node_count": 1}))),
            Act::GrowGroup => (Method::POST, resize, Some(json!({"node_count": 2, "nodegroup": "more"}))),
            Act::DeleteGroup => (Method::DELETE, format!("{groups}/more"), None),
            Act::Upgrade => {
                let body = json!({"cluster_template": self.next});
                (Method::POST, format!("/v1/clusters/{cluster}/actions/upgrade"), Some(body))
            }
            Act::RotateCredentials => (Method::PATCH, format!("/v1/credentials/{cluster}"), None),
            Act::Delete => (Method::DELETE, format!("/v1/clusters/{cluster}"), None),
        };
        let answer = self.demo.send(method, &path, body.map(|body| body.to_string())).await?;
        ensure!(matches!(answer.status, 202 | 204), "{act:?}: {}", answer.text);
        Ok(cluster)
    }

    /// Waits for the end of the operation, and checks that what it was about is there, once.
    async fn settled(&self, act: Act, cluster: &str) -> Result<()> {
        if act == Act::Delete {
            return self.demo.wait_gone(cluster, PATIENCE).await;
        }
        let wanted = if act == Act::Create { "CREATE_COMPLETE" } else { "UPDATE_COMPLETE" };
        let body = self.demo.wait_for(cluster, wanted, PATIENCE).await?;
        let nodes = match act {
            Act::Grow | Act::CreateGroup => 3,
            Act::GrowGroup => 4,
            Act::Create | Act::DeleteGroup | Act::Upgrade | Act::RotateCredentials | Act::Delete => 2,
        };
        ensure!(body["node_count"] == nodes, "{body}");
        let version = if act == Act::Upgrade { "v1.34.1" } else { "v1.33.4" };
        ensure!(body["coe_version"] == version, "{body}");
        ensure!(self.management.cluster.objects("Machine").len() == nodes + 1, "{body}");
        ensure!(self.management.cluster.objects("Cluster").len() == 1);
        let credentials = self.credentials();
        ensure!(credentials.len() == 1, "{credentials:?}");
        Ok(())
    }

    fn credentials(&self) -> Vec<String> {
        self.world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("application credential")).collect()
    }

    /// The cluster goes, and with it everything, whoever else is still at work on it.
    async fn clear(&self, act: Act, cluster: &str) -> Result<()> {
        if act != Act::Delete {
            let releases = self.management.releases()?;
            ensure!(releases.len() == 1 && releases[0].1 == "deployed", "{releases:?}");
            self.demo.delete_cluster(cluster).await?;
            self.demo.wait_gone(cluster, PATIENCE).await?;
        }
        let left = self.world.cloud.leftovers(None);
        ensure!(left.is_empty(), "left in the cloud: {left:#?}");
        wait::until("the management cluster to be empty", PATIENCE, async || {
            let left = self.management.left();
            Ok(Seen::when(left.is_empty(), || format!("{left:#?}")))
        })
        .await?;
        let ends: Vec<String> = self.world.operation_states(cluster).await?;
        ensure!(ends.iter().all(|state| state == "SUCCEEDED"), "{ends:?}");
        Ok(())
    }
}
