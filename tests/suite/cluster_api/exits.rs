//! Being rid of a cluster whose management cluster cannot be asked, and of what else a cluster has.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::management::Management;
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World};

use super::{STEP, create, credential};

/// Seconds that a forced deletion may take.
const FORCE: u64 = 12;

/// How the management cluster is away.
#[derive(Clone, Copy, Debug)]
enum Away {
    /// It closes every connection.
    Down,
    /// It answers nothing.
    Deaf,
    /// Its kubeconfig is gone.
    Unknown,
}

async fn leaks(client: &Client, cluster: &str) -> Result<Vec<Value>> {
    let body = client.get(&format!("/v1/clusters/{cluster}/events")).await?.expect(200)?.body;
    let events = body["events"].as_array().context("a list")?;
    let reports: Vec<&Value> = events.iter().filter(|event| event["kind"] == "leak_report").collect();
    ensure!(reports.len() == 1, "{events:?}");
    Ok(reports[0]["leaks"].as_array().context("a list of leaks")?.clone())
}

fn credentials(world: &World) -> usize {
    world.cloud.leftovers(None).iter().filter(|line| line.starts_with("application credential")).count()
}

#[rstest]
#[tokio::test]
async fn whoever_is_to_be_rid_of_a_cluster_is_so_in_time_and_told_what_is_left(
    #[values("force-delete", "abandon")] action: &str,
    #[values(Away::Down, Away::Deaf, Away::Unknown)] away: Away,
) -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_OPERATIONS__FORCE_DELETE_SECONDS".into(), FORCE.to_string());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    let complete = demo.at("1.12").wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let release = text(&complete, "stack_id");
    credential(&world, &management)?;
    let every = |how| Fault { at: "kubernetes.any".into(), nth: 0, how };
    match away {
        Away::Down => management.cluster.inject(every(How::Refuse)),
        Away::Deaf => management.cluster.inject(every(How::Hold)),
        Away::Unknown => std::fs::remove_file(management.kubeconfig())?,
    }
    management.cluster.drop_watches();
    let admin = world.user("admin", "admin");
    let owner = json!({"user_id": world.cloud.user_id("member2")});
    admin.post(&format!("/v1/clusters/{cluster}/actions/transfer"), &owner).await?.expect_error(400, "rotates its credentials")?;
    let asked = Instant::now();
    admin.post(&format!("/v1/clusters/{cluster}/actions/{action}"), &json!({})).await?.expect(202)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    // A turn that was at work at the deadline is cut, and its end recorded.
    ensure!(asked.elapsed() < Duration::from_secs(FORCE + 10), "{:?}", asked.elapsed());
    let told = leaks(&demo, &cluster).await?;
    let of_release: Vec<&Value> = told.iter().filter(|leak| leak["kind"] == "helm_release").collect();
    ensure!(of_release.len() == 1 && of_release[0]["name"] == release.as_str(), "{told:?}");
    let reason = text(of_release[0], "reason");
    let namespace = format!("namespace magnum-{}", world.cloud.project_id("demo"));
    ensure!(reason.contains(&namespace), "{reason}");
    // What can be removed without it is.
    ensure!(told.len() == 1 && credentials(&world) == 0, "{told:?}, {} credentials are there", credentials(&world));
    ensure!(management.cluster.objects("Cluster").len() == 1, "it was deleted after all");
    management.cluster.let_go();
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn certificates_outside_the_database_go_with_their_cluster(
    #[values("delete", "force-delete", "abandon")] action: &str,
) -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_CERTIFICATES__CERT_MANAGER_TYPE".into(), "barbican".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    credential(&world, &management)?;
    world.keep_secrets_of_barbican();
    let kept = || world.cloud.leftovers(None).iter().filter(|line| line.starts_with("container ")).count();
    ensure!(kept() == 4, "{:?}", world.cloud.leftovers(None));
    match action {
        "delete" => demo.delete_cluster(&cluster).await?,
        action => {
            drop(world.user("admin", "admin").post(&format!("/v1/clusters/{cluster}/actions/{action}"), &json!({})).await?.expect(202)?)
        }
    }
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(kept() == 0, "{:?}", world.cloud.leftovers(None));
    world.finish().await
}
