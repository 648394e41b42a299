//! What Kubernetes keeps of nodes that were taken away goes with them where conductors reach the cluster, and makes no cluster unwell.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::kubernetes::{ApiServer, Authority, Behaviour};
use tests::nodes;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};
use tokio::net::TcpListener;

/// The event of objects that stay.
const LEFT: &str = "nodes_left";

/// A complete cluster of a master and two workers, whose API is a stand-in of ours that keeps its nodes.
struct Scene {
    world: World,
    demo: Client,
    cluster: String,
    /// The name of its stack.
    stack: String,
    server: ApiServer,
}

impl Scene {
    async fn start() -> Result<Self> {
        // The stand-in is on loopback.
        let environment = [("KUBERNETES__HEALTH_POLLING_INTERVAL", "4"), ("KUBERNETES__HEALTH_DENIED_NETWORKS", "")];
        let environment = environment.map(|(option, value)| (format!("OS_{option}"), value.to_owned())).into();
        let world = World::start(Mix::Distributed, Options { environment, usual_keys: true, ..Options::default() }).await?;
        let demo = world.demo().at("1.10");
        let cluster = world.complete_cluster(&demo).await?;
        let stack = world.cloud.stacks().pop().context("a stack")?.name;
        let server = ApiServer::start(&Authority::of_cluster(world.database()?, &cluster).await?).await?;
        let scene = Self { world, demo, cluster, stack, server };
        scene.keep(&[("node-0", "True"), ("node-1", "True")]);
        scene.move_to(scene.server.address()).await?;
        scene.is("HEALTHY").await?;
        Ok(scene)
    }

    /// Beside its master, which is ready, the cluster has these nodes of its stack and one of somebody's own that is not ready.
    fn keep(&self, nodes: &[(&str, &str)]) {
        let named = |(end, ready): &(&str, &str)| (format!("{}-{end}", self.stack), (*ready).to_owned());
        let mut all: Vec<(String, String)> = nodes.iter().chain(&[("master-0", "True")]).map(named).collect();
        all.push(("theirs".to_owned(), "Unknown".to_owned()));
        self.server.keep(&all.iter().map(|(name, ready)| (name.as_str(), ready.as_str())).collect::<Vec<_>>());
    }

    /// The nodes of its stack that Kubernetes keeps, by the ends of their names, but for the master.
    fn kept(&self) -> Result<Vec<String>> {
        let kept = self.server.kept();
        ensure!(kept.iter().any(|name| name == "theirs") && kept.contains(&format!("{}-master-0", self.stack)), "{kept:?}");
        let of_stack = kept.iter().filter_map(|name| name.strip_prefix(&format!("{}-", self.stack)));
        Ok(of_stack.filter(|end| *end != "master-0").map(str::to_owned).collect())
    }

    async fn move_to(&self, address: &str) -> Result<()> {
        let values = vec![address.into(), self.cluster.as_str().into()];
        self.world.database()?.execute("UPDATE cluster SET api_address = ? WHERE uuid = ?", values).await
    }

    /// Waits until the cluster's health is told so.
    async fn is(&self, health: &str) -> Result<Value> {
        wait::until(health, PATIENCE, async || {
            let shown = self.demo.cluster(&self.cluster).await?;
            let seen = format!("{} {}", shown["health_status"], shown["health_status_reason"]);
            Ok(if shown["health_status"] == health { Seen::Yes(shown) } else { Seen::Instead(seen) })
        })
        .await
    }

    async fn resize(&self, body: &Value) -> Result<()> {
        self.demo.post(&format!("/v1/clusters/{}/actions/resize", self.cluster), body).await?.expect(202)?;
        self.demo.wait_for(&self.cluster, "UPDATE_COMPLETE", PATIENCE).await.map(drop)
    }

    async fn told(&self) -> Result<Vec<String>> {
        nodes::told(&self.demo, &self.cluster, LEFT).await
    }
}

#[tokio::test]
async fn nodes_that_are_taken_away_go_from_kubernetes_too_and_those_that_come_in_their_names_stay() -> Result<()> {
    let scene = Scene::start().await?;
    // One was left by somebody before.
    scene.keep(&[("node-0", "True"), ("node-1", "True"), ("node-7", "Unknown")]);
    scene.resize(&json!({"node_count": 1})).await?;
    ensure!(scene.kept()? == ["node-0"], "{:?}", scene.kept()?);
    // The same number comes again, and its node is not ready when the other one goes.
    scene.resize(&json!({"node_count": 2})).await?;
    scene.keep(&[("node-0", "True"), ("node-1", "Unknown")]);
    scene.resize(&json!({"node_count": 1, "nodes_to_remove": ["0"]})).await?;
    ensure!(scene.kept()? == ["node-1"], "{:?}", scene.kept()?);
    // Whoever adds nodes has taken none away.
    scene.keep(&[("node-1", "True"), ("node-7", "Unknown")]);
    scene.resize(&json!({"node_count": 2})).await?;
    ensure!(scene.kept()? == ["node-1", "node-7"], "{:?}", scene.kept()?);
    ensure!(scene.told().await?.is_empty(), "{:?}", scene.told().await?);
    scene.world.finish().await
}

#[tokio::test]
async fn with_a_group_go_its_nodes_and_no_others() -> Result<()> {
    let scene = Scene::start().await?;
    let groups = format!("/v1/clusters/{}/nodegroups", scene.cluster);
    scene.demo.post(&groups, &json!({"name": "more", "node_count": 1})).await?.expect(202)?;
    scene.demo.wait_for(&scene.cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let more = scene.world.cloud.stacks().into_iter().find(|stack| stack.name != scene.stack).context("a stack of the group")?.name;
    let (master, own, of_group) = (format!("{}-master-0", scene.stack), format!("{}-node-0", scene.stack), format!("{more}-node-0"));
    // All of the group's own is not ready, nor is one of the other group, which has too few for it to be nobody's.
    scene.server.keep(&[(master.as_str(), "True"), (own.as_str(), "Unknown"), (of_group.as_str(), "Unknown"), ("theirs", "Unknown")]);
    scene.is("UNHEALTHY").await?;
    scene.demo.delete(&format!("{groups}/more")).await?.expect(204)?;
    scene.demo.wait_for(&scene.cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let kept = scene.server.kept();
    ensure!(kept == [master, own, "theirs".to_owned()], "{kept:?}");
    ensure!(scene.told().await?.is_empty(), "{:?}", scene.told().await?);
    scene.world.finish().await
}

#[tokio::test]
async fn where_the_api_is_not_reached_what_stays_is_told_once_and_the_cluster_is_well() -> Result<()> {
    let scene = Scene::start().await?;
    let closed = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    scene.move_to(&format!("https://{closed}")).await?;
    scene.is("UNKNOWN").await?;
    scene.resize(&json!({"node_count": 1})).await?;
    let told = scene.told().await?;
    ensure!(told.len() == 1 && told[0].contains(&scene.stack) && told[0].contains("kubectl delete node"), "{told:?}");
    ensure!(scene.kept()? == ["node-0", "node-1"], "{:?}", scene.kept()?);
    // It is there again: of the two one is to be there, and is.
    scene.keep(&[("node-0", "True"), ("node-1", "Unknown")]);
    scene.move_to(scene.server.address()).await?;
    let well = scene.is("HEALTHY").await?;
    ensure!(text(&well["health_status_reason"], &format!("{}-node-1.Ready", scene.stack)) == "Unknown", "{well}");
    scene.keep(&[("node-0", "False"), ("node-1", "Unknown")]);
    scene.is("UNHEALTHY").await?;
    scene.world.finish().await
}

/// As where somebody joins under a name whose object is about to be removed.
#[tokio::test]
async fn an_object_that_has_changed_since_it_was_listed_stays_and_is_told() -> Result<()> {
    let scene = Scene::start().await?;
    scene.keep(&[("node-0", "True"), ("node-1", "True"), ("node-7", "Unknown")]);
    scene.server.be_restless(true);
    scene.resize(&json!({"node_count": 1})).await?;
    ensure!(scene.kept()? == ["node-0", "node-1", "node-7"], "{:?}", scene.kept()?);
    let told = scene.told().await?;
    let names = format!("nodes {0}-node-1, {0}-node-7 are gone", scene.stack);
    ensure!(told.len() == 1 && told[0].contains(&names) && told[0].contains("409"), "{told:?}");
    // The next one that takes nodes away finds them as well.
    scene.server.be_restless(false);
    scene.resize(&json!({"node_count": 2})).await?;
    scene.resize(&json!({"node_count": 1})).await?;
    ensure!(scene.kept()? == ["node-0"], "{:?}", scene.kept()?);
    scene.world.finish().await
}

#[tokio::test]
async fn who_is_killed_meanwhile_leaves_it_to_the_next() -> Result<()> {
    let mut scene = Scene::start().await?;
    scene.server.behave(Behaviour::Slow(Duration::from_secs(3)));
    scene.demo.resize(&scene.cluster, 1).await?;
    wait::until("the stack to be at rest", PATIENCE, async || {
        let stack = scene.world.cloud.stacks().pop().context("a stack")?;
        Ok(Seen::when(stack.status == "UPDATE_COMPLETE", || stack.status.clone()))
    })
    .await?;
    // Whoever has seen that waits for the cluster, twice at least.
    if let Some(owner) = scene.world.owner_now(&scene.cluster).await? {
        scene.world.kill(owner)?;
    }
    scene.server.behave(Behaviour::Well);
    scene.demo.wait_for(&scene.cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(scene.kept()? == ["node-0"], "{:?}", scene.kept()?);
    scene.world.finish().await
}
