//! The judgement. A cluster is as wanted when every controller says so about the present wish: what was said about an earlier one
//! (`observedGeneration`) counts as nothing said, so that no operation ends before its work has begun.
//!
//! A cluster that is as wanted is so whatever was said of it before: Cluster API never takes a `failureReason` of a Cluster back. That a
//! controller has given up is believed once it has had time to say otherwise, for a word of before the present wish may still stand there.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{Seen, name_of};

/// Reasons that are told at most.
const TOLD: usize = 3;
/// How much longer than others addons may be failed.
const ADDON_PATIENCE: u32 = 4;
/// Characters of one reason.
const LONGEST: usize = 300;

/// What a cluster is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::driver::capi_helm) struct Wanted {
    pub masters: i64,
    pub groups: Vec<WantedGroup>,
    /// Names of groups that are to go.
    pub gone: Vec<String>,
    /// The version that all machines are to run, without `v`.
    pub version: String,
    /// Conditions of the control plane that must be true.
    pub conditions: Vec<String>,
    pub now: DateTime<Utc>,
    /// How long helm has been done.
    pub age: Duration,
    /// For so long a controller's word that it has given up may be an old one.
    pub patience: Duration,
    /// Whether all machines that are leaving must have gone, those that nobody counts as well.
    pub all_gone: bool,
}

/// What a worker group is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::driver::capi_helm) struct WantedGroup {
    pub name: String,
    pub size: Extent,
}

/// How many machines a group is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver::capi_helm) enum Extent {
    Exactly(i64),
    /// Its autoscaler decides how many more, at any moment: no number of its own is waited for.
    AtLeast(i64),
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::driver::capi_helm) enum Judged {
    Ready,
    /// So many of so many machines are ready; what is waited for, and what stands in the way.
    Waiting {
        done: i32,
        total: i32,
        waiting_for: String,
        /// In so long at the latest there is something to be judged anew, though nothing should move.
        at_most: Option<Duration>,
    },
    /// A controller has given up.
    Failed {
        reason: String,
    },
}

impl WantedGroup {
    /// Whether its size is its autoscaler's to say.
    fn is_followed(&self) -> bool {
        matches!(self.size, Extent::AtLeast(_))
    }
}

/// Judges.
pub(in crate::driver::capi_helm) fn judge(seen: &Seen, wanted: &Wanted) -> Judged {
    let mut waiting = Vec::new();
    if seen.cluster.is_null() {
        waiting.push("the Cluster object".to_owned());
    } else {
        for condition in cluster_conditions(&seen.cluster) {
            if !is_true(&seen.cluster, condition) {
                waiting.push(format!("{condition} of the cluster"));
            }
        }
    }
    if !is_control_plane_ready(seen, wanted) {
        waiting.push("the control plane".to_owned());
    } else if wanted.all_gone && (seen.masters().any(is_leaving) || are_more(seen.masters().count(), &seen.control_plane)) {
        waiting.push("machines of the control plane to go".to_owned());
    }
    for group in &wanted.groups {
        let (machines, deployment) = (|| seen.machines_of(&group.name), seen.deployment(&group.name));
        let is_too_many = || wanted.all_gone && deployment.is_some_and(|deployment| are_more(machines().count(), deployment));
        if !is_group_ready(seen, group, &wanted.version) {
            waiting.push(format!("nodegroup {}", group.name));
        } else if is_too_many() || (!group.is_followed() || wanted.all_gone) && machines().any(is_leaving) {
            waiting.push(format!("machines of nodegroup {} to go", group.name));
        }
    }
    for group in &wanted.gone {
        if seen.deployment(group).is_some() || seen.machines_of(group).next().is_some() {
            waiting.push(format!("nodegroup {group} to go"));
        }
    }
    for addon in &seen.addons {
        if addon["status"]["phase"] != "Deployed" {
            waiting.push(format!("addon {}", short(name_of(addon), &seen.release)));
        }
    }
    if waiting.is_empty() {
        return Judged::Ready;
    }
    let failures = failures(seen, wanted);
    if let Some(failure) = failures.iter().find(|failure| failure.patience <= failure.age) {
        return Judged::Failed { reason: failure.reason.clone() };
    }
    let at_most = failures.iter().map(|failure| failure.patience - failure.age).min();
    let (done, total) = count(seen, wanted);
    let more = waiting.len().saturating_sub(TOLD);
    let mut text = waiting.into_iter().take(TOLD).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    let reasons = reasons(seen);
    if !reasons.is_empty() {
        text.push_str(&format!(" ({})", reasons.join("; ")));
    }
    Judged::Waiting { done, total, waiting_for: text, at_most }
}

/// Whether a machine is being deleted: its deployment does not count it any more, and it is there still.
fn is_leaving(machine: &Value) -> bool {
    !machine["metadata"]["deletionTimestamp"].is_null()
}

/// Whether there are more machines than are to be. Machines are listed by a request of their own: of one that begins to leave meanwhile the list does
/// not say so yet, and the object counts it no more.
fn are_more(machines: usize, object: &Value) -> bool {
    object["spec"]["replicas"].as_i64().is_some_and(|wanted| i64::try_from(machines).unwrap_or(i64::MAX) > wanted)
}

/// Machines that run, and machines that are wanted (or there, where there are more).
fn count(seen: &Seen, wanted: &Wanted) -> (i32, i32) {
    let is_ready = |machine: &&Value| machine["status"]["phase"] == "Running" && !is_leaving(machine);
    let done = seen.machines.iter().filter(is_ready).count();
    let of_groups = wanted.groups.iter().map(|group| {
        let scaled = || seen.deployment(&group.name).and_then(|d| d["spec"]["replicas"].as_i64());
        match group.size {
            Extent::Exactly(count) => count,
            Extent::AtLeast(least) => scaled().unwrap_or(least),
        }
    });
    let total = wanted.masters + of_groups.sum::<i64>();
    let done = i64::try_from(done).unwrap_or(i64::MAX).min(total);
    let number = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
    (number(done), number(total))
}

/// Whether status speaks of what the spec is now.
fn is_current(object: &Value) -> bool {
    let seen = object["status"]["observedGeneration"].as_i64();
    seen.is_some_and(|seen| seen >= object["metadata"]["generation"].as_i64().unwrap_or(0))
}

/// A counter of a status; one of none is left out.
fn counter(object: &Value, name: &str) -> i64 {
    object["status"][name].as_i64().unwrap_or(0)
}

/// How many machines are of the present template. Newer versions of Cluster API call the counter otherwise.
fn updated(object: &Value) -> i64 {
    let status = &object["status"];
    status["updatedReplicas"].as_i64().or_else(|| status["upToDateReplicas"].as_i64()).unwrap_or(0)
}

/// So many replicas are asked for, and all are there, of the present template, and ready.
fn is_complete(object: &Value, count: i64) -> bool {
    let is = |counted: i64| counted == count;
    object["spec"]["replicas"] == count && is(counter(object, "replicas")) && is(updated(object)) && is(counter(object, "readyReplicas"))
}

/// None of a former template is left, and so many are ready. What its autoscaler has asked for beside may be on its way, or may never come.
fn is_followable(deployment: &Value, least: i64) -> bool {
    // A bound that was raised above what is there has nobody ask for more until there is load.
    let asked = deployment["spec"]["replicas"].as_i64().unwrap_or(least);
    updated(deployment) >= counter(deployment, "replicas") && counter(deployment, "readyReplicas") >= least.min(asked)
}

fn is_control_plane_ready(seen: &Seen, wanted: &Wanted) -> bool {
    let plane = &seen.control_plane;
    let is_version = |version: &Value| version.as_str().is_some_and(|version| version.trim_start_matches('v') == wanted.version);
    !plane.is_null()
        && is_current(plane)
        && is_complete(plane, wanted.masters)
        && is_version(&plane["spec"]["version"])
        && (plane["status"]["version"].is_null() || is_version(&plane["status"]["version"]))
        && wanted.conditions.iter().all(|condition| is_true(plane, plane_condition(plane, condition)))
}

fn is_group_ready(seen: &Seen, group: &WantedGroup, version: &str) -> bool {
    let Some(deployment) = seen.deployment(&group.name) else { return false };
    let runs = deployment["spec"]["template"]["spec"]["version"].as_str().is_none_or(|v| v.trim_start_matches('v') == version);
    let is_there = match group.size {
        Extent::Exactly(count) => deployment["status"]["phase"] == "Running" && is_complete(deployment, count),
        // Its phase is `ScalingUp` or `ScalingDown` whenever there is more or less to do, and tells nothing of what this operation wants.
        Extent::AtLeast(least) => is_followable(deployment, least),
    };
    is_current(deployment) && is_there && runs
}

fn is_true(object: &Value, condition: &str) -> bool {
    conditions(object).any(|c| c["type"] == condition && c["status"] == "True")
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object["status"]["conditions"].as_array().into_iter().flatten()
}

/// What v1beta2 says otherwise: other conditions, and what it no longer says itself is in a place of its own.
fn is_v1beta2(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.ends_with("/v1beta2"))
}

/// The conditions of a Cluster that must be true. Not `Available` of v1beta2, which is of all worker groups together: one that scales, or that others
/// broke, would hold up whoever wants something else. Each group that is asked for is judged by its own.
fn cluster_conditions(cluster: &Value) -> &'static [&'static str] {
    if is_v1beta2(cluster) {
        &["InfrastructureReady", "ControlPlaneAvailable"]
    } else {
        &["InfrastructureReady", "ControlPlaneReady", "Ready"]
    }
}

/// The condition of a Cluster that addons begin at.
fn readiness(cluster: &Value) -> &'static str {
    if is_v1beta2(cluster) { "Available" } else { "Ready" }
}

/// The condition of a control plane that the operator's word means: `Ready` has another name in v1beta2.
fn plane_condition<'a>(plane: &Value, condition: &'a str) -> &'a str {
    if condition == "Ready" && is_v1beta2(plane) { "Available" } else { condition }
}

/// Whether the network and the load balancer are there.
pub(in crate::driver::capi_helm) fn is_provisioned(infrastructure: &Value) -> bool {
    let status = &infrastructure["status"];
    status["ready"] == true || status["initialization"]["provisioned"] == true
}

/// What a controller has given up.
struct GivenUp {
    reason: String,
    /// How long it has had for what it was to do, and how long it must have had before its word counts.
    age: Duration,
    patience: Duration,
}

/// How long addons have had: they begin once the cluster is ready.
fn age_of_addons(seen: &Seen, wanted: &Wanted) -> Duration {
    let ready = readiness(&seen.cluster);
    let since =
        conditions(&seen.cluster).find(|c| c["type"] == ready && c["status"] == "True").and_then(|c| c["lastTransitionTime"].as_str());
    let since = since.and_then(|text| DateTime::parse_from_rfc3339(text).ok());
    since.map_or(wanted.age, |since| (wanted.now - since.to_utc()).to_std().unwrap_or_default().min(wanted.age))
}

/// What controllers have said that they will not mend by themselves, of what this operation waits for.
fn failures(seen: &Seen, wanted: &Wanted) -> Vec<GivenUp> {
    let mut all = Vec::new();
    let mut give_up = |reason: String, age: Duration, patience: Duration| all.push(GivenUp { reason, age, patience });
    let infrastructure = Some(&seen.infrastructure).filter(|object| !is_provisioned(object));
    let control_plane = Some(&seen.control_plane).filter(|object| is_current(object) && !is_control_plane_ready(seen, wanted));
    for (what, object) in [("OpenStackCluster", infrastructure), ("control plane", control_plane)] {
        if let Some(text) = object.and_then(failure_message) {
            give_up(format!("{what}: {text}"), wanted.age, wanted.patience);
        }
    }
    let failed = |object: &&Value| object["status"]["phase"] == "Failed" && object["metadata"]["deletionTimestamp"].is_null();
    // Each by its own: one that is as wanted has not failed because another is waited for, whatever its autoscaler could not get.
    let missing = wanted.groups.iter().filter(|group| !is_group_ready(seen, group, &wanted.version));
    for deployment in missing.filter_map(|group| seen.deployment(&group.name)) {
        if !failed(&deployment) || !is_current(deployment) {
            continue;
        }
        let name = short(name_of(deployment), &seen.release);
        let why = failure_message(deployment)
            .or_else(|| unmet(deployment))
            .or_else(|| seen.machines_of(name).find_map(failure_message))
            .unwrap_or_else(|| "its machines cannot be made".to_owned());
        give_up(format!("nodegroup {name}: {why}"), wanted.age, wanted.patience);
    }
    if let Some(addon) = seen.addons.iter().find(failed) {
        let why = addon["status"]["failureMessage"].as_str().map(cut).unwrap_or_else(|| "it failed".to_owned());
        // It does not say which wish it speaks of, and its provider tries again by itself.
        let reason = format!("addon {}: {why}", short(name_of(addon), &seen.release));
        give_up(reason, age_of_addons(seen, wanted), wanted.patience * ADDON_PATIENCE);
    }
    all
}

fn failure_message(object: &Value) -> Option<String> {
    let of = |status: &Value| match (status["failureReason"].as_str(), status["failureMessage"].as_str()) {
        (Some(reason), Some(message)) => Some(cut(&format!("{reason}: {message}"))),
        (one, other) => one.or(other).map(cut),
    };
    of(&object["status"]).or_else(|| of(&object["status"]["deprecated"]["v1beta1"]))
}

/// The message of the first condition that is not met and says why.
fn unmet(object: &Value) -> Option<String> {
    let says = |c: &&Value| c["status"] == "False" && c["message"].as_str().is_some_and(|m| !m.is_empty());
    conditions(object).find(says).and_then(|c| c["message"].as_str()).map(cut)
}

/// What stands in the way, in the controllers' own words: machines first, whose words name quota and flavors.
fn reasons(seen: &Seen) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let of_cluster = [&seen.infrastructure, &seen.control_plane, &seen.cluster];
    for object in seen.machines.iter().chain(of_cluster).chain(&seen.deployments) {
        if told.len() == TOLD {
            break;
        }
        if let Some(text) = failure_message(object).or_else(|| unmet(object))
            && !told.iter().any(|known| known.ends_with(&text))
        {
            told.push(format!("{}: {text}", short(name_of(object), &seen.release)));
        }
    }
    told
}

/// A name without the release's, which is the same in all of them.
fn short<'a>(name: &'a str, release: &str) -> &'a str {
    name.strip_prefix(release).and_then(|rest| rest.strip_prefix('-')).filter(|rest| !rest.is_empty()).unwrap_or(name)
}

fn cut(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST { line } else { line.chars().take(LONGEST - 1).chain(['…']).collect() }
}

#[cfg(test)]
mod tests;
