//! Clusters that resize themselves: what the autoscaler inside them finds, and what it may ask for.

use anyhow::{Context, Result, ensure};
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

/// Somebody who has logged in with what the autoscaler finds inside its cluster.
async fn scaler(world: &World, cluster: &str) -> Result<Client> {
    let documents = nodes::document(&nodes::masters(world)?, "addons/cluster-autoscaler.json")?.context("an autoscaler")?;
    ensure!(documents.to_string().contains(&format!("--cluster-name={cluster}")), "the autoscaler of another cluster");
    let config = text(&documents["items"][0]["stringData"], "cloud.conf");
    let value = |name: &str| {
        let line = config.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.map(|value| value.trim_matches('"').to_owned()).with_context(|| format!("no {name}"))
    };
    let (user, password) = (value("user-id")?, value("password")?);
    let token = log_in_by_trust(&http_trusting(None)?, &value("auth-url")?, &user, &password, &value("trust-id")?).await?;
    Ok(world.client(Some(&token)).at("latest"))
}

#[rstest]
#[tokio::test]
async fn the_autoscaler_resizes_within_the_bounds_of_its_group(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let environment = [("OS_TRUST__CLUSTER_USER_TRUST".to_owned(), "true".to_owned())].into();
    let world = World::start(mix, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, json!({"auto_scaling_enabled": "true", "max_node_count": "4"})).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;

    // It takes the groups of its roles that have a largest size.
    let scaler = scaler(&world, &cluster).await?;
    let path = format!("/v1/clusters/{cluster}/nodegroups/default-worker");
    let group = scaler.get(&path).await?.expect(200)?.body;
    ensure!((&group["role"], &group["min_node_count"], &group["max_node_count"]) == (&json!("worker"), &json!(1), &json!(4)), "{group}");
    ensure!(!text(&group, "stack_id").is_empty(), "{group}");
    let resize = format!("/v1/clusters/{cluster}/actions/resize");
    let ask = |count: u32| json!({"node_count": count, "nodegroup": "default-worker"});
    scaler.post(&resize, &ask(5)).await?.expect_error(400, "max_node_count")?;
    scaler.post(&resize, &ask(4)).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let (_, server) = nodes::servers_by_id(&world).into_iter().find(|(name, _)| name == "node-1").context("node-1")?;
    let without = json!({"node_count": 3, "nodes_to_remove": [server], "nodegroup": "default-worker"});
    scaler.post(&resize, &without).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(nodes::servers_by_id(&world).iter().all(|(_, id)| *id != server), "the node that it emptied is there");

    // The bounds are the users' to change.
    let patch = json!([{"op": "replace", "path": "/max_node_count", "value": 6}]);
    demo.at("1.9").patch(&path, &patch).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    scaler.post(&resize, &ask(5)).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(scaler.get(&path).await?.expect(200)?.body["node_count"] == 5);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[tokio::test]
async fn an_autoscaler_without_a_login_fails_the_cluster_by_name() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    // Two are asked for: the bounds make room.
    let labels = json!({"auto_scaling_enabled": "true", "min_node_count": "3", "max_node_count": "1"});
    let cluster = create(&demo, labels).await?;
    let path = format!("/v1/clusters/{cluster}/nodegroups/default-worker");
    let group = demo.at("1.9").get(&path).await?.expect(200)?.body;
    ensure!((&group["min_node_count"], &group["max_node_count"]) == (&json!(2), &json!(2)), "{group}");
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("auto_scaling_enabled: must not be true without"), "{failed}");
    ensure!(world.cloud.stacks().is_empty(), "a stack was made");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}
