//! Requests whose answers are lost: what may have come of them is removed with the cluster, or told when it cannot be looked for.

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

/// Every such call fails so that nobody knows whether it was carried out. (It was not.)
fn fail(world: &World, at: &str) {
    world.cloud.inject(Fault { at: at.to_owned(), nth: 0, how: How::Status(502, "the cloud has a bad day".to_owned()) });
}

async fn asked(world: &World, at: &str) -> Result<()> {
    wait::until(at, PATIENCE, async || Ok(Seen::when(world.cloud.calls(at) > 0, || "not asked".to_owned()))).await
}

/// A cluster whose making goes no further than this call.
async fn stopped_at(world: &World, demo: &Client, at: &str) -> Result<String> {
    let template = demo.create_template("small").await?;
    fail(world, at);
    let cluster = demo.create_cluster("blue", &template).await?;
    asked(world, at).await?;
    Ok(cluster)
}

async fn force(world: &World, demo: &Client, cluster: &str) -> Result<Vec<Value>> {
    world.user("admin", "admin").post(&format!("/v1/clusters/{cluster}/actions/force-delete"), &json!({})).await?.expect(202)?;
    demo.wait_gone(cluster, PATIENCE).await?;
    let body = demo.get(&format!("/v1/clusters/{cluster}/events")).await?.expect(200)?.body;
    let events = body["events"].as_array().context("a list")?;
    let report = events.iter().find(|event| event["kind"] == "leak_report").context("no report")?;
    Ok(report["leaks"].as_array().context("a list of leaks")?.clone())
}

#[rstest]
#[tokio::test]
async fn a_trustee_that_may_have_been_made_is_told(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = stopped_at(&world, &demo, "keystone.user_create").await?;
    fail(&world, "keystone.user_list");
    let left = force(&world, &demo, &cluster).await?;
    let project = world.cloud.project_id("demo");
    let [trustee] = &left[..] else { anyhow::bail!("{left:?}") };
    ensure!(trustee["kind"] == "keystone_user" && trustee["id"].is_null(), "{trustee}");
    ensure!(text(trustee, "name") == format!("{cluster}_{project}"), "{trustee}");
    let reason = text(trustee, "reason");
    ensure!(reason.starts_with(&format!("project {project}: ")) && reason.contains("a bad day"), "{reason}");
    world.cloud.clear_faults();
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_trust_that_may_have_been_made_is_told_with_whose_it_is(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = stopped_at(&world, &demo, "keystone.trust_create").await?;
    // With its trustee it would be gone. The owner of stacks, who was made before it, stays with him.
    fail(&world, "keystone.user_delete");
    let left = force(&world, &demo, &cluster).await?;
    let of = |kind: &str| left.iter().find(|leak| leak["kind"] == kind).with_context(|| format!("no {kind} in {left:?}"));
    let (trustee, trust) = (text(of("keystone_user")?, "id"), of("keystone_trust")?);
    let owner = text(of("stack_owner")?, "id");
    ensure!(left.len() == 3 && !trustee.is_empty() && trust["id"].is_null(), "{left:?}");
    let (project, trustor) = (world.cloud.project_id("demo"), world.cloud.user_id("demo"));
    let reason = text(trust, "reason");
    ensure!(reason.starts_with(&format!("project {project}, trustor {trustor}, trustee {trustee}: ")), "{reason}");
    world.cloud.clear_faults();
    ensure!(world.cloud.remove_user_by_id(&trustee), "the trustee was there");
    ensure!(world.cloud.remove_user_with_keys(&owner), "the owner was there");
    world.finish().await
}

/// Nova does not tell what its owner has, so that he stays as well.
#[rstest]
#[tokio::test]
async fn a_key_pair_that_may_have_been_made_is_told_with_whose_it_is(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = stopped_at(&world, &demo, "nova.keypair_create").await?;
    fail(&world, "nova.keypair_list");
    let left = force(&world, &demo, &cluster).await?;
    let project = world.cloud.project_id("demo");
    let [owner, key] = &left[..] else { anyhow::bail!("{left:?}") };
    ensure!(owner["kind"] == "stack_owner" && key["kind"] == "nova_keypair" && key["id"].is_null(), "{left:?}");
    let (name, reason) = (text(owner, "name"), text(key, "reason"));
    ensure!(reason.starts_with(&format!("project {project}: ")) && reason.contains("a bad day"), "{reason}");
    let users: Vec<String> = world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("user ")).collect();
    let of_key = text(key, "name").strip_suffix("/key").context("the key pair's own name")?.to_owned();
    ensure!(users == [format!("user {name} ({of_key})")], "{users:?}");
    world.cloud.clear_faults();
    ensure!(world.cloud.remove_reported("stack_owner", &name, None));
    world.finish().await
}

/// None is there after the time in which it can appear, and each was looked for.
#[rstest]
#[case("keystone.user_create")]
#[case("keystone.trust_create")]
#[case("nova.keypair_create")]
#[tokio::test]
async fn what_cannot_appear_any_more_is_not_told(#[case] at: &str) -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = stopped_at(&world, &demo, at).await?;
    let left = force(&world, &demo, &cluster).await?;
    ensure!(left.is_empty(), "{left:?}");
    world.cloud.clear_faults();
    world.finish().await
}
