//! A cluster is upgraded beside nodegroups of its own, whose nodes are of before, and beside other changes of its groups.

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::nodes::{servers, set};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

use crate::upgrade::{template, upgrade};

async fn begin() -> Result<(World, Client, String)> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    Ok((world, demo, cluster))
}

/// A group that is asked for behind an upgrade to another distribution, and one that came after such an upgrade had failed: their images are of before.
#[tokio::test]
async fn no_node_is_made_of_an_image_of_another_distribution() -> Result<()> {
    let (world, demo, cluster) = begin().await?;
    let groups = format!("/v1/clusters/{cluster}/nodegroups");
    template(&demo, "other", json!({"image_id": "ubuntu"})).await?;
    let stack = world.only_stack().await?;
    world.cloud.hold_stacks(true);
    upgrade(&demo, &cluster, json!({"cluster_template": "other"})).await?;
    world.progress_is_told(&demo, &cluster).await?;
    ensure!(world.cloud.fail_stack(&stack, "No valid host was found"));
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    world.cloud.hold_stacks(false);

    demo.post(&groups, &json!({"name": "between", "node_count": 1})).await?.expect(202)?;
    nodegroup_is(&demo, &groups, "between", "CREATE_COMPLETE").await?;
    let asked = world.cloud.calls("heat.stack_update");
    upgrade_again(&demo, &cluster).await?;
    let refused = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    let reason = text(&refused, "status_reason");
    ensure!(reason.contains("cluster_distro") && reason.contains("between") && world.cloud.calls("heat.stack_update") == asked, "{reason}");
    demo.delete(&format!("{groups}/between")).await?.expect(204)?;
    wait::until("the group is gone", PATIENCE, async || {
        let answer = demo.get(&format!("{groups}/between")).await?;
        Ok(if answer.status == 404 { Seen::Yes(()) } else { Seen::Instead(answer.text) })
    })
    .await?;

    world.cloud.hold_stacks(true);
    upgrade_again(&demo, &cluster).await?;
    world.progress_is_told(&demo, &cluster).await?;
    demo.post(&groups, &json!({"name": "behind", "node_count": 1})).await?.expect(202)?;
    world.cloud.hold_stacks(false);
    let failed = nodegroup_is(&demo, &groups, "behind", "CREATE_FAILED").await?;
    let reason = text(&failed, "status_reason");
    ensure!(reason.contains("boot as those of ubuntu, and image fedora-coreos of nodegroup behind is of fedora-coreos"), "{reason}");
    ensure!(demo.cluster(&cluster).await?["cluster_template_id"] != refused["cluster_template_id"], "{refused}");
    world.finish().await
}

async fn upgrade_again(demo: &Client, cluster: &str) -> Result<()> {
    demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    Ok(())
}

/// Waits until a group has this status.
async fn nodegroup_is(demo: &Client, groups: &str, name: &str, status: &str) -> Result<Value> {
    wait::until(&format!("{name} is {status}"), PATIENCE, async || {
        let group = demo.get(&format!("{groups}/{name}")).await?.expect(200)?.body;
        Ok(if group["status"] == status { Seen::Yes(group) } else { Seen::Instead(group.to_string()) })
    })
    .await
}

/// Three minor versions are what a node may be behind its control plane.
#[tokio::test]
async fn a_group_that_is_too_old_already_is_upgraded_first() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo().at("1.10");
    template(&demo, "v1.32.9", json!({"labels": {"kube_tag": "v1.32.9"}})).await?;
    let cluster = demo.create_cluster("blue", "v1.32.9").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &json!({"name": "old", "node_count": 1})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    for (version, refuses) in [("v1.33.5", false), ("v1.34.1", false), ("v1.35.0", false), ("v1.36.9", true)] {
        template(&demo, version, json!({"labels": {"kube_tag": version}})).await?;
        let body = json!({"cluster_template": version});
        let dry = format!("/v1/clusters/{cluster}/actions/upgrade?dry_run=true");
        let told = demo.post(&dry, &body).await?.expect(200)?.body;
        let asked = world.cloud.calls("heat.stack_update");
        upgrade(&demo, &cluster, body).await?;
        if refuses {
            let rule = "nodegroup old: nodes of v1.32.9 are more than 3 minor versions behind a control plane of v1.36.9; upgrade it first";
            ensure!(told["possible"] == false && told["reasons"].to_string().contains(rule), "{told}");
            let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
            ensure!(text(&failed, "status_reason").contains(rule) && world.cloud.calls("heat.stack_update") == asked, "{failed}");
        } else {
            ensure!(told["possible"] == true, "{told}");
            let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
            ensure!(after["coe_version"] == version, "{after}");
        }
    }
    world.finish().await
}

/// Heat refuses this step of an upgrade.
fn refusal_of(step: u32) -> Fault {
    Fault { at: "heat.stack_update".to_owned(), nth: step, how: How::Status(400, "The parameter is of no use".to_owned()) }
}

/// An upgrade to a template fails at a step, and what it did before stays.
async fn cut_off(world: &World, demo: &Client, (cluster, wanted): (&str, &str), step: u32) -> Result<()> {
    world.cloud.inject(refusal_of(step));
    upgrade(demo, cluster, json!({"cluster_template": wanted})).await?;
    demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
    Ok(())
}

/// The upgrade ends at its second, third, fourth or fifth step; new bounds of a group that came behind it, or come after, change nothing of its nodes.
#[rstest]
#[tokio::test]
async fn an_upgrade_that_was_cut_off_is_told_and_can_be_done_again_after_a_change_of_bounds(
    #[values(2, 3, 4, 5)] step: u32,
    #[values(true, false)] is_behind: bool,
) -> Result<()> {
    let (world, demo, cluster) = begin().await?;
    template(&demo, "newer", json!({"labels": {"kube_tag": "v1.36.9"}})).await?;
    let bounds = async || {
        let path = format!("/v1/clusters/{cluster}/nodegroups/default-worker");
        demo.patch(&path, &json!([{"op": "replace", "path": "/max_node_count", "value": 5}])).await?.expect(202)
    };
    world.cloud.inject(refusal_of(step));
    world.cloud.hold_stacks(true);
    upgrade(&demo, &cluster, json!({"cluster_template": "newer"})).await?;
    world.progress_is_told(&demo, &cluster).await?;
    if is_behind {
        bounds().await?;
    }
    world.cloud.hold_stacks(false);
    if !is_behind {
        demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
        bounds().await?;
    }
    let told = wait::until("both have ended", PATIENCE, async || {
        let answer = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
        let states: Vec<&str> = answer["operations"].as_array().into_iter().flatten().filter_map(|o| o["state"].as_str()).collect();
        let have_ended = states.len() == 3 && states.iter().all(|state| ["SUCCEEDED", "FAILED"].contains(state));
        Ok(if have_ended {
            Seen::Yes(states.iter().filter(|state| **state == "FAILED").count())
        } else {
            Seen::Instead(answer.to_string())
        })
    })
    .await?;
    let after = demo.cluster(&cluster).await?;
    let why = text(&after, "status_reason");
    ensure!(told == 1 && after["status"] == "UPDATE_FAILED" && why.contains("not all of its nodes have been replaced"), "{told} {after}");
    ensure!(after["coe_version"] != "v1.36.9" && servers(&world) != set(&["master-1", "node-2", "node-3"]), "{:?}", servers(&world));
    upgrade_again(&demo, &cluster).await?;
    let whole = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(whole["coe_version"] == "v1.36.9" && whole["status_reason"].is_null(), "{whole}");
    ensure!(servers(&world) == set(&["master-1", "node-2", "node-3"]), "{:?}", servers(&world));
    world.finish().await
}

/// Of an upgrade that was cut off, before it replaced workers, or when a new one had come for one that is still there. A resize is as well as ever, says that nodes
/// are of two versions, and takes away who was seen off; no version is to be gone back to.
#[rstest]
#[case(3, &["master-1", "node-0", "node-1"])]
#[case(4, &["master-1", "node-1", "node-2"])]
#[case(6, &["master-1", "node-2", "node-3"])]
#[tokio::test]
async fn a_resize_after_an_upgrade_that_was_cut_off_keeps_the_nodes_that_are_at_work(
    #[case] step: u32,
    #[case] left: &[&str],
) -> Result<()> {
    let (world, demo, cluster) = begin().await?;
    for version in ["v1.36.7", "v1.36.9"] {
        template(&demo, version, json!({"labels": {"kube_tag": version}})).await?;
    }
    cut_off(&world, &demo, (&cluster, "v1.36.9"), step).await?;

    demo.resize(&cluster, 2).await?;
    let resized = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let why = text(&resized, "status_reason");
    ensure!(servers(&world) == set(left) && resized["node_count"] == 2, "{:?} {resized}", servers(&world));
    ensure!(why.contains("not all of its nodes have been replaced that were to be: ask again for the upgrade"), "{resized}");
    let asked = world.cloud.calls("heat.stack_update");
    upgrade(&demo, &cluster, json!({"cluster_template": "v1.36.7"})).await?;
    let refused = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    let why = text(&refused, "status_reason");
    ensure!(why.contains("cannot go back from v1.36.9 to v1.36.7") && world.cloud.calls("heat.stack_update") == asked, "{refused}");

    demo.resize(&cluster, 2).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    upgrade(&demo, &cluster, json!({"cluster_template": "v1.36.9"})).await?;
    let whole = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(whole["coe_version"] == "v1.36.9" && whole["status_reason"].is_null() && servers(&world).len() == 3, "{whole}");
    world.finish().await
}

/// Its stack has the image and the first boot of the distribution that the upgrade was to, also where labels are to be written into a new one.
#[tokio::test]
async fn a_node_that_comes_after_an_upgrade_to_another_distribution_that_was_cut_off_boots_as_its_image_does() -> Result<()> {
    let (world, demo, cluster) = begin().await?;
    let user_data = || -> Result<String> {
        let stacks = world.cloud.stacks();
        let stack = stacks.first().context("a stack")?;
        ensure!(stacks.len() == 1, "{stacks:?}");
        Ok(stack.parameters["worker_user_data"].as_str().context("a first boot")?.to_owned())
    };
    let path = format!("/v1/clusters/{cluster}/nodegroups/default-worker");
    let labels = json!([{"op": "replace", "path": "/node_labels", "value": "{'rack': 'a'}"}]);
    demo.at("1.12").patch(&path, &labels).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    template(&demo, "other", json!({"image_id": "ubuntu"})).await?;
    cut_off(&world, &demo, (&cluster, "other"), 5).await?;
    let cloud_config = user_data()?;
    ensure!(!cloud_config.starts_with('{'), "{cloud_config}");
    let dry = demo.post(&format!("/v1/clusters/{cluster}/actions/resize?dry_run=true"), &json!({"node_count": 3})).await?.expect(200)?.body;
    ensure!(dry["possible"] == true, "{dry}");
    demo.resize(&cluster, 3).await?;
    let resized = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(
        text(&resized, "status_reason").contains("not all of its nodes have been replaced") && user_data()? == cloud_config,
        "{resized}"
    );
    ensure!(servers(&world) == set(&["master-1", "node-1", "node-2", "node-3"]), "{:?}", servers(&world));
    world.finish().await
}
