//! The key that secrets of a cluster are encrypted with in etcd: new masters have it exactly where the cluster was made with one.

use anyhow::{Result, ensure};
use reqwest::Method;
use rstest::rstest;
use serde_json::Value;
use tests::nodes;
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World};

#[rstest]
#[case::with_a_key(true)]
#[case::without(false)]
#[tokio::test]
async fn new_masters_are_made_as_the_cluster_was(#[case] has_key: bool) -> Result<()> {
    let environment = [("OS_KUBERNETES__ENCRYPT_SECRETS".to_owned(), has_key.to_string())].into();
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let is_told = |data: &Value| data.to_string().contains("SECRETS_KEY=");
    let first = nodes::masters(&world)?;
    ensure!(is_told(&first) == has_key, "{first}");
    demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let later = nodes::masters(&world)?;
    ensure!(later != first && is_told(&later) == has_key, "{later}");
    // Heat shows a key that there is none of as it shows any, and this.
    let told = world.cloud.stacks()[0].parameters["secrets_encrypted"].clone();
    ensure!(told.to_string().eq_ignore_ascii_case(&has_key.to_string()), "{told}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}
