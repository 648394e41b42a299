//! Resizes that do not come to their end: what the rows say of their groups, and what counts of their nodes.

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How, Trouble};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::management::{Management, template};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

use super::halves::{cut_off_resize, reason_has};
use super::{STEP, create, group_is, groups, replicas, world};

async fn cancel(demo: &Client, cluster: &str) -> Result<Value> {
    demo.post(&format!("/v1/clusters/{cluster}/actions/cancel"), &json!({})).await?.expect(202)?;
    let failed = demo.wait_for(cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("cancelled"), "{failed}");
    Ok(failed)
}

/// What was prepared for helm is no change of any size.
#[tokio::test]
async fn a_resize_that_is_cancelled_before_helm_was_run_leaves_the_size_as_it_was() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    // It waits for room for twice as long.
    environment.insert("OS_OPERATIONS__SETTLE_SECONDS".into(), "15".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let is_as_it_was = |shown: &Value| -> Result<()> {
        ensure!(shown["node_count"] == 2 && replicas(&management, "MachineDeployment", "-default-worker")? == 2, "{shown}");
        Ok(())
    };

    // More nodes, for which there is no room: it waits, and everything but helm has been done.
    let project = world.cloud.project_id("demo");
    world.cloud.set_quota(&project, "cores", Some(1));
    demo.resize(&cluster, 4).await?.expect(202)?;
    wait::until("the operation to wait for room", PATIENCE, async || {
        let operations = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
        Ok(Seen::when(operations.to_string().contains("cores are needed and 1 is left"), || operations.to_string()))
    })
    .await?;
    ensure!(demo.cluster(&cluster).await?["node_count"] == 4, "the wish is shown while it is worked on");
    is_as_it_was(&cancel(&demo, &cluster).await?)?;
    world.cloud.set_quota(&project, "cores", None);

    // Fewer, while nothing can be prepared.
    management.cluster.inject(Fault { at: "kubernetes.patch".into(), nth: 0, how: How::Refuse });
    demo.resize(&cluster, 1).await?.expect(202)?;
    reason_has(&demo, &cluster, "namespace_apply").await?;
    is_as_it_was(&cancel(&demo, &cluster).await?)?;
    management.cluster.clear_faults();
    demo.resize(&cluster, 3).await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 3, "{complete}");
    world.finish().await
}

/// Whatever the release asks for: a machine that is drained is there, and its server counts.
#[tokio::test]
async fn w18_machines_that_have_not_gone_count_until_somebody_has_seen_them_gone() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo().at("1.14");
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let body = json!({"project_id": world.cloud.project_id("demo"), "resource": "Node", "hard_limit": 5});
    world.user("admin", "admin").post("/v1/quotas", &body).await?.expect(201)?;
    let another = demo.post("/v1/clustertemplates", &template("another")).await?.expect(201)?.uuid()?;
    // A cluster of this suite has three nodes, and there is room for two.
    let is_full = async || -> Result<()> {
        demo.post("/v1/clusters", &client::cluster("green", &another)).await?.expect_error(403, "maximum nodes per project, 5.")?;
        Ok(())
    };
    let asked = || replicas(&management, "MachineDeployment", "-default-worker");

    // It fails for another reason, in the middle of the drain.
    management.cluster.trouble("Machine", "", Some(Trouble::Keep));
    management.cluster.trouble("HelmRelease", "-cni-calico", Some(Trouble::Fail("chart calico not found".into())));
    demo.resize(&cluster, 1).await?.expect(202)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(failed["node_count"] == 2 && asked()? == 1, "{failed}");
    is_full().await?;
    management.cluster.trouble("HelmRelease", "-cni-calico", None);

    // It is done again, and cancelled.
    demo.resize(&cluster, 1).await?.expect(202)?;
    reason_has(&demo, &cluster, "machines of nodegroup default-worker to go").await?;
    ensure!(cancel(&demo, &cluster).await?["node_count"] == 2 && asked()? == 1);
    is_full().await?;

    // What is done about another group does not bring back the nodes that were to go.
    management.cluster.trouble("Machine", "", None);
    let nodegroups = format!("/v1/clusters/{cluster}/nodegroups");
    demo.post(&nodegroups, &json!({"name": "big", "node_count": 1, "flavor_id": "m1.medium"})).await?.expect(202)?;
    group_is(&demo, &cluster, "big", "CREATE_COMPLETE").await?;
    let workers = groups(&demo, &cluster).await?.into_iter().find(|group| group["name"] == "default-worker").context("the group")?;
    ensure!(workers["status"] == "UPDATE_FAILED" && workers["node_count"] == 2 && asked()? == 1, "{workers}");
    // Nor do new bounds, after which the row says what there is.
    let bounds = json!([{"op": "replace", "path": "/max_node_count", "value": 9}]);
    demo.patch(&format!("{nodegroups}/default-worker"), &bounds).await?.expect(202)?;
    let workers = group_is(&demo, &cluster, "default-worker", "UPDATE_COMPLETE").await?;
    ensure!(workers["node_count"] == 1 && asked()? == 1, "{workers}");
    ensure!(management.cluster.objects("Machine").len() == 3, "{:#?}", management.cluster.objects("Machine"));
    world.finish().await
}

fn workers(management: &Management) -> Vec<Value> {
    let all = management.cluster.objects("Machine").into_iter();
    all.filter(|machine| machine["metadata"]["labels"]["capi.stackhpc.com/node-group"] == "default-worker").collect()
}

/// The machines of the two workers of a cluster of this suite.
fn two(management: &Management) -> Result<[String; 2]> {
    names(management).try_into().map_err(|names| anyhow::anyhow!("not two workers: {names:?}"))
}

fn names(management: &Management) -> Vec<String> {
    let mut names: Vec<String> = workers(management).iter().map(|machine| text(&machine["metadata"], "name")).collect();
    names.sort();
    names
}

/// The release has its new size by then, and of those that were named some may be gone.
#[rstest]
#[tokio::test]
async fn a_resize_that_failed_while_named_nodes_went_can_be_done_again(#[values(true, false)] have_gone: bool) -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo().at("1.10");
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let [first, second] = two(&management)?;
    management.cluster.trouble("Machine", "", Some(Trouble::Keep));
    management.cluster.trouble("HelmRelease", "-cni-calico", Some(Trouble::Fail("chart calico not found".into())));
    let body = json!({"node_count": 1, "nodes_to_remove": [first]});
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &body).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(replicas(&management, "MachineDeployment", "-default-worker")? == 1);
    management.cluster.trouble("HelmRelease", "-cni-calico", None);
    let let_go = async || {
        management.cluster.trouble("Machine", "", None);
        wait::until("the machine to be gone", PATIENCE, async || {
            let left = names(&management);
            Ok(Seen::when(left == [second.clone()], || format!("{left:?}")))
        })
        .await
    };
    if have_gone {
        let_go().await?;
    }
    demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    if !have_gone {
        reason_has(&demo, &cluster, "machines of nodegroup default-worker to go").await?;
        let_go().await?;
    }
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 1 && names(&management) == [second.clone()], "{complete}");
    world.finish().await
}

/// Cluster API does not know whose wish a mark is: of two that are marked it takes either.
#[tokio::test]
async fn a_machine_that_an_earlier_request_has_left_marked_does_not_go_for_the_one_that_is_named() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    // Helm of the earlier one could be under way for so long.
    environment.insert("OS_OPERATIONS__SETTLE_SECONDS".into(), "1".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo().at("1.10");
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let [first, second] = two(&management)?;
    let mark = json!({"cluster.x-k8s.io/delete-machine": "true", "magnum.openstack.org/delete-machine-by": "another"});
    ensure!(management.cluster.change("Machine", &first, &json!({"metadata": {"annotations": mark}})) == 1, "{first} is not there");
    let body = json!({"node_count": 1, "nodes_to_remove": [second]});
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &body).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let left = workers(&management);
    ensure!(left.len() == 1 && text(&left[0]["metadata"], "name") == first, "{left:#?}");
    ensure!(mark.as_object().context("marks")?.keys().all(|key| left[0]["metadata"]["annotations"][key].is_null()), "{left:#?}");
    world.finish().await
}

/// Whoever runs helm next does again what was cut off, and its nodes go: those that were named for it.
#[tokio::test]
async fn a_named_node_goes_also_where_the_next_operation_is_about_another_group() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_CAPI_HELM__HELM_DEADLINE_SECONDS".into(), "15".into());
    environment.insert("OS_OPERATIONS__SETTLE_SECONDS".into(), "1".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo().at("1.14");
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    // Of machines that nobody has marked the newest goes.
    let [oldest, newest] = workers(&management).try_into().map_err(|all| anyhow::anyhow!("not two workers: {all:?}"))?;
    let [oldest, newest] = [oldest, newest].map(|machine: Value| text(&machine["metadata"], "name"));

    cut_off_resize(&world, &management, &cluster, &json!({"node_count": 1, "nodes_to_remove": [oldest]})).await?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/cancel"), &json!({})).await?.expect(202)?;
    world.cloud.let_go();
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(names(&management).len() == 2 && replicas(&management, "MachineDeployment", "-default-worker")? == 2);

    let group = json!({"name": "big", "node_count": 1, "flavor_id": "m1.medium"});
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    group_is(&demo, &cluster, "big", "CREATE_COMPLETE").await?;
    ensure!(names(&management) == [newest.clone()], "{oldest} was to go: {:?}", names(&management));
    world.finish().await
}

/// It would be marked, and go whenever the autoscaler takes another one away.
#[tokio::test]
async fn no_node_is_named_of_a_group_whose_size_is_its_autoscalers() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo().at("1.14");
    let scaled = demo.post("/v1/clustertemplates", &template("blue-template")).await?.expect(201)?.uuid()?;
    let mut body = client::cluster("blue", &scaled);
    body["labels"] = json!({"auto_scaling_enabled": "true", "max_node_count": "6"});
    body["node_count"] = json!(3);
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let named = names(&management).pop().context("a worker")?;
    let body = json!({"node_count": 2, "nodes_to_remove": [named]});
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &body).await?.expect(202)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    let reason = text(&failed, "status_reason");
    ensure!(reason.contains("nodes_to_remove: the size of nodegroup default-worker is its autoscaler's to say"), "{reason}");
    let marks = |machine: &Value| machine["metadata"]["annotations"]["cluster.x-k8s.io/delete-machine"].is_string();
    ensure!(!workers(&management).iter().any(marks), "{:#?}", workers(&management));
    world.finish().await
}
