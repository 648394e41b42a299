//! A cluster's events, in pages and as a stream that a client can leave and come back to.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::Value;
use tests::client::{Client, text};
use tests::events::Event;
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World};

/// All events of a cluster, page by page.
async fn pages(client: &Client, cluster: &str, limit: i64) -> Result<Vec<Value>> {
    let mut events = Vec::new();
    let mut path = format!("/v1/clusters/{cluster}/events?limit={limit}");
    loop {
        let body = client.get(&path).await?.expect(200)?.body;
        events.extend(body["events"].as_array().cloned().context("a list")?);
        match body["next"].as_str().and_then(|next| next.split_once("/v1/")) {
            Some((_, rest)) => path = format!("/v1/{rest}"),
            None => return Ok(events),
        }
    }
}

fn kinds(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| text(event, "kind")).collect()
}

/// Whether the deletion of the cluster, the last thing that happens to it, has ended.
fn is_the_end(event: &Event, seen: &[Event]) -> bool {
    let delete = seen.iter().find(|e| e.kind == "accepted" && e.data["message"] == "cluster_delete");
    event.kind == "ended" && delete.is_some_and(|delete| delete.data["operation_id"] == event.data["operation_id"])
}

#[rstest]
#[tokio::test]
async fn a_client_that_leaves_and_comes_back_gets_every_event_once(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let mut seen: Vec<Event> = Vec::new();
    let mut is_deleting = false;
    // Two events from each stream; the next one is of the other process, where there is one.
    let started = Instant::now();
    'streams: loop {
        ensure!(started.elapsed() < PATIENCE * 2, "no end: {seen:?}");
        let mut stream = demo.events(&cluster, seen.last().map(|event| event.id)).await?;
        for _ in 0..2 {
            let event = stream.next().await?.context("the stream ended by itself")?;
            let is_last = is_the_end(&event, &seen);
            seen.push(event.clone());
            if is_last {
                break 'streams;
            }
            if event.kind == "ended" && !is_deleting {
                is_deleting = true;
                demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
                world.keep_secrets_of_stacks();
                demo.delete_cluster(&cluster).await?;
            }
        }
    }
    for limit in [1, 3, 1000] {
        let paged = pages(&demo, &cluster, limit).await?;
        let streamed: Vec<&Value> = seen.iter().map(|event| &event.data).collect();
        ensure!(paged.iter().collect::<Vec<_>>() == streamed, "pages of {limit}: {paged:?}, streamed: {streamed:?}");
    }
    let kinds: Vec<&str> = seen.iter().map(|event| event.kind.as_str()).collect();
    ensure!(kinds[0] == "accepted" && kinds[1] == "claimed", "{kinds:?}");
    ensure!(seen[0].data["user_id"] == world.cloud.user_id("demo"), "{:?}", seen[0]);
    ensure!(text(&seen[0].data, "request_id").starts_with("req-"), "{:?}", seen[0]);
    ensure!(!text(&seen[1].data, "message").contains(':'), "more than the conductor's host: {:?}", seen[1]);
    // One stream from the beginning has the same.
    let mut whole = demo.events(&cluster, None).await?;
    for event in &seen {
        let again = whole.next().await?.context("the stream ended by itself")?;
        ensure!(again.id == event.id && again.data == event.data, "{again:?}, not {event:?}");
    }
    drop(whole);
    // A number of another database's is no reason to hear nothing for ever.
    let mut beyond = demo.events(&cluster, Some(i64::MAX)).await?;
    let first = beyond.next().await?.context("the stream ended by itself")?;
    ensure!(first.id == seen[0].id, "{first:?}");
    drop(beyond);
    world.finish().await
}

/// The last events of a cluster may be removed before others, which an operation keeps that can be done again.
#[tokio::test]
async fn a_client_that_has_seen_what_is_not_kept_any_more_is_told_nothing_twice() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let events = pages(&demo, &cluster, 1000).await?;
    let last = events.last().and_then(|event| event["id"].as_i64()).context("an event")?;
    // Something has happened elsewhere since.
    let template = demo.create_template("other").await?;
    let other = demo.create_cluster("green", &template).await?;
    demo.wait_for(&other, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let old = format!("DELETE FROM operation_event WHERE cluster_uuid = '{cluster}' AND kind = 'ended'");
    world.database()?.execute(&old, Vec::new()).await?;
    let left = pages(&demo, &cluster, 1000).await?;
    ensure!(!left.is_empty() && left.iter().all(|event| event["id"].as_i64() < Some(last)), "{left:?}");
    let mut stream = demo.events(&cluster, Some(last)).await?;
    demo.resize(&cluster, 3).await?;
    let next = stream.next().await?.context("the stream ended by itself")?;
    ensure!(next.id > last && next.kind == "accepted", "{next:?} after {last}");
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    drop(stream);
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn an_error_that_goes_on_is_one_event_and_is_counted(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.inject(Fault { at: "heat.any".to_owned(), nth: 0, how: How::Status(503, "closed for today".to_owned()) });
    let cluster = demo.create_cluster("blue", &template).await?;
    let last = tests::wait::until("the error to be met again", PATIENCE, async || {
        let body = demo.get("/v1/operations").await?.expect(200)?.body;
        let error = body["operations"][0]["last_error"].clone();
        Ok(tests::wait::Seen::from_option(error["count"].as_i64().filter(|count| *count >= 3).map(|_| error), "fewer"))
    })
    .await?;
    ensure!(last["service"] == "heat" && last["status"] == 503 && text(&last, "message").contains("closed for today"), "{last}");
    ensure!(text(&last, "request_id").starts_with("req-"), "{last}");
    let events = pages(&demo, &cluster, 1000).await?;
    let errors: Vec<&Value> = events.iter().filter(|event| event["kind"] == "cloud_error").collect();
    ensure!(errors.len() == 1 && errors[0]["error"]["status"] == 503, "{errors:?}");
    world.cloud.clear_faults();
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let events = pages(&demo, &cluster, 1000).await?;
    ensure!(kinds(&events).last().is_some_and(|kind| kind == "ended"), "{events:?}");
    world.finish().await
}

/// However often its token is looked at: whatever is between would take it for dead.
#[tokio::test]
async fn a_stream_on_which_nothing_happens_says_that_it_is_there() -> Result<()> {
    let api = "[requests]\nidle_timeout = 6\n[keystone_authtoken]\ntoken_cache_time = -1\n".to_owned();
    let mut world = World::start(Mix::Distributed, Options { apis: 1, conductors: 0, api, ..Options::default() }).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let mut events = demo.events(&cluster, None).await?;
    for _ in 0..2 {
        tokio::time::timeout(PATIENCE, events.comment()).await.context("nothing has come")??;
    }
    drop(events);
    world.start_conductor()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}

#[tokio::test]
async fn streams_are_few_end_with_their_token_and_with_the_process() -> Result<()> {
    let api = "[requests]\nmax_event_streams = 4\n[keystone_authtoken]\ntoken_cache_time = 1\n".to_owned();
    let options = Options { apis: 1, conductors: 1, api, ..Options::default() };
    let mut world = World::start(Mix::Distributed, options).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;

    let mut second = demo.events(&cluster, None).await?;
    let token = world.token("demo", "demo");
    let mut revoked = world.client(Some(&token)).events(&cluster, None).await?;
    // A project has half of them.
    let third = demo.events(&cluster, None).await.err().context("a third stream")?.to_string();
    ensure!(third.contains("503") && third.contains("event streams"), "{third}");
    revoked.next().await?.context("an event")?;
    world.cloud.revoke_token(&token);
    let ended = async {
        while revoked.next().await?.is_some() {}
        Ok::<_, anyhow::Error>(())
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.context("the stream outlives its token")??;
    world.cloud.set_token_lifetime(Duration::from_secs(3));
    let short = world.demo();
    world.cloud.set_token_lifetime(Duration::from_secs(3600));
    let mut first = short.events(&cluster, None).await?;
    let mut count = 0;
    while first.next().await?.is_some() {
        count += 1;
    }
    ensure!(count > 5, "{count} events before the token's end");
    let mut third = demo.events(&cluster, None).await?;

    let asked = Instant::now();
    let stopped = world.terminate("api")?;
    ensure!(stopped.len() == 1 && stopped.iter().all(|status| status.success()), "{stopped:?}");
    ensure!(asked.elapsed() < Duration::from_secs(10), "the process waited {:?} for its streams", asked.elapsed());
    for stream in [&mut second, &mut third] {
        while stream.next().await?.is_some() {}
    }
    world.close().await?;
    Ok(())
}
