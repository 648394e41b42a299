//! Ways out of every state: cancel, retry, force-delete, abandon.

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

async fn act(client: &Client, cluster: &str, action: &str) -> Result<String> {
    let answer = client.post(&format!("/v1/clusters/{cluster}/actions/{action}"), &json!({})).await?.expect(202)?;
    ensure!(answer.body["uuid"] == cluster, "{}", answer.text);
    Ok(text(&answer.body, "operation_id"))
}

async fn refused(client: &Client, cluster: &str, action: &str, word: &str) -> Result<()> {
    client.post(&format!("/v1/clusters/{cluster}/actions/{action}"), &json!({})).await?.expect_error(409, word)?;
    Ok(())
}

async fn operation(client: &Client, id: &str) -> Result<Value> {
    Ok(client.get(&format!("/v1/operations/{id}")).await?.expect(200)?.body)
}

async fn unfinished(client: &Client, cluster: &str) -> Result<Vec<Value>> {
    let body = client.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
    Ok(body["operations"].as_array().context("a list")?.iter().filter(|o| o["finished_at"].is_null()).cloned().collect())
}

/// What a report says was left, as kinds.
async fn left(client: &Client, cluster: &str) -> Result<Vec<Value>> {
    let body = client.get(&format!("/v1/clusters/{cluster}/events")).await?.expect(200)?.body;
    let events = body["events"].as_array().context("a list")?;
    let reports: Vec<&Value> = events.iter().filter(|event| event["kind"] == "leak_report").collect();
    ensure!(reports.len() == 1, "{events:?}");
    Ok(reports[0]["leaks"].as_array().context("a list of leaks")?.clone())
}

/// A stack that is left has its owner left, whose rights Heat works with, and his key pair; returns the owner's id.
fn stack_and_owner(left: &[Value], stack: &str) -> Result<String> {
    let [of_stack, of_owner, of_key] = left else { anyhow::bail!("{left:?}") };
    ensure!(of_stack["kind"] == "heat_stack" && of_stack["id"] == stack && of_owner["kind"] == "stack_owner", "{left:?}");
    let owner = text(of_owner, "id");
    ensure!(of_key["kind"] == "nova_keypair" && of_key["id"] == format!("{owner}/key"), "{left:?}");
    Ok(owner)
}

/// Has removed what a report names, each thing by itself: what is there afterwards it has not named.
fn remove_all(world: &World, left: &[Value]) -> Result<()> {
    for leak in left {
        ensure!(world.cloud.remove_reported(&text(leak, "kind"), &text(leak, "name"), leak["id"].as_str()), "{leak}");
    }
    Ok(())
}

#[tokio::test]
async fn a_create_that_nobody_has_begun_is_cancelled_at_once_and_leaves_nothing() -> Result<()> {
    let mut world = World::start(Mix::Distributed, Options { conductors: 0, ..Options::default() }).await?;
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let id = act(&demo, &cluster, "cancel").await?;
    let cancelled = operation(&demo, &id).await?;
    ensure!(cancelled["state"] == "CANCELLED" && cancelled["outcome_code"] == "cancelled", "{cancelled}");
    let body = demo.cluster(&cluster).await?;
    ensure!(body["status"] == "CREATE_FAILED" && text(&body, "status_reason").contains("cancelled"), "{body}");
    refused(&demo, &cluster, "cancel", "nothing to cancel").await?;
    // It can be done after all.
    world.start_conductor()?;
    let again = act(&demo, &cluster, "retry").await?;
    ensure!(operation(&demo, &again).await?["retry_of"] == id.as_str());
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(world.cloud.calls("heat.stack_create") == 1);
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_running_create_is_cancelled_and_leaves_nothing_once_it_is_deleted(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    let id = act(&demo, &cluster, "cancel").await?;
    let failed = demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").contains("cancelled"), "{failed}");
    let ended = operation(&demo, &id).await?;
    ensure!(ended["state"] == "FAILED" && ended["outcome_code"] == "cancelled" && ended["fault"] == "user", "{ended}");
    refused(&demo, &cluster, "cancel", "nothing to cancel").await?;
    let named = format!("cancel?operation={id}");
    refused(&demo, &cluster, &named, "FAILED").await?;
    world.keep_secrets_of_stacks();
    world.cloud.hold_stacks(false);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.leftovers(None).is_empty(), "{:?}", world.cloud.leftovers(None));
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_resize_that_waits_is_cancelled_and_the_wish_before_it_holds(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.hold_stacks(true);
    let resize = async |count: i32| -> Result<()> {
        demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": count})).await?.expect(202)?;
        Ok(())
    };
    let count = async || -> Result<Value> { Ok(demo.cluster(&cluster).await?["node_count"].clone()) };
    resize(3).await?;
    wait::until("the first to run", PATIENCE, async || {
        let calls = world.cloud.calls("heat.stack_update");
        Ok(Seen::when(calls > 0, || "not asked".to_owned()))
    })
    .await?;
    resize(5).await?;
    resize(7).await?;
    let waiting = unfinished(&demo, &cluster).await?;
    ensure!(waiting.len() == 3 && waiting[1]["state"] == "QUEUED", "{waiting:?}");
    // The wish that came last holds until it is taken back, whichever goes first.
    let second = act(&demo, &cluster, &format!("cancel?operation={}", text(&waiting[1], "uuid"))).await?;
    ensure!(operation(&demo, &second).await?["state"] == "CANCELLED" && count().await? == 7);
    act(&demo, &cluster, &format!("cancel?operation={}", text(&waiting[2], "uuid"))).await?;
    ensure!(count().await? == 3, "{}", count().await?);
    ensure!(demo.cluster(&cluster).await?["status"] == "UPDATE_IN_PROGRESS");
    world.cloud.hold_stacks(false);
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 3, "{complete}");
    ensure!(world.cloud.calls("heat.stack_update") == 1);
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_failed_create_is_done_again_with_a_new_stack_in_the_place_of_the_old(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    refused(&demo, &cluster, "retry", "unfinished").await?;
    let broken = world.only_stack().await?;
    world.progress_is_told(&demo, &cluster).await?;
    ensure!(world.cloud.fail_stack(&broken, "No valid host was found"));
    demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let failed = demo.get("/v1/operations").await?.expect(200)?.body["operations"][0].clone();
    ensure!(failed["outcome_code"] == "cloud" && failed["fault"] == "cloud", "{failed}");
    ensure!(text(&failed["last_error"], "message").contains("No valid host was found"), "{failed}");
    world.cloud.hold_stacks(false);
    let id = act(&demo, &cluster, "retry").await?;
    ensure!(demo.cluster(&cluster).await?["status"] == "CREATE_IN_PROGRESS");
    let complete = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let stack = world.only_stack().await?;
    ensure!(stack != broken && complete["stack_id"] == stack.as_str(), "{complete}");
    let again = operation(&demo, &id).await?;
    ensure!(again["retry_of"] == failed["uuid"] && again["kind"] == "cluster_create", "{again}");
    refused(&demo, &cluster, "retry", "no failed operation").await?;
    world.finish().await
}

/// The creation that asked for the deletion has ended when Heat carries it out: whoever makes the cluster once more sees that the stack is gone.
#[tokio::test]
async fn a_failed_stack_that_goes_after_the_end_of_the_creation_that_saw_it_off_is_made_anew_by_the_next() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let broken = world.only_stack().await?;
    world.progress_is_told(&demo, &cluster).await?;
    ensure!(world.cloud.fail_stack(&broken, "No valid host was found"));
    demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    world.cloud.hold_stacks(false);
    world.cloud.inject(Fault { at: "heat.stack_delete".into(), nth: 1, how: How::Hold });
    act(&demo, &cluster, "retry").await?;
    let is_held = async || Ok(Seen::when(world.cloud.held() > 0, || "none".to_owned()));
    wait::until("the request to be held", PATIENCE, is_held).await?;
    // Nobody asks once more: who takes the work up finds it cancelled.
    let owner = world.owner(&cluster).await?;
    world.freeze(owner)?;
    let cancelled = act(&demo, &cluster, "cancel").await?;
    demo.wait_for(&cluster, "CREATE_FAILED", PATIENCE).await?;
    ensure!(operation(&demo, &cancelled).await?["state"] == "FAILED" && world.only_stack().await? == broken);
    world.agrees(&cluster, PATIENCE).await?;
    world.cloud.let_go();
    let is_gone = async || Ok(Seen::when(world.cloud.stacks().is_empty(), || format!("{:?}", world.cloud.stacks())));
    wait::until("the stack to go", PATIENCE, is_gone).await?;
    world.thaw(owner)?;
    world.agrees(&cluster, PATIENCE).await?;
    act(&demo, &cluster, "retry").await?;
    let complete = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let stack = world.only_stack().await?;
    ensure!(stack != broken && complete["stack_id"] == stack.as_str(), "{complete}");
    ensure!(world.cloud.calls("heat.stack_create") == 2 && world.cloud.calls("heat.stack_delete") == 1);
    world.agrees(&cluster, PATIENCE).await?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_failed_resize_is_done_again(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    world.cloud.hold_stacks(true);
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 4})).await?.expect(202)?;
    wait::until("the change of the stack", PATIENCE, async || {
        let status = world.cloud.stacks().pop().map(|stack| stack.status).unwrap_or_default();
        Ok(Seen::when(status == "UPDATE_IN_PROGRESS", || status))
    })
    .await?;
    ensure!(world.cloud.fail_stack(&stack, "out of hosts"));
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    world.cloud.hold_stacks(false);
    act(&demo, &cluster, "retry").await?;
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 4, "{complete}");
    world.finish().await
}

/// A request of an operation that was cancelled may reach Heat when its retry is at work, and would undo what that does.
#[tokio::test]
async fn a_retry_asks_for_nothing_while_a_request_of_the_attempt_before_may_be_on_its_way() -> Result<()> {
    // The late request comes well within it.
    let environment = [("OS_OPERATIONS__SETTLE_SECONDS".to_owned(), "15".to_owned())].into();
    let world = World::start(Mix::Distributed, Options { environment, ..Options::default() }).await?;
    let demo = world.demo().at("1.12");
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.inject(Fault { at: "heat.stack_update".to_owned(), nth: 1, how: How::Hold });
    demo.resize(&cluster, 4).await?;
    wait::until("the request to be held", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "not yet".to_owned()))).await?;
    let owner = world.owner(&cluster).await?;
    world.freeze(owner)?;
    act(&demo, &cluster, "cancel").await?;
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;

    let again = act(&demo, &cluster, "retry").await?;
    wait::until("the retry to wait", PATIENCE, async || {
        let shown = operation(&demo, &again).await?;
        Ok(Seen::when(shown.to_string().contains("the failed attempt before"), || shown.to_string()))
    })
    .await?;
    ensure!(world.cloud.calls("heat.stack_update") == 1, "{} requests", world.cloud.calls("heat.stack_update"));
    world.cloud.let_go();
    let complete = demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 4, "{complete}");
    // What came late was seen, and is not asked for once more.
    ensure!(world.cloud.calls("heat.stack_update") == 1, "{} requests", world.cloud.calls("heat.stack_update"));
    world.thaw(owner)?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_forced_deletion_ends_although_heat_refuses_for_ever_and_says_what_it_left(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    world.cloud.inject(Fault { at: "heat.stack_delete".to_owned(), nth: 0, how: How::Status(500, "not today".to_owned()) });
    demo.delete_cluster(&cluster).await?;
    wait::until("the usual deletion to be refused", PATIENCE, async || {
        let calls = world.cloud.calls("heat.stack_delete");
        Ok(Seen::when(calls > 0, || "not asked".to_owned()))
    })
    .await?;
    let path = format!("/v1/clusters/{cluster}/actions/force-delete");
    demo.post(&path, &json!({})).await?.expect_error(403, "cluster:force_delete")?;
    world.user("demo2", "demo2").post(&path, &json!({})).await?.expect(404)?;
    let id = act(&admin, &cluster, "force-delete").await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(operation(&admin, &id).await?["state"] == "SUCCEEDED");
    let left = left(&demo, &cluster).await?;
    let owner = stack_and_owner(&left, &stack)?;
    ensure!(text(&left[0], "reason").contains("not today"), "{left:?}");
    let users: Vec<String> = world.cloud.leftovers(None).into_iter().filter(|line| line.starts_with("user ")).collect();
    ensure!(users.len() == 1 && users[0].contains(&owner), "{users:?}");
    world.cloud.clear_faults();
    remove_all(&world, &left)?;
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn a_forced_deletion_of_a_sound_cluster_leaves_nothing(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let cluster = world.complete_cluster(&demo).await?;
    act(&admin, &cluster, "force-delete").await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let left = left(&demo, &cluster).await?;
    ensure!(left.is_empty(), "{left:?}");
    world.finish().await
}

/// The cloud is asked for all of it: nothing is given up because the time was over before anybody had begun.
#[tokio::test]
async fn a_forced_deletion_that_no_conductor_took_in_time_leaves_nothing_either() -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let cluster = world.complete_cluster(&demo).await?;
    let stopped = world.terminate("conductor")?;
    ensure!(stopped.iter().all(|status| status.success()), "{stopped:?}");
    let id = act(&admin, &cluster, "force-delete").await?;
    let late = format!("UPDATE operation SET created_ms = created_ms - 3600000, deadline_ms = deadline_ms - 3600000 WHERE uuid = '{id}'");
    world.database()?.execute(&late, Vec::new()).await?;
    world.start_conductor()?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let left = left(&demo, &cluster).await?;
    ensure!(left.is_empty() && world.cloud.calls("heat.stack_delete") > 0, "{left:?}");
    ensure!(world.cloud.leftovers(None).is_empty(), "{:?}", world.cloud.leftovers(None));
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn an_abandoned_cluster_is_forgotten_and_its_stack_stays(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/abandon"), &json!({})).await?.expect_error(403, "cluster:abandon")?;
    act(&admin, &cluster, "abandon").await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let left = left(&demo, &cluster).await?;
    stack_and_owner(&left, &stack)?;
    ensure!(world.cloud.calls("heat.stack_delete") == 0 && world.only_stack().await? == stack);
    ensure!(world.cloud.stacks()[0].status == "CREATE_COMPLETE", "{:?}", world.cloud.stacks());
    remove_all(&world, &left)?;
    world.finish().await
}

/// Whoever asks for less than what is at work already is told what does it, and what he asked for can be seen.
#[tokio::test]
async fn a_lesser_removal_joins_the_one_that_is_there_and_is_done_by_it() -> Result<()> {
    let mut world = World::usual(Mix::Distributed).await?;
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let cluster = world.complete_cluster(&demo).await?;
    world.terminate("conductor")?;
    let abandoned = act(&admin, &cluster, "abandon").await?;
    demo.delete_cluster(&cluster).await?;
    for _ in 0..2 {
        ensure!(act(&admin, &cluster, "force-delete").await? == abandoned, "another one does it");
    }
    let body = demo.get(&format!("/v1/clusters/{cluster}/operations")).await?.expect(200)?.body;
    let removals: Vec<&Value> = body["operations"].as_array().context("a list")?.iter().filter(|o| o["kind"] != "cluster_create").collect();
    ensure!(removals.len() == 3, "each of a kind is stored once: {removals:?}");
    for removal in removals {
        let (wanted, reason) = match removal["kind"] == "cluster_abandon" {
            true => ("QUEUED", Value::Null),
            false => ("SUPERSEDED", json!(format!("superseded at once by {abandoned}"))),
        };
        ensure!(removal["state"] == wanted && removal["outcome_reason"] == reason, "{removal}");
    }
    world.start_conductor()?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(operation(&admin, &abandoned).await?["state"] == "SUCCEEDED");
    remove_all(&world, &left(&demo, &cluster).await?)?;
    world.finish().await
}

/// The size that is shown is that of the stack, not the one that was wished for and never asked of it.
#[tokio::test]
async fn a_resize_that_is_cancelled_before_the_stack_was_asked_leaves_the_size_as_it_was() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo().at("1.12");
    let cluster = world.complete_cluster(&demo).await?;
    let size = demo.cluster(&cluster).await?["node_count"].clone();
    world.cloud.inject(Fault { at: "heat.stack_show".into(), nth: 1, how: How::Hold });
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 7})).await?.expect(202)?;
    wait::until("the look at the stack", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "not yet".to_owned()))).await?;
    ensure!(demo.cluster(&cluster).await?["node_count"] == 7, "the wish is shown while it is worked on");
    act(&demo, &cluster, "cancel").await?;
    world.cloud.let_go();
    let failed = demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    ensure!(failed["node_count"] == size && text(&failed, "status_reason").contains("cancelled"), "{failed}");
    ensure!(world.cloud.calls("heat.stack_update") == 0);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Of a stack that was made through the cluster's trust Heat's own trust hangs on that: without it Heat could not end the deletion that is under way.
#[tokio::test]
async fn credentials_stay_with_a_stack_that_belongs_to_nobody_else() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let how = How::Status(403, "You are not authorized to perform the requested action: identity:create_grant.".to_owned());
    world.cloud.inject(Fault { at: "keystone.role_grant".to_owned(), nth: 0, how });
    let (demo, admin) = (world.demo(), world.user("admin", "admin"));
    let cluster = world.complete_cluster(&demo).await?;
    world.cloud.hold_stacks(true);
    act(&admin, &cluster, "force-delete").await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    let left = left(&demo, &cluster).await?;
    let kinds: Vec<String> = left.iter().map(|leak| text(leak, "kind")).collect();
    ensure!(kinds == ["heat_stack", "keystone_trust", "keystone_user"], "{left:?}");
    remove_all(&world, &left)?;
    world.finish().await
}
