//! Users log in to Kubernetes with Keystone, in clusters that were made so.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::nodes;
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World};

const WEBHOOK: &str = "addons/keystone-auth.json";
const POLICY: &str = "addons/keystone-auth-policy.json";

async fn create(demo: &Client, labels: Value) -> Result<String> {
    let template = demo.create_template("plain").await?;
    let mut body = client::cluster("blue", &template);
    body["labels"] = labels;
    demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()
}

/// New masters for the whole cluster.
async fn rotate(demo: &Client, cluster: &str) -> Result<()> {
    demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect(202)?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await.map(drop)
}

async fn delete(demo: &Client, cluster: &str) -> Result<()> {
    demo.delete_cluster(cluster).await?;
    demo.wait_gone(cluster, PATIENCE).await
}

#[rstest]
#[tokio::test]
async fn a_new_cluster_has_it_and_its_policy_stays_its_users(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = create(&demo, json!({})).await?;
    let project = text(&demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?, "project_id");
    let data = nodes::masters(&world)?;
    let policy = nodes::document(&data, POLICY)?.context("a policy")?;
    ensure!(text(&policy["data"], "policies").contains(&format!("\"{project}\"")), "{policy}");
    let webhook = nodes::document(&data, WEBHOOK)?.context("a webhook")?.to_string();
    ensure!(webhook.contains("--keystone-url=http") && webhook.contains("/v3\""), "{webhook}");

    // Masters that come later run it, and leave alone what the users made of the policy.
    rotate(&demo, &cluster).await?;
    let later = nodes::masters(&world)?;
    ensure!(later != data && nodes::document(&later, WEBHOOK)?.is_some(), "the new masters lack it");
    ensure!(nodes::document(&later, POLICY)?.is_none(), "the policy is made anew");
    delete(&demo, &cluster).await?;
    world.finish().await
}

#[tokio::test]
async fn a_cluster_that_was_made_without_stays_without() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let cluster = create(&demo, json!({"keystone_auth_enabled": "false"})).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    rotate(&demo, &cluster).await?;
    ensure!(nodes::document(&nodes::masters(&world)?, WEBHOOK)?.is_none(), "it has one");
    delete(&demo, &cluster).await?;
    world.finish().await
}

#[tokio::test]
async fn where_the_operator_turned_it_off_nobody_has_it() -> Result<()> {
    let environment = [("OS_KUBERNETES__KEYSTONE_AUTH".to_owned(), "false".to_owned())].into();
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, json!({"keystone_auth_enabled": "true"})).await?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    ensure!(
        text(&failed, "status_reason").contains("keystone_auth_enabled: must not be true where [kubernetes] keystone_auth is off"),
        "{failed}"
    );
    ensure!(world.cloud.stacks().is_empty(), "a stack was made");
    delete(&demo, &cluster).await?;
    let cluster = create(&demo, json!({})).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(nodes::document(&nodes::masters(&world)?, WEBHOOK)?.is_none(), "it has one");
    delete(&demo, &cluster).await?;
    world.finish().await
}
