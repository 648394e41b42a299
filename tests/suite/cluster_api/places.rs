//! Several management clusters: which one a cluster goes to, and that one which is away holds up nobody but its own.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use cloud_simulator::{Fault, How, Trouble};
use rstest::rstest;
use serde_json::{Value, json};
use tests::binaries::program;
use tests::client::{Client, http, text};
use tests::management::{Management, template};
use tests::openmetrics::scrape;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World, free_port};

use super::STEP;

const LABEL: &str = "capi_management_cluster";

/// Two of them.
struct Both {
    blue: Management,
    green: Management,
}

impl Both {
    async fn start() -> Result<Self> {
        Ok(Self { blue: Management::start(STEP, "3").await?, green: Management::start(STEP, "3").await? })
    }

    fn environment(&self, more: &[(&str, &str)]) -> BTreeMap<String, String> {
        let mut environment = Management::several(&[("blue", &self.blue), ("green", &self.green)]);
        environment.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        environment
    }

    /// How many clusters each has.
    fn clusters(&self) -> (usize, usize) {
        (self.blue.cluster.objects("Cluster").len(), self.green.cluster.objects("Cluster").len())
    }
}

/// Asks for a cluster; with a label, if one is given.
async fn ask(demo: &Client, name: &str, template: &str, label: Option<&str>) -> Result<String> {
    let mut body = tests::client::cluster(name, template);
    if let Some(label) = label {
        body["labels"] = json!({LABEL: label});
    }
    demo.post("/v1/clusters", &body).await?.expect(202)?.uuid()
}

async fn a_template(demo: &Client) -> Result<String> {
    demo.post("/v1/clustertemplates", &template("several")).await?.expect(201)?.uuid()
}

async fn made(demo: &Client, name: &str, template: &str, label: Option<&str>) -> Result<String> {
    let cluster = ask(demo, name, template, label).await?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    Ok(cluster)
}

/// Waits until the cluster says something like this.
async fn says(demo: &Client, cluster: &str, words: &[&str]) -> Result<()> {
    wait::until("the reason", PATIENCE, async || {
        let reason = text(&demo.cluster(cluster).await?, "status_reason");
        Ok(Seen::when(words.iter().all(|word| reason.contains(word)), || reason))
    })
    .await
}

fn every(how: How) -> Fault {
    Fault { at: "kubernetes.any".into(), nth: 0, how }
}

#[rstest]
#[tokio::test]
async fn a_label_decides_else_the_room_that_is_left(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let both = Both::start().await?;
    let environment = both.environment(&[("OS_CAPI_MANAGEMENT:BLUE__MAX_CLUSTERS", "1")]);
    let world = World::start(mix, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let plain = a_template(&demo).await?;
    // Wrong names are told at once, of templates as well.
    let mut wrong = template("wrong");
    wrong["labels"] = json!({LABEL: "red"});
    demo.post("/v1/clustertemplates", &wrong).await?.expect_error(400, "labels[capi_management_cluster]")?;
    let mut body = tests::client::cluster("wrong", &plain);
    body["labels"] = json!({LABEL: "red"});
    demo.post("/v1/clusters", &body).await?.expect_error(400, "of this cloud: blue, green")?;

    let one = made(&demo, "one", &plain, Some("green")).await?;
    ensure!(both.clusters() == (0, 1), "{:?}", both.clusters());
    // The choice is recorded and told.
    let events = demo.get(&format!("/v1/clusters/{one}/events")).await?.expect(200)?.body;
    let told = events["events"].as_array().into_iter().flatten().any(|e| e["kind"] == "management_cluster" && e["message"] == "green");
    ensure!(told, "{events}");
    made(&demo, "two", &plain, None).await?;
    ensure!(both.clusters() == (1, 1), "{:?}", both.clusters());
    // The first is full now, whoever has fewer.
    made(&demo, "three", &plain, None).await?;
    ensure!(both.clusters() == (1, 2), "{:?}", both.clusters());
    let mut labelled = template("labelled");
    labelled["labels"] = json!({LABEL: "blue"});
    let labelled = demo.post("/v1/clustertemplates", &labelled).await?.expect(201)?.uuid()?;
    let full = ask(&demo, "four", &labelled, None).await?;
    let failed = demo.wait_for(&full, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").ends_with("blue has 1 of 1"), "{failed}");
    demo.delete_cluster(&full).await?;
    demo.wait_gone(&full, PATIENCE).await?;
    // What is deleted leaves its place to another.
    demo.delete_cluster("two").await?;
    demo.wait_gone("two", PATIENCE).await?;
    made(&demo, "five", &labelled, None).await?;
    ensure!(both.clusters() == (1, 2), "{:?}", both.clusters());
    world.finish().await
}

#[tokio::test]
async fn clusters_of_a_project_go_where_the_project_is_named() -> Result<()> {
    let both = Both::start().await?;
    let options = Options { environment: both.environment(&[]), conductors: 0, ..Options::default() };
    let mut world = World::start(Mix::Distributed, options).await?;
    let project = world.cloud.project_id("demo2");
    world.set_conductor_settings(&format!("[capi_management:green]\nprojects = {project}\n"));
    world.start_conductor()?;
    let (demo, other) = (world.demo(), world.user("demo2", "demo2"));
    let (plain, of_other) = (a_template(&demo).await?, a_template(&other).await?);
    for name in ["one", "two"] {
        made(&other, name, &of_other, None).await?;
    }
    ensure!(both.clusters() == (0, 2), "{:?}", both.clusters());
    for name in ["one", "two", "three"] {
        made(&demo, name, &plain, None).await?;
    }
    ensure!(both.clusters() == (3, 2), "{:?}", both.clusters());
    // The API of this deployment is not told of projects: the conductor refuses what it cannot.
    let refused = ask(&demo, "four", &plain, Some("green")).await?;
    let failed = demo.wait_for(&refused, "CREATE_FAILED", PATIENCE).await?;
    ensure!(text(&failed, "status_reason").ends_with("that serves the project, and green does not"), "{failed}");
    world.finish().await
}

/// How one of them is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    /// It closes every connection.
    Down,
    /// It answers nothing.
    Deaf,
    /// Its kubeconfig cannot be read.
    Unknown,
}

#[rstest]
#[tokio::test]
async fn one_that_is_away_holds_up_nobody_but_its_own(#[values(Away::Down, Away::Deaf, Away::Unknown)] away: Away) -> Result<()> {
    let both = Both::start().await?;
    let port = free_port()?.to_string();
    // So few turns at once that those who wait for one of them would take all.
    let environment = both.environment(&[
        ("OS_OPERATIONS__MAX_RUNNING", "3"),
        // It would have every new cluster, if it answered.
        ("OS_CAPI_MANAGEMENT:BLUE__WEIGHT", "1000"),
        ("OS_METRICS__ENABLED", "true"),
        ("OS_METRICS__API_PORT", &port),
        ("OS_KUBERNETES__HEALTH_POLLING_INTERVAL", "1"),
    ]);
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let plain = a_template(&demo).await?;
    let (on_blue, on_green) = (made(&demo, "b", &plain, Some("blue")).await?, made(&demo, "g", &plain, Some("green")).await?);
    let extra = made(&demo, "b2", &plain, Some("blue")).await?;
    match away {
        Away::Down => both.blue.cluster.inject(every(How::Refuse)),
        Away::Deaf => both.blue.cluster.inject(every(How::Hold)),
        Away::Unknown => std::fs::remove_file(both.blue.kubeconfig())?,
    }
    both.blue.cluster.drop_watches();
    let (http, url) = (http()?, format!("http://127.0.0.1:{port}/metrics"));
    let is = async |name: &str, of: &str, wanted: f64| {
        wait::until(name, PATIENCE, async || {
            let seen = scrape(&http, &url).await?.sum(&format!("magnum_conductor_{name}"), &[("management_cluster", of)]);
            Ok(Seen::when(seen.to_bits() == wanted.to_bits(), || format!("{seen}")))
        })
        .await
    };
    is("management_cluster_up", "blue", 0.0).await?;
    is("management_cluster_up", "green", 1.0).await?;
    is("management_cluster_watches_missing", "green", 0.0).await?;
    is("management_cluster_clusters", "blue", 2.0).await?;

    let mut waiting = Vec::new();
    for name in ["w1", "w2", "w3", "w4", "w5"] {
        waiting.push(ask(&demo, name, &plain, Some("blue")).await?);
    }
    demo.resize(&on_blue, 3).await?;
    demo.delete_cluster(&extra).await?;
    // One of each on the other; the new one without a label.
    let new = made(&demo, "new", &plain, None).await?;
    ensure!(both.green.cluster.objects("Cluster").len() == 2);
    demo.resize(&on_green, 3).await?;
    demo.wait_for(&on_green, "UPDATE_COMPLETE", PATIENCE).await?;
    demo.delete_cluster(&new).await?;
    demo.wait_gone(&new, PATIENCE).await?;
    both.green.cluster.trouble("OpenStackCluster", "", Some(Trouble::Fail("the network is gone".into())));
    wait::until("the illness", PATIENCE, async || {
        let shown = demo.cluster(&on_green).await?;
        Ok(Seen::when(shown["health_status"] == "UNHEALTHY", || shown.to_string()))
    })
    .await?;
    let shown = demo.cluster(&on_blue).await?;
    ensure!(shown["status"] == "UPDATE_IN_PROGRESS", "{shown}");
    // Those that are its own say why they wait.
    wait::until("a reason", PATIENCE, async || {
        let mut reasons = Vec::new();
        for cluster in &waiting {
            reasons.push(text(&demo.cluster(cluster).await?, "status_reason"));
        }
        Ok(Seen::when(reasons.iter().any(|r| r.starts_with("trying again: management cluster blue: ")), || format!("{reasons:?}")))
    })
    .await?;

    match away {
        Away::Down | Away::Deaf => {
            both.blue.cluster.clear_faults();
            both.blue.cluster.let_go();
        }
        Away::Unknown => both.blue.write_kubeconfig(&both.blue.cluster.kubeconfig())?,
    }
    // A pause after a failure may last half a minute, and only one of them is at work at a time.
    let patience = PATIENCE + Duration::from_secs(60);
    for cluster in &waiting {
        demo.wait_for(cluster, "CREATE_COMPLETE", patience).await?;
    }
    demo.wait_for(&on_blue, "UPDATE_COMPLETE", patience).await?;
    demo.wait_gone(&extra, patience).await?;
    ensure!(both.clusters() == (6, 1), "{:?}", both.clusters());
    world.finish().await
}

#[tokio::test]
async fn a_cluster_that_nobody_has_recorded_is_found_where_it_is() -> Result<()> {
    let both = Both::start().await?;
    let options = Options { environment: both.environment(&[]), conductors: 1, ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;
    let demo = world.demo();
    let plain = a_template(&demo).await?;
    let (on_blue, on_green) = (made(&demo, "b", &plain, Some("blue")).await?, made(&demo, "g", &plain, Some("green")).await?);
    // As upstream leaves them, which knows nothing of places.
    let places = async || world.database()?.rows::<(String, String)>("SELECT cluster_uuid, management_cluster FROM capi_placement").await;
    ensure!(places().await?.len() == 2, "{:?}", places().await?);
    let check = Command::new(program("magnum-db-manage")?).arg("--config-file").arg(world.configuration_file()).arg("check").output()?;
    let told = String::from_utf8_lossy(&check.stdout).into_owned();
    let line = told.lines().find(|line| line.starts_with("Clusters on management clusters that upstream cannot reach: 2: "));
    let named = [format!("{on_blue} (blue)"), format!("{on_green} (green)")];
    ensure!(line.is_some_and(|line| named.iter().all(|name| line.contains(name))), "{told}");
    world.database()?.execute("DELETE FROM capi_placement", Vec::new()).await?;
    both.blue.cluster.inject(every(How::Refuse));
    // It is there, whatever another one may have.
    demo.resize(&on_green, 2).await?;
    demo.wait_for(&on_green, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(places().await? == [(on_green.clone(), "green".to_owned())], "{:?}", places().await?);
    // It may be on the one that cannot be asked: it is not gone.
    demo.delete_cluster(&on_blue).await?;
    says(&demo, &on_blue, &["may be on a management cluster that cannot be asked: blue: "]).await?;
    let shown = demo.cluster(&on_blue).await?;
    ensure!(shown["status"] == "DELETE_IN_PROGRESS", "{shown}");
    both.blue.cluster.clear_faults();
    demo.wait_gone(&on_blue, PATIENCE).await?;
    ensure!(both.clusters() == (0, 1) && both.blue.releases()?.is_empty(), "{:?}", both.clusters());
    // One whose management cluster has another name now is found again.
    world.database()?.execute("UPDATE capi_placement SET management_cluster = 'former'", Vec::new()).await?;
    demo.resize(&on_green, 1).await?;
    demo.wait_for(&on_green, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(places().await? == [(on_green.clone(), "green".to_owned())], "{:?}", places().await?);
    demo.delete_cluster(&on_green).await?;
    demo.wait_gone(&on_green, PATIENCE).await?;
    ensure!(places().await?.is_empty());
    world.finish().await
}

#[tokio::test]
async fn a_token_that_is_rotated_in_a_file_of_its_own_is_used_from_then_on() -> Result<()> {
    let both = Both::start().await?;
    let rotate = |management: &Management| -> Result<()> {
        management.cluster.change_token();
        let mut kubeconfig: Value = serde_saphyr::from_str(&management.cluster.kubeconfig())?;
        management.write("token", kubeconfig["users"][0]["user"]["token"].as_str().unwrap_or_default())?;
        kubeconfig["users"][0]["user"] = json!({"tokenFile": "token"});
        // The same text each time: only the file beside it says that something has changed.
        management.write_kubeconfig(&kubeconfig.to_string())
    };
    rotate(&both.green)?;
    let environment = both.environment(&[]);
    let world = World::start(Mix::Embedded, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let plain = a_template(&demo).await?;
    let cluster = made(&demo, "one", &plain, Some("green")).await?;
    rotate(&both.green)?;
    demo.resize(&cluster, 2).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    rotate(&both.green)?;
    both.green.cluster.drop_watches();
    made(&demo, "two", &plain, Some("green")).await?;
    ensure!(both.clusters() == (0, 2), "{:?}", both.clusters());
    world.finish().await
}
