//! The life of a stack.

use std::time::{Duration, Instant};

use cloud_simulator::StackCopy;
use reqwest::{Method, redirect::Policy};
use serde_json::{Value, json};

use crate::world::{World, cluster, text};

#[tokio::test]
async fn a_stack_progresses_resource_by_resource_and_completes() {
    let world = World::new(Duration::from_millis(600)).await;
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    // However seldom it is looked at: it is found at each of these.
    let stages = [Some(1), Some(2), Some(5), None];
    world.cloud.hold_stacks_at(1);
    let (status, made) = world.post(&stacks, &demo, cluster("one")).await;
    assert_eq!(status, 201, "{made}");
    let path = format!("{stacks}/one/{}", text(&made["stack"]["id"]));

    let start = Instant::now();
    let mut seen = Vec::new();
    for stage in stages {
        match stage {
            Some(resources) => world.cloud.hold_stacks_at(resources),
            None => world.cloud.hold_stacks(false),
        }
        loop {
            let (done, total) = done(&world, &path, &demo).await;
            if seen.last() != Some(&done) {
                seen.push(done);
            }
            assert!(done <= stage.unwrap_or(total), "{seen:?}");
            if done == stage.unwrap_or(total) {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{seen:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert!(seen.is_sorted() && seen.len() > 3, "{seen:?}");

    let stack = world.until_status(&path, &demo, "CREATE_COMPLETE").await;
    assert_eq!(stack["stack_status_reason"], "Stack CREATE completed successfully");
    assert_eq!(stack["parameters"]["password"], "******");
    let output = |key: &str| -> Value {
        let outputs = stack["outputs"].as_array().expect("outputs");
        outputs.iter().find(|output| output["output_key"] == key).expect("the output")["output_value"].clone()
    };
    assert!(output("api_address").is_string());
    assert_eq!(output("kube_masters").as_array().map(Vec::len), Some(1));
    assert_eq!(output("kube_minions_private").as_array().map(Vec::len), Some(2));
    assert_eq!(output("refs_map").as_object().map(serde_json::Map::len), Some(2));
    let (_, plain) = world.get(&format!("{path}?resolve_outputs=false"), &demo).await;
    assert!(plain["stack"].get("outputs").is_none());
}

#[tokio::test]
async fn what_a_stack_makes_is_in_the_services_and_goes_with_it() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let other = world.cloud.token_for("demo2", "demo2");
    let stacks = world.stacks_path();
    let (_, made) = world.post(&stacks, &demo, cluster("one")).await;
    let id = text(&made["stack"]["id"]);
    world.until_status(&format!("{stacks}/one"), &demo, "CREATE_COMPLETE").await;

    let lists = [
        ("/compute/v2.1/servers/detail", "servers", 3),
        // Three nodes and the load balancer's address.
        ("/network/v2.0/ports", "ports", 4),
        // The cluster's, the project's own, the public one.
        ("/network/v2.0/networks", "networks", 3),
        ("/network/v2.0/security-groups", "security_groups", 1),
        ("/network/v2.0/floatingips", "floatingips", 0),
        ("/load-balancer/v2.0/lbaas/loadbalancers", "loadbalancers", 1),
    ];
    for (path, key, count) in lists {
        assert_eq!(world.get(path, &demo).await.1[key].as_array().map(Vec::len), Some(count), "{path}");
    }
    assert_eq!(world.get("/compute/v2.1/servers", &other).await.1["servers"], json!([]));
    let (_, servers) = world.get("/compute/v2.1/servers", &demo).await;
    assert_eq!(servers["servers"][0]["name"], "one-master-0");
    let left = world.cloud.leftovers(None);
    // Stack, network, security group, load balancer, three ports, three servers, Heat's own trust.
    assert_eq!(left.len(), 11, "{left:#?}");
    assert_eq!(world.cloud.leftovers(Some(&world.cloud.project_id("demo2"))), Vec::<String>::new());

    assert_eq!(world.delete(&format!("{stacks}/one"), &demo).await.0, 204);
    assert_eq!(world.get(&format!("{stacks}/one"), &demo).await.0, 404);
    assert_eq!(world.get(&format!("{stacks}/{id}"), &demo).await.1["stack"]["stack_status"], "DELETE_COMPLETE");
    assert_eq!(world.delete(&format!("{stacks}/one/{id}"), &demo).await.0, 404);
    assert_eq!(world.get("/compute/v2.1/servers", &demo).await.1["servers"], json!([]));
    assert_eq!(world.cloud.leftovers(None), Vec::<String>::new());
    assert_eq!(world.get(&stacks, &demo).await.1["stacks"], json!([]));
    let (_, all) = world.get(&format!("{stacks}?show_deleted=true"), &demo).await;
    assert_eq!(all["stacks"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn things_are_found_by_their_ids_and_stacks_by_names_that_are_free_again() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let other = world.cloud.token_for("demo2", "demo2");
    let stacks = world.stacks_path();
    let (_, made) = world.post(&stacks, &demo, cluster("one")).await;
    let first = text(&made["stack"]["id"]);
    world.until_status(&format!("{stacks}/one"), &demo, "CREATE_COMPLETE").await;

    let (_, servers) = world.get("/compute/v2.1/servers", &demo).await;
    let (_, ports) = world.get("/network/v2.0/ports", &demo).await;
    let nodes = ports["ports"].as_array().into_iter().flatten().filter(|port| port["device_owner"] != "Octavia");
    let [a, b, c] = nodes.map(|port| text(&port["id"])).collect::<Vec<_>>().try_into().expect("a port for each node");
    // Twice the same, one that nobody has, and what is no port.
    let asked = format!("/network/v2.0/ports?id={c}&id={a}&id={c}&id=none&id={}", text(&servers["servers"][0]["id"]));
    let found = async |token: &str| {
        let (_, found) = world.get(&asked, token).await;
        let mut ids: Vec<String> = found["ports"].as_array().into_iter().flatten().map(|port| text(&port["id"])).collect();
        ids.sort();
        ids
    };
    let mut wanted = vec![a.clone(), c.clone()];
    wanted.sort();
    assert_eq!(found(&demo).await, wanted);
    assert_eq!(found(&other).await, Vec::<String>::new());
    assert_eq!(world.get(&format!("/network/v2.0/ports?id={b}"), &demo).await.1["ports"][0]["id"], b);

    let copy = StackCopy { id: "2c0ffee2".into(), name: "two".into(), parameters: Vec::new() };
    assert!(world.cloud.copy_stack("one", vec![copy]));
    assert_eq!(world.get(&format!("{stacks}/two"), &demo).await.1["stack"]["id"], "2c0ffee2");
    assert_eq!(found(&demo).await, wanted, "once each");
    assert_eq!(world.delete(&format!("{stacks}/one"), &demo).await.0, 204);
    assert_eq!(found(&demo).await, wanted, "of the copy");
    assert_eq!(world.delete(&format!("{stacks}/two"), &demo).await.0, 204);
    assert_eq!(found(&demo).await, Vec::<String>::new());

    assert_eq!(world.get(&format!("{stacks}/one"), &demo).await.0, 404);
    let (_, again) = world.post(&stacks, &demo, cluster("one")).await;
    let second = text(&again["stack"]["id"]);
    assert_ne!(first, second);
    assert_eq!(world.get(&format!("{stacks}/one"), &demo).await.1["stack"]["id"], second);
}

#[tokio::test]
async fn a_held_stack_waits_for_the_test() {
    let world = World::quick().await;
    world.cloud.hold_stacks(true);
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    world.post(&stacks, &demo, cluster("one")).await;
    world.post(&stacks, &demo, cluster("two")).await;
    assert!(world.cloud.stacks().iter().all(|stack| stack.status == "CREATE_IN_PROGRESS"));
    assert!(world.cloud.complete_stack("one"));
    assert!(world.cloud.fail_stack("two", "ResourceInError: no valid host"));
    let (_, one) = world.get(&format!("{stacks}/one"), &demo).await;
    assert_eq!(one["stack"]["stack_status"], "CREATE_COMPLETE");
    let (_, two) = world.get(&format!("{stacks}/two"), &demo).await;
    assert_eq!(two["stack"]["stack_status"], "CREATE_FAILED");
    assert_eq!(two["stack"]["stack_status_reason"], "Resource CREATE failed: ResourceInError: no valid host");
    let (_, events) = world.get(&format!("{stacks}/two/events"), &demo).await;
    assert_eq!(events["events"].as_array().and_then(|events| events.last()).expect("an event")["resource_status"], "CREATE_FAILED");

    world.delete(&format!("{stacks}/two"), &demo).await;
    assert_eq!(world.get(&format!("{stacks}/two"), &demo).await.1["stack"]["stack_status"], "DELETE_IN_PROGRESS");
    assert!(world.cloud.complete_stack("two"));
    assert_eq!(world.get(&format!("{stacks}/two"), &demo).await.0, 404);
}

#[tokio::test]
async fn a_stack_that_is_held_at_a_resource_goes_no_further() {
    let world = World::quick().await;
    world.cloud.hold_stacks_at(3);
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    let (_, made) = world.post(&stacks, &demo, cluster("one")).await;
    let path = format!("{stacks}/one/{}", text(&made["stack"]["id"]));
    let (now, total) = done(&world, &path, &demo).await;
    assert_eq!(now, 3, "of {total}");
    world.cloud.hold_stacks_at(1);
    assert_eq!(done(&world, &path, &demo).await, (3, total));
    world.cloud.hold_stacks_at(4);
    assert_eq!(done(&world, &path, &demo).await, (4, total));
    world.cloud.hold_stacks(true);
    assert_eq!(done(&world, &path, &demo).await, (total - 1, total));
    assert_eq!(world.get(&path, &demo).await.1["stack"]["stack_status"], "CREATE_IN_PROGRESS");
    world.cloud.hold_stacks(false);
    assert_eq!(done(&world, &path, &demo).await, (total, total));
    assert_eq!(world.get(&path, &demo).await.1["stack"]["stack_status"], "CREATE_COMPLETE");
}

#[tokio::test]
async fn a_bad_stack_is_refused_as_heat_refuses_it() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    let with = |path: &[&str], value: Value| {
        let mut body = cluster("one");
        let mut place = &mut body;
        for key in path {
            place = &mut place[*key];
        }
        *place = value;
        body
    };
    let unknown_property = "heat_template_version: queens\nparameters: {name: {type: string}}\nresources: {}\n";
    let cases = [
        (with(&["parameters", "surprise"], json!(1)), "UnknownUserParameter"),
        (with(&["parameters"], json!({})), "UserParameterMissing"),
        (with(&["parameters", "number_of_minions"], json!("many")), "StackValidationFailed"),
        (with(&["stack_name"], json!("1 bad")), "StackValidationFailed"),
        (with(&["template"], json!("a: [")), "HTTPBadRequest"),
        (with(&["template"], json!("resources: {}")), "InvalidTemplateVersion"),
        (with(&["files", "node.yaml"], json!(unknown_property)), "StackValidationFailed"),
        (with(&["files"], json!({})), "StackValidationFailed"),
    ];
    for (body, kind) in cases {
        let (status, answer) = world.post(&stacks, &demo, body).await;
        assert_eq!((status.as_u16(), &answer["error"]["type"]), (400, &json!(kind)), "{answer}");
    }
    assert_eq!(world.post(&stacks, &demo, cluster("one")).await.0, 201);
    let (status, answer) = world.post(&stacks, &demo, cluster("one")).await;
    assert_eq!((status.as_u16(), &answer["title"]), (409, &json!("Conflict")));
    assert_eq!(answer["error"]["message"], "The Stack (one) already exists.");

    let reader = world.cloud.token_for("reader", "demo");
    assert_eq!(world.get(&stacks, &reader).await.0, 200);
    assert_eq!(world.post(&stacks, &reader, cluster("two")).await.0, 403);
    let other = world.cloud.token_for("demo2", "demo2");
    assert_eq!(world.get(&stacks, &other).await.0, 403);
}

#[tokio::test]
async fn a_name_leads_to_the_stack_by_a_redirect() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    world.post(&stacks, &demo, cluster("one")).await;
    let client = reqwest::Client::builder().redirect(Policy::none()).build().expect("a client");
    let response = client.get(world.url(&format!("{stacks}/one"))).header("X-Auth-Token", &demo).send().await.expect("an answer");
    assert_eq!(response.status(), 302);
    let location = response.headers()["Location"].to_str().expect("text");
    assert!(location.contains(&format!("{stacks}/one/")), "{location}");
}

#[tokio::test]
async fn an_update_keeps_what_is_there_and_makes_what_is_new() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    let (_, made) = world.post(&stacks, &demo, cluster("one")).await;
    let path = format!("{stacks}/one/{}", text(&made["stack"]["id"]));
    let names =
        |body: &Value| -> Vec<String> { body["servers"].as_array().expect("servers").iter().map(|server| text(&server["id"])).collect() };
    let before = names(&world.get("/compute/v2.1/servers", &demo).await.1);
    let change = json!({"parameters": {"number_of_minions": 4}});
    let answer = world.send(Method::PATCH, &path, &demo, Some(change)).await.expect("an answer");
    assert_eq!(answer.status(), 202);
    world.until_status(&path, &demo, "UPDATE_COMPLETE").await;
    let after = names(&world.get("/compute/v2.1/servers", &demo).await.1);
    assert_eq!((before.len(), after.len()), (3, 5));
    assert!(before.iter().all(|server| after.contains(server)));

    world.cloud.hold_stacks(true);
    let change = json!({"parameters": {"number_of_minions": 0}});
    assert_eq!(world.send(Method::PATCH, &path, &demo, Some(change.clone())).await.expect("an answer").status(), 202);
    assert_eq!(world.send(Method::PATCH, &path, &demo, Some(change)).await.expect("an answer").status(), 409);
}

#[tokio::test]
async fn named_members_go_for_good_and_new_ones_get_new_numbers() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    let (_, made) = world.post(&stacks, &demo, cluster("one")).await;
    let path = format!("{stacks}/one/{}", text(&made["stack"]["id"]));
    let stack = world.until_status(&path, &demo, "CREATE_COMPLETE").await;
    let output = |stack: &Value, key: &str| -> Value {
        stack["outputs"].as_array().expect("outputs").iter().find(|o| o["output_key"] == key).expect("it")["output_value"].clone()
    };
    let numbers = |stack: &Value| output(stack, "refs_map").as_object().expect("a map").keys().cloned().collect::<Vec<_>>();
    assert_eq!(numbers(&stack), ["0", "1"]);
    let before = output(&stack, "kube_minions_private");
    let change = async |parameters: Value| {
        let answer = world.send(Method::PATCH, &path, &demo, Some(json!({"parameters": parameters}))).await.expect("an answer");
        assert_eq!(answer.status(), 202);
        world.until_status(&path, &demo, "UPDATE_COMPLETE").await
    };
    // One by its number while one more is wanted.
    let stack = change(json!({"minions_to_remove": ["0"], "number_of_minions": 2})).await;
    assert_eq!(numbers(&stack), ["1", "2"]);
    assert_eq!(stack["parameters"]["minions_to_remove"], "0");
    assert_eq!(output(&stack, "kube_minions_private")[0], before[1]);
    // One by its server.
    let servers = world.get("/compute/v2.1/servers/detail", &demo).await.1;
    let server = servers["servers"].as_array().expect("servers").iter().find(|s| s["name"] == "node-1").expect("a server").clone();
    let stack = change(json!({"minions_to_remove": [server["id"]], "number_of_minions": 1})).await;
    assert_eq!(numbers(&stack), ["2"]);
    // The list may be repeated without effect, and nobody comes back.
    let stack = change(json!({"number_of_minions": 3})).await;
    assert_eq!(numbers(&stack), ["2", "3", "4"]);
}

#[tokio::test]
async fn a_failed_update_is_rolled_back_where_that_was_asked_for() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    let (_, made) = world.post(&stacks, &demo, cluster("one")).await;
    let id = text(&made["stack"]["id"]);
    let path = format!("{stacks}/one/{id}");
    world.until_status(&path, &demo, "CREATE_COMPLETE").await;
    for (disable_rollback, status, count) in [(false, "ROLLBACK_COMPLETE", "2"), (true, "UPDATE_FAILED", "5")] {
        world.cloud.hold_stacks(true);
        let change = json!({"parameters": {"number_of_minions": 5}, "disable_rollback": disable_rollback});
        assert_eq!(world.send(Method::PATCH, &path, &demo, Some(change)).await.expect("an answer").status(), 202);
        assert!(world.cloud.fail_stack(&id, "no host"));
        world.cloud.hold_stacks(false);
        let stack = world.until_status(&path, &demo, status).await;
        assert_eq!(stack["parameters"]["number_of_minions"], count);
    }
}

#[tokio::test]
async fn outputs_refer_to_what_was_made() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    let (_, made) = world.post(&stacks, &demo, cluster("one")).await;
    let path = format!("{stacks}/one/{}", text(&made["stack"]["id"]));
    let stack = world.until_status(&path, &demo, "CREATE_COMPLETE").await;
    let resource = world.get(&format!("{path}/resources/network"), &demo).await.1;
    let network = &resource["resource"]["physical_resource_id"];
    let outputs = stack["outputs"].as_array().expect("outputs");
    let output = |key: &str| &outputs.iter().find(|o| o["output_key"] == key).expect("the output")["output_value"];
    assert_eq!(output("network"), network);
    assert_eq!(output("groups").as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn stacks_are_found_by_tag_name_and_status_and_signalled() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    let mut body = cluster("one");
    body["tags"] = json!("magnum,c0ffee");
    world.post(&stacks, &demo, body).await;
    world.post(&stacks, &demo, cluster("two")).await;
    for (query, count) in
        [("tags=c0ffee", 1), ("tags=c0ffee,other", 0), ("name=two", 1), ("status=CREATE_COMPLETE", 2), ("status=FAILED", 0), ("limit=1", 1)]
    {
        let (_, found) = world.get(&format!("{stacks}?{query}"), &demo).await;
        assert_eq!(found["stacks"].as_array().map(Vec::len), Some(count), "{query}");
    }
    // The redirect from a name keeps the query, whatever is in it.
    let (status, _) = world.get(&format!("{stacks}/one/resources?nested_depth=2&name=a%20b%0A"), &demo).await;
    assert_eq!(status, 200);
    let id = world.cloud.stacks().into_iter().find(|stack| stack.name == "one").expect("the stack").id;
    let signal = format!("{stacks}/one/{id}/resources/network/signal");
    assert_eq!(world.post(&signal, &demo, json!({"status": "SUCCESS"})).await.0, 200);
    let signal = format!("{stacks}/one/{id}/resources/none/signal");
    assert_eq!(world.post(&signal, &demo, json!({})).await.0, 404);
}

#[tokio::test]
async fn a_type_that_the_environment_maps_is_what_it_stands_for() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let template = json!({"heat_template_version": "queens", "resources": {
        "network": {"type": "Ours::Net"}, "volume": {"type": "Ours::Volume"},
    }});
    let registry = "resource_registry: {'Ours::Net': 'OS::Neutron::Net', 'Ours::Volume': 'OS::Heat::None'}";
    let body = json!({"stack_name": "one", "template": template, "files": {"e.yaml": registry}, "environment_files": ["e.yaml"]});
    assert_eq!(world.post(&world.stacks_path(), &demo, body).await.0, 201);
    let left = world.cloud.leftovers(None);
    assert_eq!(left.iter().filter(|line| line.starts_with("network ")).count(), 1, "{left:?}");
    assert_eq!(left.iter().filter(|line| line.starts_with("volume ")).count(), 0, "{left:?}");
}

/// How many resources of a stack are made, of how many.
async fn done(world: &World, path: &str, token: &str) -> (usize, usize) {
    let (_, body) = world.get(&format!("{path}/resources?nested_depth=2"), token).await;
    let resources = body["resources"].as_array().expect("resources");
    let done = resources.iter().filter(|resource| resource["resource_status"] == "CREATE_COMPLETE").count();
    (done, resources.len())
}
