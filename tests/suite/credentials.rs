//! New credentials: another member of the project takes over the delegation, everything goes on with a new password, and whoever had anything by the
//! former ones has nothing any more.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Answer, Client, text};
use tests::login::{Held, log_in_by_trust};
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

/// The trusts of a cluster that the inventory has.
async fn recorded(world: &World, cluster: &str) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT COALESCE(resource_id, name) FROM cloud_resource WHERE cluster_uuid = '{cluster}' AND kind = 'keystone_trust' ORDER BY id"
    );
    world.database()?.rows(&sql).await
}

/// The trusts that there are, each in a line.
fn trusts(world: &World) -> Vec<String> {
    world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("trust ")).collect()
}

fn is_there(world: &World, trust: &str) -> bool {
    trusts(world).iter().any(|line| line.contains(trust))
}

/// Keystone lets the service give no roles: stacks have no owner of their own, and are made through the trust.
fn keep_roles(world: &World) {
    let how = How::Status(403, "You are not authorized to perform the requested action: identity:create_grant.".to_owned());
    world.cloud.inject(Fault { at: "keystone.role_grant".to_owned(), nth: 0, how });
}

/// The same of a user of another project, to whom a trust was handed on.
async fn stranger(world: &World, trust: &str) -> Result<String> {
    let token = log_in_by_trust(&client::http()?, &world.auth_url, &world.cloud.user_id("demo2"), "demo2", trust).await?;
    world.keep_secret(&token, "a token through a trust");
    Ok(token)
}

/// Whoever has this token, at the cloud itself.
fn at_the_cloud(world: &World, token: &str) -> Result<Client> {
    let base = world.auth_url.strip_suffix("/identity/v3").context("the address of the cloud")?;
    Ok(Client::new(client::http()?, &[base.to_owned()], Some(token)))
}

/// Asks for a trust from `demo` as whoever has this token, with what is given here in place of what is usual.
async fn give(world: &World, token: &str, trustee: &str, other: Value) -> Result<Answer> {
    let roles = ["member", "load-balancer_member", "creator", "reader"].map(|name| json!({"name": name}));
    let mut trust = json!({
        "trustor_user_id": world.cloud.user_id("demo"), "trustee_user_id": trustee, "project_id": world.cloud.project_id("demo"),
        "impersonation": true, "roles": roles,
    });
    for (key, value) in other.as_object().context("an object")? {
        trust[key] = value.clone();
    }
    at_the_cloud(world, token)?.post("/identity/v3/OS-TRUST/trusts", &json!({"trust": trust})).await
}

/// Has the trust of this token handed on to a user of another project, so that he can hand it on as well, if it may be; Keystone's answer.
async fn hand_on(world: &World, token: &str) -> Result<Answer> {
    give(world, token, &world.cloud.user_id("demo2"), json!({"allow_redelegation": true})).await
}

/// The id of a trust that was made.
fn made(answer: Answer) -> Result<String> {
    Ok(text(&answer.expect(201)?.body["trust"], "id"))
}

fn is_too_deep(answer: &Answer) -> bool {
    answer.status == 403 && answer.text.contains("Remaining redelegation depth of 0")
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
        // What follows works with them. That of the nodes is there, and Heat's own.
        resize(&demo, &cluster, count).await?;
        ensure!(trusts(&world).len() == 2, "{:?}", trusts(&world));
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
    // Nobody can log in by it, but its giver has given the new one, too.
    ensure!(recorded(&world, &cluster).await? == after && trusts(&world).len() == 2, "{:?}", trusts(&world));
    // What follows works with it.
    resize(&world.user("member2", "demo"), &cluster, 3).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// As a rotation leaves it that was cut off between a new password and its record.
#[tokio::test]
async fn a_password_that_nobody_knows_is_replaced_with_the_trust() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let before = trust(&world, &cluster).await?;
    let of_trustees = format!("_{}", world.cloud.project_id("demo"));
    ensure!(world.cloud.change_passwords(&of_trustees, "nobody knows it") == 1, "there is one");
    rotate(&demo, &cluster).await?;
    let after = trust(&world, &cluster).await?;
    ensure!(after.len() == 1 && after != before && !is_there(&world, &before[0]), "{before:?}, then {after:?}");
    let password = password(&world, &cluster).await?;
    rotate(&demo, &cluster).await?;
    ensure!(trust(&world, &cluster).await? != after && self::password(&world, &cluster).await? != password, "nothing changed");
    ensure!(recorded(&world, &cluster).await? == trust(&world, &cluster).await? && trusts(&world).len() == 2, "{:?}", trusts(&world));
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
#[case::former_trust_gone_answer_lost("keystone.trust_delete", How::AcceptThenLose)]
#[case::former_trust_500("keystone.trust_delete", How::Status(500, "the cloud has a bad day".to_owned()))]
#[case::former_trust_401("keystone.trust_delete", How::Unauthorized)]
#[case::trusts_unlisted("keystone.trust_list", How::Status(503, "one moment".to_owned()))]
#[tokio::test]
async fn a_rotation_survives(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix, #[case] at: &str, #[case] how: How) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.inject(Fault { at: at.to_owned(), nth: 1, how });
    rotate(&world.user("member2", "demo"), &cluster).await?;
    ensure!(trusts(&world).len() == 2, "{:?}", trusts(&world));
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

/// Whoever knows the trustee's password had the trust, as an earlier release made it, handed on to a user of his own, and from him once more.
#[rstest]
#[case::asked_by_its_giver("demo", false)]
#[case::asked_by_another_member("member2", false)]
#[case::with_a_cloud_provider("demo", true)]
#[tokio::test]
async fn new_credentials_shut_out_who_had_the_trust_handed_on_to_him(#[case] asker: &str, #[case] has_provider: bool) -> Result<()> {
    let environment = [("OS_TRUST__CLUSTER_USER_TRUST".to_owned(), has_provider.to_string())].into();
    let world = World::start(Mix::Distributed, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let held = Held::by(&world, &cluster).await?;
    ensure!(world.cloud.set_redelegations(&held.trust, 3), "there is no such trust");
    let child = made(hand_on(&world, &held.token(&world).await?).await?)?;
    let stolen = stranger(&world, &child).await?;
    let grandchild = made(hand_on(&world, &stolen).await?)?;
    stranger(&world, &grandchild).await?;
    at_the_cloud(&world, &stolen)?.get("/network/v2.0/networks").await?.expect(200)?;

    rotate(&world.user(asker, "demo"), &cluster).await?;
    at_the_cloud(&world, &stolen)?.get("/network/v2.0/networks").await?.expect(401)?;
    for trust in [&child, &grandchild] {
        ensure!(stranger(&world, trust).await.is_err(), "{trust} is of use still");
    }
    ensure!(!is_there(&world, &held.trust) && trusts(&world).len() == 2, "{:?}", trusts(&world));
    let now = Held::by(&world, &cluster).await?;
    ensure!(recorded(&world, &cluster).await? == [now.trust.clone()], "{:?}", recorded(&world, &cluster).await?);
    ensure!(demo.cluster(&cluster).await?["status_reason"].is_null(), "{}", demo.cluster(&cluster).await?);
    // What comes in its place may not be handed on.
    let other = json!({"trustor_user_id": world.cloud.user_id(asker), "allow_redelegation": true});
    let refused = give(&world, &now.token(&world).await?, &world.cloud.user_id("demo2"), other).await?;
    ensure!(is_too_deep(&refused), "{refused:?}");
    resize(&demo, &cluster, 3).await?;
    world.keep_secrets_of_stacks();
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[tokio::test]
async fn a_trust_is_handed_on_to_nobody_where_stacks_have_an_owner() -> Result<()> {
    let (world, demo, cluster) = trusting(Mix::Distributed).await?;
    let held = Held::by(&world, &cluster).await?;
    let refused = hand_on(&world, &held.token(&world).await?).await?;
    ensure!(is_too_deep(&refused), "{refused:?}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Without an owner of the stacks Heat has its own trusts from the cluster's: these must not go, and nobody can tell others from them.
#[tokio::test]
async fn a_former_trust_stays_as_long_as_heat_needs_it_and_is_told_of() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    keep_roles(&world);
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let held = Held::by(&world, &cluster).await?;
    // As it may be to Heat, and no further.
    let child = made(hand_on(&world, &held.token(&world).await?).await?)?;
    let refused = hand_on(&world, &stranger(&world, &child).await?).await?;
    ensure!(is_too_deep(&refused), "{refused:?}");

    rotate(&demo, &cluster).await?;
    let reason = text(&demo.cluster(&cluster).await?, "status_reason");
    ensure!(reason.contains(&held.trust) && reason.contains("Heat could change none of them any more"), "{reason}");
    let told = nodes::told(&demo, &cluster, "former_trust_stays").await?;
    ensure!(told.len() == 1 && told[0].starts_with(&held.trust), "{told:?}");
    let second = trust(&world, &cluster).await?;
    ensure!(is_there(&world, &held.trust) && second != [held.trust.clone()], "{:?}", trusts(&world));
    ensure!(recorded(&world, &cluster).await?.len() == 2, "{:?}", recorded(&world, &cluster).await?);
    resize(&demo, &cluster, 3).await?;

    // The stack comes to an owner with its next change.
    world.cloud.clear_faults();
    resize(&demo, &cluster, 4).await?;
    rotate(&demo, &cluster).await?;
    ensure!(demo.cluster(&cluster).await?["status_reason"].is_null(), "{}", demo.cluster(&cluster).await?);
    ensure!(stranger(&world, &child).await.is_err(), "what was handed on is of use still");
    ensure!(!is_there(&world, &held.trust) && !is_there(&world, &second[0]) && trusts(&world).len() == 2, "{:?}", trusts(&world));
    ensure!(recorded(&world, &cluster).await? == trust(&world, &cluster).await?);
    resize(&demo, &cluster, 1).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// The former password counts until there is a new one: whoever knows it can find the new trust, too.
#[tokio::test]
async fn who_finds_the_new_trust_before_the_new_password_has_nothing_of_it() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    keep_roles(&world);
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let held = Held::by(&world, &cluster).await?;
    world.cloud.inject(Fault { at: "keystone.user_update".to_owned(), nth: 1, how: How::Hold });
    demo.rotate_credentials(&cluster).await?;
    wait::until("the new password to be asked for", PATIENCE, async || {
        let held = world.cloud.held();
        Ok(Seen::when(held > 0, || "not yet".to_owned()))
    })
    .await?;
    let new = Held::by(&world, &cluster).await?;
    ensure!(new.trust != held.trust && new.password == held.password, "the trust comes before the password");
    let child = made(hand_on(&world, &new.token(&world).await?).await?)?;
    world.cloud.let_go();
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(trust(&world, &cluster).await? == [new.trust.clone()], "another trust was made");
    ensure!(!is_there(&world, &child) && stranger(&world, &child).await.is_err(), "what was handed on is of use still");
    resize(&demo, &cluster, 3).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Else he would keep what he has by it: a trust that is made from another one ends with that, and so that one could not be ended any more.
#[tokio::test]
async fn who_acts_by_the_clusters_own_trust_gives_it_no_other() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let held = Held::by(&world, &cluster).await?;
    ensure!(world.cloud.set_redelegations(&held.trust, 3), "there is no such trust");
    let token = held.token(&world).await?;
    let child = made(hand_on(&world, &token).await?)?;
    for token in [token, stranger(&world, &child).await?] {
        world.client(Some(&token)).rotate_credentials(&cluster).await?;
        let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
        ensure!(text(&failed, "status_reason").contains("cannot give it another one"), "{failed}");
        ensure!(recorded(&world, &cluster).await? == [held.trust.clone()], "{:?}", recorded(&world, &cluster).await?);
    }
    rotate(&demo, &cluster).await?;
    ensure!(stranger(&world, &child).await.is_err(), "what was handed on is of use still");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Between the same two there may be trusts of all kinds; the cluster acts by none but one that is as it would be made.
#[tokio::test]
async fn no_trust_is_taken_for_what_it_is_not() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let held = Held::by(&world, &cluster).await?;
    let token = world.token("demo", "demo");
    let mut others = Vec::new();
    for other in [
        json!({"expires_at": "2100-01-01T00:00:00.000000Z"}),
        json!({"allow_redelegation": true}),
        json!({"impersonation": false}),
        json!({"roles": [{"name": "member"}]}),
    ] {
        others.push(made(give(&world, &token, &held.user, other).await?)?);
    }
    rotate(&demo, &cluster).await?;
    let now = trust(&world, &cluster).await?;
    ensure!(now.len() == 1 && !others.contains(&now[0]), "{now:?} is one of {others:?}");
    // Nor are they kept: all that the trustee was given in the project were former ones of the cluster.
    ensure!(recorded(&world, &cluster).await? == now && trusts(&world).len() == 2, "{:?}", trusts(&world));
    resize(&demo, &cluster, 3).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// There it would find no stack, and whoever removes one would take that for done.
#[tokio::test]
async fn a_trust_for_another_project_is_not_worked_through() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let admin = world.cloud_as("admin", "admin")?;
    let roles = admin.get("/identity/v3/roles?name=member").await?.expect(200)?.body;
    let (user, project, role) = (world.cloud.user_id("demo"), world.cloud.project_id("demo2"), text(&roles["roles"][0], "id"));
    let path = format!("/identity/v3/projects/{project}/users/{user}/roles/{role}");
    admin.send(reqwest::Method::PUT, &path, None).await?.expect(204)?;
    keep_roles(&world);
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let held = Held::by(&world, &cluster).await?;
    let there = world.token("demo", "demo2");
    let other = json!({"project_id": project, "roles": [{"name": "member"}], "allow_redelegation": true});
    let other = made(give(&world, &there, &held.user, other).await?)?;
    world.database()?.execute(&format!("UPDATE cluster SET trust_id = '{other}' WHERE uuid = '{cluster}'"), Vec::new()).await?;
    resize(&demo, &cluster, 3).await?;
    rotate(&demo, &cluster).await?;
    ensure!(trust(&world, &cluster).await? != [other.clone()], "it is the cluster's still");
    resize(&demo, &cluster, 1).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Without them nothing in the cluster can act: they do not wait for long.
#[tokio::test]
async fn new_masters_come_although_the_former_trust_cannot_be_removed_yet() -> Result<()> {
    let (world, demo, cluster) = trusting(Mix::Distributed).await?;
    let (before, held) = (secret(&world)?, Held::by(&world, &cluster).await?);
    world.cloud.inject(Fault { at: "keystone.trust_delete".to_owned(), nth: 0, how: How::Status(503, "one moment".to_owned()) });
    demo.rotate_credentials(&cluster).await?;
    wait::until("new masters", PATIENCE, async || Ok(Seen::when(secret(&world)? != before, || "not yet".to_owned()))).await?;
    ensure!(is_there(&world, &held.trust), "it could be removed");
    world.cloud.clear_faults();
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(!is_there(&world, &held.trust), "it stays");
    world.finish().await
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
