//! Quotas, statistics, federations: what operators ask for beside clusters.

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::world::{Mix, World};

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
        admin.patch(&path, &json!({"hard_limit": 3})).await?.expect_error(404, &own)?;
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
