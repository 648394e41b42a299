//! The one road: a cluster from the request to CREATE_COMPLETE and back to nothing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_simulator::{Fault, How, Mishap};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{cluster, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World, progress};

/// Resources of a stack at which a creation is looked at.
const STAGES: [usize; 3] = [3, 13, 23];

#[rstest]
#[tokio::test]
async fn a_cluster_is_created_followed_shown_and_deleted(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    world.cloud.hold_stacks_at(STAGES[0]);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;

    // Told as it grows: it goes on when it was told.
    let mut told: Vec<(u32, u32)> = Vec::new();
    for stage in STAGES {
        world.cloud.hold_stacks_at(stage);
        wait::until("progress in status_reason", PATIENCE, async || {
            let body = demo.cluster(&cluster).await?;
            world.keep_secrets_of_stacks();
            ensure!(body["status"] == "CREATE_IN_PROGRESS", "{body}");
            let reason = text(&body, "status_reason");
            let now = progress(&reason);
            if let Some(now) = now.filter(|now| told.last() != Some(now)) {
                told.push(now);
            }
            Ok(Seen::when(now.is_some_and(|(done, _)| usize::try_from(done) == Ok(stage)), || reason))
        })
        .await?;
    }
    world.cloud.hold_stacks(false);
    let complete = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(told.len() >= 3, "progress told: {told:?}");
    ensure!(told.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[1].0 <= pair[1].1), "progress told: {told:?}");

    // Shown with what the stack made.
    let stacks = world.cloud.stacks();
    ensure!(stacks.len() == 1, "{stacks:?}");
    ensure!(complete["stack_id"] == stacks[0].id.as_str(), "{complete}");
    ensure!(stacks[0].parameters["cluster_uuid"] == cluster.as_str(), "{:?}", stacks[0].parameters.keys());
    // What its secrets are encrypted with in etcd, as Kubernetes takes it.
    ensure!(
        STANDARD
            .decode(stacks[0].parameters["secrets_key"].as_str().unwrap_or_default())
            .is_ok_and(|key| key.len() == 32 && key != [0; 32])
    );
    ensure!(text(&complete, "api_address").starts_with("https://"), "{complete}");
    for (key, count) in [("node_addresses", 2), ("master_addresses", 1)] {
        let addresses = complete[key].as_array().map_or(0, Vec::len);
        ensure!(addresses == count, "{key}: {complete}");
    }
    for (key, wanted) in [
        ("name", json!("blue")),
        ("cluster_template_id", json!(template)),
        ("status_reason", Value::Null),
        ("node_count", json!(2)),
        ("master_count", json!(1)),
        ("keypair", json!("key")),
        ("flavor_id", json!("m1.small")),
        ("project_id", json!(world.cloud.project_id("demo"))),
        ("create_timeout", json!(60)),
    ] {
        ensure!(complete[key] == wanted, "{key} is {}, not {wanted}", complete[key]);
    }
    ensure!(text(&complete, "coe_version").starts_with('v'), "{complete}");
    ensure!(complete.get("faults").is_none(), "{complete}");

    // Found by name and in both lists.
    let by_name = demo.get("/v1/clusters/blue").await?.expect(200)?.body;
    ensure!(by_name["uuid"] == cluster.as_str(), "{by_name}");
    for path in ["/v1/clusters", "/v1/clusters/detail"] {
        let list = demo.get(path).await?.expect(200)?.body;
        ensure!(list["clusters"][0]["uuid"] == cluster.as_str(), "{list}");
        ensure!(list["clusters"][0]["status"] == "CREATE_COMPLETE", "{list}");
    }
    let others = world.user("demo2", "demo2").get("/v1/clusters").await?.expect(200)?.body;
    ensure!(others == json!({"clusters": []}), "{others}");

    // And gone, with everything it made.
    demo.delete_cluster(&cluster).await?;
    let leaving = demo.get(&format!("/v1/clusters/{cluster}")).await?;
    ensure!(leaving.status == 404 || leaving.body["status"] == "DELETE_IN_PROGRESS", "{}", leaving.text);
    demo.wait_gone(&cluster, PATIENCE).await?;
    let list = demo.get("/v1/clusters").await?.expect(200)?.body;
    ensure!(list == json!({"clusters": []}), "{list}");
    demo.get(&format!("/v1/certificates/{cluster}")).await?.expect_error(404, &cluster)?;
    ensure!(world.cloud.calls("heat.stack_create") == 1, "{} calls", world.cloud.calls("heat.stack_create"));
    demo.delete(&format!("/v1/clustertemplates/{template}")).await?.expect(204)?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn addresses_of_many_nodes_are_those_of_neutron_and_heat_need_not_work_them_out(
    #[values(true, false)] floating_ip_enabled: bool,
) -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let asked = json!({"name": "blue", "cluster_template_id": template, "keypair": "key", "node_count": 105, "floating_ip_enabled": floating_ip_enabled});
    let cluster = demo.post("/v1/clusters", &asked).await?.expect(202)?.uuid()?;
    let complete = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let shown: Vec<&str> = complete["node_addresses"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();

    // Those of the ports that are called as the nodes, in the order of their numbers.
    let neutron = world.cloud_as("demo", "demo")?;
    let ports = neutron.get("/network/v2.0/ports").await?.expect(200)?.body;
    let number = |port: &Value| text(port, "name").rsplit_once("-node-").and_then(|(_, number)| number.parse::<u32>().ok());
    let inside = |port: &Value| port["fixed_ips"][0]["ip_address"].as_str().unwrap_or_default().to_owned();
    let of_workers: BTreeMap<u32, String> =
        ports["ports"].as_array().into_iter().flatten().filter_map(|port| Some((number(port)?, inside(port)))).collect();
    ensure!(of_workers.len() == 105, "{of_workers:?}");
    if floating_ip_enabled {
        let floating_ips = neutron.get("/network/v2.0/floatingips").await?.expect(200)?.body;
        let listed = floating_ips["floatingips"].as_array().into_iter().flatten().map(|ip| text(ip, "floating_ip_address"));
        let listed: BTreeSet<String> = listed.collect();
        let distinct: BTreeSet<&str> = shown.iter().copied().collect();
        ensure!(
            shown.len() == 105 && distinct.len() == 105 && shown.iter().all(|address| listed.contains(*address)),
            "{shown:?} of {listed:?}"
        );
    } else {
        ensure!(shown.iter().copied().eq(of_workers.values()), "{shown:?}, not {of_workers:?}");
    }
    // Those of API and masters: none that Heat has to ask a hundred stacks for.
    let outputs = world.cloud.calls("heat.output_show");
    ensure!(outputs == 2, "{outputs}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn w13_an_accepted_cluster_is_readable_at_once_with_both_nodegroups(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let mut clusters = Vec::new();
    for number in 0..3 {
        let cluster = demo.create_cluster(&format!("c{number}"), &template).await?;
        // The next request goes to the other API process.
        let body = demo.cluster(&cluster).await?;
        ensure!(text(&body, "status").starts_with("CREATE_"), "{body}");
        ensure!(body["master_count"] == 1 && body["node_count"] == 2, "{body}");
        clusters.push(cluster);
    }
    for cluster in &clusters {
        demo.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
    }
    let names: Vec<String> = world.cloud.stacks().iter().map(|stack| stack.name.clone()).collect();
    ensure!(names.len() == 3, "{names:?}");
    world.finish().await
}

/// Whatever it takes is stored at once, or nothing is: also where the database refuses a part of it.
#[tokio::test]
async fn w13_of_a_cluster_whose_groups_cannot_be_stored_nothing_is() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let database = world.database()?;
    database.execute("ALTER TABLE nodegroup ADD CONSTRAINT no_groups CHECK (name = '')", Vec::new()).await?;
    let refused = demo.post("/v1/clusters", &cluster("blue", &template)).await?;
    ensure!(refused.status == 500, "{} {}", refused.status, refused.text);
    let counts = world.counts().await?;
    for table in ["cluster", "nodegroup", "operation", "operation_event"] {
        ensure!(counts.get(table) == Some(&0), "{table}: {counts:?}");
    }
    database.execute("ALTER TABLE nodegroup DROP CONSTRAINT no_groups", Vec::new()).await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}

/// Heat has been asked for the stack, and nobody knows its id yet.
#[rstest]
#[tokio::test]
async fn w3_a_cluster_can_be_deleted_while_its_stack_is_asked_for(#[values(How::Hold, How::ActThenHold)] how: How) -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.inject(Fault { at: "heat.stack_create".to_owned(), nth: 1, how });
    let cluster = demo.create_cluster("blue", &template).await?;
    wait::until("Heat to be asked", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "not yet".to_owned()))).await?;
    demo.delete_cluster(&cluster).await?;
    let body = demo.cluster(&cluster).await?;
    ensure!(body["status"] == "DELETE_IN_PROGRESS" && body["stack_id"].is_null(), "{body}");
    world.cloud.let_go();
    demo.wait_gone(&cluster, PATIENCE).await?;
    let states = world.operation_states(&cluster).await?;
    ensure!(states == ["SUPERSEDED", "SUCCEEDED"], "{states:?}");
    ensure!(world.cloud.stacks_ever().len() == 1, "{:?}", world.cloud.stacks_ever());
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn w3_a_cluster_can_be_deleted_while_it_is_created(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    demo.delete_cluster(&cluster).await?;
    ensure!(demo.cluster(&cluster).await?["status"] == "DELETE_IN_PROGRESS");
    // A second request is no error.
    demo.delete_cluster(&cluster).await?;
    world.cloud.hold_stacks(false);
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn w3_a_cluster_can_be_deleted_before_anything_was_made(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Which resource, why in the cloud's own words, and what most likely helps: wherever somebody looks.
#[tokio::test]
async fn a_failed_stack_is_told_by_its_resource_the_reason_and_the_likely_cure() -> Result<()> {
    const RESOURCE: &str = "kube-minion (OS::Nova::Server)";
    const REASON: &str = "No valid host was found";
    const CURE: &str = "Likely cure: no compute host has room for such a node";
    let world = World::usual(Mix::Distributed).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let stack = world.only_stack().await?;
    ensure!(world.cloud.spoil_member(&stack, "kube_minions/1", Mishap::NoServer));
    world.cloud.hold_stacks(false);
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let events = demo.get(&format!("/v1/clusters/{cluster}/events")).await?.expect(200)?.body;
    let faults = failed["faults"].to_string();
    for told in [text(&failed, "status_reason"), faults, events.to_string()] {
        ensure!([RESOURCE, REASON, CURE].iter().all(|part| told.contains(part)), "{told}");
    }
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_failed_stack_fails_the_cluster_with_the_clouds_own_reason(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let stack = world.only_stack().await?;
    world.progress_is_told(&demo, &cluster).await?;
    ensure!(world.cloud.fail_stack(&stack, "No valid host was found"));
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("No valid host was found"), "{failed}");
    let faults = failed["faults"].as_object().map(|faults| faults.len());
    ensure!(faults == Some(2), "{failed}");
    ensure!(failed["faults"].to_string().contains("No valid host was found"), "{failed}");
    // The list has no faults, and the stack can be deleted.
    let list = demo.get("/v1/clusters/detail").await?.expect(200)?.body;
    ensure!(list["clusters"][0].get("faults").is_none(), "{list}");
    world.cloud.hold_stacks(false);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}
