//! Clusters that upstream's driver made: their stacks are of its templates, and stay so.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use cloud_simulator::StackView;
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, World};

const TEMPLATE: &str = include_str!("adoption/kubecluster.yaml");
const FILES: [(&str, &str); 4] = [
    ("lb_api.yaml", include_str!("adoption/lb_api.yaml")),
    ("network.yaml", include_str!("adoption/network.yaml")),
    ("kubemaster.yaml", include_str!("adoption/kubemaster.yaml")),
    ("kubeminion.yaml", include_str!("adoption/kubeminion.yaml")),
];

/// A world with a complete cluster whose stack is as upstream's driver makes it.
struct Scene {
    world: World,
    demo: Client,
    cluster: String,
}

/// What only the stack's maker knows: Heat shows it to nobody.
const KEY: &str = "the-service-account-key-of-the-masters";
const PASSWORD: &str = "the-password-of-the-dashboard";

async fn scene(mix: Mix) -> Result<Scene> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    world.keep_secret(KEY, "a service account key");
    world.keep_secret(PASSWORD, "a password");
    world.keep_secrets_of_stacks();
    let own = world.cloud.stacks().pop().context("a stack")?;
    let body = json!({
        "template": TEMPLATE,
        "files": FILES.into_iter().collect::<BTreeMap<_, _>>(),
        "environment": {
            "resource_registry": {
                "Magnum::Optional::Neutron::Net": "OS::Neutron::Net",
                "Magnum::Optional::Neutron::Subnet": "OS::Neutron::Subnet",
                "Magnum::Optional::Neutron::Router": "OS::Neutron::Router",
                "Magnum::Optional::Cinder::Volume": "OS::Heat::None",
                "Magnum::Optional::Neutron::LBaaS::LoadBalancer": "OS::Octavia::LoadBalancer",
            },
        },
        "parameters": {
            "cluster_uuid": cluster, "is_cluster_stack": true, "master_role": "master", "worker_role": "worker", "external_network": "public",
            "worker_nodegroup_name": "default-worker", "number_of_masters": 1, "number_of_minions": 1, "docker_volume_type": "",
            "discovery_url": "http://discovery.invalid/x", "minion_flavor": "m1.small", "trustee_password": "p", "trust_id": "t", "openstack_ca": "",
            "kube_service_account_key": KEY, "grafana_admin_passwd": PASSWORD,
        },
    });
    let path = format!("/orchestration/v1/{}/stacks/{}/{}", own.project, own.name, own.id);
    world.cloud_as("demo", "demo")?.send(Method::PUT, &path, Some(body.to_string())).await?.expect(202)?;
    wait::until("the stack to be of upstream's template", PATIENCE, async || {
        let now = world.cloud.stacks().pop().context("a stack")?;
        Ok(Seen::when(now.status == "UPDATE_COMPLETE", || now.status))
    })
    .await?;
    Ok(Scene { world, demo, cluster })
}

impl Scene {
    fn stack(&self, nth: usize) -> Result<StackView> {
        self.world.cloud.stacks().into_iter().nth(nth).with_context(|| format!("stack {nth}"))
    }

    fn servers(&self) -> Vec<String> {
        self.world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("server ")).collect()
    }

    fn path(&self, group: &str) -> String {
        format!("/v1/clusters/{}/nodegroups/{group}", self.cluster)
    }

    async fn group(&self, group: &str, wanted: &str) -> Result<Value> {
        wait::until(&format!("nodegroup {group} to be {wanted}"), PATIENCE, async || {
            let body = self.demo.get(&self.path(group)).await?.expect(200)?.body;
            let seen = format!("{}: {}", body["status"], body["status_reason"]);
            ensure!(text(&body, "status").ends_with("_IN_PROGRESS") || body["status"] == wanted, "waited for {wanted}, which is {seen}");
            Ok(if body["status"] == wanted { Seen::Yes(body) } else { Seen::Instead(seen) })
        })
        .await
    }
}

#[rstest]
#[tokio::test]
async fn a_group_is_added_from_the_template_that_heat_holds(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let scene = scene(mix).await?;
    let Scene { world, demo, cluster } = &scene;
    let before = scene.servers();
    let path = format!("/v1/clusters/{cluster}/nodegroups");
    let body = json!({"name": "gpu", "node_count": 2, "role": "gpu", "flavor_id": "m1.medium", "docker_volume_size": 5});
    demo.post(&path, &body).await?.expect(202)?;
    let made = scene.group("gpu", "CREATE_COMPLETE").await?;
    ensure!(made["node_addresses"].as_array().map(Vec::len) == Some(2), "{made}");
    let (own, group) = (scene.stack(0)?, scene.stack(1)?);
    let given = |name: &str| group.parameters.get(name).map(|v| v.to_string().trim_matches('"').to_owned()).unwrap_or_default();
    let leftovers = world.cloud.leftovers(None);
    for (name, wanted) in [
        ("is_cluster_stack", "false"),
        ("master_role", ""),
        ("worker_role", "gpu"),
        ("worker_nodegroup_name", "gpu"),
        ("number_of_minions", "2"),
        ("minion_flavor", "m1.medium"),
        ("docker_volume_size", "5"),
        ("cluster_uuid", cluster.as_str()),
        ("discovery_url", "http://discovery.invalid/x"),
        // What nobody but the maker knows, and no worker needs, is empty, or left to its default.
        ("kube_service_account_key", ""),
        ("grafana_admin_passwd", "admin"),
    ] {
        ensure!(given(name) == wanted, "{name}: {:?}, not {wanted:?}", given(name));
    }
    for (name, kind) in [("fixed_network", "network "), ("fixed_subnet", "subnet "), ("existing_security_group", "security group ")] {
        let id = given(name);
        ensure!(!id.is_empty() && leftovers.iter().any(|l| l.starts_with(kind) && l.contains(&id)), "{name}: {id:?} in {leftovers:?}");
    }
    ensure!(given("trustee_password").len() > 10 && given("trustee_password") != "******", "the password is not the cluster's");
    ensure!(given("existing_master_private_ip").contains('.'), "{:?}", given("existing_master_private_ip"));
    ensure!(!group.parameters.contains_key("worker_user_data"), "a stack of ours");
    // The group has volumes of its own, and nothing else than its workers; the cluster's stack has not moved.
    ensure!(leftovers.iter().filter(|l| l.starts_with("volume ")).count() == 2, "{leftovers:?}");
    ensure!(scene.servers().len() == before.len() + 2 && before.iter().all(|s| scene.servers().contains(s)), "{:?}", scene.servers());
    ensure!(scene.stack(0)?.began == own.began && own.parameters["number_of_minions"] == json!(1), "{own:?}");

    let resize = json!({"node_count": 1, "nodegroup": "gpu", "nodes_to_remove": ["0"]});
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &resize).await?.expect(202)?;
    scene.group("gpu", "UPDATE_COMPLETE").await?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 2})).await?.expect(202)?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(before.iter().all(|s| scene.servers().contains(s)), "a node was replaced: {before:?} {:?}", scene.servers());

    demo.delete(&scene.path("gpu")).await?.expect(204)?;
    demo.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(world.cloud.stacks().len() == 1, "{:?}", world.cloud.stacks());
    // The members of its balancer's pool are in the stack, and Heat does not always get rid of them: the balancer goes before.
    let so_far = world.cloud.effects().len();
    demo.delete_cluster(cluster).await?;
    demo.wait_gone(cluster, PATIENCE).await?;
    let effects = world.cloud.effects().split_off(so_far);
    let first = |name: &str| effects.iter().position(|effect| *effect == name).with_context(|| format!("{name} in {effects:?}"));
    ensure!(first("octavia.loadbalancer_delete")? < first("heat.stack_delete")?, "{effects:?}");
    scene.world.finish().await
}

#[rstest]
#[tokio::test]
async fn what_its_nodes_cannot_be_given_is_refused_with_the_reason(#[values(Mix::Embedded)] mix: Mix) -> Result<()> {
    let scene = scene(mix).await?;
    let Scene { demo, cluster, .. } = &scene;
    let demo = demo.at("1.14");
    let body = json!({"name": "gpu", "node_labels": {"a": "b"}});
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &body).await?.expect(202)?;
    let failed = scene.group("gpu", "CREATE_FAILED").await?;
    ensure!(text(&failed, "status_reason").contains("node_labels"), "{failed}");
    ensure!(scene.world.cloud.stacks().len() == 1, "{:?}", scene.world.cloud.stacks());
    demo.delete_cluster(cluster).await?;
    demo.wait_gone(cluster, PATIENCE).await?;
    scene.world.finish().await
}
