//! Who is told what: the notifications of a cluster's life, once for each change, whatever happens to the broker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use mysql_async::prelude::Queryable;
use rstest::rstest;
use serde_json::json;
use tests::client::{self, Client, text};
use tests::database::{Database, needed};
use tests::metrics::{until, watched};
use tests::notifications::{Told, Topic, environment};
use tests::openmetrics::Shown;
use tests::servers::PrivateServer;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use url::Url;

fn topic_name() -> String {
    format!("t-{}", uuid::Uuid::new_v4().simple())
}

async fn scene(mix: Mix) -> Result<(World, Topic)> {
    scene_with(mix, BTreeMap::new()).await
}

async fn scene_with(mix: Mix, mut more: BTreeMap<String, String>) -> Result<(World, Topic)> {
    let (name, amqp) = (topic_name(), needed("MAGNUM_TEST_AMQP_URL")?);
    let topic = Topic::listen(&name, &amqp).await?;
    more.append(&mut environment(&name, &amqp));
    let world = World::start(mix, Options { environment: more, ..Options::default() }).await?;
    Ok((world, topic))
}

fn lines(told: &[Told]) -> Vec<String> {
    told.iter().map(Told::line).collect()
}

fn distinct(told: &[Told]) -> usize {
    told.iter().map(Told::id).collect::<BTreeSet<_>>().len()
}

/// Waits until nothing waits for the broker.
async fn outbox_is_empty(database: &Database) -> Result<()> {
    wait::until("an empty outbox", 2 * PATIENCE, async || {
        let left = database.rows::<String>("SELECT uuid FROM notification ORDER BY id").await?;
        Ok(Seen::when(left.is_empty(), || format!("{left:?}")))
    })
    .await
}

async fn resize(demo: &Client, cluster: &str, count: u32) -> Result<()> {
    let body = json!([{"op": "replace", "path": "/node_count", "value": count}]);
    demo.patch(&format!("/v1/clusters/{cluster}"), &body).await?.expect(202)?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    Ok(())
}

#[rstest]
#[tokio::test]
async fn every_change_is_told_once_as_upstream_tells_it(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let (world, topic) = scene(mix).await?;
    let demo = world.demo().at("1.12");
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    resize(&demo, &cluster, 3).await?;
    let groups = format!("/v1/clusters/{cluster}/nodegroups");
    let group = demo.post(&groups, &json!({"name": "more", "node_count": 1, "flavor_id": "m1.small"})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    demo.delete(&format!("{groups}/{}", text(&group.body, "uuid"))).await?.expect(204)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    demo.send(reqwest::Method::PATCH, &format!("/v1/credentials/{cluster}"), None).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;

    let told = topic.wait_for(8, PATIENCE).await?;
    ensure!(
        lines(&told)
            == [
                "info magnum.cluster.create pending CREATE_IN_PROGRESS",
                "info magnum.cluster.create success CREATE_COMPLETE",
                "info magnum.cluster.update pending UPDATE_IN_PROGRESS",
                "info magnum.cluster.update success UPDATE_COMPLETE",
                // The group that was made and the one that was removed; new credentials are nobody's business.
                "info magnum.cluster.update success UPDATE_COMPLETE",
                "info magnum.cluster.update success UPDATE_COMPLETE",
                "info magnum.cluster.delete pending DELETE_IN_PROGRESS",
                "info magnum.cluster.delete success DELETE_COMPLETE",
            ],
        "{:#?}",
        lines(&told)
    );
    ensure!(distinct(&told) == told.len());
    let done = &told[1].message;
    let host = if mix == Mix::Embedded { "container-infra.standalone" } else { "container-infra.conductor-" };
    ensure!(text(done, "publisher_id").starts_with(host) && done["_unique_id"] != json!(null), "{done}");
    let cadf = &done["payload"];
    ensure!(cadf["typeURI"] == "http://schemas.dmtf.org/cloud/audit/1.0/event" && cadf["eventType"] == "activity", "{cadf}");
    ensure!(cadf["observer"]["typeURI"] == "service/magnum/cluster", "{cadf}");
    ensure!(cadf["initiator"]["typeURI"] == "service/security/account/user" && cadf["initiator"]["domain_id"] == "default", "{cadf}");
    ensure!(cadf["target"]["id"] == cluster.as_str() && cadf["target"]["name"] == "blue", "{cadf}");
    let data = &cadf["target"]["attachments"][0]["content"];
    ensure!(data["node_count"] == 2 && data["master_count"] == 1 && text(data, "api_address").starts_with("https://"), "{data}");
    ensure!(cadf["initiator"]["project_id"] == data["project_id"] && data["cluster_template_id"] == template.as_str(), "{cadf}");
    ensure!(!done.to_string().contains("password"), "{done}");
    ensure!(topic.take().await?.is_empty(), "told twice");
    topic.remove().await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_failure_is_told_as_an_error(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let (world, topic) = scene(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.inject(Fault { at: "heat.stack_create".into(), nth: 0, how: How::Status(400, "no such flavor".into()) });
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let mut told = topic.wait_for(2, PATIENCE).await?;
    // Errors wait in a queue of their own.
    told.sort_by_key(|told| text(&told.message, "timestamp"));
    let wanted = ["info magnum.cluster.create pending CREATE_IN_PROGRESS", "error magnum.cluster.create failure CREATE_FAILED"];
    ensure!(lines(&told) == wanted, "{:#?}", lines(&told));
    let data = &told[1].message["payload"]["target"]["attachments"][0]["content"];
    ensure!(text(data, "status_reason").contains("no such flavor"), "{data}");
    world.cloud.clear_faults();
    topic.remove().await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn what_gives_way_to_a_deletion_is_told_of_its_end(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let (world, topic) = scene(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    let mut told = topic.wait_for(1, PATIENCE).await?;
    demo.delete_cluster(&cluster).await?;
    world.cloud.hold_stacks(false);
    demo.wait_gone(&cluster, PATIENCE).await?;
    told.extend(topic.wait_for(3, PATIENCE).await?);
    // Errors wait in a queue of their own.
    told.sort_by_key(|told| text(&told.message, "timestamp"));
    let wanted = [
        "info magnum.cluster.create pending CREATE_IN_PROGRESS",
        "error magnum.cluster.create failure DELETE_IN_PROGRESS",
        "info magnum.cluster.delete pending DELETE_IN_PROGRESS",
        "info magnum.cluster.delete success DELETE_COMPLETE",
    ];
    ensure!(lines(&told) == wanted && distinct(&told) == told.len(), "{:#?}", lines(&told));
    topic.remove().await?;
    world.finish().await
}

/// Nobody comes to begin the deletion, who would tell of it.
#[tokio::test]
async fn what_gave_way_to_a_deletion_that_is_cancelled_is_told_of_its_end() -> Result<()> {
    // Whoever holds the operation keeps it, however long the requests take.
    let lease = BTreeMap::from([("OS_OPERATIONS__LEASE_SECONDS".to_owned(), "60".to_owned())]);
    let (world, topic) = scene_with(Mix::Distributed, lease).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    // Nobody can begin the deletion before he has let go.
    let owner = world.owner(&cluster).await?;
    world.freeze(owner)?;
    demo.delete_cluster(&cluster).await?;
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/cancel"), &json!({})).await?.expect(202)?;
    world.thaw(owner)?;
    world.cloud.hold_stacks(false);
    let mut told = topic.wait_for(2, PATIENCE).await?;
    told.sort_by_key(|told| text(&told.message, "timestamp"));
    let wanted = ["info magnum.cluster.create pending CREATE_IN_PROGRESS", "error magnum.cluster.create failure CREATE_FAILED"];
    ensure!(lines(&told) == wanted, "{:#?}", lines(&told));
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = topic.wait_for(2, PATIENCE).await?;
    let wanted = ["info magnum.cluster.delete pending DELETE_IN_PROGRESS", "info magnum.cluster.delete success DELETE_COMPLETE"];
    ensure!(lines(&told) == wanted, "{:#?}", lines(&told));
    topic.remove().await?;
    world.finish().await
}

#[tokio::test]
async fn several_conductors_tell_each_change_once_and_in_order() -> Result<()> {
    let (world, topic) = scene(Mix::Distributed).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let mut clusters = Vec::new();
    for number in 0..8 {
        clusters.push(demo.create_cluster(&format!("c{number}"), &template).await?);
    }
    for cluster in &clusters {
        demo.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
        demo.delete_cluster(cluster).await?;
    }
    world.keep_secrets_of_stacks();
    for cluster in &clusters {
        demo.wait_gone(cluster, PATIENCE).await?;
    }
    let told = topic.wait_for(4 * clusters.len(), PATIENCE).await?;
    ensure!(told.len() == 4 * clusters.len() && distinct(&told) == told.len(), "{:#?}", lines(&told));
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for told in &told {
        let cadf = &told.message["payload"];
        let (action, outcome) = (text(cadf, "action"), text(cadf, "outcome"));
        of.entry(text(&cadf["target"], "id")).or_default().push(format!("{action} {outcome}"));
    }
    ensure!(of.len() == clusters.len(), "{of:#?}");
    ensure!(of.values().all(|told| told == &["create pending", "create success", "delete pending", "delete success"]), "{of:#?}");
    outbox_is_empty(world.database()?).await?;
    topic.remove().await?;
    world.finish().await
}

#[tokio::test]
async fn a_broker_that_is_away_delays_and_nothing_is_lost() -> Result<()> {
    let broker = PrivateServer::start("rabbitmq").await?;
    let (name, amqp) = (topic_name(), broker.url()?);
    let options = Options { amqp: Some(amqp.clone()), environment: environment(&name, &amqp), ..Options::default() };
    let mut world = World::start(Mix::Distributed, options).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    broker.stop().await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let waiting = world.database()?.rows::<String>("SELECT uuid FROM notification ORDER BY id").await?;
    ensure!(waiting.len() == 2, "{waiting:?}");
    // Whoever wrote them need not be the one who sends them.
    world.kill_all("conductor-")?;
    world.start_conductor()?;
    broker.start_again().await?;
    let topic = wait::until("the broker", PATIENCE, async || {
        Ok(match Topic::listen(&name, &amqp).await {
            Ok(topic) => Seen::Yes(topic),
            Err(error) => Seen::Instead(format!("{error:#}")),
        })
    })
    .await?;
    let told = topic.wait_for(2, Duration::from_secs(60)).await?;
    ensure!(told.iter().map(Told::id).collect::<Vec<_>>() == waiting, "{:#?}", lines(&told));
    topic.remove().await?;
    world.finish().await
}

/// The broker has it, and nobody has noted that: it is told again, as the same message.
#[tokio::test]
async fn what_a_sender_that_dies_has_not_noted_is_told_again_under_the_same_id() -> Result<()> {
    let (mut world, topic) = scene(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    topic.wait_for(2, PATIENCE).await?;
    let database = world.database()?.clone();
    let waiting = async || database.rows::<String>("SELECT uuid FROM notification ORDER BY id").await;
    outbox_is_empty(&database).await?;
    // Nobody may send until there are messages, and then nobody may remove them.
    let (mut task, mut outbox) = (database.open().await?, database.open().await?);
    for conn in [&mut task, &mut outbox] {
        conn.query_drop("START TRANSACTION").await?;
    }
    task.query_drop("SELECT owner FROM task_lease WHERE name = 'notifications' FOR UPDATE").await?;
    resize(&demo, &cluster, 3).await?;
    let written = waiting().await?;
    ensure!(written.len() == 2, "{written:?}");
    outbox.query_drop("SELECT id FROM notification FOR UPDATE").await?;
    task.query_drop("COMMIT").await?;
    let ids = |told: &[Told]| told.iter().map(Told::id).collect::<Vec<_>>();
    let told = topic.wait_for(2, PATIENCE).await?;
    ensure!(ids(&told) == written, "{:#?}", lines(&told));
    world.kill_all("conductor-")?;
    outbox.query_drop("ROLLBACK").await?;
    ensure!(waiting().await? == written, "{:?}, not {written:?}", waiting().await?);
    world.start_conductor()?;
    let again = topic.wait_for(2, 2 * PATIENCE).await?;
    ensure!(ids(&again) == written, "{:#?}", lines(&again));
    outbox_is_empty(&database).await?;
    ensure!(topic.take().await?.is_empty(), "told three times");
    topic.remove().await?;
    for conn in [task, outbox] {
        conn.disconnect().await?;
    }
    world.finish().await
}

/// What could not be removed was sent again with each attempt.
#[tokio::test]
async fn what_the_broker_has_is_not_sent_again_while_it_cannot_be_removed() -> Result<()> {
    let (name, amqp) = (topic_name(), needed("MAGNUM_TEST_AMQP_URL")?);
    let topic = Topic::listen(&name, &amqp).await?;
    let settings = environment(&name, &amqp);
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (world, _, url) = watched(Mix::Distributed, &settings).await?;
    let mut conn = world.database()?.open().await?;
    conn.query_drop("CREATE TRIGGER kept BEFORE DELETE ON notification FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'kept'")
        .await?;
    world.complete_cluster(&world.demo()).await?;
    let failed = "magnum_conductor_notification_attempts_failed_total";
    until(&url, "several attempts", |shown| shown.sum(failed, &[]) >= 4.0).await?;
    let mut told = topic.take().await?;
    ensure!(!told.is_empty() && distinct(&told) == told.len(), "{:#?}", lines(&told));
    conn.query_drop("DROP TRIGGER kept").await?;
    conn.disconnect().await?;
    outbox_is_empty(world.database()?).await?;
    told.extend(topic.take().await?);
    let wanted = ["info magnum.cluster.create pending CREATE_IN_PROGRESS", "info magnum.cluster.create success CREATE_COMPLETE"];
    ensure!(lines(&told) == wanted, "{:#?}", lines(&told));
    topic.remove().await?;
    world.finish().await
}

/// Topics that had a message got it again with each attempt to send it to one behind them.
#[tokio::test]
async fn a_topic_that_refuses_costs_those_before_it_no_second_message() -> Result<()> {
    let amqp = needed("MAGNUM_TEST_AMQP_URL")?;
    let names = [topic_name(), topic_name()];
    let (first, second) = (Topic::listen(&names[0], &amqp).await?, Topic::listen(&names[1], &amqp).await?);
    let environment = environment(&names.join(","), &amqp);
    let world = World::start(Mix::Distributed, Options { conductors: 1, environment, ..Options::default() }).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    for topic in [&first, &second] {
        topic.wait_for(1, PATIENCE).await?;
    }
    // No queue takes what is sent to it until the conductor, refused, connects anew and declares them.
    second.remove().await?;
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    outbox_is_empty(world.database()?).await?;
    let second = Topic::listen(&names[1], &amqp).await?;
    for topic in [first, second] {
        let told = topic.take().await?;
        ensure!(lines(&told) == ["info magnum.cluster.create success CREATE_COMPLETE"], "{:#?}", lines(&told));
        topic.remove().await?;
    }
    let log = world.logs("conductor").concat();
    ensure!(log.contains("failed to send notifications"), "nobody was refused: {log}");
    world.finish().await
}

/// It was dropped before anybody had tried to send it.
#[tokio::test]
async fn what_has_waited_for_a_conductor_is_told_however_late() -> Result<()> {
    let (mut world, topic) = scene(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    topic.wait_for(2, PATIENCE).await?;
    let database = world.database()?.clone();
    outbox_is_empty(&database).await?;
    // Nobody may send before all are gone.
    let mut task = database.open().await?;
    task.query_drop("START TRANSACTION").await?;
    task.query_drop("SELECT owner FROM task_lease WHERE name = 'notifications' FOR UPDATE").await?;
    resize(&demo, &cluster, 3).await?;
    world.kill_all("conductor-")?;
    // A day is too long to wait for the broker.
    database.execute("UPDATE notification SET created_ms = created_ms - ?", vec![(25 * 3_600_000).into()]).await?;
    task.query_drop("COMMIT").await?;
    task.disconnect().await?;
    world.start_conductor()?;
    let told = topic.wait_for(2, 2 * PATIENCE).await?;
    let wanted = ["info magnum.cluster.update pending UPDATE_IN_PROGRESS", "info magnum.cluster.update success UPDATE_COMPLETE"];
    ensure!(lines(&told) == wanted, "{:#?}", lines(&told));
    topic.remove().await?;
    world.finish().await
}

#[tokio::test]
async fn what_has_waited_for_the_broker_for_too_long_is_dropped_and_counted() -> Result<()> {
    // Nobody is there.
    let nowhere = format!("amqp://guest:guest@127.0.0.1:{}", free_port()?);
    let settings = environment(&topic_name(), &nowhere);
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (world, _, url) = watched(Mix::Distributed, &settings).await?;
    world.complete_cluster(&world.demo()).await?;
    let waiting = async || world.database()?.rows::<String>("SELECT uuid FROM notification ORDER BY id").await;
    let told = waiting().await?;
    ensure!(told.len() == 2, "{told:?}");
    // Half an hour less than a day is not too long.
    let older = "UPDATE notification SET created_ms = created_ms - ? WHERE uuid = ?";
    for (uuid, minutes) in told.iter().zip([24 * 60 + 1, 24 * 60 - 30]) {
        world.database()?.execute(older, vec![(minutes * 60_000).into(), uuid.as_str().into()]).await?;
    }
    let dropped = "magnum_conductor_notifications_dropped_total";
    until(&url, "a notification to be dropped", |shown| shown.sum(dropped, &[]) == 1.0).await?;
    ensure!(waiting().await? == told[1..], "{:?}, not {told:?}", waiting().await?);
    let log = world.logs("conductor").concat();
    ensure!(log.contains("waited for the broker for too long and were dropped"), "nobody said so: {log}");
    let failed = |shown: &Shown| shown.sum("magnum_conductor_notification_attempts_failed_total", &[]);
    let before = failed(&until(&url, "failures", |shown| failed(shown) > 0.0).await?);
    // It is tried again, and the other one stays.
    until(&url, "more failures", |shown| failed(shown) > before).await?;
    ensure!(waiting().await? == told[1..], "{:?}, not {told:?}", waiting().await?);
    world.finish().await
}

/// What an AMQP broker's confirmation of a message begins with: a method's frame, its channel and length, and `basic.ack`.
fn is_confirmation(frame: &[u8]) -> bool {
    frame.first() == Some(&1) && frame.get(7..11) == Some([0, 60, 0, 80].as_slice())
}

/// Stands before a broker and may keep each of its confirmations for a while.
struct Slow {
    address: String,
    is_slow: Arc<AtomicBool>,
    serving: JoinHandle<()>,
}

impl Slow {
    const KEPT: Duration = Duration::from_secs(3);

    async fn start(behind: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let is_slow: Arc<AtomicBool> = Arc::default();
        let slow = is_slow.clone();
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (behind, slow) = (behind.clone(), slow.clone());
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(&behind).await else { return };
                    let (mut from_client, mut to_client) = client.into_split();
                    let (mut from_server, mut to_server) = server.into_split();
                    let up = async {
                        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
                    };
                    let down = async {
                        let mut answer = vec![0; 8192];
                        while let Ok(count @ 1..) = from_server.read(&mut answer).await {
                            if slow.load(Ordering::SeqCst) && is_confirmation(&answer[..count]) {
                                tokio::time::sleep(Self::KEPT).await;
                            }
                            if to_client.write_all(&answer[..count]).await.is_err() {
                                return;
                            }
                        }
                    };
                    // Whichever side has had enough ends both.
                    tokio::select! {
                        () = up => {}
                        () = down => {}
                    }
                });
            }
        });
        Ok(Self { address, is_slow, serving })
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The lease was looked at before each message. One to many topics could last longer than that, and another conductor sent it as well.
#[tokio::test]
async fn however_many_topics_are_slow_one_conductor_sends() -> Result<()> {
    // Together they take longer than one conductor has the task without a sign of life, which is twenty seconds.
    const TOPICS: usize = 8;
    let amqp = needed("MAGNUM_TEST_AMQP_URL")?;
    let url = Url::parse(&amqp)?;
    let behind = format!("{}:{}", url.host_str().context("a host")?, url.port().context("a port")?);
    let broker = Slow::start(behind.clone()).await?;
    let names: Vec<String> = (0..TOPICS).map(|_| topic_name()).collect();
    let mut topics = Vec::new();
    for name in &names {
        topics.push(Topic::listen(name, &amqp).await?);
    }
    let environment = environment(&names.join(","), &amqp.replacen(&format!("@{behind}"), &format!("@{}", broker.address), 1));
    let world = World::start(Mix::Distributed, Options { conductors: 2, environment, ..Options::default() }).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    for topic in &topics {
        topic.wait_for(1, PATIENCE).await?;
    }
    broker.is_slow.store(true, Ordering::SeqCst);
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    outbox_is_empty(world.database()?).await?;
    broker.is_slow.store(false, Ordering::SeqCst);
    for topic in topics {
        let told = topic.take().await?;
        ensure!(lines(&told) == ["info magnum.cluster.create success CREATE_COMPLETE"], "{:#?}", lines(&told));
        topic.remove().await?;
    }
    world.finish().await
}

#[tokio::test]
async fn nothing_is_written_when_nobody_is_to_be_told() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.post("/v1/clusters", &client::cluster("blue", &template)).await?.expect(202)?;
    demo.wait_for(&text(&cluster.body, "uuid"), "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let waiting = world.database()?.rows::<i64>("SELECT COUNT(*) FROM notification").await?;
    ensure!(waiting == [0], "{waiting:?}");
    world.finish().await
}
