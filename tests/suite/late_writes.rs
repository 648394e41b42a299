//! Who comes late writes nothing: an owner that stood still with an answer in its hand, and one whose work somebody else has.
//!
//! The rows are the last word, so what is compared is what they say before and after the late one has done whatever it does.

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use tests::client::Client;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

struct Scene {
    world: World,
    demo: Client,
}

/// Three conductors, of which none looks at health: nothing but operations writes rows.
async fn scene() -> Result<Scene> {
    let environment = [("OS_KUBERNETES__HEALTH_POLLING_INTERVAL".to_owned(), "-1".to_owned())].into();
    let world = World::start(Mix::Distributed, Options { environment, ..Options::default() }).await?;
    let demo = world.demo().at("1.10");
    Ok(Scene { world, demo })
}

/// The answer to the `nth` such call from now on is there, and comes when the test lets go.
fn hold_answer(world: &World, at: &str, nth: u32) {
    world.cloud.inject(Fault { at: at.to_owned(), nth, how: How::ActThenHold });
}

async fn held(world: &World) -> Result<()> {
    wait::until("an answer to be held", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "none".to_owned()))).await
}

/// Gives the late one its answer.
async fn let_go(world: &World) -> Result<()> {
    world.cloud.let_go();
    wait::until("the answer to be given", PATIENCE, async || Ok(Seen::when(world.cloud.held() == 0, || "held".to_owned()))).await
}

/// Ends a conductor in good order: whatever it had still to write is written then.
async fn end(world: &mut World, pid: u32) -> Result<()> {
    world.ask_to_end(pid)?;
    let status = wait::until("the conductor to end", PATIENCE, async || Ok(Seen::from_option(world.ended(pid)?, "it runs"))).await?;
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

/// Lets a frozen owner go on with its answer, until it has seen that it is late and has ended.
async fn thaw(world: &mut World, owner: u32) -> Result<()> {
    let_go(world).await?;
    world.thaw(owner)?;
    wait::until("the owner to see that it is late", PATIENCE, async || {
        let at = world.pids("conductor").iter().position(|pid| *pid == owner).context("the owner")?;
        let log = world.logs("conductor").swap_remove(at);
        Ok(Seen::when(log.contains("operation lost"), || "nothing was lost".to_owned()))
    })
    .await?;
    end(world, owner).await
}

/// The state of the rows of clusters, of their groups and of what they have in the cloud, in numbers.
async fn rows(world: &World) -> Result<Vec<Option<u64>>> {
    let sums = world.database()?.checksums().await?;
    let of = |table: &&str| sums.get(*table).copied().with_context(|| format!("no table {table}"));
    ["cluster", "nodegroup", "nodegroup_nodes", "cloud_resource"].iter().map(of).collect()
}

/// What a handler had learned before it stood still went over what others had written since.
#[tokio::test]
async fn w7_an_owner_that_goes_on_when_another_has_finished_changes_nothing() -> Result<()> {
    let Scene { mut world, demo } = scene().await?;
    let cluster = world.complete_cluster(&demo).await?;
    hold_answer(&world, "heat.stack_update", 1);
    demo.resize(&cluster, 3).await?;
    held(&world).await?;
    let owner = world.owner(&cluster).await?;
    world.freeze(owner)?;
    let mut complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let before = rows(&world).await?;
    thaw(&mut world, owner).await?;
    ensure!(rows(&world).await? == before, "{before:?} before, {:?} after", rows(&world).await?);
    let mut shown = demo.cluster(&cluster).await?;
    // Links name the process that answers.
    for answer in [&mut complete, &mut shown] {
        answer["links"].take();
    }
    ensure!(shown == complete && shown["node_count"] == 3, "{complete} has become {shown}");
    ensure!(world.operation_states(&cluster).await? == ["SUCCEEDED"; 2]);
    ensure!(world.cloud.calls("heat.stack_update") == 1);
    world.keep_secrets_of_stacks();
    world.finish().await
}

/// A poller that had read before it saved UPDATE_COMPLETE while the next change was under way.
#[tokio::test]
async fn w7_the_end_that_a_late_owner_saw_does_not_end_the_change_after_it() -> Result<()> {
    let Scene { mut world, demo } = scene().await?;
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    world.cloud.hold_stacks(true);
    demo.resize(&cluster, 3).await?;
    world.progress_is_told(&demo, &cluster).await?;
    // In its hand: that the stack is complete.
    hold_answer(&world, "heat.stack_show", 1);
    ensure!(world.cloud.complete_stack(&stack));
    held(&world).await?;
    let owner = world.owner(&cluster).await?;
    world.freeze(owner)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    demo.resize(&cluster, 5).await?;
    world.progress_is_told(&demo, &cluster).await?;
    thaw(&mut world, owner).await?;
    let shown = demo.cluster(&cluster).await?;
    ensure!(shown["status"] == "UPDATE_IN_PROGRESS" && shown["node_count"] == 5, "{shown}");
    let groups: Vec<(String, i32)> = world
        .database()?
        .rows(&format!("SELECT status, node_count FROM nodegroup WHERE cluster_id = '{cluster}' AND name = 'default-worker'"))
        .await?;
    ensure!(groups == [("UPDATE_IN_PROGRESS".to_owned(), 5)], "{groups:?}");
    world.cloud.hold_stacks(false);
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 5 && complete["node_addresses"].as_array().map(Vec::len) == Some(5), "{complete}");
    world.keep_secrets_of_stacks();
    world.finish().await
}

/// Two hosts that worked on one cluster wrote over each other, column by column. Here another one has the work while the first still takes
/// its own lease for good: the number of the claim decides, not the clock.
#[tokio::test]
async fn w7_what_a_claim_that_has_gone_to_another_writes_is_written_nowhere() -> Result<()> {
    let Scene { mut world, demo } = scene().await?;
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    world.cloud.hold_stacks(true);
    demo.resize(&cluster, 3).await?;
    world.progress_is_told(&demo, &cluster).await?;
    hold_answer(&world, "heat.stack_show", 1);
    ensure!(world.cloud.complete_stack(&stack));
    held(&world).await?;
    let owner = world.owner(&cluster).await?;
    let taken = format!(
        "UPDATE operation SET owner = 'elsewhere:1:x', generation = generation + 1, lease_ms = lease_ms + 600000 \
         WHERE cluster_uuid = '{cluster}' AND finished_ms IS NULL"
    );
    world.database()?.execute(&taken, Vec::new()).await?;
    let before = rows(&world).await?;
    let_go(&world).await?;
    end(&mut world, owner).await?;
    ensure!(rows(&world).await? == before, "{before:?} before, {:?} after", rows(&world).await?);
    let kept: Vec<(String, String)> = world
        .database()?
        .rows(&format!("SELECT state, owner FROM operation WHERE cluster_uuid = '{cluster}' AND finished_ms IS NULL"))
        .await?;
    ensure!(kept == [("RUNNING".to_owned(), "elsewhere:1:x".to_owned())], "{kept:?}");
    ensure!(demo.cluster(&cluster).await?["status"] == "UPDATE_IN_PROGRESS");
    // Nobody is elsewhere: whoever takes it over finds what became of the stack.
    let free = format!("UPDATE operation SET lease_ms = 0 WHERE cluster_uuid = '{cluster}' AND finished_ms IS NULL");
    world.database()?.execute(&free, Vec::new()).await?;
    world.cloud.hold_stacks(false);
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 3 && world.cloud.calls("heat.stack_update") == 1, "{complete}");
    world.keep_secrets_of_stacks();
    world.finish().await
}

/// A handler or a poller that had seen the stack complete said so of a cluster that was being deleted.
#[tokio::test]
async fn w7_a_cluster_that_is_being_deleted_does_not_become_complete_again() -> Result<()> {
    let Scene { world, demo } = scene().await?;
    let template = demo.create_template("small").await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    // It has seen the end, and asks for the outputs: the next thing is to write both down.
    hold_answer(&world, "heat.stack_show", 2);
    ensure!(world.cloud.complete_stack(&world.only_stack().await?));
    held(&world).await?;
    world.keep_secrets_of_stacks();
    world.cloud.hold_stacks(false);
    demo.delete_cluster(&cluster).await?;
    let_go(&world).await?;
    // Any other status than DELETE_IN_PROGRESS is an error.
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.operation_states(&cluster).await? == ["SUPERSEDED", "SUCCEEDED"]);
    ensure!(world.cloud.calls("heat.stack_create") == 1);
    world.finish().await
}
