//! What another service left in progress when it was stopped: the rows say that it is being done, and no operation of ours tells of it. The
//! sweep takes it up, and the cloud tells how it ends.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

struct Scene {
    world: World,
    demo: Client,
    cluster: String,
}

/// A world that sweeps, with a complete cluster.
async fn scene() -> Result<Scene> {
    let world = World::start(Mix::Distributed, Options::sweeping()).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    Ok(Scene { world, demo, cluster })
}

impl Scene {
    /// As the other service left a table's rows of this cluster, an hour ago.
    async fn left(&self, table: &str, which: &str, set: &str) -> Result<()> {
        let sql = format!("UPDATE {table} SET {set}, updated_at = UTC_TIMESTAMP() - INTERVAL 1 HOUR WHERE {which}");
        self.world.database()?.execute(&sql, Vec::new()).await
    }

    /// As [`Self::left`], of cluster and groups at once: nobody sees one without the other.
    async fn left_in(&self, status: &str, groups: &str, more: &str) -> Result<()> {
        let Self { cluster, .. } = self;
        self.left("nodegroup", &format!("cluster_id = '{cluster}' AND {groups}"), &format!("status = '{status}'")).await?;
        self.left("cluster", &format!("uuid = '{cluster}'"), &format!("status = '{status}', status_reason = NULL{more}")).await
    }

    /// The stack gets another number of workers from somebody who is not us.
    async fn resize_stack(&self, count: i32) -> Result<()> {
        let own = self.world.cloud.stacks().into_iter().next().context("a stack")?;
        let path = format!("/orchestration/v1/{}/stacks/{}/{}", own.project, own.name, own.id);
        let body = json!({"existing": true, "parameters": {"number_of_minions": count}});
        self.world.cloud_as("demo", "demo")?.send(Method::PATCH, &path, Some(body.to_string())).await?.expect(202)?;
        Ok(())
    }

    async fn groups(&self) -> Result<Vec<Value>> {
        let body = self.demo.get(&format!("/v1/clusters/{}/nodegroups", self.cluster)).await?.expect(200)?.body;
        Ok(body["nodegroups"].as_array().context("a list")?.clone())
    }

    async fn taken_up(&self) -> Result<usize> {
        let events = self.demo.get(&format!("/v1/clusters/{}/events?limit=1000", self.cluster)).await?.expect(200)?.body;
        Ok(events["events"].as_array().context("a list")?.iter().filter(|e| e["kind"] == "taken_up").count())
    }
}

#[tokio::test]
async fn a_change_comes_to_the_end_and_the_size_that_its_stack_comes_to() -> Result<()> {
    let scene = scene().await?;
    let Scene { world, demo, cluster } = &scene;
    world.cloud.hold_stacks(true);
    scene.resize_stack(3).await?;
    // Upstream had not got to the group's row.
    scene.left_in("UPDATE_IN_PROGRESS", "is_default", "").await?;
    world.progress_is_told(demo, cluster).await?;
    world.cloud.hold_stacks(false);
    world.cloud.complete_stack(&world.only_stack().await?);
    let whole = demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(whole["node_count"] == 3 && whole["node_addresses"].as_array().map(Vec::len) == Some(3), "{whole}");
    for group in scene.groups().await? {
        ensure!(group["status"] == "UPDATE_COMPLETE", "{group}");
    }
    ensure!(scene.taken_up().await? == 1, "taken up more than once");

    // One that fails is told with the cloud's reason, and is no dead end.
    world.cloud.hold_stacks(true);
    scene.resize_stack(4).await?;
    world.cloud.fail_stack(&world.only_stack().await?, "No valid host was found");
    world.cloud.hold_stacks(false);
    scene.left_in("UPDATE_IN_PROGRESS", "is_default", "").await?;
    let failed = demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("No valid host was found"), "{failed}");
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 2})).await?.expect(202)?;
    // It was about the workers: of the masters nothing is known that was not known before.
    let resized = demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(resized["node_count"] == 2 && text(&resized, "status_reason").starts_with("default-master: "), "{resized}");
    demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    scene.world.finish().await
}

#[tokio::test]
async fn a_group_that_was_being_removed_goes_and_one_that_was_not_stays_as_it_was() -> Result<()> {
    let scene = scene().await?;
    let Scene { world, demo, cluster } = &scene;
    let mut stacks = Vec::new();
    for name in ["gone", "kept"] {
        let path = format!("/v1/clusters/{cluster}/nodegroups");
        demo.post(&path, &json!({"name": name, "node_count": 1})).await?.expect(202)?;
        demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
        stacks.push(demo.get(&format!("{path}/{name}")).await?.expect(200)?.body["stack_id"].as_str().context("a stack")?.to_owned());
    }
    world.keep_secrets_of_stacks();
    // Upstream says of no group that it removes it.
    ensure!(world.cloud.remove_stack(&stacks[0]));
    scene.left_in("UPDATE_IN_PROGRESS", "name = 'none'", "").await?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let mut told: Vec<(String, String)> = scene.groups().await?.iter().map(|g| (text(g, "name"), text(g, "status"))).collect();
    told.sort();
    let expected = [("default-master", "CREATE_COMPLETE"), ("default-worker", "CREATE_COMPLETE"), ("kept", "CREATE_COMPLETE")];
    ensure!(told == expected.map(|(name, status)| (name.to_owned(), status.to_owned())), "{told:?}");
    scene.world.finish().await
}

#[tokio::test]
async fn what_was_being_made_is_complete_and_what_was_being_deleted_is_gone() -> Result<()> {
    let scene = scene().await?;
    let Scene { world, demo, cluster } = &scene;
    let before = demo.cluster(cluster).await?;
    scene.left_in("CREATE_IN_PROGRESS", "is_default", ", api_address = NULL").await?;
    let made = demo.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(made["api_address"] == before["api_address"] && made["stack_id"] == before["stack_id"], "{made} was {before}");
    ensure!(world.cloud.stacks_ever().len() == 1, "{:?}", world.cloud.stacks_ever());

    scene.left_in("DELETE_IN_PROGRESS", "is_default", "").await?;
    demo.wait_gone(cluster, PATIENCE).await?;
    scene.world.finish().await
}

#[tokio::test]
async fn a_create_that_was_cut_off_before_its_stack_fails_with_the_way_out() -> Result<()> {
    let scene = scene().await?;
    let Scene { world, demo, cluster: model } = &scene;
    let cut = "33333333-0000-4000-8000-000000000003";
    let now = "UTC_TIMESTAMP() - INTERVAL 1 HOUR";
    let groups = format!(
        "INSERT INTO nodegroup (created_at, uuid, name, cluster_id, project_id, flavor_id, image_id, node_count, min_node_count, role, is_default, \
         status) SELECT {now}, UUID(), name, '{cut}', project_id, flavor_id, image_id, node_count, min_node_count, role, is_default, \
         'CREATE_IN_PROGRESS' FROM nodegroup WHERE cluster_id = '{model}'"
    );
    let cluster = format!(
        "INSERT INTO cluster (created_at, uuid, name, project_id, user_id, cluster_template_id, keypair, create_timeout, labels, \
         master_lb_enabled, floating_ip_enabled, status) SELECT {now}, '{cut}', 'cut', project_id, user_id, cluster_template_id, keypair, \
         create_timeout, labels, master_lb_enabled, floating_ip_enabled, 'CREATE_IN_PROGRESS' FROM cluster WHERE uuid = '{model}'"
    );
    for sql in [groups, cluster] {
        world.database()?.execute(&sql, Vec::new()).await?;
    }
    let failed = demo.wait_for(cut, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("ask again"), "{failed}");
    ensure!(!world.cloud.leftovers(None).join("\n").contains(cut), "a trustee was made in vain");
    // Asked again, by somebody who can delegate: it is made.
    demo.post(&format!("/v1/clusters/{cut}/actions/retry"), &json!({})).await?.expect(202)?;
    demo.wait_for(cut, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    demo.delete_cluster(cut).await?;
    demo.wait_gone(cut, PATIENCE).await?;
    wait::until("nothing to be unfinished", PATIENCE, async || {
        let left = world.unfinished().await?;
        Ok(Seen::when(left == 0, || left.to_string()))
    })
    .await?;
    scene.world.finish().await
}
