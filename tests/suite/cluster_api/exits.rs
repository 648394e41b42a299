//! Being rid of a cluster whose management cluster cannot be asked, and of what else a cluster has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How, Trouble};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::management::Management;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

use super::{STEP, create, credential};

/// Seconds that a forced deletion may take.
const FORCE: u64 = 12;

/// A forced deletion has no less time than lease and settling together.
fn in_time() -> BTreeMap<String, String> {
    let seconds = [("FORCE_DELETE", FORCE), ("LEASE", 4), ("HEARTBEAT", 1), ("SETTLE", 2)];
    seconds.map(|(of, seconds)| (format!("OS_OPERATIONS__{of}_SECONDS"), seconds.to_string())).into()
}

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
    environment.append(&mut in_time());
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
        Away::Unknown => {
            // Nor may whoever has not noticed it yet begin a deletion.
            management.cluster.inject(every(How::Refuse));
            std::fs::remove_file(management.kubeconfig())?;
        }
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
    ensure!(action == "abandon" || reason.contains("kubeconfig") == matches!(away, Away::Unknown), "{reason}");
    // What can be removed without it is.
    ensure!(told.len() == 1 && credentials(&world) == 0, "{told:?}, {} credentials are there", credentials(&world));
    ensure!(management.cluster.objects("Cluster").len() == 1, "it was deleted after all");
    management.cluster.let_go();
    world.finish().await
}

/// A deletion that is cut off at its end tells all that is recorded: of a cluster that has no stack, no stack.
#[tokio::test]
async fn a_forced_deletion_that_is_cut_off_tells_the_release_and_no_stack() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.append(&mut in_time());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    let complete = demo.at("1.12").wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let release = text(&complete, "stack_id");
    let (id, _) = credential(&world, &management)?;
    // Nobody bounds this call but the end of the operation's time.
    let how = How::Slow(Duration::from_secs(600));
    world.cloud.inject(Fault { at: "keystone.application_credential_list".to_owned(), nth: 0, how });
    world.user("admin", "admin").post(&format!("/v1/clusters/{cluster}/actions/force-delete"), &json!({})).await?.expect(202)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = leaks(&demo, &cluster).await?;
    let kinds: Vec<&str> = told.iter().filter_map(|leak| leak["kind"].as_str()).collect();
    ensure!(kinds == ["helm_release", "keystone_application_credential"] && told[0]["name"] == release.as_str(), "{told:?}");
    let reason = text(&told[0], "reason");
    let namespace = format!("namespace magnum-{}", world.cloud.project_id("demo"));
    ensure!(reason.contains("not done within") && reason.contains(&namespace), "{reason}");
    world.cloud.clear_faults();
    let path = format!("/identity/v3/users/{}/application_credentials/{id}", world.cloud.user_id("demo"));
    world.cloud_as("demo", "demo")?.delete(&path).await?.expect(204)?;
    world.finish().await
}

/// Without it they could delete nothing. Who cannot ask any more knows that a removal before this one has begun it.
#[rstest]
#[tokio::test]
async fn a_credential_that_controllers_still_delete_by_is_left_to_them_and_told(#[values(false, true)] is_cut_off: bool) -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.append(&mut in_time());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let (id, _) = credential(&world, &management)?;
    management.cluster.trouble("Machine", "", Some(Trouble::Keep));
    if is_cut_off {
        demo.delete_cluster(&cluster).await?;
        wait::until("the removal of the release", PATIENCE, async || {
            let releases = management.releases()?;
            Ok(Seen::when(releases.is_empty(), || format!("{releases:?}")))
        })
        .await?;
        management.cluster.inject(Fault { at: "kubernetes.any".into(), nth: 0, how: How::Refuse });
        management.cluster.drop_watches();
    }
    world.user("admin", "admin").post(&format!("/v1/clusters/{cluster}/actions/force-delete"), &json!({})).await?.expect(202)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    management.cluster.clear_faults();
    let told = leaks(&demo, &cluster).await?;
    let kinds: Vec<&str> = told.iter().filter_map(|leak| leak["kind"].as_str()).collect();
    ensure!(kinds == ["helm_release", "keystone_application_credential"], "{told:?}");
    ensure!(text(&told[1], "id").ends_with(&format!("/{id}")) && text(&told[1], "reason").starts_with("Cluster API deletes"), "{told:?}");
    ensure!(credentials(&world) == 1 && credential(&world, &management)?.0 == id, "{:?}", world.cloud.leftovers(None));
    let path = format!("/identity/v3/users/{}/application_credentials/{id}", world.cloud.user_id("demo"));
    world.cloud_as("demo", "demo")?.delete(&path).await?.expect(204)?;
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

/// Fails every such call so that nobody knows whether it was carried out. (It was not.)
fn fail(world: &World, at: &str) {
    world.cloud.inject(Fault { at: at.to_owned(), nth: 0, how: How::Status(502, "the cloud has a bad day".to_owned()) });
}

/// A cluster whose credential was asked for without a clear answer.
async fn without_answer(world: &World, demo: &Client) -> Result<String> {
    let at = "keystone.application_credential_create";
    fail(world, at);
    let cluster = create(demo, "blue").await?;
    wait::until(at, PATIENCE, async || Ok(Seen::when(world.cloud.calls(at) > 0, || "not asked".to_owned()))).await?;
    Ok(cluster)
}

#[tokio::test]
async fn a_credential_that_comes_while_its_cluster_is_deleted_goes_with_it() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_OPERATIONS__SETTLE_SECONDS".into(), "10".into());
    let world = World::start(Mix::Distributed, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = without_answer(&world, &demo).await?;
    let sql = format!(
        "SELECT name FROM cloud_resource \
         WHERE cluster_uuid = '{cluster}' AND kind = 'keystone_application_credential' AND resource_id IS NULL"
    );
    let announced: Vec<String> = world.database()?.rows(&sql).await?;
    ensure!(announced.len() == 1, "{announced:?}");
    demo.delete_cluster(&cluster).await?;
    wait::until("the deletion to wait for it", PATIENCE, async || {
        let told = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.text;
        Ok(Seen::when(told.contains("asked for without a clear answer"), || told))
    })
    .await?;
    world.cloud.clear_faults();
    let path = format!("/identity/v3/users/{}/application_credentials", world.cloud.user_id("demo"));
    let late = json!({"application_credential": {"name": announced[0], "description": "late"}});
    world.cloud_as("demo", "demo")?.post(&path, &late).await?.expect(201)?;
    ensure!(credentials(&world) == 1, "{:?}", world.cloud.leftovers(None));
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = leaks(&demo, &cluster).await?;
    ensure!(credentials(&world) == 0 && told.is_empty(), "{told:?}, {:?}", world.cloud.leftovers(None));
    world.finish().await
}

/// Whoever goes on is another user: under the name that he makes his by, nobody would look for the one of the first among that one's.
#[tokio::test]
async fn a_credential_that_another_caller_may_have_made_is_found_under_its_own_name() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let options = Options { environment: management.environment(), ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    credential(&world, &management)?;
    let at = "keystone.application_credential_create";
    let asked = world.cloud.calls(at);
    fail(&world, at);
    world.user("member2", "demo").rotate_credentials(&cluster).await?;
    wait::until(at, PATIENCE, async || Ok(Seen::when(world.cloud.calls(at) > asked, || "not asked".to_owned()))).await?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/cancel"), &json!({})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    let sql = format!(
        "SELECT name FROM cloud_resource \
         WHERE cluster_uuid = '{cluster}' AND kind = 'keystone_application_credential' AND resource_id IS NULL"
    );
    let announced: Vec<String> = world.database()?.rows(&sql).await?;
    ensure!(announced.len() == 1, "{announced:?}");
    world.cloud.clear_faults();
    let path = format!("/identity/v3/users/{}/application_credentials", world.cloud.user_id("member2"));
    let made = json!({"application_credential": {"name": announced[0], "description": "nobody has heard of it"}});
    world.cloud_as("member2", "demo")?.post(&path, &made).await?.expect(201)?;
    ensure!(credentials(&world) == 2, "{:?}", world.cloud.leftovers(None));
    demo.rotate_credentials(&cluster).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let (kept, _) = credential(&world, &management)?;
    let left: Vec<String> = world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("application credential")).collect();
    ensure!(left.len() == 1 && left[0].contains(&kept), "{left:?}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.leftovers(None).is_empty(), "{:#?}", world.cloud.leftovers(None));
    world.finish().await
}

#[tokio::test]
async fn a_credential_that_may_have_been_made_is_told() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.append(&mut in_time());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = without_answer(&world, &demo).await?;
    fail(&world, "keystone.application_credential_list");
    world.user("admin", "admin").post(&format!("/v1/clusters/{cluster}/actions/force-delete"), &json!({})).await?.expect(202)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = leaks(&demo, &cluster).await?;
    let found = told.iter().find(|leak| leak["kind"] == "keystone_application_credential").with_context(|| format!("{told:?}"))?;
    ensure!(found["id"].is_null() && text(found, "name").starts_with(&format!("magnum-{cluster}-")), "{found}");
    ensure!(text(found, "reason").starts_with(&format!("project {}: ", world.cloud.project_id("demo"))), "{found}");
    world.cloud.clear_faults();
    world.finish().await
}

/// A cluster as upstream makes it, which gives one of these a trustee, too; returns the cluster and the trustee.
async fn with_trustee(world: &World, management: &Management, demo: &Client) -> Result<(String, String)> {
    let cluster = create(demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    credential(world, management)?;
    let name = format!("{cluster}_{}", world.cloud.project_id("demo"));
    let trustee = world.cloud.add_user(&name, "magnum");
    let sql = format!("UPDATE cluster SET trustee_user_id = '{trustee}', trustee_username = '{name}' WHERE uuid = '{cluster}'");
    world.database()?.execute(&sql, Vec::new()).await?;
    Ok((cluster, trustee))
}

#[rstest]
#[tokio::test]
async fn the_trustee_that_upstream_made_goes_with_its_cluster(#[values("delete", "force-delete", "abandon")] action: &str) -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = World::start(Mix::Distributed, Options { environment: management.environment(), ..Options::default() }).await?;
    let demo = world.demo();
    let (cluster, trustee) = with_trustee(&world, &management, &demo).await?;
    match action {
        "delete" => demo.delete_cluster(&cluster).await?,
        action => {
            drop(world.user("admin", "admin").post(&format!("/v1/clusters/{cluster}/actions/{action}"), &json!({})).await?.expect(202)?)
        }
    }
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = leaks(&demo, &cluster).await?;
    // Without a label nobody but the management cluster's operator knows what becomes of volumes.
    let left = if action == "abandon" { "helm_release" } else { "cinder_volume" };
    ensure!(told.len() == 1 && told[0]["kind"] == left, "{told:?}");
    let left = world.cloud.leftovers(None);
    ensure!(!left.iter().any(|line| line.contains(&trustee)), "{left:?}");
    world.finish().await
}

#[tokio::test]
async fn the_trustee_that_upstream_made_is_told_where_it_cannot_be_removed() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.append(&mut in_time());
    let world = World::start(Mix::Distributed, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let (cluster, trustee) = with_trustee(&world, &management, &demo).await?;
    fail(&world, "keystone.user_delete");
    world.user("admin", "admin").post(&format!("/v1/clusters/{cluster}/actions/force-delete"), &json!({})).await?.expect(202)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = leaks(&demo, &cluster).await?;
    let kinds: Vec<&str> = told.iter().filter_map(|leak| leak["kind"].as_str()).collect();
    ensure!(kinds == ["cinder_volume", "keystone_user"] && told[1]["id"] == trustee.as_str(), "{told:?}");
    world.cloud.clear_faults();
    ensure!(world.cloud.remove_user_by_id(&trustee), "it was there");
    world.finish().await
}
