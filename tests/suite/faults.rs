//! One call of the cloud goes wrong: the cluster is made, or removed, all the same, and nothing is made twice.

use std::time::Duration;

use anyhow::{Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

fn error() -> How {
    How::Status(500, "the cloud has a bad day".to_owned())
}

/// The fault meets the first such call only.
fn once(at: &str, how: How) -> Fault {
    Fault { at: at.to_owned(), nth: 1, how }
}

#[rstest]
#[case::stack_made_answer_lost("heat.stack_create", How::AcceptThenLose)]
#[case::stack_500("heat.stack_create", error())]
#[case::stack_401("heat.stack_create", How::Unauthorized)]
#[case::stack_refused("heat.stack_create", How::Refuse)]
#[case::stack_slow("heat.stack_create", How::Slow(Duration::from_secs(2)))]
#[case::look_500("heat.resource_list", error())]
#[case::look_lost("heat.any", How::AcceptThenLose)]
#[case::trust_made_answer_lost("keystone.trust_create", How::AcceptThenLose)]
#[case::trust_500("keystone.trust_create", error())]
#[case::trustee_made_answer_lost("keystone.user_create", How::AcceptThenLose)]
#[case::trustee_401("keystone.user_create", How::Unauthorized)]
#[case::role_given_answer_lost("keystone.role_grant", How::AcceptThenLose)]
#[case::role_500("keystone.role_grant", error())]
#[case::key_lent_answer_lost("nova.keypair_create", How::AcceptThenLose)]
#[case::key_500("nova.keypair_create", error())]
#[tokio::test]
async fn a_create_survives(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix, #[case] at: &str, #[case] how: How) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.inject(once(at, how));
    let cluster = demo.create_cluster("blue", &template).await?;
    let complete = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let stack = world.only_stack().await?;
    ensure!(complete["stack_id"] == stack.as_str(), "{complete}");
    // One of each, however often it was asked for.
    let made = world.cloud.leftovers(None);
    // The nodes' trust and Heat's own, and a user for each.
    for (what, most) in [("stack ", 1), ("user ", 2), ("trust ", 2), ("key pair ", 1)] {
        let count = made.iter().filter(|line| line.starts_with(what)).count();
        ensure!(count == most, "{what}: {made:#?}");
    }
    world.finish().await
}

/// A conflict may be the answer to our own request, of which an earlier one made the thing; and who answers 503 may have handed the request on.
#[rstest]
#[case::trustee_409("keystone.user_create", 409)]
#[case::trustee_503("keystone.user_create", 503)]
#[case::trust_409("keystone.trust_create", 409)]
#[case::trust_503("keystone.trust_create", 503)]
#[case::stack_409("heat.stack_create", 409)]
#[case::stack_503("heat.stack_create", 503)]
#[case::key_409("nova.keypair_create", 409)]
#[case::key_503("nova.keypair_create", 503)]
#[tokio::test]
async fn what_may_have_been_made_stays_announced_and_is_waited_for(#[case] at: &str, #[case] status: u16) -> Result<()> {
    let environment = [("OS_OPERATIONS__SETTLE_SECONDS".to_owned(), "5".to_owned())].into();
    let world = World::start(Mix::Distributed, Options { environment, ..Options::default() }).await?;
    let demo = world.demo().at("1.12");
    let template = demo.create_template("small").await?;
    world.cloud.inject(once(at, How::Status(status, "one of this name is there".to_owned())));
    let cluster = demo.create_cluster("blue", &template).await?;
    wait::until("the operation to wait", PATIENCE, async || {
        let operations = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body.to_string();
        Ok(Seen::when(operations.contains("asked for without a clear answer"), || operations))
    })
    .await?;
    let kind = match at {
        "heat.stack_create" => "heat_stack",
        "keystone.trust_create" => "keystone_trust",
        "nova.keypair_create" => "nova_keypair",
        _ => "keystone_user",
    };
    let sql = format!("SELECT COUNT(*) FROM cloud_resource WHERE cluster_uuid = '{cluster}' AND kind = '{kind}' AND resource_id IS NULL");
    let announced: Vec<i64> = world.database()?.rows(&sql).await?;
    ensure!(announced == [1] && world.cloud.calls(at) == 1, "{announced:?}, {} calls", world.cloud.calls(at));
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    world.only_stack().await?;
    world.finish().await
}

#[rstest]
#[case::stack_500("heat.stack_delete", error())]
#[case::stack_gone_answer_lost("heat.stack_delete", How::AcceptThenLose)]
#[case::stack_401("heat.stack_delete", How::Unauthorized)]
#[case::look_lost("heat.any", How::AcceptThenLose)]
#[case::trust_gone_answer_lost("keystone.trust_delete", How::AcceptThenLose)]
#[case::trust_500("keystone.trust_delete", error())]
#[case::trustee_gone_answer_lost("keystone.user_delete", How::AcceptThenLose)]
#[case::trustee_500("keystone.user_delete", error())]
#[case::key_gone_answer_lost("nova.keypair_delete", How::AcceptThenLose)]
#[case::key_500("nova.keypair_delete", error())]
#[tokio::test]
async fn a_delete_survives(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix, #[case] at: &str, #[case] how: How) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    world.cloud.inject(once(at, how));
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.calls(at) >= 1);
    world.finish().await
}
