//! Steps to which the operator gives a time of their own: it is shown beside each of them, and ends the operation.

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, FixedOffset, TimeDelta};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::Value;
use tests::client::{Client, text};
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World};

async fn world(mix: Mix, limits: &str) -> Result<World> {
    let environment = [("OS_OPERATIONS__STEP_SECONDS".to_owned(), limits.to_owned())].into();
    World::start(mix, Options { environment, ..Options::default() }).await
}

/// The only operation of a cluster.
async fn operation(client: &Client, cluster: &str) -> Result<Value> {
    let listed = client.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
    let id = text(&listed["operations"][0], "uuid");
    Ok(client.get(&format!("/v1/operations/{id}")).await?.expect(200)?.body)
}

fn at(body: &Value, key: &str) -> Result<DateTime<FixedOffset>> {
    DateTime::parse_from_rfc3339(&text(body, key)).with_context(|| format!("{key} of {body}"))
}

#[rstest]
#[tokio::test]
async fn a_step_that_takes_longer_than_it_may_ends_the_operation_and_all_others_have_the_time_of_that(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = world(mix, "stack:10, volumes:1").await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let reason = text(&failed, "status_reason");
    for words in
        ["step stack: not done within 10 seconds", "[operations] step_seconds", "stack blue-", "at step stack for 1", "Likely cure: "]
    {
        ensure!(reason.contains(words), "{words}: {reason}");
    }
    let ended = operation(&demo, &cluster).await?;
    ensure!(ended["state"] == "FAILED" && ended["outcome_code"] == "timeout" && ended["fault"] == "cloud", "{ended}");
    let steps = ended["steps"].as_array().context("a list of steps")?;
    ensure!(steps.len() > 2 && steps.last().is_some_and(|last| last["step"] == "stack"), "{steps:?}");
    for step in steps {
        if step["step"] == "stack" {
            let deadline = at(step, "deadline")?;
            ensure!(deadline - at(step, "started_at")? == TimeDelta::seconds(10), "{step}");
            ensure!(at(step, "finished_at")? >= deadline, "{step}");
        } else {
            ensure!(step["deadline"] == ended["deadline"], "{step}");
        }
    }
    world.cloud.hold_stacks(false);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Each try comes to it anew, and has no more time for that.
#[tokio::test]
async fn a_step_that_is_tried_again_and_again_ends_when_its_time_is_over() -> Result<()> {
    let world = world(Mix::Distributed, "trustee:3").await?;
    let how = How::Status(503, "out of order".to_owned());
    world.cloud.inject(Fault { at: "keystone.user_create".to_owned(), nth: 0, how });
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").starts_with("step trustee: not done within 3 seconds"), "{failed}");
    let ended = operation(&demo, &cluster).await?;
    ensure!(ended["outcome_code"] == "timeout" && ended["last_error"]["status"] == 503, "{ended}");
    world.cloud.clear_faults();
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}
