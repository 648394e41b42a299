//! What Prometheus is shown.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use model::certificate::{Keys, new_authority};
use rstest::rstest;
use serde_json::json;
use tests::client;
use tests::metrics::{until, watched};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{KEYS_AHEAD, Mix};

use crate::sweep::{lose, swept};

#[rstest]
#[tokio::test]
async fn the_life_of_a_cluster_moves_the_numbers(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    // Nobody but the bell tells of operations.
    let (world, api, conductor) = watched(mix, &[("OS_OPERATIONS__SCAN_SECONDS", "600"), ("OS_OPERATIONS__LEASE_SECONDS", "300")]).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;

    let create = [("kind", "cluster_create")];
    let running = [("kind", "cluster_create"), ("state", "RUNNING")];
    let at_work = until(&conductor, "an operation at work", |shown| {
        shown.sum("magnum_conductor_operations_unfinished", &running) == 1.0
            && shown.sum("magnum_conductor_operations_held", &[]) == 1.0
            && shown.sum("magnum_conductor_claim_delay_seconds_count", &[("by", "bell")]) == 1.0
            && shown.sum("magnum_conductor_operations_oldest_age_seconds", &running) > 0.0
            && shown.sum("magnum_conductor_operations_lease_left_min_seconds", &running) > 0.0
    })
    .await?;
    ensure!(at_work.sum("magnum_conductor_operations_claimed_total", &create) == 1.0, "{at_work:#?}");
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
    let created = [("service", "heat"), ("operation", "stack_create"), ("status", "201")];
    ensure!(done.sum("magnum_cloud_call_duration_seconds_count", &created) == 1.0, "{done:#?}");
    ensure!(done.sum("magnum_database_connections_max", &[]) >= 1.0, "{done:#?}");

    let shown = until(&api, "the requests", |shown| shown.sum("magnum_doorbell_rings_total", &[]) >= 1.0).await?;
    let posted = [("route", "clusters"), ("method", "POST"), ("status", "2xx")];
    ensure!(shown.sum("magnum_api_request_duration_seconds_count", &posted) == 1.0, "{shown:#?}");
    ensure!(shown.sum("magnum_api_requests_in_flight", &[]) == 0.0, "{shown:#?}");
    ensure!(shown.sum("magnum_api_token_lookups_total", &[("result", "miss")]) >= 1.0, "{shown:#?}");
    ensure!(shown.sum("magnum_api_token_lookups_total", &[("result", "hit")]) >= 1.0, "{shown:#?}");
    ensure!(!shown.names().chain(done.names()).any(|name| name.contains(&cluster)), "an id is a label");
    world.no_secret_in("what is shown of the API", shown.names())?;
    world.no_secret_in("what is shown of the conductor", done.names())?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_step_that_failed_and_its_call_are_counted(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let (world, _, conductor) = watched(mix, &[]).await?;
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
    world.no_secret_in("what is shown", shown.names())?;
    world.finish().await
}

/// The API gives up on its checks before its client of the cloud would: what hangs is what the numbers are looked at for, and no call that is given up
/// because another was refused.
#[tokio::test]
async fn a_call_that_nobody_waits_for_any_longer_is_counted() -> Result<()> {
    let (world, api, _) = watched(Mix::Distributed, &[]).await?;
    world.cloud.inject(Fault { at: "nova.flavor_list".to_owned(), nth: 0, how: How::Hold });
    world.demo().post("/v1/clustertemplates", &client::template("small")).await?.expect_error(503, "did not answer within")?;
    let count = "magnum_cloud_call_duration_seconds_count";
    let with = |status| [("service", "nova"), ("operation", "flavor_list"), ("status", status)];
    let shown = until(&api, "the call that hung", |shown| shown.sum(count, &with("none")) > 0.0).await?;
    let of_it = [("service", "nova"), ("operation", "flavor_list")];
    ensure!(shown.sum(count, &of_it) == 1.0, "{shown:#?}");
    world.cloud.inject(Fault { at: "glance.image_list".to_owned(), nth: 1, how: How::Status(403, "no".to_owned()) });
    world.demo().post("/v1/clustertemplates", &client::template("small")).await?.expect_error(403, "not readable")?;
    let shown = until(&api, "the call that was given up", |shown| shown.sum(count, &with("cut_off")) > 0.0).await?;
    ensure!(shown.sum(count, &of_it) == 2.0, "{shown:#?}");
    world.cloud.let_go();
    world.cloud.clear_faults();
    world.finish().await
}

/// It ends well, and tells what it left: nobody is called for a failure.
#[tokio::test]
async fn a_forced_deletion_whose_time_runs_out_counts_as_the_success_that_is_recorded() -> Result<()> {
    let (world, _, conductor) = watched(Mix::Distributed, &[]).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    // Longer than the deletion may take: it is cut off in the middle of the call.
    let how = How::Slow(Duration::from_secs(600));
    world.cloud.inject(Fault { at: "heat.stack_show".to_owned(), nth: 0, how });
    let path = format!("/v1/clusters/{cluster}/actions/force-delete");
    world.user("admin", "admin").post(&path, &json!({})).await?.expect(202)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.cloud.clear_faults();
    let of = |outcome: &'static str| [("kind", "cluster_force_delete"), ("outcome", outcome)];
    let name = "magnum_conductor_operations_ended_total";
    let shown = until(&conductor, "the end of the operation", |shown| shown.sum(name, &of("succeeded")) == 1.0).await?;
    ensure!(shown.sum(name, &of("timeout")) == 0.0, "{shown:#?}");
    let body = demo.get(&format!("/v1/clusters/{cluster}/events")).await?.expect(200)?.body;
    let events = body["events"].as_array().context("a list")?;
    let report = events.iter().find(|event| event["kind"] == "leak_report").context("a report")?;
    let leaks = report["leaks"].as_array().context("a list of leaks")?;
    let stack = leaks.iter().find(|leak| leak["kind"] == "heat_stack").with_context(|| format!("{leaks:?}"))?;
    ensure!(client::text(stack, "reason").contains("not done within"), "{stack}");
    for leak in leaks {
        world.cloud.remove_reported(&client::text(leak, "kind"), &client::text(leak, "name"), leak["id"].as_str());
    }
    world.finish().await
}

#[tokio::test]
async fn numbers_are_shown_only_where_and_if_they_are_wanted() -> Result<()> {
    let (world, api, _) = watched(Mix::Distributed, &[]).await?;
    let http = client::http()?;
    ensure!(http.post(&api).send().await?.status() == 405);
    ensure!(http.get(api.replace("/metrics", "/")).send().await?.status() == 404);
    // The API's own port does not show them.
    world.demo().get("/metrics").await?.expect(404)?;
    world.finish().await
}

/// What waits behind another operation of its cluster waits for no conductor.
#[tokio::test]
async fn the_delay_of_a_claim_counts_from_the_end_of_what_was_ahead() -> Result<()> {
    const BEHIND: f64 = 10.0;
    let (world, _, url) = watched(Mix::Distributed, &[]).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.hold_stacks(true);
    for name in ["one", "two"] {
        demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &json!({"name": name, "node_count": 1})).await?.expect(202)?;
    }
    let waited = "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 - MAX(created_ms) AS SIGNED) FROM operation";
    wait::until("the second to have waited", PATIENCE, async || {
        let ms = world.database()?.rows::<i64>(waited).await?.pop().unwrap_or_default();
        Ok(Seen::when(ms as f64 >= BEHIND * 1000.0, || format!("{ms} ms")))
    })
    .await?;
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let delays = "magnum_conductor_claim_delay_seconds";
    let shown = until(&url, "all claims", |shown| shown.sum(&format!("{delays}_count"), &[]) == 3.0).await?;
    let all = shown.sum(&format!("{delays}_sum"), &[]);
    ensure!((0.0..BEHIND).contains(&all), "{all} s for three claims: {shown:#?}");
    world.finish().await
}

/// A conductor whose sweeps another one has taken over went on showing what its own last one had found.
#[tokio::test]
async fn what_sweeps_find_is_shown_by_who_sweeps() -> Result<()> {
    let (world, _, url) = watched(Mix::Distributed, &[("OS_OPERATIONS__SWEEP_SECONDS", "1")]).await?;
    let name = "magnum_conductor_sweep_findings";
    let trustee = format!("11111111-2222-4333-8444-555555555555_{}", world.cloud.project_id("demo"));
    let trustee = world.cloud.add_user(&trustee, "magnum");
    until(&url, "the find", |shown| shown.sum(name, &[("kind", "keystone_user")]) == 1.0).await?;
    let another = "UPDATE task_lease SET owner = 'another', lease_ms = ? WHERE name = 'sweep_due'";
    world.database()?.execute(another, vec![i64::MAX.into()]).await?;
    until(&url, "the find to be another's", |shown| shown.sum(name, &[]) == 0.0).await?;
    // He is gone: it is found again.
    world.database()?.execute("UPDATE task_lease SET lease_ms = 0 WHERE name = 'sweep_due'", Vec::new()).await?;
    until(&url, "the find", |shown| shown.sum(name, &[]) == 1.0).await?;
    ensure!(world.cloud.remove_user_by_id(&trustee));
    until(&url, "nothing to be found", |shown| shown.sum(name, &[]) == 0.0).await?;
    world.finish().await
}

#[tokio::test]
async fn takeovers_what_sweeps_remove_and_the_pool_are_counted() -> Result<()> {
    let (mut world, _, url) = watched(Mix::Distributed, &[("OS_OPERATIONS__SWEEP_SECONDS", "1")]).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    world.kill_all("conductor-")?;
    // He may have been in the midst of a sweep.
    world.database()?.execute("DELETE FROM task_lease WHERE name IN ('sweep', 'sweep_due')", Vec::new()).await?;
    world.start_conductor()?;
    let taken_over = "magnum_conductor_operations_taken_over_total";
    let shown = until(&url, "a takeover", |shown| shown.sum(taken_over, &[("kind", "cluster_create")]) == 1.0).await?;
    let pool = ["open", "lent", "max"].map(|which| shown.sum(&format!("magnum_database_connections_{which}"), &[]));
    ensure!(pool[0] >= 1.0 && pool[1] <= pool[0] && pool[0] <= pool[2], "{pool:?}");
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let stack = world.only_stack().await?;
    lose(&world, &cluster).await?;
    let removed = "magnum_conductor_sweep_removed_total";
    until(&url, "its stack and its users to be removed", |shown| {
        shown.sum(removed, &[("kind", "heat_stack")]) == 1.0 && shown.sum(removed, &[("kind", "keystone_user")]) == 1.0
    })
    .await?;
    swept(&world, &cluster, &stack).await?;
    world.database()?.execute("DELETE FROM x509keypair", Vec::new()).await?;
    world.finish().await
}

#[tokio::test]
async fn the_end_of_certificates_is_shown_and_told_before_it_comes() -> Result<()> {
    let settings = [
        ("OS_OPERATIONS__CREDENTIAL_CHECK_SECONDS", "1"),
        // Who looks at the health of clusters, and whether anybody does, says nothing of their certificates.
        ("OS_KUBERNETES__HEALTH_POLLING_INTERVAL", "-1"),
        ("OS_X509__TERM_OF_VALIDITY", "10"),
        (KEYS_AHEAD, "3"),
    ];
    let (world, _, url) = watched(Mix::Distributed, &settings).await?;
    let name = "magnum_conductor_certificate_expiry_timestamp_seconds";
    // The cluster takes keys, and others come in their place.
    let are_ready =
        async || until(&url, "keys to be ready", |shown| shown.sum("magnum_conductor_certificate_keys_ready", &[]) == 3.0).await;
    are_ready().await?;
    let cluster = world.complete_cluster(&world.demo()).await?;
    are_ready().await?;
    let shown = until(&url, "the end of the cluster's certificates", |shown| shown.sum(name, &[]) > 0.0).await?;
    let days = (shown.sum(name, &[]) - chrono::Utc::now().timestamp() as f64) / 86_400.0;
    ensure!((9.9..=10.0).contains(&days), "{days} days");
    let said = world.logs("conductor").concat();
    let line = said.lines().find(|line| line.contains("a certificate of a cluster ends soon")).unwrap_or_default();
    ensure!(line.contains(&cluster) && line.contains("WARN"), "{said}");
    ensure!(said.matches("a certificate of a cluster ends soon").count() == 1, "said more than once: {said}");
    // Whichever of the four pairs ends first counts.
    for (column, left) in [("magnum_cert_ref", 8), ("front_proxy_ca_cert_ref", 6), ("etcd_ca_cert_ref", 4), ("ca_cert_ref", 2)] {
        let pem = tokio::task::spawn_blocking(move || new_authority("short-lived", left, &Keys::new(2048, 0))).await??.certificate;
        let sql = format!("UPDATE x509keypair SET certificate = ? WHERE uuid = (SELECT {column} FROM cluster WHERE uuid = ?)");
        world.database()?.execute(&sql, vec![pem.into(), cluster.as_str().into()]).await?;
        let ends = f64::from(left) * 86_400.0 + chrono::Utc::now().timestamp() as f64;
        until(&url, column, |shown| (shown.sum(name, &[]) - ends).abs() < 3600.0).await?;
    }
    world.finish().await
}
