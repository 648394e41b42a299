//! Clusters with IPv6 beside IPv4: their stacks, their groups, what comes to them later, and those that cannot be.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use tests::client::{self, text};
use tests::nodes;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

#[tokio::test]
async fn a_cluster_has_both_versions_of_ip_or_stays_as_it_was_made() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo().at("1.10");
    let mut template = client::template("small");
    template["labels"] = json!({"ipv6_enabled": "true"});
    let template = demo.post("/v1/clustertemplates", &template).await?.expect(201)?.uuid()?;

    // The network has no subnet for it.
    let mut body = client::cluster("there", &template);
    body["fixed_network"] = json!("private");
    body["fixed_subnet"] = json!("private-subnet");
    let refused = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    let failed = demo.wait_for(&refused, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("fixed_subnet_v6: the network has no IPv6 subnet"), "{failed}");
    ensure!(world.cloud.stacks().is_empty(), "{:?}", world.cloud.stacks());
    demo.delete_cluster(&refused).await?;
    demo.wait_gone(&refused, PATIENCE).await?;

    let mut body = client::cluster("blue", &template);
    body["labels"] = json!({"pod_cidr_v6": "fd00::/64"});
    body["merge_labels"] = json!(true);
    demo.post("/v1/clusters", &body).await?.expect_error(400, "labels[pod_cidr_v6]")?;
    // With a second subnet, and the router's port there, exactly enough is enough.
    let project = world.cloud.project_id("demo");
    for (resource, most) in [("subnet", 2), ("port", 7)] {
        world.cloud.set_quota(&project, resource, Some(most));
    }
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.cloud.set_quota(&project, "port", None);
    let stack = world.cloud.stacks().remove(0);
    ensure!(stack.parameters["ipv6_enabled"] == json!(true), "{:?}", stack.parameters);
    let has_place = |data: &Value| data.to_string().contains("NODE_ADDRESS_V6=");
    let first = nodes::masters(&world)?;
    ensure!(has_place(&first), "{first}");

    // A group of its own joins the same subnets.
    let group = json!({"name": "more", "node_count": 1});
    let group = demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?.uuid()?;
    let path = format!("/v1/clusters/{cluster}/nodegroups/{group}");
    wait::until("the group to be complete", PATIENCE, async || {
        let body = demo.get(&path).await?.expect(200)?.body;
        Ok(Seen::when(body["status"] == "CREATE_COMPLETE", || format!("{}: {}", body["status"], body["status_reason"])))
    })
    .await?;
    let of_group = world.cloud.stacks().into_iter().find(|other| other.id != stack.id).context("a stack of the group")?;
    ensure!(of_group.parameters["ipv6_enabled"] == json!(true), "{:?}", of_group.parameters);
    let subnets = [&of_group.parameters["fixed_subnet"], &of_group.parameters["fixed_subnet_v6"]];
    ensure!(subnets.iter().all(|id| id.as_str().is_some_and(|id| !id.is_empty())) && subnets[0] != subnets[1], "{subnets:?}");
    demo.send(Method::DELETE, &path, None).await?.expect(204)?;
    wait::until("the group to be gone", PATIENCE, async || {
        let answer = demo.get(&path).await?;
        Ok(Seen::when(answer.status == 404, || answer.text.clone()))
    })
    .await?;

    // Masters of a later day have both too.
    demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let later = nodes::masters(&world)?;
    ensure!(later != first && has_place(&later), "{later}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}
