//! Members of groups that do not become nodes.

use cloud_simulator::Mishap;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, cluster, text};

const NODE: &str = "
heat_template_version: queens
parameters:
  name: {type: string}
  network: {type: string}
resources:
  handle: {type: OS::Heat::WaitConditionHandle}
  ready: {type: OS::Heat::WaitCondition, properties: {handle: {get_resource: handle}, timeout: 60}}
  server: {type: OS::Nova::Server, properties: {name: {get_param: name}}}
";

/// A stack that is being made until stacks are not held any more: its path and its id.
async fn begin(world: &World, demo: &str) -> (String, String) {
    world.cloud.hold_stacks(true);
    let mut body = cluster("one");
    body["files"]["node.yaml"] = json!(NODE);
    let (status, made) = world.post(&world.stacks_path(), demo, body).await;
    assert_eq!(status, 201, "{made}");
    let id = text(&made["stack"]["id"]);
    (format!("{}/one/{id}", world.stacks_path()), id)
}

/// Asks the stack for this and waits until it has this status.
async fn change(world: &World, demo: &str, path: &str, body: Value, status: &str) -> Value {
    let answer = world.send(Method::PATCH, path, demo, Some(body)).await.expect("an answer");
    assert_eq!(answer.status(), 202);
    world.until_status(path, demo, status).await
}

/// Says in the place of the second worker that all is well.
async fn excuse(world: &World, demo: &str, path: &str) {
    let (_, body) = world.get(&format!("{path}/resources?nested_depth=2"), demo).await;
    let is_it = |r: &&Value| r["resource_name"] == "handle" && r["parent_resource"] == "1";
    let handle = body["resources"].as_array().expect("resources").iter().find(is_it).expect("its handle");
    let links = handle["links"].as_array().expect("links");
    let href = text(&links.iter().find(|link| link["rel"] == "stack").expect("its stack")["href"]);
    let path = href.strip_prefix(&world.url("")).expect("of this cloud");
    let said = json!({"id": "kube_minions/1", "status": "SUCCESS", "reason": "", "data": "replaced"});
    assert_eq!(world.post(&format!("{path}/resources/handle/signal"), demo, said).await.0, 200);
}

#[tokio::test]
async fn a_stack_fails_at_a_member_that_is_no_node_until_it_is_told_not_to_wait_for_it() {
    for (mishap, reason) in [(Mishap::Says("absent".to_owned()), "kubeadm join failed"), (Mishap::Silent, "0 of 1 received")] {
        let world = World::quick().await;
        let demo = world.cloud.token_for("demo", "demo");
        let (path, id) = begin(&world, &demo).await;
        assert_eq!(world.cloud.awaited_members(&id), ["kube_masters/0", "kube_minions/0", "kube_minions/1"]);
        assert!(!world.cloud.spoil_member(&id, "kube_minions/2", mishap.clone()), "there is none");
        assert!(world.cloud.spoil_member(&id, "kube_minions/1", mishap.clone()));
        world.cloud.hold_stacks(false);
        let failed = world.until_status(&path, &demo, "CREATE_FAILED").await;
        assert!(text(&failed["stack_status_reason"]).contains(reason), "{failed}");
        assert_eq!(world.cloud.awaited_members(&id), Vec::<String>::new());

        change(&world, &demo, &path, json!({}), "UPDATE_FAILED").await;
        excuse(&world, &demo, &path).await;
        change(&world, &demo, &path, json!({}), "UPDATE_COMPLETE").await;
        assert_eq!(world.cloud.spoiled_members(&id), [("kube_minions/1".to_owned(), mishap)], "it is none for all that");
        change(&world, &demo, &path, json!({"parameters": {"minions_to_remove": ["1"]}}), "UPDATE_COMPLETE").await;
        assert!(world.cloud.spoiled_members(&id).is_empty());
    }
}

#[tokio::test]
async fn whoever_says_nothing_is_given_up_when_another_has_failed() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let (path, id) = begin(&world, &demo).await;
    assert!(world.cloud.spoil_member(&id, "kube_minions/0", Mishap::Silent));
    assert!(world.cloud.spoil_member(&id, "kube_minions/1", Mishap::Says("absent".to_owned())));
    world.cloud.hold_stacks(false);
    world.until_status(&path, &demo, "CREATE_FAILED").await;
    // What was said fails it at once, long before the time of the other is over.
    world.cloud.hold_stacks(true);
    let failed = change(&world, &demo, &path, json!({}), "UPDATE_FAILED").await;
    assert!(text(&failed["stack_status_reason"]).contains("kubeadm join failed"), "{failed}");
    let (_, body) = world.get(&format!("{path}/resources?nested_depth=2&name=ready"), &demo).await;
    let statuses: Vec<String> = body["resources"].as_array().expect("resources").iter().map(|r| text(&r["resource_status"])).collect();
    assert_eq!(statuses, ["CREATE_COMPLETE", "CREATE_FAILED", "CREATE_FAILED"]);
}

#[tokio::test]
async fn a_member_without_a_machine_has_one_the_next_time_and_nobody_waits_for_it_before() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let (path, id) = begin(&world, &demo).await;
    assert!(world.cloud.spoil_member(&id, "kube_minions/1", Mishap::NoServer));
    world.cloud.hold_stacks(false);
    let failed = world.until_status(&path, &demo, "CREATE_FAILED").await;
    assert!(text(&failed["stack_status_reason"]).contains("No valid host"), "{failed}");
    let (_, body) = world.get(&format!("{path}/resources?nested_depth=2"), &demo).await;
    let status = |name: &str| {
        let is_it = |r: &&Value| r["resource_name"] == name && r["parent_resource"] == "1";
        text(&body["resources"].as_array().expect("resources").iter().find(is_it).expect("it")["resource_status"])
    };
    assert_eq!((status("server").as_str(), status("ready").as_str()), ("CREATE_FAILED", "INIT_COMPLETE"));
    assert!(world.cloud.spoiled_members(&id).is_empty());
    change(&world, &demo, &path, json!({}), "UPDATE_COMPLETE").await;
}

#[tokio::test]
async fn a_number_that_comes_again_after_a_rollback_is_of_a_member_that_has_said_nothing() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let (path, id) = begin(&world, &demo).await;
    world.cloud.hold_stacks(false);
    world.until_status(&path, &demo, "CREATE_COMPLETE").await;
    world.cloud.hold_stacks(true);
    let more = json!({"parameters": {"number_of_minions": 4}, "disable_rollback": false});
    assert_eq!(world.send(Method::PATCH, &path, &demo, Some(more.clone())).await.expect("an answer").status(), 202);
    for member in ["kube_minions/2", "kube_minions/3"] {
        assert!(world.cloud.spoil_member(&id, member, Mishap::Says("absent".to_owned())), "{member}");
    }
    world.cloud.hold_stacks(false);
    world.until_status(&path, &demo, "ROLLBACK_COMPLETE").await;
    assert!(world.cloud.spoiled_members(&id).is_empty());
    change(&world, &demo, &path, more, "UPDATE_COMPLETE").await;
}
