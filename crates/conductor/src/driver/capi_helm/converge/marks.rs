//! Machines that the user named, which go before others when their group shrinks.

use model::nodegroup::Nodegroup;
use model::operation::{OperationEvent, OutcomeCode, Progress};
use serde_json::{Value, json};

use super::{Wish, choices, machines_of, replicas};
use crate::driver::capi_helm::Bench;
use crate::driver::capi_helm::scaling::{self, Scale};
use crate::driver::capi_helm::seen::{self, Seen};
use crate::outcome::{Failure, Turn};
use crate::stack;

/// The event of having found them: a list of their names, of several events where it is long.
const CHOSEN: &str = "nodes_to_remove";

/// Cluster API's annotation of a machine that goes before others.
const DELETE_FIRST: &str = "cluster.x-k8s.io/delete-machine";
/// Ours of one that has that of us; its text is the operation.
const MARKED_BY: &str = "magnum.openstack.org/delete-machine-by";

/// Finds the machines that the user named, once, and records which they are: afterwards they are gone and could not be found.
pub(super) async fn choose(bench: &Bench<'_>, wish: &Wish<'_>, seen: &Seen, events: &[OperationEvent]) -> Result<Option<Turn>, Failure> {
    let (Some(group), false) = (wish.target, wish.nodes_to_remove.is_empty()) else { return Ok(None) };
    if stack::listed(events, CHOSEN).is_some() {
        return Ok(None);
    }
    let wrong = |text: String| Failure::fail(OutcomeCode::User, format!("nodes_to_remove: {text}"));
    let wanted = wish.groups.iter().find(|g| g.uuid == group.uuid);
    if let Some(wanted) = wanted
        && matches!(scaling::of(&choices(bench)?, wanted, None), Ok(Scale::Between { .. }))
    {
        // It would be marked, and go when the autoscaler wants to take another one away.
        return Err(wrong(format!(
            "the size of nodegroup {} is its autoscaler's to say, which takes away the nodes that it chooses",
            group.name
        )));
    }
    let wanted = wanted.map_or(0, Nodegroup::node_count);
    let fewer = replicas(seen, group).unwrap_or(0) - wanted;
    let nodes = Progress { step: "nodes", ..Progress::default() };
    // The failed operation that this one does again has brought the release to its size: those that it has found go, or have gone. They are this
    // one's from here on.
    if fewer <= 0
        && let Some(found) = stack::listed_before(bench.cx, bench.work, CHOSEN).await?
    {
        stack::record_list(bench.cx, bench.work, &nodes, CHOSEN, &found).await?;
        return Ok(Some(Turn::NOW));
    }
    let machines = machines_of(seen, group);
    let mut names: Vec<&str> = Vec::new();
    for called in wish.nodes_to_remove.iter().map(|n| n.trim()).filter(|n| !n.is_empty()) {
        let Some(machine) = machines.iter().find(|machine| seen::is_called(machine, called)) else {
            return Err(wrong(format!("nodegroup {} has no node {called} (by machine, node, server id or address)", group.name)));
        };
        let name = seen::name_of(machine);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if i32::try_from(names.len()).unwrap_or(i32::MAX) > fewer.max(0) {
        // One that is marked and not taken now would go the next time, without anybody asking.
        let text = format!("it names {} nodes, and with node_count {wanted} nodegroup {} loses {}", names.len(), group.name, fewer.max(0));
        return Err(wrong(text));
    }
    stack::record_list(bench.cx, bench.work, &nodes, CHOSEN, &names).await?;
    Ok(Some(Turn::NOW))
}

/// Marks the machines that were chosen, and takes off what an operation has left that ended before its machines had gone: they would go in their
/// place. Of such an operation helm may still be under way: then a turn to wait. And where it was cut off, its change of another group is done
/// again by whoever comes next, whatever he wants: while the machines that were named for it are still marked.
pub(super) async fn set(bench: &Bench<'_>, wish: &Wish<'_>, seen: &Seen, events: &[OperationEvent]) -> Result<Option<Turn>, Failure> {
    let chosen = stack::listed(events, CHOSEN).unwrap_or_default();
    let others = left_over(&wish.groups, seen, &chosen);
    if !others.is_empty() && !bench.work.is_settled(bench.cx) {
        let waiting_for = Some("what an operation before it has asked helm for".to_owned());
        bench.work.guard(bench.cx, &Progress { step: "nodes", waiting_for, ..Progress::default() }).await?;
        // No machine says when that is over.
        return Ok(Some(Turn::Again { after: bench.cx.settings.timing.poll_min }));
    }
    let is_target = |group: &Nodegroup| wish.target.is_some_and(|target| target.uuid == group.uuid);
    let of_other_groups: Vec<Nodegroup> = wish.groups.iter().filter(|group| !is_target(group)).cloned().collect();
    if !left_over(&of_other_groups, seen, &chosen).is_empty() && bench.take_up().await? {
        return Ok(Some(Turn::NOW));
    }
    write(bench, &others, (&Value::Null, &Value::Null)).await?;
    let by = json!(bench.work.operation.uuid);
    write(bench, &there(seen, chosen), (&json!("true"), &by)).await?;
    Ok(None)
}

/// Machines that are marked and were not chosen, in groups that have fewer to lose beside those that were: where as many are to go still, as with
/// controllers that stand still, it is these.
fn left_over<'s>(groups: &[Nodegroup], seen: &'s Seen, chosen: &[&str]) -> Vec<&'s str> {
    let mut left = Vec::new();
    for group in groups {
        let stay = machines_of(seen, group).into_iter().filter(|machine| machine["metadata"]["deletionTimestamp"].is_null());
        let others: Vec<&Value> = stay.filter(|machine| !chosen.contains(&seen::name_of(machine))).collect();
        let to_go = others.len().saturating_sub(usize::try_from(group.node_count()).unwrap_or(0));
        let marked: Vec<&str> = others.into_iter().filter(|machine| is_marked(machine)).map(seen::name_of).collect();
        if marked.len() > to_go {
            left.extend(marked);
        }
    }
    left
}

/// Takes the marks off the machines that were chosen.
pub(super) async fn take_off(bench: &Bench<'_>, seen: &Seen, events: &[OperationEvent]) -> Result<(), Failure> {
    let chosen = stack::listed(events, CHOSEN).unwrap_or_default();
    write(bench, &there(seen, chosen), (&Value::Null, &Value::Null)).await
}

/// Whether a machine goes before others, and by our mark.
fn is_marked(machine: &Value) -> bool {
    let annotations = &machine["metadata"]["annotations"];
    [DELETE_FIRST, MARKED_BY].iter().all(|key| annotations[*key].is_string())
}

/// Those of these machines that are there: one that is gone needs no mark.
fn there<'a>(seen: &Seen, names: Vec<&'a str>) -> Vec<&'a str> {
    names.into_iter().filter(|name| seen.machines.iter().any(|machine| seen::name_of(machine) == *name)).collect()
}

async fn write(bench: &Bench<'_>, machines: &[&str], (word, by): (&Value, &Value)) -> Result<(), Failure> {
    let patch = json!({"metadata": {"annotations": {DELETE_FIRST: word, MARKED_BY: by}}});
    for name in machines {
        bench.work.guard(bench.cx, &Progress { step: "nodes", ..Progress::default() }).await?;
        let kind = &bench.capi.settings.kinds.machine;
        bench.management.merge("machine_patch", kind, Some(&bench.namespace), name, &patch).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::capi_helm::tests::group;

    /// A machine of the group `gpu`, with its marks.
    fn machine(name: &str, marks: Value) -> Value {
        json!({"metadata": {"name": name, "labels": {"capi.stackhpc.com/node-group": "gpu"}, "annotations": marks}})
    }

    fn ours() -> Value {
        json!({DELETE_FIRST: "true", MARKED_BY: "an operation"})
    }

    #[test]
    fn a_mark_of_ours_is_one_that_says_so() {
        assert!(is_marked(&machine("a", ours())));
        for other in [json!({DELETE_FIRST: "true"}), json!({MARKED_BY: "an operation"}), Value::Null] {
            assert!(!is_marked(&machine("a", other.clone())), "{other}");
        }
    }

    #[test]
    fn marks_of_others_are_left_where_as_many_are_to_go_still_and_taken_off_elsewhere() {
        let all = ["a", "b", "c", "d", "e"];
        let seen = |going: &[&str]| {
            let machines = all.map(|name| {
                let mut machine = machine(name, if ["d", "e"].contains(&name) { ours() } else { Value::Null });
                if going.contains(&name) {
                    machine["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                }
                machine
            });
            Seen { release: "blue".into(), machines: machines.into(), ..Seen::default() }
        };
        for (size, chosen, going, left) in [
            // What the release asks for, and nobody has done yet.
            (3, "", "", ""),
            (2, "a", "", ""),
            (3, "d e", "", ""),
            // It is to have them all again, or others are to go in their place.
            (5, "", "", "d e"),
            (4, "a", "", "d e"),
            (3, "a b", "", "d e"),
            // Of two that were to go one goes.
            (3, "", "d", ""),
            (3, "a", "d", "e"),
            (3, "", "d e", ""),
        ] {
            let [chosen, going, left] = [chosen, going, left].map(|names| names.split_whitespace().collect::<Vec<_>>());
            let found = seen(&going);
            assert_eq!(left_over(&[group("gpu", "worker", size, false)], &found, &chosen), left, "{size} {chosen:?} {going:?}");
        }
    }
}
