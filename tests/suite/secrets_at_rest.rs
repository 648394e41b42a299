//! The key that secrets of a cluster are encrypted with in etcd: new masters have it exactly where the cluster was made with one. And that the
//! search for secrets at the end of every world finds them.

use anyhow::{Result, ensure};
use reqwest::Method;
use rstest::rstest;
use serde_json::Value;
use tests::collector::Collector;
use tests::database::needed;
use tests::nodes;
use tests::notifications::{self, Topic};
use tests::secrets::Secrets;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World, free_port};

#[rstest]
#[case::with_a_key(true)]
#[case::without(false)]
#[tokio::test]
async fn new_masters_are_made_as_the_cluster_was(#[case] has_key: bool) -> Result<()> {
    let environment = [("OS_KUBERNETES__ENCRYPT_SECRETS".to_owned(), has_key.to_string())].into();
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let is_told = |data: &Value| data.to_string().contains("SECRETS_KEY=");
    let first = nodes::masters(&world)?;
    ensure!(is_told(&first) == has_key, "{first}");
    demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let later = nodes::masters(&world)?;
    ensure!(later != first && is_told(&later) == has_key, "{later}");
    // Heat shows a key that there is none of as it shows any, and this.
    let told = world.cloud.stacks()[0].parameters["secrets_encrypted"].clone();
    ensure!(told.to_string().eq_ignore_ascii_case(&has_key.to_string()), "{told}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// What stands everywhere is found everywhere: the cluster's id stands for a secret, and what numbers are called.
#[rstest]
#[case::embedded(
    Mix::Embedded,
    &["the log of standalone", "the database's file", "an event of an operation"],
)]
#[case::distributed(
    Mix::Distributed,
    &["the log of conductor-1", "the column cluster_uuid of operation_event", "the column cluster_uuid of operation"],
)]
#[tokio::test]
async fn a_planted_secret_is_found_wherever_it_stands(#[case] mix: Mix, #[case] of_mix: &[&str]) -> Result<()> {
    let (name, amqp) = (format!("t-{}", uuid::Uuid::new_v4().simple()), needed("MAGNUM_TEST_AMQP_URL")?);
    let (topic, collector) = (Topic::listen(&name, &amqp).await?, Collector::start().await?);
    let mut environment = notifications::environment(&name, &amqp);
    let more = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address().to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "100".to_owned()),
        ("OS_METRICS__ENABLED", "true".to_owned()),
        ("OS_METRICS__API_PORT", free_port()?.to_string()),
        ("OS_METRICS__CONDUCTOR_PORT", free_port()?.to_string()),
    ];
    environment.extend(more.map(|(option, value)| (option.to_owned(), value)));
    let world = World::start(mix, Options { apis: 1, conductors: 1, environment, ..Options::default() }).await?;
    let cluster = world.complete_cluster(&world.demo()).await?;
    let stack = world.only_stack().await?;
    let stack = world.cloud.stacks().into_iter().find(|known| known.id == stack).map(|known| known.name).unwrap_or_default();
    let (given, packed) =
        (format!("the parameter cluster_uuid of stack {stack}"), format!("the parameter worker_user_data of stack {stack}"));
    let everywhere = ["an answer of the API", "a notification", "a trace", "what is shown of numbers", &given, &packed];
    let mut planted = Secrets::default();
    planted.keep(&cluster, "a planted secret");
    planted.keep("magnum_database_connections_max", "a planted secret");
    wait::until("the planted secret to be found", PATIENCE, async || {
        topic.take().await?;
        let leaks = world.leaks(&planted).await?;
        let is_found = |place: &&&str| leaks.iter().any(|leak| leak.starts_with(&format!("{place} has a planted secret in it: ")));
        let missed: Vec<&&str> = everywhere.iter().chain(of_mix).filter(|place| !is_found(place)).collect();
        Ok(Seen::when(missed.is_empty(), || format!("nothing in {missed:?}, but {leaks:#?}")))
    })
    .await?;
    topic.remove().await?;
    world.finish().await
}
