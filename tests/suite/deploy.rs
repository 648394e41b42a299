//! The files of `deploy` and the operator's guide: every name in them is one that the programs know.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tests::client;
use tests::openmetrics::scrape;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World, free_port};

/// Where numbers are registered, and the prefix that they get there.
const REGISTERED: [(&str, &str); 7] = [
    ("crates/api/src/server/metrics.rs", "magnum_api_"),
    ("crates/conductor/src/metrics.rs", "magnum_conductor_"),
    ("crates/conductor/src/metrics/credentials.rs", "magnum_conductor_"),
    ("crates/conductor/src/metrics/delay.rs", "magnum_conductor_"),
    ("crates/conductor/src/metrics/management.rs", "magnum_conductor_"),
    ("crates/server/src/metrics/cloud.rs", ""),
    ("crates/server/src/metrics/snapshots.rs", ""),
];
/// What the format adds to the name of a number.
const ENDINGS: [&str; 4] = ["_total", "_bucket", "_sum", "_count"];

fn place(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(place(path)).with_context(|| format!("read {path}"))
}

/// The name of a number without what the format adds.
fn plain(name: &str) -> &str {
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// Every number that the programs register. A family is not shown before it has counted something, so a scrape alone does not know them all.
fn registered() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for (file, prefix) in REGISTERED {
        let text = read(file)?;
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if prefix.is_empty() {
            let quoted = code.split('"').skip(1).step_by(2);
            names.extend(quoted.filter(|word| word.starts_with("magnum_")).map(str::to_owned));
            continue;
        }
        for (call, unit) in [(".register(", ""), (".register_with_unit(", "_seconds")] {
            let calls = code.split(call).skip(1).filter_map(|rest| rest.split('"').nth(1));
            names.extend(calls.map(|name| format!("{prefix}{name}{unit}")));
        }
    }
    Ok(names)
}

/// The numbers that a text names. (`magnum_api_image_full` is a variable of kolla-ansible.)
fn named(text: &str) -> BTreeSet<String> {
    const OURS: [&str; 5] = ["magnum_api_", "magnum_conductor_", "magnum_cloud_", "magnum_database_", "magnum_doorbell_"];
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let numbers = words.filter(|word| OURS.iter().any(|ours| word.starts_with(ours)) && !word.ends_with("_image_full"));
    numbers.map(|word| plain(word).to_owned()).collect()
}

#[test]
fn alerts_dashboard_and_guide_name_numbers_that_there_are_and_leave_none_out() -> Result<()> {
    let known: BTreeSet<String> = registered()?.iter().map(|name| plain(name).to_owned()).collect();
    ensure!(known.len() > 30, "the search for registered numbers finds too little: {known:?}");
    for file in ["deploy/prometheus/magnum.rules.yaml", "deploy/grafana/magnum.json", "docs/operators-guide.md"] {
        let used = named(&read(file)?);
        let unknown: Vec<_> = used.difference(&known).collect();
        ensure!(unknown.is_empty(), "{file} names numbers that nobody registers: {unknown:?}");
    }
    let guide = named(&read("docs/operators-guide.md")?);
    let missing: Vec<_> = known.difference(&guide).collect();
    ensure!(missing.is_empty(), "docs/operators-guide.md does not tell of {missing:?}");
    let mut watched = named(&read("deploy/prometheus/magnum.rules.yaml")?);
    watched.extend(named(&read("deploy/grafana/magnum.json")?));
    let unwatched: Vec<_> = known.difference(&watched).collect();
    ensure!(unwatched.is_empty(), "neither alert nor panel looks at {unwatched:?}");
    Ok(())
}

#[test]
fn every_alert_is_explained_in_the_guide() -> Result<()> {
    let rules = read("deploy/prometheus/magnum.rules.yaml")?;
    let guide = read("docs/operators-guide.md")?;
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    ensure!(alerts.len() > 20, "{alerts:?}");
    let silent: Vec<_> = alerts.iter().filter(|alert| !guide.contains(&format!("`{alert}`"))).collect();
    ensure!(silent.is_empty(), "docs/operators-guide.md does not explain {silent:?}");
    // Each with an expression, a severity and a summary.
    for field in ["expr:", "labels: {severity:", "summary:"] {
        ensure!(rules.lines().filter(|line| line.trim().starts_with(field)).count() == alerts.len(), "an alert without {field}");
    }
    Ok(())
}

#[test]
fn the_dashboard_is_json_whose_panels_have_queries() -> Result<()> {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/magnum.json")?)?;
    let panels = dashboard["panels"].as_array().context("panels")?;
    ensure!(panels.len() > 10);
    for panel in panels {
        let targets = panel["targets"].as_array().context("targets")?;
        ensure!(!targets.is_empty() && targets.iter().all(|t| !named(t["expr"].as_str().unwrap_or_default()).is_empty()), "{panel}");
    }
    Ok(())
}

#[tokio::test]
async fn what_processes_show_is_what_the_search_finds() -> Result<()> {
    let (api, conductor) = (free_port()?, free_port()?);
    let options = [("ENABLED", "true".to_owned()), ("API_PORT", api.to_string()), ("CONDUCTOR_PORT", conductor.to_string())];
    let environment = options.into_iter().map(|(key, value)| (format!("OS_METRICS__{key}"), value)).collect();
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 1, environment, ..Options::default() }).await?;
    let demo = world.demo();
    world.complete_cluster(&demo).await?;
    let (known, http) = (registered()?, client::http()?);
    let known: BTreeSet<&str> = known.iter().map(|name| plain(name)).collect();
    for port in [api, conductor] {
        let url = format!("http://127.0.0.1:{port}/metrics");
        let shown = wait::until("the numbers", PATIENCE, async || {
            Ok(match scrape(&http, &url).await {
                Ok(shown) => Seen::Yes(shown),
                Err(error) => Seen::Instead(format!("{error:#}")),
            })
        })
        .await?;
        let names = shown.names().map(|series| plain(series.split('{').next().unwrap_or_default()));
        let strange: BTreeSet<&str> = names.filter(|name| !known.contains(name)).collect();
        ensure!(strange.is_empty(), "shown, but not found by the search: {strange:?}");
    }
    world.finish().await
}

#[test]
fn units_are_what_systemd_understands() -> Result<()> {
    let analyze = Command::new("systemd-analyze").arg("--version").output();
    let folder = tempfile::tempdir()?;
    let units = ["magnum-api.service", "magnum-conductor.service", "magnum-db-upgrade.service"];
    let mut copies = Vec::new();
    for unit in units {
        let text = read(&format!("deploy/systemd/{unit}"))?;
        let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/magnum-")).context("ExecStart")?;
        ensure!(start.contains("--config-file /etc/magnum/magnum.conf"), "{unit}: {start}");
        ensure!(text.lines().any(|line| line == "UMask=0027"), "{unit}: others may read what it writes");
        // systemd looks whether the program is there.
        let text = text
            .replace("ExecStart=/usr/bin/magnum-api", "ExecStart=/bin/true")
            .replace("ExecStart=/usr/bin/magnum-conductor", "ExecStart=/bin/true");
        let path = folder.path().join(unit);
        fs::write(&path, text.replace("ExecStart=/usr/bin/magnum-db-manage", "ExecStart=/bin/true"))?;
        copies.push(path);
    }
    if analyze.is_err() {
        eprintln!("no systemd-analyze on this machine: the units were read, not verified");
        return Ok(());
    }
    let verified = Command::new("systemd-analyze").arg("verify").args(&copies).output()?;
    let said = String::from_utf8_lossy(&verified.stderr);
    let about_ours: Vec<&str> = said.lines().filter(|line| line.contains("magnum-")).collect();
    ensure!(about_ours.is_empty(), "{about_ours:#?}");
    Ok(())
}
