//! Where certificates are kept: the database, Barbican, files. Clusters live their lives with each, and what goes wrong with Barbican is told,
//! repeated, and leaves nothing behind.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::json;
use tests::client::{Client, text};
use tests::kubeconfig;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// Longer than the test: whoever waits for this answer is killed waiting.
const FOR_EVER: Duration = Duration::from_secs(600);
/// Of one cluster: four pairs, each of a container and three secrets.
const WHOLE: usize = 16;

async fn world(mix: Mix, keeper: &str, folder: Option<&str>) -> Result<World> {
    let mut environment = BTreeMap::from([("OS_CERTIFICATES__CERT_MANAGER_TYPE".to_owned(), keeper.to_owned())]);
    environment.extend(folder.map(|folder| ("OS_CERTIFICATES__STORAGE_PATH".to_owned(), folder.to_owned())));
    World::start(mix, Options { environment, ..Options::default() }).await
}

/// What Barbican holds.
fn kept(world: &World) -> usize {
    world.cloud.leftovers(None).iter().filter(|line| line.starts_with("container ") || line.starts_with("secret ")).count()
}

/// From now on it refuses whatever it is asked.
fn barbican_goes_down(world: &World) {
    world.cloud.inject(Fault { at: "barbican.any".into(), nth: 0, how: How::Status(503, "down for repair".into()) });
}

async fn ask_for_cluster(demo: &Client) -> Result<String> {
    let template = demo.create_template("small").await?;
    demo.create_cluster("blue", &template).await
}

#[rstest]
#[tokio::test]
async fn w15_a_cluster_lives_with_its_certificates_wherever_they_are_kept(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
    #[values("x509keypair", "barbican", "local")] keeper: &str,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let files = || std::fs::read_dir(folder.path()).map(Iterator::count);
    let world = world(mix, keeper, folder.path().to_str()).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let wanted = match keeper {
        "barbican" => (WHOLE, 0, 0),
        "local" => (0, 12, 0),
        _ => (0, 0, 4),
    };
    let rows = match mix {
        Mix::Distributed => world.database()?.counts().await?["x509keypair"],
        Mix::Embedded => wanted.2,
    };
    ensure!((kept(&world), files()?, rows) == wanted, "{keeper}: {} in Barbican, {} files, {rows} rows", kept(&world), files()?);
    world.keep_secrets_of_barbican();
    // Both processes read them: the API signs, the conductor gives them to the nodes of another group.
    let access = kubeconfig::access(&demo, &cluster).await?;
    let ca = openssl::x509::X509::from_pem(access.ca_pem.as_bytes())?;
    let signed = openssl::x509::X509::from_pem(access.certificate_pem.as_bytes())?;
    let key = ca.public_key()?;
    ensure!(signed.verify(&key)?, "the certificate does not chain to the CA");
    let body = json!({"node_count": 3});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &body).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!((kept(&world), files()?) == (0, 0), "{:?}, {} files", world.cloud.leftovers(None), files()?);
    world.finish().await
}

#[rstest]
#[case::certificate_lost("barbican.secret_create", 1, How::AcceptThenLose)]
#[case::key_lost("barbican.secret_create", 5, How::AcceptThenLose)]
#[case::passphrase_500("barbican.secret_create", 12, How::Status(500, "a bad day".to_owned()))]
#[case::container_lost("barbican.container_create", 1, How::AcceptThenLose)]
#[case::last_container_lost("barbican.container_create", 4, How::AcceptThenLose)]
#[case::container_refused("barbican.container_create", 2, How::Refuse)]
#[case::authority_read_503("barbican.secret_payload", 1, How::Status(503, "busy".to_owned()))]
#[case::no_token("barbican.secret_create", 3, How::Unauthorized)]
#[tokio::test]
async fn a_creation_survives(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
    #[case] at: &str,
    #[case] nth: u32,
    #[case] how: How,
) -> Result<()> {
    let world = world(mix, "barbican", None).await?;
    world.cloud.inject(Fault { at: at.to_owned(), nth, how });
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    ensure!(kept(&world) == WHOLE, "{:?}", world.cloud.leftovers(None));
    world.keep_secrets_of_barbican();
    kubeconfig::access(&demo, &cluster).await?;
    world.finish().await
}

#[tokio::test]
async fn a_creation_whose_conductor_is_killed_between_the_parts_is_finished_by_another() -> Result<()> {
    let mut world = world(Mix::Distributed, "barbican", None).await?;
    world.cloud.inject(Fault { at: "barbican.secret_create".into(), nth: 6, how: How::AcceptThenLose });
    world.cloud.inject(Fault { at: "barbican.container_create".into(), nth: 2, how: How::Slow(FOR_EVER) });
    let demo = world.demo();
    let cluster = ask_for_cluster(&demo).await?;
    wait::until("the second container to be asked for", PATIENCE, async || {
        let made = world.cloud.calls("barbican.container_create");
        Ok(Seen::when(made >= 2, || format!("{made} calls")))
    })
    .await?;
    let owner = world.owner(&cluster).await?;
    world.kill(owner)?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(kept(&world) == WHOLE, "{:?}", world.cloud.leftovers(None));
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn w6_barbican_that_refuses_fails_the_creation_by_name_and_leaves_nothing(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = world(mix, "barbican", None).await?;
    world.cloud.inject(Fault { at: "barbican.container_create".into(), nth: 3, how: How::Status(403, "quota of containers".into()) });
    let demo = world.demo();
    let cluster = ask_for_cluster(&demo).await?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let reason = text(&failed, "status_reason");
    ensure!(reason.contains("barbican container_create: 403") && reason.contains("quota of containers"), "{reason}");
    // Two whole ones, and the parts of the third.
    ensure!(kept(&world) == 11, "{:?}", world.cloud.leftovers(None));
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.leftovers(None).is_empty(), "{:?}", world.cloud.leftovers(None));
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_creation_waits_for_barbican_and_says_so(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = world(mix, "barbican", None).await?;
    let demo = world.demo();
    barbican_goes_down(&world);
    let cluster = ask_for_cluster(&demo).await?;
    says_what_it_waits_for(&demo, &cluster, "CREATE_IN_PROGRESS").await?;
    world.cloud.clear_faults();
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(kept(&world) == WHOLE, "{:?}", world.cloud.leftovers(None));
    world.keep_secrets_of_barbican();
    // And one that is given up while Barbican is away: what cannot be made need not be waited for.
    barbican_goes_down(&world);
    let template = text(&demo.cluster(&cluster).await?, "cluster_template_id");
    let other = demo.create_cluster("red", &template).await?;
    says_what_it_waits_for(&demo, &other, "CREATE_IN_PROGRESS").await?;
    demo.delete_cluster(&other).await?;
    world.cloud.clear_faults();
    demo.wait_gone(&other, PATIENCE).await?;
    ensure!(kept(&world) == WHOLE, "{:?}", world.cloud.leftovers(None));
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.leftovers(None).is_empty(), "{:?}", world.cloud.leftovers(None));
    world.finish().await
}

/// Its container is gone, by which all else of the pair was known, and nobody has heard of it.
#[tokio::test]
async fn a_secret_that_came_late_goes_also_where_the_removal_of_its_container_had_no_answer() -> Result<()> {
    let world = world(Mix::Distributed, "barbican", None).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    world.keep_secrets_of_barbican();
    let sql = format!("SELECT name FROM cloud_resource WHERE cluster_uuid = '{cluster}' AND kind = 'certificate' ORDER BY id");
    let names: Vec<String> = world.database()?.rows(&sql).await?;
    let late = json!({"name": format!("Certificate {}", names[0]), "payload": "CERTIFICATE", "payload_content_type": "text/plain"});
    world.cloud_as("magnum", "service")?.post("/key-manager/v1/secrets", &late).await?.expect(201)?;
    ensure!(names.len() == 4 && kept(&world) == WHOLE + 1, "{names:?}, {:?}", world.cloud.leftovers(None));
    world.cloud.inject(Fault { at: "barbican.container_delete".into(), nth: 1, how: How::AcceptThenLose });
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(kept(&world) == 0, "{:?}", world.cloud.leftovers(None));
    world.finish().await
}

/// Waits until a cluster in this status says that Barbican is down.
async fn says_what_it_waits_for(demo: &Client, cluster: &str, status: &str) -> Result<()> {
    wait::until("the cluster to say what it waits for", PATIENCE, async || {
        let shown = demo.cluster(cluster).await?;
        let reason = text(&shown, "status_reason");
        ensure!(text(&shown, "status") == status, "{shown}");
        Ok(Seen::when(reason.contains("barbican") && reason.contains("down for repair"), || reason))
    })
    .await
}

#[rstest]
#[tokio::test]
async fn a_deletion_waits_for_barbican_and_says_so(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = world(mix, "barbican", None).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    world.keep_secrets_of_barbican();
    let (_, csr) = kubeconfig::request()?;
    let request = json!({"cluster_uuid": cluster, "csr": csr});
    if mix == Mix::Embedded {
        demo.post("/v1/certificates", &request).await?.expect(201)?;
    }
    barbican_goes_down(&world);
    // Who has read the authority lately goes on signing. Of the others, as either API is here that nobody has asked, the answer says that it
    // is not the request's fault.
    let wanted = if mix == Mix::Embedded { 201 } else { 503 };
    for _ in 0..2 {
        demo.post("/v1/certificates", &request).await?.expect(wanted)?;
    }
    demo.delete_cluster(&cluster).await?;
    says_what_it_waits_for(&demo, &cluster, "DELETE_IN_PROGRESS").await?;
    world.cloud.clear_faults();
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.leftovers(None).is_empty(), "{:?}", world.cloud.leftovers(None));
    world.finish().await
}

#[tokio::test]
async fn a_forced_deletion_ends_without_barbican_and_tells_what_it_left() -> Result<()> {
    let world = world(Mix::Distributed, "barbican", None).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    world.keep_secrets_of_barbican();
    barbican_goes_down(&world);
    let admin = world.user("admin", "admin");
    admin.post(&format!("/v1/clusters/{cluster}/actions/force-delete"), &json!({})).await?.expect(202)?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let events = demo.get(&format!("/v1/clusters/{cluster}/events")).await?.expect(200)?.body;
    let events = events["events"].as_array().context("events")?;
    let report = events.iter().find(|event| event["kind"] == "leak_report").context("no report")?;
    let leaks = report["leaks"].as_array().context("no leaks in the report")?;
    let certificates: Vec<_> = leaks.iter().filter(|leak| leak["kind"] == "certificate").collect();
    ensure!(certificates.len() == 4 && leaks.len() == 4, "{report}");
    ensure!(certificates.iter().all(|leak| text(leak, "reason").contains("down for repair")), "{report}");
    world.cloud.clear_faults();
    ensure!(kept(&world) == WHOLE, "{:?}", world.cloud.leftovers(None));
    world.cloud.empty_barbican();
    world.finish().await
}
