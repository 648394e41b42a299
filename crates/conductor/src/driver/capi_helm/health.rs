//! The health of a cluster as its management cluster sees it: upstream's four texts, `Ready` each when all is well.

use std::sync::Arc;

use indexmap::IndexMap;
use model::capi::{derived, namespace};
use model::cluster::Cluster;
use model::cluster::status::Status;
use model::nodegroup::Nodegroup;
use model::store::{Conn, StoreError, nodegroup, placement};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::NONE;
use super::door::{Capi, Door};
use super::seen::{self, Seen};
use super::site::{self, Found};
use crate::context::Context;
use crate::health::HEALTHY;
use crate::outcome::Failure;

const READY: &str = "Ready";

/// Conditions of newer versions of Cluster API that are good when they are false.
const GOOD_WHEN_FALSE: [&str; 7] = ["Deleting", "Paused", "Remediating", "RollingOut", "ScalingDown", "ScalingUp", "Deprecated"];

/// Whether the management cluster is to be asked for a cluster's health: its `stack_id` is no stack's.
pub(crate) fn is_seen_from_there(cluster: &Cluster) -> bool {
    cluster.stack_id.as_deref().is_some_and(|id| uuid::Uuid::try_parse(id).is_err())
}

/// What came of asking.
#[derive(Debug)]
pub(crate) enum Heard {
    /// As the row says, which is well: nothing has been heard of the cluster since the last look.
    Unchanged,
    /// The texts, by what they are about.
    Texts(IndexMap<String, String>),
    /// Nothing: the management cluster cannot be asked, and why.
    Nothing(String),
}

/// Why it cannot be asked.
fn why(failure: Failure) -> String {
    match failure {
        Failure::Retry { reason, .. } | Failure::Final { reason, .. } => reason,
        // Who only looks holds nothing that he could lose.
        Failure::Stale => "the look was given up".to_owned(),
    }
}

/// Asks the management cluster, unless it would have told; `recorded` is its name as far as the row says it.
///
/// # Errors
/// When the database cannot be asked, which says nothing of the cluster.
pub(crate) async fn health(cx: &Context, cluster: &Cluster, recorded: Option<&str>) -> Result<Heard, StoreError> {
    let Place { capi, door, namespace, release } = match place(cx, cluster, recorded).await {
        Ok(place) => place,
        Err(failure) => return Ok(Heard::Nothing(why(failure))),
    };
    let management = match door.open(capi) {
        Ok(management) => management,
        Err(failure) => return Ok(Heard::Nothing(why(failure))),
    };
    if cluster.health_status.as_deref() == Some(HEALTHY) && door.news.is_still_well(&namespace, release) {
        return Ok(Heard::Unchanged);
    }
    let looking = door.news.looks(&namespace, release);
    let id = &cluster.cluster_id();
    let groups = cx.store.read(async |conn: &mut Conn| nodegroup::of_cluster(conn, id).await).await?;
    let seen = match seen::look(&management, &capi.settings.kinds, &namespace, release).await {
        Ok(seen) => seen,
        Err(failure) => return Ok(Heard::Nothing(capi.named(door, &why(failure)))),
    };
    let texts = texts(&seen, &groups);
    if is_well(&texts) {
        looking.found_well();
    }
    Ok(Heard::Texts(texts))
}

/// Where a cluster is.
pub(super) struct Place<'a> {
    pub capi: &'a Capi,
    pub door: &'a Arc<Door>,
    pub namespace: String,
    pub release: &'a str,
}

/// Where a cluster is, for who only looks at it; `recorded` is the name of its management cluster as far as the row says it.
///
/// # Errors
/// Why no management cluster can be asked about it.
pub(super) async fn place<'a>(cx: &'a Context, cluster: &'a Cluster, recorded: Option<&str>) -> Result<Place<'a>, Failure> {
    let Some(capi) = cx.capi.as_deref() else { return Err(Failure::retry(NONE)) };
    let namespace = namespace(&capi.settings.namespace_prefix, &cluster.project().0);
    let release = cluster.stack_id.as_deref().unwrap_or_default();
    let door = match capi.known(recorded) {
        Some(door) => door,
        None => find(cx, capi, cluster, &namespace, release).await?,
    };
    Ok(Place { capi, door, namespace, release })
}

/// Looks for a cluster that nobody has recorded, and records where it is for the looks to come.
async fn find<'a>(cx: &Context, capi: &'a Capi, cluster: &Cluster, namespace: &str, release: &str) -> Result<&'a Arc<Door>, Failure> {
    let Found::At(door) = site::look_for(capi, cluster, namespace, release).await? else {
        return Err(Failure::retry(format!("release {release} is on no management cluster")));
    };
    let (id, name) = (&cluster.cluster_id(), door.cluster.name.as_str());
    // One that goes at this moment leaves a row, which counts for nothing and is removed with others of its kind. Where it cannot be recorded
    // the next look finds it again: this one has what it needs.
    if let Err(error) = cx.store.write(async |conn: &mut Conn| placement::record(conn, id, name).await).await {
        tracing::debug!(cluster.id = %id, %error, "failed to record on which management cluster a cluster is");
    }
    Ok(door)
}

/// The names of the management clusters at which no look can begin now.
pub(crate) fn busy(cx: &Context) -> Vec<&str> {
    let doors = cx.capi.iter().flat_map(|capi| &capi.doors);
    doors.filter(|door| door.is_looked_at_enough()).map(|door| door.cluster.name.as_str()).collect()
}

/// Whether a look may begin.
pub(crate) enum Admitted {
    /// With the place that it has, where it needs one.
    Yes(Option<OwnedSemaphorePermit>),
    /// So many looks are under way at the cluster's management cluster.
    No,
}

/// Takes a place for a look at a cluster.
pub(crate) fn admit(cx: &Context, cluster: &Cluster, recorded: Option<&str>) -> Admitted {
    let door = cx.capi.as_deref().filter(|_| is_seen_from_there(cluster)).and_then(|capi| capi.known(recorded));
    match door.map(|door| door.look()) {
        None => Admitted::Yes(None),
        Some(Some(place)) => Admitted::Yes(Some(place)),
        Some(None) => Admitted::No,
    }
}

/// Whether these texts say that all is well.
pub(crate) fn is_well(texts: &IndexMap<String, String>) -> bool {
    texts.values().all(|text| text == READY)
}

fn texts(seen: &Seen, groups: &[Nodegroup]) -> IndexMap<String, String> {
    let status = &seen.infrastructure["status"];
    let infrastructure = match status["failureReason"].as_str() {
        _ if seen.infrastructure.is_null() => "Not found".to_owned(),
        Some(reason) => format!("{reason}: {}", status["failureMessage"].as_str().unwrap_or_default()),
        None if seen::is_provisioned(&seen.infrastructure) => READY.to_owned(),
        None => "Not ready".to_owned(),
    };
    // One that is being made or removed is no surprise.
    let is_settled = |group: &&Nodegroup| matches!(group.status(), Some(Status::CreateComplete | Status::UpdateComplete));
    let missing =
        groups.iter().filter(|group| !group.is_master()).filter(is_settled).filter(|group| seen.deployment(&group.name).is_none());
    let mut groups: Vec<String> = missing.map(|group| format!("{}: Not found", derived(&seen.release, &group.name))).collect();
    groups.extend(seen.deployments.iter().filter(|d| unmet(d) != READY).map(|d| format!("{}: {}", seen::name_of(d), unmet(d))));
    groups.sort();
    let groups = if groups.is_empty() { READY.to_owned() } else { groups.join(", ") };
    let texts = [
        ("cluster", unmet(&seen.cluster)),
        ("infrastructure", infrastructure),
        ("controlplane", unmet(&seen.control_plane)),
        ("nodegroup", groups),
    ];
    texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

/// The conditions that are not met, by name, with what is said of them.
fn unmet(object: &Value) -> String {
    if object.is_null() {
        return "Not found".to_owned();
    }
    let is_bad = |c: &&Value| {
        let kind = c["type"].as_str().unwrap_or_default();
        c["status"] != if GOOD_WHEN_FALSE.contains(&kind) { "False" } else { "True" }
    };
    let bad: Vec<String> = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_bad)
        .map(|c| match (c["type"].as_str().unwrap_or_default(), c["message"].as_str().unwrap_or_default()) {
            (kind, "") => kind.to_owned(),
            (kind, message) => format!("{kind} ({message})"),
        })
        .collect();
    if bad.is_empty() { READY.to_owned() } else { bad.join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::driver::capi_helm::tests::group;

    #[test]
    fn all_texts_are_ready_or_say_what_is_not() {
        let conditions = |all: &[(&str, &str)]| json!(all.iter().map(|(t, s)| json!({"type": t, "status": s})).collect::<Vec<_>>());
        let well = Seen {
            release: "b".into(),
            cluster: json!({"status": {"conditions": conditions(&[("Ready", "True"), ("ScalingUp", "False")])}}),
            infrastructure: json!({"status": {"ready": true}}),
            control_plane: json!({"status": {}}),
            deployments: vec![json!({"metadata": {"name": "b-w"}, "status": {"conditions": conditions(&[("Ready", "True")])}})],
            ..Seen::default()
        };
        let group = Nodegroup { status: Some("UPDATE_COMPLETE".into()), ..group("w", "worker", 1, true) };
        assert!(is_well(&texts(&well, std::slice::from_ref(&group))), "{:?}", texts(&well, &[]));
        let gone = Seen { deployments: Vec::new(), ..well.clone() };
        assert_eq!(texts(&gone, std::slice::from_ref(&group))["nodegroup"], "b-w: Not found");
        let going = Nodegroup { status: Some("DELETE_IN_PROGRESS".into()), ..group };
        assert!(is_well(&texts(&gone, &[going])));
        let mut ill = well.clone();
        ill.deployments[0]["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "message": "1 of 2"}]);
        ill.infrastructure["status"]["failureReason"] = json!("CreateError");
        ill.control_plane = Value::Null;
        let texts = texts(&ill, &[]);
        assert!(!is_well(&texts));
        assert_eq!(texts["nodegroup"], "b-w: Ready (1 of 2)");
        assert_eq!((texts["infrastructure"].as_str(), texts["controlplane"].as_str()), ("CreateError: ", "Not found"));
        assert_eq!(texts["cluster"], "Ready");
    }
}
