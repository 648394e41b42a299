//! Clusters of the Cluster API driver, through the REST API: the real helm, a chart that makes what the real one makes, a management cluster
//! whose controllers are played.

mod authorities;
mod crash;
mod exits;
mod halves;
mod places;
mod shrink;
mod trouble;
mod watches;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::management::{Management, next_template, template};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// Of the controllers.
const STEP: Duration = Duration::from_millis(60);

async fn world(mix: Mix, management: &Management) -> Result<World> {
    World::start(mix, Options { environment: management.environment(), ..Options::default() }).await
}

async fn create(demo: &Client, name: &str) -> Result<String> {
    let template = demo.post("/v1/clustertemplates", &template(&format!("{name}-template"))).await?.expect(201)?.uuid()?;
    demo.create_cluster(name, &template).await
}

/// The credential that the cluster's secret holds, which no log may have.
fn credential(world: &World, management: &Management) -> Result<(String, String)> {
    let secret = management.object("Secret", "-cloud-credentials")?;
    let encoded = secret["data"]["clouds.yaml"].as_str().context("clouds.yaml")?;
    let clouds: Value = serde_saphyr::from_str(&String::from_utf8(BASE64_STANDARD.decode(encoded)?)?)?;
    let auth = &clouds["clouds"]["openstack"]["auth"];
    let (id, secret) = (text(auth, "application_credential_id"), text(auth, "application_credential_secret"));
    ensure!(!id.is_empty() && !secret.is_empty(), "no credential in the secret");
    world.keep_secret(&secret, "the secret of an application credential");
    Ok((id, secret))
}

fn replicas(management: &Management, kind: &str, name_end: &str) -> Result<i64> {
    management.object(kind, name_end)?["spec"]["replicas"].as_i64().context("replicas")
}

async fn groups(demo: &Client, cluster: &str) -> Result<Vec<Value>> {
    let body = demo.at("1.14").get(&format!("/v1/clusters/{cluster}/nodegroups")).await?.expect(200)?.body;
    Ok(body["nodegroups"].as_array().cloned().unwrap_or_default())
}

/// Waits until a group has this status.
async fn group_is(demo: &Client, cluster: &str, group: &str, wanted: &str) -> Result<Value> {
    wait::until("the nodegroup", PATIENCE, async || {
        let body = demo.at("1.14").get(&format!("/v1/clusters/{cluster}/nodegroups/{group}")).await?.expect(200)?.body;
        Ok(if body["status"] == wanted { Seen::Yes(body) } else { Seen::Instead(body.to_string()) })
    })
    .await
}

fn addresses(body: &Value) -> usize {
    body["node_addresses"].as_array().map_or(0, Vec::len)
}

/// Keystone makes no trust for who comes by an application credential; these clusters need none.
#[tokio::test]
async fn an_unrestricted_application_credential_is_enough() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let (restricted, unrestricted) = (world.by_credential(true), world.by_credential(false));
    let template = restricted.post("/v1/clustertemplates", &template("one")).await?.expect(201)?.uuid()?;
    let refused = restricted.post("/v1/clusters", &client::cluster("blue", &template)).await?;
    refused.expect_error(403, "restricted application credential")?;
    let cluster = unrestricted.create_cluster("blue", &template).await?;
    unrestricted.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let (first, _) = credential(&world, &management)?;
    unrestricted.rotate_credentials(&cluster).await?;
    unrestricted.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(credential(&world, &management)?.0 != first, "the credential is the one that it was");
    unrestricted.delete_cluster(&cluster).await?;
    unrestricted.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[case(Mix::Embedded, "3")]
#[case(Mix::Distributed, "3")]
#[case(Mix::Embedded, "4")]
#[tokio::test]
async fn a_cluster_is_made_changed_and_deleted(#[case] mix: Mix, #[case] helm: &str) -> Result<()> {
    let management = Management::start(STEP, helm).await?;
    let world = world(mix, &management).await?;
    let demo = world.demo();
    let cluster = create(&demo, "My-Cluster_1").await?;
    let complete = demo.at("1.13").wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let release = text(&complete, "stack_id");
    let release = if release.is_empty() { text(&complete, "cluster_id") } else { release };
    ensure!(release.starts_with("my-cluster-1-") && release.len() == "my-cluster-1-".len() + 12, "{complete}");
    ensure!(text(&complete, "api_address").starts_with("https://203.0.113."), "{complete}");
    ensure!(complete["coe_version"] == "v1.33.4" && complete["status_reason"].is_null(), "{complete}");
    ensure!(addresses(&complete) == 2 && complete["master_addresses"].as_array().map_or(0, Vec::len) == 1, "{complete}");
    ensure!(management.releases()? == [(release.clone(), "deployed".to_owned())], "{:?}", management.releases()?);
    let (first, _) = credential(&world, &management)?;
    let ca = management.object("Secret", &format!("{release}-ca"))?;
    ensure!(ca["type"] == "cluster.x-k8s.io/secret" && ca["metadata"]["labels"]["magnum.openstack.org/cluster-uuid"] == cluster, "{ca}");
    // No trustee: what runs in the cluster has a credential of its own.
    ensure!(world.cloud.calls("keystone.trust_create") == 0 && world.cloud.calls("heat.any") == 0);

    let resize = json!({"node_count": 3});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &resize).await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 3 && addresses(&complete) == 3, "{complete}");
    ensure!(replicas(&management, "MachineDeployment", "-default-worker")? == 3);

    // The machine that is named goes, and not the newest.
    let oldest = management
        .cluster
        .objects("Machine")
        .into_iter()
        .find(|m| m["metadata"]["labels"]["capi.stackhpc.com/node-group"] == "default-worker");
    let oldest = text(&oldest.context("a machine")?["metadata"], "name");
    let body = json!({"node_count": 2, "nodes_to_remove": [oldest]});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &body).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let left = management.cluster.objects("Machine");
    ensure!(left.len() == 3 && left.iter().all(|m| text(&m["metadata"], "name") != oldest), "{left:#?}");

    // The completion waits for the machines, also with PATCH.
    let patch = json!([{"op": "replace", "path": "/node_count", "value": 1}]);
    demo.patch(&format!("/v1/clusters/{cluster}"), &patch).await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 1 && management.cluster.objects("Machine").len() == 2, "{complete}");

    let taint = json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"});
    let group = json!({"name": "big", "node_count": 2, "flavor_id": "m1.medium", "node_labels": {"tier": "gold"}, "node_taints": [taint]});
    demo.at("1.14").post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    let big = group_is(&demo, &cluster, "big", "CREATE_COMPLETE").await?;
    ensure!(addresses(&big) == 2, "{big}");
    let config = management.cluster.objects("KubeadmConfigTemplate");
    let config = config.iter().find(|c| text(&c["metadata"], "name").contains("-big-")).context("the group's configuration")?;
    let spec = &config["spec"]["template"]["spec"];
    ensure!(spec["nodeLabels"]["tier"] == "gold", "{spec}");
    ensure!(spec["joinConfiguration"]["nodeRegistration"]["taints"] == json!([taint]), "{spec}");
    // One that would share its machines, or that the chart refuses.
    for name in ["BIG", "1st"] {
        let group = json!({"name": name, "node_count": 1, "flavor_id": "m1.medium"});
        demo.at("1.14").post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect_error(400, "name")?;
    }
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let body = json!({"node_count": 1, "nodegroup": "big"});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &body).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(replicas(&management, "MachineDeployment", "-big")? == 1);
    demo.at("1.14").delete(&format!("/v1/clusters/{cluster}/nodegroups/big")).await?.expect(204)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(groups(&demo, &cluster).await?.len() == 2 && management.cluster.objects("MachineDeployment").len() == 1);

    // To an image with the next Kubernetes: every machine is another one then.
    let before: Vec<String> = management.cluster.objects("Machine").iter().map(|m| text(&m["metadata"], "name")).collect();
    let next = demo.post("/v1/clustertemplates", &next_template("next")).await?.expect(201)?.uuid()?;
    let upgrade = format!("/v1/clusters/{cluster}/actions/upgrade");
    demo.at("1.10").post(&upgrade, &json!({"cluster_template": next})).await?.expect(202)?;
    let upgraded = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(upgraded["coe_version"] == "v1.34.1" && upgraded["cluster_template_id"] == next.as_str(), "{upgraded}");
    let after = management.cluster.objects("Machine");
    ensure!(after.len() == before.len() && after.iter().all(|m| !before.contains(&text(&m["metadata"], "name"))), "{before:?} {after:#?}");
    ensure!(addresses(&upgraded) == 1 && upgraded["master_addresses"].as_array().map_or(0, Vec::len) == 1, "{upgraded}");
    // Back again Kubernetes does not go.
    let old = text(&complete, "cluster_template_id");
    demo.at("1.10").post(&upgrade, &json!({"cluster_template": old})).await?.expect_error(400, "go back")?;
    let refused = demo.send(reqwest::Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?;
    refused.expect_error(400, "[capi_helm] controller_deployments")?;

    // By somebody else of the project: the cluster has his rights from then on, and the first credential is gone.
    let other = world.user("member2", "demo");
    other.rotate_credentials(&cluster).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let (second, _) = credential(&world, &management)?;
    ensure!(first != second, "{first}");
    let kept: Vec<String> = world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("application credential")).collect();
    ensure!(kept.len() == 1 && kept[0].contains(&second), "{kept:?}");

    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.left().is_empty(), "{:#?}", management.left());
    ensure!(management.releases()?.is_empty());
    world.finish().await
}

#[tokio::test]
async fn clusters_of_both_drivers_live_side_by_side() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Distributed, &management).await?;
    let demo = world.demo();
    let (heat, capi) = (world.complete_cluster(&demo).await?, create(&demo, "green").await?);
    demo.wait_for(&capi, "CREATE_COMPLETE", PATIENCE).await?;
    let listed = demo.get("/v1/clusters").await?.expect(200)?.body;
    let listed: Vec<String> = listed["clusters"].as_array().into_iter().flatten().map(|c| text(c, "uuid")).collect();
    ensure!(listed.contains(&heat) && listed.contains(&capi), "{listed:?}");
    // The image decides where nobody names a driver: a management cluster is there.
    let mut unnamed = template("unnamed");
    unnamed.as_object_mut().context("an object")?.remove("driver");
    let made = demo.at("1.14").post("/v1/clustertemplates", &unnamed).await?.expect(201)?.body;
    ensure!(made["driver"] == "k8s_capi_helm_v1" && made["network_driver"] == "calico", "{made}");
    let mut wrong = template("wrong");
    wrong["network_driver"] = "flannel".into();
    // As upstream, a template may say what the driver cannot do: it is a cluster that cannot be made of it.
    let made = demo.post("/v1/clustertemplates", &wrong).await?.expect(201)?.body;
    ensure!(made["network_driver"] == "flannel", "{made}");
    let refused = demo.post("/v1/clusters", &json!({"name": "red", "cluster_template_id": made["uuid"], "keypair": "key"})).await?;
    refused.expect_error(400, "network_driver")?;
    let path = format!("/v1/clustertemplates/{}", text(&made, "uuid"));
    for name in ["calico", "flannel"] {
        let patch = json!([{"op": "replace", "path": "/network_driver", "value": name}]);
        ensure!(demo.patch(&path, &patch).await?.expect(200)?.body["network_driver"] == name);
    }
    // What no driver serves goes to the first of them by name.
    let mut metal = unnamed.clone();
    (metal["name"], metal["server_type"]) = (json!("metal"), json!("bm"));
    let made = demo.at("1.14").post("/v1/clustertemplates", &metal).await?.expect(201)?.body;
    ensure!(made["driver"] == "k8s_capi_helm_v1", "{made}");
    for cluster in [&heat, &capi] {
        demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 3})).await?.expect(202)?;
    }
    for cluster in [&heat, &capi] {
        let complete = demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
        ensure!(complete["node_count"] == 3, "{complete}");
    }
    world.finish().await
}
