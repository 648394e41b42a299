//! The health of clusters, as the conductors see it from outside.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::RangeTo;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use provider_clients::{Kubernetes, KubernetesError, KubernetesOptions, Networks, Node, Ready};
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::database::copy;
use tests::kubernetes::{ApiServer, Authority, Behaviour};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

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
    let world = World::start(Mix::Distributed, Options { usual_keys: true, ..options }).await?;
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

/// Clusters that were not made to be reached were never asked, a failure had no reason, and a cluster without nodes was well.
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

/// Every host looked at every cluster, and wrote its row each time.
#[tokio::test]
async fn w8_one_conductor_looks_at_a_time_and_nothing_is_written_without_change() -> Result<()> {
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

/// Takes every connection and never says a word.
struct Silent {
    address: String,
    counts: Arc<Counts>,
    serving: JoinHandle<()>,
}

/// Connections: there now, there at once at most, and come so far.
#[derive(Default)]
struct Counts {
    open: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl Silent {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let address = format!("https://{}", listener.local_addr()?);
        let counts: Arc<Counts> = Arc::default();
        let counted = counts.clone();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let counted = counted.clone();
                // What has ended before is seen to have: on a busy machine both may have waited.
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                counted.all.fetch_add(1, Ordering::SeqCst);
                let open = counted.open.fetch_add(1, Ordering::SeqCst) + 1;
                counted.most.fetch_max(open, Ordering::SeqCst);
                tokio::spawn(async move {
                    // Until the other side has had enough.
                    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                    counted.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(Self { address, counts, serving })
    }

    /// Waits until so many have come.
    async fn until(&self, count: usize) -> Result<()> {
        wait::until("connections", 2 * PATIENCE, async || {
            let all = self.counts.all.load(Ordering::SeqCst);
            Ok(Seen::when(all >= count, || all.to_string()))
        })
        .await
    }

    fn most(&self) -> usize {
        self.counts.most.load(Ordering::SeqCst)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A look at a cluster that does not answer had no end, and the next one came on top of it.
#[tokio::test]
async fn w8_a_look_at_a_cluster_that_does_not_answer_is_over_before_the_next_one() -> Result<()> {
    let scene = scene().await?;
    let silent = Silent::start().await?;
    scene.move_to(&silent.address).await?;
    wait::until("the reason", PATIENCE, async || {
        let shown = scene.demo.cluster(&scene.cluster).await?;
        let reason = text(&shown["health_status_reason"], "api");
        Ok(Seen::when(reason.contains("no answer in time"), || format!("{} {reason}", shown["health_status"])))
    })
    .await?;
    silent.until(6).await?;
    // The end of one is seen here a little after it.
    ensure!(silent.most() <= 2, "{} connections at once", silent.most());
    scene.move_to(scene.server.address()).await?;
    scene.until("HEALTHY", |_| true).await?;
    scene.world.finish().await
}

/// Each look read two secrets of Barbican, and registered a consumer each time.
#[tokio::test]
async fn w8_a_look_costs_neither_barbican_nor_keystone_a_call() -> Result<()> {
    let mut environment = polling();
    for (option, value) in [
        ("KUBERNETES__HEALTH_DENIED_NETWORKS", ""),
        ("CERTIFICATES__CERT_MANAGER_TYPE", "barbican"),
        ("OPERATIONS__CREDENTIAL_CHECK_SECONDS", "0"),
    ] {
        environment.insert(format!("OS_{option}"), value.to_owned());
    }
    let world = World::start(Mix::Distributed, Options { conductors: 1, environment, usual_keys: true, ..Options::default() }).await?;
    let cluster = world.complete_cluster(&world.demo()).await?;
    let silent = Silent::start().await?;
    let values = vec![silent.address.as_str().into(), cluster.as_str().into()];
    world.database()?.execute("UPDATE cluster SET api_address = ? WHERE uuid = ?", values).await?;
    // Each look connects twice at most.
    silent.until(2).await?;
    let calls = || (world.cloud.calls("barbican.any"), world.cloud.calls("keystone.token_issue"));
    let before = calls();
    silent.until(8).await?;
    ensure!(calls() == before && before.0 > 0, "{before:?} calls before, {:?} after three more looks", calls());
    world.finish().await
}

/// Looks without an end were as many as there were clusters that did not answer, and more with each round.
#[tokio::test]
async fn w8_clusters_that_do_not_answer_take_a_few_places_and_hold_up_no_other() -> Result<()> {
    const SILENT: usize = 60;
    // What one conductor has places for, and a few whose end is seen later here than there.
    const MOST: usize = 32 + 8;
    let mut environment = polling();
    environment.insert("OS_KUBERNETES__HEALTH_DENIED_NETWORKS".to_owned(), String::new());
    let scene = scene_with(Options { conductors: 1, environment, ..Options::default() }).await?;
    scene.until("HEALTHY", |_| true).await?;
    let (silent, database) = (Silent::start().await?, scene.world.database()?);
    let address = format!("'{}'", silent.address);
    let set = [("uuid", "UUID()"), ("name", "UUID()"), ("api_address", address.as_str()), ("health_status", "NULL")];
    let times = format!("WITH RECURSIVE n (at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < {SILENT}) SELECT at FROM n");
    let mut conn = database.open().await?;
    copy(&mut conn, "cluster", &set, &format!("({times}) AS times WHERE original.uuid = '{}'", scene.cluster)).await?;
    conn.disconnect().await?;
    // Each is looked at, and is told to have given no answer.
    silent.until(SILENT).await?;
    let others = format!("uuid <> '{}'", scene.cluster);
    let sql = format!("SELECT COUNT(*) FROM cluster WHERE {others} AND health_status_reason LIKE '%no answer in time%'");
    wait::until("all reasons", 2 * PATIENCE, async || {
        let told: Vec<i64> = database.rows(&sql).await?;
        Ok(Seen::when(told == [i64::try_from(SILENT)?], || format!("{told:?} of {SILENT}")))
    })
    .await?;
    ensure!(silent.most() <= MOST, "{} looks at once", silent.most());
    // Meanwhile the one that answers has its turn.
    scene.server.behave(Behaviour::NodeNotReady);
    scene.until("UNHEALTHY", |reason| reason["node-1.Ready"] == "False").await?;
    database.execute(&format!("DELETE FROM cluster WHERE {others}"), Vec::new()).await?;
    scene.world.finish().await
}

/// A conductor began as many looks as it has places for and paused, however soon they ended: more than some five hundred clusters were not looked
/// at in the default interval.
#[tokio::test]
async fn looks_at_a_fleet_that_is_due_are_not_paused_between() -> Result<()> {
    // Nine pauses, of two and a half seconds at least, were between the first and the last of them.
    const FLEET: i64 = 300;
    const SOON: Duration = Duration::from_secs(20);
    let environment = BTreeMap::from([("OS_KUBERNETES__HEALTH_POLLING_INTERVAL".to_owned(), "60".to_owned())]);
    let world = World::start(Mix::Distributed, Options { conductors: 1, environment, ..Options::default() }).await?;
    let (cluster, database) = (world.complete_cluster(&world.demo()).await?, world.database()?);
    // Nobody is asked where a cluster without an address is: the looks end with that being written down.
    let set = [("uuid", "UUID()"), ("name", "UUID()"), ("api_address", "NULL"), ("health_status", "NULL")];
    let times = format!("WITH RECURSIVE n (at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < {FLEET}) SELECT at FROM n");
    let mut conn = database.open().await?;
    copy(&mut conn, "cluster", &set, &format!("({times}) AS times WHERE original.uuid = '{cluster}'")).await?;
    conn.disconnect().await?;
    let due = "INSERT INTO cluster_health (cluster_uuid, due_ms) SELECT uuid, 0 FROM cluster WHERE api_address IS NULL \
               ON DUPLICATE KEY UPDATE due_ms = 0";
    database.execute(due, Vec::new()).await?;
    let left = async |until: RangeTo<i64>| {
        wait::until(&format!("{until:?} looks to be left"), PATIENCE, async || {
            let left: Vec<i64> = database.rows("SELECT COUNT(*) FROM cluster_health WHERE due_ms = 0").await?;
            Ok(Seen::when(left.iter().all(|left| until.contains(left)), || format!("{left:?} of {FLEET}")))
        })
        .await
    };
    left(..FLEET).await?;
    let begun = Instant::now();
    left(..1).await?;
    ensure!(begun.elapsed() < SOON, "{:?} for {FLEET} looks", begun.elapsed());
    let sql = "SELECT COUNT(*) FROM cluster WHERE health_status = 'UNKNOWN' AND health_status_reason LIKE '%no address%'";
    wait::until("all are told to be unknown", PATIENCE, async || {
        let told: Vec<i64> = database.rows(sql).await?;
        Ok(Seen::when(told == [FLEET], || format!("{told:?} of {FLEET}")))
    })
    .await?;
    database.execute(&format!("DELETE FROM cluster WHERE uuid <> '{cluster}'"), Vec::new()).await?;
    world.finish().await
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
    let before = scene.demo.cluster(&scene.cluster).await?["updated_at"].clone();
    ensure!(report_for(2).await? == asked, "the conductors kept looking");
    let after = scene.demo.cluster(&scene.cluster).await?["updated_at"].clone();
    ensure!(before == after, "the row was written at {after}, before at {before}");
    // Real ones report every half a minute, however often the conductors look: until the next report nobody contradicts it.
    tokio::time::sleep(Duration::from_secs(3 * INTERVAL)).await;
    ensure!(scene.server.asked() == asked, "the conductors looked between two reports");
    // It has been silent for longer than any of them is: the conductors look again.
    let values = vec![90_000.into(), scene.cluster.as_str().into()];
    scene.world.database()?.execute("UPDATE cluster_health SET reported_ms = reported_ms - ? WHERE cluster_uuid = ?", values).await?;
    scene.until("HEALTHY", |reason| text(reason, "api") == "ok").await?;
    scene.world.finish().await
}

/// The look at credentials takes up clusters as well, whether or not anybody looks at their health.
#[tokio::test]
async fn polling_that_is_turned_on_finds_every_cluster_due() -> Result<()> {
    let polling = |seconds: i64| format!("[kubernetes]\nhealth_polling_interval = {seconds}\nhealth_denied_networks =\n");
    // Looks at credentials take clusters up where nobody looks at health: each half of their interval, which is an hour by default.
    let environment = BTreeMap::from([("OS_OPERATIONS__CREDENTIAL_CHECK_SECONDS".to_owned(), "2".to_owned())]);
    let mut scene = scene_with(Options { conductor: polling(-1), environment, ..Options::default() }).await?;
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
    let wanted = Node { name: longest.clone(), ready: Ready::Unknown, uid: String::new(), version: String::new() };
    ensure!(nodes == [wanted], "{nodes:?}");
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
