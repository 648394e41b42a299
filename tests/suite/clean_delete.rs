//! Deletion takes with it what Kubernetes made: load balancers, floating IPs and, where the label says so, volumes. What is not recognisably
//! the cluster's stays, and the last event tells what became of each.

use anyhow::{Context, Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use cloud_simulator::{Fault, How, NewLoadBalancer};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// A cluster of its own name; with it, its stack.
pub(crate) async fn cluster(world: &World, client: &Client, name: &str, labels: &Value) -> Result<(String, String)> {
    let template = client.create_template(&format!("template-of-{name}")).await?;
    let mut body = tests::client::cluster(name, &template);
    body["labels"] = labels.clone();
    let answer = client.post("/v1/clusters", &body).await?.expect(202)?;
    let cluster = answer.uuid()?;
    let complete = client.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    Ok((cluster, text(&complete, "stack_id")))
}

/// A service of type LoadBalancer: its load balancer on the network of the stack, and the floating IP of that.
fn service(world: &World, cluster: &str, stack: &str, name: &str) -> (String, String) {
    let project = world.cloud.project_id("demo");
    let balancer = world.cloud.add_load_balancer(NewLoadBalancer {
        project: project.clone(),
        name: format!("kube_service_{cluster}_default_{name}"),
        description: format!("Kubernetes external service default/{name} from cluster {cluster}"),
        tags: Vec::new(),
        stack: Some(stack.to_owned()),
    });
    let text = format!("Floating IP for Kubernetes external service default/{name} from cluster {cluster}");
    let address = world.cloud.add_floating_ip(&project, &text, Some(&balancer));
    (balancer, address)
}

fn volume(world: &World, cluster: &str, name: &str, stack: Option<&str>) -> String {
    let metadata = json!({"cinder.csi.openstack.org/cluster": cluster});
    world.cloud.add_volume(&world.cloud.project_id("demo"), name, metadata, stack)
}

/// The report of a deletion.
async fn report(client: &Client, cluster: &str) -> Result<Value> {
    let body = client.get(&format!("/v1/clusters/{cluster}/events?limit=1000")).await?.expect(200)?.body;
    let events = body["events"].as_array().context("a list")?;
    let mut reports = events.iter().filter(|event| event["kind"] == "leak_report");
    let report = reports.next().with_context(|| format!("no report: {body}"))?.clone();
    ensure!(reports.next().is_none(), "{body}");
    Ok(report)
}

/// Kind and id of the things in one list of a report.
fn things(report: &Value, list: &str) -> Vec<(String, String)> {
    let things = report[list].as_array().cloned().unwrap_or_default();
    things.iter().map(|thing| (text(thing, "kind"), text(thing, "id"))).collect()
}

fn has(report: &Value, list: &str, kind: &str, id: &str) -> bool {
    things(report, list).iter().any(|thing| *thing == (kind.to_owned(), id.to_owned()))
}

async fn deleted(client: &Client, cluster: &str) -> Result<Value> {
    client.delete_cluster(cluster).await?;
    client.wait_gone(cluster, PATIENCE).await?;
    report(client, cluster).await
}

/// Waits until the reason of the cluster's status says something.
async fn says(client: &Client, cluster: &str, words: &str) -> Result<()> {
    wait::until(words, PATIENCE, async || {
        let reason = text(&client.cluster(cluster).await?, "status_reason");
        Ok(Seen::when(reason.contains(words), || reason))
    })
    .await
}

#[rstest]
#[tokio::test]
async fn what_kubernetes_made_goes_with_its_cluster_and_nothing_else_does(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let (ours, stack) = cluster(&world, &demo, "blue", &json!({"delete_volumes": "true"})).await?;
    let (other, other_stack) = cluster(&world, &demo, "green", &json!({"delete_volumes": "true"})).await?;
    let (balancer, address) = service(&world, &ours, &stack, "web");
    let (second, _) = service(&world, &ours, &stack, "api");
    let data = volume(&world, &ours, "pvc-1", Some(&stack));
    let (others_balancer, others_address) = service(&world, &other, &other_stack, "web");
    let others_data = volume(&world, &other, "pvc-1", Some(&other_stack));
    // Made by hand, or by a cluster that we know nothing of.
    let project = world.cloud.project_id("demo");
    let by_hand = world.cloud.add_floating_ip(&project, &format!("of {ours}"), None);
    let namesake = world.cloud.add_load_balancer(NewLoadBalancer {
        project: project.clone(),
        name: "kube_service_blue_default_web".to_owned(),
        description: "Kubernetes external service default/web from cluster blue".to_owned(),
        ..NewLoadBalancer::default()
    });
    let plain = world.cloud.add_volume(&project, "mine", json!({}), None);

    let told = deleted(&demo, &ours).await?;
    for (kind, id) in [
        ("octavia_load_balancer", &balancer),
        ("octavia_load_balancer", &second),
        ("neutron_floating_ip", &address),
        ("cinder_volume", &data),
    ] {
        ensure!(has(&told, "removed", kind, id), "{kind} {id} in {told}");
    }
    for kind in ["heat_stack", "keystone_trust", "keystone_user", "stack_owner", "nova_keypair"] {
        ensure!(things(&told, "removed").iter().any(|(own, _)| own == kind), "{kind} in {told}");
    }
    ensure!(things(&told, "gone").is_empty(), "{told}");
    ensure!(things(&told, "leaks") == [("octavia_load_balancer".to_owned(), namesake.clone())], "{told}");
    let left = world.cloud.leftovers(Some(&project)).join("\n");
    for id in [&others_balancer, &others_address, &others_data, &by_hand, &namesake, &plain] {
        ensure!(left.contains(id.as_str()), "{id} is gone: {left}");
    }
    for id in [&balancer, &second, &address, &data] {
        ensure!(!left.contains(id.as_str()), "{id} is there: {left}");
    }
    // The stack could not have gone otherwise, and was asked for once.
    ensure!(world.cloud.calls("heat.stack_delete") == 1, "{}", world.cloud.calls("heat.stack_delete"));
    let told = deleted(&demo, &other).await?;
    ensure!(has(&told, "removed", "octavia_load_balancer", &others_balancer), "{told}");
    ensure!(world.cloud.remove_floating_ip(&by_hand) && world.cloud.remove_load_balancer(&namesake) && world.cloud.remove_volume(&plain));
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn volumes_stay_unless_the_label_says_otherwise_and_are_named(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let data = volume(&world, &cluster, "pvc-1", Some(&stack));
    let told = deleted(&demo, &cluster).await?;
    ensure!(things(&told, "leaks") == [("cinder_volume".to_owned(), data.clone())], "{told}");
    ensure!(text(&told["leaks"][0], "reason").contains("delete_volumes"), "{told}");
    ensure!(text(&told["leaks"][0], "name").contains("pvc-1"), "{told}");
    ensure!(world.cloud.calls("cinder.volume_delete") == 0);
    ensure!(world.cloud.remove_volume(&data));
    world.finish().await
}

/// How a deletion comes to volumes that the one before it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// It looks for them.
    Looking,
    /// Cinder answers nobody, and it cannot be told which there are.
    InVain,
    /// It touches nothing.
    Abandoning,
}

/// The stack is gone, so nothing but the inventory says that there was a cluster that may have made any.
#[rstest]
#[tokio::test]
async fn volumes_are_told_by_the_deletion_after_the_one_that_saw_the_stack_go(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
    #[values(After::Looking, After::InVain, After::Abandoning)] after: After,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let data = volume(&world, &cluster, "pvc-1", Some(&stack));
    world.cloud.inject(Fault { at: "cinder.volume_list".to_owned(), nth: 1, how: How::Hold });
    demo.delete_cluster(&cluster).await?;
    wait::until("the look for volumes", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "not yet".to_owned()))).await?;
    ensure!(world.cloud.stacks().is_empty(), "{:?}", world.cloud.stacks());
    if after == After::InVain {
        world.cloud.inject(Fault { at: "cinder.volume_list".to_owned(), nth: 0, how: How::Status(403, "not you".to_owned()) });
    }
    let action = if after == After::Abandoning { "abandon" } else { "force-delete" };
    admin.post(&format!("/v1/clusters/{cluster}/actions/{action}"), &json!({})).await?.expect(202)?;
    world.cloud.let_go();
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = report(&demo, &cluster).await?;
    if after == After::Looking {
        ensure!(things(&told, "leaks") == [("cinder_volume".to_owned(), data.clone())], "{told}");
    } else {
        ensure!(things(&told, "leaks") == [("cinder_volume".to_owned(), String::new())], "{told}");
    }
    ensure!(world.cloud.remove_volume(&data));
    world.finish().await
}

#[tokio::test]
async fn a_load_balancer_of_a_namesake_goes_when_it_is_on_the_clusters_own_network() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let (balancer, address) = service(&world, "blue", &stack, "web");
    let told = deleted(&demo, &cluster).await?;
    ensure!(has(&told, "removed", "octavia_load_balancer", &balancer), "{told}");
    ensure!(has(&told, "removed", "neutron_floating_ip", &address), "{told}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_load_balancer_that_is_being_changed_is_waited_for_and_one_in_error_is_deleted(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let (balancer, _) = service(&world, &cluster, &stack, "web");
    ensure!(world.cloud.set_load_balancer_status(&balancer, "PENDING_UPDATE"));
    demo.delete_cluster(&cluster).await?;
    says(&demo, &cluster, "PENDING_UPDATE").await?;
    ensure!(world.cloud.calls("octavia.loadbalancer_delete") == 0 && world.cloud.calls("heat.stack_delete") == 0);
    // Its deletion fails as well, at first.
    world.cloud.fail_load_balancer_deletions(1);
    ensure!(world.cloud.set_load_balancer_status(&balancer, "ERROR"));
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.calls("octavia.loadbalancer_delete") == 2);
    let told = report(&demo, &cluster).await?;
    ensure!(has(&told, "removed", "octavia_load_balancer", &balancer), "{told}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_load_balancer_that_cannot_be_deleted_fails_the_deletion_and_a_forced_one_names_it(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let (balancer, address) = service(&world, &cluster, &stack, "web");
    let data = volume(&world, &cluster, "pvc-1", Some(&stack));
    world.cloud.fail_load_balancer_deletions(1000);
    demo.delete_cluster(&cluster).await?;
    let failed = demo.wait_for(&cluster, "DELETE_FAILED", PATIENCE).await?;
    let reason = text(&failed, "status_reason");
    ensure!(reason.contains("octavia") && reason.contains(&balancer) && reason.contains("ERROR"), "{reason}");
    ensure!(world.cloud.calls("heat.stack_delete") == 0, "the stack was not to be touched");
    admin.post(&format!("/v1/clusters/{cluster}/actions/force-delete"), &json!({})).await?.expect(202)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = report(&demo, &cluster).await?;
    for (kind, id) in [
        ("octavia_load_balancer", &balancer),
        ("neutron_floating_ip", &address),
        ("heat_stack", &stack),
        // That load balancers stay keeps nobody from looking for volumes.
        ("cinder_volume", &data),
    ] {
        ensure!(has(&told, "leaks", kind, id), "{kind} {id} in {told}");
    }
    ensure!(world.cloud.remove_load_balancer(&balancer) && world.cloud.remove_floating_ip(&address) && world.cloud.remove_stack(&stack));
    ensure!(world.cloud.remove_volume(&data));
    // Who owns a stack that is left is left, too.
    let owner = things(&told, "leaks").into_iter().find(|(kind, _)| kind == "stack_owner").context("no owner of the stack")?.1;
    ensure!(world.cloud.remove_user_with_keys(&owner));
    world.finish().await
}

#[tokio::test]
async fn load_balancers_that_do_not_go_fail_the_deletion_when_their_time_is_up() -> Result<()> {
    let environment = [("OS_CLUSTER__PRE_DELETE_LB_TIMEOUT".to_owned(), "1".to_owned())].into();
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let (balancer, _) = service(&world, &cluster, &stack, "web");
    ensure!(world.cloud.set_load_balancer_status(&balancer, "PENDING_UPDATE"));
    demo.delete_cluster(&cluster).await?;
    let failed = demo.wait_for(&cluster, "DELETE_FAILED", PATIENCE).await?;
    let reason = text(&failed, "status_reason");
    ensure!(reason.contains("within 1 seconds") && reason.contains("PENDING_UPDATE"), "{reason}");
    // Another deletion finds what the inventory knows already, and waits no longer.
    demo.delete_cluster(&cluster).await?;
    wait::until("the second deletion to fail", PATIENCE, async || {
        let body = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
        let failed = body["operations"].as_array().context("a list")?.iter().filter(|operation| operation["state"] == "FAILED").count();
        Ok(Seen::when(failed == 2, || body.to_string()))
    })
    .await?;
    ensure!(world.cloud.set_load_balancer_status(&balancer, "ACTIVE"));
    world.finish().await
}

/// The events of one kind, with their times.
async fn told(client: &Client, cluster: &str, kind: &str) -> Result<Vec<DateTime<Utc>>> {
    let body = client.get(&format!("/v1/clusters/{cluster}/events?limit=1000")).await?.expect(200)?.body;
    let events = body["events"].as_array().context("a list")?.iter().filter(|event| event["kind"] == kind);
    events.map(|event| Ok(DateTime::parse_from_rfc3339(&text(event, "at"))?.to_utc())).collect()
}

/// Waits until an event of a kind is older than load balancers may take to go.
async fn is_past(client: &Client, cluster: &str, kind: &str, longest: TimeDelta) -> Result<()> {
    wait::until(kind, PATIENCE, async || {
        let at = told(client, cluster, kind).await?;
        Ok(Seen::when(at.first().is_some_and(|at| Utc::now() - *at > longest), || format!("{at:?}")))
    })
    .await
}

/// The time of load balancers counts from when there is nothing to do but wait for them.
#[tokio::test]
async fn the_time_that_octavia_is_away_is_not_that_of_load_balancers() -> Result<()> {
    let environment = [("OS_CLUSTER__PRE_DELETE_LB_TIMEOUT".to_owned(), "2".to_owned())].into();
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let (balancer, _) = service(&world, &cluster, &stack, "web");
    let how = How::Status(503, "out of order".to_owned());
    world.cloud.inject(Fault { at: "octavia.loadbalancer_delete".to_owned(), nth: 0, how: how.clone() });
    demo.delete_cluster(&cluster).await?;
    is_past(&demo, &cluster, "remove", TimeDelta::milliseconds(2500)).await?;
    // Then Heat is, while Kubernetes, which nobody has stopped, makes another one.
    world.cloud.inject(Fault { at: "heat.stack_delete".to_owned(), nth: 0, how });
    world.cloud.clear_faults_at("octavia.loadbalancer_delete");
    is_past(&demo, &cluster, "load_balancers_gone", TimeDelta::milliseconds(2500)).await?;
    let (late, _) = service(&world, &cluster, &stack, "late");
    ensure!(world.cloud.set_load_balancer_status(&late, "PENDING_CREATE"));
    wait::until("a wait for each of them", PATIENCE, async || {
        let waits = told(&demo, &cluster, "load_balancers_awaited").await?;
        Ok(Seen::when(waits.len() == 2, || format!("{waits:?}")))
    })
    .await?;
    ensure!(world.cloud.set_load_balancer_status(&late, "ACTIVE"));
    world.cloud.clear_faults();
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = report(&demo, &cluster).await?;
    ensure!(has(&told, "removed", "octavia_load_balancer", &balancer), "{told}");
    ensure!(has(&told, "removed", "octavia_load_balancer", &late), "{told}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn the_deletion_waits_for_octavia_and_says_so(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let (balancer, _) = service(&world, &cluster, &stack, "web");
    world.cloud.inject(Fault { at: "octavia.any".to_owned(), nth: 0, how: How::Status(503, "out of order".to_owned()) });
    demo.delete_cluster(&cluster).await?;
    says(&demo, &cluster, "octavia load_balancer_list: 503 Service Unavailable: out of order").await?;
    ensure!(world.cloud.calls("heat.stack_delete") == 0, "the stack was not to be touched");
    world.cloud.clear_faults();
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = report(&demo, &cluster).await?;
    ensure!(has(&told, "removed", "octavia_load_balancer", &balancer), "{told}");
    world.finish().await
}

#[tokio::test]
async fn a_cloud_without_octavia_and_cinder_needs_neither() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let (cluster, _) = cluster(&world, &demo, "blue", &json!({"delete_volumes": "true"})).await?;
    for service in ["load-balancer", "volumev3", "block-storage"] {
        world.cloud.withdraw_service(service);
    }
    let told = deleted(&demo, &cluster).await?;
    ensure!(things(&told, "leaks").is_empty() && world.cloud.calls("octavia.any") == 0 && world.cloud.calls("cinder.volume_list") == 0);
    world.finish().await
}

#[tokio::test]
async fn a_creator_whom_octavia_refuses_does_not_keep_the_cluster() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let (balancer, _) = service(&world, &cluster, &stack, "web");
    let how = How::Status(403, "Policy does not allow this request to be performed.".to_owned());
    world.cloud.inject(Fault { at: "octavia.loadbalancer_list".to_owned(), nth: 1, how });
    let told = deleted(&demo, &cluster).await?;
    ensure!(has(&told, "removed", "octavia_load_balancer", &balancer), "{told}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_cluster_goes_when_its_creator_is_gone(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
    #[values(false, true)] has_stack_owner: bool,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    if !has_stack_owner {
        let how = How::Status(403, "You are not authorized to perform the requested action: identity:create_grant.".to_owned());
        world.cloud.inject(Fault { at: "keystone.role_grant".to_owned(), nth: 0, how });
    }
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({"delete_volumes": "true"})).await?;
    let (balancer, address) = service(&world, &cluster, &stack, "web");
    let data = volume(&world, &cluster, "pvc-1", Some(&stack));
    ensure!(world.cloud.remove_user("demo"));
    // Somebody of another project: the stacks' owner can do it, or the service itself.
    let told = deleted(&admin, &cluster).await?;
    for (kind, id) in [("octavia_load_balancer", &balancer), ("neutron_floating_ip", &address), ("cinder_volume", &data)] {
        ensure!(has(&told, "removed", kind, id), "{kind} {id} in {told}");
    }
    ensure!(things(&told, "gone").iter().any(|(kind, _)| kind == "keystone_trust"), "{told}");
    ensure!(things(&told, "leaks").is_empty(), "{told}");
    world.finish().await
}

/// Nobody can log in to it any more: neither its members nor the owner of the stacks, nor anybody through the trust.
#[rstest]
#[tokio::test]
async fn a_cluster_goes_when_its_project_is_gone(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({"delete_volumes": "true"})).await?;
    let (balancer, address) = service(&world, &cluster, &stack, "web");
    let data = volume(&world, &cluster, "pvc-1", Some(&stack));
    ensure!(world.cloud.remove_project("demo"));
    let told = deleted(&admin, &cluster).await?;
    for (kind, id) in [("octavia_load_balancer", &balancer), ("neutron_floating_ip", &address), ("cinder_volume", &data)] {
        ensure!(has(&told, "removed", kind, id), "{kind} {id} in {told}");
    }
    ensure!(things(&told, "leaks").is_empty(), "{told}");
    world.finish().await
}

/// An admin in another project than that of admins is none to the services: they would tell it that there is nothing to remove.
#[tokio::test]
async fn the_service_removes_nothing_itself_where_it_is_no_admin_of_the_cloud() -> Result<()> {
    let mut world = World::start(Mix::Distributed, Options { apis: 1, conductors: 0, ..Options::default() }).await?;
    world.cloud.set_admin_project(Some("admin"));
    world.start_conductor()?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let (cluster, _) = cluster(&world, &demo, "blue", &json!({})).await?;
    ensure!(world.cloud.remove_project("demo"));
    admin.delete_cluster(&cluster).await?;
    let failed = admin.wait_for(&cluster, "DELETE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("nor may the cluster service act itself"), "{failed}");
    ensure!(world.cloud.calls("heat.stack_delete") == 0, "it has removed a stack");
    // Tokens live for an hour, and what they say with them: another process has a new one.
    world.cloud.set_admin_project(None);
    world.terminate("conductor-1")?;
    world.start_conductor()?;
    let told = deleted(&admin, &cluster).await?;
    ensure!(things(&told, "leaks").is_empty(), "{told}");
    world.finish().await
}

#[tokio::test]
async fn what_somebody_else_removed_meanwhile_is_told_as_gone() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let (balancer, address) = service(&world, &cluster, &stack, "web");
    ensure!(world.cloud.set_load_balancer_status(&balancer, "PENDING_UPDATE"));
    demo.delete_cluster(&cluster).await?;
    says(&demo, &cluster, "PENDING_UPDATE").await?;
    ensure!(world.cloud.remove_load_balancer(&balancer) && world.cloud.remove_floating_ip(&address) && world.cloud.remove_stack(&stack));
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = report(&demo, &cluster).await?;
    for (kind, id) in [("octavia_load_balancer", &balancer), ("neutron_floating_ip", &address), ("heat_stack", &stack)] {
        ensure!(has(&told, "gone", kind, id), "{kind} {id} in {told}");
    }
    world.finish().await
}

/// Volumes: of one there is a snapshot. Load balancers: one does not come to an end of what is done with it.
#[tokio::test]
async fn what_cannot_be_removed_keeps_nothing_else() -> Result<()> {
    let environment = [("OS_CLUSTER__PRE_DELETE_LB_TIMEOUT".to_owned(), "1".to_owned())].into();
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let (demo, project) = (world.demo(), world.cloud.project_id("demo"));
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({"delete_volumes": "true"})).await?;
    let kept = ["pvc-1", "pvc-2", "pvc-3"].map(|name| volume(&world, &cluster, name, Some(&stack)));
    ensure!(world.cloud.set_snapshot(&kept[0], true));
    let (first, first_address) = service(&world, &cluster, &stack, "first");
    let (second, second_address) = service(&world, &cluster, &stack, "second");
    ensure!(world.cloud.set_load_balancer_status(&first, "PENDING_UPDATE"));
    let there = |ids: &[&String]| {
        let left = world.cloud.leftovers(Some(&project)).join("\n");
        ids.iter().map(|id| left.contains(id.as_str())).collect::<Vec<_>>()
    };

    demo.delete_cluster(&cluster).await?;
    let failed = demo.wait_for(&cluster, "DELETE_FAILED", PATIENCE).await?;
    let reason = text(&failed, "status_reason");
    ensure!(reason.contains("within 1 seconds") && reason.contains(&first), "{reason}");
    ensure!(there(&[&first, &first_address, &second, &second_address]) == [true, true, false, false], "{reason}");

    ensure!(world.cloud.set_load_balancer_status(&first, "ACTIVE"));
    demo.delete_cluster(&cluster).await?;
    says(&demo, &cluster, "have snapshots").await?;
    let failed = demo.wait_for(&cluster, "DELETE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("cinder"), "{failed}");
    ensure!(there(&[&kept[0], &kept[1], &kept[2], &first, &first_address]) == [true, false, false, false, false], "{failed}");

    world.user("admin", "admin").post(&format!("/v1/clusters/{cluster}/actions/force-delete"), &json!({})).await?.expect(202)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = report(&demo, &cluster).await?;
    ensure!(things(&told, "leaks") == [("cinder_volume".to_owned(), kept[0].clone())], "{told}");
    ensure!(world.cloud.remove_volume(&kept[0]));
    world.finish().await
}

/// A load balancer that a user made and has a service use; one that another cluster uses as well; and addresses that were made for this cluster and lead
/// to these by now.
#[tokio::test]
async fn what_others_made_or_use_by_now_is_left_and_told() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let (demo, project) = (world.demo(), world.cloud.project_id("demo"));
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let tag = |cluster: &str| format!("kube_service_{cluster}_default_web");
    let add = |name: &str, tags: &[String], stack: Option<&String>| {
        let (name, tags, stack) = (name.to_owned(), tags.to_vec(), stack.cloned());
        world.cloud.add_load_balancer(NewLoadBalancer { project: project.clone(), name, tags, stack, ..NewLoadBalancer::default() })
    };
    let text = format!("Floating IP for Kubernetes external service default/web from cluster {cluster}");
    let users = add("prod-web", &[tag(&cluster)], None);
    // What has its address on the cluster's own network keeps that there, and goes with it.
    let inside = add("prod-inside", &[tag(&cluster)], Some(&stack));
    let shared = add(&tag(&cluster), &[tag(&cluster), tag("1c1d0f86-0f3e-4d2c-8f9a-2b7f43d9c522")], None);
    let addresses = [&users, &shared].map(|balancer| world.cloud.add_floating_ip(&project, &text, Some(balancer)));
    let detached = world.cloud.add_floating_ip(&project, &text, None);
    let (own, own_address) = service(&world, &cluster, &stack, "api");
    let told = deleted(&demo, &cluster).await?;
    let kept = [("octavia_load_balancer", &users), ("octavia_load_balancer", &shared)];
    for (kind, id) in kept.into_iter().chain(addresses.iter().map(|id| ("neutron_floating_ip", id))) {
        ensure!(has(&told, "leaks", kind, id), "{kind} {id} in {told}");
    }
    let went = [
        ("octavia_load_balancer", &own),
        ("octavia_load_balancer", &inside),
        ("neutron_floating_ip", &own_address),
        ("neutron_floating_ip", &detached),
    ];
    for (kind, id) in went {
        ensure!(has(&told, "removed", kind, id), "{kind} {id} in {told}");
    }
    let left = world.cloud.leftovers(Some(&project)).join("\n");
    for id in [&users, &shared].into_iter().chain(&addresses) {
        ensure!(left.contains(id.as_str()), "{id} is gone: {left}");
    }
    ensure!(addresses.iter().all(|id| world.cloud.remove_floating_ip(id)));
    ensure!(world.cloud.remove_load_balancer(&users) && world.cloud.remove_load_balancer(&shared));
    world.finish().await
}

/// The user's own subnet does not go with the cluster, whatever its stack tells: those of earlier releases tell it among what they made.
#[tokio::test]
async fn a_load_balancer_on_a_subnet_that_the_user_gave_is_left() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let (demo, project) = (world.demo(), world.cloud.project_id("demo"));
    let (cluster, stack) = cluster(&world, &demo, "blue", &json!({})).await?;
    let sql = format!("UPDATE cluster SET fixed_network = 'mine', fixed_subnet = 'mine' WHERE uuid = '{cluster}'");
    world.database()?.execute(&sql, Vec::new()).await?;
    let tags = vec![format!("kube_service_{cluster}_default_web")];
    let new =
        NewLoadBalancer { project: project.clone(), name: "prod-web".to_owned(), tags, stack: Some(stack), ..NewLoadBalancer::default() };
    let users = world.cloud.add_load_balancer(new);
    demo.delete_cluster(&cluster).await?;
    // The simulator's stack has made the subnet, and cannot go before.
    demo.wait_for(&cluster, "DELETE_FAILED", PATIENCE).await?;
    ensure!(world.cloud.leftovers(Some(&project)).join("\n").contains(&users), "{users} is gone");
    ensure!(world.cloud.remove_load_balancer(&users));
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Until its last server has gone Kubernetes makes load balancers, and on a network that was given they keep no stack from going.
#[tokio::test]
async fn what_kubernetes_makes_while_its_stack_goes_is_removed() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let (cluster, _) = cluster(&world, &demo, "blue", &json!({})).await?;
    world.cloud.hold_stacks(true);
    demo.delete_cluster(&cluster).await?;
    wait::until("the look after the request to delete the stack", PATIENCE, async || {
        let looks = told(&demo, &cluster, "load_balancers_gone").await?.len();
        Ok(Seen::when(looks == 2, || format!("{looks} looks")))
    })
    .await?;
    let late = world.cloud.add_load_balancer(NewLoadBalancer {
        project: world.cloud.project_id("demo"),
        name: format!("kube_service_{cluster}_default_late"),
        description: format!("Kubernetes external service default/late from cluster {cluster}"),
        tags: Vec::new(),
        stack: None,
    });
    world.cloud.hold_stacks(false);
    demo.wait_gone(&cluster, PATIENCE).await?;
    let told = report(&demo, &cluster).await?;
    ensure!(has(&told, "removed", "octavia_load_balancer", &late), "{told}");
    world.finish().await
}
