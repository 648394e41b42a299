//! The health of clusters, as the conductors see it from outside.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use provider_clients::{Kubernetes, KubernetesError, KubernetesOptions, Networks, Node, Ready};
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::kubernetes::{ApiServer, Authority, Behaviour};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};
use tokio::net::TcpListener;

/// Seconds between two looks.
const INTERVAL: u64 = 3;

/// What a look that the rule forbids says, and nothing else.
const FORBIDDEN: &str = "no connection: a rule of the operator forbids its address ([kubernetes] health_denied_networks)";

struct Scene {
    world: World,
    demo: Client,
    cluster: String,
    server: ApiServer,
}

/// A complete cluster whose API is a stand-in of ours, looked at by three conductors.
async fn scene() -> Result<Scene> {
    let mut environment = polling();
    // The stand-in is on loopback.
    environment.insert("OS_KUBERNETES__HEALTH_DENIED_NETWORKS".to_owned(), String::new());
    scene_with(Options { environment, ..Options::default() }).await
}

fn polling() -> BTreeMap<String, String> {
    BTreeMap::from([("OS_KUBERNETES__HEALTH_POLLING_INTERVAL".to_owned(), INTERVAL.to_string())])
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
        let listener = TcpListener::bind("127.0.0.1:0").await?;
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
    let polling = |seconds: i64| format!("[kubernetes]\nhealth_polling_interval = {seconds}\nhealth_denied_networks =\n");
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

/// A stack's output is its user's to change, and conductors stand in a network where users do not.
#[tokio::test]
async fn by_default_no_look_leads_to_the_machine_itself() -> Result<()> {
    let scene = scene_with(Options { environment: polling(), ..Options::default() }).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let open = listener.local_addr()?.port();
    let closed = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
    for place in
        [format!("127.0.0.1:{open}"), format!("localhost:{open}"), format!("[::ffff:127.0.0.1]:{open}"), format!("127.0.0.1:{closed}")]
    {
        scene.move_to(&format!("https://{place}")).await?;
        // So that what is seen was written by a look at this place.
        scene.set("health_status", mysql_async::Value::NULL).await?;
        scene.until("UNKNOWN", |reason| reason == &json!({"api": FORBIDDEN})).await?;
    }
    ensure!(nobody_came(&listener).await, "somebody connected");
    ensure!(scene.server.asked() == 0, "the stand-in was asked");
    scene.world.finish().await
}

#[tokio::test]
async fn what_is_denied_is_not_connected_to_whatever_it_is_called() -> Result<()> {
    let authority = Authority::unknown()?;
    let server = ApiServer::start(&authority).await?;
    let asked = async |url: &str, denied: &str| client_of(&authority, url, denied)?.healthz().await.map_err(anyhow::Error::from);
    let well = asked(server.address(), "192.0.2.0/24, ::1").await?;
    ensure!(well == "ok", "{well}");
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let open = listener.local_addr()?.port();
    let closed = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
    for host in
        ["127.0.0.1", "127.1", "127.0.0.1.", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "LOCALHOST"]
    {
        for port in [open, closed] {
            let seen = asked(&format!("https://{host}:{port}"), "127.0.0.0/8, ::1").await;
            ensure!(seen.as_ref().is_err_and(|error| error.to_string() == FORBIDDEN), "{host}:{port}: {seen:?}");
        }
    }
    ensure!(nobody_came(&listener).await, "somebody connected");
    Ok(())
}

/// Who holds a master holds its authority too, and may answer anything.
#[tokio::test]
async fn what_is_kept_of_an_answer_is_small_whatever_it_is() -> Result<()> {
    let authority = Authority::unknown()?;
    let server = ApiServer::start(&authority).await?;
    let client = client_of(&authority, server.address(), "")?;
    let node =
        |name: &str, ready: &str| json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
    let page = |next: &str, items: Vec<Value>| json!({"metadata": {"continue": next}, "items": items}).to_string();
    let longest = "n".repeat(253);
    server.list(page("", vec![node(&longest, "Unknown")]));
    let nodes = client.nodes().await?;
    ensure!(nodes == [Node { name: longest.clone(), ready: Ready::Unknown }], "{nodes:?}");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(page("", vec![node("a", "True")]).as_bytes())?;
    let much = json!({"metadata": {"continue": "next", "selfLink": "x".repeat(15 * 1024 * 1024)}, "items": []}).to_string();
    for (what, answer, words) in [
        ("a long name", page("", vec![node(&format!("{longest}n"), "True")]).into_bytes(), "no list of nodes"),
        ("no name", page("", vec![node("a b", "True")]).into_bytes(), "no list of nodes"),
        ("another word", page("", vec![node("a", "Perhaps")]).into_bytes(), "no list of nodes"),
        ("a long token", page(&"t".repeat(4097), vec![node("a", "True")]).into_bytes(), "no list of nodes"),
        ("a page of too many", page("", vec![node("a", "True"); 10_001]).into_bytes(), "no list of nodes"),
        ("pages of many", page("next", vec![node("a", "True"); 6000]).into_bytes(), "more than 10000 nodes"),
        ("pages of much", much.into_bytes(), "too long"),
        ("a packed page", packed.finish()?, "no list of nodes"),
    ] {
        server.list(answer);
        let seen = client.nodes().await.map(|nodes| nodes.len());
        ensure!(matches!(&seen, Err(KubernetesError::Bad(text)) if text.contains(words)), "{what}: {seen:?}");
    }
    Ok(())
}

/// A client of what is at this address, in the name of this authority.
fn client_of(authority: &Authority, url: &str, denied: &str) -> Result<Kubernetes> {
    let (certificate, key) = authority.client()?;
    Ok(Kubernetes::new(&KubernetesOptions {
        url: url.to_owned(),
        ca: authority.certificate_pem()?,
        certificate,
        key: key.into(),
        connect_timeout: PATIENCE,
        timeout: PATIENCE,
        denied: Networks::read(denied).context("networks")?,
    })?)
}

async fn nobody_came(listener: &TcpListener) -> bool {
    tokio::time::timeout(Duration::from_millis(300), listener.accept()).await.is_err()
}
