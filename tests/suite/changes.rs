//! Requests that change a cluster: what is refused, by which rule, and that nothing is written then (what is accepted is for the lifecycle
//! tests to follow).

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use tests::client::{self, Client};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

/// A request: microversion, method, path below the cluster, body, and what it must be answered: status and a word of the message.
type Case<'a> = (&'a str, Method, &'a str, Value, u16, &'a str);

async fn refused(client: &Client, cluster: &str, cases: &[Case<'_>]) -> Result<()> {
    for (version, method, path, body, status, word) in cases {
        let path = match path.strip_prefix("/v1") {
            Some(_) => path.replace("CLUSTER", cluster),
            None => format!("/v1/clusters/{cluster}{path}"),
        };
        let sent = (!body.is_null()).then(|| body.to_string());
        let answer = client.at(version).send(method.clone(), &path, sent).await?;
        let what = || format!("{version} {method} {path} {body}");
        if *status == 406 {
            ensure!(answer.status == 406, "{}: {} {}", what(), answer.status, answer.text);
        } else {
            answer.expect_error(*status, word).with_context(what)?;
        }
    }
    Ok(())
}

fn patch(op: &str, path: &str, value: Value) -> Value {
    match op {
        "remove" => json!([{"op": op, "path": path}]),
        _ => json!([{"op": op, "path": path, "value": value}]),
    }
}

fn replace(path: &str, value: Value) -> Value {
    patch("replace", path, value)
}

#[tokio::test]
async fn w11_w19_what_a_cluster_in_the_making_cannot_do_is_refused_at_once_with_its_state() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let before = world.counts().await?;
    let state = "CREATE_IN_PROGRESS";
    let cases = [
        ("1.10", Method::PATCH, "", replace("/node_count", json!(3)), 409, state),
        ("1.10", Method::PATCH, "", replace("/node_count", json!(3)), 409, "delete"),
        ("1.10", Method::POST, "/actions/resize", json!({"node_count": 3}), 409, state),
        ("1.10", Method::POST, "/actions/upgrade", json!({"cluster_template": template}), 400, state),
        ("1.10", Method::POST, "/nodegroups", json!({"name": "gpu"}), 409, "API address"),
        ("1.10", Method::PATCH, "/nodegroups/default-worker", replace("/max_node_count", json!(3)), 409, state),
        ("1.10", Method::DELETE, "/nodegroups/default-worker", Value::Null, 400, "default"),
        ("1.10", Method::PATCH, "/v1/certificates/CLUSTER", Value::Null, 400, state),
        ("1.12", Method::PATCH, "/v1/credentials/CLUSTER", Value::Null, 400, state),
    ];
    refused(&demo, &cluster, &cases).await?;
    ensure!(world.counts().await? == before);

    // Agents in the cluster report health in every state.
    let health = json!([
        {"op": "replace", "path": "/health_status", "value": "UNHEALTHY"},
        {"op": "replace", "path": "/health_status_reason", "value": "{'api': 'ok', 'blue-node-0.Ready': 'False'}"},
    ]);
    demo.patch(&format!("/v1/clusters/{cluster}"), &health).await?.expect(202)?;
    let shown = demo.cluster(&cluster).await?;
    ensure!(shown["status"] == state, "{shown}");
    ensure!(shown["health_status"] == "UNHEALTHY", "{shown}");
    ensure!(shown["health_status_reason"] == json!({"api": "ok", "blue-node-0.Ready": "False"}), "{shown}");

    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}

#[tokio::test]
async fn a_change_that_breaks_a_rule_is_refused_and_nothing_is_written() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let before = world.counts().await?;
    let group = |key: &str, value: Value| {
        let mut body = json!({"name": "gpu", "node_count": 2, "min_node_count": 1, "max_node_count": 4});
        body[key] = value;
        body
    };
    let (post, patched) = (Method::POST, Method::PATCH);
    let cases: Vec<Case<'_>> = vec![
        // Microversions.
        ("1.2", patched.clone(), "?rollback=true", replace("/node_count", json!(1)), 400, "rollback"),
        ("1.3", patched.clone(), "?rollback=maybe", replace("/node_count", json!(1)), 400, "rollback"),
        ("1.6", post.clone(), "/actions/resize", json!({"node_count": 1}), 406, ""),
        ("1.6", post.clone(), "/actions/upgrade", json!({"cluster_template": template}), 406, ""),
        ("1.7", post.clone(), "/actions/upgrade", json!({"cluster_template": template}), 400, "1.8"),
        ("1.8", Method::GET, "/nodegroups", Value::Null, 406, ""),
        ("1.8", Method::DELETE, "/nodegroups/nope", Value::Null, 406, ""),
        ("1.11", patched.clone(), "/v1/credentials/CLUSTER", Value::Null, 406, ""),
        ("1.9", patched.clone(), "", replace("/node_count", json!(0)), 400, "node_count"),
        ("1.9", post.clone(), "/actions/resize", json!({"node_count": 0}), 400, "node_count"),
        // Patches of clusters.
        ("1.10", patched.clone(), "", json!({}), 400, "patch"),
        ("1.10", patched.clone(), "", replace("/node_count", json!(-1)), 400, "node_count"),
        ("1.10", patched.clone(), "", replace("/node_count", json!("many")), 400, "node_count"),
        ("1.10", patched.clone(), "", replace("/name", json!("green")), 400, "cannot change cluster property(ies) name"),
        ("1.10", patched.clone(), "", patch("remove", "/name", Value::Null), 400, "name"),
        ("1.10", patched.clone(), "", patch("remove", "/cluster_template_id", Value::Null), 400, "mandatory"),
        ("1.10", patched.clone(), "", replace("/api_address", json!("x")), 400, "internal"),
        ("1.10", patched.clone(), "", replace("/trust_id", json!("x")), 400, "internal"),
        ("1.10", patched.clone(), "", replace("/colour", json!("red")), 400, "colour"),
        ("1.10", patched.clone(), "", patch("add", "/name", json!("x")), 400, "replace"),
        ("1.10", patched.clone(), "", patch("add", "/labels/x", json!("y")), 400, "labels"),
        ("1.10", patched.clone(), "", replace("/health_status", json!("FINE")), 400, "health_status"),
        // Resize.
        ("1.10", post.clone(), "/actions/resize", json!({}), 400, "node_count"),
        ("1.10", post.clone(), "/actions/resize", json!({"node_count": -1}), 400, "node_count"),
        ("1.10", post.clone(), "/actions/resize", json!({"node_count": 1, "colour": "red"}), 400, "colour"),
        ("1.10", post.clone(), "/actions/resize", json!({"node_count": 1, "nodes_to_remove": [7]}), 400, "nodes_to_remove"),
        ("1.10", post.clone(), "/actions/resize", json!({"node_count": 1, "nodegroup": "nope"}), 404, "nope"),
        ("1.10", post.clone(), "/actions/resize", json!({"node_count": 3, "nodegroup": "default-master"}), 400, "master"),
        // Upgrade.
        ("1.10", post.clone(), "/actions/upgrade", json!({}), 400, "cluster_template"),
        ("1.10", post.clone(), "/actions/upgrade", json!({"cluster_template": "nope"}), 404, "nope"),
        ("1.10", post.clone(), "/actions/upgrade", json!({"cluster_template": template, "max_batch_size": 0}), 400, "max_batch_size"),
        // Nodegroups.
        ("1.10", post.clone(), "/nodegroups", json!({}), 400, "name"),
        ("1.10", post.clone(), "/nodegroups", group("name", json!("")), 400, "name"),
        ("1.10", post.clone(), "/nodegroups", group("name", json!("default-worker")), 409, "default-worker"),
        ("1.10", post.clone(), "/nodegroups", group("node_count", json!(5)), 409, "max_node_count"),
        ("1.10", post.clone(), "/nodegroups", group("node_count", json!(0)), 409, "min_node_count"),
        ("1.10", post.clone(), "/nodegroups", group("min_node_count", json!(5)), 409, "min_node_count"),
        ("1.10", post.clone(), "/nodegroups", group("role", json!("master")), 400, "master"),
        ("1.10", post.clone(), "/nodegroups", group("flavor_id", json!("m9.huge")), 400, "m9.huge"),
        ("1.10", post.clone(), "/nodegroups", group("flavor_id", json!("m1.nodisk")), 400, "m1.nodisk"),
        ("1.10", post.clone(), "/nodegroups", group("node_labels", json!({"kubernetes.io/role": "x"})), 409, "kubernetes.io/role"),
        ("1.10", post.clone(), "/nodegroups", group("node_labels", json!({"a": 1})), 400, "node_labels"),
        ("1.10", post.clone(), "/nodegroups", group("node_taints", json!([{"key": "a", "effect": "no"}])), 409, "effect"),
        ("1.10", post.clone(), "/nodegroups", group("node_taints", json!([{"effect": "NoSchedule"}])), 409, "key"),
        ("1.10", post.clone(), "/nodegroups", group("node_taints", json!("x")), 400, "node_taints"),
        ("1.10", post.clone(), "/nodegroups", group("stack_id", json!("x")), 400, "stack_id"),
        ("1.10", Method::GET, "/nodegroups/nope", Value::Null, 404, "nope"),
        ("1.10", Method::GET, "/nodegroups?colour=red", Value::Null, 400, "colour"),
        ("1.10", Method::GET, "/nodegroups?limit=0", Value::Null, 400, "limit"),
        ("1.10", Method::GET, "/nodegroups?sort_key=colour", Value::Null, 400, "colour"),
        ("1.10", Method::DELETE, "/nodegroups/nope", Value::Null, 404, "nope"),
        ("1.10", Method::DELETE, "/nodegroups/default-master", Value::Null, 400, "default"),
        ("1.10", patched.clone(), "/nodegroups/default-worker", replace("/name", json!("x")), 400, "internal"),
        ("1.10", patched.clone(), "/nodegroups/default-worker", replace("/min_node_count", json!(9)), 409, "min_node_count"),
        ("1.10", patched.clone(), "/nodegroups/default-worker", replace("/max_node_count", json!(1)), 409, "max_node_count"),
        ("1.10", patched.clone(), "/nodegroups/default-worker", patch("add", "/labels/x", json!("y")), 400, "labels"),
        ("1.10", patched.clone(), "/nodegroups/default-master", replace("/node_labels", json!("{'a': 'b'}")), 409, "master"),
        // Rotations.
        ("1.10", patched.clone(), "/v1/certificates/nope", Value::Null, 404, "nope"),
        ("1.10", patched.clone(), "/v1/certificates/CLUSTER", json!({"x": 1}), 400, "x"),
        ("1.12", patched.clone(), "/v1/credentials/nope", Value::Null, 404, "nope"),
        // Without an id.
        ("1.10", patched.clone(), "/v1/clusters", json!([]), 400, "cluster_ident"),
        ("1.10", Method::DELETE, "/nodegroups", Value::Null, 400, "nodegroup_id"),
    ];
    refused(&demo, &cluster, &cases).await?;
    ensure!(demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/dance"), &json!({})).await?.status == 405);

    // Readers of the project may look and nothing else; strangers see nothing; an admin resizes his own project's clusters only.
    let reader = world.user("reader", "demo").at("1.12");
    let path = |rest: &str| format!("/v1/clusters/{cluster}{rest}");
    reader.get(&path("/nodegroups")).await?.expect(200)?;
    reader.get(&path("/nodegroups/default-worker")).await?.expect(200)?;
    reader.patch(&path(""), &replace("/node_count", json!(3))).await?.expect_error(403, "cluster:update")?;
    reader.post(&path("/actions/resize"), &json!({"node_count": 3})).await?.expect_error(403, "cluster:resize")?;
    reader.post(&path("/nodegroups"), &json!({"name": "gpu"})).await?.expect_error(403, "nodegroup:create")?;
    reader.patch(&format!("/v1/certificates/{cluster}"), &json!({})).await?.expect_error(403, "certificate:rotate_ca")?;
    reader.patch(&format!("/v1/credentials/{cluster}"), &json!({})).await?.expect_error(403, "credential:rotate")?;
    let stranger = world.user("demo2", "demo2").at("1.12");
    stranger.post(&path("/actions/resize"), &json!({"node_count": 3})).await?.expect_error(404, &cluster)?;
    stranger.get(&path("/nodegroups")).await?.expect_error(404, &cluster)?;
    let admin = world.user("admin", "admin").at("1.12");
    admin.get(&path("/nodegroups")).await?.expect(200)?;
    admin.post(&path("/actions/resize"), &json!({"node_count": 3})).await?.expect_error(404, &cluster)?;
    admin.post(&path("/nodegroups"), &json!({"name": "gpu"})).await?.expect_error(404, &cluster)?;

    ensure!(world.counts().await? == before, "written: {:?}, before {before:?}", world.counts().await?);
    ensure!(demo.cluster(&cluster).await?["status"] == "CREATE_COMPLETE");
    world.finish().await
}

#[tokio::test]
async fn nodegroups_are_listed_page_by_page_and_by_role() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let demo = demo.at("1.14");
    let groups = |body: &Value| -> Vec<String> {
        let list = body["nodegroups"].as_array().cloned().unwrap_or_default();
        list.iter().map(|group| client::text(group, "name")).collect()
    };
    let path = format!("/v1/clusters/{cluster}/nodegroups");
    let all = demo.get(&path).await?.expect(200)?.body;
    ensure!(groups(&all) == ["default-master", "default-worker"], "{all}");
    ensure!(all.get("next").is_none(), "{all}");
    let masters = demo.get("/v1/clusters/blue/nodegroups/?role=master").await?.expect(200)?.body;
    ensure!(groups(&masters) == ["default-master"], "{masters}");
    let of_no_role = demo.get(&format!("{path}?role=")).await?.expect(200)?.body;
    ensure!(groups(&of_no_role) == groups(&all), "{of_no_role}");
    let first = demo.get(&format!("{path}?limit=1&sort_key=name&sort_dir=desc")).await?.expect(200)?.body;
    ensure!(groups(&first) == ["default-worker"], "{first}");
    let next = client::text(&first, "next");
    let rest = next.split_once("/v1/").map(|(_, rest)| format!("/v1/{rest}")).context("next is an address below /v1")?;
    ensure!(rest.starts_with(&path) && rest.contains("sort_key=name&sort_dir=desc&limit=1&marker="), "{next}");
    let second = demo.get(&rest).await?.expect(200)?.body;
    ensure!(groups(&second) == ["default-master"], "{second}");

    let one = demo.get(&format!("{path}/default-worker")).await?.expect(200)?.body;
    for (key, wanted) in [
        ("role", json!("worker")),
        ("is_default", json!(true)),
        ("cluster_id", json!(cluster)),
        ("node_labels", json!({})),
        ("node_taints", json!([])),
        ("labels_added", json!({})),
    ] {
        ensure!(one[key] == wanted, "{key}: {one}");
    }
    for ident in [client::text(&one, "uuid"), one["id"].to_string()] {
        let same = demo.get(&format!("{path}/{ident}")).await?.expect(200)?.body;
        ensure!(same["uuid"] == one["uuid"], "{ident}: {same}");
    }
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}

/// Requests of many clients on few clusters: each is accepted or refused for what it is, and none is a fault of the service.
#[tokio::test]
async fn w7_requests_on_one_cluster_at_the_same_time_are_accepted_or_refused_and_never_a_fault() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let client = demo.at("1.12");
    let group = format!("/v1/clusters/{cluster}/nodegroups/default-worker");
    let (resize, path) = (format!("/v1/clusters/{cluster}/actions/resize"), format!("/v1/clusters/{cluster}"));
    let asking = (0..12).map(|turn| {
        let (client, group, resize, path) = (client.clone(), group.clone(), resize.clone(), path.clone());
        async move {
            let mut seen = Vec::new();
            for _ in 0..4 {
                let answer = match turn % 4 {
                    0 => client.patch(&group, &json!([])).await?,
                    1 => client.post(&resize, &json!({"node_count": 2})).await?,
                    2 => client.patch(&path, &replace("/health_status", json!("HEALTHY"))).await?,
                    _ => client.patch(&group, &replace("/min_node_count", json!(1))).await?,
                };
                seen.push((answer.status, answer.text));
            }
            Ok::<_, anyhow::Error>(seen)
        }
    });
    for (status, text) in futures::future::try_join_all(asking).await?.into_iter().flatten() {
        ensure!(matches!(status, 202 | 409), "{status}: {text}");
    }
    let deleting = (0..6).map(|_| demo.delete(&path));
    for answer in futures::future::try_join_all(deleting).await? {
        ensure!(matches!(answer.status, 204 | 404), "{}: {}", answer.status, answer.text);
    }
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// The last writer won, column by column: of changes at the same time one was lost, or half of each.
#[tokio::test]
async fn w7_changes_of_one_group_at_the_same_time_are_all_there_in_the_end() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    let path = format!("/v1/clusters/{cluster}");
    let (group, resize) = (format!("{path}/nodegroups/default-worker"), format!("{path}/actions/resize"));
    for (least, most, count, health) in [(1, 7, 3, "HEALTHY"), (2, 8, 4, "UNHEALTHY"), (1, 9, 3, "UNKNOWN")] {
        let wishes = [
            (Method::PATCH, &group, replace("/min_node_count", json!(least))),
            (Method::PATCH, &group, replace("/max_node_count", json!(most))),
            (Method::POST, &resize, json!({"node_count": count})),
            (Method::PATCH, &path, replace("/health_status", json!(health))),
        ];
        let asking = wishes.into_iter().map(|(method, path, body)| {
            let demo = &demo;
            async move {
                wait::until("the change to be accepted", PATIENCE, async || {
                    let answer = demo.send(method.clone(), path, Some(body.to_string())).await?;
                    ensure!(matches!(answer.status, 202 | 409), "{}: {}", answer.status, answer.text);
                    Ok(Seen::when(answer.status == 202, || answer.text))
                })
                .await
            }
        });
        futures::future::try_join_all(asking).await?;
        let whole = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
        ensure!(whole["node_count"] == count && whole["health_status"] == health, "{whole}");
        let shown = demo.get(&group).await?.expect(200)?.body;
        let told = [&shown["min_node_count"], &shown["max_node_count"], &shown["node_count"]];
        ensure!(told == [&json!(least), &json!(most), &json!(count)] && shown["status"] == "UPDATE_COMPLETE", "{shown}");
    }
    world.keep_secrets_of_stacks();
    world.finish().await
}

#[tokio::test]
async fn w7_labels_and_taints_that_are_changed_at_the_same_time_are_all_there_in_the_end() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    let group = format!("/v1/clusters/{cluster}/nodegroups/default-worker");
    demo.patch(&group, &patch("add", "/node_labels", json!("{'base': 'x', 'old': 'y'}"))).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let wishes = [
        patch("add", "/node_labels/rack", json!("a")),
        patch("replace", "/node_labels/base", json!("z")),
        patch("remove", "/node_labels/old", Value::Null),
        patch("add", "/node_taints", json!("[{'key': 'gpu', 'effect': 'NoSchedule'}]")),
    ];
    let asking = wishes.iter().map(|body| {
        let (demo, group) = (&demo, &group);
        async move {
            wait::until("the change to be accepted", PATIENCE, async || {
                let answer = demo.patch(group, body).await?;
                ensure!(matches!(answer.status, 202 | 409), "{}: {}", answer.status, answer.text);
                Ok(Seen::when(answer.status == 202, || answer.text))
            })
            .await
        }
    });
    futures::future::try_join_all(asking).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let shown = demo.get(&group).await?.expect(200)?.body;
    ensure!(shown["node_labels"] == json!({"base": "z", "rack": "a"}), "{shown}");
    ensure!(shown["node_taints"] == json!([{"key": "gpu", "effect": "NoSchedule"}]), "{shown}");
    world.keep_secrets_of_stacks();
    world.finish().await
}

/// Whoever asked for what the state did not allow was answered with 202; a line of a log told that it was dropped.
#[tokio::test]
async fn w19_what_a_state_does_not_allow_is_refused_to_who_asks_and_nothing_is_stored() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    let template = client::text(&demo.cluster(&cluster).await?, "cluster_template_id");
    let say = async |status: &str| {
        let sql = format!("UPDATE cluster SET status = '{status}' WHERE uuid = '{cluster}'");
        world.database()?.execute(&sql, Vec::new()).await
    };
    let before = world.counts().await?;
    for state in ["CREATE_FAILED", "DELETE_IN_PROGRESS", "DELETE_FAILED", "ROLLBACK_IN_PROGRESS", "ROLLBACK_FAILED", "RESUME_FAILED"] {
        say(state).await?;
        let cases = [
            ("1.10", Method::PATCH, "", replace("/node_count", json!(3)), 409, state),
            ("1.10", Method::POST, "/actions/resize", json!({"node_count": 3}), 409, state),
            ("1.10", Method::POST, "/nodegroups", json!({"name": "gpu"}), 409, state),
            ("1.10", Method::PATCH, "/nodegroups/default-worker", replace("/max_node_count", json!(3)), 409, state),
            ("1.10", Method::POST, "/actions/upgrade", json!({"cluster_template": template}), 400, state),
            ("1.10", Method::PATCH, "/v1/certificates/CLUSTER", Value::Null, 400, state),
        ];
        refused(&demo, &cluster, &cases).await?;
        ensure!(demo.cluster(&cluster).await?["status"] == state);
    }
    ensure!(world.counts().await? == before, "written: {:?}, before {before:?}", world.counts().await?);
    // It was the state alone that was against it.
    say("CREATE_COMPLETE").await?;
    demo.resize(&cluster, 3).await?;
    let whole = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(whole["node_count"] == 3, "{whole}");
    world.keep_secrets_of_stacks();
    world.finish().await
}
