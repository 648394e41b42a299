//! Requests that must be refused: the right status, upstream's form of an error, and nothing written.

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client};
use tests::world::{Mix, World};

/// A body for POST /v1/clusters, the status that it must get, and a word that the message must have in it.
fn bad_clusters(template: &str) -> Vec<(&'static str, Value, u16, &'static str)> {
    let with = |key: &str, value: Value| {
        let mut body = client::cluster("blue", template);
        body[key] = value;
        body
    };
    vec![
        ("an unknown template", with("cluster_template_id", json!("nosuch")), 400, "nosuch"),
        ("no template", with("cluster_template_id", Value::Null), 400, "template"),
        ("a name that begins with a digit", with("name", json!("1bad")), 400, "name"),
        ("an empty name", with("name", json!("")), 400, "name"),
        ("a name with a blank", with("name", json!("a b")), 400, "name"),
        ("a name that is too long", with("name", json!("a".repeat(243))), 400, "name"),
        ("a name that is no text", with("name", json!(7)), 400, "name"),
        ("an unknown field", with("colour", json!("red")), 400, "colour"),
        ("a read-only field", with("api_address", json!("https://x")), 400, "api_address"),
        ("an even number of masters", with("master_count", json!(2)), 400, "master"),
        ("no masters", with("master_count", json!(0)), 400, "master_count"),
        ("many masters without a load balancer", with("master_count", json!(3)), 400, "master_lb"),
        ("a count that is no number", with("node_count", json!("many")), 400, "node_count"),
        ("no nodes before 1.10", with("node_count", json!(0)), 400, "node_count"),
        ("labels that are no map", with("labels", json!("a=b")), 400, "labels"),
        ("an unknown flavor", with("flavor_id", json!("m9.huge")), 400, "m9.huge"),
        ("an unknown keypair", with("keypair", json!("nokey")), 404, "nokey"),
        ("an unknown network", with("fixed_network", json!("nonet")), 400, "nonet"),
        ("a body that is an array", json!([]), 400, ""),
        ("a body that is null", Value::Null, 400, ""),
    ]
}

#[rstest]
#[tokio::test]
async fn a_bad_cluster_is_refused_and_nothing_is_written(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let before = world.counts().await?;
    for (what, body, status, word) in bad_clusters(&template) {
        let answer = demo.post("/v1/clusters", &body).await?;
        answer.expect_error(status, word).context(what)?;
    }
    for body in ["{", "", "no json", "{\"name\": \"blue\""] {
        let answer = demo.send(Method::POST, "/v1/clusters", Some(body.to_owned())).await?;
        answer.expect_error(400, "").with_context(|| format!("the body {body:?}"))?;
    }
    let unknown = client::cluster("blue", "nosuch");
    demo.at("1.10").post("/v1/clusters", &unknown).await?.expect_error(404, "nosuch")?;
    world.user("reader", "demo").post("/v1/clusters", &client::cluster("blue", &template)).await?.expect_error(403, "cluster:create")?;
    ensure!(world.counts().await? == before, "written: {:?}, before {before:?}", world.counts().await?);
    ensure!(world.cloud.calls("heat.any") == 0);
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_bad_template_is_refused_and_nothing_is_written(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let before = world.counts().await?;
    let with = |key: &str, value: Value| {
        let mut body = client::template("small");
        body[key] = value;
        body
    };
    for (what, body, status, word) in [
        ("an unknown image", with("image_id", json!("noimage")), 400, "noimage"),
        ("an ambiguous image", with("image_id", json!("twin")), 409, "twin"),
        ("an image without distribution", with("image_id", json!("no-distro")), 400, "os_distro"),
        ("an unknown flavor", with("flavor_id", json!("m9.huge")), 400, "m9.huge"),
        ("a flavor without disk", with("flavor_id", json!("m1.nodisk")), 400, "m1.nodisk"),
        ("another kind of cluster", with("coe", json!("swarm")), 400, "coe"),
        ("an unknown network driver", with("network_driver", json!("tin-can")), 400, "tin-can"),
        ("an unknown field", with("colour", json!("red")), 400, "colour"),
        ("a public one", with("public", json!(true)), 403, "publish"),
        ("an unknown external network", with("external_network_id", json!("nonet")), 400, "nonet"),
    ] {
        demo.post("/v1/clustertemplates", &body).await?.expect_error(status, word).context(what)?;
    }
    ensure!(world.counts().await? == before, "written: {:?}, before {before:?}", world.counts().await?);
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn an_image_that_glance_does_not_show_is_refused_by_name_and_nothing_is_written(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let path = format!("/v1/clustertemplates/{template}");
    let (before, shown) = (world.counts().await?, demo.get(&path).await?.expect(200)?.body);
    let how = How::Status(403, "You are not authorized to complete this action.".to_owned());
    world.cloud.inject(Fault { at: "glance.any".to_owned(), nth: 0, how });
    let word = "fedora-coreos is not readable";
    demo.post("/v1/clustertemplates", &client::template("other")).await?.expect_error(403, word).context("a new template")?;
    let patch = json!([{"op": "replace", "path": "/flavor_id", "value": "m1.medium"}]);
    demo.patch(&path, &patch).await?.expect_error(403, word).context("a changed template")?;
    demo.post("/v1/clusters", &client::cluster("blue", &template)).await?.expect_error(403, word).context("a cluster")?;
    world.cloud.clear_faults();
    ensure!(world.counts().await? == before, "written: {:?}, before {before:?}", world.counts().await?);
    ensure!(demo.get(&path).await?.expect(200)?.body == shown && world.cloud.calls("heat.any") == 0);
    world.finish().await
}

async fn is_unauthorized(client: &Client) -> Result<()> {
    for (method, path, body) in [
        (Method::GET, "/v1/clusters", None),
        (Method::POST, "/v1/clusters", Some(client::cluster("blue", "small").to_string())),
        (Method::DELETE, "/v1/clusters/blue", None),
    ] {
        let answer = client.send(method.clone(), path, body).await?.expect(401).with_context(|| format!("{method} {path}"))?;
        let error = &answer.body["error"];
        ensure!(error["code"] == 401 && error["title"] == "Unauthorized" && error["message"].is_string(), "{}", answer.text);
        ensure!(answer.header("www-authenticate").starts_with("Keystone uri=\"http"), "{:?}", answer.headers);
    }
    Ok(())
}

#[rstest]
#[tokio::test]
async fn without_a_valid_token_nothing_is_shown_or_written(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let before = world.counts().await?;
    is_unauthorized(&world.client(None)).await.context("no token")?;
    is_unauthorized(&world.client(Some("gAAAAAnotATokenOfThisCloud"))).await.context("an unknown token")?;
    let expired = world.token("demo", "demo");
    world.cloud.expire_token(&expired);
    is_unauthorized(&world.client(Some(&expired))).await.context("an expired token")?;
    ensure!(world.counts().await? == before);
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn the_cluster_of_another_project_is_not_there(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", tests::wait::PATIENCE).await?;
    let before = world.counts().await?;
    let stranger = world.user("demo2", "demo2");
    for id in [cluster.as_str(), "blue"] {
        let path = format!("/v1/clusters/{id}");
        stranger.get(&path).await?.expect_error(404, id)?;
        stranger.delete(&path).await?.expect_error(404, id)?;
    }
    stranger.post("/v1/clusters", &client::cluster("red", &template)).await?.expect_error(400, &template)?;
    ensure!(world.counts().await? == before);
    ensure!(demo.cluster(&cluster).await?["status"] == "CREATE_COMPLETE");
    world.finish().await
}
