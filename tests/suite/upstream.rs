//! Databases that upstream's own migration tool has made go to us and back: nothing of upstream's is lost, nothing of ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use tests::binaries::program;
use tests::client;
use tests::config::{self, Settings};
use tests::database::{Database, needed};
use tests::dump::Dump;
use tests::process::Process;
use tests::upstream::Upstream;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

const HEAD: &str = "c0f832afc4fd";
const PREVIOUS: &str = "7da8489d6a68";

/// As upstream and the years have left them: good rows, and rows that upstream fails on.
const ROWS: &str = include_str!("upstream/rows.sql");

/// The odd ones: upstream cannot list anything while they are there.
const ODD: [&str; 3] = [
    "DELETE FROM cluster_template WHERE name = 'odd'",
    "DELETE FROM cluster WHERE name = 'odd'",
    "DELETE FROM nodegroup WHERE cluster_id = '22222222-0000-4000-8000-000000000002'",
];

/// Tables that are ours.
const OURS: [&str; 16] = [
    "__diesel_schema_migrations",
    "adoption",
    "ca_rotation",
    "capi_guard",
    "capi_placement",
    "cloud_resource",
    "cluster_health",
    "event_guard",
    "idempotency_key",
    "nodegroup_nodes",
    "notification",
    "operation",
    "operation_event",
    "project_guard",
    "set_aside",
    "task_lease",
];

struct Place {
    database: Database,
    conf: PathBuf,
    upstream: Upstream,
    _folder: tempfile::TempDir,
}

impl Place {
    /// A database as a release of upstream makes it, filled.
    async fn new(release: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let database = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
        let conf = folder.path().join("magnum.conf");
        let connection = database.connection();
        std::fs::write(&conf, format!("[database]\nconnection = {connection}\n[certificates]\ncert_manager_type = x509keypair\n"))?;
        let upstream = Upstream::new(release, &conf)?;
        upstream.manage(&["upgrade"])?;
        for sql in ROWS.lines().filter(|line| !line.is_empty()) {
            database.execute(sql, Vec::new()).await?;
        }
        Ok(Self { database, conf, upstream, _folder: folder })
    }

    /// Our `magnum-db-manage`; what it printed, and what it complained about when it failed.
    fn ours(&self, arguments: &[&str]) -> Result<Result<String, String>> {
        let output = manage(&self.conf, arguments)?.output().context("run magnum-db-manage")?;
        let text = String::from_utf8(output.stdout)?;
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!format!("{text}{complaint}").contains("not-a-secret-of-ours"), "a password is printed: {text}{complaint}");
        match output.status.code() {
            Some(0) => Ok(Ok(text)),
            Some(1) => Ok(Err(complaint)),
            _ => anyhow::bail!("{arguments:?}: {}: {complaint}", output.status),
        }
    }

    fn says(&self, arguments: &[&str], words: &[&str]) -> Result<()> {
        let text = self.ours(arguments)?.map_err(|complaint| anyhow::anyhow!("{arguments:?}: {complaint}"))?;
        let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
        ensure!(missing.is_empty(), "{arguments:?} does not say {missing:?}: {text}");
        Ok(())
    }

    async fn dump(&self) -> Result<Dump> {
        Dump::of(&self.database).await
    }

    async fn one(&self, sql: &str) -> Result<String> {
        let rows: Vec<Option<String>> = self.database.rows(sql).await?;
        Ok(rows.into_iter().next().flatten().unwrap_or_default())
    }
}

fn manage(conf: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(program("magnum-db-manage")?);
    command.arg("--config-file").arg(conf).args(arguments);
    Ok(command)
}

/// A day at work: a template, a cluster, a group with labels, a quota that upstream does not know; and a release that comes too early. The
/// cluster; everything has ended when this returns.
async fn work(world: &mut World, place: &Place) -> Result<String> {
    let admin = world.user("admin", "admin");
    let listed = admin.get("/v1/clusters").await?.expect(200)?.body;
    let names: Vec<String> = listed["clusters"].as_array().context("a list")?.iter().map(|row| client::text(row, "name")).collect();
    ensure!(names == ["old", "odd"], "{listed}");
    admin.get("/v1/clustertemplates").await?.expect(200)?;
    let limit = json!({"project_id": world.cloud.project_id("demo2"), "resource": "Node", "hard_limit": 11});
    admin.post("/v1/quotas", &limit).await?.expect(201)?;

    let demo = world.demo().at("1.14");
    let cluster = world.complete_cluster(&demo).await?;
    let group = json!({"name": "late", "node_count": 1, "node_labels": {"tier": "late"}});
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &group).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;

    // Nobody works on it: the request stays in flight, and the database is not given back under it.
    world.terminate("conductor-1")?;
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 1})).await?.expect(202)?;
    let before = place.dump().await?;
    let refused = place.ours(&["release"])?.err().context("the database was given back under an operation")?;
    ensure!(
        refused.contains("1 operations are in flight") && refused.contains(&format!("cluster_resize of cluster {cluster}")),
        "{refused}"
    );
    let mut after = place.dump().await?;
    // The lease of the conductor that has gone may have been noted meanwhile.
    for table in ["magnum_service", "task_lease", "cluster_health"] {
        after.0.remove(table);
    }
    let damage: Vec<String> = before.damage(&after, &[]);
    ensure!(damage.is_empty(), "a refused release has changed something: {damage:#?}");
    // Waiting for nobody ends in time, and as without.
    let refused = place.ours(&["release", "--wait", "1"])?.err().context("the database was given back under an operation")?;
    ensure!(refused.contains("1 operations are in flight"), "{refused}");
    world.start_conductor()?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    wait::until("all operations to end", PATIENCE, async || {
        let count = world.unfinished().await?;
        Ok(Seen::when(count == 0, || format!("{count} unfinished")))
    })
    .await?;
    world.terminate("conductor-2")?;
    world.terminate("api")?;
    Ok(cluster)
}

/// One more conductor, outside of the world: it is to end by itself.
fn start_conductor(world: &World, place: &Place) -> Result<Process> {
    let settings = Settings {
        database: place.database.connection(),
        transport: needed("MAGNUM_TEST_AMQP_URL")?,
        topic: format!("t-{}", uuid::Uuid::new_v4().simple()),
        auth_url: world.auth_url.clone(),
    };
    let folder = place.conf.parent().context("a folder")?;
    let conf = folder.join("late.conf");
    std::fs::write(&conf, format!("{}{}", config::shared(&settings), config::conductor("late")))?;
    Process::start("late", Command::new(program("magnum-conductor")?).arg("--config-file").arg(conf), folder)
}

#[rstest]
#[case("15.0.2", PREVIOUS)]
#[case("18.0.1", HEAD)]
#[case("20.0.2", HEAD)]
#[case("22.0.0", HEAD)]
#[tokio::test]
async fn a_database_of_upstream_is_adopted_worked_with_and_given_back(#[case] release: &str, #[case] revision: &str) -> Result<()> {
    let place = Place::new(release).await?;
    ensure!(place.upstream.manage(&["version"])?.ends_with(revision), "{release} has another revision");
    let paused = |status: &str| format!("UPDATE cluster SET status = '{status}' WHERE name = 'odd'");
    place.database.execute(&paused("PAUSED"), Vec::new()).await?;
    place.says(&["check"], &["cluster 22222222-0000-4000-8000-000000000002 status: \"PAUSED\" is no status"])?;
    place.database.execute(&paused("CREATE_COMPLETE"), Vec::new()).await?;
    let before = place.dump().await?;

    // Looking changes nothing, and tells what upstream fails on.
    place.says(
        &["check"],
        &[
            revision,
            "it can be adopted",
            "Rows: 2 clusters, 3 nodegroups, 2 templates",
            "cluster 22222222-0000-4000-8000-000000000002 labels: the value of \"a\" is null",
            "cluster 22222222-0000-4000-8000-000000000002 health_status_reason: is no JSON",
            "cluster 22222222-0000-4000-8000-000000000002 cluster_template_id: there is no such template",
            "cluster 22222222-0000-4000-8000-000000000002 uuid: the cluster has no default master group",
            "nodegroup 55555555-0000-4000-8000-000000000003 node_addresses: is NULL",
            "nodegroup 55555555-0000-4000-8000-000000000003 role: is NULL",
            "cluster_template 11111111-0000-4000-8000-000000000002 coe: \"swarm\" is of old releases",
        ],
    )?;
    ensure!(place.dump().await? == before, "check has changed something");

    place.says(&["adopt"], &[&format!("Adopted: found at revision {revision}, now at {HEAD}"), "Findings: 7\n"])?;
    let adopted = place.dump().await?;
    ensure!(adopted.tables_beyond(&before) == OURS, "{:?}", adopted.tables_beyond(&before));
    let changed: &[&str] = if revision == HEAD { &[] } else { &["cluster_template", "alembic_version"] };
    let mut as_before = before.clone();
    if revision != HEAD {
        as_before.0.remove("alembic_version");
    }
    let damage = adopted.damage(&as_before, changed);
    ensure!(damage.is_empty(), "{damage:#?}");

    let environment = [("OS_KUBERNETES__HEALTH_POLLING_INTERVAL".to_owned(), "-1".to_owned())].into();
    let database = Some(place.database.clone());
    let mut world = World::start(Mix::Distributed, Options { apis: 1, conductors: 1, database, environment, ..Options::default() }).await?;
    let ours = work(&mut world, &place).await?;
    let quota = format!("quota of nodes {}", world.cloud.project_id("demo2"));

    // Our programs have ended; what is left is rows.
    place.says(&["release"], &["Set aside until the next adoption", &quota, revision])?;
    let released = place.dump().await?;
    ensure!(released.tables_beyond(&before) == OURS, "{:?}", released.tables_beyond(&before));
    let damage = released.damage(&before, &[]);
    ensure!(damage.is_empty(), "{damage:#?}");
    let output = manage(&place.conf, &["version"])?.output()?;
    ensure!(String::from_utf8_lossy(&output.stdout).contains(revision));

    // Upstream's own tool has nothing to do, and upstream's own objects read every row, once those are gone that it never could read.
    let steps = place.upstream.manage(&["upgrade"])?;
    ensure!(place.dump().await? == released, "upstream's upgrade has changed something: {steps}");
    for sql in ODD {
        place.database.execute(sql, Vec::new()).await?;
    }
    let read = place.upstream.read()?;
    let names = |kind: &str| -> Vec<String> {
        read[kind].as_array().map(|rows| rows.iter().map(|row| client::text(row, "name")).collect()).unwrap_or_default()
    };
    ensure!(names("Cluster") == ["old", "blue"] && names("ClusterTemplate") == ["k8s", "small"], "{read}");
    let blue = read["Cluster"].as_array().and_then(|rows| rows.last()).context("our cluster")?;
    ensure!(blue["status"] == "UPDATE_COMPLETE" && blue["uuid"] == json!(ours), "{blue}");
    let groups: Vec<&Value> = read["NodeGroup"].as_array().context("groups")?.iter().filter(|g| g["cluster_id"] == json!(ours)).collect();
    ensure!(groups.len() == 3 && groups.iter().all(|g| g["stack_id"].is_string() && g["node_addresses"].is_array()), "{groups:?}");
    let quotas: Vec<&Value> = read["Quota"].as_array().context("quotas")?.iter().collect();
    ensure!(quotas.len() == 1 && quotas[0]["resource"] == "Cluster" && quotas[0]["hard_limit"] == 7, "{quotas:?}");
    for part in ["ca_cert_ref", "magnum_cert_ref", "etcd_ca_cert_ref", "front_proxy_ca_cert_ref"] {
        let pairs = read["X509KeyPair"].as_array().context("pairs")?;
        let pair = pairs.iter().find(|pair| pair["uuid"] == blue[part]).with_context(|| format!("{part} of {blue}"))?;
        ensure!(client::text(pair, "private_key").contains("ENCRYPTED") && pair["private_key_passphrase"].is_string(), "{part}");
    }

    // A program of ours does not start on it.
    let mut late = start_conductor(&world, &place)?;
    let status = wait::until("the conductor to refuse", PATIENCE, async || Ok(Seen::from_option(late.ended(), "it runs"))).await?;
    ensure!(!status.success() && late.log().contains("magnum-db-manage adopt"), "{status}: {}", late.tail());
    place.says(&["adopt"], &[&quota])?;
    ensure!(place.one("SELECT CAST(hard_limit AS CHAR) FROM quotas WHERE resource = 'Node'").await? == "11");
    ensure!(place.one("SELECT driver FROM cluster_template WHERE name = 'small'").await? == "k8s_fedora_coreos_v1");
    ensure!(place.one("SELECT node_labels FROM nodegroup_nodes WHERE node_labels <> '{}'").await?.contains("tier"), "node labels are lost");
    let states = place.one("SELECT CAST(COUNT(*) AS CHAR) FROM operation WHERE state = 'SUCCEEDED'").await?;
    ensure!(states == "3", "{states} operations are remembered");
    world.close().await?;
    Ok(())
}

/// Whether the page about the configuration says what becomes of an option.
fn is_told(page: &str, section: &str, name: &str) -> bool {
    let mut heading = "";
    page.lines().any(|line| {
        if let Some(title) = line.strip_prefix("### ") {
            heading = title;
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let is_counting = heading == format!("[{section}]") && cells[0] == name;
        let is_ignored =
            cells.len() == 3 && cells[0] == format!("[{section}]") && cells[1].split(", ").any(|pattern| covers(pattern, name));
        is_counting || is_ignored
    })
}

fn covers(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix("\\*").map_or(pattern == name, |start| name.starts_with(start))
}

#[rstest]
#[case("15.0.2")]
#[case("20.0.2")]
#[case("22.0.0")]
#[test]
fn every_option_of_upstream_is_honoured_or_named_as_ignored(#[case] release: &str) -> Result<()> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md"))?;
    ensure!(
        is_told(&page, "api", "port") && is_told(&page, "profiler", "enabled") && !is_told(&page, "api", "enabled"),
        "the page is misread"
    );
    let options = Upstream::new(release, Path::new("magnum.conf"))?.options()?;
    ensure!(options.len() > 250, "{} options only", options.len());
    let untold: Vec<_> = options.iter().filter(|(section, name)| !is_told(&page, section, name)).collect();
    ensure!(untold.is_empty(), "{untold:?}");
    Ok(())
}
