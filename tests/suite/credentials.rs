//! New credentials: another member of the project takes over the delegation, and everything goes on with a new password.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::json;
use tests::client::{self, Client, text};
use tests::metrics::{until, watched};
use tests::nodes;
use tests::openmetrics::Shown;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// Longer than the test: whoever waits for this answer is killed waiting.
const FOR_EVER: Duration = Duration::from_secs(600);

async fn rotate(client: &Client, cluster: &str) -> Result<()> {
    let answer = client.rotate_credentials(cluster).await?;
    ensure!(answer.body == json!({"uuid": cluster}), "{}", answer.text);
    client.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    Ok(())
}

/// The trust in use and the trustee's password.
async fn password(world: &World, cluster: &str) -> Result<Vec<String>> {
    world.database()?.rows(&format!("SELECT CONCAT(trust_id, ' ', trustee_password) FROM cluster WHERE uuid = '{cluster}'")).await
}

async fn trust(world: &World, cluster: &str) -> Result<Vec<String>> {
    world.database()?.rows(&format!("SELECT trust_id FROM cluster WHERE uuid = '{cluster}' AND trust_id IS NOT NULL")).await
}

async fn resize(client: &Client, cluster: &str, count: u32) -> Result<()> {
    client.resize(cluster, count).await?;
    client.wait_for(cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    Ok(())
}

#[rstest]
#[tokio::test]
async fn credentials_are_made_anew_by_the_same_or_another_member(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let mut seen = Vec::new();
    for (client, count) in [(demo.clone(), 3), (world.user("member2", "demo"), 1)] {
        rotate(&client, &cluster).await?;
        if mix == Mix::Distributed {
            let now = password(&world, &cluster).await?;
            ensure!(!seen.contains(&now), "nothing changed");
            seen.push(now);
        }
        // What follows works with them.
        resize(&demo, &cluster, count).await?;
    }
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Keystone refuses a trust whose giver has lost one of its roles, and lists it all the same: asking for new credentials is the way out.
#[tokio::test]
async fn a_trust_that_does_not_work_any_more_is_replaced() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let before = trust(&world, &cluster).await?;
    ensure!(world.cloud.take_role("demo", "demo", "creator"), "he has it");
    let demo = world.demo();
    rotate(&demo, &cluster).await?;
    let after = trust(&world, &cluster).await?;
    ensure!(after.len() == 1 && after != before, "{before:?}, then {after:?}");
    // What follows works with it.
    resize(&world.user("member2", "demo"), &cluster, 3).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// As a rotation leaves it that was cut off between a new password and its record.
#[tokio::test]
async fn a_password_that_nobody_knows_is_no_fault_of_the_trust() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let before = trust(&world, &cluster).await?;
    let of_trustees = format!("_{}", world.cloud.project_id("demo"));
    ensure!(world.cloud.change_passwords(&of_trustees, "nobody knows it") == 1, "there is one");
    rotate(&demo, &cluster).await?;
    ensure!(trust(&world, &cluster).await? == before && before.len() == 1, "another trust was made");
    let password = password(&world, &cluster).await?;
    rotate(&demo, &cluster).await?;
    ensure!(trust(&world, &cluster).await? == before && self::password(&world, &cluster).await? != password, "nothing changed");
    resize(&demo, &cluster, 3).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Nobody asks for anything: the conductors notice by themselves, tell it once, and see that it was mended.
#[tokio::test]
async fn credentials_that_stop_to_work_are_noticed_and_told() -> Result<()> {
    let settings = [("OS_OPERATIONS__CREDENTIAL_CHECK_SECONDS", "1")];
    let (world, _, url) = watched(Mix::Distributed, &settings).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let clusters = |shown: &Shown, state: &str| shown.sum("magnum_conductor_cluster_credentials", &[("state", state)]);
    let looks = |shown: &Shown, seen: &str| shown.sum("magnum_conductor_credential_looks_total", &[("seen", seen)]);
    let told = async || -> Result<Vec<String>> {
        let body = demo.get(&format!("/v1/clusters/{cluster}/events?limit=1000")).await?.expect(200)?.body;
        let events = body["events"].as_array().context("events")?;
        Ok(events.iter().filter(|event| event["kind"] == "credentials_health").map(|event| text(event, "message")).collect())
    };
    until(&url, "credentials that work", |shown| clusters(shown, "working") == 1.0).await?;

    // Keystone that is away says nothing of the cluster.
    world.cloud.inject(Fault { at: "keystone.token_issue".to_owned(), nth: 0, how: How::Status(503, "maintenance".to_owned()) });
    let away = until(&url, "looks that come to nothing", |shown| looks(shown, "unknown") >= 2.0).await?;
    ensure!((clusters(&away, "working"), clusters(&away, "broken")) == (1.0, 0.0), "{away:#?}");
    world.cloud.clear_faults();
    ensure!(told().await?.is_empty(), "{:?}", told().await?);

    let trust: Vec<String> = world.database()?.rows(&format!("SELECT trust_id FROM cluster WHERE uuid = '{cluster}'")).await?;
    ensure!(world.cloud.remove_trust(trust.first().context("a trust")?), "it was there");
    let refused = until(&url, "credentials that do not work", |shown| clusters(shown, "broken") == 1.0).await?;
    until(&url, "more looks", |shown| looks(shown, "refused") >= looks(&refused, "refused") + 2.0).await?;
    let events = told().await?;
    ensure!(events.len() == 1 && events[0].contains("its trust is gone"), "{events:?}");

    rotate(&demo, &cluster).await?;
    until(&url, "credentials that work again", |shown| clusters(shown, "working") == 1.0 && clusters(shown, "broken") == 0.0).await?;
    let events = told().await?;
    ensure!(events.len() == 2 && events[1] == "the cluster's credentials work again", "{events:?}");
    world.finish().await
}

#[rstest]
#[case::password_set_answer_lost("keystone.user_update", How::AcceptThenLose)]
#[case::password_500("keystone.user_update", How::Status(500, "the cloud has a bad day".to_owned()))]
#[case::trust_made_answer_lost("keystone.trust_create", How::AcceptThenLose)]
#[tokio::test]
async fn a_rotation_survives(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix, #[case] at: &str, #[case] how: How) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.inject(Fault { at: at.to_owned(), nth: 1, how });
    rotate(&world.user("member2", "demo"), &cluster).await?;
    resize(&demo, &cluster, 1).await?;
    world.finish().await
}

#[tokio::test]
async fn a_rotation_whose_conductor_is_killed_is_finished_by_another() -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let calls = world.cloud.calls("keystone.user_update");
    // The old password is void and the new one recorded nowhere.
    world.cloud.inject(Fault { at: "keystone.user_update".to_owned(), nth: 1, how: How::AcceptThenLose });
    world.cloud.inject(Fault { at: "keystone.user_update".to_owned(), nth: 2, how: How::Slow(FOR_EVER) });
    let path = format!("/v1/credentials/{cluster}");
    demo.at("1.12").send(reqwest::Method::PATCH, &path, None).await?.expect(202)?;
    wait::until("the second attempt", PATIENCE, async || {
        let made = world.cloud.calls("keystone.user_update") - calls;
        Ok(Seen::when(made >= 2, || format!("{made} calls")))
    })
    .await?;
    let owner = world.owner(&cluster).await?;
    world.kill(owner)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    resize(&demo, &cluster, 1).await?;
    world.finish().await
}

/// What the masters of the only stack bring into their cluster: the secret of the cloud provider.
fn secret(world: &World) -> Result<String> {
    let secret = nodes::document(&nodes::masters(world)?, "addons/cloud-config.json")?.context("a secret")?;
    Ok(text(&secret["stringData"], "cloud.conf"))
}

/// Whoever holds it acts in the project: it must be what Keystone knows now, and nothing else.
fn has(config: &str, rows: &[String]) -> Result<()> {
    let (trust, password) = rows.first().and_then(|row| row.split_once(' ')).context("a row")?;
    let lines = [format!("trust-id=\"{trust}\""), format!("password=\"{password}\"")];
    ensure!(lines.iter().all(|line| config.lines().any(|found| found == line)), "the masters hold other credentials");
    Ok(())
}

/// A world whose clusters have a cloud provider, and one of them, complete.
async fn trusting(mix: Mix) -> Result<(World, Client, String)> {
    let environment = [("OS_TRUST__CLUSTER_USER_TRUST".to_owned(), "true".to_owned())].into();
    let world = World::start(mix, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    Ok((world, demo, cluster))
}

#[tokio::test]
async fn a_rotation_that_failed_at_a_master_goes_on_with_the_password_that_it_made() -> Result<()> {
    let (world, demo, cluster) = trusting(Mix::Distributed).await?;
    world.cloud.hold_stacks(true);
    demo.rotate_credentials(&cluster).await?;
    world.progress_is_told(&demo, &cluster).await?;
    world.cloud.fail_stack(&world.only_stack().await?, "No valid host was found");
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    let made = password(&world, &cluster).await?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/retry"), &json!({})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(password(&world, &cluster).await? == made, "what the first masters had been given is void");
    has(&secret(&world)?, &made)?;
    world.keep_secrets_of_stacks();
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[tokio::test]
async fn nothing_is_made_anew_while_an_upgrade_is_half_done() -> Result<()> {
    let (world, demo, cluster) = trusting(Mix::Distributed).await?;
    let before = password(&world, &cluster).await?;
    let set = async |version: &str| {
        let sql = format!("UPDATE cluster SET coe_version = '{version}' WHERE uuid = '{cluster}'");
        world.database()?.execute(&sql, Vec::new()).await
    };
    let version = text(&demo.cluster(&cluster).await?, "coe_version");
    set("v1.0.0").await?;
    demo.rotate_credentials(&cluster).await?;
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("an upgrade of the cluster is half done"), "{failed}");
    ensure!(password(&world, &cluster).await? == before, "the credentials changed");
    set(&version).await?;
    rotate(&demo, &cluster).await?;
    world.keep_secrets_of_stacks();
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn new_credentials_reach_the_cloud_provider_with_new_masters(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let (world, demo, cluster) = trusting(mix).await?;
    let (before, ids) = (secret(&world)?, nodes::servers_by_id(&world));
    if mix == Mix::Distributed {
        has(&before, &password(&world, &cluster).await?)?;
    }
    rotate(&world.user("member2", "demo"), &cluster).await?;
    let after = secret(&world)?;
    ensure!(after != before, "the masters hold what they held");
    if mix == Mix::Distributed {
        has(&after, &password(&world, &cluster).await?)?;
    }
    let (was, is): (Vec<_>, Vec<_>) = (kinds(&ids, "master"), kinds(&nodes::servers_by_id(&world), "master"));
    ensure!(was.len() == is.len() && was.iter().all(|id| !is.contains(id)), "the masters are those that were there: {is:?}");
    let workers = kinds(&nodes::servers_by_id(&world), "node");
    ensure!(kinds(&ids, "node") == workers, "workers know no credentials, and were replaced: {workers:?}");

    // Workers that come later wait for the cloud provider, as those do that were there.
    resize(&demo, &cluster, 3).await?;
    let stacks = world.cloud.stacks();
    let parameter = |name: &str| stacks.iter().find_map(|stack| stack.parameters.get(name)).cloned().unwrap_or_default();
    ensure!(parameter("cloud_provider_enabled") == true, "{:?}", parameter("cloud_provider_enabled"));
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// The ids of servers of a kind.
fn kinds(servers: &[(String, String)], kind: &str) -> Vec<String> {
    servers.iter().filter(|(name, _)| name.starts_with(&format!("{kind}-"))).map(|(_, id)| id.clone()).collect()
}

#[tokio::test]
async fn a_cloud_provider_is_refused_where_clusters_are_not_trusted() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let template = demo.create_template("plain").await?;
    let mut body = client::cluster("eager", &template);
    body["labels"] = json!({"cloud_provider_enabled": "true"});
    let cluster = text(&demo.post("/v1/clusters", &body).await?.expect(202)?.body, "uuid");
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("cloud_provider_enabled: must not be true"), "{failed}");
    ensure!(world.cloud.stacks().is_empty(), "a stack was made");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}
