//! `Idempotency-Key`: what a client sends again is not done again.

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::raw::Raw;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

const KEY: &str = "Idempotency-Key";

async fn clusters(client: &Client) -> Result<Vec<Value>> {
    let body = client.get("/v1/clusters").await?.expect(200)?.body;
    Ok(body["clusters"].as_array().cloned().unwrap_or_default())
}

#[rstest]
#[tokio::test]
async fn the_same_request_with_the_same_key_has_one_answer(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let made = demo.with(KEY, "t-1").post("/v1/clustertemplates", &client::template("small")).await?.expect(201)?;
    let again = demo.with(KEY, "t-1").post("/v1/clustertemplates", &client::template("small")).await?.expect(201)?;
    ensure!(again.text == made.text && again.header("location") == made.header("location"), "{}", again.text);
    let template = text(&made.body, "uuid");

    let keyed = demo.with(KEY, "c-1");
    let body = client::cluster("blue", &template);
    let first = keyed.post("/v1/clusters", &body).await?.expect(202)?;
    // The next one goes to the other API process.
    for _ in 0..3 {
        let again = keyed.post("/v1/clusters", &body).await?.expect(202)?;
        ensure!(again.text == first.text, "{}, not {}", again.text, first.text);
    }
    ensure!(clusters(&demo).await?.len() == 1);
    let cluster = text(&first.body, "uuid");
    // Another request, another user, and another project.
    keyed.post("/v1/clusters", &client::cluster("red", &template)).await?.expect_error(422, "another request")?;
    keyed.delete(&format!("/v1/clusters/{cluster}")).await?.expect_error(422, "another request")?;
    world.user("member2", "demo").with(KEY, "c-1").post("/v1/clusters", &body).await?.expect_error(422, "another request")?;
    world.user("demo2", "demo2").with(KEY, "c-1").post("/v1/clusters", &body).await?.expect(400)?;
    // Reading needs no key and takes none.
    keyed.get("/v1/clusters").await?.expect(200)?;

    // What was refused was not done, and may be asked for again.
    let keyed = demo.with(KEY, "c-2");
    let resize = format!("/v1/clusters/{cluster}/actions/resize");
    keyed.at("1.10").post(&resize, &json!({"node_count": 3})).await?.expect_error(409, "CREATE_IN_PROGRESS")?;
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    keyed.at("1.10").post(&resize, &json!({"node_count": 3})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    keyed.at("1.10").post(&resize, &json!({"node_count": 3})).await?.expect(202)?;
    let body = demo.cluster(&cluster).await?;
    ensure!(body["status"] == "UPDATE_COMPLETE", "done again: {body}");
    ensure!(world.cloud.calls("heat.stack_update") == 1);

    // An answer without a body, also when what it was about is gone.
    let keyed = demo.with(KEY, "d-1");
    let path = format!("/v1/clusters/{cluster}");
    keyed.delete(&path).await?.expect(204)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let again = keyed.delete(&path).await?.expect(204)?;
    ensure!(again.text.is_empty(), "{}", again.text);
    demo.delete(&path).await?.expect(404)?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn of_many_requests_with_one_key_at_the_same_time_one_is_done(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let keyed = demo.with(KEY, "once");
    let body = client::cluster("blue", &template);
    let answers = try_join_all((0..12).map(|_| keyed.post("/v1/clusters", &body))).await?;
    let done: Vec<&str> = answers.iter().filter(|a| a.status == 202).map(|a| a.text.as_str()).collect();
    ensure!(!done.is_empty() && done.iter().all(|text| *text == done[0]), "{answers:?}");
    for other in answers.iter().filter(|a| a.status != 202) {
        ensure!(other.status == 409 && other.text.contains("is being worked on"), "{}: {}", other.status, other.text);
    }
    let all = clusters(&demo).await?;
    ensure!(all.len() == 1, "{all:?}");
    demo.wait_for(&text(&all[0], "uuid"), "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_client_that_never_saw_the_answer_gets_it_when_it_asks_again(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let body = client::cluster("blue", &template).to_string();
    let token = world.token("demo", "demo");
    let mut raw = Raw::connect(world.addresses()[0]).await?;
    let head = format!(
        "POST /v1/clusters HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\n{KEY}: lost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    raw.send(head + &body).await?;
    drop(raw);
    let keyed = demo.with(KEY, "lost");
    // It may have been lost before it was read, be on its way, or be done: in the end there is one.
    let answer = wait::until("an answer", PATIENCE, async || {
        let answer = keyed.send(reqwest::Method::POST, "/v1/clusters", Some(body.clone())).await?;
        Ok(if answer.status == 409 { Seen::Instead(answer.text) } else { Seen::Yes(answer.expect(202)?) })
    })
    .await?;
    let cluster = text(&answer.body, "uuid");
    let all = clusters(&demo).await?;
    ensure!(all.len() == 1 && all[0]["uuid"] == cluster.as_str(), "{all:?}");
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await.context("the cluster")?;
    world.finish().await
}
