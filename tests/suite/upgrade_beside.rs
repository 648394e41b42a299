//! A cluster is upgraded beside nodegroups of its own, whose nodes are of before, and beside other changes of its groups.

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::nodes::{self, servers, set};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

use crate::upgrade::{template, upgrade};

async fn begin() -> Result<(World, Client, String)> {
    begin_in(Mix::Embedded).await
}

async fn begin_in(mix: Mix) -> Result<(World, Client, String)> {
    let world = World::usual(mix).await?;
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

/// A rotation of authorities that begins after an upgrade has failed, and is cut off too: masters of the upgrade would show what no worker trusts yet.
#[tokio::test]
async fn an_upgrade_is_not_done_again_in_the_midst_of_a_rotation_and_is_after_it() -> Result<()> {
    let (world, demo, cluster) = begin_in(Mix::Distributed).await?;
    template(&demo, "newer", json!({"labels": {"kube_tag": "v1.36.9"}})).await?;
    cut_off(&world, &demo, (&cluster, "newer"), 1).await?;
    let rotation = format!("/v1/certificates/{cluster}");
    world.cloud.hold_stacks(true);
    demo.send(Method::PATCH, &rotation, None).await?.expect(202)?;
    let stack = world.only_stack().await?;
    wait::until("a change of the rotation", PATIENCE, async || {
        let status = world.cloud.stacks().pop().context("a stack")?.status;
        Ok(Seen::when(status == "UPDATE_IN_PROGRESS", || status))
    })
    .await?;
    ensure!(world.cloud.fail_stack(&stack, "No valid host was found"));
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    world.cloud.hold_stacks(false);

    // Whoever asks for the last to be done again has the rotation go on; earlier versions did not always count it.
    let sql = format!("UPDATE operation SET state = 'CANCELLED' WHERE cluster_uuid = '{cluster}' AND kind = 'ca_rotate'");
    world.database()?.execute(&sql, Vec::new()).await?;
    let (asked, before) = (world.cloud.calls("heat.stack_update"), servers(&world));
    upgrade_again(&demo, &cluster).await?;
    let refused = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&refused, "status_reason").contains("a rotation of the cluster's certificate authorities is unfinished"), "{refused}");
    ensure!(world.cloud.calls("heat.stack_update") == asked && servers(&world) == before, "{:?}", servers(&world));

    // The group whose upgrade has failed is that until it is upgraded.
    demo.send(Method::PATCH, &rotation, None).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    let counts = world.database()?.counts().await?;
    ensure!(counts["ca_rotation"] == 0, "{counts:?}");
    upgrade_again(&demo, &cluster).await?;
    let whole = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(whole["coe_version"] == "v1.36.9" && whole["status_reason"].is_null(), "{whole}");
    world.finish().await
}

/// A template that was changed after an upgrade to it had failed: nodes that were made of it as it was are replaced too when the upgrade is done again.
/// What it is called, and who sees it, makes no node another one.
#[rstest]
#[case(json!({"op": "add", "path": "/labels/containerd_version", "value": "2.1.5"}), &["master-2", "node-4", "node-5"])]
#[case(json!({"op": "replace", "path": "/name", "value": "newest"}), &["master-1", "node-2", "node-3"])]
#[tokio::test]
async fn an_upgrade_that_is_done_again_makes_all_nodes_of_the_template_as_it_is_then(
    #[case] change: Value,
    #[case] left: &[&str],
) -> Result<()> {
    let (world, demo, cluster) = begin().await?;
    let wanted = template(&demo, "newer", json!({"labels": {"kube_tag": "v1.36.9"}})).await?;
    cut_off(&world, &demo, (&cluster, "newer"), 6).await?;
    ensure!(servers(&world) == set(&["master-1", "node-1", "node-2", "node-3"]), "{:?}", servers(&world));
    let changed = demo.patch(&format!("/v1/clustertemplates/{wanted}"), &json!([change])).await?.expect(200)?.body;
    upgrade_again(&demo, &cluster).await?;
    let whole = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(servers(&world) == set(left), "{:?}", servers(&world));
    let version = |labels: &Value| labels["containerd_version"].clone();
    ensure!(
        whole["cluster_template_id"] == wanted.as_str() && version(&whole["labels"]) == version(&changed["labels"]),
        "{whole} {changed}"
    );
    world.finish().await
}

/// As the API refuses another template of another pod network.
#[tokio::test]
async fn an_upgrade_is_not_done_again_to_a_template_that_has_another_pod_network_by_now() -> Result<()> {
    let (world, demo, cluster) = begin().await?;
    let wanted = template(&demo, "newer", json!({"labels": {"kube_tag": "v1.36.9"}})).await?;
    cut_off(&world, &demo, (&cluster, "newer"), 6).await?;
    let (path, there, asked) = (format!("/v1/clustertemplates/{wanted}"), servers(&world), world.cloud.calls("heat.stack_update"));
    let to = |driver: &str| json!([{"op": "replace", "path": "/network_driver", "value": driver}]);
    let present = demo.get(&path).await?.expect(200)?.body["network_driver"].clone();
    let other = if present == "flannel" { "calico" } else { "flannel" };
    demo.patch(&path, &to(other)).await?.expect(200)?;
    upgrade_again(&demo, &cluster).await?;
    let refused = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&refused, "status_reason").contains("the templates differ in network_driver"), "{refused}");
    ensure!(servers(&world) == there && world.cloud.calls("heat.stack_update") == asked, "{:?}", servers(&world));
    demo.patch(&path, &to(present.as_str().context("a pod network")?)).await?.expect(200)?;
    upgrade_again(&demo, &cluster).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    // It is not the template of what was refused: all are made anew.
    ensure!(servers(&world) == set(&["master-2", "node-4", "node-5"]), "{:?}", servers(&world));
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

/// Neither version nor image tells that its masters are of after it and its workers of before.
#[tokio::test]
async fn an_upgrade_of_labels_alone_that_was_cut_off_between_masters_and_workers_is_told() -> Result<()> {
    let (world, demo, cluster) = begin().await?;
    let mut labels = demo.cluster(&cluster).await?["labels"].clone();
    labels["containerd_version"] = "2.1.5".into();
    template(&demo, "relabelled", json!({"labels": labels})).await?;
    cut_off(&world, &demo, (&cluster, "relabelled"), 3).await?;
    ensure!(servers(&world) == set(&["master-1", "node-0", "node-1"]), "{:?}", servers(&world));
    demo.resize(&cluster, 2).await?;
    let resized = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(text(&resized, "status_reason").contains("not all of its nodes have been replaced"), "{resized}");
    upgrade(&demo, &cluster, json!({"cluster_template": "relabelled"})).await?;
    let whole = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(whole["status_reason"].is_null() && whole["labels"]["containerd_version"] == "2.1.5", "{whole}");
    ensure!(servers(&world) == set(&["master-2", "node-2", "node-3"]), "{:?}", servers(&world));
    world.finish().await
}

/// Its stack has the image and the first boot of what the upgrade was to, another distribution or another version, also where labels are to be written into a
/// new one: the rows are still of before.
#[rstest]
#[case(json!({"image_id": "ubuntu"}), |data: &str| !data.starts_with('{'))]
#[case(json!({"labels": {"kube_tag": "v1.36.9"}}), |data: &str| version_of(data).is_ok_and(|version| version == "v1.36.9"))]
#[tokio::test]
async fn a_node_that_comes_after_an_upgrade_that_was_cut_off_boots_as_those_of_the_upgrade_do(
    #[case] other: Value,
    #[case] is_of_other: fn(&str) -> bool,
) -> Result<()> {
    let (world, demo, cluster) = begin().await?;
    let path = format!("/v1/clusters/{cluster}/nodegroups/default-worker");
    let labels = json!([{"op": "replace", "path": "/node_labels", "value": "{'rack': 'a'}"}]);
    demo.at("1.12").patch(&path, &labels).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let stack = world.only_stack().await?;
    template(&demo, "other", other).await?;
    cut_off(&world, &demo, (&cluster, "other"), 5).await?;
    let first_boot = of_workers(&world, &stack)?;
    ensure!(is_of_other(&first_boot), "{first_boot}");
    let dry = demo.post(&format!("/v1/clusters/{cluster}/actions/resize?dry_run=true"), &json!({"node_count": 3})).await?.expect(200)?.body;
    ensure!(dry["possible"] == true, "{dry}");
    demo.resize(&cluster, 3).await?;
    let resized = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let why = text(&resized, "status_reason");
    ensure!(why.contains("not all of its nodes have been replaced") && of_workers(&world, &stack)? == first_boot, "{resized}");
    ensure!(servers(&world) == set(&["master-1", "node-1", "node-2", "node-3"]), "{:?}", servers(&world));
    world.finish().await
}

/// What the workers of a stack boot with from now on.
fn of_workers(world: &World, stack: &str) -> Result<String> {
    let found = world.cloud.stacks().into_iter().find(|other| other.id == stack).context("the stack")?;
    Ok(found.parameters["worker_user_data"].as_str().context("a first boot")?.to_owned())
}

/// The version of Kubernetes that nodes come to be of.
fn version_of(first_boot: &str) -> Result<String> {
    let env = nodes::file(&serde_json::from_str(first_boot)?, "/etc/kubernetes-bootstrap/node.env")?;
    let version = env.lines().find_map(|line| line.strip_prefix("KUBE_VERSION=")).context("a version")?;
    Ok(version.trim_matches('\'').to_owned())
}

/// It is upgraded by itself, and until then its nodes are of one version, those that come after a change of its labels too.
#[tokio::test]
async fn workers_of_a_group_that_the_upgrade_of_its_cluster_left_alone_are_of_the_groups_version() -> Result<()> {
    let (world, demo, cluster) = begin().await?;
    let groups = format!("/v1/clusters/{cluster}/nodegroups");
    demo.post(&groups, &json!({"name": "rack", "node_count": 1, "node_labels": {"rack": "a"}})).await?.expect(202)?;
    let group = nodegroup_is(&demo, &groups, "rack", "CREATE_COMPLETE").await?;
    let stack = text(&group, "stack_id");
    let before = version_of(&of_workers(&world, &stack)?)?;
    template(&demo, "newer", json!({"labels": {"kube_tag": "v1.36.9"}})).await?;
    upgrade(&demo, &cluster, json!({"cluster_template": "newer"})).await?;
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(after["coe_version"] == "v1.36.9" && before != "v1.36.9", "{before} {after}");
    let labels = json!([{"op": "replace", "path": "/node_labels", "value": "{'rack': 'b'}"}]);
    demo.at("1.12").patch(&format!("{groups}/rack"), &labels).await?.expect(202)?;
    nodegroup_is(&demo, &groups, "rack", "UPDATE_COMPLETE").await?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 2, "nodegroup": "rack"})).await?.expect(202)?;
    let resized = wait::until("the group has two nodes", PATIENCE, async || {
        let group = demo.get(&format!("{groups}/rack")).await?.expect(200)?.body;
        let is_so = group["status"] == "UPDATE_COMPLETE" && group["node_addresses"].as_array().map(Vec::len) == Some(2);
        Ok(if is_so { Seen::Yes(of_workers(&world, &stack)?) } else { Seen::Instead(group.to_string()) })
    })
    .await?;
    ensure!(version_of(&resized)? == before, "{before}: {}", version_of(&resized)?);
    let register = nodes::file(&serde_json::from_str(&resized)?, "/etc/kubernetes-bootstrap/join.yaml");
    ensure!(register.is_ok_and(|text| text.contains("rack=b")), "its labels are those of before");
    world.finish().await
}
