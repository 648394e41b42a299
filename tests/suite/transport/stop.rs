//! The end of an API process: SIGTERM lets what was begun come to its end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use tests::client;
use tests::raw::Raw;
use tests::wait::{self, PATIENCE, Seen};

use super::{head, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_process_answers_what_it_has_begun_and_takes_nothing_new() -> Result<()> {
    let mut world = world("").await?;
    let address = world.addresses()[0].to_owned();
    let mut idle = Raw::connect(&address).await?;
    idle.send(head(&world, "GET /v1/clusters") + "\r\n").await?;
    ensure!(idle.answer().await?.status == 200);

    world.cloud.inject(Fault { at: "nova.any".to_owned(), nth: 0, how: How::Slow(Duration::from_secs(2)) });
    let calls = world.cloud.calls("nova.any");
    let body = client::template("small").to_string();
    let request = head(&world, "POST /v1/clustertemplates");
    let mut at_work = Raw::connect(&address).await?;
    at_work.send(format!("{request}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())).await?;
    wait::until("the request to be at work", PATIENCE, async || {
        let now = world.cloud.calls("nova.any");
        Ok(Seen::when(now > calls, || format!("{now} calls")))
    })
    .await?;

    let (stopped, answered) = {
        let answering = tokio::spawn(async move { at_work.answer().await });
        let stopped = tokio::task::block_in_place(|| world.terminate("api"))?;
        (stopped, answering.await?)
    };
    ensure!(stopped.iter().all(std::process::ExitStatus::success), "{stopped:?}");
    let answer = answered.context("the request that was at work")?;
    ensure!(answer.status == 201, "{answer:?}");
    idle.closed().await?;
    ensure!(Raw::connect(&address).await.is_err(), "somebody still listens");
    let rows = world.counts().await?;
    ensure!(rows.get("cluster_template") == Some(&1), "{rows:?}");
    world.close().await?;
    Ok(())
}

#[tokio::test]
async fn a_client_that_never_ends_does_not_keep_a_process_from_stopping() -> Result<()> {
    let mut world = world("[DEFAULT]\ngraceful_shutdown_timeout = 6\n").await?;
    let mut client = Raw::connect(world.addresses()[0]).await?;
    client.send(head(&world, "POST /v1/clusters") + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{").await?;
    let started = std::time::Instant::now();
    let stopped = world.terminate("api")?;
    ensure!(stopped.iter().all(std::process::ExitStatus::success), "{stopped:?}");
    ensure!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    world.close().await?;
    Ok(())
}
