//! Clusters on a network that is there: Heat is given ids whatever the user gave, and nodes behind a proxy reach each other directly.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Map, Value, json};
use tests::client::{self, Client};
use tests::nodes;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

/// The range of the subnet that the project has.
const RANGE: &str = "10.0.0.0/24";

/// What a pool of a stack is made with.
fn user_data(world: &World, stack: &str, parameter: &str) -> Result<Value> {
    let stack = world.cloud.stacks().into_iter().find(|other| other.id == stack).context("the stack")?;
    let data = stack.parameters.get(parameter).and_then(Value::as_str).with_context(|| format!("no {parameter}"))?;
    Ok(serde_json::from_str(data)?)
}

/// Checks that what a pool is made with says that its nodes reach each other past the proxy.
fn reach_each_other(world: &World, stack: &str, parameter: &str) -> Result<()> {
    let env = nodes::file(&user_data(world, stack, parameter)?, "/etc/kubernetes-bootstrap/proxy.env")?;
    let direct = env.lines().find_map(|line| line.strip_prefix("NO_PROXY='")).context("NO_PROXY")?;
    ensure!(direct.trim_end_matches('\'').split(',').any(|range| range == RANGE), "{parameter}: {env}");
    Ok(())
}

async fn group_is(demo: &Client, path: &str, wanted: &str) -> Result<()> {
    wait::until(&format!("the group to be {wanted}"), PATIENCE, async || {
        let body = demo.get(path).await?.expect(200)?.body;
        Ok(Seen::when(body["status"] == wanted, || format!("{}: {}", body["status"], body["status_reason"])))
    })
    .await
}

#[tokio::test]
async fn heat_is_given_ids_and_nodes_behind_a_proxy_reach_each_other_whenever_they_come() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo().at("1.10");
    let mut template = client::template("small");
    template["http_proxy"] = json!("http://proxy:3128");
    // The nodes reach the API through the load balancer: with a list of sources the range of their subnet is on it.
    template["labels"] = json!({"master_lb_allowed_cidrs": "192.0.2.0/24"});
    let template = demo.post("/v1/clustertemplates", &template).await?.expect(201)?.uuid()?;
    let mut body = client::cluster("blue", &template);
    body["fixed_network"] = json!("private");
    body["fixed_subnet"] = json!("private-subnet");
    body["master_lb_enabled"] = json!(true);
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    let complete = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    // The row keeps what was given.
    ensure!(complete["fixed_network"] == "private" && complete["fixed_subnet"] == "private-subnet", "{complete}");

    let found = world.cloud_as("demo", "demo")?.get("/network/v2.0/subnets?name=private-subnet").await?.expect(200)?.body;
    let subnet = &found["subnets"][0];
    ensure!(subnet["cidr"] == RANGE, "{found}");
    let ids =
        |parameters: &Map<String, Value>| parameters["fixed_network"] == subnet["network_id"] && parameters["fixed_subnet"] == subnet["id"];
    let stack = world.cloud.stacks().remove(0);
    ensure!(stack.parameters["master_lb_allowed_cidrs"] == json!(["192.0.2.0/24", RANGE]), "{:?}", stack.parameters);
    ensure!(ids(&stack.parameters), "{} {}", stack.parameters["fixed_network"], stack.parameters["fixed_subnet"]);
    for parameter in ["master_user_data", "worker_user_data"] {
        reach_each_other(&world, &stack.id, parameter)?;
    }

    // From now on nobody could tell which one the names mean.
    world.cloud.add_network(&world.cloud.project_id("demo"), "private", false);
    let group = json!({"name": "more", "node_count": 1, "node_labels": {"tier": "gold"}});
    let group = demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?.uuid()?;
    let path = format!("/v1/clusters/{cluster}/nodegroups/{group}");
    group_is(&demo, &path, "CREATE_COMPLETE").await?;
    let of_group = world.cloud.stacks().into_iter().find(|other| other.id != stack.id).context("a stack of the group")?;
    ensure!(ids(&of_group.parameters), "{} {}", of_group.parameters["fixed_network"], of_group.parameters["fixed_subnet"]);
    reach_each_other(&world, &of_group.id, "worker_user_data")?;
    // Its workers to come are made with labels that may have changed.
    let resize = json!({"node_count": 2, "nodegroup": group});
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &resize).await?.expect(202)?;
    group_is(&demo, &path, "UPDATE_COMPLETE").await?;
    reach_each_other(&world, &of_group.id, "worker_user_data")?;
    demo.send(Method::DELETE, &path, None).await?.expect(204)?;
    wait::until("the group to be gone", PATIENCE, async || {
        let answer = demo.get(&path).await?;
        Ok(Seen::when(answer.status == 404, || answer.text.clone()))
    })
    .await?;

    // Nodes of a later day.
    let before = user_data(&world, &stack.id, "master_user_data")?;
    demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(user_data(&world, &stack.id, "master_user_data")? != before, "the masters are those of before");
    for parameter in ["master_user_data", "worker_user_data"] {
        reach_each_other(&world, &stack.id, parameter)?;
    }
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[tokio::test]
async fn ranges_that_a_given_network_has_are_refused_to_pods_and_services_before_anything_is_made() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo().at("1.10");
    let template = demo.create_template("small").await?;
    for (label, value) in [("flannel_network_cidr", "10.0.0.0/16"), ("service_cluster_ip_range", "10.0.0.128/25")] {
        let mut body = client::cluster("blue", &template);
        body["fixed_network"] = json!("private");
        body["fixed_subnet"] = json!("private-subnet");
        body["labels"] = json!({label: value});
        body["merge_labels"] = json!(true);
        let rule = format!("{label}: {value} overlaps the nodes' range {RANGE}");
        let foreseen = demo.post("/v1/clusters?dry_run=true", &body).await?.expect(200)?.body;
        let reasons = foreseen["reasons"].as_array().context("reasons")?;
        ensure!(foreseen["possible"] == false && reasons.iter().any(|reason| *reason == json!(rule)), "{foreseen}");
        let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
        let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
        ensure!(client::text(&failed, "status_reason").contains(&rule), "{failed}");
        ensure!(world.cloud.stacks().is_empty(), "{:?}", world.cloud.stacks());
        demo.delete_cluster(&cluster).await?;
        demo.wait_gone(&cluster, PATIENCE).await?;
    }
    world.finish().await
}
