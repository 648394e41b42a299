//! Labels: what a driver knows is told, checked, and remarked upon.

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, text};
use tests::wait::PATIENCE;
use tests::world::{Mix, Options, World};

#[rstest]
#[tokio::test]
async fn labels_are_told_checked_and_remarked_upon(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let all = demo.get("/v1/labels").await?.expect(200)?.body;
    let named = demo.get("/v1/labels?driver=k8s_fedora_coreos_v1").await?.expect(200)?.body;
    let known = named["labels"].as_array().context("a list")?;
    let of_others = demo.get("/v1/labels?driver=k8s_capi_helm_v1").await?.expect(200)?.body;
    let of_others = of_others["labels"].as_array().context("a list")?;
    ensure!(all["labels"].as_array().map(Vec::len) == Some(known.len() + of_others.len()), "the labels of all drivers");
    ensure!(of_others.iter().any(|l| l["name"] == "capi_helm_chart_version"));
    let label = |name: &str| known.iter().find(|l| l["name"] == name).cloned().unwrap_or_default();
    ensure!(known.len() >= 100 && label("boot_volume_size")["type"] == "integer", "{}", known.len());
    ensure!(label("flannel_backend")["values"] == json!(["vxlan", "host-gw"]) && label("kube_tag")["default"].is_string());
    demo.get("/v1/labels?driver=nope").await?.expect_error(400, "nope")?;
    world.user("nobody", "demo").get("/v1/labels").await?.expect_error(403, "clustertemplate:get_all")?;

    let before = world.counts().await?;
    let with = |labels: Value| {
        let mut body = client::template("bad");
        body["labels"] = labels;
        body
    };
    for (labels, word) in [
        (json!({"boot_volume_size": "ten"}), "labels[boot_volume_size]"),
        (json!({"flannel_backend": "ipsec"}), "vxlan, host-gw"),
        (json!({"team": "blue", "octavia_lb_healthcheck": "maybe"}), "labels[octavia_lb_healthcheck]"),
        (json!({"service_cluster_ip_range": "10.0.0.1/16"}), "labels[service_cluster_ip_range]"),
    ] {
        demo.post("/v1/clustertemplates", &with(labels)).await?.expect_error(400, word)?;
    }
    ensure!(world.counts().await? == before);

    let template = demo.create_template("small").await?;
    let path = format!("/v1/clustertemplates/{template}");
    let patch = |value: &str| json!([{"op": "replace", "path": "/labels", "value": value}]);
    demo.patch(&path, &patch("{'boot_volume_size': 'ten'}")).await?.expect_error(400, "labels[boot_volume_size]")?;
    // What has no effect may be anything.
    let odd = "{'team': 'blue', 'flannel_backend': 'host-gw', 'selinux_mode': 'Enforcing', 'prometheus_monitoring': 'perhaps'}";
    demo.patch(&path, &patch(odd)).await?.expect(200)?;
    let mut body = client::cluster("blue", &template);
    body["labels"] = json!({"fixed_subnet_cidr": "all"});
    demo.post("/v1/clusters", &body).await?.expect_error(400, "labels[fixed_subnet_cidr]")?;
    body["labels"] = json!({"team": "red", "cost": 7, "fixed_subnet_cidr": "10.1.0.0/24", "kube_tag": "v1.99.0"});
    body["merge_labels"] = json!(true);
    let cluster = text(&demo.post("/v1/clusters", &body).await?.expect(202)?.body, "uuid");
    let made = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(made["labels"]["selinux_mode"] == "Enforcing", "{made}");
    let told = "does not know team, cost; Kubernetes v1.99 is newer than is known here";
    ensure!(made["labels"]["cost"] == "7" && text(&made, "status_reason").contains(told), "{made}");
    let group = json!({"name": "gpu", "labels": {"boot_volume_size": "ten"}});
    demo.at("1.9").post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect_error(400, "labels[boot_volume_size]")?;

    if mix == Mix::Distributed {
        // A cluster that came with a label that would be refused now: its groups have it from there.
        let odd = format!("UPDATE cluster SET labels = '{{\"octavia_lb_healthcheck\": \"maybe\"}}' WHERE uuid = '{cluster}'");
        world.database()?.execute(&odd, Vec::new()).await?;
        let group = json!({"name": "more", "node_count": 1, "labels": {"cost": "9"}, "merge_labels": true});
        let made = demo.at("1.9").post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?.body;
        ensure!(made["labels"] == json!({"octavia_lb_healthcheck": "maybe", "cost": "9"}), "{made}");
    }

    let plain = demo.create_cluster("plain", &demo.create_template("plain").await?).await?;
    ensure!(demo.wait_for(&plain, "CREATE_COMPLETE", PATIENCE).await?["status_reason"].is_null());
    for cluster in [&cluster, &plain] {
        demo.delete_cluster(cluster).await?;
        demo.wait_gone(cluster, PATIENCE).await?;
    }
    world.finish().await
}

/// Without them: unknown labels are kept and named (above), and volumes are of Cinder's own default type.
#[tokio::test]
async fn unknown_labels_are_refused_and_volumes_are_of_the_types_that_the_operator_wants() -> Result<()> {
    let environment = [
        ("OS_DRIVERS__STRICT_LABELS", "true"),
        ("OS_CINDER__DEFAULT_BOOT_VOLUME_TYPE", "fast"),
        ("OS_CINDER__DEFAULT_DOCKER_VOLUME_TYPE", "slow"),
        ("OS_CINDER__DEFAULT_ETCD_VOLUME_TYPE", "sure"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo().at("1.9");
    let template = demo.create_template("small").await?;
    let before = world.counts().await?;
    let unknown = |mut body: Value| {
        body["labels"] = json!({"kube_tag": "v1.33.5", "team": "blue"});
        body
    };
    let (path, word) = (format!("/v1/clustertemplates/{template}"), "labels[team]");
    demo.post("/v1/clustertemplates", &unknown(client::template("other"))).await?.expect_error(400, word)?;
    let patch = json!([{"op": "replace", "path": "/labels", "value": "{'team': 'blue'}"}]);
    demo.patch(&path, &patch).await?.expect_error(400, word)?;
    demo.post("/v1/clusters", &unknown(client::cluster("blue", &template))).await?.expect_error(400, word)?;
    ensure!(world.counts().await? == before);

    let mut body = client::cluster("blue", &template);
    body["docker_volume_size"] = json!(10);
    body["labels"] = json!({"boot_volume_size": "20", "boot_volume_type": "own", "etcd_volume_size": "2"});
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    let made = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(made["status_reason"].is_null(), "{made}");
    let stack = world.cloud.stacks().pop().context("a stack")?;
    // A label says otherwise.
    for (name, wanted) in [("boot_volume_type", "own"), ("docker_volume_type", "slow"), ("etcd_volume_type", "sure")] {
        ensure!(stack.parameters[name] == wanted, "{name} is {}", stack.parameters[name]);
    }
    let group = json!({"name": "gpu", "labels": {"team": "blue"}});
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect_error(400, word)?;
    let group = json!({"name": "gpu", "node_count": 1, "docker_volume_size": 5, "labels": {"boot_volume_size": "20"}});
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let stacks = world.cloud.stacks();
    let of_group = stacks.iter().find(|other| other.id != stack.id).context("the stack of the group")?;
    for (name, wanted) in [("boot_volume_type", "fast"), ("docker_volume_type", "slow")] {
        ensure!(of_group.parameters[name] == wanted, "{name} of the group is {}", of_group.parameters[name]);
    }
    world.finish().await
}
