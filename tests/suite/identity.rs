//! Tokens of every kind: what Keystone would not let a caller do is said at once, what is revoked is refused in time, and Keystone may be away.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use cloud_simulator::{Fault, How, TokenScope};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, text};
use tests::kubeconfig;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

#[rstest]
#[tokio::test]
async fn whoever_cannot_delegate_is_told_at_once(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let template = world.demo().create_template("small").await?;
    let (restricted, unrestricted) = (world.by_credential(true), world.by_credential(false));
    let before = world.counts().await?;
    let refused = restricted.post("/v1/clusters", &client::cluster("blue", &template)).await?;
    refused.expect_error(403, "restricted application credential")?;
    ensure!(world.counts().await? == before, "the refused request left something");
    // The other kind may where Keystone lets it, and what follows works through the trust, whoever asks.
    unrestricted.post("/v1/clusters", &client::cluster("blue", &template)).await?.expect_error(403, "of an application credential")?;
    ensure!(world.counts().await? == before, "the refused request left something");
    world.cloud.allow_trusts_by_credential(true);
    let cluster = unrestricted.create_cluster("blue", &template).await?;
    unrestricted.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    restricted.resize(&cluster, 3).await?;
    restricted.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    let rotate = restricted.at("1.12").send(reqwest::Method::PATCH, &format!("/v1/credentials/{cluster}"), None).await?;
    rotate.expect_error(403, "restricted application credential")?;
    restricted.delete_cluster(&cluster).await?;
    restricted.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Nodes know passwords of such users.
#[rstest]
#[case::by_its_id("")]
// Its admin cannot log in, so nobody tells the id.
#[case::by_its_name("[trust]\ntrustee_domain_admin_password = another\n")]
#[tokio::test]
async fn users_of_the_trustee_domain_are_refused_whether_or_not_keystone_has_told_its_id(#[case] api: &str) -> Result<()> {
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 0, api: api.to_owned(), ..Options::default() }).await?;
    let token = world.cloud.token_with("magnum_domain_admin", TokenScope::Project("demo"), &["member", "reader"]);
    world.keep_secret(&token, "a caller's token");
    let node = world.client(Some(&token));
    node.get("/v1/clusters").await?.expect_error(403, "cluster:get_all")?;
    node.post("/v1/clustertemplates", &client::template("small")).await?.expect_error(403, "clustertemplate:create")?;
    world.demo().create_template("small").await?;
    world.finish().await
}

#[tokio::test]
async fn who_acts_by_a_trust_has_clusters_if_it_may_be_handed_on() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let template = world.demo().create_template("small").await?;
    let with = |times| {
        let (token, trust) = world.cloud.token_through_trust("demo", "demo", "demo2", times);
        world.keep_secret(&token, "a token through a trust");
        (world.client(Some(&token)), trust)
    };
    let ((bound, useless), (free, useful)) = (with(0), with(1));
    let before = world.counts().await?;
    let refused = bound.post("/v1/clusters", &client::cluster("blue", &template)).await?;
    refused.expect_error(403, "may not be handed on")?;
    ensure!(world.counts().await? == before, "the refused request left something");
    let cluster = free.create_cluster("blue", &template).await?;
    free.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let rotate = bound.at("1.12").send(reqwest::Method::PATCH, &format!("/v1/credentials/{cluster}"), None).await?;
    rotate.expect_error(403, "may not be handed on")?;
    // Whoever may not hand on what he has may use it.
    bound.delete_cluster(&cluster).await?;
    bound.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.remove_trust(&useless) && world.cloud.remove_trust(&useful), "a trust is not there any more");
    world.finish().await
}

#[tokio::test]
async fn a_token_is_believed_for_a_while_and_a_revoked_one_not_for_longer() -> Result<()> {
    let environment = BTreeMap::from([("OS_KEYSTONE_AUTHTOKEN__TOKEN_CACHE_TIME".to_owned(), "2".to_owned())]);
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let token = world.token("demo", "demo");
    let demo = world.client(Some(&token));
    demo.get("/v1/clusters").await?.expect(200)?;
    let asked = world.cloud.calls("keystone.token_validate");
    demo.get("/v1/clusters").await?.expect(200)?;
    ensure!(world.cloud.calls("keystone.token_validate") == asked, "Keystone was asked again at once");
    world.cloud.revoke_token(&token);
    wait::until("the revoked token to be refused", Duration::from_secs(4), async || {
        let status = demo.get("/v1/clusters").await?.status;
        Ok(Seen::when(status == 401, || status.to_string()))
    })
    .await?;
    world.finish().await
}

#[tokio::test]
async fn with_keystone_away_known_tokens_go_on_and_others_are_asked_to_come_again() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let known = world.demo();
    let template = known.create_template("small").await?;
    let unknown = world.user("demo2", "demo2");
    world.cloud.inject(Fault { at: "keystone.any".to_owned(), nth: 0, how: How::Refuse });
    let shown = known.get(&format!("/v1/clustertemplates/{template}")).await?.expect(200)?;
    ensure!(text(&shown.body, "name") == "small", "{}", shown.text);
    let refused = unknown.get("/v1/clusters").await?.expect(503)?;
    ensure!(refused.header("retry-after") == "5", "{:?}", refused.headers);
    ensure!(refused.text.contains("Keystone"), "{}", refused.text);
    world.cloud.clear_faults();
    wait::until("the other one to be served", PATIENCE, async || {
        let status = unknown.get("/v1/clusters").await?.status;
        Ok(Seen::when(status == 200, || status.to_string()))
    })
    .await?;
    world.finish().await
}

async fn resize(client: &client::Client, cluster: &str, count: u32, end: &str) -> Result<Value> {
    client.resize(cluster, count).await?;
    client.wait_for(cluster, end, PATIENCE).await
}

#[rstest]
#[tokio::test]
async fn a_cluster_outlives_its_creator(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let cluster = world.complete_cluster(&world.demo()).await?;
    let colleague = world.user("member2", "demo");
    // With him go his tokens and his trusts.
    ensure!(world.cloud.remove_user("demo"));
    resize(&colleague, &cluster, 3, "UPDATE_COMPLETE").await?;
    colleague.rotate_credentials(&cluster).await?;
    colleague.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    resize(&colleague, &cluster, 1, "UPDATE_COMPLETE").await?;
    colleague.delete_cluster(&cluster).await?;
    colleague.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn an_administrator_hands_a_cluster_on(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let (colleague, admin) = (world.user("member2", "demo"), world.user("admin", "admin"));
    let certificate = format!("/v1/certificates/{cluster}");
    colleague.get(&certificate).await?.expect_error(403, "certificate:get")?;
    let transfer = async |client: &client::Client, user: &str| {
        let body = json!({"user_id": world.cloud.user_id(user)});
        client.post(&format!("/v1/clusters/{cluster}/actions/transfer"), &body).await
    };
    transfer(&colleague, "member2").await?.expect_error(403, "cluster:transfer")?;
    transfer(&admin, "demo2").await?.expect_error(400, "has no role in project")?;
    demo.get(&certificate).await?.expect(200)?;

    transfer(&admin, "member2").await?.expect(202)?;
    let shown = colleague.get(&format!("/v1/clusters/{cluster}")).await?.expect(200)?.body;
    ensure!(text(&shown, "user_id") == world.cloud.user_id("member2") && text(&shown, "status") == "CREATE_COMPLETE", "{shown}");
    kubeconfig::access(&colleague, &cluster).await?;
    demo.get(&certificate).await?.expect_error(403, "certificate:get")?;

    // The former owner goes, and with him the trust; the new one gives his.
    ensure!(world.cloud.remove_user("demo"));
    colleague.rotate_credentials(&cluster).await?;
    colleague.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    resize(&colleague, &cluster, 3, "UPDATE_COMPLETE").await?;
    colleague.delete_cluster(&cluster).await?;
    colleague.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Keystone lets the service give no roles.
fn keep_roles(world: &World) {
    let how = How::Status(403, "You are not authorized to perform the requested action: identity:create_grant.".to_owned());
    world.cloud.inject(Fault { at: "keystone.role_grant".to_owned(), nth: 0, how });
}

#[rstest]
#[tokio::test]
async fn a_stack_comes_to_its_owner_with_its_next_change(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    keep_roles(&world);
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.clear_faults();
    resize(&demo, &cluster, 4, "UPDATE_COMPLETE").await?;
    ensure!(world.cloud.remove_user("demo"));
    let colleague = world.user("member2", "demo");
    resize(&colleague, &cluster, 3, "UPDATE_COMPLETE").await?;
    colleague.delete_cluster(&cluster).await?;
    colleague.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// As after a change of the service's password, which the owners' are derived from.
#[rstest]
#[tokio::test]
async fn an_owner_of_stacks_that_cannot_log_in_is_put_in_order(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    ensure!(world.cloud.change_passwords("_stacks", "another password") == 1);
    resize(&demo, &cluster, 3, "UPDATE_COMPLETE").await?;
    ensure!(world.cloud.change_passwords("_stacks", "one more") == 1);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Where Keystone lets nobody put it in order, it is done without: as the creator, whom Heat makes the stack over to.
#[tokio::test]
async fn an_owner_of_stacks_that_nobody_can_put_in_order_is_done_without() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.change_passwords("_stacks", "another password");
    let how = How::Status(403, "You are not authorized to perform the requested action: identity:update_user.".to_owned());
    world.cloud.inject(Fault { at: "keystone.user_update".to_owned(), nth: 0, how });
    resize(&demo, &cluster, 3, "UPDATE_COMPLETE").await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_stack_whose_owner_is_gone_is_said_to_be_one(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    keep_roles(&world);
    let cluster = world.complete_cluster(&world.demo()).await?;
    ensure!(world.cloud.remove_user("demo"));
    let colleague = world.user("member2", "demo");
    let failed = resize(&colleague, &cluster, 3, "UPDATE_FAILED").await?;
    ensure!(text(&failed, "status_reason").contains("the user whom the stack belongs to is gone"), "{failed}");
    colleague.delete_cluster(&cluster).await?;
    colleague.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// A client whose token has expired.
async fn expired(world: &World) -> Result<client::Client> {
    world.cloud.set_token_lifetime(Duration::from_secs(1));
    let old = world.demo();
    world.cloud.set_token_lifetime(Duration::from_secs(3600));
    wait::until("the token to expire", PATIENCE, async || {
        let status = old.get("/v1/clusters").await?.status;
        Ok(Seen::when(status == 401, || status.to_string()))
    })
    .await?;
    Ok(old)
}

/// A service that has worked for longer than its caller's token lasts sends the rest on in the caller's name, with a token of its own.
#[rstest]
#[tokio::test]
async fn an_expired_token_is_taken_from_a_service_and_from_nobody_else(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let fresh = world.demo();
    let template = fresh.create_template("small").await?;
    let old = expired(&world).await?;
    let (service, member) = (world.token("magnum", "service"), world.token("demo2", "demo2"));
    let path = format!("/v1/clustertemplates/{template}");
    // The same twice: what is remembered of one is not taken for the other.
    for _ in 0..2 {
        for (client, of_service, wanted) in [
            (&old, None, 401),
            (&old, Some(service.as_str()), 200),
            (&old, Some(member.as_str()), 401),
            (&old, Some("no-token-at-all"), 401),
            (&fresh, Some(service.as_str()), 200),
            (&fresh, Some(member.as_str()), 401),
            (&fresh, Some("no-token-at-all"), 401),
            (&fresh, Some(" "), 200),
        ] {
            let client = of_service.map_or_else(|| client.clone(), |token| client.with("X-Service-Token", token));
            let answer = client.get(&path).await?;
            ensure!(answer.status == wanted, "{of_service:?}: {} instead of {wanted}", answer.status);
        }
    }
    // Nothing is begun that the token could not carry through.
    let through = old.with("X-Service-Token", &service);
    through.post("/v1/clusters", &client::cluster("blue", &template)).await?.expect_error(403, "expired")?;
    world.finish().await
}

#[tokio::test]
async fn the_operator_says_which_service_tokens_count() -> Result<()> {
    for (option, value) in [("SERVICE_TOKEN_ROLES", "reader,member"), ("SERVICE_TOKEN_ROLES_REQUIRED", "false")] {
        let environment = BTreeMap::from([(format!("OS_KEYSTONE_AUTHTOKEN__{option}"), value.to_owned())]);
        let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
        let member = world.token("demo2", "demo2");
        let demo = world.demo();
        demo.with("X-Service-Token", &member).get("/v1/clusters").await?.expect(200)?;
        demo.with("X-Service-Token", "no-token-at-all").get("/v1/clusters").await?.expect(401)?;
        // Where no role is needed, a service token makes up for nothing.
        let wanted = if value == "false" { 401 } else { 200 };
        expired(&world).await?.with("X-Service-Token", &member).get("/v1/clusters").await?.expect(wanted)?;
        world.finish().await?;
    }
    Ok(())
}
