//! What was done by half: a change that helm was cut off in, an upgrade that failed, a release without its Cluster; and a management cluster
//! that is not the one a cluster was made on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How, Trouble};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::management::{Management, next_template};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

use super::{STEP, create, credential, group_is, groups, replicas, world};

/// Waits until the cluster's reason has these words in it.
pub(super) async fn reason_has(demo: &Client, cluster: &str, words: &str) -> Result<()> {
    wait::until(words, PATIENCE, async || {
        let reason = text(&demo.cluster(cluster).await?, "status_reason");
        Ok(Seen::when(reason.contains(words), || reason))
    })
    .await
    .map(drop)
}

/// The next turn of an operation gets no further than to its look at images, until the test lets the cloud go.
pub(super) fn hold_next_turn(world: &World) {
    world.cloud.inject(Fault { at: "glance.any".into(), nth: 1, how: How::Hold });
}

/// Waits until it is there.
pub(super) async fn next_turn_is_held(world: &World) -> Result<()> {
    wait::until("the next turn to be held", PATIENCE, async || {
        let held = world.cloud.held();
        Ok(Seen::when(held > 0, || "no call is held".to_owned()))
    })
    .await
}

/// Asks for another size and returns when helm was killed that was run for it: it has recorded its revision and sent nothing. What it leaves stays
/// so until the test lets the cloud go.
pub(super) async fn cut_off_resize(world: &World, management: &Management, cluster: &str, body: &Value) -> Result<()> {
    let demo = world.demo().at("1.10");
    // The record of the revision is the first that helm makes.
    let made = management.cluster.calls("kubernetes.create");
    management.cluster.inject(Fault { at: "kubernetes.create".into(), nth: 1, how: How::ActThenHold });
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), body).await?.expect(202)?;
    wait::until("helm to be at work", PATIENCE, async || {
        let calls = management.cluster.calls("kubernetes.create") - made;
        Ok(Seen::when(calls > 0, || "no call".to_owned()))
    })
    .await?;
    hold_next_turn(world);
    reason_has(&demo, cluster, "was killed").await?;
    next_turn_is_held(world).await?;
    ensure!(management.releases()?[0].1 == "pending-upgrade", "{:?}", management.releases()?);
    management.cluster.let_go();
    management.cluster.clear_faults();
    Ok(())
}

/// helm 3 compares the documents of two revisions and never looks at the objects: a revision that it has recorded and not sent must not pass
/// for one that it has.
#[rstest]
#[tokio::test]
async fn a_change_that_was_cut_off_reaches_every_object(#[values("3", "4")] helm: &str) -> Result<()> {
    let management = Management::start(STEP, helm).await?;
    let mut environment = management.environment();
    environment.insert("OS_CAPI_HELM__HELM_DEADLINE_SECONDS".into(), "15".into());
    environment.insert("OS_OPERATIONS__SETTLE_SECONDS".into(), "1".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    cut_off_resize(&world, &management, &cluster, &json!({"node_count": 4})).await?;
    ensure!(replicas(&management, "MachineDeployment", "-default-worker")? == 2);
    world.cloud.let_go();
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 4 && replicas(&management, "MachineDeployment", "-default-worker")? == 4, "{complete}");
    ensure!(management.releases()?.iter().all(|(_, status)| status == "deployed"), "{:?}", management.releases()?);
    world.finish().await
}

#[tokio::test]
async fn what_an_upgrade_has_begun_is_what_later_changes_go_on_from() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let nodegroups = format!("/v1/clusters/{cluster}/nodegroups");
    // Its nodes could not join.
    let group = json!({"name": "new", "node_count": 1, "flavor_id": "m1.medium", "image_id": "ubuntu-capi-next"});
    demo.at("1.14").post(&nodegroups, &group).await?.expect(202)?;
    let refused = group_is(&demo, &cluster, "new", "CREATE_FAILED").await?;
    let reason = text(&refused, "status_reason");
    ensure!(reason.contains("image ubuntu-capi-next is for Kubernetes 1.34.1, and the cluster runs 1.33.4"), "{reason}");
    // Nor of the template's image, which nobody asked for, when its size is asked for again.
    let resize = format!("/v1/clusters/{cluster}/actions/resize");
    demo.at("1.14").post(&resize, &json!({"node_count": 1, "nodegroup": "new"})).await?.expect(202)?;
    let refused = group_is(&demo, &cluster, "new", "UPDATE_FAILED").await?;
    ensure!(text(&refused, "status_reason") == reason, "{refused}");
    demo.at("1.14").delete(&format!("{nodegroups}/new")).await?.expect(204)?;
    wait::until("the group to be gone", PATIENCE, async || {
        let all = groups(&demo, &cluster).await?;
        Ok(Seen::when(all.len() == 2, || format!("{} groups", all.len())))
    })
    .await?;
    let group = json!({"name": "big", "node_count": 1, "flavor_id": "m1.medium"});
    demo.at("1.14").post(&nodegroups, &group).await?.expect(202)?;
    group_is(&demo, &cluster, "big", "CREATE_COMPLETE").await?;

    let next = demo.post("/v1/clustertemplates", &next_template("next")).await?.expect(201)?.uuid()?;
    management.cluster.trouble("HelmRelease", "-cni-calico", Some(Trouble::Fail("chart calico not found".into())));
    let upgrade = format!("/v1/clusters/{cluster}/actions/upgrade");
    demo.at("1.10").post(&upgrade, &json!({"cluster_template": next})).await?.expect(202)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(failed["cluster_template_id"] == next.as_str(), "{failed}");
    management.cluster.trouble("HelmRelease", "-cni-calico", None);
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 3})).await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["coe_version"] == "v1.34.1" && complete["node_count"] == 4, "{complete}");
    let machines = management.cluster.objects("Machine");
    let versions: Vec<&Value> = machines.iter().map(|machine| &machine["spec"]["version"]).collect();
    ensure!(versions.len() == 5 && versions.iter().all(|version| *version == "v1.34.1"), "{versions:?}");
    for group in groups(&demo, &cluster).await? {
        ensure!(group["image_id"] == "ubuntu-capi-next", "{group}");
    }
    world.finish().await
}

/// A failure of another group, or of before, is not one of this operation.
#[tokio::test]
async fn a_group_that_failed_does_not_fail_the_others() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    management.cluster.trouble("MachineDeployment", "-big", Some(Trouble::Fail("no valid host was found".into())));
    let group = json!({"name": "big", "node_count": 1, "flavor_id": "m1.medium"});
    demo.at("1.14").post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    group_is(&demo, &cluster, "big", "CREATE_FAILED").await?;
    let resize = format!("/v1/clusters/{cluster}/actions/resize");
    demo.at("1.10").post(&resize, &json!({"node_count": 3})).await?.expect(202)?;
    group_is(&demo, &cluster, "default-worker", "UPDATE_COMPLETE").await?;
    // The cause is mended, and asked for again: what was said before does not count.
    management.cluster.trouble("MachineDeployment", "-big", None);
    demo.at("1.10").post(&resize, &json!({"node_count": 2, "nodegroup": "big"})).await?.expect(202)?;
    group_is(&demo, &cluster, "big", "UPDATE_COMPLETE").await?;
    world.finish().await
}

/// Where and as whom the stand-in is reached: server and token of its kubeconfig.
fn door(management: &Management) -> Result<(String, String)> {
    let kubeconfig: Value = serde_saphyr::from_str(&management.cluster.kubeconfig())?;
    Ok((text(&kubeconfig["clusters"][0]["cluster"], "server"), text(&kubeconfig["users"][0]["user"], "token")))
}

/// helm 4 asks before it takes a field from another manager; sizes are ours.
#[rstest]
#[tokio::test]
async fn a_size_that_another_has_set_is_set_again(#[values("3", "4")] helm: &str, #[values(2, 3)] count: i64) -> Result<()> {
    let management = Management::start(STEP, helm).await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let deployment = management.object("MachineDeployment", "-default-worker")?;
    let (server, token) = door(&management)?;
    let (namespace, name) = (text(&deployment["metadata"], "namespace"), text(&deployment["metadata"], "name"));
    let url =
        format!("{server}/apis/cluster.x-k8s.io/v1beta1/namespaces/{namespace}/machinedeployments/{name}?fieldManager=scaler&force=true");
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"replicas": 5}});
    let apply = reqwest::Client::new().patch(url).bearer_auth(token).header("content-type", "application/apply-patch+yaml");
    let applied = apply.body(object.to_string()).send().await?;
    ensure!(applied.status().is_success(), "{}", applied.text().await?);
    ensure!(replicas(&management, "MachineDeployment", "-default-worker")? == 5);
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": count})).await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == count && replicas(&management, "MachineDeployment", "-default-worker")? == count, "{complete}");
    world.finish().await
}

#[tokio::test]
async fn a_network_without_its_cluster_is_removed_with_the_release() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_CAPI_HELM__HELM_CHART_NAME".into(), "/nonexistent/chart".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    let failed = demo.at("1.10").wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let release = text(&failed, "stack_id");
    // What helm leaves where a webhook refuses the Cluster: nobody owns it, and it stays when the release goes.
    let (server, token) = door(&management)?;
    let namespace = format!("magnum-{}", world.cloud.project_id("demo"));
    let url = format!("{server}/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/{namespace}/openstackclusters");
    let network = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackCluster",
        "metadata": {"name": release, "labels": {"capi.stackhpc.com/cluster": release}}, "spec": {}});
    let made = reqwest::Client::new().post(url).bearer_auth(token).json(&network).send().await?;
    ensure!(made.status() == 201, "{}", made.text().await?);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.cluster.leftovers().is_empty(), "{:#?}", management.cluster.leftovers());
    world.finish().await
}

#[tokio::test]
async fn on_another_management_cluster_no_cluster_seems_gone() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let other = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    management.write_kubeconfig(&other.cluster.kubeconfig())?;
    wait::until("the other one to be asked", PATIENCE, async || {
        let calls = other.cluster.calls("kubernetes.any");
        Ok(Seen::when(calls > 0, || "no call".into()))
    })
    .await?;
    demo.delete_cluster(&cluster).await?;
    reason_has(&demo, &cluster, "its kubeconfig may name another one").await?;
    ensure!(management.cluster.objects("Cluster").len() == 1);
    let credentials = world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("application credential")).count();
    ensure!(credentials == 1, "{credentials}");
    management.write_kubeconfig(&management.cluster.kubeconfig())?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.cluster.objects("Cluster").is_empty());
    world.finish().await
}

/// Nobody needs to wait for the next look at its health to learn that a group was deleted by hand.
#[tokio::test]
async fn a_group_that_was_deleted_by_hand_is_told_by_the_health() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_KUBERNETES__HEALTH_POLLING_INTERVAL".into(), "1".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let health = async |wanted: &str| {
        wait::until("the health", PATIENCE, async || {
            let body = demo.cluster(&cluster).await?;
            Ok(if body["health_status"] == wanted { Seen::Yes(body) } else { Seen::Instead(body.to_string()) })
        })
        .await
    };
    health("HEALTHY").await?;
    let deployment = management.object("MachineDeployment", "-default-worker")?;
    let (server, token) = door(&management)?;
    let (namespace, name) = (text(&deployment["metadata"], "namespace"), text(&deployment["metadata"], "name"));
    let url = format!("{server}/apis/cluster.x-k8s.io/v1beta1/namespaces/{namespace}/machinedeployments/{name}");
    let gone = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?.delete(url).bearer_auth(token).send().await?;
    ensure!(gone.status().is_success(), "{}", gone.text().await?);
    let ill = health("UNHEALTHY").await?;
    let reason = ill["health_status_reason"]["nodegroup"].as_str().context("a reason")?;
    ensure!(reason.ends_with("-default-worker: Not found"), "{reason}");
    world.finish().await
}

/// One that has come to have the name of the template's, and one that upstream wrote into the row of a group and never gave it.
#[tokio::test]
async fn no_node_is_replaced_by_an_image_that_nobody_asked_for() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Distributed, &management).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let group = json!({"name": "big", "node_count": 1, "flavor_id": "m1.medium"});
    demo.at("1.14").post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    group_is(&demo, &cluster, "big", "CREATE_COMPLETE").await?;
    let machines = || management.cluster.objects("Machine").iter().map(|m| text(&m["metadata"], "name")).collect::<Vec<_>>();
    let before = machines();

    world.cloud.add_image("ubuntu-capi-rebuilt", "ubuntu-capi");
    world.cloud.add_image("ubuntu-capi", "ubuntu-capi");
    let sql = "UPDATE nodegroup SET image_id = 'ubuntu-capi-rebuilt' WHERE name = 'big'";
    world.database()?.execute(sql, Vec::new()).await?;
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 3})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let after = machines();
    ensure!(after.len() == before.len() + 1 && before.iter().all(|name| after.contains(name)), "{before:?} {after:?}");
    // What the name means for a group that is to be made nobody can tell.
    world.cloud.add_image("ubuntu-capi-rebuilt", "ubuntu-capi");
    let group = json!({"name": "new", "node_count": 1, "flavor_id": "m1.medium", "image_id": "ubuntu-capi-rebuilt"});
    demo.at("1.14").post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    let refused = group_is(&demo, &cluster, "new", "CREATE_FAILED").await?;
    let why = text(&refused, "status_reason");
    ensure!(why.contains("image ubuntu-capi-rebuilt: there are several of this name"), "{refused}");
    ensure!(machines() == after, "{after:?} {:?}", machines());
    world.finish().await
}

/// As when its creator has left or lost a role. By somebody else of the project: he has another one made, and it is gone in the end.
#[tokio::test]
async fn a_cluster_whose_credential_is_dead_is_deleted_with_one_of_who_deletes_it() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let (first, _) = credential(&world, &management)?;
    let path = format!("/identity/v3/users/{}/application_credentials/{first}", world.cloud.user_id("demo"));
    world.cloud_as("demo", "demo")?.delete(&path).await?.expect(204)?;
    // Nothing goes without.
    management.cluster.hold_clusters(true);
    let other = world.user("member2", "demo");
    other.delete_cluster(&cluster).await?;
    let second = wait::until("another credential", PATIENCE, async || {
        let (id, _) = credential(&world, &management)?;
        Ok(if id == first { Seen::Instead(id) } else { Seen::Yes(id) })
    })
    .await?;
    let there = || world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("application credential")).collect::<Vec<_>>();
    ensure!(there().iter().any(|line| line.contains(&second)), "{:?}", there());
    management.cluster.hold_clusters(false);
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(there().is_empty() && management.left().is_empty(), "{:?} {:#?}", there(), management.left());
    world.finish().await
}

/// As of a helm run that was cut off with its conductor: what it had asked for last comes when the release is removed already, and nothing but
/// helm would ever delete it.
#[tokio::test]
async fn a_cluster_that_comes_after_its_release_was_removed_is_waited_for_and_deleted() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_OPERATIONS__SETTLE_SECONDS".into(), "30".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    // The creation gives way while it waits for machines.
    management.cluster.hold_clusters(true);
    let cluster = create(&demo, "blue").await?;
    let release = wait::until("the release", PATIENCE, async || {
        let deployed = management.releases()?.into_iter().find(|(_, status)| status == "deployed");
        Ok(Seen::from_option(deployed.map(|(name, _)| name), "not deployed"))
    })
    .await?;
    demo.delete_cluster(&cluster).await?;
    wait::until("the deletion to wait for what may come", PATIENCE, async || {
        let told = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.text;
        Ok(Seen::when(told.contains("asked for without a clear answer"), || told))
    })
    .await?;
    ensure!(management.releases()?.is_empty() && management.cluster.objects("Cluster").is_empty(), "{:#?}", management.left());
    management.cluster.hold_clusters(false);
    let (server, token) = door(&management)?;
    let namespace = format!("magnum-{}", world.cloud.project_id("demo"));
    let url = format!("{server}/apis/cluster.x-k8s.io/v1beta1/namespaces/{namespace}/clusters");
    let late = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
        "metadata": {"name": release, "labels": {"capi.stackhpc.com/cluster": release}}, "spec": {}});
    let made = reqwest::Client::new().post(url).bearer_auth(token).json(&late).send().await?;
    ensure!(made.status() == 201, "{}", made.text().await?);
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.left().is_empty(), "{:#?}", management.left());
    world.finish().await
}

/// Nothing can be on its way any more.
#[tokio::test]
async fn the_deletion_of_a_cluster_at_rest_does_not_wait_for_what_may_come() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_OPERATIONS__SETTLE_SECONDS".into(), (2 * PATIENCE.as_secs()).to_string());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.left().is_empty(), "{:#?}", management.left());
    world.finish().await
}
