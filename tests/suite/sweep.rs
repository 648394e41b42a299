//! The standing sweep: what the inventory knows of clusters that are gone is removed, what only the cloud knows is told, and a conductor that
//! starts looks as soon as it can.

use anyhow::{Context, Result, ensure};
use chrono::Utc;
use cloud_simulator::{Fault, How};
use model::resource::UNSEEN_VOLUMES;
use serde_json::{Value, json};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

use crate::clean_delete::cluster;

/// Takes a cluster's rows away, as if a commit had been lost.
pub(crate) async fn lose(world: &World, cluster: &str) -> Result<()> {
    for (table, column) in
        [("cluster", "uuid"), ("nodegroup", "cluster_id"), ("nodegroup_nodes", "cluster_uuid"), ("cluster_health", "cluster_uuid")]
    {
        world.database()?.execute(&format!("DELETE FROM {table} WHERE {column} = '{cluster}'"), Vec::new()).await?;
    }
    Ok(())
}

/// Waits until nothing of a lost cluster is left, neither in the cloud nor in the inventory.
pub(crate) async fn swept(world: &World, lost: &str, stack: &str) -> Result<()> {
    wait::until("the stack and the trustee to go", PATIENCE, async || {
        let left = world.cloud.leftovers(None).join("\n");
        let recorded: Vec<i64> =
            world.database()?.rows(&format!("SELECT COUNT(*) FROM cloud_resource WHERE cluster_uuid = '{lost}'")).await?;
        let is_gone = !left.contains(stack) && !left.contains(lost) && recorded == [0];
        Ok(Seen::when(is_gone, || format!("{recorded:?} rows; {left}")))
    })
    .await
}

#[tokio::test]
async fn what_the_inventory_knows_of_a_lost_cluster_is_swept_away_and_told() -> Result<()> {
    let world = World::start(Mix::Distributed, Options::sweeping()).await?;
    let demo = world.demo();
    let (lost, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let (kept, kept_stack) = cluster(&world, &demo, "green", &json!({})).await?;
    let unseen = "INSERT INTO cloud_resource (cluster_uuid, kind, name, on_delete, created_ms, updated_ms) VALUES";
    let unseen = format!("{unseen} ('{lost}', 'cinder_volume', '{UNSEEN_VOLUMES}', 'delete', 1, 1)");
    world.database()?.execute(&unseen, Vec::new()).await?;
    lose(&world, &lost).await?;
    swept(&world, &lost, &stack).await?;
    wait::until("the finds to be told", PATIENCE, async || {
        let body = demo.get(&format!("/v1/clusters/{lost}/events?limit=1000")).await?.expect(200)?.body;
        let events = body["events"].as_array().context("a list")?.clone();
        let found: Vec<Value> = events.into_iter().filter(|event| event["kind"] == "sweep_finding").collect();
        let is_told =
            found.iter().any(|e| e["thing"]["id"] == stack.as_str()) && found.iter().any(|e| e["thing"]["kind"] == "keystone_user");
        let is_told = is_told && found.iter().any(|e| e["thing"]["kind"] == "nova_keypair");
        let is_told = is_told && found.iter().any(|e| e["thing"]["name"] == UNSEEN_VOLUMES);
        Ok(Seen::when(is_told, || format!("{found:?}")))
    })
    .await?;
    let left = world.cloud.leftovers(None).join("\n");
    ensure!(left.contains(&kept_stack) && left.contains(&kept), "{left}");
    // Its key pairs are of no use to anybody and known to nobody.
    world.database()?.execute("DELETE FROM x509keypair", Vec::new()).await?;
    world.finish().await
}

/// Waits until so many calls of a name have been made.
async fn called(world: &World, at: &str, times: usize) -> Result<()> {
    wait::until(at, PATIENCE, async || {
        let calls = world.cloud.calls(at);
        Ok(Seen::when(calls >= times, || format!("{calls} calls")))
    })
    .await
}

/// A stack that was made through the cluster's trust: Heat's own hangs on it, and without that Heat can change nothing any more.
#[tokio::test]
async fn trustee_and_trust_of_a_lost_cluster_stay_until_its_stack_is_swept_away() -> Result<()> {
    let world = World::start(Mix::Distributed, Options::sweeping()).await?;
    let how = How::Status(403, "You are not authorized to perform the requested action: identity:create_grant.".to_owned());
    world.cloud.inject(Fault { at: "keystone.role_grant".to_owned(), nth: 0, how });
    let demo = world.demo();
    let (lost, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let delegation = || {
        let trustee = format!("user {lost}_{} ", world.cloud.project_id("demo"));
        let mut left = world.cloud.leftovers(None);
        left.retain(|line| line.starts_with("trust ") || line.starts_with(&trustee));
        left
    };
    let before = delegation();
    ensure!(before.len() == 3, "{before:?}; not the cluster's trust, Heat's and the trustee");
    world.cloud.hold_stacks(true);
    lose(&world, &lost).await?;
    called(&world, "heat.stack_delete", 1).await?;
    // Nobody looks at it now but the sweeps that come after.
    called(&world, "heat.stack_show", world.cloud.calls("heat.stack_show") + 2).await?;
    ensure!(delegation() == before, "{:?}; before: {before:?}", delegation());
    world.cloud.hold_stacks(false);
    swept(&world, &lost, &stack).await?;
    // Its key pairs are of no use to anybody and known to nobody.
    world.database()?.execute("DELETE FROM x509keypair", Vec::new()).await?;
    world.finish().await
}

/// A conductor that starts sweeps, however long the interval is: also when one that is gone holds the task still, and when it failed.
#[tokio::test]
async fn a_conductor_that_starts_sweeps_as_soon_as_it_can() -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    world.kill_all("conductor-")?;
    let until = Utc::now().timestamp_millis() + 6_000;
    world.database()?.execute("DELETE FROM task_lease WHERE name IN ('sweep', 'sweep_due')", Vec::new()).await?;
    let held = "INSERT INTO task_lease (name, owner, lease_ms) VALUES ('sweep', 'somebody who is gone', ?), ('sweep_due', 'the same', ?)";
    world.database()?.execute(held, vec![until.into(), (until + 3_600_000).into()]).await?;
    let name = format!("11111111-2222-4333-8444-555555555555_{}", world.cloud.project_id("demo"));
    let user = world.cloud.add_user(&name, "magnum");
    world.cloud.inject(Fault { at: "keystone.user_list".to_owned(), nth: 0, how: How::Status(503, "out of order".to_owned()) });
    world.start_conductor()?;
    let logged = async |words: &str| {
        wait::until(words, PATIENCE, async || {
            let logs = world.logs("conductor").join("\n");
            Ok(Seen::when(logs.lines().any(|line| line.contains(words)), || "not told".to_owned()))
        })
        .await
    };
    logged("failed to compare the cloud").await?;
    ensure!(Utc::now().timestamp_millis() > until, "the task was taken from who held it");
    world.cloud.clear_faults();
    logged(&name).await?;
    ensure!(world.cloud.remove_user_by_id(&user));
    world.finish().await
}

/// As after the loss of a commit that the database had promised.
#[tokio::test]
async fn a_stack_that_heat_alone_knows_is_told_and_left_alone() -> Result<()> {
    let conductor = "[operations]\nheat_global_listing = true\n".to_owned();
    let world = World::start(Mix::Distributed, Options { conductor, ..Options::sweeping() }).await?;
    world.cloud.allow_global_index(true);
    let (lost, stack) = cluster(&world, &world.demo(), "blue", &json!({})).await?;
    let database = world.database()?;
    let its = format!("FROM cloud_resource WHERE cluster_uuid = '{lost}'");
    database.execute(&format!("CREATE TABLE its_resources AS SELECT * {its}"), Vec::new()).await?;
    database.execute(&format!("DELETE {its}"), Vec::new()).await?;
    lose(&world, &lost).await?;
    wait::until("the find to be told", PATIENCE, async || {
        let logs = world.logs("conductor").join("\n");
        let is_it = |line: &&str| line.contains(&stack) && line.contains("kind=heat_stack") && line.contains("left alone");
        Ok(Seen::when(logs.lines().any(|line| is_it(&line)), || "not told".to_owned()))
    })
    .await?;
    ensure!(world.cloud.calls("heat.stack_delete") == 0, "the stack was touched");
    // What the inventory knows is removed.
    database.execute("INSERT INTO cloud_resource SELECT * FROM its_resources", Vec::new()).await?;
    swept(&world, &lost, &stack).await?;
    for statement in ["DROP TABLE its_resources", "DELETE FROM x509keypair"] {
        database.execute(statement, Vec::new()).await?;
    }
    world.finish().await
}

#[tokio::test]
async fn what_only_the_cloud_knows_is_told_and_left_alone() -> Result<()> {
    let world = World::start(Mix::Distributed, Options::sweeping()).await?;
    let name = format!("11111111-2222-4333-8444-555555555555_{}", world.cloud.project_id("demo"));
    let user = world.cloud.add_user(&name, "magnum");
    let other = world.cloud.add_user("somebody", "magnum");
    wait::until("the find to be told", PATIENCE, async || {
        let logs = world.logs("conductor").join("\n");
        Ok(Seen::when(logs.contains(&name) && logs.contains("left alone"), || "not told".to_owned()))
    })
    .await?;
    ensure!(!world.logs("conductor").join("\n").contains("somebody"));
    // Both are there still, and it is this test that removes them.
    ensure!(world.cloud.remove_user_by_id(&user) && world.cloud.remove_user_by_id(&other));
    world.finish().await
}

/// Its name is recorded before it is asked for. Where the answer was lost and the cluster's rows are gone, nobody can tell whether it was made.
#[tokio::test]
async fn a_credential_that_may_have_been_made_is_told_and_stays_in_the_inventory() -> Result<()> {
    let world = World::start(Mix::Distributed, Options::sweeping()).await?;
    let lost = "11111111-2222-4333-8444-555555555555";
    let name = format!("magnum-{lost}-01234567");
    let asked = "INSERT INTO cloud_resource (cluster_uuid, kind, name, on_delete, created_ms, updated_ms) VALUES";
    let asked = format!("{asked} ('{lost}', 'keystone_application_credential', '{name}', 'delete', 1, 1)");
    world.database()?.execute(&asked, Vec::new()).await?;
    wait::until("the find to be told", PATIENCE, async || {
        let logs = world.logs("conductor").join("\n");
        let is_it = |line: &&str| line.contains(&name) && line.contains("may not look for it");
        Ok(Seen::when(logs.lines().any(|line| is_it(&line)), || "not told".to_owned()))
    })
    .await?;
    let its = format!("FROM cloud_resource WHERE cluster_uuid = '{lost}'");
    let recorded: Vec<i64> = world.database()?.rows(&format!("SELECT COUNT(*) {its}")).await?;
    ensure!(recorded == [1], "{recorded:?} rows");
    world.database()?.execute(&format!("DELETE {its}"), Vec::new()).await?;
    world.finish().await
}
