//! Quotas, statistics, federations: what operators ask for beside clusters.

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use mysql_async::prelude::Queryable;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Answer, Client, text};
use tests::database::Database;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// The id of the project that somebody works in.
async fn project(of: &Client) -> Result<String> {
    let template = of.create_template("probe").await?;
    let body = of.get(&format!("/v1/clustertemplates/{template}")).await?.expect(200)?.body;
    of.delete(&format!("/v1/clustertemplates/{template}")).await?.expect(204)?;
    Ok(text(&body, "project_id"))
}

#[rstest]
#[tokio::test]
async fn quotas_are_made_shown_changed_listed_and_removed(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let (admin, demo) = (world.user("admin", "admin"), world.demo());
    let (own, other) = (project(&demo).await?, project(&world.user("demo2", "demo2")).await?);
    let path = format!("/v1/quotas/{own}/Cluster");

    let default = demo.get(&path).await?.expect(200)?.body;
    ensure!(default == json!({"project_id": own, "resource": "Cluster", "hard_limit": 20}), "{default}");
    ensure!(demo.get(&format!("/v1/quotas/{own}/nonsense")).await?.expect(200)?.body == default);
    let nodes = demo.get(&format!("/v1/quotas/{own}/Node")).await?.expect(200)?.body;
    ensure!(nodes == json!({"project_id": own, "resource": "Node", "hard_limit": -1}), "{nodes}");
    demo.get(&format!("/v1/quotas/{other}/Cluster")).await?.expect_error(403, "admin")?;

    let body = json!({"project_id": own, "resource": "Cluster", "hard_limit": 3});
    demo.post("/v1/quotas", &body).await?.expect_error(403, "quota:create")?;
    let made = admin.post("/v1/quotas", &body).await?.expect(201)?.body;
    ensure!(made["hard_limit"] == 3 && made["project_id"] == own.as_str() && made["id"].as_i64() >= Some(1), "{made}");
    ensure!(made["updated_at"].is_null() && made["created_at"].is_string(), "{made}");
    admin.post("/v1/quotas", &body).await?.expect_error(409, "already")?;
    admin.post("/v1/quotas", &json!({"project_id": other, "resource": "Node", "hard_limit": 0})).await?.expect(201)?;
    ensure!(demo.get(&path).await?.expect(200)?.body == made);

    let patched = admin.patch(&path, &json!({"project_id": "x", "resource": "Node", "hard_limit": "5"})).await?.expect(202)?.body;
    ensure!(patched["hard_limit"] == 5 && patched["resource"] == "Cluster" && patched["updated_at"].is_string(), "{patched}");
    ensure!(admin.patch(&path, &json!({})).await?.expect(202)?.body["hard_limit"] == 1);
    demo.patch(&path, &json!({})).await?.expect_error(403, "quota:update")?;

    let limits = |body: &Value| body["quotas"].as_array().map(|all| all.iter().map(|q| q["hard_limit"].clone()).collect::<Vec<_>>());
    ensure!(limits(&admin.get("/v1/quotas").await?.expect(200)?.body) == Some(vec![]), "an admin sees his own project's");
    let page = admin.get("/v1/quotas?all_tenants=True&limit=1&sort_key=hard_limit").await?.expect(200)?.body;
    ensure!(limits(&page) == Some(vec![json!(0)]), "{page}");
    let next = text(&page, "next");
    let marker = &page["quotas"][0]["id"];
    ensure!(next.ends_with(&format!("/v1/quotas?sort_key=hard_limit&sort_dir=asc&limit=1&marker={marker}")), "{next}");
    let from_the_start = admin.get("/v1/quotas?all_tenants=1&sort_key=hard_limit&limit=1&marker=0").await?.expect(200)?.body;
    ensure!(from_the_start["quotas"] == page["quotas"], "{from_the_start}");
    let rest = admin.get(&format!("/v1/quotas?all_tenants=1&sort_key=hard_limit&marker={marker}")).await?.expect(200)?.body;
    ensure!(limits(&rest) == Some(vec![json!(1)]), "{rest}");
    demo.get("/v1/quotas").await?.expect_error(403, "quota:get_all")?;

    demo.delete(&path).await?.expect_error(403, "quota:delete")?;
    admin.delete(&path).await?.expect(204)?;
    admin.delete(&path).await?.expect_error(404, &own)?;
    ensure!(demo.get(&path).await?.expect(200)?.body == default);
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_bad_quota_is_refused_and_nothing_is_written(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let admin = world.user("admin", "admin");
    let own = project(&world.demo()).await?;
    let before = world.counts().await?;
    for (what, body, status, word) in [
        ("no project", json!({"hard_limit": 1}), 400, "project_id"),
        ("an empty project", json!({"project_id": "", "hard_limit": 1}), 400, "project_id"),
        ("an unknown project", json!({"project_id": "nosuch", "hard_limit": 1}), 404, "nosuch"),
        ("a project with dots for a name", json!({"project_id": "..", "hard_limit": 1}), 404, ".."),
        ("an unknown resource", json!({"project_id": own, "resource": "Nodes"}), 400, "resource"),
        ("another case of the resource", json!({"project_id": own, "resource": "cluster"}), 400, "resource"),
        ("a negative limit", json!({"project_id": own, "hard_limit": -1}), 400, "hard_limit"),
        ("a limit that is null", json!({"project_id": own, "hard_limit": null}), 400, "hard_limit"),
        ("a limit that is a word", json!({"project_id": own, "hard_limit": "many"}), 400, "hard_limit"),
        ("a limit that no column holds", json!({"project_id": own, "hard_limit": 4_294_967_296_i64}), 400, "hard_limit"),
        ("a read-only field", json!({"project_id": own, "created_at": null}), 400, "created_at"),
        ("an unknown field", json!({"project_id": own, "colour": "red"}), 400, "colour"),
        ("a list", json!([]), 400, "quota"),
    ] {
        admin.post("/v1/quotas", &body).await?.expect_error(status, word).context(what)?;
    }
    for path in [format!("/v1/quotas/{own}/Cluster"), format!("/v1/quotas/{own}/cluster"), format!("/v1/quotas/{own}/nonsense")] {
        admin.patch(&path, &json!({"hard_limit": 3})).await?.expect_error(404, &format!("project_id {own} and resource "))?;
        admin.delete(&path).await?.expect_error(404, &own)?;
    }
    admin.patch(&format!("/v1/quotas/{own}/Cluster"), &json!([])).await?.expect_error(400, "quotapatch")?;
    for (query, word) in [("marker=x", "marker"), ("marker=-", "marker"), ("all_tenants=maybe", "all_tenants"), ("sort_key=x", "sort_key")]
    {
        admin.get(&format!("/v1/quotas?{query}")).await?.expect_error(400, word)?;
    }
    admin.get("/v1/quotas?all_tenants=1&marker=777").await?.expect_error(404, "777")?;
    admin.get("/v1/quotas?all_tenants=1&marker=777777777777777").await?.expect_error(404, "777")?;
    ensure!(world.counts().await? == before, "written: {:?}, before {before:?}", world.counts().await?);
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn w18_requests_at_once_make_as_many_clusters_as_the_quotas_allow(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let (admin, demo) = (world.user("admin", "admin"), world.demo());
    let own = project(&demo).await?;
    let template = demo.create_template("small").await?;
    admin.post("/v1/quotas", &json!({"project_id": own, "hard_limit": 4})).await?.expect(201)?;
    // A cluster of this suite has three nodes.
    admin.post("/v1/quotas", &json!({"project_id": own, "resource": "Node", "hard_limit": 8})).await?.expect(201)?;
    let create = |n: usize| {
        let (demo, body) = (demo.clone(), client::cluster(&format!("c{n}"), &template));
        async move { demo.post("/v1/clusters", &body).await }
    };
    let mut answers = Vec::new();
    for task in (0..8).map(|n| tokio::spawn(create(n))).collect::<Vec<_>>() {
        answers.push(task.await??);
    }
    let made: Vec<String> = answers.iter().filter(|a| a.status == 202).map(|a| text(&a.body, "uuid")).collect();
    ensure!(made.len() == 2, "{:?}", answers.iter().map(|a| a.status).collect::<Vec<_>>());
    for answer in answers.into_iter().filter(|a| a.status != 202) {
        answer.expect_error(403, "nodes per project, 8")?;
    }
    let stats = demo.get("/v1/stats").await?.expect(200)?.body;
    ensure!(stats == json!({"clusters": 2, "nodes": 6}), "{stats}");
    ensure!(admin.get("/v1/stats").await?.expect(200)?.body == stats, "an admin sees the whole cloud");
    ensure!(admin.get(&format!("/v1/stats?project_id={own}&type=CLUSTER")).await?.expect(200)?.body == stats);
    ensure!(demo.get(&format!("/v1/stats?project_id={own}")).await?.expect(200)?.body == stats);
    ensure!(admin.get("/v1/stats?project_id=other").await?.expect(200)?.body == json!({"clusters": 0, "nodes": 0}));
    demo.get("/v1/stats?project_id=other").await?.expect_error(403, "project")?;
    demo.get("/v1/stats?type=node").await?.expect_error(400, "type")?;

    admin.patch(&format!("/v1/quotas/{own}/Cluster"), &json!({"hard_limit": 2})).await?.expect(202)?;
    admin.delete(&format!("/v1/quotas/{own}/Node")).await?.expect(204)?;
    create(9).await?.expect_error(403, "maximum clusters per project, 2")?;
    for cluster in &made {
        demo.delete_cluster(cluster).await?;
        demo.wait_gone(cluster, tests::wait::PATIENCE).await?;
    }
    world.finish().await
}

/// The words of a refusal by a quota of so many nodes.
fn most_nodes(limit: u32) -> String {
    format!("maximum nodes per project, {limit}.")
}

/// Sets the quota of nodes of the project `demo`.
async fn limit_nodes(world: &World, limit: u32) -> Result<()> {
    let (admin, own) = (world.user("admin", "admin"), world.cloud.project_id("demo"));
    let body = json!({"project_id": own, "resource": "Node", "hard_limit": limit});
    match admin.post("/v1/quotas", &body).await?.status {
        201 => Ok(()),
        _ => admin.patch(&format!("/v1/quotas/{own}/Node"), &body).await?.expect(202).map(drop),
    }
}

/// How many nodes the rows of the caller's project say.
async fn nodes(demo: &Client) -> Result<Value> {
    Ok(demo.get("/v1/stats").await?.expect(200)?.body["nodes"].clone())
}

fn size(count: u32) -> Value {
    json!([{"op": "replace", "path": "/node_count", "value": count}])
}

async fn resize(demo: &Client, cluster: &str, count: u32) -> Result<Answer> {
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": count})).await
}

async fn act(demo: &Client, cluster: &str, action: &str) -> Result<Answer> {
    demo.post(&format!("/v1/clusters/{cluster}/actions/{action}"), &json!({})).await
}

async fn until_all_has_ended(world: &World) -> Result<()> {
    wait::until("all operations to end", PATIENCE, async || {
        let count = world.unfinished().await?;
        Ok(Seen::when(count == 0, || format!("{count} unfinished")))
    })
    .await
}

#[rstest]
#[tokio::test]
async fn w18_changes_at_once_add_as_many_nodes_as_the_quota_allows(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.10");
    let template = demo.create_template("small").await?;
    let mut clusters = Vec::new();
    for name in ["resized", "patched", "joined"] {
        clusters.push(demo.create_cluster(name, &template).await?);
    }
    for cluster in &clusters {
        demo.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
    }
    let [resized, patched, joined] = &clusters[..] else { anyhow::bail!("{clusters:?}") };
    // Three clusters of three nodes have nine; each request asks for two more.
    limit_nodes(&world, 13).await?;
    let (action, groups) = (|of: &str| format!("/v1/clusters/{of}/actions/resize"), |of: &str| format!("/v1/clusters/{of}/nodegroups"));
    let group = |name: &str| json!({"name": name, "node_count": 2});
    let asked = [
        (action(resized), json!({"node_count": 4})),
        (groups(resized), group("one")),
        (format!("/v1/clusters/{patched}"), size(4)),
        (groups(joined), group("one")),
        (groups(joined), group("two")),
        (action(joined), json!({"node_count": 4})),
    ];
    let tasks = asked.map(|(path, body)| {
        let demo = demo.clone();
        tokio::spawn(async move { if body.is_array() { demo.patch(&path, &body).await } else { demo.post(&path, &body).await } })
    });
    let mut accepted = 0;
    for task in tasks {
        match task.await?? {
            answer if answer.status == 202 => accepted += 1,
            answer => drop(answer.expect_error(403, &most_nodes(13))?),
        }
    }
    ensure!(accepted == 2 && nodes(&demo).await? == 13, "{accepted} were accepted, and there are {} nodes", nodes(&demo).await?);
    until_all_has_ended(&world).await?;
    let mut there = 0;
    for cluster in &clusters {
        let body = demo.cluster(cluster).await?;
        ensure!(text(&body, "status").ends_with("_COMPLETE"), "{body}");
        there += body["node_count"].as_u64().context("a number")? + body["master_count"].as_u64().context("a number")?;
    }
    ensure!(there == 13, "there are {there} nodes");

    // Each of the ways once more: one node is one too many, and what adds none is none.
    let before = world.counts().await?;
    for cluster in &clusters {
        let workers = demo.get(&format!("{}/default-worker", groups(cluster))).await?.expect(200)?.body;
        let count = u32::try_from(workers["node_count"].as_u64().context("a number")?)?;
        resize(&demo, cluster, count + 1).await?.expect_error(403, &most_nodes(13))?;
        demo.patch(&format!("/v1/clusters/{cluster}"), &size(count + 1)).await?.expect_error(403, "have 13 nodes")?;
        demo.post(&groups(cluster), &json!({"name": "three", "node_count": 1})).await?.expect_error(403, "asks for 1 more")?;
        // The size of a group is changed by a resize only.
        demo.patch(&format!("{}/default-worker", groups(cluster)), &size(count + 1)).await?.expect_error(400, "node_count")?;
    }
    ensure!(world.counts().await? == before, "written: {:?}, before {before:?}", world.counts().await?);
    let bounds = json!([{"op": "replace", "path": "/max_node_count", "value": 9}]);
    demo.patch(&format!("{}/default-worker", groups(resized)), &bounds).await?.expect(202)?;
    demo.post(&groups(resized), &json!({"name": "empty", "node_count": 0})).await?.expect(202)?;
    demo.patch(&format!("/v1/clusters/{patched}"), &size(1)).await?.expect(202)?;
    until_all_has_ended(&world).await?;
    // Now there is room.
    resize(&demo, patched, 2).await?.expect(202)?;
    until_all_has_ended(&world).await?;
    ensure!(demo.cluster(patched).await?["node_count"] == 2);
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn w18_nodes_that_are_to_go_count_until_they_have_gone(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    let template = demo.create_template("other").await?;
    // A cluster of this suite has three nodes.
    let another = async || demo.post("/v1/clusters", &client::cluster("green", &template)).await;
    limit_nodes(&world, 6).await?;
    world.cloud.hold_stacks(true);
    resize(&demo, &cluster, 3).await?.expect(202)?;
    wait::until("the first to run", PATIENCE, async || {
        let calls = world.cloud.calls("heat.stack_update");
        Ok(Seen::when(calls > 0, || "not asked".to_owned()))
    })
    .await?;
    // It waits behind the first.
    resize(&demo, &cluster, 0).await?.expect(202)?;
    ensure!(nodes(&demo).await? == 1, "the rows say what is wished: {}", nodes(&demo).await?);
    another().await?.expect_error(403, &most_nodes(6))?;
    another().await?.expect_error(403, "have 4 nodes")?;
    // What counts of the group in any case it may be given again, and no more than that.
    resize(&demo, &cluster, 6).await?.expect_error(403, "asks for 3 more")?;
    resize(&demo, &cluster, 3).await?.expect(202)?;
    resize(&demo, &cluster, 1).await?.expect(202)?;
    another().await?.expect_error(403, "have 4 nodes")?;

    let body = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
    let waiting: Vec<String> = body["operations"]
        .as_array()
        .context("a list")?
        .iter()
        .filter(|operation| operation["state"] == "QUEUED")
        .map(|operation| text(operation, "uuid"))
        .collect();
    ensure!(waiting.len() == 3, "{body}");
    for id in waiting {
        act(&demo, &cluster, &format!("cancel?operation={id}")).await?.expect(202)?;
        another().await?.expect_error(403, "have 4 nodes")?;
    }
    ensure!(nodes(&demo).await? == 4, "the size of the one that runs is put back: {}", nodes(&demo).await?);
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(demo.cluster(&cluster).await?["node_count"] == 3);
    another().await?.expect_error(403, "have 4 nodes")?;

    // Those that have gone are free.
    resize(&demo, &cluster, 2).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let green = another().await?.expect(202)?.uuid()?;
    demo.wait_for(&green, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(nodes(&demo).await? == 6);
    world.finish().await
}

/// What was asked of the cloud may come about or not: until somebody has seen its end, all that may be there counts.
#[rstest]
#[tokio::test]
async fn w18_a_resize_that_fails_or_is_cancelled_frees_no_node_that_may_be_there(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.12");
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    let template = demo.create_template("other").await?;
    // A cluster of this suite has three nodes.
    let another = async || demo.post("/v1/clusters", &client::cluster("green", &template)).await;
    let failed = async || demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await;
    let is_at_work = async || {
        wait::until("the change of the stack", PATIENCE, async || {
            let status = world.cloud.stacks().pop().map(|stack| stack.status).unwrap_or_default();
            Ok(Seen::when(status == "UPDATE_IN_PROGRESS", || status))
        })
        .await
    };
    limit_nodes(&world, 5).await?;

    // What Heat refuses is not asked for.
    world.cloud.inject(Fault { at: "heat.stack_update".into(), nth: 1, how: How::Status(400, "this cloud has no such thing".into()) });
    resize(&demo, &cluster, 4).await?.expect(202)?;
    ensure!(failed().await?["node_count"] == 2, "the size that the cluster has");

    // A stack that failed says what it was asked for, and nobody knows what has gone by then.
    world.cloud.hold_stacks(true);
    resize(&demo, &cluster, 1).await?.expect(202)?;
    is_at_work().await?;
    ensure!(world.cloud.fail_stack(&stack, "out of hosts"));
    ensure!(failed().await?["node_count"] == 2, "the most that there may be");
    another().await?.expect_error(403, "have 3 nodes")?;
    world.cloud.hold_stacks(false);
    act(&demo, &cluster, "retry").await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 1, "{complete}");

    // One that is at work goes on when the operation is cancelled.
    limit_nodes(&world, 4).await?;
    world.cloud.hold_stacks(true);
    resize(&demo, &cluster, 0).await?.expect(202)?;
    is_at_work().await?;
    act(&demo, &cluster, "cancel").await?.expect(202)?;
    ensure!(failed().await?["node_count"] == 1, "the most that there may be");
    another().await?.expect_error(403, "have 2 nodes")?;
    world.cloud.hold_stacks(false);
    // Whoever sees it at rest says what there is.
    let bounds = json!([{"op": "replace", "path": "/max_node_count", "value": 9}]);
    demo.patch(&format!("/v1/clusters/{cluster}/nodegroups/default-worker"), &bounds).await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 0 && complete["node_addresses"] == json!([]), "{complete}");
    let green = another().await?.expect(202)?.uuid()?;
    demo.wait_for(&green, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(nodes(&demo).await? == 4);
    world.finish().await
}

/// What was accepted once needs no second leave for what is there; what would come is asked for as any other request would.
#[tokio::test]
async fn w18_doing_it_again_under_a_smaller_quota_adds_no_node() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo().at("1.12");
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    let failed = async || demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await;
    world.cloud.hold_stacks(true);
    resize(&demo, &cluster, 4).await?.expect(202)?;
    wait::until("the change of the stack", PATIENCE, async || {
        let status = world.cloud.stacks().pop().map(|stack| stack.status).unwrap_or_default();
        Ok(Seen::when(status == "UPDATE_IN_PROGRESS", || status))
    })
    .await?;
    ensure!(world.cloud.fail_stack(&stack, "out of hosts"));
    ensure!(failed().await?["node_count"] == 4, "the size that the stack has been asked for");
    world.cloud.hold_stacks(false);
    limit_nodes(&world, 3).await?;
    act(&demo, &cluster, "retry").await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;

    // Cancelled before the stack was asked: the nodes are not there, and others may have come in their place.
    limit_nodes(&world, 8).await?;
    world.cloud.inject(Fault { at: "heat.stack_show".into(), nth: 1, how: How::Hold });
    resize(&demo, &cluster, 7).await?.expect(202)?;
    wait::until("the look at the stack", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "not yet".to_owned()))).await?;
    act(&demo, &cluster, "cancel").await?.expect(202)?;
    world.cloud.let_go();
    ensure!(failed().await?["node_count"] == 4, "the size that the cluster has");
    limit_nodes(&world, 7).await?;
    let before = world.counts().await?;
    act(&demo, &cluster, "retry").await?.expect_error(403, &most_nodes(7))?;
    ensure!(world.counts().await? == before && failed().await?["node_count"] == 4, "written: {:?}", world.counts().await?);
    limit_nodes(&world, 8).await?;
    act(&demo, &cluster, "retry").await?.expect(202)?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 7, "{complete}");
    world.finish().await
}

/// A resize to four workers in the middle of somebody else's change of their number: the request waits for that, and has looked at the group
/// before.
struct Overtaken {
    world: World,
    database: Database,
    demo: Client,
    cluster: String,
    answer: Answer,
}

/// `size`: workers that there are; `limit`: nodes that the project may have; `meanwhile`: workers that there are after the change.
async fn overtaken(size: i32, limit: u32, meanwhile: i32) -> Result<Overtaken> {
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 0, ..Options::default() }).await?;
    let (demo, database) = (world.demo().at("1.10"), world.database()?.clone());
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let mut other = database.open().await?;
    for table in ["cluster", "nodegroup"] {
        other.query_drop(format!("UPDATE {table} SET status = 'CREATE_COMPLETE'")).await?;
    }
    other.query_drop("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1, sealed_token = NULL").await?;
    other.query_drop(format!("UPDATE nodegroup SET node_count = {size} WHERE name = 'default-worker'")).await?;
    limit_nodes(&world, limit).await?;

    other.query_drop("START TRANSACTION").await?;
    let turn =
        format!("INSERT INTO event_guard (cluster_uuid, touched) VALUES ('{cluster}', 1) ON DUPLICATE KEY UPDATE touched = touched + 1");
    other.query_drop(turn).await?;
    other.query_drop(format!("UPDATE nodegroup SET node_count = {meanwhile} WHERE name = 'default-worker'")).await?;
    let request = {
        let (demo, cluster) = (demo.clone(), cluster.clone());
        tokio::spawn(async move { resize(&demo, &cluster, 4).await })
    };
    let waits =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() AND info LIKE '%event_guard%'";
    wait::until("the request to wait for its turn", PATIENCE, async || {
        let count: Vec<i64> = database.rows(waits).await?;
        Ok(Seen::when(count == [1], || format!("{count:?} wait")))
    })
    .await?;
    other.query_drop("COMMIT").await?;
    let answer = request.await??;
    other.disconnect().await?;
    Ok(Overtaken { world, database, demo, cluster, answer })
}

/// A size that changes between the look at the group and the transaction: what the request adds is counted anew, and then reserved.
#[tokio::test]
async fn w18_what_a_request_adds_to_a_group_that_has_shrunk_meanwhile_is_counted_again() -> Result<()> {
    let Overtaken { world, database, answer, .. } = overtaken(4, 3, 1).await?;
    answer.expect_error(403, "have 2 nodes, masters and those that are yet to go included, and the request asks for 3 more")?;
    let left: Vec<(i64, i64)> =
        database.rows("SELECT CAST(SUM(node_count) AS SIGNED), (SELECT COUNT(*) FROM operation) FROM nodegroup").await?;
    ensure!(left == [(2, 1)], "nodes and operations: {left:?}");
    database.empty().await?;
    world.finish().await
}

/// As above, where the group has grown meanwhile: what has come is not asked for once more, and so the request is not refused for it.
#[tokio::test]
async fn w18_what_a_request_adds_to_a_group_that_has_grown_meanwhile_is_counted_again() -> Result<()> {
    // A master and four workers.
    let Overtaken { world, database, demo, cluster, answer } = overtaken(1, 5, 3).await?;
    answer.expect(202)?;
    // No more for that: another one is refused by what counts now.
    resize(&demo, &cluster, 5)
        .await?
        .expect_error(403, "have 5 nodes, masters and those that are yet to go included, and the request asks for 1 more")?;
    database.empty().await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn federations_are_checked_and_never_stored(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    for path in ["/v1/federations", "/v1/federations/detail", "/v1/federations?limit=5&sort_key=name&sort_dir=desc"] {
        ensure!(demo.get(path).await?.expect(200)?.body == json!({"federations": []}), "{path}");
    }
    let body = json!({"name": "f", "hostcluster_id": "blue", "properties": {"dns-zone": "example.org"}});
    let uuid = text(&demo.post("/v1/federations", &body).await?.expect(202)?.body, "uuid");
    ensure!(uuid.len() == 36);
    let with = |key: &str, value: Value| {
        let mut body = body.clone();
        body[key] = value;
        body
    };
    for (bad, status, word) in [
        (with("name", json!("1")), 400, "name"),
        (with("hostcluster_id", Value::Null), 400, "hostcluster_id"),
        (with("hostcluster_id", json!("nosuch")), 404, "nosuch"),
        (with("properties", Value::Null), 400, "properties"),
        (with("properties", json!({"zone": "x"})), 400, "dns-zone"),
        (with("properties", json!({"dns-zone": 5})), 400, "properties"),
    ] {
        demo.post("/v1/federations", &bad).await?.expect_error(status, word)?;
    }
    let path = format!("/v1/federations/{uuid}");
    demo.get(&path).await?.expect_error(404, &uuid)?;
    demo.get("/v1/federations/f").await?.expect_error(404, "f")?;
    demo.patch(&path, &json!([{"op": "add", "path": "/member_ids", "value": cluster}])).await?.expect_error(404, &uuid)?;
    demo.delete(&path).await?.expect_error(404, &uuid)?;
    demo.get("/v1/federations?marker=5").await?.expect_error(400, "marker")?;
    world.user("reader", "demo").post("/v1/federations", &body).await?.expect_error(403, "federation:create")?;
    world.user("nobody", "demo").get("/v1/federations").await?.expect_error(403, "federation:get_all")?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, tests::wait::PATIENCE).await?;
    world.finish().await
}
