//! What Prometheus is shown.

use anyhow::{Result, ensure};
use cloud_simulator::{Fault, How};
use model::certificate::{Terms, new_authority};
use rstest::rstest;
use tests::client;
use tests::openmetrics::{Shown, scrape};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World, free_port};

/// A world with one process of each role, and where their numbers are.
async fn watched(mix: Mix) -> Result<(World, String, String)> {
    let (api, conductor) = (free_port()?, free_port()?);
    let options = [("ENABLED", "true".to_owned()), ("API_PORT", api.to_string()), ("CONDUCTOR_PORT", conductor.to_string())];
    let environment = options.into_iter().map(|(key, value)| (format!("OS_METRICS__{key}"), value)).collect();
    let world = World::start(mix, Options { apis: 1, conductors: 1, environment, ..Options::default() }).await?;
    let conductor = if mix == Mix::Embedded { api } else { conductor };
    Ok((world, format!("http://127.0.0.1:{api}/metrics"), format!("http://127.0.0.1:{conductor}/metrics")))
}

/// Asks until the numbers are as wanted.
async fn until(url: &str, what: &str, holds: impl Fn(&Shown) -> bool) -> Result<Shown> {
    let http = client::http()?;
    wait::until(what, PATIENCE, async || {
        let shown = scrape(&http, url).await?;
        Ok(if holds(&shown) { Seen::Yes(shown) } else { Seen::Instead(format!("{shown:#?}")) })
    })
    .await
}

#[rstest]
#[tokio::test]
async fn the_life_of_a_cluster_moves_the_numbers(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let (world, api, conductor) = watched(mix).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;

    let create = [("kind", "cluster_create")];
    let running = [("kind", "cluster_create"), ("state", "RUNNING")];
    let at_work = until(&conductor, "an operation at work", |shown| {
        shown.sum("magnum_conductor_operations_unfinished", &running) == 1.0
            && shown.sum("magnum_conductor_operations_held", &[]) == 1.0
            && shown.sum("magnum_conductor_operations_oldest_age_seconds", &running) > 0.0
            && shown.sum("magnum_conductor_operations_lease_left_min_seconds", &running) > 0.0
    })
    .await?;
    ensure!(at_work.sum("magnum_conductor_operations_claimed_total", &create) == 1.0, "{at_work:#?}");
    ensure!(at_work.sum("magnum_conductor_claim_delay_seconds_count", &[("by", "bell")]) == 1.0, "{at_work:#?}");
    ensure!(at_work.sum("magnum_conductor_operations_ended_total", &create) == 0.0, "{at_work:#?}");

    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let done = until(&conductor, "the end of the operation", |shown| {
        shown.sum("magnum_conductor_operations_ended_total", &[("kind", "cluster_create"), ("outcome", "succeeded")]) == 1.0
            && shown.sum("magnum_conductor_operations_unfinished", &[]) == 0.0
            && shown.sum("magnum_conductor_operations_held", &[]) == 0.0
            && shown.sum("magnum_conductor_turns_at_work", &[]) == 0.0
    })
    .await?;
    let created = [("service", "heat"), ("operation", "stack_create"), ("status", "2xx")];
    ensure!(done.sum("magnum_cloud_call_duration_seconds_count", &created) == 1.0, "{done:#?}");
    ensure!(done.sum("magnum_database_connections_max", &[]) >= 1.0, "{done:#?}");

    let shown = until(&api, "the requests", |shown| shown.sum("magnum_doorbell_rings_total", &[]) >= 1.0).await?;
    let posted = [("route", "clusters"), ("method", "POST"), ("status", "2xx")];
    ensure!(shown.sum("magnum_api_request_duration_seconds_count", &posted) == 1.0, "{shown:#?}");
    ensure!(shown.sum("magnum_api_requests_in_flight", &[]) == 0.0, "{shown:#?}");
    ensure!(shown.sum("magnum_api_token_lookups_total", &[("result", "miss")]) >= 1.0, "{shown:#?}");
    ensure!(shown.sum("magnum_api_token_lookups_total", &[("result", "hit")]) >= 1.0, "{shown:#?}");
    ensure!(!shown.names().chain(done.names()).any(|name| name.contains(&cluster)), "an id is a label");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_step_that_failed_and_its_call_are_counted(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let (world, _, conductor) = watched(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.inject(Fault { at: "heat.stack_create".to_owned(), nth: 1, how: How::Refuse });
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let shown = until(&conductor, "the failed step", |shown| {
        shown.sum("magnum_conductor_steps_retried_total", &[("kind", "cluster_create")]) >= 1.0
    })
    .await?;
    let refused = [("service", "heat"), ("operation", "stack_create"), ("status", "none")];
    ensure!(shown.sum("magnum_cloud_call_duration_seconds_count", &refused) >= 1.0, "{shown:#?}");
    world.finish().await
}

#[tokio::test]
async fn numbers_are_shown_only_where_and_if_they_are_wanted() -> Result<()> {
    let (world, api, _) = watched(Mix::Distributed).await?;
    let http = client::http()?;
    ensure!(http.post(&api).send().await?.status() == 405);
    ensure!(http.get(api.replace("/metrics", "/")).send().await?.status() == 404);
    // The API's own port does not show them.
    world.demo().get("/metrics").await?.expect(404)?;
    world.finish().await
}

#[tokio::test]
async fn the_end_of_certificates_is_shown_and_told_before_it_comes() -> Result<()> {
    let port = free_port()?;
    let environment = [
        ("OS_METRICS__ENABLED", "true".to_owned()),
        ("OS_METRICS__CONDUCTOR_PORT", port.to_string()),
        ("OS_METRICS__API_PORT", free_port()?.to_string()),
        ("OS_OPERATIONS__CREDENTIAL_CHECK_SECONDS", "1".to_owned()),
        // Who looks at the health of clusters, and whether anybody does, says nothing of their certificates.
        ("OS_KUBERNETES__HEALTH_POLLING_INTERVAL", "-1".to_owned()),
        ("OS_X509__TERM_OF_VALIDITY", "10".to_owned()),
    ];
    let environment = environment.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 1, environment, ..Options::default() }).await?;
    let name = "magnum_conductor_certificate_expiry_timestamp_seconds";
    let url = format!("http://127.0.0.1:{port}/metrics");
    let cluster = world.complete_cluster(&world.demo()).await?;
    let shown = until(&url, "the end of the cluster's certificates", |shown| shown.sum(name, &[]) > 0.0).await?;
    let days = (shown.sum(name, &[]) - chrono::Utc::now().timestamp() as f64) / 86_400.0;
    ensure!((9.9..=10.0).contains(&days), "{days} days");
    let said = world.logs("conductor").concat();
    let line = said.lines().find(|line| line.contains("a certificate of a cluster ends soon")).unwrap_or_default();
    ensure!(line.contains(&cluster) && line.contains("WARN"), "{said}");
    ensure!(said.matches("a certificate of a cluster ends soon").count() == 1, "said more than once: {said}");
    // Whichever of the four pairs ends first counts.
    for (column, left) in [("magnum_cert_ref", 8), ("front_proxy_ca_cert_ref", 6), ("etcd_ca_cert_ref", 4), ("ca_cert_ref", 2)] {
        let terms = Terms { validity_days: left, rsa_bits: 2048 };
        let pem = tokio::task::spawn_blocking(move || new_authority("short-lived", terms)).await??.certificate;
        let sql = format!("UPDATE x509keypair SET certificate = ? WHERE uuid = (SELECT {column} FROM cluster WHERE uuid = ?)");
        world.database()?.execute(&sql, vec![pem.into(), cluster.as_str().into()]).await?;
        let ends = f64::from(left) * 86_400.0 + chrono::Utc::now().timestamp() as f64;
        until(&url, column, |shown| (shown.sum(name, &[]) - ends).abs() < 3600.0).await?;
    }
    world.finish().await
}
