//! Clients that take their time.

use std::time::Duration;

use anyhow::{Result, ensure};
use cloud_simulator::{Fault, How};
use tests::client;
use tests::raw::Raw;

use super::{head, world};

const PAUSE: Duration = Duration::from_millis(100);
/// What a machine under load may add to a time-out.
const LOAD: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_head_that_trickles_is_cut_off_on_a_new_connection_and_on_one_that_was_used() -> Result<()> {
    let world = world("[requests]\nhead_timeout = 1\n").await?;
    let mut fresh = Raw::connect(world.addresses()[0]).await?;
    fresh.send("GET /v1/clusters HTTP/1.1\r\nX-Slow: ").await?;
    let took = fresh.trickle(b'x', PAUSE).await?;
    ensure!(took < Duration::from_secs(1) + LOAD, "{took:?}");

    let mut used = Raw::connect(world.addresses()[0]).await?;
    used.send(head(&world, "GET /v1/clusters") + "\r\n").await?;
    ensure!(used.answer().await?.status == 200);
    used.send("GET /v1/clusters HTTP/1.1\r\nX-Slow: ").await?;
    let took = used.trickle(b'x', PAUSE).await?;
    ensure!(took < Duration::from_secs(1) + LOAD, "{took:?}");
    world.finish().await
}

#[tokio::test]
async fn a_connection_without_requests_is_closed_after_the_idle_time() -> Result<()> {
    let world = world("[requests]\nhead_timeout = 1\nidle_timeout = 1\n").await?;
    let mut client = Raw::connect(world.addresses()[0]).await?;
    client.send(head(&world, "GET /v1/clusters") + "\r\n").await?;
    ensure!(client.answer().await?.status == 200);
    let took = client.closed().await?;
    ensure!(took < Duration::from_secs(2) + LOAD, "{took:?}");
    world.finish().await
}

#[tokio::test]
async fn a_body_that_does_not_come_in_time_is_answered_with_408() -> Result<()> {
    let world = world("[requests]\nbody_timeout = 1\n").await?;
    let before = world.counts().await?;
    let mut client = Raw::connect(world.addresses()[0]).await?;
    let head = head(&world, "POST /v1/clusters") + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    client.send(head).await?;
    client.answer().await?.expect_error(408)?;
    ensure!(world.counts().await? == before);
    world.finish().await
}

#[tokio::test]
async fn hundreds_of_slow_clients_do_not_keep_others_from_their_answers() -> Result<()> {
    let world = world("[requests]\nhead_timeout = 2\nmax_connections = 100\n").await?;
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut client = Raw::connect(world.addresses()[0]).await?;
        client.send("GET / HTTP/1.1\r\nX-Slow: ").await?;
        slow.push(client);
    }
    // More than the limit are connected: whoever comes now waits for the first ones to be thrown out, three turns at most.
    let started = std::time::Instant::now();
    world.demo().get("/v1/clusters").await?.expect(200)?;
    ensure!(started.elapsed() < Duration::from_secs(8) + LOAD, "{:?}", started.elapsed());
    drop(slow);
    world.finish().await
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered_with_503() -> Result<()> {
    let world = world("[requests]\nanswer_timeout = 3\n").await?;
    let before = world.counts().await?;
    world.cloud.inject(Fault { at: "nova.any".to_owned(), nth: 0, how: How::Slow(Duration::from_secs(18)) });
    let answer = world.demo().post("/v1/clustertemplates", &client::template("small")).await?;
    answer.expect_error(503, "within 3 seconds")?;
    world.cloud.clear_faults();
    ensure!(world.counts().await? == before);
    world.demo().create_template("small").await?;
    world.finish().await
}
