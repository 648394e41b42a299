//! What the project's quotas have no room for is refused before anything is made, whichever service counts it; and nodes in which their image has
//! none.

use anyhow::{Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

/// A cluster of one master and two workers, each with a volume and an address of its own, behind a load balancer.
async fn create(demo: &Client) -> Result<String> {
    let template = demo.create_template("large").await?;
    let mut body = client::cluster("blue", &template);
    body["node_count"] = json!(2);
    body["docker_volume_size"] = json!(10);
    body["master_lb_enabled"] = json!(true);
    body["floating_ip_enabled"] = json!(true);
    demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()
}

/// The operations of a cluster, as text.
async fn operations(demo: &Client, cluster: &str) -> Result<String> {
    Ok(demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body.to_string())
}

#[rstest]
#[tokio::test]
async fn a_cluster_that_does_not_fit_fails_with_what_is_short_and_nothing_is_made(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let project = world.cloud.project_id("demo");
    let limits = [
        ("cores", 2, "3 cores are needed and 2 are left"),
        ("server_group_members", 1, "2 members of one server group are needed and 1 can be"),
        ("volumes", 2, "3 volumes are needed and 2 are left"),
        ("gigabytes", 29, "30 GiB of volumes are needed and 29 are left"),
        ("network", 0, "1 network is needed and 0 are left"),
        ("port", 5, "6 ports are needed and 5 are left"),
        ("floatingip", 3, "4 floating IPs are needed and 3 are left"),
        ("security_group", 3, "4 security groups are needed and 3 are left"),
        ("load_balancer", 0, "1 load balancer is needed and 0 are left"),
    ];
    for (resource, most, _) in limits {
        world.cloud.set_quota(&project, resource, Some(most));
    }
    let cluster = create(&demo).await?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let short = limits.map(|(.., text)| text).join(", ");
    ensure!(text(&failed, "status_reason") == format!("the project's quotas have no room for 3 more nodes: {short}"), "{failed}");
    ensure!(world.cloud.stacks().is_empty(), "{:?}", world.cloud.stacks());
    ensure!(operations(&demo, &cluster).await?.contains("\"quota\""), "{}", operations(&demo, &cluster).await?);
    let made: Vec<&str> = world.cloud.effects().into_iter().filter(|name| !name.starts_with("keystone.token_")).collect();
    ensure!(made.is_empty(), "{made:?}");

    // Exactly enough is enough.
    for (resource, most, _) in limits {
        world.cloud.set_quota(&project, resource, Some(most + 1));
    }
    demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;

    // More workers are counted too, and fewer never are.
    let failed = resized(&demo, &cluster, 3, "UPDATE_FAILED").await?;
    for part in
        ["for 1 more node: 1 core is needed and 0 are left", "1 volume is", "10 GiB of volumes are", "1 port is", "1 floating IP is"]
    {
        ensure!(text(&failed, "status_reason").contains(part), "{part}: {failed}");
    }
    ensure!(world.cloud.stacks()[0].parameters["number_of_minions"] == json!(2), "{:?}", world.cloud.stacks()[0].parameters);
    resized(&demo, &cluster, 1, "UPDATE_COMPLETE").await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

async fn resized(demo: &Client, cluster: &str, count: u32, end: &str) -> Result<Value> {
    demo.resize(cluster, count).await?.expect(202)?;
    demo.wait_for(cluster, end, PATIENCE).await
}

#[tokio::test]
async fn room_that_comes_while_an_operation_waits_is_taken() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let project = world.cloud.project_id("demo");
    world.cloud.set_quota(&project, "floatingip", Some(3));
    let cluster = create(&demo).await?;
    wait::until("the operation to wait for room", PATIENCE, async || {
        let told = operations(&demo, &cluster).await?;
        Ok(Seen::when(told.contains("4 floating IPs are needed and 3 are left"), || told))
    })
    .await?;
    world.cloud.set_quota(&project, "floatingip", Some(4));
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;

    // A group of its own.
    world.cloud.set_quota(&project, "server_groups", Some(2));
    let group = json!({"name": "more", "node_count": 1});
    let at = demo.at("1.10");
    at.post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(world.cloud.stacks().len() == 1, "{:?}", world.cloud.stacks());
    let groups = at.get(&format!("/v1/clusters/{cluster}/nodegroups/more")).await?.expect(200)?.body;
    let reason = text(&groups, "status_reason");
    ensure!(reason.contains("1 server group is needed and 0 are left"), "{failed} {groups}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Nova and Cinder would refuse each of these nodes.
#[tokio::test]
async fn an_image_that_has_no_room_in_its_nodes_is_refused_with_the_request() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo().at("1.10");
    let (image, large) = ("fedora-coreos", "fedora-coreos-large");
    let template = demo.create_template("small").await?;
    let with = |key: &str, value: Value| {
        let mut body = client::cluster("blue", &template);
        body[key] = value;
        body
    };
    let volume = |size: &str| with("labels", json!({"boot_volume_size": size}));
    let refused = async |body: &Value, words: &str| -> Result<()> {
        for path in ["/v1/clusters", "/v1/clusters?dry_run=true"] {
            demo.post(path, body).await?.expect_error(400, words)?;
        }
        Ok(())
    };
    let as_it_is = client::cluster("blue", &template);
    world.cloud.set_image_needs(image, 30, 0);
    refused(&as_it_is, "Image fedora-coreos needs a disk of 30 GB, and flavor m1.small has 20.").await?;
    refused(&volume("29"), "needs a disk of 30 GB, and the boot volume has 29.").await?;
    // The masters' flavor alone is too small then.
    refused(&with("flavor_id", json!("m1.medium")), "flavor m1.small has 20.").await?;
    world.cloud.set_image_needs(image, 0, 2049);
    refused(&volume("30"), "Image fedora-coreos needs 2049 MB of memory, and flavor m1.small has 2048.").await?;
    world.cloud.set_image_needs(image, 20, 2048);
    world.cloud.set_image_disk(image, (20 << 30) + 1);
    refused(&as_it_is, "needs a disk of 21 GB, and flavor m1.small has 20.").await?;
    ensure!(world.cloud.stacks().is_empty(), "{:?}", world.cloud.stacks());

    // What fits exactly is taken.
    world.cloud.set_image_disk(image, 20 << 30);
    demo.post("/v1/clusters?dry_run=true", &volume("20")).await?.expect(200)?;
    let cluster = world.complete_cluster(&demo).await?;
    let path = format!("/v1/clusters/{cluster}");
    world.cloud.add_image(large, image);
    world.cloud.set_image_needs(large, 30, 0);
    let groups = format!("{path}/nodegroups");
    let group =
        |flavor: &str, labels: Value| json!({"name": "more", "node_count": 1, "image_id": large, "flavor_id": flavor, "labels": labels});
    demo.post(&groups, &group("m1.small", json!({}))).await?.expect_error(400, "flavor m1.small has 20.")?;
    demo.post(&groups, &group("m1.small", json!({"boot_volume_size": "29"}))).await?.expect_error(400, "the boot volume has 29.")?;
    demo.post(&groups, &group("m1.medium", json!({}))).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let mut newer = client::template("newer");
    newer["image_id"] = json!(large);
    // Its own flavors are none of the cluster's.
    newer["flavor_id"] = json!("m1.medium");
    newer["master_flavor_id"] = json!("m1.medium");
    demo.post("/v1/clustertemplates", &newer).await?.expect(201)?;
    let upgrade = format!("{path}/actions/upgrade");
    world.cloud.set_image_needs(large, 0, 4096);
    demo.post(&upgrade, &json!({"cluster_template": "newer"})).await?.expect_error(400, "flavor m1.small has 2048.")?;
    world.cloud.set_image_needs(large, 20, 0);
    demo.post(&upgrade, &json!({"cluster_template": "newer"})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}
