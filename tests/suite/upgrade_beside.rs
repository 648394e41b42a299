//! A cluster is upgraded beside nodegroups of its own: their nodes are of before.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

use crate::upgrade::{template, upgrade};

/// A group that is asked for behind an upgrade to another distribution, and one that came after such an upgrade had failed: their images are of before.
#[tokio::test]
async fn no_node_is_made_of_an_image_of_another_distribution() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
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
