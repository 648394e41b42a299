//! The judgement. A cluster is as wanted when every controller says so about the present wish: what was said about an earlier one
//! (`observedGeneration`) counts as nothing said, so that no operation ends before its work has begun.

use serde_json::Value;

use super::{Seen, name_of};

/// Reasons that are told at most.
const TOLD: usize = 3;
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
}

/// What a worker group is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::driver::capi_helm) struct WantedGroup {
    pub name: String,
    /// None: its autoscaler decides.
    pub count: Option<i64>,
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
    },
    /// A controller has given up.
    Failed {
        reason: String,
    },
}

/// Judges.
pub(in crate::driver::capi_helm) fn judge(seen: &Seen, wanted: &Wanted) -> Judged {
    if let Some(reason) = failure(seen) {
        return Judged::Failed { reason };
    }
    let mut waiting = Vec::new();
    if seen.cluster.is_null() {
        waiting.push("the Cluster object".to_owned());
    } else {
        for condition in ["InfrastructureReady", "ControlPlaneReady", "Ready"] {
            if !is_true(&seen.cluster, condition) {
                waiting.push(format!("{condition} of the cluster"));
            }
        }
    }
    if !is_control_plane_ready(seen, wanted) {
        waiting.push("the control plane".to_owned());
    }
    for group in &wanted.groups {
        if !is_group_ready(seen, group, &wanted.version) {
            waiting.push(format!("nodegroup {}", group.name));
        } else if group.count.is_some() && seen.machines_of(&group.name).any(is_leaving) {
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
    Judged::Waiting { done, total, waiting_for: text }
}

/// Whether a machine is being deleted: its deployment does not count it any more, and it is there still.
fn is_leaving(machine: &Value) -> bool {
    !machine["metadata"]["deletionTimestamp"].is_null()
}

/// Machines that run, and machines that are wanted (or there, where there are more).
fn count(seen: &Seen, wanted: &Wanted) -> (i32, i32) {
    let is_ready = |machine: &&Value| machine["status"]["phase"] == "Running" && !is_leaving(machine);
    let done = seen.machines.iter().filter(is_ready).count();
    let of_groups = wanted.groups.iter().map(|group| {
        let scaled = || seen.deployment(&group.name).and_then(|d| d["spec"]["replicas"].as_i64()).unwrap_or(1);
        group.count.unwrap_or_else(scaled)
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

/// All replicas are there, of the present template, and ready. Newer versions of Cluster API call the second counter otherwise.
fn is_complete(object: &Value, count: Option<i64>) -> bool {
    let status = &object["status"];
    let wanted = object["spec"]["replicas"].as_i64();
    let updated = status["updatedReplicas"].as_i64().or_else(|| status["upToDateReplicas"].as_i64());
    // A counter of none is left out.
    let is = |counter: Option<i64>| wanted.is_some() && counter.unwrap_or(0) == wanted.unwrap_or(0);
    count.is_none_or(|count| wanted == Some(count))
        && is(status["replicas"].as_i64())
        && is(updated)
        && is(status["readyReplicas"].as_i64())
}

fn is_control_plane_ready(seen: &Seen, wanted: &Wanted) -> bool {
    let plane = &seen.control_plane;
    let is_version = |version: &Value| version.as_str().is_some_and(|version| version.trim_start_matches('v') == wanted.version);
    !plane.is_null()
        && is_current(plane)
        && is_complete(plane, Some(wanted.masters))
        && is_version(&plane["spec"]["version"])
        && (plane["status"]["version"].is_null() || is_version(&plane["status"]["version"]))
        && wanted.conditions.iter().all(|condition| is_true(plane, condition))
}

fn is_group_ready(seen: &Seen, group: &WantedGroup, version: &str) -> bool {
    let Some(deployment) = seen.deployment(&group.name) else { return false };
    let runs = deployment["spec"]["template"]["spec"]["version"].as_str().is_none_or(|v| v.trim_start_matches('v') == version);
    deployment["status"]["phase"] == "Running" && is_current(deployment) && is_complete(deployment, group.count) && runs
}

fn is_true(object: &Value, condition: &str) -> bool {
    conditions(object).any(|c| c["type"] == condition && c["status"] == "True")
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object["status"]["conditions"].as_array().into_iter().flatten()
}

/// What a controller has said that it will not mend by itself.
fn failure(seen: &Seen) -> Option<String> {
    let of_infrastructure =
        [("Cluster", &seen.cluster), ("OpenStackCluster", &seen.infrastructure), ("control plane", &seen.control_plane)];
    for (what, object) in of_infrastructure {
        if let Some(text) = failure_message(object) {
            return Some(format!("{what}: {text}"));
        }
    }
    let failed = |object: &&Value| object["status"]["phase"] == "Failed" && object["metadata"]["deletionTimestamp"].is_null();
    if let Some(deployment) = seen.deployments.iter().find(failed) {
        let name = short(name_of(deployment), &seen.release);
        let why = failure_message(deployment)
            .or_else(|| unmet(deployment))
            .or_else(|| seen.machines_of(name).find_map(failure_message))
            .unwrap_or_else(|| "its machines cannot be made".to_owned());
        return Some(format!("nodegroup {name}: {why}"));
    }
    let addon = seen.addons.iter().find(failed)?;
    let why = addon["status"]["failureMessage"].as_str().map(cut).unwrap_or_else(|| "it failed".to_owned());
    Some(format!("addon {}: {why}", short(name_of(addon), &seen.release)))
}

fn failure_message(object: &Value) -> Option<String> {
    let status = &object["status"];
    let (reason, message) = (status["failureReason"].as_str(), status["failureMessage"].as_str());
    match (reason, message) {
        (None, None) => None,
        (Some(reason), Some(message)) => Some(cut(&format!("{reason}: {message}"))),
        (one, other) => one.or(other).map(cut),
    }
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
