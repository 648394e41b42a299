//! Many clusters at once: stacks are followed together, by few requests, and nothing that happens to one is missed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cloud_simulator::{Fault, How};
use rstest::rstest;
use tests::client::{Client, text};
use tests::database::needed;
use tests::heat_notifier::HeatNotifier;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// What is asked of Heat to follow stacks, per second and by all conductors together (`[operations] heat_requests_per_second`).
const BUDGET: f64 = 15.0;
/// Time for many clusters on a busy machine.
const LONG: Duration = Duration::from_secs(240);

async fn many(world: &World, client: &Client, count: usize) -> Result<Vec<String>> {
    let template = client.create_template("small").await?;
    let admin = world.user("admin", "admin");
    let project = world.cloud.project_id("demo");
    let quota = serde_json::json!({"project_id": project, "resource": "Cluster", "hard_limit": 10_000});
    admin.post("/v1/quotas", &quota).await?.expect(201)?;
    let mut clusters = Vec::new();
    for number in 0..count {
        clusters.push(client.create_cluster(&format!("blue-{number}"), &template).await?);
    }
    Ok(clusters)
}

async fn stacks(world: &World, count: usize) -> Result<()> {
    wait::until("all stacks", LONG, async || {
        let made = world.cloud.stacks().len();
        Ok(Seen::when(made == count, || format!("{made} stacks")))
    })
    .await
}

/// A conductor that waits for the machine loses nothing: what is taken over is looked at once more, and looks are counted.
fn calm() -> Options {
    Options { environment: [("OS_OPERATIONS__LEASE_SECONDS".to_owned(), "30".to_owned())].into(), ..Options::default() }
}

/// What following costs is counted by the calls that only following makes.
fn followed(world: &World) -> usize {
    world.cloud.calls("heat.stack_list") + world.cloud.calls("heat.resource_list")
}

/// A request or two for each nodegroup at each poll, of every cluster in progress.
#[tokio::test]
async fn w8_two_hundred_clusters_of_one_project_are_followed_by_few_requests() -> Result<()> {
    const COUNT: usize = 200;
    let world = World::start(Mix::Distributed, calm()).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let clusters = many(&world, &demo, COUNT).await?;
    stacks(&world, COUNT).await?;

    // All are in flight: what is asked in a while is bounded by the budget, and the lists ask for many stacks at once.
    let (begin, before, lists) = (Instant::now(), followed(&world), world.cloud.calls("heat.stack_list"));
    wait::until("lists", PATIENCE, async || {
        let more = world.cloud.calls("heat.stack_list") - lists;
        Ok(Seen::when(more >= 60, || format!("{more} lists")))
    })
    .await?;
    let (took, asked) = (begin.elapsed().as_secs_f64(), followed(&world) - before);
    // Each of the three may have saved up a second's share, and one that is held up counts as dead for a while: then two share what is for three.
    ensure!(asked as f64 <= 1.5 * BUDGET * (took + 1.0), "{asked} requests in {took:.1} s");
    // By those only that took an operation over from a conductor which was held up.
    let shown = world.cloud.calls("heat.stack_show");
    ensure!(shown <= COUNT / 4, "{shown} of {COUNT} stacks were looked at one by one");

    world.cloud.hold_stacks(false);
    for cluster in &clusters {
        demo.wait_for(cluster, "CREATE_COMPLETE", LONG).await?;
    }
    // Each is looked at once when it has moved, and once for what it has become.
    let shows = world.cloud.calls("heat.stack_show");
    ensure!(shows <= COUNT * 5 / 2, "{shows} looks");
    ensure!(world.cloud.calls("heat.stack_create") == COUNT);
    // To delete them all would take as long again, and is not what this is about.
    world.close().await?;
    Ok(())
}

/// Each poll of each cluster was a login at Keystone, on every host.
#[tokio::test]
async fn w8_logins_grow_neither_with_clusters_nor_with_polls() -> Result<()> {
    const COUNT: usize = 24;
    let world = World::start(Mix::Distributed, calm()).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let clusters = many(&world, &demo, COUNT).await?;
    stacks(&world, COUNT).await?;
    let (logins, lists) = (world.cloud.calls("keystone.token_issue"), world.cloud.calls("heat.stack_list"));
    wait::until("lists", PATIENCE, async || {
        let more = world.cloud.calls("heat.stack_list") - lists;
        Ok(Seen::when(more >= 60, || format!("{more} lists")))
    })
    .await?;
    // By those only that took an operation over from a conductor which was held up.
    let more = world.cloud.calls("keystone.token_issue") - logins;
    ensure!(more <= COUNT / 4, "{more} logins to ask 60 times for {COUNT} clusters");
    world.cloud.hold_stacks(false);
    for cluster in &clusters {
        demo.wait_for(cluster, "CREATE_COMPLETE", LONG).await?;
    }
    // To delete them all would take as long again, and is not what this is about.
    world.close().await?;
    Ok(())
}

/// Every host polled every cluster in progress.
#[tokio::test]
async fn w8_a_cluster_is_followed_by_its_owner_and_by_no_other_conductor() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    let owner = world.owner(&cluster).await?;
    world.freeze(owner)?;
    let before = followed(&world);
    let sql = format!("SELECT message FROM operation_event WHERE cluster_uuid = '{cluster}' AND kind = 'taken_over'");
    wait::until("another to take over", PATIENCE, async || {
        let asked = followed(&world) - before;
        let takers: Vec<String> = world.database()?.rows(&sql).await?;
        // What was on its way when the owner froze may still have come; seconds of polls would be many more.
        ensure!(!takers.is_empty() || asked <= 3, "{asked} requests about a stack that nobody who is awake owns");
        Ok(Seen::when(!takers.is_empty(), || format!("{asked} requests")))
    })
    .await?;
    let taken = followed(&world);
    wait::until("the new owner to follow", PATIENCE, async || {
        let asked = followed(&world) - taken;
        Ok(Seen::when(asked > 3, || format!("{asked} requests")))
    })
    .await?;
    world.thaw(owner)?;
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    world.finish().await
}

/// Each tick began anew, whether or not the one before had an answer: the slower Heat was, the more it was asked.
#[tokio::test]
async fn w8_a_heat_that_does_not_answer_is_waited_for_and_not_asked_again_at_each_turn() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    world.cloud.inject(Fault { at: "heat.stack_list".to_owned(), nth: 0, how: How::Hold });
    wait::until("a list to be held", PATIENCE, async || Ok(Seen::when(world.cloud.held() > 0, || "none".to_owned()))).await?;
    // A lease that has been renewed for so long says that time has passed for whoever holds it.
    let sql = format!("SELECT lease_ms FROM operation WHERE cluster_uuid = '{cluster}' AND lease_ms IS NOT NULL");
    let lease = async || -> Result<i64> { Ok(world.database()?.rows::<i64>(&sql).await?.pop().unwrap_or_default()) };
    let since = lease().await?;
    wait::until("six seconds of polls", PATIENCE, async || {
        let passed = lease().await? - since;
        Ok(Seen::when(passed >= 6000, || format!("{passed} ms")))
    })
    .await?;
    // Half a second lies between two polls at most.
    let held = world.cloud.held();
    ensure!((1..=3).contains(&held), "{held} lists wait for an answer");
    world.cloud.clear_faults();
    world.cloud.let_go();
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn w11_a_stack_that_somebody_else_deletes_is_noticed(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    let first = world.only_stack().await?;
    ensure!(world.cloud.remove_stack(&first));
    world.cloud.hold_stacks(false);
    // It is made again, for the request stands.
    let complete = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let second = world.only_stack().await?;
    ensure!(second != first && complete["stack_id"] == second.as_str(), "{complete}");
    world.finish().await
}

#[rstest]
#[tokio::test]
async fn when_heat_goes_down_a_cluster_that_is_followed_says_so_and_goes_on(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    world.progress_is_told(&demo, &cluster).await?;
    world.cloud.inject(Fault { at: "heat.any".to_owned(), nth: 0, how: How::Refuse });
    wait::until("the reason", PATIENCE, async || {
        let reason = text(&demo.cluster(&cluster).await?, "status_reason");
        Ok(Seen::when(reason.contains("trying again") && reason.to_lowercase().contains("heat"), || reason))
    })
    .await?;
    world.cloud.clear_faults();
    world.progress_is_told(&demo, &cluster).await?;
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(world.cloud.calls("heat.stack_create") == 1);
    world.finish().await
}

/// Whoever had been woken to look for himself went on looking: the longer Heat was down, the more did, until all of them asked it without end.
#[tokio::test]
async fn while_heat_is_down_who_has_looked_in_vain_waits_until_he_is_woken_again() -> Result<()> {
    const COUNT: usize = 12;
    // So many look for themselves each time that a list has failed, once several have.
    const FEW: usize = 3;
    let world = World::start(Mix::Distributed, Options { conductors: 1, ..calm() }).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let clusters = many(&world, &demo, COUNT).await?;
    stacks(&world, COUNT).await?;
    for cluster in &clusters {
        world.progress_is_told(&demo, cluster).await?;
    }
    let calls = || (world.cloud.calls("heat.stack_list"), world.cloud.calls("heat.stack_show"));
    let before = calls();
    world.cloud.inject(Fault { at: "heat.any".to_owned(), nth: 0, how: How::Refuse });
    wait::until("somebody to look for himself", LONG, async || {
        let looks = calls().1 - before.1;
        Ok(Seen::when(looks > 0, || "nobody looked".to_owned()))
    })
    .await?;
    let first = calls().0;
    wait::until("more lists to fail", LONG, async || {
        let failed = calls().0 - first;
        Ok(Seen::when(failed >= 8, || format!("{failed} lists")))
    })
    .await?;
    let after = calls();
    let (lists, looks) = (after.0 - before.0, after.1 - before.1);
    ensure!(looks <= FEW * lists, "{looks} looks, {lists} lists");
    world.cloud.clear_faults();
    world.cloud.hold_stacks(false);
    for cluster in &clusters {
        demo.wait_for(cluster, "CREATE_COMPLETE", LONG).await?;
    }
    ensure!(world.cloud.calls("heat.stack_create") == COUNT);
    // To delete them all would take as long again, and is not what this is about.
    world.close().await?;
    Ok(())
}

#[tokio::test]
async fn a_stack_is_listed_for_all_projects_where_heat_allows_it() -> Result<()> {
    let options = Options { conductor: "[operations]\nheat_global_listing = true\n".to_owned(), ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;
    world.cloud.allow_global_index(true);
    one_of_each_project(&world).await?;
    ensure!(!world.logs("conductor").concat().contains("Heat does not let"), "the listing was refused");
    world.finish().await
}

#[tokio::test]
async fn where_heat_refuses_to_list_all_projects_each_is_listed_and_the_log_says_so() -> Result<()> {
    let options = Options { conductor: "[operations]\nheat_global_listing = true\n".to_owned(), ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;
    one_of_each_project(&world).await?;
    ensure!(world.logs("conductor").concat().contains("Heat does not let"), "nobody said that the listing was refused");
    world.finish().await
}

async fn one_of_each_project(world: &World) -> Result<()> {
    let mut clusters = Vec::new();
    for name in ["demo", "demo2"] {
        let user = world.user(name, name);
        let template = user.create_template("small").await?;
        clusters.push((user.create_cluster("blue", &template).await?, user));
    }
    for (cluster, user) in &clusters {
        user.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
    }
    ensure!(world.cloud.calls("heat.stack_list") > 0, "nothing was listed");
    Ok(())
}

#[tokio::test]
async fn a_notification_of_heat_wakes_who_waits_for_the_stack() -> Result<()> {
    let exchange = format!("heat-{}", uuid::Uuid::new_v4().simple());
    // Without a notification nobody would look for ten minutes.
    let deaf = "[operations]\npoll_min_ms = 600000\npoll_max_ms = 600000\n";
    let listening = format!("{deaf}heat_notifications = true\nheat_notification_exchange = {exchange}\n");
    let options = Options { conductors: 1, conductor: listening, ..Options::default() };
    // The exchange is Heat's to make.
    let notifier = HeatNotifier::connect(&needed("MAGNUM_TEST_AMQP_URL")?, &exchange).await?;
    let mut world = World::start(Mix::Distributed, options).await?;
    wait::until("the conductor to listen", PATIENCE, async || {
        let log = world.logs("conductor").concat();
        Ok(Seen::when(log.contains("listening to Heat's notifications"), || log))
    })
    .await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let stack = world.only_stack().await?;
    // Its id is recorded before it is waited for; what is announced before that is found by the poll only.
    let sql = format!("SELECT COUNT(*) FROM cluster WHERE uuid = '{cluster}' AND stack_id IS NOT NULL");
    wait::until("the stack to be waited for", PATIENCE, async || {
        notifier.created(&stack).await?;
        let rows: Vec<i64> = world.database()?.rows(&sql).await?;
        let lists = world.cloud.calls("heat.stack_list");
        Ok(Seen::when(rows == [1] && lists > 0, || format!("{lists} lists")))
    })
    .await?;
    ensure!(demo.cluster(&cluster).await?["status"] == "CREATE_IN_PROGRESS", "a notification is no proof");
    ensure!(world.cloud.complete_stack(&stack));
    notifier.created(&stack).await.context("announce the end")?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    // The end of the test is no matter for a conductor that hardly looks.
    world.cloud.hold_stacks(false);
    world.kill_all("conductor")?;
    world.set_conductor_settings("");
    world.start_conductor()?;
    world.finish().await
}

#[tokio::test]
async fn what_a_killed_conductor_followed_is_followed_by_the_others() -> Result<()> {
    const COUNT: usize = 12;
    let mut world = World::usual(Mix::Distributed).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let clusters = many(&world, &demo, COUNT).await?;
    stacks(&world, COUNT).await?;
    let owner = world.owner(&clusters[0]).await?;
    world.kill(owner)?;
    world.cloud.hold_stacks(false);
    for cluster in &clusters {
        demo.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
    }
    ensure!(world.cloud.calls("heat.stack_create") == COUNT);
    world.finish().await
}

/// What stands in front of Heat may take shorter requests than most do, and may say so in several ways, or not at all.
#[rstest]
#[tokio::test]
async fn a_front_of_heat_that_takes_short_requests_only_is_asked_for_fewer_stacks_at_once(
    #[values(Some(400), Some(431), None)] status: Option<u16>,
) -> Result<()> {
    // A request for all is longer than is taken, one for twenty is not.
    const COUNT: usize = 40;
    const LONGEST: usize = 1_400;
    let world = World::start(Mix::Distributed, Options { conductors: 1, ..Options::default() }).await?;
    world.cloud.hold_stacks(true);
    let demo = world.demo();
    let clusters = many(&world, &demo, COUNT).await?;
    stacks(&world, COUNT).await?;
    world.cloud.shorten_addresses_of_heat(LONGEST, status);
    wait::until("fewer stacks to be asked for at once", LONG, async || {
        let log = world.logs("conductor").concat();
        Ok(Seen::when(log.contains("is too long for somebody in front of Heat"), || log))
    })
    .await?;
    world.cloud.hold_stacks(false);
    for cluster in &clusters {
        demo.wait_for(cluster, "CREATE_COMPLETE", LONG).await?;
    }
    // To delete them all would take as long again, and is not what this is about.
    world.close().await?;
    Ok(())
}
