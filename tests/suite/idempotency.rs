//! `Idempotency-Key`: what a client sends again is not done again.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Answer, Client, text};
use tests::kubeconfig;
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

/// Routes that change something and have not been asked yet.
struct Routes<'a> {
    world: &'a World,
    left: BTreeSet<String>,
    asked: u32,
}

impl<'a> Routes<'a> {
    /// Those of the document that the service makes of its own table.
    async fn of(world: &'a World) -> Result<Self> {
        let document = world.client(None).get("/v1/openapi.json").await?.expect(200)?.body;
        let items = document["paths"].as_object().context("paths")?.values().filter_map(Value::as_object).flatten();
        let changing = items.filter(|(method, _)| ["post", "put", "patch", "delete"].contains(&method.as_str()));
        let mut left: BTreeSet<String> = changing.map(|(_, route)| text(route, "operationId")).collect();
        // There are no federations: nothing of them is ever accepted twice.
        left.retain(|route| !route.ends_with("_federation"));
        Ok(Self { world, left, asked: 0 })
    }

    async fn operations(&self) -> Result<i64> {
        self.world.counts().await?.get("operation").copied().context("the table of operations")
    }

    /// Asks twice with one key: the second time nothing is done, and the answer is the same in every word.
    async fn ask(&mut self, route: &str, client: &Client, method: Method, path: &str, body: Value) -> Result<Answer> {
        self.asked += 1;
        let keyed = client.with(KEY, &format!("change-{}", self.asked));
        let path = format!("/v1/{path}");
        let body = (!body.is_null()).then(|| body.to_string());
        let first = keyed.send(method.clone(), &path, body.clone()).await?;
        ensure!((200..300).contains(&first.status), "{route}: {} {}", first.status, first.text);
        let operations = self.operations().await?;
        let again = keyed.send(method, &path, body).await?;
        ensure!((again.status, &again.text) == (first.status, &first.text), "{route}: {} {}, not {}", again.status, again.text, first.text);
        ensure!(self.operations().await? == operations, "{route} is done again");
        ensure!(self.left.remove(route), "{route} is no route that changes anything, or was asked before");
        Ok(first)
    }
}

#[tokio::test]
async fn every_change_is_made_once_with_one_key() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let mut routes = Routes::of(&world).await?;
    let (demo, admin) = (world.demo().at("latest"), world.user("admin", "admin").at("latest"));
    let (post, patch, delete) = (Method::POST, Method::PATCH, Method::DELETE);
    let replace = |path: &str, value: Value| json!([{"op": "replace", "path": path, "value": value}]);

    let made = routes.ask("create_clustertemplate", &demo, post.clone(), "clustertemplates", client::template("small")).await?;
    let template = text(&made.body, "uuid");
    let path = format!("clustertemplates/{template}");
    routes.ask("update_clustertemplate", &demo, patch.clone(), &path, replace("/name", json!("tall"))).await?;

    let made = routes.ask("create_cluster", &demo, post.clone(), "clusters", client::cluster("blue", &template)).await?;
    let cluster = text(&made.body, "uuid");
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let path = format!("clusters/{cluster}");
    let action = |name: &str| format!("{path}/actions/{name}");
    let updated = async || demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await;
    routes.ask("update_cluster", &demo, patch.clone(), &path, replace("/node_count", json!(3))).await?;
    updated().await?;
    routes.ask("resize_cluster", &demo, post.clone(), &action("resize"), json!({"node_count": 2})).await?;
    updated().await?;
    routes.ask("upgrade_cluster", &demo, post.clone(), &action("upgrade"), json!({"cluster_template": template})).await?;
    updated().await?;
    let group = json!({"name": "more", "node_count": 1});
    routes.ask("create_nodegroup", &demo, post.clone(), &format!("{path}/nodegroups"), group).await?;
    updated().await?;
    let group = format!("{path}/nodegroups/more");
    routes.ask("update_nodegroup", &demo, patch.clone(), &group, replace("/max_node_count", json!(9))).await?;
    updated().await?;
    routes.ask("delete_nodegroup", &demo, delete.clone(), &group, Value::Null).await?;
    updated().await?;
    routes.ask("rotate_ca", &demo, patch.clone(), &format!("certificates/{cluster}"), Value::Null).await?;
    updated().await?;
    routes.ask("rotate_credential", &demo, patch.clone(), &format!("credentials/{cluster}"), Value::Null).await?;
    updated().await?;
    let request = json!({"cluster_uuid": cluster, "csr": kubeconfig::request()?.1});
    routes.ask("sign_certificate", &demo, post.clone(), "certificates", request).await?;
    let owner = text(&demo.cluster(&cluster).await?, "user_id");
    routes.ask("transfer_cluster", &admin, post.clone(), &action("transfer"), json!({"user_id": owner})).await?;

    world.cloud.hold_stacks(true);
    demo.resize(&cluster, 3).await?;
    world.progress_is_told(&demo, &cluster).await?;
    routes.ask("cancel_cluster", &demo, post.clone(), &action("cancel"), json!({})).await?;
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    routes.ask("retry_cluster", &demo, post.clone(), &action("retry"), json!({})).await?;
    updated().await?;

    let other = demo.create_cluster("red", &template).await?;
    demo.wait_for(&other, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    routes.ask("force_delete_cluster", &admin, post.clone(), &format!("clusters/{other}/actions/force-delete"), json!({})).await?;
    demo.wait_gone(&other, PATIENCE).await?;
    routes.ask("delete_cluster", &demo, delete.clone(), &path, Value::Null).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    // What it leaves is told, and removed here.
    world.cloud.hold_stacks(true);
    let third = demo.create_cluster("green", &template).await?;
    routes.ask("abandon_cluster", &admin, post.clone(), &format!("clusters/{third}/actions/abandon"), json!({})).await?;
    world.cloud.hold_stacks(false);
    demo.wait_gone(&third, PATIENCE).await?;
    let reported = demo.get(&format!("/v1/clusters/{third}/events?limit=500")).await?.expect(200)?.body;
    for leak in reported["events"].as_array().into_iter().flatten().filter_map(|event| event["leaks"].as_array()).flatten() {
        ensure!(world.cloud.remove_reported(&text(leak, "kind"), &text(leak, "name"), leak["id"].as_str()), "{leak}");
    }
    routes.ask("delete_clustertemplate", &demo, delete.clone(), &format!("clustertemplates/{template}"), Value::Null).await?;

    let project = world.cloud.project_id("demo");
    let quota = |limit: u32| json!({"project_id": project, "resource": "Cluster", "hard_limit": limit});
    routes.ask("create_quota", &admin, post.clone(), "quotas", quota(5)).await?;
    let path = format!("quotas/{project}/Cluster");
    routes.ask("update_quota", &admin, patch.clone(), &path, quota(6)).await?;
    routes.ask("delete_quota", &admin, delete.clone(), &path, Value::Null).await?;
    ensure!(routes.left.is_empty(), "never asked: {:?}", routes.left);
    world.finish().await
}
