//! Operations as resources: what they tell, to whom, in which order, and for how long.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::Value;
use tests::client::{Client, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

fn list(body: &Value) -> Vec<Value> {
    body["operations"].as_array().cloned().unwrap_or_default()
}

/// The operations of a cluster, the oldest first.
async fn of_cluster(client: &Client, cluster: &str) -> Result<Vec<Value>> {
    Ok(list(&client.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body))
}

fn at(body: &Value, key: &str) -> Result<chrono::DateTime<chrono::FixedOffset>> {
    chrono::DateTime::parse_from_rfc3339(&text(body, key)).with_context(|| format!("{key} of {body}"))
}

#[rstest]
#[tokio::test]
async fn an_operation_tells_who_what_when_and_how_far_also_when_its_cluster_is_gone(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let asked = demo.post("/v1/clusters", &tests::client::cluster("blue", &template)).await?.expect(202)?;
    let (cluster, request) = (text(&asked.body, "uuid"), asked.header("x-openstack-request-id").to_owned());
    world.progress_is_told(&demo, &cluster).await?;

    // While it runs.
    let found = of_cluster(&demo, "blue").await?;
    ensure!(found.len() == 1, "{found:?}");
    let id = text(&found[0], "uuid");
    let path = format!("/v1/operations/{id}");
    let running = demo.get(&path).await?.expect(200)?.body;
    for (key, wanted) in [
        ("kind", "cluster_create".into()),
        ("state", "RUNNING".into()),
        ("cluster_id", Value::from(cluster.clone())),
        ("project_id", world.cloud.project_id("demo").into()),
        ("user_id", world.cloud.user_id("demo").into()),
        ("request_id", request.into()),
        ("step", "stack".into()),
        ("outcome_code", Value::Null),
        ("finished_at", Value::Null),
    ] {
        ensure!(running[key] == wanted, "{key}: {running}");
    }
    ensure!(text(&running, "waiting_for").contains("stack blue-"), "{running}");
    ensure!(running["total"].as_i64() > Some(0) && running["percent"].as_i64().is_some_and(|p| p < 100), "{running}");
    ensure!(at(&running, "created_at")? <= at(&running, "started_at")? && at(&running, "started_at")? < at(&running, "deadline")?);

    // When it has ended, with steps that follow each other without a gap.
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let done = demo.get(&path).await?.expect(200)?.body;
    ensure!(done["state"] == "SUCCEEDED" && done["percent"] == 100 && done["fault"].is_null(), "{done}");
    let steps = done["steps"].as_array().cloned().unwrap_or_default();
    let names: Vec<String> = steps.iter().map(|step| text(step, "step")).collect();
    ensure!(names.starts_with(&["accepted".to_owned()]) && names.contains(&"trustee".to_owned()), "{names:?}");
    ensure!(names.last().is_some_and(|last| last == "stack"), "{names:?}");
    for pair in steps.windows(2) {
        ensure!(pair[0]["finished_at"] == pair[1]["started_at"], "{steps:?}");
    }
    ensure!(steps.last().is_some_and(|last| last["finished_at"] == done["finished_at"]), "{done}");

    // To nobody else but an admin.
    let (other, admin) = (world.user("demo2", "demo2"), world.user("admin", "admin"));
    for path in [&path, &format!("/v1/clusters/{cluster}/operations"), &format!("/v1/clusters/{cluster}/events")] {
        other.get(path).await?.expect(404)?;
        admin.get(path).await?.expect(200)?;
    }
    ensure!(list(&other.get("/v1/operations").await?.expect(200)?.body).is_empty());
    other.get(&format!("/v1/operations?marker={id}")).await?.expect(404)?;
    ensure!(list(&other.get(&format!("/v1/operations?cluster={cluster}")).await?.expect(200)?.body).is_empty());

    // Also when the cluster is gone, by its uuid.
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let kinds: Vec<String> = of_cluster(&demo, &cluster).await?.iter().map(|o| text(o, "kind")).collect();
    ensure!(kinds == ["cluster_create", "cluster_delete"], "{kinds:?}");
    demo.get(&path).await?.expect(200)?;
    demo.get(&format!("/v1/clusters/{cluster}/events")).await?.expect(200)?;
    demo.get("/v1/clusters/blue/operations").await?.expect(404)?;
    for path in [path, format!("/v1/clusters/{cluster}/operations"), format!("/v1/clusters/{cluster}/events")] {
        other.get(&path).await?.expect(404)?;
    }
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn the_pages_of_a_list_are_the_list_in_every_order(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    for number in 0..3 {
        let cluster = demo.create_cluster(&format!("c{number}"), &template).await?;
        demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
        world.keep_secrets_of_stacks();
        demo.delete_cluster(&cluster).await?;
        demo.wait_gone(&cluster, PATIENCE).await?;
    }
    let ids = |body: &Value| -> Vec<String> { list(body).iter().map(|o| text(o, "uuid")).collect() };
    let all: BTreeSet<String> = ids(&demo.get("/v1/operations").await?.expect(200)?.body).into_iter().collect();
    ensure!(all.len() == 6, "{all:?}");
    for key in ["id", "uuid", "kind", "cluster_id", "project_id", "user_id", "state", "created_at", "updated_at"] {
        for (dir, limit) in [("asc", 1), ("desc", 1), ("asc", 2), ("desc", 4)] {
            let whole = ids(&demo.get(&format!("/v1/operations?sort_key={key}&sort_dir={dir}")).await?.expect(200)?.body);
            let mut pages = Vec::new();
            let mut path = format!("/v1/operations?limit={limit}&sort_key={key}&sort_dir={dir}");
            loop {
                let body = demo.get(&path).await?.expect(200)?.body;
                pages.extend(ids(&body));
                match body["next"].as_str().and_then(|next| next.split_once("/v1/")) {
                    Some((_, rest)) => path = format!("/v1/{rest}"),
                    None => break,
                }
                ensure!(pages.len() <= all.len(), "{key} {dir}: the pages do not end");
            }
            ensure!(
                pages == whole && pages.iter().cloned().collect::<BTreeSet<_>>() == all,
                "{key} {dir} by {limit}: {pages:?}, not {whole:?}"
            );
        }
    }
    // Narrowed, also on the next page.
    let first = demo.get("/v1/operations?kind=cluster_delete&state=SUCCEEDED&limit=2").await?.expect(200)?.body;
    let next = text(&first, "next");
    let rest = demo.get(next.split_once("/v1").context("a link")?.1).await?.expect(200)?.body;
    let found: Vec<Value> = list(&first).into_iter().chain(list(&rest)).collect();
    ensure!(found.len() == 3 && found.iter().all(|o| o["kind"] == "cluster_delete"), "{found:?}");
    ensure!(list(&demo.get("/v1/operations?state=FAILED").await?.expect(200)?.body).is_empty());
    world.finish().await
}

#[tokio::test]
async fn what_is_old_goes_but_what_could_be_done_again_stays() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let gone = demo.create_cluster("gone", &template).await?;
    demo.wait_for(&gone, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    demo.delete_cluster(&gone).await?;
    demo.wait_gone(&gone, PATIENCE).await?;
    world.cloud.hold_stacks(true);
    let failed = demo.create_cluster("failed", &template).await?;
    world.progress_is_told(&demo, &failed).await?;
    ensure!(world.cloud.fail_stack(&world.only_stack().await?, "no valid host"));
    demo.wait_for(&failed, "CREATE_FAILED", PATIENCE).await?;
    let kept = text(&of_cluster(&demo, &failed).await?[0], "uuid");

    let month = 31_i64 * 24 * 60 * 60 * 1000;
    world
        .database()?
        .rows::<i64>(&format!("UPDATE operation SET finished_ms = finished_ms - {month} WHERE finished_ms IS NOT NULL"))
        .await?;
    let left = async || -> Result<Vec<i64>> {
        let sql = format!(
            "SELECT COUNT(*) FROM operation_event WHERE cluster_uuid = '{gone}' UNION ALL SELECT COUNT(*) FROM event_guard WHERE cluster_uuid = '{gone}'"
        );
        world.database()?.rows(&sql).await
    };
    wait::until("the old operations to go", PATIENCE, async || {
        let left = left().await?;
        Ok(Seen::when(left == [0, 0], || format!("{left:?}")))
    })
    .await?;
    demo.get(&format!("/v1/clusters/{gone}/operations")).await?.expect(404)?;
    let still = demo.get(&format!("/v1/operations/{kept}")).await?.expect(200)?.body;
    ensure!(still["state"] == "FAILED" && still["fault"] == "cloud" && still["steps"].as_array().is_some_and(|s| s.len() > 2), "{still}");
    world.cloud.hold_stacks(false);
    world.finish().await
}
