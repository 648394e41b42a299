//! Nodes are replaced after a change of their number that came to no good end: as many come as the stack was asked for last.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use rstest::rstest;
use serde_json::json;
use tests::client::Client;
use tests::nodes::servers;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

/// Replacing all nodes three times, and the leases of those that were killed.
const LONG: Duration = Duration::from_secs(120);

async fn rotate(demo: &Client, cluster: &str) -> Result<()> {
    demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect(202).map(drop)
}

async fn stack_is(world: &World, wanted: &str) -> Result<()> {
    wait::until(&format!("the stack to be {wanted}"), PATIENCE, async || {
        let status = world.cloud.stacks().pop().context("a stack")?.status;
        Ok(Seen::when(status == wanted, || status))
    })
    .await
}

/// A cluster of three workers whose resize to `count` was cancelled while Heat was at it; Heat has finished it all the same.
async fn cut_off(world: &World, demo: &Client, count: u32) -> Result<String> {
    let cluster = world.complete_cluster(demo).await?;
    demo.resize(&cluster, 3).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    world.cloud.hold_stacks(true);
    demo.resize(&cluster, count).await?;
    stack_is(world, "UPDATE_IN_PROGRESS").await?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/cancel"), &json!({})).await?.expect(202)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(failed["node_count"] == count.max(3), "the most that there may be: {failed}");
    world.cloud.hold_stacks(false);
    stack_is(world, "UPDATE_COMPLETE").await?;
    Ok(cluster)
}

/// So many workers are there by all that tells of them, and the rotation has come to a good end. The group goes on saying that its resize failed.
async fn has_kept(world: &World, demo: &Client, cluster: &str, count: usize) -> Result<()> {
    let shown = demo.wait_for(cluster, "UPDATE_FAILED", LONG).await?;
    let states = world.operation_states(cluster).await?;
    ensure!(states.last().is_some_and(|state| state == "SUCCEEDED"), "{states:?}: {shown}");
    let group = demo.get(&format!("/v1/clusters/{cluster}/nodegroups/default-worker")).await?.expect(200)?.body;
    for body in [&shown, &group] {
        ensure!(body["node_count"] == count && body["node_addresses"].as_array().map(Vec::len) == Some(count), "not {count}: {body}");
    }
    let workers = servers(world).into_iter().filter(|name| name.starts_with("node-")).count();
    ensure!(workers == count, "not {count}: {:?}", servers(world));
    ensure!(["master-0", "node-0"].iter().all(|name| !servers(world).contains(*name)), "not replaced: {:?}", servers(world));
    Ok(())
}

/// The row says three, or five: what there may be at most.
#[rstest]
#[case::a_shrink(1)]
#[case::a_growth(5)]
#[tokio::test]
async fn nodes_that_are_replaced_are_as_many_as_a_resize_that_was_cancelled_has_left(#[case] count: u32) -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo().at("1.12");
    let cluster = cut_off(&world, &demo, count).await?;
    rotate(&demo, &cluster).await?;
    has_kept(&world, &demo, &cluster, usize::try_from(count)?).await?;
    // What the group has is what a resize begins with, and what counts.
    let used = world.database()?.rows::<i64>("SELECT CAST(SUM(node_count) AS SIGNED) FROM nodegroup").await?;
    ensure!(used == [i64::from(count) + 1], "{used:?}");
    demo.resize(&cluster, 2).await?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 2, "{complete}");
    world.finish().await
}

/// Whoever goes on finds one worker more than the group has, beside the one that it replaces, and a row that tells of three.
#[rstest]
#[case::taken_over(false)]
#[case::failed_and_asked_for_again(true)]
#[tokio::test]
async fn whoever_goes_on_with_a_replacement_keeps_what_was_decided(#[case] has_failed: bool) -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    let demo = world.demo().at("1.12");
    let cluster = cut_off(&world, &demo, 1).await?;
    let stack = world.only_stack().await?;
    world.cloud.hold_stacks(true);
    rotate(&demo, &cluster).await?;
    // A master comes, and one goes; then a worker comes.
    for _ in 0..2 {
        stack_is(&world, "UPDATE_IN_PROGRESS").await?;
        ensure!(world.cloud.complete_stack(&stack));
    }
    stack_is(&world, "UPDATE_IN_PROGRESS").await?;
    let count = world.cloud.stacks()[0].parameters.get("number_of_minions").context("a number")?.to_string();
    ensure!(count.trim_matches('"') == "2", "one more than there is: {count}");
    let sizes = format!("SELECT payload FROM operation WHERE cluster_uuid = '{cluster}' AND kind = 'ca_rotate'");
    let payloads: Vec<String> = world.database()?.rows(&sizes).await?;
    let payload: serde_json::Value = serde_json::from_str(payloads.first().context("an operation")?)?;
    let kept = payload["sizes"].as_object().context("decided sizes")?;
    ensure!(kept.len() == 2 && kept.values().all(|size| *size == 1), "{payload}");
    if has_failed {
        ensure!(world.cloud.fail_stack(&stack, "No valid host was found"));
        demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
        world.cloud.hold_stacks(false);
        rotate(&demo, &cluster).await?;
    } else {
        let owner = world.owner(&cluster).await?;
        world.kill(owner)?;
        world.cloud.hold_stacks(false);
    }
    has_kept(&world, &demo, &cluster, 1).await?;
    world.finish().await
}
