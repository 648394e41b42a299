//! Groups of workers beside the default one: made, resized, changed and removed, and what becomes of them when something goes wrong.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::nodes;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

/// Longer than the test: whoever waits for this answer is killed waiting.
const FOR_EVER: Duration = Duration::from_secs(600);

/// A world with a complete cluster.
struct Scene {
    world: World,
    demo: Client,
    cluster: String,
}

async fn scene(mix: Mix) -> Result<Scene> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    Ok(Scene { world, demo, cluster })
}

impl Scene {
    fn path(&self, group: &str) -> String {
        format!("/v1/clusters/{}/nodegroups/{group}", self.cluster)
    }

    /// Asks for a group; its uuid.
    async fn create(&self, body: Value) -> Result<String> {
        let path = format!("/v1/clusters/{}/nodegroups", self.cluster);
        let answer = self.demo.post(&path, &body).await?.expect(202)?;
        Ok(text(&answer.body, "uuid"))
    }

    async fn group(&self, group: &str) -> Result<Value> {
        Ok(self.demo.get(&self.path(group)).await?.expect(200)?.body)
    }

    async fn wait_for(&self, group: &str, wanted: &str) -> Result<Value> {
        wait::until(&format!("nodegroup {group} to be {wanted}"), PATIENCE, async || {
            let body = self.group(group).await?;
            let seen = format!("{}: {}", body["status"], body["status_reason"]);
            ensure!(text(&body, "status").ends_with("_IN_PROGRESS") || body["status"] == wanted, "waited for {wanted}, which is {seen}");
            Ok(if body["status"] == wanted { Seen::Yes(body) } else { Seen::Instead(seen) })
        })
        .await
    }

    async fn wait_gone(&self, group: &str) -> Result<()> {
        wait::until(&format!("nodegroup {group} to be gone"), PATIENCE, async || {
            let answer = self.demo.get(&self.path(group)).await?;
            Ok(Seen::when(answer.status == 404, || answer.text.clone()))
        })
        .await
    }

    /// A group beside the default one, which has two nodes, has so many by all that tells of them: itself, the cluster, and the cloud.
    async fn has_nodes(&self, group: &str, wanted: usize) -> Result<()> {
        let (body, whole) = (self.group(group).await?, self.demo.cluster(&self.cluster).await?);
        ensure!(body["node_count"] == wanted && body["node_addresses"].as_array().map(Vec::len) == Some(wanted), "not {wanted}: {body}");
        ensure!(whole["node_count"] == 2 + wanted && count(&whole, "node_addresses") == 2 + wanted, "not 2 and {wanted}: {whole}");
        let servers = nodes::servers_by_id(&self.world);
        ensure!(servers.iter().filter(|(name, _)| name.starts_with("node-")).count() == 2 + wanted, "not 2 and {wanted}: {servers:?}");
        Ok(())
    }

    /// The one operation of this kind that the cluster ever had.
    async fn operation(&self, kind: &str) -> Result<Value> {
        let body = self.demo.get(&format!("/v1/clusters/{}/operations", self.cluster)).await?.expect(200)?.body;
        let found = body["operations"].as_array().into_iter().flatten().find(|operation| operation["kind"] == kind);
        found.cloned().with_context(|| format!("no {kind} in {body}"))
    }

    fn stacks(&self) -> Vec<String> {
        self.world.cloud.stacks().into_iter().map(|stack| stack.name).collect()
    }
}

fn count(body: &Value, key: &str) -> usize {
    body[key].as_array().map_or(0, Vec::len)
}

#[rstest]
#[tokio::test]
async fn a_group_is_made_resized_changed_and_removed(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let scene = scene(mix).await?;
    let Scene { world, demo, cluster } = &scene;
    let group = scene.create(json!({"name": "gpu", "node_count": 2, "role": "gpu", "min_node_count": 1})).await?;
    let now = scene.group("gpu").await?;
    ensure!(text(&now, "status").starts_with("CREATE_") && now["uuid"] == group.as_str(), "{now}");
    let made = scene.wait_for("gpu", "CREATE_COMPLETE").await?;
    world.keep_secrets_of_stacks();
    ensure!(count(&made, "node_addresses") == 2, "{made}");
    let stacks = world.cloud.stacks();
    ensure!(stacks.len() == 2, "{stacks:?}");
    let (own, other) = (&stacks[0], &stacks[1]);
    ensure!(made["stack_id"] == other.id.as_str() && other.parameters["nodegroup_uuid"] == group.as_str(), "{made}");
    // It joins what the cluster's stack made.
    let network = world
        .cloud
        .leftovers(None)
        .iter()
        .any(|line| line.starts_with("network ") && line.contains(other.parameters["fixed_network"].as_str().unwrap_or("nothing")));
    ensure!(network, "{:?}", other.parameters["fixed_network"]);
    let whole = demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(whole["node_count"] == 4 && count(&whole, "node_addresses") == 4, "{whole}");
    ensure!(whole["stack_id"] == own.id.as_str(), "{whole}");

    let resize = json!({"node_count": 3, "nodegroup": "gpu", "nodes_to_remove": ["0"]});
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &resize).await?.expect(202)?;
    let resized = scene.wait_for("gpu", "UPDATE_COMPLETE").await?;
    ensure!(resized["node_count"] == 3 && count(&resized, "node_addresses") == 3, "{resized}");
    ensure!(scene.group("default-worker").await?["status"] == "CREATE_COMPLETE");
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;

    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let labels = add("/node_labels", json!("{'tier': 'gold'}"));
    let patch = json!([
        add("/max_node_count", json!(4)),
        labels,
        add("/node_taints", json!("[{'key': 'gpu', 'value': 'yes', 'effect': 'NoSchedule'}]")),
    ]);
    demo.patch(&scene.path("gpu"), &patch).await?.expect(202)?;
    let changed = scene.wait_for("gpu", "UPDATE_COMPLETE").await?;
    ensure!(changed["max_node_count"] == 4 && changed["node_labels"] == json!({"tier": "gold"}), "{changed}");
    ensure!(changed["node_taints"] == json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]), "{changed}");
    demo.patch(&scene.path("gpu"), &json!([labels])).await?.expect_error(400, "/node_labels has existed")?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;

    demo.delete(&scene.path("gpu")).await?.expect(204)?;
    let leaving = demo.get(&scene.path("gpu")).await?;
    ensure!(leaving.status == 404 || leaving.body["status"] == "DELETE_IN_PROGRESS", "{}", leaving.text);
    // A second request is no error while the first is at work.
    demo.delete(&scene.path("gpu")).await?;
    scene.wait_gone("gpu").await?;
    let whole = demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(whole["node_count"] == 2 && scene.stacks().len() == 1, "{whole}");
    scene.world.finish().await
}

/// It says that it goes, and goes with what there is of it.
#[rstest]
#[tokio::test]
async fn w11_a_group_that_is_deleted_says_so_and_goes_though_its_stack_has_vanished(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let scene = scene(mix).await?;
    let Scene { world, demo, cluster } = &scene;
    for vanished in [false, true] {
        scene.create(json!({"name": "gpu", "node_count": 1})).await?;
        let made = scene.wait_for("gpu", "CREATE_COMPLETE").await?;
        demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
        world.keep_secrets_of_stacks();
        if vanished {
            ensure!(world.cloud.remove_stack(&text(&made, "stack_id")), "{made}");
        }
        world.cloud.hold_stacks(true);
        demo.delete(&scene.path("gpu")).await?.expect(204)?;
        if !vanished {
            ensure!(
                scene.group("gpu").await?["status"] == "DELETE_IN_PROGRESS"
                    && demo.cluster(cluster).await?["status"] == "UPDATE_IN_PROGRESS"
            );
        }
        world.cloud.hold_stacks(false);
        scene.wait_gone("gpu").await?;
        let whole = demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
        ensure!(whole["node_count"] == 2 && scene.stacks().len() == 1, "{whole}");
    }
    let rows = if mix == Mix::Distributed { world.counts().await?.get("nodegroup").copied() } else { Some(2) };
    ensure!(rows == Some(2), "{rows:?} rows of groups");
    scene.world.finish().await
}

/// Upstream answers 202 and drops it.
#[rstest]
#[tokio::test]
async fn a_patch_of_a_group_that_is_being_made_waits_for_its_making(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let scene = scene(mix).await?;
    let Scene { world, demo, cluster } = &scene;
    world.cloud.hold_stacks(true);
    scene.create(json!({"name": "gpu", "node_count": 2})).await?;
    world.progress_is_told(demo, cluster).await?;
    world.keep_secrets_of_stacks();
    let patch = json!([{"op": "replace", "path": "/max_node_count", "value": 5}]);
    let patched = demo.patch(&scene.path("gpu"), &patch).await?.expect(202)?.body;
    ensure!(patched["max_node_count"] == 5 && patched["status"] == "UPDATE_IN_PROGRESS", "{patched}");
    let (making, waiting) = (scene.operation("nodegroup_create").await?, scene.operation("nodegroup_update").await?);
    ensure!(making["state"] == "RUNNING" && waiting["state"] == "QUEUED" && waiting["started_at"].is_null(), "{making} {waiting}");
    world.cloud.hold_stacks(false);
    let made = scene.wait_for("gpu", "UPDATE_COMPLETE").await?;
    ensure!(made["max_node_count"] == 5, "{made}");
    let (making, waiting) = (scene.operation("nodegroup_create").await?, scene.operation("nodegroup_update").await?);
    ensure!(making["state"] == "SUCCEEDED" && waiting["state"] == "SUCCEEDED", "{making} {waiting}");
    ensure!(text(&making, "finished_at") <= text(&waiting, "started_at"), "{making} {waiting}");
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    scene.has_nodes("gpu", 2).await?;
    scene.world.finish().await
}

/// The row of the group says the wish that came last, until that is taken back.
#[tokio::test]
async fn a_group_is_made_with_the_size_of_its_own_request_though_a_resize_waits_and_is_cancelled() -> Result<()> {
    let mut scene = scene(Mix::Distributed).await?;
    scene.world.kill_all("conductor")?;
    scene.create(json!({"name": "gpu", "node_count": 3})).await?;
    let resize = format!("/v1/clusters/{}/actions/resize", scene.cluster);
    scene.demo.post(&resize, &json!({"node_count": 1, "nodegroup": "gpu"})).await?.expect(202)?;
    let waiting = text(&scene.operation("cluster_resize").await?, "uuid");
    // It has made the stack, and nobody has seen the end of it.
    scene.world.cloud.hold_stacks(true);
    scene.world.start_conductor()?;
    scene.world.progress_is_told(&scene.demo, &scene.cluster).await?;
    let cancel = format!("/v1/clusters/{}/actions/cancel?operation={waiting}", scene.cluster);
    scene.demo.post(&cancel, &json!({})).await?.expect(202)?;
    scene.world.cloud.hold_stacks(false);
    let made = scene.wait_for("gpu", "CREATE_COMPLETE").await?;
    ensure!(made["node_count"] == 3, "{made}");
    scene.has_nodes("gpu", 3).await?;
    scene.world.finish().await
}

/// As with a resize that waits.
#[rstest]
#[tokio::test]
async fn a_group_whose_stack_fails_is_mended_by_the_update_that_waited_for_it(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let scene = scene(mix).await?;
    let Scene { world, demo, cluster } = &scene;
    world.cloud.hold_stacks(true);
    scene.create(json!({"name": "gpu"})).await?;
    world.progress_is_told(demo, cluster).await?;
    world.keep_secrets_of_stacks();
    let patch = json!([{"op": "replace", "path": "/max_node_count", "value": 5}]);
    demo.patch(&scene.path("gpu"), &patch).await?.expect(202)?;
    let stack = world.cloud.stacks().pop().map(|stack| stack.id).unwrap_or_default();
    ensure!(world.cloud.fail_stack(&stack, "No valid host was found"));
    world.cloud.hold_stacks(false);
    let mended = scene.wait_for("gpu", "UPDATE_COMPLETE").await?;
    ensure!(mended["max_node_count"] == 5 && mended["stack_id"] == stack.as_str(), "{mended}");
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let (making, waiting) = (scene.operation("nodegroup_create").await?, scene.operation("nodegroup_update").await?);
    ensure!(making["state"] == "FAILED" && waiting["state"] == "SUCCEEDED", "{making} {waiting}");
    scene.has_nodes("gpu", 1).await?;
    scene.world.finish().await
}

/// New bounds mend nothing.
#[rstest]
#[tokio::test]
async fn a_resize_that_failed_is_done_again_although_its_group_was_patched_since(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let scene = scene(mix).await?;
    let Scene { world, demo, cluster } = &scene;
    scene.create(json!({"name": "gpu", "node_count": 1})).await?;
    let made = scene.wait_for("gpu", "CREATE_COMPLETE").await?;
    world.keep_secrets_of_stacks();
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    world.cloud.hold_stacks(true);
    let resize = json!({"node_count": 2, "nodegroup": "gpu"});
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &resize).await?.expect(202)?;
    world.progress_is_told(demo, cluster).await?;
    ensure!(world.cloud.fail_stack(&text(&made, "stack_id"), "No valid host was found"));
    world.cloud.hold_stacks(false);
    demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
    let patch = json!([{"op": "replace", "path": "/max_node_count", "value": 5}]);
    demo.patch(&scene.path("gpu"), &patch).await?.expect(202)?;
    demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
    let (patched, group) = (scene.operation("nodegroup_update").await?, scene.group("gpu").await?);
    ensure!(patched["state"] == "SUCCEEDED" && group["status"] == "UPDATE_FAILED" && group["max_node_count"] == 5, "{patched} {group}");
    demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    scene.wait_for("gpu", "UPDATE_COMPLETE").await?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    scene.has_nodes("gpu", 2).await?;
    scene.world.finish().await
}

/// Of a group without a stack nothing may say that it is complete.
#[rstest]
#[tokio::test]
async fn a_group_whose_stack_is_refused_is_made_by_the_update_that_waited_for_it_or_by_its_retry(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
    #[values(1, 2)] refusals: u32,
) -> Result<()> {
    let scene = scene(mix).await?;
    let Scene { world, demo, cluster } = &scene;
    world.cloud.inject(Fault { at: "heat.stack_lookup".to_owned(), nth: 1, how: How::Hold });
    scene.create(json!({"name": "gpu"})).await?;
    wait::until("the look for the stack", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "not yet".to_owned()))).await?;
    let patch = json!([{"op": "replace", "path": "/max_node_count", "value": 5}]);
    demo.patch(&scene.path("gpu"), &patch).await?.expect(202)?;
    for nth in 1..=refusals {
        let how = How::Status(400, "this cloud has no such thing".to_owned());
        world.cloud.inject(Fault { at: "heat.stack_create".to_owned(), nth, how });
    }
    world.cloud.let_go();
    if refusals == 2 {
        let failed = scene.wait_for("gpu", "UPDATE_FAILED").await?;
        ensure!(text(&failed, "status_reason").contains("no such thing") && failed["stack_id"].is_null(), "{failed}");
        demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
        demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    }
    let made = scene.wait_for("gpu", "UPDATE_COMPLETE").await?;
    world.keep_secrets_of_stacks();
    ensure!(made["max_node_count"] == 5 && made["stack_id"].is_string(), "{made}");
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(scene.operation("nodegroup_create").await?["state"] == "FAILED" && scene.stacks().len() == 2, "{:?}", scene.stacks());
    scene.has_nodes("gpu", 1).await?;
    scene.world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_group_is_made_without_nodes_gets_some_and_loses_them(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let scene = scene(mix).await?;
    scene.create(json!({"name": "spare", "node_count": 0})).await?;
    scene.wait_for("spare", "CREATE_COMPLETE").await?;
    scene.world.keep_secrets_of_stacks();
    scene.demo.wait_for(&scene.cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(scene.stacks().len() == 2, "{:?}", scene.stacks());
    scene.has_nodes("spare", 0).await?;
    for wanted in [2, 0, 1] {
        let resize = json!({"node_count": wanted, "nodegroup": "spare"});
        scene.demo.post(&format!("/v1/clusters/{}/actions/resize", scene.cluster), &resize).await?.expect(202)?;
        scene.wait_for("spare", "UPDATE_COMPLETE").await?;
        scene.demo.wait_for(&scene.cluster, "UPDATE_COMPLETE", PATIENCE).await?;
        scene.has_nodes("spare", wanted).await?;
    }
    scene.world.finish().await
}

/// A first boot is written for one distribution, and most labels count for whole clusters.
#[tokio::test]
async fn a_group_is_of_its_clusters_distribution_and_is_told_which_labels_it_was_given_in_vain() -> Result<()> {
    let scene = scene(Mix::Embedded).await?;
    let path = format!("/v1/clusters/{}/nodegroups", scene.cluster);
    for (image, code, word) in [
        ("ubuntu", 400, "those of fedora-coreos, and the image is of ubuntu"),
        ("nowhere", 400, "nowhere"),
        ("no-distro", 400, "os_distro"),
        ("twin", 409, "twin"),
    ] {
        scene.demo.post(&path, &json!({"name": "more", "image_id": image})).await?.expect_error(code, word)?;
    }
    let labels = json!({"boot_volume_size": "30", "containerd_version": "1.6.0", "rack": "7"});
    scene.create(json!({"name": "more", "node_count": 1, "image_id": "fedora-coreos", "labels": labels})).await?;
    let group = scene.wait_for("more", "CREATE_COMPLETE").await?;
    let told = text(&group, "status_reason");
    ensure!(told.contains("does not know rack; ") && told.ends_with("all nodes have the cluster's containerd_version"), "{group}");

    let mut body = client::template("ubuntu");
    body["image_id"] = json!("ubuntu");
    let other = scene.demo.post("/v1/clustertemplates", &body).await?.expect(201)?.uuid()?;
    let upgrade = format!("/v1/clusters/{}/actions/upgrade", scene.cluster);
    scene.demo.post(&upgrade, &json!({"cluster_template": other})).await?.expect_error(400, "stays as it is: more.")?;
    scene.demo.delete(&scene.path("more")).await?.expect(204)?;
    scene.wait_gone("more").await?;
    scene.demo.post(&upgrade, &json!({"cluster_template": other})).await?.expect(202)?;
    scene.demo.wait_for(&scene.cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    // From now on it is of the other one.
    scene.demo.post(&path, &json!({"name": "old", "image_id": "fedora-coreos"})).await?.expect_error(400, "those of ubuntu")?;
    scene.demo.delete_cluster(&scene.cluster).await?;
    scene.demo.wait_gone(&scene.cluster, PATIENCE).await?;
    scene.world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_cluster_goes_with_all_its_groups(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let scene = scene(mix).await?;
    for name in ["one", "two"] {
        scene.create(json!({"name": name})).await?;
    }
    for name in ["one", "two"] {
        scene.wait_for(name, "CREATE_COMPLETE").await?;
    }
    scene.world.keep_secrets_of_stacks();
    // And one that is just being made.
    scene.world.cloud.hold_stacks(true);
    scene.create(json!({"name": "three"})).await?;
    wait::until("the third stack", PATIENCE, async || {
        let stacks = scene.stacks();
        Ok(Seen::when(stacks.len() == 4, || format!("{stacks:?}")))
    })
    .await?;
    scene.world.keep_secrets_of_stacks();
    scene.demo.delete_cluster(&scene.cluster).await?;
    scene.world.cloud.hold_stacks(false);
    scene.demo.wait_gone(&scene.cluster, PATIENCE).await?;
    scene.world.finish().await
}

#[rstest]
#[tokio::test]
async fn w11_a_failed_group_is_told_with_its_reason_and_can_be_removed_or_mended(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let scene = scene(mix).await?;
    let Scene { world, demo, cluster } = &scene;
    for name in ["bad", "worse"] {
        world.cloud.hold_stacks(true);
        scene.create(json!({"name": name})).await?;
        world.progress_is_told(demo, cluster).await?;
        world.keep_secrets_of_stacks();
        let stack = world.cloud.stacks().pop().map(|stack| stack.id).unwrap_or_default();
        ensure!(world.cloud.fail_stack(&stack, "No valid host was found"));
        world.cloud.hold_stacks(false);
        let failed = scene.wait_for(name, "CREATE_FAILED").await?;
        ensure!(text(&failed, "status_reason").contains("No valid host was found"), "{failed}");
        let whole = demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
        ensure!(whole["faults"][name].to_string().contains("No valid host"), "{whole}");
    }
    let patch = json!([{"op": "replace", "path": "/max_node_count", "value": 4}]);
    demo.patch(&scene.path("bad"), &patch).await?.expect_error(409, "CREATE_FAILED")?;
    // One is mended by asking for its size again, the other goes; the cluster is sound only after both.
    let resize = json!({"node_count": 1, "nodegroup": "bad"});
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &resize).await?.expect(202)?;
    scene.wait_for("bad", "UPDATE_COMPLETE").await?;
    let whole = demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&whole, "status_reason").starts_with("worse: "), "{whole}");
    demo.delete(&scene.path("worse")).await?.expect(204)?;
    scene.wait_gone("worse").await?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    scene.world.finish().await
}

#[rstest]
#[case::stack_made_answer_lost("heat.stack_create", How::AcceptThenLose)]
#[case::stack_500("heat.stack_create", How::Status(500, "the cloud has a bad day".to_owned()))]
#[case::stack_refused("heat.stack_create", How::Refuse)]
#[case::look_lost("heat.any", How::AcceptThenLose)]
#[case::delete_lost("heat.stack_delete", How::AcceptThenLose)]
#[tokio::test]
async fn a_group_survives(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix, #[case] at: &str, #[case] how: How) -> Result<()> {
    let scene = scene(mix).await?;
    scene.world.cloud.inject(Fault { at: at.to_owned(), nth: 1, how });
    scene.create(json!({"name": "gpu"})).await?;
    scene.wait_for("gpu", "CREATE_COMPLETE").await?;
    scene.world.keep_secrets_of_stacks();
    ensure!(scene.stacks().len() == 2, "{:?}", scene.stacks());
    scene.demo.delete(&scene.path("gpu")).await?.expect(204)?;
    scene.wait_gone("gpu").await?;
    ensure!(scene.stacks().len() == 1, "{:?}", scene.stacks());
    scene.demo.wait_for(&scene.cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    scene.world.finish().await
}

#[rstest]
#[case::while_the_stack_is_asked_for("heat.stack_create", false)]
#[case::while_it_is_followed("heat.stack_create", true)]
#[case::while_it_is_removed("heat.stack_delete", false)]
#[tokio::test]
async fn a_group_whose_conductor_is_killed_is_finished_by_another(#[case] at: &str, #[case] follow: bool) -> Result<()> {
    let mut scene = scene(Mix::Distributed).await?;
    let calls = scene.world.cloud.calls(at);
    match follow {
        true => scene.world.cloud.hold_stacks(true),
        false => scene.world.cloud.inject(Fault { at: at.to_owned(), nth: 1, how: How::Slow(FOR_EVER) }),
    }
    scene.create(json!({"name": "gpu"})).await?;
    if at == "heat.stack_delete" {
        scene.wait_for("gpu", "CREATE_COMPLETE").await?;
        scene.demo.wait_for(&scene.cluster, "UPDATE_COMPLETE", PATIENCE).await?;
        scene.demo.delete(&scene.path("gpu")).await?.expect(204)?;
    }
    if follow {
        scene.world.progress_is_told(&scene.demo, &scene.cluster).await?;
    }
    let called = async || Ok(Seen::when(scene.world.cloud.calls(at) > calls, || "no call".to_owned()));
    wait::until(at, PATIENCE, called).await?;
    scene.world.keep_secrets_of_stacks();
    let owner = scene.world.owner(&scene.cluster).await?;
    scene.world.kill(owner)?;
    scene.world.cloud.hold_stacks(false);
    match at {
        "heat.stack_delete" => scene.wait_gone("gpu").await?,
        _ => {
            scene.wait_for("gpu", "CREATE_COMPLETE").await?;
            ensure!(scene.stacks().len() == 2, "{:?}", scene.stacks());
        }
    }
    scene.world.keep_secrets_of_stacks();
    scene.demo.wait_for(&scene.cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    scene.world.finish().await
}
