//! `PATCH /v1/clusters/{cluster}/nodegroups/{nodegroup}`: rules N-18 to N-20.

use std::sync::Arc;

use model::driver::DriverName;
use model::nodegroup::{NodegroupChange, Nodes, NodesChange};
use model::operation::{OperationKind, deadlines};
use model::store::Conn;
use serde_json::{Map, Value};

use super::create::check_flavor;
use super::{Found, rules};
use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{self, Change, Reply, Request, accept};
use crate::policy::Act;
use crate::template::boot_volume_size;
use crate::view::nodegroup::{NodegroupView, PATCH};
use crate::view::patch::{self, Op};

/// Attributes that no patch of a group may touch, besides those of every resource (N-19).
const INTERNAL: &[&str] = &[
    "name",
    "cluster_id",
    "docker_volume_size",
    "labels",
    "flavor_id",
    "image_id",
    "node_addresses",
    "node_count",
    "role",
    "is_default",
    "stack_id",
    "status",
    "status_reason",
    "version",
];

const LABELS: &str = "node_labels";
const TAINTS: &str = "node_taints";

/// Changes the bounds of a group, or how its nodes register; in the caller's own project.
pub async fn update(cx: Context) -> Result<Answer, ApiError> {
    let changes = cx.patch(&[], INTERNAL)?;
    let scope = cx.own_scope();
    // The cluster goes before the policy, the group behind it.
    let cluster = {
        let (scope, ident) = (&scope, cx.arg("cluster"));
        cx.shared.store.read(async |conn: &mut Conn| crate::cluster::find(conn, scope, ident).await).await?
    };
    let allowed = cx.allow_own(Act::NodegroupUpdate)?;
    let found = super::find_in(&cx, cluster).await?;
    let view = NodegroupView { row: &found.group, nodes: &found.nodes, cluster_labels: found.cluster.labels.as_deref(), base: &cx.base };
    let before = as_stored(patch::document(&view)?, &changes);
    let after = patch::applied_within("nodegroup", &before, &changes, &PATCH)?;
    let change = check(&found, &after, &changes)?;
    // The nodes are there, made by the labels of one or of the other: what either allows is not refused now.
    let (of_cluster, of_group) = (found.cluster.labels(), found.group.labels());
    let labels = if boot_volume_size(&cx, &of_group).is_ok_and(|size| size > 0) { of_group } else { of_cluster };
    check_flavor(&cx, found.group.flavor_id.as_deref(), &labels).await?;
    let request = Request::new(&cx, OperationKind::NodegroupUpdate, &found.cluster, scope);
    let is_replaced = matches!(change, Change::Bounds { nodes: Some(_), .. })
        && lifecycle::Subject::find(&cx, &request.scope).await?.driver() == Some(DriverName::K8sCapiHelmV1);
    // Labels and taints are part of what Cluster API makes a machine of: it replaces them one by one.
    let nodes = if is_replaced { found.group.node_count().unsigned_abs().max(1) } else { 1 };
    let deadline = deadlines::of_steps(request.deadline, nodes);
    let request = Request { change, reply: Reply::Group, payload: lifecycle::about(&found.group), deadline, ..request };
    accept(Arc::new(cx), request, allowed).await
}

/// A group without labels or taints of nodes shows an empty map or list where upstream has null, so that a patch may add them as a whole.
fn as_stored(mut shown: Map<String, Value>, changes: &[patch::Change]) -> Map<String, Value> {
    for field in [LABELS, TAINTS] {
        let is_added = changes.iter().any(|c| c.op == Op::Add && c.field == field && c.key.is_none());
        let is_empty = match shown.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            _ => false,
        };
        if is_added && is_empty {
            shown.insert(field.to_owned(), Value::Null);
        }
    }
    shown
}

/// What is written is what was asked for: another request may have changed the rest meanwhile.
fn check(found: &Found, after: &Map<String, Value>, changes: &[patch::Change]) -> Result<Change, ApiError> {
    let is_asked = |field: &str| changes.iter().any(|change| change.field == field);
    let number = |field: &str| after.get(field).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
    let (min, max) = (number("min_node_count").unwrap_or(0), number("max_node_count"));
    rules::bounds(&found.group.name, found.group.node_count(), min, max)?;
    let change = NodegroupChange {
        min_node_count: is_asked("min_node_count").then_some(min),
        max_node_count: is_asked("max_node_count").then_some(max),
        ..NodegroupChange::default()
    };
    // Those of an earlier release need not be as is asked now: they are looked at when they change.
    let asked = |field: &str| after.get(field).filter(|_| is_asked(field));
    let nodes = rules::nodes(found.group.role.as_deref().unwrap_or_default(), asked(LABELS), asked(TAINTS))?;
    let nodes = (is_asked(LABELS) || is_asked(TAINTS)).then(|| of_nodes(nodes, changes));
    Ok(Change::Bounds { change, nodes })
}

/// What a patch changes of how nodes register, which comes to these.
fn of_nodes(after: Nodes, changes: &[patch::Change]) -> NodesChange {
    let of = |field: &'static str| changes.iter().filter(move |change| change.field == field);
    let is_whole = of(LABELS).any(|change| change.key.is_none());
    let keys = of(LABELS).filter(|_| !is_whole).filter_map(|change| change.key.clone());
    NodesChange {
        single_labels: keys.map(|key| (key.clone(), after.labels.0.get(&key).cloned())).collect(),
        taints: of(TAINTS).next().map(|_| after.taints),
        labels: is_whole.then_some(after.labels),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_changes_nothing_of_nodes_but_what_it_names() {
        let nodes = |labels: &[(&str, &str)], taints: Value| Nodes {
            labels: model::json::Labels(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
            taints: serde_json::from_value(taints).expect("taints"),
        };
        let change = |field: &str, key: Option<&str>| patch::Change {
            op: Op::Replace,
            field: field.into(),
            key: key.map(str::to_owned),
            value: Value::Null,
        };
        // As this request found them and would have them, and as another one has left them meanwhile.
        let wanted = nodes(&[("rack", "b")], json!([{"key": "gpu", "effect": "NoSchedule"}]));
        let present = || nodes(&[("old", "x"), ("tier", "gold")], json!([{"key": "ssd", "effect": "NoExecute"}]));
        let cases = [
            (
                vec![change(LABELS, Some("rack")), change(LABELS, Some("old"))],
                nodes(&[("tier", "gold"), ("rack", "b")], json!([{"key": "ssd", "effect": "NoExecute"}])),
            ),
            (vec![change(LABELS, None)], nodes(&[("rack", "b")], json!([{"key": "ssd", "effect": "NoExecute"}]))),
            (vec![change(TAINTS, None)], nodes(&[("old", "x"), ("tier", "gold")], json!([{"key": "gpu", "effect": "NoSchedule"}]))),
            (vec![change(LABELS, Some("rack")), change(LABELS, None), change(TAINTS, None)], wanted.clone()),
        ];
        for (changes, after) in cases {
            let mut kept = present();
            of_nodes(wanted.clone(), &changes).apply(&mut kept);
            assert_eq!(kept, after, "{changes:?}");
        }
    }

    #[test]
    fn labels_and_taints_of_nodes_can_be_added_where_there_are_none() {
        let patched = |labels: Value, taints: Value, op: Op, field: &str, key: Option<&str>, value: &str| {
            let shown = Map::from_iter([("node_labels".to_owned(), labels), ("node_taints".to_owned(), taints)]);
            let change = patch::Change { op, field: field.into(), key: key.map(str::to_owned), value: value.into() };
            let before = as_stored(shown, std::slice::from_ref(&change));
            patch::applied_within("nodegroup", &before, &[change], &PATCH).map(Value::Object)
        };
        let (label, taint) = ("{'a': 'b'}", "[{'key': 'gpu', 'effect': 'NoSchedule'}]");
        for op in [Op::Add, Op::Replace] {
            let after = patched(json!({}), json!([]), op, "node_labels", None, label).expect("applies");
            assert_eq!(after, json!({"node_labels": {"a": "b"}, "node_taints": []}));
            let after = patched(json!({}), json!([]), op, "node_taints", None, taint).expect("applies");
            assert_eq!(after, json!({"node_labels": {}, "node_taints": [{"key": "gpu", "effect": "NoSchedule"}]}));
        }
        let after = patched(json!({}), json!([]), Op::Add, "node_labels", Some("a"), "b").expect("applies");
        assert_eq!(after["node_labels"], json!({"a": "b"}));
        assert!(patched(json!({"c": "d"}), json!([]), Op::Add, "node_labels", None, label).is_err());
        assert!(patched(json!({}), json!([{"key": "x", "effect": "NoExecute"}]), Op::Add, "node_taints", None, taint).is_err());
        assert!(patched(json!({}), json!([]), Op::Add, "node_taints", None, label).is_err());
    }
}
