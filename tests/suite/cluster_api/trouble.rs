//! What goes wrong: the management cluster, helm, the controllers, the conductor.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How, Trouble};
use rstest::rstest;
use serde_json::json;
use tests::client::{self, text};
use tests::management::{Management, template};
use tests::process::running_with;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

use super::halves::{hold_next_turn, next_turn_is_held};
use super::{STEP, create, group_is, world};

fn fault(at: &str, nth: u32, how: How) -> Fault {
    Fault { at: format!("kubernetes.{at}"), nth, how }
}

/// Waits until a call is held.
async fn is_held(management: &Management) -> Result<()> {
    wait::until("the call to be held", PATIENCE, async || {
        let held = management.cluster.held();
        Ok(Seen::when(held == 1, || format!("{held} calls are held")))
    })
    .await
}

#[tokio::test]
async fn a_management_cluster_that_is_down_is_waited_for_and_named() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    management.cluster.inject(fault("any", 0, How::Refuse));
    let cluster = create(&demo, "blue").await?;
    wait::until("the reason to be told", PATIENCE, async || {
        let reason = text(&demo.cluster(&cluster).await?, "status_reason");
        Ok(Seen::when(reason.starts_with("trying again: cluster-api namespace_apply"), || reason))
    })
    .await?;
    management.cluster.clear_faults();
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}

#[tokio::test]
async fn each_call_to_the_management_cluster_may_fail_once() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    for (nth, how) in [
        (1, How::AcceptThenLose),
        (2, How::Status(409, "the object has been modified".into())),
        (3, How::Status(429, "too many requests, please try again later".into())),
        (4, How::Status(500, "etcdserver: leader changed".into())),
        (5, How::Refuse),
    ] {
        management.cluster.inject(fault("patch", nth, how));
    }
    management.cluster.inject(fault("get", 9, How::AcceptThenLose));
    management.cluster.inject(fault("list", 6, How::Status(500, "etcdserver: request timed out".into())));
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(management.releases()?.len() == 1, "{:?}", management.releases()?);
    // What was made before a secret could be stored is not left behind.
    let credentials = world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("application credential")).count();
    ensure!(credentials == 1, "{credentials}");
    world.finish().await
}

#[tokio::test]
async fn a_helm_run_that_was_killed_half_way_is_taken_up() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_CAPI_HELM__HELM_DEADLINE_SECONDS".into(), "3".into());
    environment.insert("OS_OPERATIONS__SETTLE_SECONDS".into(), "1".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    // The record of the release is the first that it makes; this is in the middle of the objects.
    let made = management.cluster.calls("kubernetes.create");
    management.cluster.inject(fault("create", 5, How::Slow(Duration::from_secs(8))));
    let cluster = create(&demo, "blue").await?;
    wait::until("helm to be there", PATIENCE, async || {
        let calls = management.cluster.calls("kubernetes.create") - made;
        Ok(Seen::when(calls >= 5, || format!("{calls} calls")))
    })
    .await?;
    // Its end stays told until it has been seen.
    hold_next_turn(&world);
    wait::until("a run that was cut off", PATIENCE, async || {
        let reason = text(&demo.cluster(&cluster).await?, "status_reason");
        Ok(Seen::when(reason.contains("was killed") || reason.contains("was cut off"), || reason))
    })
    .await?;
    next_turn_is_held(&world).await?;
    world.cloud.let_go();
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let releases = management.releases()?;
    ensure!(releases.len() == 1 && releases[0].1 == "deployed", "{releases:?}");
    let history = management.helm(&["history", &releases[0].0, "--namespace", &format!("magnum-{}", world.cloud.project_id("demo"))])?;
    ensure!(history.contains("Rollback to 1"), "{history}");
    world.finish().await
}

#[tokio::test]
async fn what_the_controllers_cannot_do_is_the_reason_and_deletion_is_the_way_out() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let quota = "Quota exceeded for cores: Requested 4, but already used 20 of 20 cores";
    management.cluster.trouble("MachineDeployment", "-default-worker", Some(Trouble::Fail(quota.into())));
    let cluster = create(&demo, "blue").await?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let reason = text(&failed, "status_reason");
    ensure!(reason.starts_with(&format!("nodegroup default-worker: {quota}. Likely cure: have the project's quota raised")), "{failed}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;

    // A machine that does not come up is no failure yet; what holds it up is told with the count.
    management.cluster.trouble("MachineDeployment", "-default-worker", None);
    management.cluster.trouble("Machine", "", Some(Trouble::Fail("no valid host was found".into())));
    let cluster = create(&demo, "green").await?;
    wait::until("the progress", PATIENCE, async || {
        let reason = text(&demo.cluster(&cluster).await?, "status_reason");
        let is_told = reason.starts_with("creating: 0 of 3 machines ready") && reason.contains("no valid host was found");
        Ok(Seen::when(is_told, || reason))
    })
    .await?;
    management.cluster.trouble("Machine", "", None);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;

    management.cluster.trouble("HelmRelease", "-cni-calico", Some(Trouble::Fail("chart calico not found".into())));
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 3})).await?.expect(202)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").ends_with("addon cni-calico: chart calico not found"), "{failed}");
    world.finish().await
}

#[tokio::test]
async fn what_the_quota_has_no_room_for_is_refused_before_anything_is_made() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let project = world.cloud.project_id("demo");
    let quota = |resource, most| world.cloud.set_quota(&project, resource, most);
    quota("instances", Some(2));
    let cluster = create(&demo, "blue").await?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let rule = "the project's quotas have no room for 3 more nodes: 3 instances are needed and 2 are left";
    ensure!(text(&failed, "status_reason") == rule, "{failed}");
    ensure!(management.releases()?.is_empty(), "{:?}", management.releases()?);

    quota("instances", None);
    demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;

    // Only what is added counts, and nothing that goes.
    quota("cores", Some(2));
    let resize = async |count: u32, end: &str| {
        demo.resize(&cluster, count).await?;
        demo.wait_for(&cluster, end, PATIENCE).await
    };
    let failed = resize(4, "UPDATE_FAILED").await?;
    ensure!(text(&failed, "status_reason").ends_with("2 more nodes: 4 cores are needed and 2 are left"), "{failed}");
    ensure!(failed["node_count"] == 2, "{failed}");
    resize(3, "UPDATE_COMPLETE").await?;
    // Room that comes while it waits is taken.
    quota("cores", Some(1));
    demo.resize(&cluster, 4).await?;
    wait::until("the operation to wait for room", PATIENCE, async || {
        let operations = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
        Ok(Seen::when(operations.to_string().contains("2 cores are needed and 1 is left"), || operations.to_string()))
    })
    .await?;
    quota("cores", Some(2));
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    quota("instances", Some(1));
    quota("cores", Some(1));
    resize(1, "UPDATE_COMPLETE").await?;
    world.finish().await
}

#[tokio::test]
async fn a_chart_that_is_not_there_fails_with_helms_words_and_leaves_nothing() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_CAPI_HELM__HELM_CHART_NAME".into(), "/nonexistent/chart".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let reason = text(&failed, "status_reason");
    ensure!(reason.starts_with("helm upgrade: ") && reason.contains("/nonexistent/chart"), "{reason}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.cluster.leftovers().is_empty(), "{:#?}", management.cluster.leftovers());
    world.finish().await
}

/// helm tells why only where it is asked for all that it does.
#[rstest]
#[tokio::test]
async fn what_helm_may_not_delete_ends_the_deletion_and_what_it_failed_to_delete_does_not(#[values("3", "4")] helm: &str) -> Result<()> {
    let management = Management::start(STEP, helm).await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let refused = "things \"blue\" is forbidden: User \"magnum\" cannot delete resource \"things\"";
    management.cluster.inject(fault("delete", 0, How::Status(403, refused.into())));
    demo.delete_cluster(&cluster).await?;
    let failed = demo.wait_for(&cluster, "DELETE_FAILED", PATIENCE).await?;
    let reason = text(&failed, "status_reason");
    ensure!(reason.contains("failed to delete release: blue-") && reason.contains(refused), "{reason}");
    ensure!(!reason.contains("DEBUG") && !reason.contains("[debug]"), "{reason}");

    management.cluster.clear_faults();
    management.cluster.inject(fault("delete", 1, How::Status(500, "etcdserver: leader changed".into())));
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.left().is_empty(), "{:#?}", management.left());
    world.finish().await
}

#[tokio::test]
async fn machines_that_do_not_go_hold_the_deletion_and_force_ends_it() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    management.cluster.trouble("Machine", "", Some(Trouble::Keep));
    demo.delete_cluster(&cluster).await?;
    wait::until("the deletion to say what it waits for", PATIENCE, async || {
        let reason = text(&demo.cluster(&cluster).await?, "status_reason");
        Ok(Seen::when(reason.starts_with("deleting: waiting for") && reason.contains("machine"), || reason))
    })
    .await?;
    management.cluster.trouble("Machine", "", None);
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// It would go on alone, and beside the helm of whoever takes over.
#[rstest]
#[tokio::test]
async fn helm_ends_with_a_conductor_that_is(#[values("killed", "frozen")] fate: &str) -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    // Nobody takes over before helm has ended.
    let options = Options { conductors: 1, environment: management.environment(), ..Options::default() };
    let mut world = World::start(Mix::Distributed, options).await?;
    let demo = world.demo();
    management.cluster.inject(fault("create", 5, How::Hold));
    let cluster = create(&demo, "blue").await?;
    is_held(&management).await?;
    let kubeconfig = management.kubeconfig().display().to_string();
    let running = running_with(&kubeconfig)?;
    ensure!(running.len() == 2, "{} processes instead of helm and its warden", running.len());
    let owner = world.owner(&cluster).await?;
    match fate {
        "killed" => world.kill(owner)?,
        _ => world.freeze(owner)?,
    }
    wait::until("helm to end", PATIENCE, async || {
        let running = running_with(&kubeconfig)?;
        Ok(Seen::when(running.is_empty(), || format!("processes {running:?}")))
    })
    .await?;
    // What it has asked for comes all the same.
    management.cluster.let_go();
    world.start_conductor()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    if fate == "frozen" {
        world.thaw(owner)?;
    }
    let releases = management.releases()?;
    ensure!(releases.len() == 1 && releases[0].1 == "deployed", "{releases:?}");
    world.finish().await
}

#[tokio::test]
async fn a_conductor_that_is_killed_is_followed_by_another_that_goes_on() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut world = world(Mix::Distributed, &management).await?;
    let demo = world.demo();
    // Each time in another part of the work: secrets, helm, machines.
    for (name, at, nth) in [("one", "patch", 4), ("two", "create", 6), ("three", "list", 12)] {
        management.cluster.clear_faults();
        management.cluster.inject(fault(at, nth, How::Hold));
        let cluster = create(&demo, name).await?;
        is_held(&management).await?;
        let owner = world.owner(&cluster).await?;
        world.kill(owner)?;
        management.cluster.let_go();
        world.start_conductor()?;
        demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    }
    let releases = management.releases()?;
    ensure!(releases.len() == 3 && releases.iter().all(|(_, status)| status == "deployed"), "{releases:?}");
    let credentials = world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("application credential")).count();
    ensure!(credentials == 3, "{credentials}");
    let cluster = demo.get("/v1/clusters").await?.expect(200)?.body["clusters"][0]["uuid"].as_str().context("a cluster")?.to_owned();
    management.cluster.inject(fault("delete", 3, How::Hold));
    demo.delete_cluster(&cluster).await?;
    is_held(&management).await?;
    let owner = world.owner(&cluster).await?;
    world.kill(owner)?;
    management.cluster.let_go();
    world.start_conductor()?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// What an autoscaler asks for and does not get is its own affair: its group's phase says so for as long as the load lasts.
#[tokio::test]
async fn machines_that_an_autoscaler_did_not_get_are_not_waited_for() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let template = demo.post("/v1/clustertemplates", &template("blue-template")).await?.expect(201)?.uuid()?;
    let mut body = client::cluster("blue", &template);
    body["labels"] = json!({"auto_scaling_enabled": "true", "min_node_count": "1", "max_node_count": "5"});
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    let complete = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 1, "the autoscaler begins at the lower bound: {complete}");
    let (kind, name) = ("MachineDeployment", "-default-worker");
    management.cluster.trouble(kind, name, Some(Trouble::Fail("no valid host was found".into())));
    ensure!(management.cluster.change(kind, name, &json!({"spec": {"replicas": 4}})) == 1);
    wait::until("the group to fail", PATIENCE, async || {
        let status = management.object(kind, name)?["status"].take();
        Ok(Seen::when(status["phase"] == "Failed" && status["readyReplicas"] == 1, || status.to_string()))
    })
    .await?;
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 2})).await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 4, "what the autoscaler has asked for is the size: {complete}");
    world.finish().await
}

/// The row follows what the autoscaler makes, and the bound that it is given does not: else it could never take away again what it has made.
#[tokio::test]
async fn an_autoscaler_may_take_away_all_beyond_what_was_asked_for_last() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo().at("1.14");
    let template = demo.post("/v1/clustertemplates", &template("blue-template")).await?.expect(201)?.uuid()?;
    let mut body = client::cluster("blue", &template);
    body["labels"] = json!({"auto_scaling_enabled": "true", "max_node_count": "6"});
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let (kind, name) = ("MachineDeployment", "-default-worker");
    let bound = || -> Result<String> {
        let annotations = management.object(kind, name)?["metadata"]["annotations"].take();
        Ok(text(&annotations, "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"))
    };
    let autoscale = |count: i64| management.cluster.change(kind, name, &json!({"spec": {"replicas": count}}));
    // An operation that asks for no size, at whose end the row says what there is.
    let touch = async |most: i64| {
        let bounds = json!([{"op": "replace", "path": "/max_node_count", "value": most}]);
        demo.patch(&format!("/v1/clusters/{cluster}/nodegroups/default-worker"), &bounds).await?.expect(202)?;
        group_is(&demo, &cluster, "default-worker", "UPDATE_COMPLETE").await
    };
    ensure!(bound()? == "2", "{}", bound()?);
    // As many as there may be: also then the group is its autoscaler's.
    for (count, most) in [(5, 7), (6, 8), (6, 9)] {
        ensure!(autoscale(count) == 1);
        let group = touch(most).await?;
        ensure!(group["node_count"] == count && bound()? == "2", "{}: {group}", bound()?);
    }
    demo.resize(&cluster, 3).await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 6 && bound()? == "3", "{}: {complete}", bound()?);
    ensure!(autoscale(4) == 1);
    let group = touch(10).await?;
    ensure!(group["node_count"] == 4 && bound()? == "3", "{}: {group}", bound()?);
    world.finish().await
}

/// Its name is recorded before it is asked for: one that Keystone made, and whose secret nobody has heard, is found by it among the user's and goes.
#[tokio::test]
async fn a_credential_whose_answer_was_lost_is_found_by_its_name() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let made = "keystone.application_credential_create";
    world.cloud.inject(Fault { at: made.into(), nth: 1, how: How::AcceptThenLose });
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let (asked, removed) = (world.cloud.calls(made), world.cloud.calls("keystone.application_credential_delete"));
    ensure!(asked >= 2 && removed == 1, "{asked} asked for, {removed} removed");
    let left = world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("application credential")).count();
    ensure!(left == 1, "{left}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let left = world.cloud.leftovers(None);
    ensure!(left.is_empty(), "{left:#?}");
    world.finish().await
}
