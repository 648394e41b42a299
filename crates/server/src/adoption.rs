//! What `magnum-db-manage` tells an operator about a database that goes from upstream to this program, or back.

use std::fmt::Write;

use anyhow::Context;
use model::placement::DEFAULT;
use model::store::adoption::{self, Audit, Kept, Look, Released, State};
use model::store::migrate::Upgraded;
use model::store::{Conn, Store, placement, service};
use model::time;

use crate::config::{CertManager, Config};
use crate::sealing;

/// Ids in one line.
const NAMED: usize = 20;

/// What the database is. The second text says why it can neither be adopted nor worked on; none when it can.
pub async fn check(store: &Store, config: &Config) -> anyhow::Result<(String, Option<String>)> {
    let look = adoption::look(store).await.context("look at the database")?;
    let mut text = String::new();
    line(&mut text, format!("Upstream revision: {}", look.revision.as_deref().unwrap_or("none")));
    line(&mut text, format!("State: {}", state(&look)));
    if look.refusal.is_none() && look.revision.is_some() {
        rows(&mut text, store, config, &look).await?;
    }
    if look.refusal.is_none() {
        let verdict = match (&look.revision, look.adoption.as_ref().map(|a| a.state)) {
            (None, _) => "empty: `upgrade` makes a new database",
            (_, Some(State::Adopted)) => "this program can work on it; `release` gives it back",
            (_, Some(State::Adopting)) => "an adoption was cut off: `adopt` goes on with it",
            (_, Some(State::Releasing)) => "a release was cut off: `release` goes on with it, `adopt` takes it back",
            (_, Some(State::Released)) => "upstream can have it; `adopt` takes it again",
            (_, None) => "it can be adopted",
        };
        line(&mut text, format!("Verdict: {verdict}"));
    }
    Ok((text, look.refusal))
}

/// What an adoption has done, and what there is now.
pub async fn adopted(store: &Store, config: &Config, done: &Upgraded) -> anyhow::Result<String> {
    let look = adoption::look(store).await.context("look at the database")?;
    let mut text = String::new();
    let found = look.adoption.as_ref().map_or("none", |a| a.found_revision.as_str());
    line(&mut text, format!("Adopted: found at revision {found}, now at {}", look.revision.as_deref().unwrap_or("none")));
    kept(&mut text, "Put back", &done.restored);
    rows(&mut text, store, config, &look).await?;
    Ok(text)
}

/// What a release has done, and what upstream will find.
pub async fn released(store: &Store, config: &Config, released: &Released) -> anyhow::Result<String> {
    let look = adoption::look(store).await.context("look at the database")?;
    let mut text = String::new();
    let before = if released.was_released { " (it was given back before)" } else { "" };
    line(&mut text, format!("Released: upstream finds revision {}{before}", released.revision));
    kept(&mut text, "Set aside until the next adoption", &released.kept);
    rows(&mut text, store, config, &look).await?;
    line(&mut text, "Our own tables stay; upstream does not see them.");
    Ok(text)
}

fn state(look: &Look) -> String {
    match &look.adoption {
        None => "not adopted".to_owned(),
        Some(adoption) => format!("{}; found at revision {}", adoption.state.as_str(), adoption.found_revision),
    }
}

async fn rows(text: &mut String, store: &Store, config: &Config, look: &Look) -> anyhow::Result<()> {
    let audit = adoption::audit(store, look.has_driver).await.context("read the rows")?;
    line(text, format!("Rows: {} clusters, {} nodegroups, {} templates", audit.clusters, audit.nodegroups, audit.templates));
    line(text, format!("Operations in flight: {}", audit.in_flight));
    line(text, format!("Clusters in progress without an operation of ours: {}", names(&audit.in_progress)));
    line(text, format!("Conductors heard of lately: {}", conductors(store, config).await?));
    sealing::tell(text, store, &sealing::census(store).await?);
    if let Some(problem) = certificates(&audit, config) {
        line(text, problem);
    }
    if look.has_placements {
        out_of_reach(text, store).await?;
    }
    line(text, format!("Findings: {}", audit.findings.len() + audit.more));
    for finding in &audit.findings {
        line(text, format!("  {} {} {}: {}", finding.table, finding.row, finding.column, finding.problem));
    }
    if audit.more > 0 {
        line(text, format!("  and {} more", audit.more));
    }
    Ok(())
}

/// Upstream knows one management cluster. That one is `default` here.
async fn out_of_reach(text: &mut String, store: &Store) -> anyhow::Result<()> {
    let limit = i64::try_from(NAMED).unwrap_or(i64::MAX);
    let elsewhere = store.read(async |conn: &mut Conn| placement::elsewhere(conn, DEFAULT, limit).await);
    let (count, first) = elsewhere.await.context("read where clusters of the Cluster API driver are")?;
    if count > 0 {
        let named: Vec<String> = first.iter().map(|(cluster, place)| format!("{cluster} ({place})")).collect();
        let named = some(&named, usize::try_from(count).unwrap_or(usize::MAX));
        line(text, format!("Clusters on management clusters that upstream cannot reach: {count}: {named}"));
    }
    Ok(())
}

/// Services that still write to the database, ours or upstream's, as far as their heartbeats tell.
async fn conductors(store: &Store, config: &Config) -> anyhow::Result<String> {
    let services = store.read(async |conn: &mut Conn| service::list(conn).await).await.context("read the heartbeats")?;
    let now = time::whole_seconds(time::now());
    let down_after = i64::try_from(config.service.service_down_time).unwrap_or(i64::MAX);
    let live = services.iter().filter(|service| service.is_up(now, down_after));
    let named: Vec<String> = live
        .map(|service| {
            let age = service.last_seen_up.map_or(0, |at| (now - at).num_seconds());
            format!("{} ({age} s ago)", service.host.as_deref().unwrap_or("without a name"))
        })
        .collect();
    Ok(names(&named))
}

/// Upstream asks one keeper of certificates for all clusters; we go by the form of each reference.
fn certificates(audit: &Audit, config: &Config) -> Option<String> {
    let (odd, held, configured) = match config.certificates.cert_manager_type {
        CertManager::Barbican => (audit.beside_barbican, "not in Barbican", "barbican"),
        CertManager::X509Keypair => (audit.in_barbican, "in Barbican", "x509keypair"),
        CertManager::Local => (audit.in_barbican, "in Barbican", "local"),
    };
    (odd > 0).then(|| {
        format!(
            "Certificates of {odd} clusters are {held}, and [certificates] cert_manager_type is {configured}: upstream reads certificates of one kind \
             only, so that it cannot use those of these clusters"
        )
    })
}

fn kept(text: &mut String, what: &str, kept: &[Kept]) {
    line(text, format!("{what}: {}", if kept.is_empty() { "nothing".to_owned() } else { kept.len().to_string() }));
    for one in kept {
        line(text, format!("  {} {}", one.what, one.of));
    }
}

fn names(all: &[String]) -> String {
    if all.is_empty() { "none".to_owned() } else { some(&all[..all.len().min(NAMED)], all.len()) }
}

/// The first of so many.
fn some(first: &[String], count: usize) -> String {
    match count.saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn line(text: &mut String, line: impl AsRef<str>) {
    writeln!(text, "{}", line.as_ref()).expect("writing to a string cannot fail");
}
