//! What happens to a cluster is heard, not asked for: with the intervals of looking set to an hour, all ends as soon as it is so.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use cloud_simulator::{Fault, How, Trouble};
use provider_clients::{KubeKind, Kubeconfig, Management as Client, Watchers};
use rstest::rstest;
use serde_json::json;
use tests::client::{self, text};
use tests::management::Management;
use tests::openmetrics::scrape;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World, free_port};

use super::{STEP, create};

/// Watches of one conductor: one for each kind.
const WATCHES: usize = 7;
const HOUR_MS: &str = "3600000";
/// What a cluster that is being made waits for last.
const LAST: (&str, &str) = ("HelmRelease", "-cni-calico");

/// A world that looks once an hour when nobody tells, and has these options of the driver's.
async fn world(mix: Mix, management: &Management, more: &[(&str, String)]) -> Result<World> {
    let mut environment = management.environment();
    for name in ["OS_OPERATIONS__POLL_MIN_MS", "OS_OPERATIONS__POLL_MAX_MS"] {
        environment.insert(name.into(), HOUR_MS.into());
    }
    environment.insert("OS_CAPI_HELM__RESYNC_SECONDS".into(), "3600".into());
    environment.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    World::start(mix, Options { environment, apis: 1, conductors: 1, ..Options::default() }).await
}

fn watch_fault(how: How) -> Fault {
    Fault { at: "kubernetes.watch".into(), nth: 0, how }
}

async fn watches_are_up(management: &Management, wanted: usize) -> Result<()> {
    wait::until("the watches", PATIENCE, async || {
        let open = management.cluster.open_watches();
        Ok(Seen::when(open == wanted, || format!("{open} are open")))
    })
    .await
}

/// A cluster that waits for nothing but [`LAST`].
async fn waiting(world: &World, management: &Management) -> Result<String> {
    let demo = world.demo();
    management.cluster.trouble(LAST.0, LAST.1, Some(Trouble::Stall));
    let cluster = create(&demo, "blue").await?;
    wait::until("the creation to wait for its addon", PATIENCE, async || {
        let reason = text(&demo.cluster(&cluster).await?, "status_reason");
        Ok(Seen::when(reason.starts_with("creating: 3 of 3 machines ready, waiting for addon"), || reason))
    })
    .await?;
    Ok(cluster)
}

/// The controllers do the last thing, and nobody has to be told of it.
async fn is_deployed(management: &Management) -> Result<()> {
    management.cluster.trouble(LAST.0, LAST.1, None);
    wait::until("the addon to be deployed", PATIENCE, async || {
        let phase = text(&management.object(LAST.0, LAST.1)?["status"], "phase");
        Ok(Seen::when(phase == "Deployed", || phase))
    })
    .await
}

#[rstest]
#[tokio::test]
async fn the_end_of_each_operation_is_heard(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(mix, &management, &[]).await?;
    let demo = world.demo();
    let cluster = waiting(&world, &management).await?;
    is_deployed(&management).await?;
    let ready = Instant::now();
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let delay = ready.elapsed();
    println!("from Ready to CREATE_COMPLETE: {} ms", delay.as_millis());
    // One second is what an idle machine keeps; this one may have other things to do.
    ensure!(delay < Duration::from_secs(10), "{delay:?}");
    let resize = json!({"node_count": 3});
    demo.at("1.10").post(&format!("/v1/clusters/{cluster}/actions/resize"), &resize).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    // Ended in order and begun anew, all without a list.
    watches_are_up(&management, WATCHES).await?;
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(management.left().is_empty(), "{:#?}", management.left());
    world.finish().await
}

/// What becomes of the watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// Cut off; what happened meanwhile is told by the next.
    Dropped,
    /// Open, and without a word.
    Silent,
    /// Cut off for so long that the server has forgotten what happened.
    Expired,
    /// The management cluster is away, and forgets what happened.
    Restarted,
    /// The kubeconfig has changed meanwhile, and the former credential is of no use.
    Reloaded,
}

#[rstest]
#[tokio::test]
async fn nothing_is_missed_when_watches_are_lost(
    #[values(Lost::Dropped, Lost::Silent, Lost::Expired, Lost::Restarted, Lost::Reloaded)] lost: Lost,
) -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let silence = if lost == Lost::Silent { "2" } else { "3600" };
    let world = world(Mix::Embedded, &management, &[("OS_CAPI_HELM__WATCH_SILENCE_SECONDS", silence.to_owned())]).await?;
    let cluster = waiting(&world, &management).await?;
    watches_are_up(&management, WATCHES).await?;
    let simulated = &management.cluster;
    match lost {
        Lost::Dropped => {
            simulated.inject(watch_fault(How::Refuse));
            simulated.drop_watches();
            is_deployed(&management).await?;
            simulated.clear_faults();
        }
        Lost::Silent => {
            simulated.silence_watches();
            is_deployed(&management).await?;
        }
        Lost::Expired => {
            simulated.inject(watch_fault(How::Refuse));
            simulated.drop_watches();
            is_deployed(&management).await?;
            simulated.compact();
            simulated.clear_faults();
        }
        Lost::Restarted => {
            simulated.inject(Fault { at: "kubernetes.any".into(), nth: 0, how: How::Refuse });
            simulated.drop_watches();
            is_deployed(&management).await?;
            simulated.compact();
            simulated.clear_faults();
        }
        Lost::Reloaded => {
            simulated.inject(watch_fault(How::Unauthorized));
            simulated.drop_watches();
            is_deployed(&management).await?;
            simulated.change_token();
            simulated.clear_faults();
            management.write_kubeconfig(&simulated.kubeconfig())?;
        }
    }
    world.demo().wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    // A server does not know of silent ones that nobody listens any more.
    watches_are_up(&management, if lost == Lost::Silent { 2 * WATCHES } else { WATCHES }).await?;
    // Each as it was meant: what can be gone on from is, and nothing is listed for it.
    let expired = simulated.expired_watches();
    ensure!((expired > 0) == matches!(lost, Lost::Expired | Lost::Restarted), "{lost:?}: {expired} were too old");
    world.finish().await
}

#[tokio::test]
async fn who_may_not_watch_looks_as_before() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    management.cluster.inject(watch_fault(How::Status(403, "clusters is forbidden: cannot watch resource".into())));
    let polls = ["OS_OPERATIONS__POLL_MIN_MS", "OS_OPERATIONS__POLL_MAX_MS"].map(|name| (name, "200".to_owned()));
    let world = world(Mix::Embedded, &management, &polls).await?;
    let cluster = create(&world.demo(), "blue").await?;
    world.demo().wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    ensure!(management.cluster.open_watches() == 0);
    world.finish().await
}

#[tokio::test]
async fn clusters_that_are_well_cost_the_management_cluster_nothing() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let port = free_port()?;
    let more = [
        ("OS_METRICS__ENABLED", "true".to_owned()),
        ("OS_METRICS__API_PORT", port.to_string()),
        ("OS_KUBERNETES__HEALTH_POLLING_INTERVAL", "1".to_owned()),
    ];
    let world = world(Mix::Embedded, &management, &more).await?;
    let demo = world.demo();
    for name in ["one", "two", "three"] {
        let cluster = create(&demo, name).await?;
        demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
        wait::until("its health", PATIENCE, async || {
            let shown = demo.cluster(&cluster).await?;
            Ok(Seen::when(shown["health_status"] == "HEALTHY", || shown.to_string()))
        })
        .await?;
    }
    let (http, url) = (client::http()?, format!("http://127.0.0.1:{port}/metrics"));
    let looks = async || Ok::<_, anyhow::Error>(scrape(&http, &url).await?.sum("magnum_conductor_health_looks_total", &[]));
    let asked = || ["get", "list", "watch"].map(|call| management.cluster.calls(&format!("kubernetes.{call}")));
    let more_looks = async |count: f64| -> Result<()> {
        let before = looks().await?;
        wait::until("more looks", PATIENCE, async || {
            let more = looks().await? - before;
            Ok(Seen::when(more >= count, || format!("{more}")))
        })
        .await
    };
    // A look that saw a cluster become well may be followed by one more.
    more_looks(6.0).await?;
    let before = asked();
    more_looks(9.0).await?;
    ensure!(asked() == before, "{before:?}, {:?}", asked());
    // One that is not well any more is looked at again.
    management.cluster.trouble("OpenStackCluster", "", Some(Trouble::Fail("the network is gone".into())));
    wait::until("the illness", PATIENCE, async || {
        let shown = demo.get("/v1/clusters/one").await?.expect(200)?.body;
        Ok(Seen::when(shown["health_status"] == "UNHEALTHY", || shown.to_string()))
    })
    .await?;
    world.finish().await
}

/// The last word on a cluster stayed for as long as nobody could ask.
#[tokio::test]
async fn while_the_management_cluster_is_away_nobody_says_that_a_cluster_is_well() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let world = world(Mix::Embedded, &management, &[("OS_KUBERNETES__HEALTH_POLLING_INTERVAL", "1".to_owned())]).await?;
    let demo = world.demo();
    let cluster = create(&demo, "blue").await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let is_told = async |status: &str, of: &str| {
        wait::until(status, PATIENCE, async || {
            let shown = demo.cluster(&cluster).await?;
            let reason = text(&shown["health_status_reason"], of);
            let holds = shown["health_status"] == status && !reason.is_empty();
            Ok(Seen::when(holds, || format!("{} {}", shown["health_status"], shown["health_status_reason"])))
        })
        .await
    };
    is_told("HEALTHY", "infrastructure").await?;
    management.cluster.inject(Fault { at: "kubernetes.any".into(), nth: 0, how: How::Refuse });
    management.cluster.drop_watches();
    is_told("UNKNOWN", "management_cluster").await?;
    management.cluster.clear_faults();
    is_told("HEALTHY", "infrastructure").await?;
    // Who removes it hears of its end by them.
    watches_are_up(&management, WATCHES).await?;
    world.finish().await
}

#[tokio::test]
async fn a_server_that_asks_for_patience_is_given_it() -> Result<()> {
    let management = Management::start(STEP, "3").await?;
    let unread = |_: &str| Err(std::io::Error::other("no files"));
    let config = Kubeconfig::parse(&management.cluster.kubeconfig(), &unread)?;
    let client = Client::new(&config, Duration::from_secs(3), Duration::from_secs(20), Watchers::default())?;
    let secrets = KubeKind::new("v1", "Secret", "secrets");
    management.cluster.inject(Fault { at: "kubernetes.list".into(), nth: 1, how: How::Status(429, "too many requests".into()) });
    let refused = client.list("secret_list", &secrets, Some("default"), "").await;
    ensure!(refused.as_ref().is_err_and(|error| error.status() == Some(429) && error.retry_may_help()), "{refused:?}");
    let asked = Instant::now();
    let found = client.list("secret_list", &secrets, Some("default"), "").await?;
    // The stand-in asks for one second, as a real one does.
    ensure!(asked.elapsed() >= Duration::from_millis(900), "{:?}", asked.elapsed());
    ensure!(found.is_some_and(|all| all.is_empty()));
    Ok(())
}
