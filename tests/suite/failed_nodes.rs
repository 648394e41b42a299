//! Nodes that say that they did not become any. Heat keeps what they said and fails at them whenever it is asked again, so others must come.

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::json;
use tests::client::{self, Client, text};
use tests::nodes::{self, servers, set};
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World};

/// A complete cluster of one master and two workers, and its stack; a template that is newer.
async fn begin(world: &World, demo: &Client) -> Result<(String, String)> {
    let cluster = world.complete_cluster(demo).await?;
    let mut newer = client::template("newer");
    newer["labels"] = json!({"kube_tag": "v1.34.1"});
    demo.post("/v1/clustertemplates", &newer).await?.expect(201)?;
    Ok((cluster, world.only_stack().await?))
}

/// What a node says of itself that may be a part of the cluster: its name; and one that is none.
const JOINED: &str = "blue";
const ABSENT: &str = "absent";

/// Asks for a change, has these members fail while it is carried out, and asks for the same again.
async fn fail_and_retry(
    world: &World,
    demo: &Client,
    (cluster, stack): (&str, &str),
    asked: (&str, serde_json::Value),
    failing: &[(&str, &str)],
) -> Result<()> {
    let actions = format!("/v1/clusters/{cluster}/actions");
    world.cloud.hold_stacks(true);
    demo.at("1.10").post(&format!("{actions}/{}", asked.0), &asked.1).await?.expect(202)?;
    world.progress_is_told(demo, cluster).await?;
    ensure!(world.cloud.fail_members(stack, failing, "kubeadm join failed"), "{failing:?} of {:?}", servers(world));
    let failed = demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("kubeadm join failed"), "{failed}");
    world.cloud.hold_stacks(false);
    demo.post(&format!("{actions}/retry"), &json!({})).await?.expect(202)?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    Ok(())
}

#[rstest]
#[tokio::test]
async fn a_master_that_failed_and_the_one_it_was_to_replace_are_seen_off_by_the_next(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let (cluster, stack) = begin(&world, &demo).await?;
    let upgrade = ("upgrade", json!({"cluster_template": "newer"}));
    fail_and_retry(&world, &demo, (&cluster, &stack), upgrade, &[("kube_masters/1", JOINED)]).await?;
    ensure!(servers(&world) == set(&["master-2", "node-2", "node-3"]), "{:?}", servers(&world));
    let told = nodes::told(&demo, &cluster, "node_replacement").await?;
    ensure!(
        told.starts_with(
            &[
                "default-master: 2 nodes, new ones replace 0",
                "given up: default-master: 1 did not become nodes, others take their place",
                "default-master: once more what failed",
                "default-master: 3 nodes, new ones replace 1, 0",
                "default-master: 1 nodes, without 0, 1",
            ]
            .map(str::to_owned)
        ),
        "{told:?}"
    );
    // Whoever comes belongs to another round than whoever failed, and to the same replacement.
    let stacks = world.cloud.stacks();
    let generation = &stacks.first().context("a stack")?.parameters["master_generation"];
    ensure!(generation.as_str().is_some_and(|text| text.starts_with("2.")), "{generation}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_master_that_never_joined_goes_at_once_and_the_next_sees_off_what_it_may_have_left(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let (cluster, stack) = begin(&world, &demo).await?;
    let upgrade = ("upgrade", json!({"cluster_template": "newer"}));
    fail_and_retry(&world, &demo, (&cluster, &stack), upgrade, &[("kube_masters/1", ABSENT)]).await?;
    ensure!(servers(&world) == set(&["master-2", "node-2", "node-3"]), "{:?}", servers(&world));
    let told = nodes::told(&demo, &cluster, "node_replacement").await?;
    ensure!(
        told.starts_with(
            &[
                "default-master: 2 nodes, new ones replace 0",
                "default-master: 1 nodes, without 1, which never joined",
                "default-master: 2 nodes, new ones replace 1, 0",
                "default-master: 1 nodes, without 0",
            ]
            .map(str::to_owned)
        ),
        "{told:?}"
    );
    let stacks = world.cloud.stacks();
    let parameters = &stacks.first().context("a stack")?.parameters;
    ensure!(parameters["master_generation"].as_str().is_some_and(|text| text.starts_with("2.")), "{}", parameters["master_generation"]);
    ensure!(parameters["former_masters"] == json!({}), "{}", parameters["former_masters"]);
    world.finish().await
}

/// A cluster with a further group of three workers, which may be upgraded; and the group's stack.
async fn begin_with_group(world: &World, demo: &Client) -> Result<(String, String)> {
    let (cluster, _) = begin(world, demo).await?;
    let group = json!({"name": "more", "node_count": 3});
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/upgrade"), &json!({"cluster_template": "newer"})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let stack = world.cloud.stacks().into_iter().find(|stack| stack.name.contains("-more-")).context("the stack of the group")?.id;
    Ok((cluster, stack))
}

#[tokio::test]
async fn workers_that_failed_are_drained_by_those_that_come_in_their_place() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo().at("1.10");
    let (cluster, stack) = begin_with_group(&world, &demo).await?;
    let upgrade = ("upgrade", json!({"cluster_template": "newer", "nodegroup": "more", "max_batch_size": 2}));
    fail_and_retry(&world, &demo, (&cluster, &stack), upgrade, &[("kube_minions/3", JOINED), ("kube_minions/4", JOINED)]).await?;
    let told = nodes::told(&demo, &cluster, "node_replacement").await?;
    let steps: Vec<&str> = told.iter().filter(|step| step.contains("more: ")).map(String::as_str).collect();
    ensure!(
        steps
            == [
                "more: 5 nodes, new ones replace 0, 1",
                "given up: more: 3, 4 did not become nodes, others take their place",
                "more: once more what failed",
                "more: 7 nodes, new ones replace 3, 4, 0, 1",
                "more: 3 nodes, without 0, 1, 3, 4",
                "more: 4 nodes, new ones replace 2",
                "more: 3 nodes, without 2",
            ],
        "{told:?}"
    );
    world.finish().await
}

#[tokio::test]
async fn of_workers_that_failed_those_go_that_never_joined_and_the_others_are_drained() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo().at("1.10");
    let (cluster, stack) = begin_with_group(&world, &demo).await?;
    let upgrade = ("upgrade", json!({"cluster_template": "newer", "nodegroup": "more", "max_batch_size": 2}));
    fail_and_retry(&world, &demo, (&cluster, &stack), upgrade, &[("kube_minions/3", ABSENT), ("kube_minions/4", JOINED)]).await?;
    let told = nodes::told(&demo, &cluster, "node_replacement").await?;
    let steps: Vec<&str> = told.iter().filter(|step| step.contains("more: ")).map(String::as_str).collect();
    ensure!(
        steps
            == [
                "more: 5 nodes, new ones replace 0, 1",
                "given up: more: 4 did not become nodes, others take their place",
                "more: 4 nodes, without 3, which never joined",
                "more: 6 nodes, new ones replace 3, 4, 0, 1",
                "more: 3 nodes, without 0, 1, 4",
                "more: 4 nodes, new ones replace 2",
                "more: 3 nodes, without 2",
            ],
        "{told:?}"
    );
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_worker_that_failed_goes_when_the_resize_is_done_again(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let (cluster, stack) = begin(&world, &demo).await?;
    let resize = ("resize", json!({"node_count": 4}));
    fail_and_retry(&world, &demo, (&cluster, &stack), resize, &[("kube_minions/2", JOINED)]).await?;
    ensure!(servers(&world) == set(&["master-0", "node-0", "node-1", "node-3", "node-4"]), "{:?}", servers(&world));
    let told = nodes::told(&demo, &cluster, "nodes_given_up").await?;
    ensure!(told == ["2"], "{told:?}");
    world.finish().await
}

/// A rotation of the credentials replaces masters alone, in a stack that a worker has failed. Who may be a node stays one afterwards.
#[rstest]
#[case(ABSENT)]
#[case(JOINED)]
#[tokio::test]
async fn masters_are_replaced_past_a_worker_that_failed(#[case] data: &str) -> Result<()> {
    let environment = [("OS_TRUST__CLUSTER_USER_TRUST".to_owned(), "true".to_owned())].into();
    let world = World::start(Mix::Distributed, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let (cluster, stack) = begin(&world, &demo).await?;
    world.cloud.hold_stacks(true);
    demo.resize(&cluster, 3).await?;
    world.progress_is_told(&demo, &cluster).await?;
    ensure!(world.cloud.fail_members(&stack, &[("kube_minions/2", data)], "kubeadm join failed"), "{:?}", servers(&world));
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    world.cloud.hold_stacks(false);

    demo.rotate_credentials(&cluster).await?;
    // The group has failed still, and so has the cluster.
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").starts_with("default-worker: ") && failed["faults"].to_string().contains("kubeadm"), "{failed}");
    let operations = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
    let last = operations["operations"].as_array().and_then(|all| all.last()).context("operations")?;
    ensure!(last["kind"] == "credential_rotate" && last["state"] == "SUCCEEDED", "{last}");
    ensure!(servers(&world) == set(&["master-1", "node-0", "node-1", "node-2"]), "{:?}", servers(&world));
    let told = nodes::told(&demo, &cluster, "node_replacement").await?;
    ensure!(
        told == [
            "given up: default-worker: 2 did not become nodes, others take their place",
            "default-master: once more what failed",
            "default-master: 2 nodes, new ones replace 0",
            "default-master: 1 nodes, without 0",
        ],
        "{told:?}"
    );

    demo.resize(&cluster, 3).await?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    if data == JOINED {
        ensure!(text(&complete, "status_reason").starts_with("default-worker: of nodes 2 nobody knows"), "{complete}");
        ensure!(servers(&world).contains("node-2"), "{:?}", servers(&world));
        let body = json!({"node_count": 3, "nodes_to_remove": ["2"]});
        demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &body).await?.expect(202)?;
    } else {
        ensure!(nodes::told(&demo, &cluster, "nodes_given_up").await? == ["2"]);
    }
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["status_reason"].is_null() && complete["node_count"] == 3, "{complete}");
    ensure!(servers(&world) == set(&["master-1", "node-0", "node-1", "node-3"]), "{:?}", servers(&world));
    world.finish().await
}
