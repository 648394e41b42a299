//! What must be true once all trouble is over and everything had its time: the users' book, the rows and the cloud say the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use model::cluster::Cluster;
use model::id::{ClusterId, OperationId};
use model::operation::{Operation, OperationKind};
use model::store::operation::JOINED;

use super::exits;
use super::ledger::{Answered, Entry};
use super::wish::Makes;
use crate::agreement::{self, Agreement, SECRETS};
use crate::management::Management;
use crate::told;
use crate::world::World;

/// An operation is ended at its deadline by whoever holds it; when nobody does, by the next who takes it.
const AFTER_DEADLINE_MS: i64 = 60_000;

/// What kind of thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    Lost,
    Doubled,
    Stuck,
    Orphan,
    /// Rows that contradict each other, or the cloud; a failure of the service itself; a process that died.
    Other,
}

impl Wrong {
    /// All, in the order of the table.
    pub const ALL: [Self; 5] = [Self::Lost, Self::Doubled, Self::Stuck, Self::Orphan, Self::Other];

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Stuck => "stuck",
            Self::Orphan => "orphans",
            Self::Other => "other findings",
        }
    }
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Finding {
    pub wrong: Wrong,
    pub what: String,
    /// What to look at.
    pub operation: Option<String>,
}

impl Finding {
    /// One about no operation in particular.
    pub fn new(wrong: Wrong, what: String) -> Self {
        Self { wrong, what, operation: None }
    }

    /// One about this operation.
    pub fn about(wrong: Wrong, operation: &str, what: String) -> Self {
        Self { wrong, what, operation: Some(operation.to_owned()) }
    }
}

/// All rows of operations, in order of acceptance.
pub async fn rows(world: &World) -> Result<Vec<Operation>> {
    let ids: Vec<String> = world.database()?.rows("SELECT uuid FROM operation ORDER BY id").await?;
    let ids: Vec<OperationId> = ids.into_iter().map(OperationId::new).collect();
    Ok(agreement::rows(world.store()?, &ids).await?)
}

/// Everything that is wrong, once what reports name was removed ([`super::left`]). At the end every cluster was deleted.
///
/// Of `older` programs, which leave passwords in what they have ended, that is no finding.
pub async fn all(world: &World, management: Option<&Management>, entries: &[Entry], older: bool, is_end: bool) -> Result<Vec<Finding>> {
    let rows = rows(world).await?;
    let mut found = accounts(entries, &rows, older);
    found.extend(rows.iter().filter_map(ending));
    found.extend(exits::check(entries, &rows));
    let clusters: BTreeSet<&str> =
        rows.iter().map(|row| row.cluster_uuid.as_str()).chain(entries.iter().filter_map(|entry| entry.cluster.as_deref())).collect();
    let clusters: Vec<ClusterId> = clusters.into_iter().map(ClusterId::new).collect();
    let operations: Vec<OperationId> = rows.iter().map(Operation::operation_id).collect();
    let Agreement { findings, living } = agreement::look(world.store()?, &world.cloud, &clusters, &operations).await?;
    let findings = findings.into_iter().filter(|what| !older || !what.contains(SECRETS));
    found.extend(findings.map(|what| Finding::new(kind_of(&what), what)));
    found.extend(stacks_made(world, &rows));
    if let Some(management) = management {
        found.extend(releases(world, management, &living).await?);
        if is_end {
            found.extend(
                management.left().iter().map(|line| Finding::new(Wrong::Orphan, format!("left on the management cluster: {line}"))),
            );
        }
    }
    let known: Vec<String> = world.database()?.rows("SELECT uuid FROM cluster").await?;
    let unasked = known.iter().filter(|id| !living.contains_key(*id));
    found.extend(unasked.map(|id| Finding::new(Wrong::Doubled, format!("cluster {id} is there and nobody asked for it"))));
    if is_end {
        found.extend(living.keys().map(|id| Finding::new(Wrong::Stuck, format!("cluster {id} was deleted and is there"))));
        let left = world.cloud.leftovers(None);
        found.extend(left.iter().map(|line| Finding::new(Wrong::Orphan, format!("left in the cloud: {line}"))));
        let counts = world.database()?.counts().await?;
        for table in ["nodegroup", "nodegroup_nodes", "ca_rotation", "x509keypair", "cloud_resource"] {
            if let Some(count) = counts.get(table).filter(|count| **count > 0) {
                found.push(Finding::new(Wrong::Orphan, format!("{count} rows left in {table}")));
            }
        }
    }
    Ok(found)
}

/// What was told of operations to whoever listens on the bus, and should not have been, or was not; `ids` are those of the messages, each once.
pub async fn told<'a>(world: &World, ids: impl Iterator<Item = &'a String>) -> Result<Vec<Finding>> {
    let told = ids.map(|id| (id.clone(), 1)).collect();
    let odd = told::odd(&told, &rows(world).await?);
    let wrong = |what: &str| if what.ends_with(" 0 times") { Wrong::Lost } else { Wrong::Doubled };
    Ok(odd.into_iter().map(|what| Finding::new(wrong(&what), what)).collect())
}

/// The sort of a finding of [`agreement::look`].
fn kind_of(what: &str) -> Wrong {
    let is_orphan = ["a user of", "a key pair that", "0 times in the inventory", "is recorded for a cluster that is gone", SECRETS];
    let is_doubled = ["removals succeeded", "trusts for the trustee", "users that are", "times in the inventory"];
    if is_orphan.iter().any(|words| what.contains(words)) {
        Wrong::Orphan
    } else if is_doubled.iter().any(|words| what.contains(words)) {
        Wrong::Doubled
    } else {
        Wrong::Other
    }
}

/// Every accepted request has one operation, and every operation was asked for.
///
/// An operation bears the id of the request that it was stored for. Where that answer was lost, the user knows only the id of a repetition;
/// then the operation is one of that kind on that cluster which belongs to no other request.
fn accounts(entries: &[Entry], rows: &[Operation], older: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut by_request: HashMap<&str, Vec<&Operation>> = HashMap::new();
    for row in rows {
        by_request.entry(row.request_id.as_deref().unwrap_or_default()).or_default().push(row);
    }
    let mut claimed: BTreeSet<&str> = BTreeSet::new();
    let mut unmatched: Vec<&Entry> = Vec::new();
    for entry in entries {
        let theirs: Vec<&Operation> = entry.request_ids.iter().filter_map(|id| by_request.get(id.as_str())).flatten().copied().collect();
        claimed.extend(theirs.iter().map(|row| row.uuid.as_str()));
        match (&entry.answered, &theirs[..]) {
            (Answered::Accepted, []) if entry.is_work() => unmatched.push(entry),
            (Answered::Accepted, [_]) if entry.is_work() => {}
            (Answered::Accepted | Answered::Refused(_), []) => {}
            (Answered::Silent(heard), _) => {
                let what = format!("no answer to {} of {:?}; last: {heard}", entry.wish.words(), entry.cluster);
                found.push(Finding::new(Wrong::Other, what));
            }
            (Answered::Refused(status), [row, ..]) => {
                let what = format!("{} was refused with {status} and was done", entry.wish.words());
                found.push(Finding::about(Wrong::Doubled, &row.uuid, what));
            }
            (Answered::Accepted, [row, ..]) => {
                let what = format!("{} operations for one {}", theirs.len(), entry.wish.words());
                found.push(Finding::about(Wrong::Doubled, &row.uuid, what));
            }
        }
    }
    for entry in unmatched {
        let fits = |row: &&Operation| {
            // What joined another is answered with that one.
            let is_named = entry.operation.as_ref().is_none_or(|id| *id == row.uuid || joined(row) == Some(id));
            let is_kind = match entry.wish.makes() {
                Makes::One(kind) => kind.as_str() == row.kind,
                Makes::Again | Makes::Nothing => true,
            };
            is_named && is_kind && entry.cluster.as_deref() == Some(&row.cluster_uuid) && !claimed.contains(row.uuid.as_str())
        };
        match rows.iter().find(fits) {
            Some(row) => {
                claimed.insert(&row.uuid);
            }
            None if rows.iter().any(|row| stands_for(row, entry, rows, older)) => {}
            None => found.push(Finding::new(Wrong::Lost, format!("accepted and not there: {entry:?}"))),
        }
    }
    for row in rows.iter().filter(|row| !claimed.contains(row.uuid.as_str())) {
        let what = format!("{} of cluster {} (request {:?}) was asked for by nobody", row.kind, row.cluster_uuid, row.request_id);
        found.push(Finding::about(Wrong::Doubled, &row.uuid, what));
    }
    found
}

/// The operation that it was stored beside, and that does its work.
fn joined(row: &Operation) -> Option<&str> {
    row.outcome_reason.as_deref()?.strip_prefix(JOINED)
}

/// Whether nothing had to be stored for a request, because one of its kind was at work, or one that has given way to what is: a second deletion adds
/// nothing to the first. What asks for less, or for a group of the cluster, is stored once and gives way; `older` programs store nothing of that.
fn stands_for(row: &Operation, entry: &Entry, rows: &[Operation], older: bool) -> bool {
    let Makes::One(asked) = entry.wish.makes() else { return false };
    let joined = joined(row);
    let at_work = joined.map_or(Some(row), |by| rows.iter().find(|other| other.uuid == by));
    let was_at_work = row.created_ms <= entry.answered_ms
        && at_work.is_some_and(|at_work| at_work.finished_ms.is_none_or(|finished| finished >= entry.sent_ms));
    let is_named = entry.operation.as_ref().is_none_or(|id| *id == row.uuid || at_work.is_some_and(|at_work| *id == at_work.uuid));
    let is_one = (asked.removal().is_some() || joined.is_some()) && row.kind() == Some(asked);
    let wanted = asked.removal().or((asked == OperationKind::NodegroupDelete).then_some(0)).filter(|_| older);
    let goes_further = wanted.is_some() && row.kind().and_then(OperationKind::removal) >= wanted;
    (is_one || goes_further) && was_at_work && is_named && entry.cluster.as_deref() == Some(&row.cluster_uuid)
}

/// It has ended, in time, and not by a fault of the service.
fn ending(row: &Operation) -> Option<Finding> {
    let name = format!("{} {} of cluster {}", row.kind, row.uuid, row.cluster_uuid);
    let Some(finished) = row.finished_ms else {
        let what = format!("{name} is {} at {}, waiting for {:?}, held by {:?}", row.state, row.step, row.waiting_for, row.owner);
        return Some(Finding::about(Wrong::Stuck, &row.uuid, what));
    };
    if finished > row.deadline_ms + AFTER_DEADLINE_MS {
        let late = (finished - row.deadline_ms) / 1000;
        return Some(Finding::about(Wrong::Stuck, &row.uuid, format!("{name} ended {late} s after its deadline")));
    }
    let is_ours = matches!(row.outcome_code.as_deref(), Some("internal" | "credentials"));
    is_ours.then(|| {
        let what = format!(
            "{name} failed: {}: {}",
            row.outcome_code.as_deref().unwrap_or_default(),
            row.outcome_reason.as_deref().unwrap_or_default()
        );
        Finding::about(Wrong::Other, &row.uuid, what)
    })
}

/// Each release on the management cluster is of a cluster that is there, once; a cluster that is sound has one that is deployed, as many
/// machines as its groups say, and one application credential.
async fn releases(world: &World, management: &Management, living: &BTreeMap<String, Cluster>) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    let recorded = "SELECT name, cluster_uuid FROM cloud_resource WHERE kind = 'helm_release'";
    let recorded: Vec<(String, String)> = world.database()?.rows(recorded).await?;
    let releases: BTreeMap<String, String> = management.releases()?.into_iter().collect();
    for (release, status) in &releases {
        match recorded.iter().filter(|(name, cluster)| name == release && living.contains_key(cluster)).count() {
            1 => {}
            0 => found.push(Finding::new(Wrong::Orphan, format!("release {release} ({status}) is of no cluster"))),
            many => found.push(Finding::new(Wrong::Doubled, format!("release {release} ({status}) is of {many} clusters"))),
        }
    }
    let machines = management.cluster.objects("Machine");
    let credentials = world.cloud.leftovers(None);
    let credentials: Vec<&String> = credentials.iter().filter(|line| line.starts_with("application credential ")).collect();
    let groups: Vec<(String, String, i64)> =
        world.database()?.rows("SELECT cluster_id, COALESCE(status, ''), COALESCE(node_count, 0) FROM nodegroup").await?;
    for (release, cluster) in &recorded {
        let of_cluster = credentials.iter().filter(|line| line.contains(cluster.as_str())).count();
        if of_cluster > 1 {
            found.push(Finding::new(Wrong::Doubled, format!("{of_cluster} application credentials of cluster {cluster}")));
        }
        let row = living.get(cluster);
        let is_sound = row.is_some_and(|row| row.status.as_deref().is_some_and(|status| status.ends_with("_COMPLETE")));
        let groups: Vec<_> = groups.iter().filter(|(id, ..)| id == cluster).collect();
        if !is_sound || groups.iter().any(|(_, status, _)| !status.ends_with("_COMPLETE")) {
            continue;
        }
        let wanted: i64 = groups.iter().map(|(_, _, count)| count).sum();
        let there = machines.iter().filter(|m| m["spec"]["clusterName"] == release.as_str()).count();
        let status = releases.get(release).map_or("not there", String::as_str);
        if status != "deployed" || i64::try_from(there)? != wanted || of_cluster != 1 {
            let what = format!(
                "cluster {cluster} is complete; its release {release} is {status}, {there} of {wanted} machines are there, and \
                 {of_cluster} application credentials"
            );
            found.push(Finding::new(Wrong::Other, what));
        }
    }
    Ok(found)
}

/// For each stack name no more stacks were ever made than operations were to make one.
fn stacks_made(world: &World, rows: &[Operation]) -> Vec<Finding> {
    let mut made: BTreeMap<(String, String), usize> = BTreeMap::new();
    for stack in world.cloud.stacks_ever() {
        let cluster = stack.parameters.get("cluster_uuid").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        *made.entry((cluster, stack.name)).or_default() += 1;
    }
    let mut found = Vec::new();
    for ((cluster, name), count) in made {
        let to_make = |row: &&Operation| row.cluster_uuid == cluster && matches!(row.kind.as_str(), "cluster_create" | "nodegroup_create");
        let asked = rows.iter().filter(to_make).count();
        if count > 1 && count > asked {
            found.push(Finding::new(
                Wrong::Doubled,
                format!("{count} stacks {name} were made for cluster {cluster}, by {asked} operations"),
            ));
        }
    }
    found
}
