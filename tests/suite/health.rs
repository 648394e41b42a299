//! The health of clusters, as the conductors see it from outside.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::kubernetes::{ApiServer, Authority, Behaviour};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// Seconds between two looks.
const INTERVAL: u64 = 3;

struct Scene {
    world: World,
    demo: Client,
    cluster: String,
    server: ApiServer,
}

/// A complete cluster whose API is a stand-in of ours, looked at by three conductors.
async fn scene() -> Result<Scene> {
    let environment = BTreeMap::from([("OS_KUBERNETES__HEALTH_POLLING_INTERVAL".to_owned(), INTERVAL.to_string())]);
    scene_with(Options { environment, ..Options::default() }).await
}

async fn scene_with(options: Options) -> Result<Scene> {
    let world = World::start(Mix::Distributed, options).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let server = ApiServer::start(&Authority::of_cluster(world.database()?, &cluster).await?).await?;
    let scene = Scene { world, demo, cluster, server };
    // The simulated cloud has no machines: the address that Heat told leads nowhere.
    scene.move_to(scene.server.address()).await?;
    Ok(scene)
}

impl Scene {
    async fn move_to(&self, address: &str) -> Result<()> {
        self.set("api_address", address.into()).await
    }

    async fn set(&self, column: &str, value: mysql_async::Value) -> Result<()> {
        let values = vec![value, self.cluster.as_str().into()];
        self.world.database()?.execute(&format!("UPDATE cluster SET {column} = ? WHERE uuid = ?"), values).await
    }

    async fn until(&self, status: &str, reason: impl Fn(&Value) -> bool) -> Result<Value> {
        wait::until(status, PATIENCE, async || {
            let shown = self.demo.cluster(&self.cluster).await?;
            let holds = shown["health_status"] == status && reason(&shown["health_status_reason"]);
            let seen = format!("{} {}", shown["health_status"], shown["health_status_reason"]);
            Ok(if holds { Seen::Yes(shown) } else { Seen::Instead(seen) })
        })
        .await
    }
}

#[tokio::test]
async fn w16_health_is_what_the_cluster_answers_and_each_fault_has_its_reason() -> Result<()> {
    let scene = scene().await?;
    scene.until("HEALTHY", |reason| reason == &json!({"node-0.Ready": "True", "api": "ok"})).await?;
    let says = |words: &'static str| move |reason: &Value| text(reason, "api").contains(words);
    let server = &scene.server;
    server.behave(Behaviour::NodeNotReady);
    scene.until("UNHEALTHY", |reason| reason == &json!({"node-0.Ready": "True", "node-1.Ready": "False", "api": "ok"})).await?;
    server.behave(Behaviour::Failing);
    scene.until("UNHEALTHY", says("500 [+]ping ok [-]etcd failed")).await?;
    server.behave(Behaviour::Slow(Duration::from_secs(30)));
    scene.until("UNHEALTHY", says("no answer in time")).await?;
    server.behave(Behaviour::WrongCertificate);
    scene.until("UNKNOWN", says("no connection: invalid peer certificate")).await?;
    server.behave(Behaviour::Empty);
    scene.until("UNHEALTHY", |reason| reason == &json!({"nodes": "no node has joined", "api": "ok"})).await?;
    let refused = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        format!("https://{}", listener.local_addr()?)
    };
    scene.move_to(&refused).await?;
    scene.until("UNKNOWN", says("refused")).await?;
    // Of a cluster that was not made to be reached from outside, upstream's words.
    scene.set("floating_ip_enabled", 0.into()).await?;
    scene.until("UNKNOWN", says("The cluster blue is not accessible.")).await?;
    server.behave(Behaviour::Well);
    scene.move_to(server.address()).await?;
    scene.until("HEALTHY", says("ok")).await?;
    scene.world.finish().await
}

#[tokio::test]
async fn one_conductor_looks_at_a_time_and_nothing_is_written_without_change() -> Result<()> {
    let scene = scene().await?;
    scene.until("HEALTHY", |_| true).await?;
    let before = scene.demo.cluster(&scene.cluster).await?["updated_at"].clone();
    let (first, began) = (scene.server.asked(), Instant::now());
    wait::until("more looks", PATIENCE, async || {
        let more = scene.server.asked() - first;
        Ok(Seen::when(more >= 4, || format!("{more}")))
    })
    .await?;
    // Three conductors look no more often than one would.
    let turns = began.elapsed().as_secs() / INTERVAL + 1;
    let more = scene.server.asked() - first;
    ensure!(more <= turns + 1, "{more} looks in {turns} turns");
    let after = scene.demo.cluster(&scene.cluster).await?["updated_at"].clone();
    ensure!(before == after, "the row was written at {after}, before at {before}");
    scene.world.finish().await
}

#[tokio::test]
async fn an_agent_that_reports_is_believed() -> Result<()> {
    let scene = scene().await?;
    scene.until("HEALTHY", |_| true).await?;
    let report = json!([
        {"op": "replace", "path": "/health_status", "value": "UNHEALTHY"},
        {"op": "replace", "path": "/health_status_reason", "value": "{'api': 'ok', 'gpu': 'on fire'}"},
    ]);
    let path = format!("/v1/clusters/{}", scene.cluster);
    // It reports more often than the conductors would look.
    let report_for = async |turns: u64| -> Result<u64> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(turns * INTERVAL) {
            scene.demo.patch(&path, &report).await?.expect(202)?;
            let shown = scene.demo.cluster(&scene.cluster).await?;
            ensure!(shown["health_status"] == "UNHEALTHY" && shown["health_status_reason"]["gpu"] == "on fire", "{shown}");
        }
        Ok(scene.server.asked())
    };
    // A look that was under way when it began may still end.
    let asked = report_for(1).await?;
    ensure!(report_for(2).await? == asked, "the conductors kept looking");
    // It is silent: the conductors look again.
    scene.until("HEALTHY", |reason| text(reason, "api") == "ok").await?;
    scene.world.finish().await
}

/// The look at credentials takes up clusters as well, whether or not anybody looks at their health.
#[tokio::test]
async fn polling_that_is_turned_on_finds_every_cluster_due() -> Result<()> {
    let polling = |seconds: i64| format!("[kubernetes]\nhealth_polling_interval = {seconds}\n");
    let mut scene = scene_with(Options { conductor: polling(-1), ..Options::default() }).await?;
    wait::until("the cluster to be taken up", PATIENCE, async || {
        let taken_up: Vec<i64> =
            scene.world.database()?.rows("SELECT COUNT(*) FROM cluster_health WHERE credentials_due_ms IS NOT NULL").await?;
        Ok(Seen::when(taken_up == [1], || format!("{taken_up:?}")))
    })
    .await?;
    ensure!(scene.server.asked() == 0, "somebody looks at health");
    scene.world.terminate("conductor")?;
    scene.world.set_conductor_settings(&polling(INTERVAL.cast_signed()));
    scene.world.start_conductor()?;
    scene.until("HEALTHY", |_| true).await?;
    scene.world.finish().await
}
