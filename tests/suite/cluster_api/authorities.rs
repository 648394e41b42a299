//! A Cluster API cluster gets new certificate authorities, and nobody ever meets one that he does not trust. The player in the place of the
//! controllers makes machines of the secrets as they are then, keeps what it knows of a cluster until it is begun anew, and lets no machine
//! become a node that others would not trust.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cloud_simulator::{Fault, How, Trouble};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::management::{Management, template};
use tests::nodes;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

use super::STEP;
use super::halves::reason_has;

/// Of a rotation: five passes.
const LONG: Duration = Duration::from_secs(180);

async fn world(mix: Mix, management: &Management) -> Result<World> {
    World::start(mix, Options { environment: management.with_controllers(), ..Options::default() }).await
}

/// A cluster of three masters and two workers.
async fn complete_cluster(demo: &Client) -> Result<String> {
    let template = demo.post("/v1/clustertemplates", &template("blue-template")).await?.expect(201)?.uuid()?;
    let mut body = client::cluster("blue", &template);
    body["master_count"] = 3.into();
    let cluster = demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    Ok(cluster)
}

async fn rotate(demo: &Client, cluster: &str) -> Result<()> {
    demo.send(Method::PATCH, &format!("/v1/certificates/{cluster}"), None).await?.expect(202)?;
    Ok(())
}

fn certificates(pem: &str) -> Vec<String> {
    let end = "-----END CERTIFICATE-----";
    pem.split_inclusive(end).map(|one| one.trim().to_owned()).filter(|one| one.ends_with(end)).collect()
}

/// What the API shows.
async fn shown(demo: &Client, cluster: &str) -> Result<Vec<String>> {
    Ok(certificates(&text(&demo.get(&format!("/v1/certificates/{cluster}")).await?.expect(200)?.body, "pem")))
}

fn decoded(value: &Value) -> Result<String> {
    Ok(String::from_utf8(BASE64_STANDARD.decode(value.as_str().context("a text")?)?)?)
}

/// A machine, and what it was made of.
struct Machine {
    name: String,
    is_master: bool,
    made_of: Value,
}

impl Machine {
    fn of(&self, part: &str) -> Vec<String> {
        certificates(self.made_of[part].as_str().unwrap_or_default())
    }
}

/// All machines that there are, those that are leaving as well.
fn machines(management: &Management) -> Result<Vec<Machine>> {
    let read = |object: &Value| -> Result<Machine> {
        let metadata = &object["metadata"];
        let fault = &metadata["annotations"]["player/fault"];
        ensure!(fault.is_null(), "{fault}");
        let made_of = serde_json::from_str(&text(&metadata["annotations"], "player/authorities"))?;
        let is_master = !metadata["labels"]["cluster.x-k8s.io/control-plane"].is_null();
        Ok(Machine { name: text(metadata, "name"), is_master, made_of })
    };
    management.cluster.objects("Machine").iter().map(read).collect()
}

/// Whether each trusts what the other shows.
fn check(machines: &[Machine]) -> Result<()> {
    let masters = || machines.iter().filter(|machine| machine.is_master);
    for master in masters() {
        for (part, met) in ["ca", "etcd", "proxy", "sa"].into_iter().flat_map(|part| masters().map(move |met| (part, met))) {
            let is_trusted = met.of(part).first().is_some_and(|shown| master.of(part).contains(shown));
            ensure!(is_trusted, "{} does not trust the {part} of {}", master.name, met.name);
        }
        for worker in machines.iter().filter(|machine| !machine.is_master) {
            let is_trusted = master.of("ca").first().is_some_and(|shown| worker.of("ca").contains(shown));
            ensure!(is_trusted, "{} does not trust {}", worker.name, master.name);
            ensure!(master.of("ca").contains(&text(&worker.made_of, "shown")), "{} does not trust {}", master.name, worker.name);
        }
    }
    Ok(())
}

/// Whether a rotation has left nothing of the former authorities, nor of itself.
pub(super) async fn are_new(management: &Management, demo: &Client, cluster: &str) -> Result<()> {
    let shown = shown(demo, cluster).await?;
    ensure!(shown.len() == 1, "{} authorities", shown.len());
    for machine in machines(management)? {
        let parts: &[&str] = if machine.is_master { &["ca", "etcd", "proxy", "sa"] } else { &["ca"] };
        for part in parts {
            ensure!(machine.of(part).len() == 1, "{} of {part} in {}", machine.of(part).len(), machine.name);
        }
        ensure!(machine.of("ca") == shown, "{} trusts others than the API shows", machine.name);
    }
    let kubeconfig: Value = serde_json::from_str(&decoded(&management.object("Secret", "-kubeconfig")?["data"]["value"])?)?;
    let trusted = decoded(&kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"])?;
    ensure!(certificates(&trusted) == shown, "controllers trust others than the API shows");
    ensure!(management.cluster.objects("ClusterResourceSet").is_empty());
    ensure!(management.object("Secret", "-authorities").is_err(), "what told the nodes is left");
    let plane = management.object("KubeadmControlPlane", "-control-plane")?;
    ensure!(is_bare(&plane["spec"]["kubeadmConfigSpec"]), "{plane}");
    Ok(())
}

/// Whether nothing is said: what Helm 4 takes out of an object leaves empty maps behind.
fn is_bare(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(|fields| fields.values().all(is_bare))
}

#[rstest]
#[case(Mix::Embedded, "3")]
#[case(Mix::Distributed, "3")]
#[case(Mix::Embedded, "4")]
#[tokio::test]
async fn nobody_ever_meets_one_that_he_does_not_trust(#[case] mix: Mix, #[case] helm: &str) -> Result<()> {
    let management = Management::start(STEP, helm).await?;
    let world = world(mix, &management).await?;
    let demo = world.demo();
    let cluster = complete_cluster(&demo).await?;
    let group = json!({"name": "more", "node_count": 1});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    let before = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let (old, first) = (shown(&demo, &cluster).await?, machines(&management)?);
    rotate(&demo, &cluster).await?;
    let mut has_seen_both = false;
    wait::until("the rotation to end", LONG, async || {
        let now = machines(&management)?;
        check(&now)?;
        // Whoever fetches a kubeconfig now reaches every master that there was a moment ago.
        let shown = shown(&demo, &cluster).await?;
        let is_shown = |master: &Machine| master.of("ca").first().is_some_and(|authority| shown.contains(authority));
        ensure!(now.iter().filter(|machine| machine.is_master).all(is_shown), "the API does not show the authority of a master");
        has_seen_both |= shown.len() == 2;
        let body = demo.cluster(&cluster).await?;
        Ok(Seen::when(body["status"] != "UPDATE_IN_PROGRESS", || body.to_string()))
    })
    .await?;
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(has_seen_both && after["status_reason"].is_null(), "{after}");
    are_new(&management, &demo, &cluster).await?;
    let (new, last) = (shown(&demo, &cluster).await?, machines(&management)?);
    ensure!(new != old && last.len() == first.len(), "{} machines, {} before", last.len(), first.len());
    ensure!(last.iter().all(|machine| first.iter().all(|before| before.name != machine.name)), "a machine of before is there");
    ensure!(after["node_count"] == before["node_count"] && after["api_address"] == before["api_address"], "{before} {after}");
    ensure!(after["node_addresses"] != before["node_addresses"] && after["master_addresses"] != before["master_addresses"], "{after}");
    let phases = nodes::told(&demo, &cluster, "ca_rotation").await?;
    ensure!(phases.len() == 5 && phases[4].contains("5/5"), "{phases:?}");
    for deployment in management.cluster.objects("Deployment") {
        let stamp = &deployment["spec"]["template"]["metadata"]["annotations"]["magnum.openstack.org/restarted-at"];
        ensure!(deployment["metadata"]["generation"] == 2 && !stamp.is_null(), "{deployment}");
    }
    if mix == Mix::Distributed {
        let counts = world.database()?.counts().await?;
        ensure!(counts["ca_rotation"] == 0 && counts["x509keypair"] == 4, "{counts:?}");
    }
    // What comes later is made of the new ones, too.
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 3})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    are_new(&management, &demo, &cluster).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.left().is_empty(), "{:#?}", management.left());
    world.finish().await
}

#[tokio::test]
async fn a_rotation_that_failed_leaves_a_cluster_that_can_be_changed_and_goes_on() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let cluster = complete_cluster(&demo).await?;
    let old = shown(&demo, &cluster).await?;
    management.cluster.trouble("MachineDeployment", "-default-worker", Some(Trouble::Fail("no valid host".into())));
    rotate(&demo, &cluster).await?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", LONG).await?;
    ensure!(text(&failed, "status_reason").contains("no valid host"), "{failed}");
    ensure!(shown(&demo, &cluster).await?.len() == 2, "both are trusted");
    management.cluster.trouble("MachineDeployment", "-default-worker", None);
    let resize = json!({"node_count": 3});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &resize).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", LONG).await?;
    check(&machines(&management)?)?;
    rotate(&demo, &cluster).await?;
    let after = demo.wait_for(&cluster, "UPDATE_COMPLETE", LONG).await?;
    ensure!(after["node_count"] == 3, "{after}");
    are_new(&management, &demo, &cluster).await?;
    ensure!(shown(&demo, &cluster).await? != old);
    world.finish().await
}

#[tokio::test]
async fn a_cluster_is_deleted_in_the_middle_of_a_rotation() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Distributed, &management).await?;
    let demo = world.demo();
    let cluster = complete_cluster(&demo).await?;
    // Cluster API does not tell the nodes: the rotation waits.
    management.cluster.trouble("ClusterResourceSet", "-authorities", Some(Trouble::Stall));
    rotate(&demo, &cluster).await?;
    let is_told = |reason: &str| reason.contains(" 1/5: ") && reason.contains(": waiting for Cluster API to tell the cluster ");
    wait::until("the wait to be told", PATIENCE, async || {
        let reason = text(&demo.cluster(&cluster).await?, "status_reason");
        Ok(Seen::when(is_told(&reason), || reason))
    })
    .await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.left().is_empty(), "{:#?}", management.left());
    let counts = world.database()?.counts().await?;
    ensure!(counts["ca_rotation"] == 0 && counts["x509keypair"] == 0, "{counts:?}");
    world.finish().await
}

/// What a former owner of the operation wrote late: the mark of the present one stands there, and its words do not.
#[tokio::test]
async fn what_was_written_is_read_again_and_goes_on_from_what_is_there() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let cluster = complete_cluster(&demo).await?;
    management.cluster.trouble("ClusterResourceSet", "-authorities", Some(Trouble::Stall));
    rotate(&demo, &cluster).await?;
    reason_has(&demo, &cluster, "waiting for Cluster API to tell the cluster").await?;
    let told = management.object("Secret", "-authorities")?;
    let release = text(&told["metadata"]["labels"], "cluster.x-k8s.io/cluster-name");
    ensure!(text(&told["metadata"], "name") == format!("{release}-authorities"), "it is moved and deleted with another cluster: {told}");
    let others = json!({"data": {"1-nodes.json": BASE64_STANDARD.encode("{}"), "2-extensions.json": BASE64_STANDARD.encode("{}")}});
    ensure!(management.cluster.change("Secret", "-authorities", &others) == 1);
    wait::until("the word to be written anew", PATIENCE, async || {
        let now = management.object("Secret", "-authorities")?;
        Ok(Seen::when(now["data"] == told["data"], || now["data"].to_string()))
    })
    .await?;
    management.cluster.trouble("ClusterResourceSet", "-authorities", None);
    demo.wait_for(&cluster, "UPDATE_COMPLETE", LONG).await?;
    are_new(&management, &demo, &cluster).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.left().is_empty(), "{:#?}", management.left());
    world.finish().await
}

/// What a former owner of the operation wrote while machines were made: the next pass would build on it.
#[tokio::test]
async fn what_was_written_during_a_pass_is_made_good_before_the_next_one_begins() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management).await?;
    let demo = world.demo();
    let cluster = complete_cluster(&demo).await?;
    management.cluster.trouble("KubeadmControlPlane", "-control-plane", Some(Trouble::Stall));
    rotate(&demo, &cluster).await?;
    let waits = "1/5: masters that trust the new ones too: 5 of 5 machines ready, waiting for ControlPlaneReady of the cluster";
    reason_has(&demo, &cluster, waits).await?;
    let told = management.object("Secret", "-authorities")?;
    // Cluster API does not see it: masters that join meanwhile are told what they were to be told.
    management.cluster.trouble("ClusterResourceSet", "-authorities", Some(Trouble::Stall));
    let others = json!({"data": {"1-nodes.json": BASE64_STANDARD.encode("{}")}});
    ensure!(management.cluster.change("Secret", "-authorities", &others) == 1);
    // As long as it cannot be written anew, this is the first pass.
    management.cluster.inject(Fault { at: "kubernetes.patch".into(), nth: 0, how: How::Refuse });
    let met = management.cluster.calls("kubernetes.patch");
    management.cluster.trouble("KubeadmControlPlane", "-control-plane", None);
    wait::until("somebody to write it anew", LONG, async || {
        let calls = management.cluster.calls("kubernetes.patch") - met;
        Ok(Seen::when(calls > 0, || format!("{calls} calls")))
    })
    .await?;
    let phases = nodes::told(&demo, &cluster, "ca_rotation").await?;
    ensure!(phases.len() == 1 && phases[0].contains("1/5"), "{phases:?}");
    management.cluster.clear_faults();
    wait::until("the word to be written anew", PATIENCE, async || {
        let now = management.object("Secret", "-authorities")?;
        Ok(Seen::when(now["data"] == told["data"], || now["data"].to_string()))
    })
    .await?;
    management.cluster.trouble("ClusterResourceSet", "-authorities", None);
    demo.wait_for(&cluster, "UPDATE_COMPLETE", LONG).await?;
    are_new(&management, &demo, &cluster).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.left().is_empty(), "{:#?}", management.left());
    world.finish().await
}

/// The authority that is stored may be another one: upstream stores a new one before its driver refuses.
#[tokio::test]
async fn what_the_management_cluster_lacks_is_named_before_anything_changes() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let mut environment = management.environment();
    environment.insert("OS_CAPI_HELM__CONTROLLER_DEPLOYMENTS".into(), "capi-system/nobody".into());
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = complete_cluster(&demo).await?;
    let before: Vec<String> = machines(&management)?.into_iter().map(|machine| machine.name).collect();
    rotate(&demo, &cluster).await?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("has no deployment capi-system/nobody"), "{failed}");
    let after: Vec<String> = machines(&management)?.into_iter().map(|machine| machine.name).collect();
    ensure!(before == after && shown(&demo, &cluster).await?.len() == 1, "{before:?} {after:?}");
    world.finish().await
}
