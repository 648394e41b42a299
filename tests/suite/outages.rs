//! A server that the product needs is down: what can be accepted is, what cannot is refused, and all goes on when it is back.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use mysql_async::prelude::Queryable;
use rstest::rstest;
use tests::client::{self, text};
use tests::database::needed;
use tests::relay::Relay;
use tests::servers::PrivateServer;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};
use url::Url;

/// Every call named so fails before it does anything.
fn down(at: &str) -> Fault {
    Fault { at: at.to_owned(), nth: 0, how: How::Refuse }
}

#[tokio::test]
async fn with_the_broker_down_requests_are_accepted_and_carried_out() -> Result<()> {
    let broker = PrivateServer::start("rabbitmq").await?;
    let world = World::start(Mix::Distributed, Options { amqp: Some(broker.url()?), ..Options::default() }).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    broker.stop().await?;

    let asked = Instant::now();
    let cluster = demo.create_cluster("blue", &template).await?;
    ensure!(asked.elapsed() < Duration::from_secs(3), "the answer took {:?}", asked.elapsed());
    ensure!(demo.cluster(&cluster).await?["status"] == "CREATE_IN_PROGRESS");
    // The table is the record of work: it is found within 10 s without any bell.
    wait::until("a conductor to find the work", Duration::from_secs(10), async || {
        let calls = world.cloud.calls("keystone.user_create");
        Ok(Seen::when(calls > 0, || "nothing was done".to_owned()))
    })
    .await?;
    broker.start_again().await?;
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let next = demo.create_cluster("red", &template).await?;
    demo.wait_for(&next, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(world.cloud.calls("heat.stack_create") == 2);
    world.finish().await
}

/// The table is hardly ever looked into, and no lease runs out: every operation is known of through the doorbell alone, or not at all.
#[tokio::test]
async fn when_a_broker_of_the_list_goes_away_under_load_the_doorbell_goes_on_with_the_next() -> Result<()> {
    const BEFORE: usize = 4;
    const ALL: usize = 12;
    let broker = Url::parse(&needed("MAGNUM_TEST_AMQP_URL")?)?;
    let login = format!("{}:{}", broker.username(), broker.password().context("a password")?);
    let behind = format!("{}:{}", broker.host_str().context("a host")?, broker.port().context("a port")?);
    let (first, second) = (Relay::start(behind.clone()).await?, Relay::start(behind).await?);
    let transport = format!("rabbit://{login}@{},{login}@{}{}", first.address(), second.address(), broker.path());
    let environment = [("SCAN", "600"), ("LEASE", "300")];
    let environment = environment.map(|(of, seconds)| (format!("OS_OPERATIONS__{of}_SECONDS"), seconds.to_owned())).into();
    let options = Options { amqp: Some(transport), environment, ..Options::default() };
    let processes = options.apis + options.conductors;
    let world = World::start(Mix::Distributed, options).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    wait::until("every process to come to the first", PATIENCE, async || {
        Ok(Seen::when(first.taken() >= processes, || format!("{} of {processes}", first.taken())))
    })
    .await?;
    ensure!(second.taken() == 0, "the second of the list was asked while the first was there");
    let mut first = Some(first);
    let mut clusters = Vec::new();
    for number in 0..ALL {
        if number == BEFORE {
            first.take();
        }
        let asked = Instant::now();
        clusters.push(demo.create_cluster(&format!("c{number}"), &template).await?);
        ensure!(asked.elapsed() < Duration::from_secs(3), "the answer took {:?}", asked.elapsed());
    }
    for cluster in &clusters {
        demo.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
    }
    ensure!(second.taken() >= processes, "{} of {processes} came to the second", second.taken());
    world.keep_secrets_of_stacks();
    ensure!(world.cloud.calls("heat.stack_create") == ALL);
    world.finish().await
}

#[tokio::test]
async fn with_the_database_down_requests_are_refused_and_nothing_is_written() -> Result<()> {
    let server = PrivateServer::start("mariadb").await?;
    let options = Options { mysql: Some(server.url()?), ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let under_way = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &under_way).await?;
    let before = world.counts().await?;
    server.stop().await?;

    demo.get("/v1/clusters").await?.expect_error(503, "database")?;
    demo.post("/v1/clusters", &client::cluster("red", &template)).await?.expect_error(503, "database")?;
    demo.post("/v1/clustertemplates", &client::template("other")).await?.expect_error(503, "database")?;
    demo.delete(&format!("/v1/clusters/{under_way}")).await?.expect_error(503, "database")?;
    world.client(None).get("/").await?.expect(200)?;

    server.start_again().await?;
    wait::until("the API to answer again", PATIENCE, async || {
        let answer = demo.get("/v1/clusters").await?;
        Ok(Seen::when(answer.status == 200, || answer.text))
    })
    .await?;
    let mut after = world.counts().await?;
    // A conductor may have taken the operation up again meanwhile, and noted it.
    let events = after.insert("operation_event".to_owned(), before["operation_event"]);
    ensure!(after == before && events >= before.get("operation_event").copied(), "{after:?}, before {before:?}");
    world.cloud.hold_stacks(false);
    demo.wait_for(&under_way, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(world.cloud.calls("heat.stack_create") == 1);
    world.finish().await
}

/// As when another server has become the one that is written to: this one goes on answering, and takes nothing.
#[tokio::test]
async fn with_the_database_read_only_nothing_is_half_written_and_all_goes_on_afterwards() -> Result<()> {
    let server = PrivateServer::start("mariadb").await?;
    let mut root = mysql_async::Conn::from_url(server.url()?).await?;
    // Whoever may do everything may write all the same.
    let rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES";
    root.query_drop("CREATE USER tenant@'127.0.0.1' IDENTIFIED BY 'may-not-everything'").await?;
    root.query_drop(format!("GRANT {rights} ON *.* TO tenant@'127.0.0.1'")).await?;
    let mut url = Url::parse(&server.url()?)?;
    ensure!(url.set_username("tenant").is_ok() && url.set_password(Some("may-not-everything")).is_ok());
    let world = World::start(Mix::Distributed, Options { mysql: Some(url.into()), ..Options::default() }).await?;
    world.keep_secret("may-not-everything", "the password of the database");
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let under_way = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &under_way).await?;

    root.query_drop("SET GLOBAL read_only = 1").await?;
    let before = world.counts().await?;
    demo.get("/v1/clusters").await?.expect(200)?;
    let refused = demo.post("/v1/clusters", &client::cluster("red", &template)).await?;
    ensure!(!refused.header("retry-after").is_empty(), "{:?}", refused.headers);
    refused.expect_error(503, "database")?;
    demo.post("/v1/clustertemplates", &client::template("other")).await?.expect_error(503, "database")?;
    demo.delete(&format!("/v1/clusters/{under_way}")).await?.expect_error(503, "database")?;
    let after = world.counts().await?;
    ensure!(after == before, "{after:?}, before {before:?}");

    root.query_drop("SET GLOBAL read_only = 0").await?;
    let next = wait::until("a cluster to be accepted", PATIENCE, async || {
        let answer = demo.post("/v1/clusters", &client::cluster("red", &template)).await?;
        Ok(if answer.status == 503 { Seen::Instead(answer.text) } else { Seen::Yes(answer) })
    })
    .await?;
    let next = next.expect(202)?.uuid()?;
    world.cloud.hold_stacks(false);
    for cluster in [&under_way, &next] {
        demo.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
    }
    ensure!(world.cloud.calls("heat.stack_create") == 2);
    world.finish().await
}

/// The end of such a request could not be recorded: whoever asked again was told for two minutes that it is being worked on.
#[tokio::test]
async fn the_key_of_a_request_that_the_database_failed_is_free_soon_after_it_is_back() -> Result<()> {
    let server = PrivateServer::start("mariadb").await?;
    let options = Options { mysql: Some(server.url()?), apis: 1, conductors: 1, ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;
    let demo = world.demo().with("Idempotency-Key", "once");
    let template = world.demo().create_template("small").await?;
    // The database goes between the taking of the key and the storing of the work.
    world.cloud.inject(Fault { at: "nova.flavor_list".to_owned(), nth: 1, how: How::Hold });
    let body = client::cluster("blue", &template);
    let asked = tokio::spawn({
        let (demo, body) = (demo.clone(), body.clone());
        async move { demo.post("/v1/clusters", &body).await }
    });
    wait::until("the call to be held", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "no call".to_owned()))).await?;
    server.kill().await?;
    world.cloud.let_go();
    asked.await??.expect_error(503, "database")?;
    server.start_again().await?;
    let answer = wait::until("the request to be accepted", Duration::from_secs(30), async || {
        let answer = demo.post("/v1/clusters", &body).await?;
        Ok(if matches!(answer.status, 409 | 503) { Seen::Instead(answer.text) } else { Seen::Yes(answer) })
    })
    .await?;
    let cluster = text(&answer.expect(202)?.body, "uuid");
    world.demo().wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn with_keystone_down_requests_are_refused_and_nothing_is_written(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let before = world.counts().await?;
    let newcomer = world.demo();
    world.cloud.inject(down("keystone.any"));
    newcomer.get("/v1/clusters").await?.expect(503)?;
    newcomer.post("/v1/clusters", &client::cluster("blue", &template)).await?.expect(503)?;
    world.client(None).get("/").await?.expect(200)?;
    world.cloud.clear_faults();
    newcomer.get("/v1/clusters").await?.expect(200)?;
    ensure!(world.counts().await? == before);
    world.finish().await
}

/// It fails each call of an operation twice, answers in between, and is slow where it matters most.
#[rstest]
#[tokio::test]
async fn with_keystone_flapping_and_slow_operations_end_well_and_leave_nothing(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let flap = |calls: &[&str]| {
        for (at, nth) in calls.iter().flat_map(|at| [(at, 1), (at, 3)]) {
            world.cloud.inject(Fault { at: (*at).to_owned(), nth, how: How::Status(503, "one moment".to_owned()) });
        }
        world.cloud.inject(Fault { at: "keystone.token_issue".to_owned(), nth: 4, how: How::Slow(Duration::from_secs(2)) });
    };
    flap(&["keystone.token_issue", "keystone.user_create", "keystone.trust_create"]);
    world.cloud.inject(Fault { at: "keystone.trust_create".to_owned(), nth: 2, how: How::Slow(Duration::from_secs(2)) });
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    ensure!(world.cloud.calls("keystone.trust_create") >= 2 && world.cloud.calls("heat.stack_create") == 1);
    world.cloud.clear_faults();
    flap(&["keystone.token_issue", "keystone.trust_delete", "keystone.user_delete"]);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.cloud.clear_faults();
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn with_heat_down_a_cluster_waits_says_so_and_goes_on(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.inject(down("heat.any"));
    let cluster = demo.create_cluster("blue", &template).await?;
    wait::until("the reason", PATIENCE, async || {
        let body = demo.cluster(&cluster).await?;
        ensure!(body["status"] == "CREATE_IN_PROGRESS", "{body}");
        let reason = text(&body, "status_reason");
        Ok(Seen::when(reason.to_lowercase().contains("heat"), || reason))
    })
    .await?;
    world.cloud.clear_faults();
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.only_stack().await?;
    world.finish().await
}
