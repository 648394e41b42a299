//! Who is told what: the notifications of a cluster's life, once for each change, whatever happens to the broker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::json;
use tests::client::{self, Client, text};
use tests::database::needed;
use tests::notifications::{Told, Topic, environment};
use tests::servers::PrivateServer;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

fn topic_name() -> String {
    format!("t-{}", uuid::Uuid::new_v4().simple())
}

async fn scene(mix: Mix) -> Result<(World, Topic)> {
    let (name, amqp) = (topic_name(), needed("MAGNUM_TEST_AMQP_URL")?);
    let topic = Topic::listen(&name, &amqp).await?;
    let world = World::start(mix, Options { environment: environment(&name, &amqp), ..Options::default() }).await?;
    Ok((world, topic))
}

fn lines(told: &[Told]) -> Vec<String> {
    told.iter().map(Told::line).collect()
}

fn distinct(told: &[Told]) -> usize {
    told.iter().map(Told::id).collect::<BTreeSet<_>>().len()
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
    ensure!(cadf["initiator"]["typeURI"] == "service/security/account/user", "{cadf}");
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
    let told = topic.wait_for(2, PATIENCE).await?;
    let wanted = ["info magnum.cluster.create pending CREATE_IN_PROGRESS", "error magnum.cluster.create failure CREATE_FAILED"];
    ensure!(lines(&told) == wanted, "{:#?}", lines(&told));
    let data = &told[1].message["payload"]["target"]["attachments"][0]["content"];
    ensure!(text(data, "status_reason").contains("no such flavor"), "{data}");
    world.cloud.clear_faults();
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
    wait::until("an empty outbox", PATIENCE, async || {
        let left = world.database()?.rows::<i64>("SELECT COUNT(*) FROM notification").await?;
        Ok(Seen::when(left == [0], || format!("{left:?}")))
    })
    .await?;
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
