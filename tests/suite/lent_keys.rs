//! The key pair that the owner of a cluster's stacks is lent: it is in the inventory before Nova is asked for it, and goes with its cluster,
//! whoever is gone meanwhile. The creator's own, of the same name, stays.

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use model::id::ClusterId;
use model::resource::{CloudResource, ResourceKind};
use model::store::{Conn, resource};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

use crate::sweep::lose;

/// The references of a cluster's certificates, as one text.
const CERTIFICATES: &str = "CONCAT_WS(',', ca_cert_ref, etcd_ca_cert_ref, front_proxy_ca_cert_ref, magnum_cert_ref)";

/// What the inventory has of a cluster's key pairs.
async fn recorded(world: &World, cluster: &str) -> Result<Vec<CloudResource>> {
    let id = &ClusterId::new(cluster);
    let rows = world.store()?.read(async |conn: &mut Conn| resource::of_cluster(conn, id).await).await?;
    Ok(rows.into_iter().filter(|row| row.kind() == Some(ResourceKind::KeyPair)).collect())
}

/// The id of the one who was lent a cluster's only key pair, and what the inventory calls that.
async fn lent(world: &World, cluster: &str) -> Result<(String, String)> {
    let rows = recorded(world, cluster).await?;
    let [row] = &rows[..] else { anyhow::bail!("{rows:?}") };
    ensure!(row.resource_id.as_ref() == Some(&row.name) && row.is_to_go(), "{row:?}");
    let owner = row.name.strip_suffix("/key").with_context(|| format!("{row:?}"))?;
    Ok((owner.to_owned(), row.name.clone()))
}

/// The key pairs that somebody was lent, each in a line.
fn in_nova(world: &World) -> Vec<String> {
    world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("key pair ")).collect()
}

/// The creator has what the nodes of his clusters let in, still.
async fn creator_has_his_own(world: &World) -> Result<()> {
    world.cloud_as("demo", "demo")?.get("/compute/v2.1/os-keypairs/key").await?.expect(200)?;
    Ok(())
}

/// The events of a cluster of this kind.
async fn events(client: &Client, cluster: &str, kind: &str) -> Result<Vec<Value>> {
    let body = client.get(&format!("/v1/clusters/{cluster}/events?limit=1000")).await?.expect(200)?.body;
    let events = body["events"].as_array().context("a list")?;
    Ok(events.iter().filter(|event| event["kind"] == kind).cloned().collect())
}

/// Deletes a cluster; what is told of it at the end.
async fn deleted(client: &Client, cluster: &str) -> Result<Value> {
    client.delete_cluster(cluster).await?;
    client.wait_gone(cluster, PATIENCE).await?;
    events(client, cluster, "leak_report").await?.pop().context("no report")
}

/// Whether a list of a report has a thing of this kind, by its name.
fn has(report: &Value, list: &str, kind: &str, name: &str) -> bool {
    report[list].as_array().is_some_and(|things| things.iter().any(|thing| thing["kind"] == kind && thing["name"] == name))
}

#[rstest]
#[tokio::test]
async fn a_key_pair_is_recorded_before_it_is_made_and_goes_with_its_cluster(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.inject(Fault { at: "nova.keypair_create".to_owned(), nth: 1, how: How::Hold });
    let cluster = demo.create_cluster("blue", &template).await?;
    wait::until("the request", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "not asked".to_owned()))).await?;
    let announced = recorded(&world, &cluster).await?;
    ensure!(announced.len() == 1 && announced[0].resource_id.is_none() && in_nova(&world).is_empty(), "{announced:?}");
    world.cloud.let_go();
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let (owner, name) = lent(&world, &cluster).await?;
    ensure!(name == announced[0].name && in_nova(&world) == [format!("key pair key of {owner}")], "{name}: {:?}", in_nova(&world));
    let told = deleted(&demo, &cluster).await?;
    ensure!(has(&told, "removed", "nova_keypair", &name) && told["leaks"] == json!([]) && told["gone"] == json!([]), "{told}");
    creator_has_his_own(&world).await?;
    world.finish().await
}

/// What it lent is in no row; and what a later one has recorded keeps nobody from anything.
#[tokio::test]
async fn a_key_pair_that_an_older_release_lent_goes_as_well() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let (_, name) = lent(&world, &cluster).await?;
    let database = world.database()?;
    database.execute("DELETE FROM cloud_resource WHERE kind = 'nova_keypair'", Vec::new()).await?;
    let later = "INSERT INTO cloud_resource (cluster_uuid, kind, name, on_delete, created_ms, updated_ms) VALUES";
    database.execute(&format!("{later} ('{cluster}', 'of_a_later_release', 'thing', 'delete', 1, 1)"), Vec::new()).await?;
    let told = deleted(&demo, &cluster).await?;
    ensure!(has(&told, "removed", "nova_keypair", &name) && told["leaks"] == json!([]), "{told}");
    ensure!(in_nova(&world).is_empty(), "{:?}", in_nova(&world));
    world.finish().await
}

/// Nova keeps the key pairs of users who are gone.
#[rstest]
#[tokio::test]
async fn a_key_pair_goes_when_its_owner_is_gone(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let (owner, name) = lent(&world, &cluster).await?;
    ensure!(world.cloud.remove_user_by_id(&owner) && in_nova(&world).len() == 1, "{:?}", in_nova(&world));
    let told = deleted(&demo, &cluster).await?;
    ensure!(has(&told, "removed", "nova_keypair", &name) && told["leaks"] == json!([]), "{told}");
    world.finish().await
}

#[tokio::test]
async fn a_key_pair_that_somebody_else_removed_is_told_as_gone() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let (_, name) = lent(&world, &cluster).await?;
    ensure!(world.cloud.remove_reported("nova_keypair", &name, None) && in_nova(&world).is_empty());
    let told = deleted(&demo, &cluster).await?;
    ensure!(has(&told, "gone", "nova_keypair", &name) && told["leaks"] == json!([]), "{told}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_key_pair_that_nova_does_not_let_go_is_told_and_keeps_no_cluster(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
    #[values("nova.keypair_list", "nova.keypair_delete")] at: &str,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let (owner, name) = lent(&world, &cluster).await?;
    world.cloud.inject(Fault { at: at.to_owned(), nth: 0, how: How::Status(403, "not you".to_owned()) });
    let told = deleted(&demo, &cluster).await?;
    let [leak] = &told["leaks"].as_array().context("a list of leaks")?[..] else { anyhow::bail!("{told}") };
    ensure!(leak["kind"] == "nova_keypair" && leak["id"] == name.as_str() && text(leak, "reason").contains("not you"), "{told}");
    ensure!(world.cloud.leftovers(None) == [format!("key pair key of {owner}")], "{:?}", world.cloud.leftovers(None));
    ensure!(world.cloud.remove_reported("nova_keypair", &name, leak["id"].as_str()));
    world.finish().await
}

#[tokio::test]
async fn new_credentials_leave_the_key_pair_as_it_is() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let before = lent(&world, &cluster).await?;
    demo.rotate_credentials(&cluster).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(lent(&world, &cluster).await? == before && in_nova(&world).len() == 1, "{:?}", in_nova(&world));
    ensure!(world.cloud.calls("nova.keypair_create") == 1, "{} requests", world.cloud.calls("nova.keypair_create"));
    world.finish().await
}

/// By its own row, which says whose it was: nothing else does any more.
#[tokio::test]
async fn a_key_pair_of_a_lost_cluster_is_swept_away_also_when_its_owner_is_gone() -> Result<()> {
    let world = World::start(Mix::Distributed, Options::sweeping()).await?;
    let demo = world.demo();
    let kept = world.complete_cluster(&demo).await?;
    let lost = demo.create_cluster("green", "small").await?;
    demo.wait_for(&lost, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    world.keep_secrets_of_rows().await?;
    let pairs = world.database()?.rows::<String>(&format!("SELECT {CERTIFICATES} FROM cluster WHERE uuid = '{lost}'")).await?;
    let ((owner, name), (keeper, _)) = (lent(&world, &lost).await?, lent(&world, &kept).await?);
    ensure!(world.cloud.remove_user_by_id(&owner) && in_nova(&world).len() == 2, "{:?}", in_nova(&world));
    lose(&world, &lost).await?;
    wait::until("the key pair to go", PATIENCE, async || {
        let (left, rows) = (in_nova(&world), recorded(&world, &lost).await?);
        Ok(Seen::when(left == [format!("key pair key of {keeper}")] && rows.is_empty(), || format!("{left:?}, {rows:?}")))
    })
    .await?;
    wait::until("the find to be told", PATIENCE, async || {
        let found = events(&demo, &lost, "sweep_finding").await?;
        Ok(Seen::when(found.iter().any(|event| event["thing"]["name"] == name.as_str()), || format!("{found:?}")))
    })
    .await?;
    creator_has_his_own(&world).await?;
    wait::until("all of it to go", PATIENCE, async || {
        let rows: Vec<i64> = world.database()?.rows(&format!("SELECT COUNT(*) FROM cloud_resource WHERE cluster_uuid = '{lost}'")).await?;
        Ok(Seen::when(rows == [0], || format!("{rows:?}")))
    })
    .await?;
    // Its certificates are of no use to anybody and known to nobody.
    for pair in pairs.iter().flat_map(|pairs| pairs.split(',')) {
        world.database()?.execute(&format!("DELETE FROM x509keypair WHERE uuid = '{pair}'"), Vec::new()).await?;
    }
    world.finish().await
}
