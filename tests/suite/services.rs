//! What operators see of the services themselves.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use tests::client::text;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

#[rstest]
#[case(Mix::Embedded, &["standalone"])]
#[case(Mix::Distributed, &["conductor-1", "conductor-2", "conductor-3"])]
#[tokio::test]
async fn every_conductor_is_listed_as_up(#[case] mix: Mix, #[case] wanted: &[&str]) -> Result<()> {
    let world = World::usual(mix).await?;
    let admin = world.user("admin", "admin");
    let wanted: BTreeSet<String> = wanted.iter().map(|host| (*host).to_owned()).collect();
    wait::until("all conductors", PATIENCE, async || {
        let body = admin.get("/v1/mservices").await?.expect(200)?.body;
        let services = body["mservices"].as_array().context("a list")?;
        for service in services {
            ensure!(service["binary"] == "magnum-conductor" && service["state"] == "up", "{service}");
            ensure!(service["report_count"].as_i64() >= Some(1) && service["id"].as_i64() >= Some(1), "{service}");
        }
        let hosts: BTreeSet<String> = services.iter().map(|service| text(service, "host")).collect();
        Ok(Seen::when(hosts == wanted, || format!("{hosts:?}")))
    })
    .await?;
    world.demo().get("/v1/mservices").await?.expect_error(403, "magnum-service:get_all")?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn versions_and_health_are_answered_without_a_token(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let anybody = world.client(None);
    let root = anybody.get("/").await?.expect(200)?.body;
    ensure!(root["versions"][0]["id"] == "v1" && root["versions"][0]["min_version"] == "1.1", "{root}");
    for path in ["/v1", "/v1/"] {
        let answer = anybody.get(path).await?.expect(200)?;
        ensure!(answer.body["id"] == "v1", "{}", answer.text);
        ensure!(answer.header("openstack-api-minimum-version").ends_with(" 1.1"), "{:?}", answer.headers);
    }
    anybody.get("/healthcheck").await?.expect(200)?;
    world.demo().at("1.99").get("/v1/clusters").await?.expect(406)?;
    world.finish().await
}
