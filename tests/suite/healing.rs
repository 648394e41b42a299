//! Clusters whose workers are repaired: what the auto healer inside them finds, and what it asks for.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, http_trusting, text};
use tests::login::log_in_by_trust;
use tests::nodes;
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World};

/// Asks for a cluster of two workers with these labels.
async fn create(demo: &Client, labels: Value) -> Result<String> {
    let template = demo.create_template("small").await?;
    let mut body = client::cluster("blue", &template);
    body["labels"] = labels;
    demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()
}

/// The configuration of the auto healer inside the only cluster.
fn configuration(world: &World) -> Result<Value> {
    let documents = nodes::document(&nodes::masters(world)?, "addons/magnum-auto-healer.json")?.context("an auto healer")?;
    serde_json::from_str(&text(&documents["items"][0]["stringData"], "config.yaml")).context("its configuration")
}

#[rstest]
#[tokio::test]
async fn the_auto_healer_reports_and_has_one_worker_replaced(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let environment = [("OS_TRUST__CLUSTER_USER_TRUST".to_owned(), "true".to_owned())].into();
    let world = World::start(mix, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, json!({"auto_healing_enabled": "true", "auto_healing_controller": "magnum-auto-healer"})).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let config = configuration(&world)?;
    ensure!(config["cluster-name"] == cluster.as_str(), "{}", config["cluster-name"]);
    let login = |name: &str| text(&config["openstack"], name);
    let (url, user) = (login("auth-url"), login("user-id"));
    let token = log_in_by_trust(&http_trusting(None)?, &url, &user, &login("password"), &login("trust-id")).await?;
    let healer = world.client(Some(&token)).at("latest");

    // It looks whether it is to repair anything.
    let path = format!("/v1/clusters/{cluster}");
    let shown = healer.get(&path).await?.expect(200)?.body;
    ensure!(shown["labels"]["auto_healing_enabled"] == "true", "{shown}");
    // And for the stack, by its former name, which nobody else is shown any more.
    ensure!(shown["stack_id"] == world.only_stack().await?.as_str() && shown["cluster_id"] == shown["stack_id"], "{shown}");
    let others = demo.at("latest").get(&path).await?.expect(200)?.body;
    ensure!(others.get("stack_id").is_none() && others["cluster_id"] == shown["stack_id"], "{others}");
    let report = json!([
        {"op": "replace", "path": "/health_status", "value": "UNHEALTHY"},
        {"op": "replace", "path": "/health_status_reason",
         "value": "{'blue-node-1.NodeConditionCheck':'error','updated_at':'2026-01-01 00:00:00.5 +0000 UTC m=+30.1'}"},
    ]);
    healer.patch(&path, &report).await?.expect(202)?;
    let shown = healer.get(&path).await?.expect(200)?.body;
    ensure!(shown["health_status"] == "UNHEALTHY" && shown["status"] == "CREATE_COMPLETE", "{shown}");
    ensure!(shown["health_status_reason"]["blue-node-1.NodeConditionCheck"] == "error", "{shown}");

    // It knows the group of a node by the node's addresses, and asks for as many nodes as there are.
    let groups = healer.get(&format!("{path}/nodegroups")).await?.expect(200)?.body;
    let groups = groups["nodegroups"].as_array().context("groups")?;
    let group = groups.iter().find(|group| group["name"] == "default-worker").context("default-worker")?;
    let group = healer.get(&format!("{path}/nodegroups/{}", text(group, "uuid"))).await?.expect(200)?.body;
    ensure!(group["node_addresses"].as_array().map(Vec::len) == Some(2), "{group}");
    let before: BTreeSet<_> = nodes::servers_by_id(&world).into_iter().collect();
    let (name, server) = before.iter().find(|(name, _)| name == "node-1").context("node-1")?.clone();
    let body = json!({"node_count": group["node_count"], "nodes_to_remove": [server], "nodegroup": "default-worker"});
    healer.post(&format!("{path}/actions/resize"), &body).await?.expect(202)?;
    let shown = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(shown["node_count"] == 2, "{shown}");
    let after: BTreeSet<_> = nodes::servers_by_id(&world).into_iter().collect();
    let (gone, new): (Vec<_>, Vec<_>) = (before.difference(&after).collect(), after.difference(&before).collect());
    ensure!(gone == [&(name, server)] && new.len() == 1 && new[0].0 == "node-2", "gone {gone:?}, new {new:?}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[tokio::test]
async fn what_cannot_do_its_work_fails_the_cluster_by_name() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    for (labels, words) in [
        (json!({"auto_healing_enabled": "true"}), "auto_healing_enabled: must not be true without the OpenStack cloud provider"),
        (
            json!({"auto_healing_enabled": "true", "auto_healing_controller": "draino"}),
            "auto_healing_controller: must be magnum-auto-healer",
        ),
        (json!({"ingress_controller": "octavia"}), "ingress_controller: must not be octavia without the OpenStack cloud provider"),
        (
            json!({"monitoring_enabled": "true", "monitoring_interval_seconds": "1"}),
            "monitoring_interval_seconds: must be a whole number from 5 to 120, not 1",
        ),
    ] {
        let cluster = create(&demo, labels).await?;
        let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
        ensure!(text(&failed, "status_reason").contains(words), "{failed}");
        ensure!(world.cloud.stacks().is_empty(), "a stack was made");
        demo.delete_cluster(&cluster).await?;
        demo.wait_gone(&cluster, PATIENCE).await?;
    }
    world.finish().await
}

/// Whether a cluster is watched is its stack's to say: of two that have the label, one has it from before anybody read it.
#[rstest]
#[tokio::test]
async fn a_cluster_is_watched_as_it_was_made(#[values(true, false)] is_watched: bool) -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let labels = if is_watched { json!({"monitoring_enabled": "true"}) } else { json!({}) };
    let cluster = create(&demo, labels).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let labels = r#"{"monitoring_enabled": "true"}"#;
    let values = vec![labels.into(), cluster.as_str().into()];
    world.database()?.execute("UPDATE cluster SET labels = ? WHERE uuid = ?", values).await?;
    let is_told = |data: &Value| -> Result<bool> { Ok(nodes::document(data, "addons/prometheus.json")?.is_some()) };
    let first = nodes::masters(&world)?;
    ensure!(is_told(&first)? == is_watched, "the first master");
    demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let later = nodes::masters(&world)?;
    ensure!(later != first && is_told(&later)? == is_watched, "a later one");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// The name of the API in DNS is the stack's: new masters have it where the cluster was made with it.
#[tokio::test]
async fn an_api_has_its_name_as_long_as_its_cluster() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let cluster = create(&demo, json!({"api_dns_zone": "clusters.example.org"})).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let records = || world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("record ")).collect::<Vec<_>>();
    let made = records();
    ensure!(made.len() == 1 && made[0].starts_with("record blue.clusters.example.org. ("), "{made:?}");
    let is_named = |data: &Value| -> Result<bool> {
        Ok(nodes::file(data, "/etc/kubernetes-bootstrap/init.yaml")?.contains("\"blue.clusters.example.org\""))
    };
    let first = nodes::masters(&world)?;
    ensure!(is_named(&first)?, "the certificates of the first master lack the name");
    demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let later = nodes::masters(&world)?;
    ensure!(later != first && is_named(&later)?, "those of a later one do");
    ensure!(records() == made, "{:?}", records());
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(records().is_empty(), "{:?}", records());

    let plain = demo.create_cluster("plain", &demo.create_template("plain").await?).await?;
    demo.wait_for(&plain, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(records().is_empty() && !is_named(&nodes::masters(&world)?)?, "{:?}", records());
    demo.delete_cluster(&plain).await?;
    demo.wait_gone(&plain, PATIENCE).await?;
    world.finish().await
}
