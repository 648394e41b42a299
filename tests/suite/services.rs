//! What operators see of the services themselves.

use std::collections::{BTreeMap, BTreeSet};

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

/// One that has died, or that an operator has taken out, is listed as what it is.
#[tokio::test]
async fn a_conductor_that_has_not_been_heard_of_is_listed_as_down() -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    let admin = world.user("admin", "admin");
    let states = async || {
        let body = admin.get("/v1/mservices").await?.expect(200)?.body;
        let services = body["mservices"].as_array().context("a list")?;
        Ok::<_, anyhow::Error>(services.iter().map(|service| (text(service, "host"), text(service, "state"))).collect::<BTreeMap<_, _>>())
    };
    let until = async |wanted: [&str; 3]| {
        let hosts = ["conductor-1", "conductor-2", "conductor-3"].map(str::to_owned);
        let wanted: BTreeMap<String, String> = hosts.into_iter().zip(wanted.map(str::to_owned)).collect();
        wait::until("the states of all conductors", PATIENCE, async || {
            let seen = states().await?;
            Ok(Seen::when(seen == wanted, || format!("{seen:?}")))
        })
        .await
    };
    until(["up", "up", "up"]).await?;
    let dead = world.pids("conductor-2")[0];
    world.kill(dead)?;
    let database = world.database()?;
    // Three minutes (`[DEFAULT] service_down_time`) have passed since.
    let aged = "UPDATE magnum_service SET created_at = created_at - INTERVAL 1 HOUR, updated_at = created_at, \
                last_seen_up = last_seen_up - INTERVAL 1 HOUR WHERE host = 'conductor-2'";
    database.execute(aged, Vec::new()).await?;
    until(["up", "down", "up"]).await?;
    world.start_again(dead)?;
    until(["up", "up", "up"]).await?;
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
