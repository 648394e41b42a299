//! Machines that the user named, which go before others when their group shrinks.

use model::nodegroup::Nodegroup;
use model::operation::{OperationEvent, OutcomeCode, Progress};
use serde_json::{Value, json};

use super::{Wish, choices, replicas};
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
    let machines: Vec<&Value> = if group.is_master() { seen.masters().collect() } else { seen.machines_of(&group.name).collect() };
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
    let wanted = wanted.map_or(0, Nodegroup::node_count);
    let fewer = replicas(seen, group).unwrap_or(0) - wanted;
    if i32::try_from(names.len()).unwrap_or(i32::MAX) > fewer.max(0) {
        // One that is marked and not taken now would go the next time, without anybody asking.
        let text = format!("it names {} nodes, and with node_count {wanted} nodegroup {} loses {}", names.len(), group.name, fewer.max(0));
        return Err(wrong(text));
    }
    stack::record_list(bench.cx, bench.work, &Progress { step: "nodes", ..Progress::default() }, CHOSEN, &names).await?;
    Ok(Some(Turn::NOW))
}

/// Marks the machines that were chosen, and no others: those of an operation that ended before they had gone would go in their place. Of such
/// an operation helm may still be under way: then a turn to wait.
pub(super) async fn set(bench: &Bench<'_>, seen: &Seen, events: &[OperationEvent]) -> Result<Option<Turn>, Failure> {
    let chosen = stack::listed(events, CHOSEN).unwrap_or_default();
    let others: Vec<&str> = seen.machines.iter().filter(|machine| is_marked(machine)).map(seen::name_of).collect();
    let others: Vec<&str> = others.into_iter().filter(|name| !chosen.contains(name)).collect();
    if !others.is_empty() && !bench.work.is_settled(bench.cx) {
        return Ok(Some(bench.again(None)));
    }
    write(bench, &others, (&Value::Null, &Value::Null)).await?;
    let by = json!(bench.work.operation.uuid);
    write(bench, &there(seen, chosen), (&json!("true"), &by)).await?;
    Ok(None)
}

/// Takes the marks off the machines that were chosen.
pub(super) async fn take_off(bench: &Bench<'_>, seen: &Seen, events: &[OperationEvent]) -> Result<(), Failure> {
    let chosen = stack::listed(events, CHOSEN).unwrap_or_default();
    write(bench, &there(seen, chosen), (&Value::Null, &Value::Null)).await
}

/// Whether a machine bears a mark of ours, and is not going.
fn is_marked(machine: &Value) -> bool {
    let metadata = &machine["metadata"];
    metadata["annotations"][MARKED_BY].is_string() && metadata["deletionTimestamp"].is_null()
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

    #[test]
    fn a_mark_of_ours_is_one_until_its_machine_goes() {
        let machine = |by: Value, at: Value| json!({"metadata": {"name": "blue-1", "annotations": {DELETE_FIRST: "true", MARKED_BY: by}, "deletionTimestamp": at}});
        assert!(is_marked(&machine(json!("an operation"), Value::Null)));
        assert!(!is_marked(&machine(Value::Null, Value::Null)), "somebody else's");
        assert!(!is_marked(&machine(json!("an operation"), json!("2026-01-01T00:00:00Z"))), "it goes");
    }
}
