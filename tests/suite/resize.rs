//! Workers come and go: resize and PATCH, named nodes, failures, and the conductor killed in between.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::nodes;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// Longer than the test: whoever waits for this answer is killed waiting.
const FOR_EVER: Duration = Duration::from_secs(600);

async fn resize(demo: &Client, cluster: &str, body: Value) -> Result<()> {
    let answer = demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &body).await?.expect(202)?;
    ensure!(answer.body == json!({"uuid": cluster}), "{}", answer.text);
    Ok(())
}

/// The default worker group as it is now.
async fn workers(demo: &Client, cluster: &str) -> Result<Value> {
    Ok(demo.at("1.10").get(&format!("/v1/clusters/{cluster}/nodegroups/default-worker")).await?.expect(200)?.body)
}

fn addresses(body: &Value) -> Vec<String> {
    body["node_addresses"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Servers of workers by their name's end (`node-0`), with their ids.
fn servers(world: &World) -> Vec<(String, String)> {
    let mut servers = nodes::servers_by_id(world);
    servers.retain(|(name, _)| name.starts_with("node-"));
    servers
}

/// The whole name of the server whose name ends like this.
async fn server_name(world: &World, end: &str) -> Result<String> {
    let body = world.cloud_as("demo", "demo")?.get("/compute/v2.1/servers/detail").await?.expect(200)?.body;
    let names = body["servers"].as_array().context("servers")?.iter().map(|server| text(server, "name"));
    names.into_iter().find(|name| name.ends_with(end)).context("a server of that name")
}

fn names(world: &World) -> Vec<String> {
    let mut names: Vec<String> = servers(world).into_iter().map(|(name, _)| name).collect();
    names.sort();
    names
}

#[rstest]
#[tokio::test]
async fn workers_are_added_and_taken_away(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    resize(&demo, &cluster, json!({"node_count": 4})).await?;
    // Said at once, by cluster and group.
    let now = demo.cluster(&cluster).await?;
    ensure!(now["status"] == "UPDATE_IN_PROGRESS" || now["status"] == "UPDATE_COMPLETE", "{now}");
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 4 && addresses(&complete).len() == 4, "{complete}");
    ensure!(complete["status_reason"].is_null(), "{complete}");
    let group = workers(&demo, &cluster).await?;
    ensure!(group["status"] == "UPDATE_COMPLETE" && group["node_count"] == 4, "{group}");
    ensure!(names(&world) == ["node-0", "node-1", "node-2", "node-3"], "{:?}", names(&world));

    let patch = json!([{"op": "replace", "path": "/node_count", "value": 1}]);
    demo.patch(&format!("/v1/clusters/{cluster}"), &patch).await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 1 && addresses(&complete).len() == 1, "{complete}");
    ensure!(names(&world) == ["node-0"], "{:?}", names(&world));

    // What is already so is not asked for.
    let asked = world.cloud.calls("heat.stack_update");
    ensure!(asked == 2, "{asked}");
    resize(&demo, &cluster, json!({"node_count": 1})).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(world.cloud.calls("heat.stack_update") == asked);
    world.finish().await
}

/// The default worker group has so many nodes by all that tells of them: the cluster, the group, and the cloud.
async fn has_workers(world: &World, demo: &Client, cluster: &str, count: usize) -> Result<()> {
    for body in [demo.cluster(cluster).await?, workers(demo, cluster).await?] {
        ensure!(body["node_count"] == count && body["node_addresses"].as_array().map(Vec::len) == Some(count), "not {count}: {body}");
    }
    ensure!(names(world).len() == count, "not {count}: {:?}", names(world));
    Ok(())
}

#[rstest]
#[tokio::test]
async fn a_cluster_may_have_no_workers_from_its_start_and_again(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.10");
    let mut body = client::cluster("blue", &demo.create_template("small").await?);
    body["node_count"] = json!(0);
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    let made = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    has_workers(&world, &demo, &cluster, 0).await?;
    ensure!(made["master_count"] == 1 && nodes::servers(&world) == nodes::set(&["master-0"]), "{:?}", nodes::servers(&world));
    for count in [2, 0, 1] {
        resize(&demo, &cluster, json!({"node_count": count})).await?;
        demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
        has_workers(&world, &demo, &cluster, count).await?;
    }
    let patch = json!([{"op": "replace", "path": "/node_count", "value": 0}]);
    demo.patch(&format!("/v1/clusters/{cluster}"), &patch).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    has_workers(&world, &demo, &cluster, 0).await?;
    ensure!(workers(&demo, &cluster).await?["status"] == "UPDATE_COMPLETE" && nodes::servers(&world) == nodes::set(&["master-0"]));
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn the_nodes_that_were_named_go(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    resize(&demo, &cluster, json!({"node_count": 4})).await?;
    let before = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    // One by its server, one by its number.
    let server = servers(&world).into_iter().find(|(name, _)| name == "node-0").context("node-0")?.1;
    resize(&demo, &cluster, json!({"node_count": 2, "nodes_to_remove": [server, "2"]})).await?;
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(names(&world) == ["node-1", "node-3"], "{:?}", names(&world));
    let (old, new) = (addresses(&before), addresses(&after));
    ensure!(new == [old[1].clone(), old[3].clone()], "{old:?} {new:?}");
    // One by its address, replaced: the size stays.
    resize(&demo, &cluster, json!({"node_count": 2, "nodes_to_remove": [new[0]]})).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(names(&world) == ["node-3", "node-4"], "{:?}", names(&world));
    // A plain resize after that takes the highest.
    resize(&demo, &cluster, json!({"node_count": 1})).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(names(&world) == ["node-3"], "{:?}", names(&world));
    // One by its name, as Nova and Kubernetes show it; a beginning of it is no name.
    let name = server_name(&world, "node-3").await?;
    let beginning = name.trim_end_matches('3');
    resize(&demo, &cluster, json!({"node_count": 1, "nodes_to_remove": [beginning]})).await?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains(&format!("has no node {beginning} ")), "{failed}");
    resize(&demo, &cluster, json!({"node_count": 1, "nodes_to_remove": [name]})).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(names(&world).len() == 1 && names(&world) != ["node-3"], "{:?}", names(&world));
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn an_unknown_node_fails_the_resize_by_name_and_changes_nothing(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    resize(&demo, &cluster, json!({"node_count": 1, "nodes_to_remove": ["no-such-node"]})).await?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("no-such-node"), "{failed}");
    ensure!(failed["faults"].to_string().contains("default-worker"), "{failed}");
    ensure!(failed["node_count"] == 2 && world.cloud.calls("heat.stack_update") == 0, "{failed}");
    // The way out is another resize.
    resize(&demo, &cluster, json!({"node_count": 1})).await?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 1, "{complete}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_failed_change_is_told_and_asked_for_again(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    world.cloud.hold_stacks(true);
    resize(&demo, &cluster, json!({"node_count": 3})).await?;
    world.progress_is_told(&demo, &cluster).await?;
    ensure!(world.cloud.fail_stack(&stack, "No valid host was found"));
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("No valid host was found"), "{failed}");
    ensure!(failed["faults"]["default-worker"].to_string().contains("No valid host"), "{failed}");
    ensure!(failed["faults"].as_object().map(|f| f.len()) == Some(1), "{failed}");
    world.cloud.hold_stacks(false);
    resize(&demo, &cluster, json!({"node_count": 3})).await?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 3 && complete.get("faults").is_none(), "{complete}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_change_that_was_to_be_rolled_back_leaves_the_size_that_the_cloud_has(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    world.cloud.hold_stacks(true);
    let patch = json!([{"op": "replace", "path": "/node_count", "value": 5}]);
    demo.at("1.3").patch(&format!("/v1/clusters/{cluster}?rollback=true"), &patch).await?.expect(202)?;
    world.progress_is_told(&demo, &cluster).await?;
    ensure!(world.cloud.fail_stack(&stack, "No valid host was found"));
    world.cloud.hold_stacks(false);
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("rolled back"), "{failed}");
    ensure!(failed["node_count"] == 2, "{failed}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn w4_requests_for_one_cluster_are_carried_out_in_their_order(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    for count in [5, 3, 4] {
        resize(&demo, &cluster, json!({"node_count": count})).await?;
    }
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 4 && names(&world).len() == 4, "{complete}");
    ensure!(world.cloud.calls("heat.stack_update") == 3);
    // A delete in the middle of another makes it give way.
    world.cloud.hold_stacks(true);
    resize(&demo, &cluster, json!({"node_count": 6})).await?;
    world.progress_is_told(&demo, &cluster).await?;
    demo.delete_cluster(&cluster).await?;
    world.cloud.hold_stacks(false);
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[case::taken_answer_lost("heat.stack_update", How::AcceptThenLose)]
#[case::refused("heat.stack_update", How::Refuse)]
#[case::a_bad_day("heat.stack_update", How::Status(500, "the cloud has a bad day".to_owned()))]
#[case::busy("heat.stack_update", How::Status(409, "an action is in progress".to_owned()))]
#[case::unauthorized("heat.stack_update", How::Unauthorized)]
#[case::look_lost("heat.any", How::AcceptThenLose)]
#[case::members_500("heat.resource_list", How::Status(500, "the cloud has a bad day".to_owned()))]
#[tokio::test]
async fn a_resize_survives(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix, #[case] at: &str, #[case] how: How) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.inject(Fault { at: at.to_owned(), nth: 1, how });
    resize(&demo, &cluster, json!({"node_count": 2, "nodes_to_remove": ["0"]})).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(names(&world) == ["node-1", "node-2"], "{:?}", names(&world));
    world.finish().await
}

#[rstest]
#[case::while_it_is_asked("heat.stack_update", None)]
#[case::after_it_was_taken("heat.stack_update", Some(How::AcceptThenLose))]
#[case::while_nodes_are_looked_up("heat.resource_list", None)]
#[tokio::test]
async fn a_resize_whose_conductor_is_killed_is_finished_by_another(#[case] at: &str, #[case] how: Option<How>) -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let (calls, looks) = (world.cloud.calls(at), world.cloud.calls("heat.stack_show"));
    let is_held_looking = how.is_some();
    match how {
        None => world.cloud.inject(Fault { at: at.to_owned(), nth: 1, how: How::Slow(FOR_EVER) }),
        Some(how) => {
            // Held when it looks for what became of its request: the stack was looked at to find the nodes, for what they are, and before the
            // request.
            world.cloud.inject(Fault { at: at.to_owned(), nth: 1, how });
            world.cloud.inject(Fault { at: "heat.stack_show".to_owned(), nth: 4, how: How::Slow(FOR_EVER) });
        }
    }
    resize(&demo, &cluster, json!({"node_count": 3, "nodes_to_remove": ["1"]})).await?;
    wait::until("the call", PATIENCE, async || {
        let made = world.cloud.calls(at) > calls;
        // Who takes over would be held in its place.
        let looked = !is_held_looking || world.cloud.calls("heat.stack_show") >= looks + 4;
        Ok(Seen::when(made && looked, || "no call".to_owned()))
    })
    .await?;
    let owner = world.owner(&cluster).await?;
    world.kill(owner)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 3, "{complete}");
    ensure!(names(&world) == ["node-0", "node-2", "node-3"], "{:?}", names(&world));
    world.finish().await
}

/// A request of an operation that was cancelled may reach Heat when the next one has found the group as it wants it.
#[tokio::test]
async fn a_size_that_is_there_is_believed_when_nothing_is_on_its_way_any_more() -> Result<()> {
    // The late request comes well within it.
    let environment = [("OS_OPERATIONS__SETTLE_SECONDS".to_owned(), "15".to_owned())].into();
    let world = World::start(Mix::Distributed, Options { environment, ..Options::default() }).await?;
    let demo = world.demo().at("1.12");
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.inject(Fault { at: "heat.stack_update".to_owned(), nth: 1, how: How::Hold });
    resize(&demo, &cluster, json!({"node_count": 4})).await?;
    wait::until("the request to be held", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "not yet".to_owned()))).await?;
    let owner = world.owner(&cluster).await?;
    world.freeze(owner)?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/cancel"), &json!({})).await?.expect(202)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(failed["node_count"] == 4, "the most that there may be: {failed}");

    resize(&demo, &cluster, json!({"node_count": 2})).await?;
    wait::until("the operation to wait", PATIENCE, async || {
        let operations = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
        Ok(Seen::when(operations.to_string().contains("stays as it is"), || operations.to_string()))
    })
    .await?;
    world.cloud.let_go();
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 2 && world.cloud.calls("heat.stack_update") >= 2, "{complete}");
    has_workers(&world, &demo, &cluster, 2).await?;
    world.thaw(owner)?;
    world.finish().await
}
