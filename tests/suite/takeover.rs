//! `kill -9` of the conductor that owns an operation: another one finishes it, and everything exists once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How, NewLoadBalancer};
use model::operation::Payload;
use mysql_async::prelude::Queryable;
use rstest::rstest;
use tests::client::Client;
use tests::database::copy;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// Longer than the test: whoever waits for this answer is killed waiting.
const FOR_EVER: Duration = Duration::from_secs(600);

struct Scene {
    world: World,
    demo: Client,
    template: String,
}

async fn scene() -> Result<Scene> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    Ok(Scene { world, demo, template })
}

fn once(at: &str, how: How) -> Fault {
    Fault { at: at.to_owned(), nth: 1, how }
}

/// Waits until a named call has been made.
async fn called(world: &World, at: &str) -> Result<()> {
    wait::until(at, PATIENCE, async || Ok(Seen::when(world.cloud.calls(at) > 0, || "no call".to_owned()))).await
}

/// The operation's stored stack id, and who took it.
async fn stack_is_recorded(world: &World, cluster: &str) -> Result<bool> {
    let sql = format!("SELECT COUNT(*) FROM cluster WHERE uuid = '{cluster}' AND stack_id IS NOT NULL");
    let rows: Vec<i64> = world.database()?.rows(&sql).await?;
    Ok(rows == [1])
}

/// The cluster comes up under another owner, with the only stack that was ever made.
async fn another_finishes(scene: Scene, cluster: &str, killed: u32) -> Result<()> {
    let Scene { world, demo, .. } = scene;
    let complete = demo.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let stack = world.only_stack().await?;
    ensure!(complete["stack_id"] == stack.as_str(), "{complete}");
    let events: Vec<(String, String)> =
        world.database()?.rows(&format!("SELECT kind, message FROM operation_event WHERE cluster_uuid = '{cluster}' ORDER BY id")).await?;
    let taker = events.iter().find(|(kind, _)| kind == "taken_over").map(|(_, owner)| owner);
    let taker = taker.with_context(|| format!("nobody took over: {events:?}"))?;
    ensure!(!taker.contains(&format!(":{killed}:")), "{taker} took over from itself");
    let asked = world.cloud.calls("heat.stack_create");
    ensure!(asked == 1, "{asked} stacks were asked for");
    let users = world.cloud.leftovers(None).iter().filter(|line| line.starts_with("user ")).count();
    ensure!(users == 2, "{users} instead of a trustee and an owner of the stack");
    world.finish().await
}

#[tokio::test]
async fn w1_a_create_whose_conductor_is_killed_before_the_stack_exists_is_finished_by_another() -> Result<()> {
    let mut scene = scene().await?;
    scene.world.cloud.inject(once("keystone.trust_create", How::Slow(FOR_EVER)));
    let cluster = scene.demo.create_cluster("blue", &scene.template).await?;
    called(&scene.world, "keystone.trust_create").await?;
    let owner = scene.world.owner(&cluster).await?;
    ensure!(scene.world.cloud.stacks().is_empty());
    scene.world.kill(owner)?;
    another_finishes(scene, &cluster, owner).await
}

/// The request of an owner that stands still is late: who goes on waits for what may come of it, and asks for no second one.
#[tokio::test]
async fn a_trust_that_comes_late_is_the_only_one() -> Result<()> {
    // The late request comes well within it.
    let environment = [("OS_OPERATIONS__SETTLE_SECONDS".to_owned(), "45".to_owned())].into();
    let world = World::start(Mix::Distributed, Options { environment, ..Options::default() }).await?;
    let demo = world.demo().at("1.12");
    let template = demo.create_template("small").await?;
    world.cloud.inject(once("keystone.trust_create", How::Hold));
    let cluster = demo.create_cluster("blue", &template).await?;
    wait::until("the request to be held", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "not yet".to_owned()))).await?;
    let owner = world.owner(&cluster).await?;
    world.freeze(owner)?;
    wait::until("another one to wait", PATIENCE, async || {
        let operations = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body.to_string();
        let is_waiting = operations.contains("keystone_trust") && operations.contains("asked for without a clear answer");
        Ok(Seen::when(is_waiting, || operations))
    })
    .await?;
    world.cloud.let_go();
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    // That of the nodes, and Heat's own.
    let trusts = world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("trust ")).count();
    let asked = world.cloud.calls("keystone.trust_create");
    ensure!(trusts == 2 && asked == 1, "{trusts} trusts, {asked} asked for");
    world.thaw(owner)?;
    world.finish().await
}

#[tokio::test]
async fn w1_a_create_whose_conductor_is_killed_right_after_heat_accepted_is_finished_by_another() -> Result<()> {
    let mut scene = scene().await?;
    scene.world.cloud.hold_stacks(true);
    // Heat makes the stack, its answer is lost, and the owner is held when it looks for what became of it.
    scene.world.cloud.inject(once("heat.stack_create", How::AcceptThenLose));
    scene.world.cloud.inject(Fault { at: "heat.stack_lookup".to_owned(), nth: 2, how: How::Slow(FOR_EVER) });
    let cluster = scene.demo.create_cluster("blue", &scene.template).await?;
    wait::until("the look after the lost answer", PATIENCE, async || {
        let looks = scene.world.cloud.calls("heat.stack_lookup");
        Ok(Seen::when(looks >= 2, || format!("{looks} looks")))
    })
    .await?;
    ensure!(!scene.world.cloud.stacks().is_empty(), "no stack");
    let owner = scene.world.owner(&cluster).await?;
    scene.world.kill(owner)?;
    ensure!(!stack_is_recorded(&scene.world, &cluster).await?, "killed too late: the stack was recorded");
    scene.world.cloud.hold_stacks(false);
    another_finishes(scene, &cluster, owner).await
}

#[tokio::test]
async fn w1_a_create_whose_conductor_is_killed_while_following_is_finished_by_another() -> Result<()> {
    let mut scene = scene().await?;
    scene.world.cloud.hold_stacks(true);
    let cluster = scene.demo.create_cluster("blue", &scene.template).await?;
    scene.world.progress_is_told(&scene.demo, &cluster).await?;
    let owner = scene.world.owner(&cluster).await?;
    ensure!(stack_is_recorded(&scene.world, &cluster).await?);
    scene.world.kill(owner)?;
    scene.world.cloud.hold_stacks(false);
    another_finishes(scene, &cluster, owner).await
}

#[tokio::test]
async fn w2_a_delete_whose_conductor_is_killed_is_finished_by_another() -> Result<()> {
    let Scene { mut world, demo, template } = scene().await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    world.cloud.hold_stacks(true);
    demo.delete_cluster(&cluster).await?;
    called(&world, "heat.stack_delete").await?;
    let owner = world.owner(&cluster).await?;
    world.kill(owner)?;
    world.cloud.hold_stacks(false);
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// A cluster in which Kubernetes has made a load balancer for a service; its uuid and the id of that.
async fn used(world: &World, demo: &Client, template: &str) -> Result<(String, String)> {
    let cluster = demo.create_cluster("blue", template).await?;
    let complete = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let balancer = world.cloud.add_load_balancer(NewLoadBalancer {
        project: world.cloud.project_id("demo"),
        name: format!("kube_service_{cluster}_default_web"),
        description: format!("Kubernetes external service default/web from cluster {cluster}"),
        stack: Some(tests::client::text(&complete, "stack_id")),
        ..NewLoadBalancer::default()
    });
    Ok((cluster, balancer))
}

/// Rows and API say of the cluster and of its groups that they are being deleted.
async fn is_leaving(world: &World, demo: &Client, cluster: &str) -> Result<()> {
    let sql = format!(
        "SELECT status FROM cluster WHERE uuid = '{cluster}' UNION ALL SELECT status FROM nodegroup WHERE cluster_id = '{cluster}'"
    );
    let stored: Vec<String> = world.database()?.rows(&sql).await?;
    ensure!(stored == ["DELETE_IN_PROGRESS"; 3], "{stored:?}");
    let shown = demo.cluster(cluster).await?;
    ensure!(shown["status"] == "DELETE_IN_PROGRESS", "{shown}");
    Ok(())
}

fn leftovers(world: &World) -> Vec<String> {
    let mut lines = world.cloud.leftovers(None);
    lines.sort();
    lines
}

/// The report of a deletion tells that this load balancer was removed by it.
async fn tells_of(demo: &Client, cluster: &str, balancer: &str) -> Result<()> {
    let body = demo.get(&format!("/v1/clusters/{cluster}/events?limit=1000")).await?.expect(200)?.body;
    let events = body["events"].as_array().context("a list")?;
    let report = events.iter().find(|event| event["kind"] == "leak_report").with_context(|| format!("no report: {body}"))?;
    let removed = report["removed"].as_array().context("what was removed")?;
    ensure!(removed.iter().any(|thing| thing["id"] == balancer), "{report}");
    Ok(())
}

/// The status changed when the driver had returned: until then a complete cluster lost its load balancers.
#[tokio::test]
async fn w2_a_deletion_is_seen_before_anything_of_the_cluster_goes_and_load_balancers_go_first() -> Result<()> {
    let Scene { mut world, demo, template } = scene().await?;
    let (cluster, balancer) = used(&world, &demo, &template).await?;
    // Nobody is there who could remove anything.
    world.kill_all("conductor")?;
    let (before, effects) = (leftovers(&world), world.cloud.effects().len());
    demo.delete_cluster(&cluster).await?;
    is_leaving(&world, &demo, &cluster).await?;
    ensure!(leftovers(&world) == before, "{:?}", leftovers(&world));
    // The first removal is asked for, and not done.
    world.cloud.inject(once("octavia.loadbalancer_delete", How::Hold));
    world.start_conductor()?;
    wait::until("a call to be held", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "none".to_owned()))).await?;
    is_leaving(&world, &demo, &cluster).await?;
    ensure!(leftovers(&world) == before, "{:?}", leftovers(&world));
    world.cloud.let_go();
    demo.wait_gone(&cluster, PATIENCE).await?;
    tells_of(&demo, &cluster, &balancer).await?;
    let done = world.cloud.effects().split_off(effects);
    let at = |call: &str| done.iter().position(|effect| *effect == call).with_context(|| format!("no {call}: {done:?}"));
    ensure!(at("octavia.loadbalancer_delete")? < at("heat.stack_delete")?, "{done:?}");
    ensure!(at("heat.stack_delete")? < at("keystone.trust_delete")?, "{done:?}");
    world.finish().await
}

/// A conductor that died in the wait for load balancers left a complete cluster without them.
#[tokio::test]
async fn w2_a_deletion_that_loses_all_conductors_when_load_balancers_are_gone_stays_one_and_is_finished() -> Result<()> {
    let Scene { mut world, demo, template } = scene().await?;
    let (cluster, balancer) = used(&world, &demo, &template).await?;
    world.cloud.inject(once("octavia.loadbalancer_delete", How::ActThenHold));
    demo.delete_cluster(&cluster).await?;
    wait::until("the request for its deletion", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "none".to_owned()))).await?;
    world.kill_all("conductor")?;
    wait::until("the load balancer to be gone", PATIENCE, async || {
        let left = leftovers(&world).join("\n");
        Ok(Seen::when(!left.contains(&balancer), || left))
    })
    .await?;
    is_leaving(&world, &demo, &cluster).await?;
    ensure!(world.cloud.calls("heat.stack_delete") == 0, "the stack was not to be touched");
    world.start_conductor()?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// It can take a minute until load balancers are gone, and nobody else knew of the deletion meanwhile.
#[tokio::test]
async fn w2_a_delete_whose_conductor_is_killed_while_it_waits_for_load_balancers_is_finished_by_another() -> Result<()> {
    let Scene { mut world, demo, template } = scene().await?;
    let (cluster, balancer) = used(&world, &demo, &template).await?;
    ensure!(world.cloud.set_load_balancer_status(&balancer, "PENDING_UPDATE"));
    demo.delete_cluster(&cluster).await?;
    wait::until("the wait for the load balancer", PATIENCE, async || {
        let reason = tests::client::text(&demo.cluster(&cluster).await?, "status_reason");
        Ok(Seen::when(reason.contains("PENDING_UPDATE"), || reason))
    })
    .await?;
    let owner = world.owner(&cluster).await?;
    world.kill(owner)?;
    is_leaving(&world, &demo, &cluster).await?;
    wait::until("another owner", PATIENCE, async || {
        let now = world.owner_now(&cluster).await?;
        Ok(Seen::when(now.is_some_and(|now| now != owner), || format!("{now:?}")))
    })
    .await?;
    is_leaving(&world, &demo, &cluster).await?;
    ensure!(world.cloud.calls("octavia.loadbalancer_delete") == 0 && world.cloud.calls("heat.stack_delete") == 0);
    ensure!(world.cloud.set_load_balancer_status(&balancer, "ACTIVE"));
    demo.wait_gone(&cluster, PATIENCE).await?;
    tells_of(&demo, &cluster, &balancer).await?;
    world.finish().await
}

#[tokio::test]
async fn a_create_goes_on_with_a_new_conductor_when_all_were_killed() -> Result<()> {
    let Scene { mut world, demo, template } = scene().await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    world.kill_all("conductor")?;
    world.cloud.hold_stacks(false);
    world.start_conductor()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.only_stack().await?;
    world.finish().await
}

#[tokio::test]
async fn a_create_is_handed_over_when_its_conductor_is_asked_to_stop() -> Result<()> {
    let Scene { mut world, demo, template } = scene().await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    let stopped = world.terminate("conductor")?;
    ensure!(stopped.len() == 3 && stopped.iter().all(|status| status.success()), "{stopped:?}");
    let held: Vec<i64> = world.database()?.rows("SELECT COUNT(*) FROM operation WHERE owner IS NOT NULL").await?;
    ensure!(held == [0], "an operation is still held");
    world.cloud.hold_stacks(false);
    world.start_conductor()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}

/// By the doorbell alone: nobody looks for what is due, and no lease runs out.
#[tokio::test]
async fn who_is_asked_to_stop_hands_over_at_once() -> Result<()> {
    let environment = [("SCAN", "3600"), ("LEASE", "300")];
    let environment = environment.map(|(of, seconds)| (format!("OS_OPERATIONS__{of}_SECONDS"), seconds.to_owned())).into();
    let mut world = World::start(Mix::Distributed, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    let former = world.owner(&cluster).await?;
    world.ask_to_end(former)?;
    wait::until("another owner", PATIENCE, async || {
        let owner = world.owner_now(&cluster).await?;
        Ok(Seen::when(owner.is_some_and(|owner| owner != former), || format!("{owner:?}, before {former}")))
    })
    .await?;
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}

/// Nobody has come to end it before its time was over: neither way out is in the other's way.
#[tokio::test]
async fn what_is_to_be_cancelled_ends_as_cancelled_also_after_its_deadline() -> Result<()> {
    let Scene { mut world, demo, template } = scene().await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    let sql = format!(
        "UPDATE operation SET created_ms = created_ms - 60000, deadline_ms = created_ms + 60000, cancel_ms = created_ms \
         WHERE cluster_uuid = '{cluster}'"
    );
    world.database()?.rows::<i64>(&sql).await?;
    let owner = world.owner(&cluster).await?;
    world.kill(owner)?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let reason = tests::client::text(&failed, "status_reason");
    ensure!(reason.contains("cancelled"), "{reason}");
    world.cloud.hold_stacks(false);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// No conductor was there for longer than it may take.
#[tokio::test]
async fn what_nobody_has_begun_is_done_however_late_it_is_taken() -> Result<()> {
    let mut world = World::start(Mix::Distributed, Options { conductors: 0, ..Options::default() }).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let late = "UPDATE operation SET created_ms = created_ms - 7200000, deadline_ms = deadline_ms - 7200000";
    world.database()?.execute(late, Vec::new()).await?;
    world.start_conductor()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let left: Vec<i64> = world.database()?.rows("SELECT deadline_ms - started_ms FROM operation").await?;
    ensure!(left == [3_600_000], "{left:?} ms of its time were left when it began");
    world.finish().await
}

#[tokio::test]
async fn w10_a_deadline_that_has_passed_fails_the_cluster_and_says_what_it_waited_for() -> Result<()> {
    let Scene { mut world, demo, template } = scene().await?;
    world.cloud.hold_stacks(true);
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    // The shortest timeout of a request is a minute: the clock is put forward instead, for whoever takes over.
    let sql =
        format!("UPDATE operation SET started_ms = started_ms - 60000, deadline_ms = started_ms + 60000 WHERE cluster_uuid = '{cluster}'");
    world.database()?.rows::<i64>(&sql).await?;
    let owner = world.owner(&cluster).await?;
    world.kill(owner)?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    let reason = tests::client::text(&failed, "status_reason");
    ensure!(reason.contains("within 1 minute") && reason.contains("waiting for"), "{reason}");
    ensure!(reason.contains("stack blue-"), "{reason}");
    world.cloud.hold_stacks(false);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// A process that stands still in the middle of a transaction. All leases of a conductor are renewed together.
#[tokio::test]
async fn a_row_that_stays_locked_costs_no_other_operation_its_lease() -> Result<()> {
    // So long that a machine which is held up for some seconds costs no lease either.
    let environment = [("OS_OPERATIONS__LEASE_SECONDS".to_owned(), "12".to_owned())].into();
    let world = World::start(Mix::Distributed, Options { conductors: 1, environment, ..Options::default() }).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    world.cloud.hold_stacks(true);
    let mut clusters = Vec::new();
    for name in ["blue", "green", "red", "white"] {
        clusters.push(demo.create_cluster(name, &template).await?);
    }
    for cluster in &clusters {
        world.progress_is_told(&demo, cluster).await?;
    }
    let database = world.database()?;
    // In whatever order they are read, another one comes before it.
    let sql = "SELECT uuid FROM operation WHERE id > (SELECT MIN(id) FROM operation) AND uuid > (SELECT MIN(uuid) FROM operation)";
    let locked = database.rows::<String>(sql).await?.pop().context("an operation")?;
    let mut conn = database.open().await?;
    conn.query_drop("START TRANSACTION").await?;
    conn.query_drop(format!("SELECT id FROM operation WHERE uuid = '{locked}' FOR UPDATE")).await?;
    let over = wait::until("a lease to run out", PATIENCE, async || {
        let over: Vec<String> = database.rows("SELECT uuid FROM operation WHERE lease_ms < UNIX_TIMESTAMP(NOW(3)) * 1000").await?;
        Ok(Seen::from_option((!over.is_empty()).then_some(over), "none"))
    })
    .await?;
    ensure!(over == [locked.as_str()], "{over:?}; only {locked} was locked");
    conn.query_drop("ROLLBACK").await?;
    conn.disconnect().await?;
    world.cloud.hold_stacks(false);
    for cluster in &clusters {
        demo.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
    }
    let sql = format!("SELECT COUNT(*) FROM operation_event WHERE kind IN ('claimed', 'taken_over') AND operation_uuid <> '{locked}'");
    let claims: Vec<i64> = database.rows(&sql).await?;
    ensure!(claims == [3], "{claims:?} claims of the other three");
    world.finish().await
}

/// A request that a newer version accepted, when the programs were put back to this one: its conductors leave it alone while those of the
/// newer version may still come, and end it when its time is over.
#[rstest]
#[case::of_an_unknown_kind("kind = 'cluster_dance'")]
#[case::with_a_payload_of_a_later_version(&format!("payload = '{{\"version\":{},\"pools\":[]}}'", Payload::KNOWN + 1))]
#[tokio::test]
async fn what_a_newer_version_accepted_waits_for_it_and_fails_when_its_time_is_over(#[case] accepted: &str) -> Result<()> {
    let mut world = World::start(Mix::Distributed, Options { conductors: 0, ..Options::default() }).await?;
    let demo = world.demo().at("1.12");
    let template = demo.create_template("small").await?;
    let strange = demo.create_cluster("strange", &template).await?;
    let update = |set: &str| format!("UPDATE operation SET {set} WHERE cluster_uuid = '{strange}'");
    world.database()?.rows::<i64>(&update(accepted)).await?;
    world.start_conductor()?;
    let usual = demo.create_cluster("usual", &template).await?;
    demo.wait_for(&usual, "CREATE_COMPLETE", PATIENCE).await?;
    let body = demo.cluster(&strange).await?;
    ensure!(body["status"] == "CREATE_IN_PROGRESS", "{body}");
    world.database()?.rows::<i64>(&update("created_ms = created_ms - 60000, deadline_ms = created_ms")).await?;
    let failed = demo.wait_for(&strange, "CREATE_FAILED", PATIENCE).await?;
    let reason = tests::client::text(&failed, "status_reason");
    ensure!(reason.contains("newer version"), "{reason}");
    let groups = demo.get(&format!("/v1/clusters/{strange}/nodegroups")).await?.expect(200)?;
    let groups = groups.body["nodegroups"].as_array().context("a list")?.clone();
    ensure!(groups.len() == 2 && groups.iter().all(|group| group["status"] == "CREATE_FAILED"), "{groups:?}");
    // Nobody could do it again.
    demo.post(&format!("/v1/clusters/{strange}/actions/retry"), &serde_json::json!({})).await?.expect_error(409, "")?;
    for cluster in [&strange, &usual] {
        demo.delete_cluster(cluster).await?;
        demo.wait_gone(cluster, PATIENCE).await?;
    }
    world.finish().await
}

/// What waits behind it is cancelled when it has been ended: it has failed all the same, and cluster and group say so.
#[rstest]
#[case::of_an_unknown_kind("kind = 'cluster_dance'")]
#[case::with_a_payload_of_a_later_version(&format!("payload = JSON_SET(payload, '$.version', {})", Payload::KNOWN + 1))]
#[tokio::test]
async fn what_a_newer_version_accepted_has_failed_though_others_waited_behind_it(#[case] accepted: &str) -> Result<()> {
    let mut world = World::start(Mix::Distributed, Options { conductors: 0, ..Options::default() }).await?;
    let demo = world.demo().at("1.12");
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let database = world.database()?.clone();
    for table in ["cluster", "nodegroup"] {
        database.execute(&format!("UPDATE {table} SET status = 'CREATE_COMPLETE'"), Vec::new()).await?;
    }
    database.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = 1, sealed_token = NULL", Vec::new()).await?;
    demo.resize(&cluster, 3).await?;
    // Its time is over.
    let unfinished = "finished_ms IS NULL";
    let sql = format!("UPDATE operation SET {accepted}, created_ms = created_ms - 60000, deadline_ms = created_ms WHERE {unfinished}");
    database.execute(&sql, Vec::new()).await?;
    demo.resize(&cluster, 4).await?;
    // The other one is not taken before it is cancelled.
    let sql = format!("UPDATE operation SET due_ms = created_ms + 3600000 WHERE {unfinished} AND deadline_ms > created_ms");
    database.execute(&sql, Vec::new()).await?;
    world.start_conductor()?;
    wait::until("the end of the first", PATIENCE, async || {
        let states = world.operation_states(&cluster).await?;
        Ok(Seen::when(states == ["SUCCEEDED", "FAILED", "QUEUED"], || format!("{states:?}")))
    })
    .await?;
    ensure!(demo.cluster(&cluster).await?["status"] == "UPDATE_IN_PROGRESS", "the other one waits");
    demo.post(&format!("/v1/clusters/{cluster}/actions/cancel"), &serde_json::json!({})).await?.expect(202)?;
    let shown = demo.cluster(&cluster).await?;
    ensure!(shown["status"] == "UPDATE_FAILED" && shown["status_reason"].is_string(), "{shown}");
    let group = demo.get(&format!("/v1/clusters/{cluster}/nodegroups/default-worker")).await?.expect(200)?.body;
    ensure!(group["status"] == "UPDATE_FAILED", "{group}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Nobody may be there who understands it: the cluster can be deleted all the same.
#[tokio::test]
async fn a_deletion_does_not_wait_for_what_a_newer_version_accepted() -> Result<()> {
    let mut world = World::start(Mix::Distributed, Options { conductors: 0, ..Options::default() }).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("strange", &template).await?;
    let sql = format!("UPDATE operation SET kind = 'cluster_dance' WHERE cluster_uuid = '{cluster}'");
    world.database()?.rows::<i64>(&sql).await?;
    world.start_conductor()?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.operation_states(&cluster).await? == ["SUPERSEDED", "SUCCEEDED"]);
    world.finish().await
}

/// More is left than one look at the table takes: all that are there take some of it, and each operation is carried out once.
#[tokio::test]
async fn what_is_more_than_a_scan_takes_is_taken_up_by_all_and_once() -> Result<()> {
    // One look takes 256.
    const LEFT: i64 = 700;
    let world = World::usual(Mix::Distributed).await?;
    let cluster = world.complete_cluster(&world.demo()).await?;
    let database = world.database()?;
    // Their clusters are gone, so that there is nothing to do but to take them.
    let set = [
        ("uuid", "UUID()"),
        ("cluster_uuid", "UUID()"),
        ("kind", "'cluster_delete'"),
        ("state", "'QUEUED'"),
        ("due_ms", "0"),
        ("generation", "1"),
        ("attempt", "0"),
        ("started_ms", "NULL"),
        ("finished_ms", "NULL"),
        ("outcome_code", "NULL"),
        ("deadline_ms", "original.deadline_ms + 3600000"),
    ];
    let times = format!("WITH RECURSIVE n (at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < {LEFT}) SELECT at FROM n");
    let mut conn = database.open().await?;
    copy(&mut conn, "operation", &set, &format!("({times}) AS times WHERE original.cluster_uuid = '{cluster}'")).await?;
    conn.disconnect().await?;
    let others = format!("cluster_uuid <> '{cluster}'");
    let sql = format!("SELECT state, attempt, COUNT(*) FROM operation WHERE {others} GROUP BY 1, 2");
    wait::until("all to be done", 2 * PATIENCE, async || {
        let done: Vec<(String, i32, i64)> = database.rows(&sql).await?;
        Ok(Seen::when(done == [("SUCCEEDED".to_owned(), 1, LEFT)], || format!("{done:?}")))
    })
    .await?;
    let sql = format!("SELECT message, COUNT(*) FROM operation_event WHERE {others} AND kind = 'claimed' GROUP BY 1");
    let takers: Vec<(String, i64)> = database.rows(&sql).await?;
    ensure!(takers.len() == 3 && takers.iter().map(|(_, count)| count).sum::<i64>() == LEFT, "{takers:?}");
    world.finish().await
}
