//! Nodes that say that they did not become any. Heat keeps what they said and fails at them whenever it is asked again, so others must come.

use std::collections::BTreeSet;
use std::time::Duration;

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
    newer["labels"] = json!({"kube_tag": "v1.36.9"});
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

/// The only master stays in the load balancer though it is to be replaced; of several, the one that is has left it, and others serve.
#[rstest]
#[case::alone(1, "0", "2")]
#[case::of_three(3, "1 2", "4 5 6")]
#[tokio::test]
async fn the_api_is_served_when_a_master_failed_and_when_others_have_come(
    #[case] masters: u32,
    #[case] meanwhile: &str,
    #[case] wanted: &str,
) -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo().at("1.10");
    for (name, tag) in [("small", "v1.33.5"), ("newer", "v1.34.1")] {
        let mut template = client::template(name);
        (template["master_lb_enabled"], template["labels"]) = (json!(true), json!({"kube_tag": tag}));
        demo.post("/v1/clustertemplates", &template).await?.expect(201)?;
    }
    let mut body = client::cluster("blue", "small");
    (body["master_count"], body["node_count"]) = (json!(masters), json!(0));
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let (stack, actions) = (world.only_stack().await?, format!("/v1/clusters/{cluster}/actions"));
    world.cloud.hold_stacks(true);
    demo.post(&format!("{actions}/upgrade"), &json!({"cluster_template": "newer"})).await?.expect(202)?;
    world.progress_is_told(&demo, &cluster).await?;
    let comes = format!("kube_masters/{masters}");
    ensure!(world.cloud.fail_members(&stack, &[(comes.as_str(), JOINED)], "kubeadm join failed"), "{:?}", servers(&world));
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    let mut left = world.cloud.api_members();
    left.retain(|number| *number != masters.to_string());
    ensure!(left.join(" ") == meanwhile, "{left:?}");
    world.cloud.hold_stacks(false);
    demo.post(&format!("{actions}/retry"), &json!({})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(world.cloud.api_members().join(" ") == wanted, "{:?}", world.cloud.api_members());
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

/// What the master was made for has failed with it; workers can come all the same, and it goes on from there when it is asked for again.
#[rstest]
#[case(Mix::Embedded, ABSENT)]
#[case(Mix::Distributed, JOINED)]
#[tokio::test]
async fn workers_come_past_a_master_that_failed_and_the_next_that_comes_sees_it_off(#[case] mix: Mix, #[case] data: &str) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.10");
    let (cluster, stack) = begin(&world, &demo).await?;
    let upgrade = json!({"cluster_template": "newer"});
    world.cloud.hold_stacks(true);
    demo.post(&format!("/v1/clusters/{cluster}/actions/upgrade"), &upgrade).await?.expect(202)?;
    world.progress_is_told(&demo, &cluster).await?;
    ensure!(world.cloud.fail_members(&stack, &[("kube_masters/1", data)], "kubeadm join failed"), "{:?}", servers(&world));
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    world.cloud.hold_stacks(false);

    demo.resize(&cluster, 3).await?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(text(&complete, "status_reason").contains("masters 1 did not become nodes") && complete["node_count"] == 3, "{complete}");
    ensure!(servers(&world) == set(&["master-0", "master-1", "node-0", "node-1", "node-2"]), "{:?}", servers(&world));
    ensure!(nodes::told(&demo, &cluster, "masters_passed_by").await? == ["1"]);
    // It is one of those that others are to see off, as is the one that it came for, which nobody sees off yet.
    let stacks = world.cloud.stacks();
    let parameters = &stacks.first().context("a stack")?.parameters;
    let former: Vec<&str> = parameters["former_masters"].as_object().context("a map")?.keys().map(String::as_str).collect();
    ensure!(former == ["0", "1"] && parameters["master_replaces"] == json!([]), "{former:?} {}", parameters["master_replaces"]);
    // Nothing is in the way of whatever comes next.
    demo.resize(&cluster, 2).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(nodes::told(&demo, &cluster, "masters_passed_by").await? == ["1"]);

    demo.post(&format!("/v1/clusters/{cluster}/actions/upgrade"), &upgrade).await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["status_reason"].is_null(), "{complete}");
    let masters: BTreeSet<String> = servers(&world).into_iter().filter(|name| name.starts_with("master-")).collect();
    ensure!(masters == set(&["master-2"]), "{masters:?}");
    let told = nodes::told(&demo, &cluster, "node_replacement").await?;
    let steps: Vec<&str> = told.iter().filter(|step| step.contains("default-master: ")).map(String::as_str).collect();
    ensure!(
        steps
            == [
                "default-master: 2 nodes, new ones replace 0",
                "default-master: 3 nodes, new ones replace 1, 0",
                "default-master: 1 nodes, without 0, 1",
            ],
        "{told:?}"
    );
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

    // New bounds make no node of it.
    let group = format!("/v1/clusters/{cluster}/nodegroups/default-worker");
    let patch = json!([{"op": "replace", "path": "/max_node_count", "value": 5}]);
    demo.at("1.12").patch(&group, &patch).await?.expect(202)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    let shown = demo.at("1.12").get(&group).await?.expect(200)?.body;
    let why = if data == JOINED { "of nodes 2 nobody knows" } else { "nodes 2 never joined" };
    ensure!(
        shown["status"] == "UPDATE_FAILED" && shown["max_node_count"] == 5 && text(&shown, "status_reason").starts_with(why),
        "{shown}"
    );
    ensure!(text(&failed, "status_reason").starts_with(&format!("default-worker: {why}")), "{failed}");
    ensure!(world.operation_states(&cluster).await?.last().is_some_and(|state| state == "SUCCEEDED"));

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

/// What a node says later than its token lives nobody hears, however long Heat would wait for it.
#[tokio::test]
async fn nodes_give_up_while_the_token_lives_with_which_they_tell_of_it() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo().at("1.10");
    let template = demo.create_template("small").await?;
    let mut body = client::cluster("blue", &template);
    body["create_timeout"] = json!(120);
    world.cloud.set_token_lifetime(Duration::from_secs(3600));
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let have = |seconds: u32| -> Result<()> {
        for data in [nodes::masters(&world)?, nodes::workers(&world)?] {
            let env = nodes::file(&data, "/etc/kubernetes-bootstrap/node.env")?;
            ensure!(env.contains(&format!("WAIT_SECONDS='{seconds}'\n")), "not {seconds}: {env}");
        }
        Ok(())
    };
    have(2700)?;
    // As long as that is not what ends first, nodes have three quarters of what Heat was given for them.
    world.cloud.set_token_lifetime(Duration::from_secs(86_400));
    let upgrade = json!({"cluster_template": template, "max_batch_size": 2});
    demo.post(&format!("/v1/clusters/{cluster}/actions/upgrade"), &upgrade).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    have(5400)?;
    world.finish().await
}
