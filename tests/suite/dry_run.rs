//! `dry_run`: what a request would do is told, what would be refused is refused, and nothing is stored or made.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::management::{self, Management};
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World};

/// A cluster of one master and two workers, each with a volume and an address of its own, behind a load balancer.
fn large(template: &str) -> Value {
    let mut body = client::cluster("blue", template);
    for (key, value) in [("master_lb_enabled", json!(true)), ("floating_ip_enabled", json!(true)), ("docker_volume_size", json!(10))] {
        body[key] = value;
    }
    body
}

/// What is told of a request; `path` without its query.
async fn told(client: &Client, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
    let path = format!("{path}?dry_run=true");
    let answer = client.at("1.10").send(method, &path, body.map(|body| body.to_string())).await?.expect(200)?;
    Ok(answer.body)
}

fn count(forecast: &Value, list: &str, thing: &str) -> u64 {
    let amounts = forecast[list].as_array().cloned().unwrap_or_default();
    amounts.iter().find(|amount| amount["type"] == thing).map_or(0, |amount| amount["count"].as_u64().unwrap_or(0))
}

fn quota(forecast: &Value, resource: &str) -> Value {
    let quotas = forecast["quotas"].as_array().cloned().unwrap_or_default();
    quotas.into_iter().find(|quota| quota["resource"] == resource).unwrap_or_default()
}

fn says(forecast: &Value, list: &str, part: &str) -> bool {
    forecast[list].as_array().is_some_and(|all| all.iter().any(|one| one.as_str().is_some_and(|one| one.contains(part))))
}

#[tokio::test]
async fn what_would_happen_is_told_and_nothing_is_stored_or_made() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let (demo, database) = (world.demo(), world.database()?);
    let project = world.cloud.project_id("demo");
    let template = demo.create_template("large").await?;
    let create = async || told(&demo, Method::POST, "/v1/clusters", Some(large(&template))).await;

    let before = database.checksums().await?;
    world.cloud.set_quota(&project, "cores", Some(2));
    let short = create().await?;
    ensure!(short["possible"] == false && says(&short, "reasons", "3 cores are needed and 2 are left"), "{short}");
    let cores =
        json!({"service": "nova", "resource": "cores", "needed": 3, "told": true, "limit": 2, "used": 0, "free": 2, "enough": false});
    ensure!(quota(&short, "cores") == cores, "{short}");
    world.cloud.set_quota(&project, "cores", Some(3));
    let enough = create().await?;
    ensure!(enough["possible"] == true && enough["reasons"] == json!([]), "{enough}");
    let of = |value: &Value| (text(value, "action"), text(value, "driver"), value["cluster_id"].is_null());
    ensure!(of(&enough) == ("create".to_owned(), "k8s_fedora_coreos_v1".to_owned(), true), "{enough}");
    for (thing, many) in [("servers", 3), ("volumes", 3), ("ports", 6), ("floating_ips", 4), ("load_balancers", 1), ("stacks", 1)] {
        ensure!(count(&enough, "made", thing) == many, "{thing}: {enough}");
    }
    ensure!(quota(&enough, "load_balancers")["limit"].is_null() && quota(&enough, "load_balancers")["enough"] == true, "{enough}");

    // What the request itself would be refused for.
    let dry = "/v1/clusters?dry_run=true";
    demo.post("/v1/clusters?dry_run=perhaps", &large(&template)).await?.expect_error(400, "dry_run")?;
    demo.post(dry, &client::cluster("blue", "nowhere")).await?.expect_error(400, "nowhere")?;
    let mut bad = large(&template);
    bad["flavor_id"] = json!("nope");
    demo.post(dry, &bad).await?.expect_error(400, "nope")?;
    bad = large(&template);
    bad["labels"] = json!({"service_cluster_ip_range": "10.1.0.0/16", "fixed_subnet_cidr": "10.1.0.0/24"});
    let obstacle = demo.post(dry, &bad).await?.expect(200)?.body;
    ensure!(obstacle["possible"] == false && says(&obstacle, "reasons", "overlaps the nodes' range"), "{obstacle}");
    world.user("reader", "demo").post(dry, &large(&template)).await?.expect_error(403, "cluster:create")?;
    let keyed = demo.with("Idempotency-Key", "once");
    keyed.post(dry, &large(&template)).await?.expect(200)?;
    ensure!(database.checksums().await? == before && world.cloud.stacks().is_empty(), "something was stored or made");

    // Our own quota, and a key that is still to be had.
    let admin = world.user("admin", "admin");
    let limit = json!({"project_id": project, "resource": "Cluster", "hard_limit": 1});
    admin.post("/v1/quotas", &limit).await?.expect(201)?;
    let cluster = keyed.post("/v1/clusters", &large(&template)).await?.expect(202)?.uuid()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    demo.post(dry, &large(&template)).await?.expect_error(403, "maximum clusters per project")?;
    there(&world, &demo, &cluster, &template).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[tokio::test]
async fn what_the_cloud_does_not_have_is_told_before_anything_is_made() -> Result<()> {
    let environment = [("OS_TRUST__CLUSTER_USER_TRUST".to_owned(), "true".to_owned())].into();
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    for service in ["load-balancer", "volumev3", "block-storage"] {
        world.cloud.withdraw_service(service);
    }
    let template = demo.create_template("small").await?;
    for (label, value, rule) in
        [("ingress_controller", "octavia", "a cloud without Octavia"), ("auto_healing_enabled", "true", "a cloud without Cinder")]
    {
        let mut body = client::cluster("blue", &template);
        body["labels"] = json!({"cloud_provider_enabled": "true", label: value});
        let forecast = told(&demo, Method::POST, "/v1/clusters", Some(body.clone())).await?;
        ensure!(forecast["possible"] == false && says(&forecast, "reasons", rule), "{forecast}");
        let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
        let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
        ensure!(text(&failed, "status_reason").contains(rule), "{failed}");
        demo.delete_cluster(&cluster).await?;
        demo.wait_gone(&cluster, PATIENCE).await?;
    }
    let effects = world.cloud.effects();
    let made: Vec<_> = effects.iter().filter(|call| call.contains("_create") && !call.contains("token")).collect();
    ensure!(made.is_empty(), "{made:?}");
    world.finish().await
}

/// What is told of a cluster that is there.
async fn there(world: &World, demo: &Client, cluster: &str, template: &str) -> Result<()> {
    let (database, path) = (world.database()?, format!("/v1/clusters/{cluster}"));
    let stack = world.cloud.stacks()[0].parameters.clone();
    let mut odd = client::template("odd");
    odd["tls_disabled"] = json!(true);
    let odd = demo.post("/v1/clustertemplates", &odd).await?.expect(201)?.uuid()?;
    let before = database.checksums().await?;
    let resize = async |body: Value| told(demo, Method::POST, &format!("{path}/actions/resize"), Some(body)).await;

    let more = resize(json!({"node_count": 4})).await?;
    ensure!(more["possible"] == false && says(&more, "reasons", "2 cores are needed and 0 are left"), "{more}");
    ensure!(more["cluster_id"] == cluster && count(&more, "made", "servers") == 2 && count(&more, "made", "volumes") == 2, "{more}");
    let fewer = resize(json!({"node_count": 1, "nodes_to_remove": ["1"]})).await?;
    ensure!(fewer["possible"] == true && fewer["quotas"] == json!([]) && count(&fewer, "removed", "servers") == 1, "{fewer}");
    let leaving = &fewer["nodes_to_remove"][0];
    ensure!(leaving["nodegroup"] == "default-worker" && leaving["number"] == "1" && leaving["server_id"].is_string(), "{fewer}");
    let nobody = resize(json!({"node_count": 1, "nodes_to_remove": ["77"]})).await?;
    ensure!(nobody["possible"] == false && says(&nobody, "reasons", "has no node 77"), "{nobody}");

    let body = json!({"cluster_template": template, "max_batch_size": 2});
    let upgrade = told(demo, Method::POST, &format!("{path}/actions/upgrade"), Some(body)).await?;
    let replaced = json!([
        {"nodegroup": "default-master", "nodes": 1, "at_once": 1, "rounds": 1},
        {"nodegroup": "default-worker", "nodes": 2, "at_once": 2, "rounds": 1},
    ]);
    ensure!(upgrade["replaced"] == replaced, "{upgrade}");
    // The new workers come before the old ones go.
    ensure!(upgrade["possible"] == false && quota(&upgrade, "cores")["needed"] == 2, "{upgrade}");
    ensure!(quota(&upgrade, "server_group_members")["needed"] == 4 && quota(&upgrade, "ports")["needed"] == 2, "{upgrade}");

    // What its driver would refuse once it is its turn.
    let refused = told(demo, Method::POST, &format!("{path}/actions/upgrade"), Some(json!({"cluster_template": odd}))).await?;
    ensure!(refused["possible"] == false && says(&refused, "reasons", "tls_disabled"), "{refused}");

    let delete = told(demo, Method::DELETE, &path, None).await?;
    ensure!(delete["action"] == "delete" && delete["possible"] == true && delete["quotas"] == json!([]), "{delete}");
    for (thing, many) in [("servers", 3), ("stacks", 1), ("trusts", 1), ("key_pairs", 1)] {
        ensure!(count(&delete, "removed", thing) == many, "{thing}: {delete}");
    }
    ensure!(count(&delete, "removed", "users") >= 1, "{delete}");

    let dry = format!("{path}?dry_run=yes");
    world.user("demo2", "demo2").delete(&dry).await?.expect_error(404, cluster)?;
    world.user("reader", "demo").delete(&dry).await?.expect_error(403, "cluster:delete")?;
    demo.patch(&dry, &json!([{"op": "replace", "path": "/node_count", "value": 3}])).await?.expect_error(400, "dry_run")?;
    // An administrator of another project may delete it, and his token says nothing of its project's quotas.
    ensure!(world.user("admin", "admin").delete(&dry).await?.expect(200)?.body["removed"] == delete["removed"]);
    ensure!(database.checksums().await? == before, "something was stored");
    ensure!(world.cloud.stacks()[0].parameters == stack, "the stack was changed");
    Ok(())
}

#[tokio::test]
async fn of_a_cluster_of_cluster_api_servers_are_counted_and_the_rest_is_unknown() -> Result<()> {
    let management = Management::start(std::time::Duration::from_millis(60), "3").await?;
    let options = Options { environment: management.environment(), ..Options::default() };
    let world = World::start(Mix::Embedded, options).await?;
    let demo = world.demo();
    let template = demo.post("/v1/clustertemplates", &management::template("capi")).await?.expect(201)?.uuid()?;
    let cluster = client::cluster("blue", &template);
    let create = told(&demo, Method::POST, "/v1/clusters", Some(cluster.clone())).await?;
    ensure!(create["driver"] == "k8s_capi_helm_v1" && count(&create, "made", "servers") == 3, "{create}");
    let instances = quota(&create, "instances");
    ensure!(instances["needed"] == 3 && instances["enough"] == true, "{create}");
    ensure!(create["possible"].is_null() && says(&create, "reasons", "is not counted"), "{create}");
    world.cloud.set_quota(&world.cloud.project_id("demo"), "instances", Some(2));
    let short = told(&demo, Method::POST, "/v1/clusters", Some(cluster)).await?;
    ensure!(short["possible"] == false && says(&short, "reasons", "3 instances are needed and 2 are left"), "{short}");
    let clusters = demo.get("/v1/clusters").await?.expect(200)?.body;
    ensure!(clusters["clusters"].as_array().context("a list")?.is_empty() && management.releases()?.is_empty(), "{clusters}");
    world.finish().await
}

/// There are addresses for so many nodes: what there are none for is refused before anything is made.
#[tokio::test]
async fn a_cluster_has_no_more_nodes_than_its_ranges_hold() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo().at("1.10");
    let template = demo.create_template("small").await?;
    let mut body = client::cluster("blue", &template);
    body["labels"] = json!({"fixed_subnet_cidr": "10.0.0.0/28"});
    body["node_count"] = json!(10);
    let rule = "10.0.0.0/28 has room for 10 nodes, and there would be 11";
    let forecast = told(&demo, Method::POST, "/v1/clusters", Some(body.clone())).await?;
    ensure!(forecast["possible"] == false && says(&forecast, "reasons", rule), "{forecast}");
    let refused = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    let failed = demo.wait_for(&refused, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains(rule) && world.cloud.calls("heat.stack_create") == 0, "{failed}");
    demo.delete_cluster(&refused).await?;
    demo.wait_gone(&refused, PATIENCE).await?;

    body["node_count"] = json!(9);
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let resize = format!("/v1/clusters/{cluster}/actions/resize");
    let forecast = told(&demo, Method::POST, &resize, Some(json!({"node_count": 10}))).await?;
    ensure!(forecast["possible"] == false && says(&forecast, "reasons", rule), "{forecast}");
    demo.post(&resize, &json!({"node_count": 10})).await?.expect(202)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains(rule) && world.cloud.calls("heat.stack_update") == 0, "{failed}");
    demo.post(&resize, &json!({"node_count": 9})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let group = json!({"name": "more", "node_count": 1, "flavor_id": "m1.small"});
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains(rule) && world.cloud.calls("heat.stack_create") == 1, "{failed}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}
