//! Clusters that resize themselves: what the autoscaler inside them finds, and what it may ask for.

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
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

/// The default worker group, as the autoscaler asks for it.
async fn workers(demo: &Client, cluster: &str) -> Result<Value> {
    Ok(demo.at("1.9").get(&format!("/v1/clusters/{cluster}/nodegroups/default-worker")).await?.expect(200)?.body)
}

#[rstest]
#[tokio::test]
async fn the_autoscaler_resizes_within_the_bounds_of_its_group(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let environment = [("OS_TRUST__CLUSTER_USER_TRUST".to_owned(), "true".to_owned())].into();
    let world = World::start(mix, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, json!({"auto_scaling_enabled": "true", "min_node_count": "1", "max_node_count": "4"})).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;

    let stacks = world.cloud.stacks();
    let data = stacks.iter().find_map(|stack| stack.parameters.get("master_user_data")).and_then(Value::as_str).context("masters")?;
    let documents = nodes::file(&serde_json::from_str(data)?, "/etc/kubernetes-bootstrap/addons/cluster-autoscaler.json")?;
    ensure!(documents.contains(&format!("--cluster-name={cluster}")), "{documents}");

    // It takes the groups of its roles that have a largest size.
    let group = workers(&demo, &cluster).await?;
    ensure!((&group["role"], &group["min_node_count"], &group["max_node_count"]) == (&json!("worker"), &json!(1), &json!(4)), "{group}");
    ensure!(!text(&group, "stack_id").is_empty(), "{group}");
    let path = format!("/v1/clusters/{cluster}/actions/resize");
    let ask = |count: u32| json!({"node_count": count, "nodegroup": "default-worker"});
    let scaler = demo.at("1.9");
    scaler.post(&path, &ask(5)).await?.expect_error(400, "max_node_count")?;
    scaler.post(&path, &ask(4)).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;

    // The bounds are the users' to change.
    let patch = json!([{"op": "replace", "path": "/max_node_count", "value": 6}]);
    scaler.patch(&format!("/v1/clusters/{cluster}/nodegroups/default-worker"), &patch).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    scaler.post(&path, &ask(5)).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(workers(&demo, &cluster).await?["node_count"] == 5);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[tokio::test]
async fn an_autoscaler_without_a_login_fails_the_cluster_by_name() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let cluster = create(&demo, json!({"auto_scaling_enabled": "true"})).await?;
    let group = workers(&demo, &cluster).await?;
    ensure!(group["max_node_count"] == 3, "one more than it begins with: {group}");
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("auto_scaling_enabled: must not be true without"), "{failed}");
    ensure!(world.cloud.stacks().is_empty(), "a stack was made");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}
