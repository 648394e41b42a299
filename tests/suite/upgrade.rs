//! All nodes of a cluster, or of one of its groups, are replaced by those of another template.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::nodes::{self, servers, set};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

/// Longer than the test: whoever waits for this answer is killed waiting.
const FOR_EVER: Duration = Duration::from_secs(600);

/// A template that differs from the usual one by labels and attributes.
pub(crate) async fn template(demo: &Client, name: &str, more: Value) -> Result<String> {
    let mut body = client::template(name);
    for (key, value) in more.as_object().context("an object")? {
        body[key] = value.clone();
    }
    demo.post("/v1/clustertemplates", &body).await?.expect(201)?.uuid()
}

async fn newer(demo: &Client) -> Result<String> {
    template(demo, "newer", json!({"labels": {"kube_tag": "v1.36.9", "containerd_version": "2.1.5"}})).await
}

pub(crate) async fn upgrade(demo: &Client, cluster: &str, body: Value) -> Result<()> {
    let answer = demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/upgrade"), &body).await?.expect(202)?;
    ensure!(answer.body == json!({"uuid": cluster}), "{}", answer.text);
    Ok(())
}

/// What the operation's events say of its steps.
async fn steps(demo: &Client, cluster: &str) -> Result<Vec<String>> {
    nodes::told(demo, cluster, "node_replacement").await
}

#[rstest]
#[tokio::test]
async fn every_node_is_replaced_masters_first(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let before = demo.cluster(&cluster).await?;
    ensure!(servers(&world) == set(&["master-0", "node-0", "node-1"]), "{:?}", servers(&world));
    let wanted = newer(&demo).await?;
    upgrade(&demo, &cluster, json!({"cluster_template": "newer"})).await?;
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(servers(&world) == set(&["master-1", "node-2", "node-3"]), "{:?}", servers(&world));
    ensure!(after["cluster_template_id"] == wanted.as_str() && after["coe_version"] == "v1.36.9", "{after}");
    ensure!(after["labels"]["kube_tag"] == "v1.36.9" && after["labels"]["containerd_version"] == "2.1.5", "{after}");
    ensure!(after["api_address"] == before["api_address"] && after["stack_id"] == before["stack_id"], "{before} {after}");
    ensure!(after["node_count"] == 2 && after["master_count"] == 1 && after["status_reason"].is_null(), "{after}");
    let told = steps(&demo, &cluster).await?;
    ensure!(
        told == [
            "default-master: 2 nodes, new ones replace 0",
            "default-master: 1 nodes, without 0",
            "default-worker: 3 nodes, new ones replace 0",
            "default-worker: 2 nodes, without 0",
            "default-worker: 3 nodes, new ones replace 1",
            "default-worker: 2 nodes, without 1",
        ],
        "{told:?}"
    );
    // The last batch came with an order for the masters, signed with a key that they have.
    let authority = nodes::file(&nodes::masters(&world)?, "/etc/kubernetes-bootstrap/pki/ca.key")?;
    let stack = world.cloud.stacks().into_iter().next().context("a stack")?.name;
    let order = nodes::file(&nodes::workers(&world)?, "/etc/kubernetes-bootstrap/order")?;
    ensure!(order == nodes::order(&authority, &format!("{stack}-node-1 1")), "{order}");
    // The nodes that come later are of the new version, and replace nobody.
    let body = json!({"node_count": 3});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &body).await?.expect(202)?;
    let grown = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(grown["node_count"] == 3 && servers(&world).contains("node-4"), "{:?}", servers(&world));
    // The old template is free, the new one is not.
    demo.delete("/v1/clustertemplates/small").await?.expect(204)?;
    demo.delete("/v1/clustertemplates/newer").await?.expect(400)?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn three_masters_go_one_by_one_and_workers_by_batches(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let old = template(&demo, "small", json!({"master_lb_enabled": true})).await?;
    newer(&demo).await?;
    let mut body = client::cluster("blue", &old);
    (body["master_count"], body["node_count"]) = (json!(3), json!(5));
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    upgrade(&demo, &cluster, json!({"cluster_template": "newer", "max_batch_size": 3})).await?;
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(after["node_count"] == 5 && after["master_count"] == 3, "{after}");
    let wanted = ["master-3", "master-4", "master-5", "node-5", "node-6", "node-7", "node-8", "node-9"];
    ensure!(servers(&world) == set(&wanted), "{:?}", servers(&world));
    // Three masters by one, five workers by three; each master that goes leaves the load balancer before.
    ensure!(world.cloud.calls("heat.stack_update") == 3 * 2 + 2 * 2, "{:?}", steps(&demo, &cluster).await?);
    ensure!(world.cloud.calls("octavia.pool_member_delete") == 3);
    world.finish().await
}

/// A complete cluster of so many masters behind a load balancer and no workers; a template that is newer.
async fn balanced(demo: &Client, masters: u32) -> Result<String> {
    let old = template(demo, "small", json!({"master_lb_enabled": true})).await?;
    newer(demo).await?;
    let mut body = client::cluster("blue", &old);
    (body["master_count"], body["node_count"]) = (json!(masters), json!(0));
    let cluster = demo.at("1.10").post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    Ok(cluster)
}

/// Its successor takes it out of etcd, and a load balancer that looks at connections alone goes on sending requests there.
#[rstest]
#[case::alone(1, "0, 1")]
#[case::of_three(3, "1 2, 1 2 3, 2 3, 2 3 4, 3 4, 3 4 5")]
#[tokio::test]
async fn a_master_leaves_the_load_balancer_when_its_successor_is_asked_for_but_for_the_only_one(
    #[case] masters: u32,
    #[case] wanted: &str,
) -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let cluster = balanced(&demo, masters).await?;
    world.cloud.hold_stacks(true);
    upgrade(&demo, &cluster, json!({"cluster_template": "newer"})).await?;
    let mut rounds = wanted.split(", ").enumerate();
    loop {
        let at_work = wait::until("a stack at work, or the end", PATIENCE, async || {
            if let Some(stack) = world.cloud.stacks().into_iter().find(|stack| stack.status == "UPDATE_IN_PROGRESS") {
                return Ok(Seen::Yes(Some(stack.id)));
            }
            let status = text(&demo.cluster(&cluster).await?, "status");
            Ok(if status == "UPDATE_IN_PROGRESS" { Seen::Instead(status) } else { Seen::Yes(None) })
        });
        let Some(stack) = at_work.await? else { break };
        // After those of masters, that of workers, of which there are none.
        if let Some((change, wanted)) = rounds.next() {
            let mut members = world.cloud.api_members();
            // The one that comes may be there already.
            let newest = (masters as usize + change / 2).to_string();
            members.retain(|number| change % 2 == 1 || *number != newest);
            ensure!(members.join(" ") == wanted, "change {change}: {members:?}, not {wanted}");
        }
        ensure!(world.cloud.complete_stack(&stack));
    }
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(rounds.next().is_none(), "{:?}", steps(&demo, &cluster).await?);
    // Who has left once is not asked to leave again.
    ensure!(world.cloud.calls("octavia.pool_member_delete") == masters as usize);
    world.cloud.hold_stacks(false);
    world.finish().await
}

#[rstest]
#[case::killed_before(How::Hold)]
#[case::killed_during(How::ActThenHold)]
#[case::answer_lost(How::AcceptThenLose)]
#[case::busy(How::Status(409, "Load Balancer is immutable and cannot be updated.".to_owned()))]
#[tokio::test]
async fn masters_leave_the_load_balancer_whatever_befalls_who_takes_them_out(#[case] how: How, #[values(1, 3)] nth: u32) -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = balanced(&demo, 3).await?;
    let is_killed = matches!(how, How::Hold | How::ActThenHold);
    world.cloud.inject(Fault { at: "octavia.pool_member_delete".to_owned(), nth, how });
    upgrade(&demo, &cluster, json!({"cluster_template": "newer"})).await?;
    if is_killed {
        wait::until("a call to be held", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "none".to_owned()))).await?;
        ensure!(!world.cloud.api_members().is_empty(), "nobody serves the API");
        let owner = world.owner(&cluster).await?;
        world.kill(owner)?;
        world.cloud.let_go();
    }
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(servers(&world) == set(&["master-3", "master-4", "master-5"]), "{:?}", servers(&world));
    ensure!(world.cloud.api_members() == ["3", "4", "5"], "{:?}", world.cloud.api_members());
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_group_is_upgraded_to_the_template_of_its_cluster(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    newer(&demo).await?;
    let body = json!({"name": "more", "node_count": 1});
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &body).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let path = format!("/v1/clusters/{cluster}/actions/upgrade");
    let foreign = json!({"cluster_template": "newer", "nodegroup": "more"});
    demo.post(&path, &foreign).await?.expect(409)?;
    upgrade(&demo, &cluster, json!({"cluster_template": "newer"})).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let before = world.cloud.calls("heat.stack_update");
    upgrade(&demo, &cluster, foreign).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(world.cloud.calls("heat.stack_update") == before + 2);
    ensure!(steps(&demo, &cluster).await?.ends_with(&["more: 1 nodes, without 0".to_owned()]), "{:?}", steps(&demo, &cluster).await?);
    let group = demo.get(&format!("/v1/clusters/{cluster}/nodegroups/more")).await?.expect(200)?.body;
    ensure!(group["status"] == "UPDATE_COMPLETE" && group["node_count"] == 1, "{group}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn an_admin_upgrades_another_projects_cluster_to_a_template_of_that_project(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let wanted = newer(&demo).await?;
    let path = format!("/v1/clusters/{cluster}/actions/upgrade");
    let body = json!({"cluster_template": "newer"});
    world.user("demo2", "demo2").at("1.10").post(&path, &body).await?.expect_error(404, &cluster)?;
    upgrade(&world.user("admin", "admin"), &cluster, body).await?;
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(after["cluster_template_id"] == wanted.as_str() && after["coe_version"] == "v1.36.9", "{after}");
    ensure!(after["project_id"] == world.cloud.project_id("demo"), "{after}");
    world.finish().await
}

#[tokio::test]
async fn what_cannot_be_upgraded_to_is_refused_at_once_with_its_rule() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    for (name, more, rule) in [
        ("back", json!({"labels": {"kube_tag": "v1.32.9"}}), "go back"),
        ("far", json!({"labels": {"kube_tag": "v1.38.0"}}), "leaves out v1.37"),
        ("calico", json!({"network_driver": "calico"}), "network_driver"),
    ] {
        template(&demo, name, more).await?;
        let path = format!("/v1/clusters/{cluster}/actions/upgrade");
        demo.at("1.10").post(&path, &json!({"cluster_template": name})).await?.expect_error(400, rule)?;
    }
    let masters = json!({"cluster_template": "small", "nodegroup": "default-master"});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/upgrade"), &masters).await?.expect_error(400, "default-worker")?;
    let untouched = demo.cluster(&cluster).await?;
    ensure!(untouched["status"] == "CREATE_COMPLETE" && world.cloud.calls("heat.stack_update") == 0, "{untouched}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_failed_upgrade_says_why_keeps_the_old_nodes_and_goes_on_when_done_again(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    let old = demo.cluster(&cluster).await?;
    newer(&demo).await?;
    world.cloud.hold_stacks(true);
    upgrade(&demo, &cluster, json!({"cluster_template": "newer"})).await?;
    world.progress_is_told(&demo, &cluster).await?;
    ensure!(world.cloud.fail_stack(&stack, "No valid host was found"));
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("No valid host was found"), "{failed}");
    ensure!(failed["cluster_template_id"] == old["cluster_template_id"] && failed["coe_version"] == old["coe_version"], "{failed}");
    ensure!(servers(&world).is_superset(&set(&["master-0", "node-0", "node-1"])), "{:?}", servers(&world));
    world.cloud.hold_stacks(false);
    demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(after["coe_version"] == "v1.36.9", "{after}");
    ensure!(servers(&world) == set(&["master-1", "node-2", "node-3"]), "{:?}", servers(&world));
    world.finish().await
}

#[rstest]
#[case::while_it_is_asked("heat.stack_update", 3, None)]
#[case::after_it_was_taken("heat.stack_update", 2, Some(How::AcceptThenLose))]
#[tokio::test]
async fn an_upgrade_whose_conductor_is_killed_is_finished_by_another(
    #[case] at: &str,
    #[case] nth: u32,
    #[case] how: Option<How>,
) -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    newer(&demo).await?;
    let calls = world.cloud.calls(at);
    world.cloud.inject(Fault { at: at.to_owned(), nth, how: how.unwrap_or(How::Slow(FOR_EVER)) });
    upgrade(&demo, &cluster, json!({"cluster_template": "newer"})).await?;
    wait::until("the call", PATIENCE, async || Ok(Seen::when(world.cloud.calls(at) >= calls + nth as usize, || "no call".to_owned())))
        .await?;
    if let Some(owner) = world.owner_now(&cluster).await? {
        world.kill(owner)?;
    }
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 2 && complete["coe_version"] == "v1.36.9", "{complete}");
    ensure!(servers(&world) == set(&["master-1", "node-2", "node-3"]), "{:?}", servers(&world));
    world.finish().await
}

/// What is left to do of an upgrade is read from its template at each step.
#[rstest]
#[tokio::test]
async fn the_template_of_an_upgrade_at_work_stays_as_it_is(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let wanted = newer(&demo).await?;
    world.cloud.hold_stacks(true);
    upgrade(&demo, &cluster, json!({"cluster_template": "newer"})).await?;
    world.progress_is_told(&demo, &cluster).await?;
    let path = format!("/v1/clustertemplates/{wanted}");
    demo.delete(&path).await?.expect_error(400, "referenced")?;
    let change = json!([{"op": "replace", "path": "/labels/kube_tag", "value": "v1.36.10"}]);
    demo.patch(&path, &change).await?.expect_error(400, "referenced")?;
    world.cloud.hold_stacks(false);
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(after["cluster_template_id"] == wanted.as_str() && after["coe_version"] == "v1.36.9", "{after}");
    world.finish().await
}

/// As where a heat-engine has died in the middle: Heat says for ever that the stack is at work.
#[rstest]
#[tokio::test]
async fn a_stack_that_stays_at_work_ends_the_upgrade_after_the_time_of_one_step(#[values(true, false)] is_ours: bool) -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    newer(&demo).await?;
    let stack = world.cloud.stacks().pop().context("a stack")?;
    world.cloud.hold_stacks(true);
    if !is_ours {
        let path = format!("/orchestration/v1/{}/stacks/{}/{}", stack.project, stack.name, stack.id);
        let same = json!({"existing": true, "parameters": {"number_of_minions": 2}});
        world.cloud_as("demo", "demo")?.send(Method::PATCH, &path, Some(same.to_string())).await?.expect(202)?;
    }
    upgrade(&demo, &cluster, json!({"cluster_template": "newer"})).await?;
    world.progress_is_told(&demo, &cluster).await?;
    let found = nodes::told(&demo, &cluster, "stack_at_work").await?;
    ensure!(found.len() == usize::from(!is_ours), "{found:?}");
    // An hour for the step, and a quarter for Heat to end it: of three hours for all of them.
    let minutes = 80_i64;
    let sql = "UPDATE operation_event SET at_ms = at_ms - ? WHERE cluster_uuid = ? AND kind IN ('stack_update', 'stack_at_work')";
    world.database()?.execute(sql, vec![(minutes * 60_000).into(), cluster.as_str().into()]).await?;
    // Whoever waits looks when that time is over by his clock; whoever takes over looks at once.
    let owner = world.owner(&cluster).await?;
    world.kill(owner)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    let reason = text(&failed, "status_reason");
    for word in [stack.name.as_str(), "UPDATE_IN_PROGRESS", &format!("{minutes} minutes")] {
        ensure!(reason.contains(word), "{reason}");
    }
    let operations = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
    let ended = operations["operations"].as_array().context("a list")?.iter().find(|o| o["state"] == "FAILED").context("a failure")?;
    ensure!(ended["outcome_code"] == "cloud" && ended["fault"] == "cloud", "{ended}");
    // Once Heat is at rest it goes on.
    world.cloud.hold_stacks(false);
    demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(after["coe_version"] == "v1.36.9" && servers(&world) == set(&["master-1", "node-2", "node-3"]), "{:?}", servers(&world));
    world.finish().await
}
