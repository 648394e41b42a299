//! `PATCH /v1/clusters/{uuid or name}`: rules P-01 to P-11.
//!
//! Two things in one route: a new size of the default worker group, which is an operation, and health that an agent in the cluster reports,
//! which is only written down, in whatever state the cluster is.

use std::sync::Arc;

use model::cluster::{Cluster, ClusterChange};
use model::id::ClusterId;
use model::json::Labels;
use model::operation::{OperationKind, Payload};
use model::store::beside::Group;
use model::store::{Conn, Scope, StoreError, cluster as clusters, health};
use model::time::{millis, now};
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::cloud_checks::{self, Wanted};
use crate::context::Context;
use crate::error::ApiError;
use crate::lifecycle::{Change as RowChange, Request, Subject, accept, is_default_worker};
use crate::microversion::ZERO_NODES;
use crate::policy::Act;
use crate::template::boot_volume_size;
use crate::view::cluster::{ClusterView, PATCH};
use crate::view::labels::StoredMap;
use crate::view::patch::{self, Change};

/// Attributes that no patch of a cluster may touch, besides those of every resource (P-04).
const INTERNAL: &[&str] = &[
    "api_address",
    "node_addresses",
    "master_addresses",
    "stack_id",
    "cluster_id",
    "ca_cert_ref",
    "magnum_cert_ref",
    "etcd_ca_cert_ref",
    "front_proxy_ca_cert_ref",
    "trust_id",
    "trustee_user_id",
    "trustee_username",
    "trustee_password",
];

/// Takes a patch.
pub async fn update(cx: Context) -> Result<Answer, ApiError> {
    let rollback = cx.flag("rollback")?.unwrap_or(false);
    let changes = cx.patch(&["cluster_template_id"], INTERNAL)?;
    let scope = cx.wide_scope(Act::ClusterUpdateEverywhere)?;
    let subject = Subject::find(&cx, &scope).await?;
    let row = &subject.cluster;
    let allowed = cx.allow_object(Act::ClusterUpdate, row)?;
    cx.allow_own(Act::ClusterUpdateHealth)?;
    let before = document(&cx, &subject)?;
    let asked = read(&before, &changes)?;
    let health = asked.health();
    let Some(node_count) = asked.node_count else {
        return record_health(&cx, &row.cluster_id(), health).await;
    };
    if node_count == 0 && cx.version < ZERO_NODES {
        return Err(ApiError::Invalid(format!("Zero nodes (node_count 0) need a higher microversion: {ZERO_NODES} at least.")));
    }
    check_flavors(&cx, row).await?;
    let request = Request {
        change: RowChange::Size { node_count, health },
        payload: Payload { node_count: Some(node_count), rollback, ..Payload::default() },
        ..Request::new(&cx, OperationKind::ClusterUpdate, row, scope)
    };
    accept(Arc::new(cx), request, allowed).await
}

/// The cluster as the patch sees it: as it is shown, but for `node_count`, which here is the size of the default worker group.
fn document(cx: &Context, subject: &Subject) -> Result<Map<String, Value>, ApiError> {
    let groups = &subject.groups;
    let template_labels = &StoredMap::read(subject.template.as_ref().and_then(|t| t.labels.as_deref()));
    let (row, base, version) = ((&subject.cluster).into(), &cx.base, cx.version);
    let view = ClusterView {
        row,
        nodes: groups.iter().map(Group::from).collect(),
        template_labels,
        faults: None,
        through_own_trust: false,
        base,
        version,
    };
    let mut document = patch::document(&view)?;
    if let Some(workers) = groups.iter().find(|g| is_default_worker(g)) {
        document.insert("node_count".into(), workers.node_count().into());
    }
    Ok(document)
}

/// What a patch asks for.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    /// Also when it is the size that the group has: clients wait for the update to end.
    node_count: Option<i32>,
    health_status: Option<Option<String>>,
    health_status_reason: Option<Option<Labels>>,
}

impl Asked {
    fn health(&self) -> Option<ClusterChange> {
        if self.health_status.is_none() && self.health_status_reason.is_none() {
            return None;
        }
        let reason = self.health_status_reason.as_ref().map(|reason| reason.as_ref().map(Labels::column));
        Some(ClusterChange { health_status: self.health_status.clone(), health_status_reason: reason, ..ClusterChange::default() })
    }
}

fn read(before: &Map<String, Value>, changes: &[Change]) -> Result<Asked, ApiError> {
    let after = patch::applied_within("cluster", before, changes, &PATCH)?;
    let touched = |field: &str| changes.iter().any(|c| c.field == field);
    let labels = |value: Option<&Value>| value.filter(|v| !v.is_null()).and_then(|v| crate::view::schema::labels("", v).ok());
    Ok(Asked {
        // Removing it says "the default", which is one.
        node_count: touched("node_count")
            .then(|| after.get("node_count").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok()).unwrap_or(1)),
        health_status: touched("health_status").then(|| after.get("health_status").and_then(Value::as_str).map(str::to_owned)),
        health_status_reason: touched("health_status_reason").then(|| labels(after.get("health_status_reason"))),
    })
}

async fn record_health(cx: &Context, id: &ClusterId, health: Option<ClusterChange>) -> Result<Answer, ApiError> {
    let answer = Answer::accepted(id.as_str())?;
    if let Some(change) = &health {
        let (answer, at) = (&answer, millis(now()));
        cx.shared
            .store
            .write(async |conn: &mut Conn| {
                // First: a conductor that writes down what it saw has the lock of this row before it writes the cluster's, so what is read after
                // it is the newest.
                health::reported(conn, id, at).await?;
                let row = clusters::find(conn, &Scope::All, id).await?.ok_or(StoreError::Stale { what: "cluster" })?;
                if !is_known(&row, change) {
                    clusters::record(conn, id, change).await?;
                }
                cx.keep(conn, answer).await
            })
            .await?;
    }
    Ok(answer)
}

/// Whether a cluster's row has this health already: agents report the same again and again, and a row that is written says when it was.
fn is_known(row: &Cluster, reported: &ClusterChange) -> bool {
    let same = |known: &Option<String>, new: &Option<Option<String>>| new.as_ref().is_none_or(|new| new == known);
    same(&row.health_status, &reported.health_status) && same(&row.health_status_reason, &reported.health_status_reason)
}

/// The cluster's flavors must still be there, with a root disk where they need one (P-07).
async fn check_flavors(cx: &Context, row: &Cluster) -> Result<(), ApiError> {
    let flavors: Vec<&str> = [&row.flavor_id, &row.master_flavor_id].into_iter().flatten().map(String::as_str).collect();
    let size = boot_volume_size(cx, &row.labels())?;
    let found = cloud_checks::look_up(cx, &Wanted { flavors: flavors.clone(), ..Wanted::default() }).await?;
    flavors.iter().try_for_each(|name| found.root_disk(name, size))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::patch::Op;

    fn change(op: Op, field: &str, key: Option<&str>, value: Value) -> Change {
        Change { op, field: field.into(), key: key.map(str::to_owned), value }
    }

    fn before() -> Map<String, Value> {
        let value = json!({"name": "blue", "node_count": 2, "labels": {"a": "b"}, "health_status": null, "health_status_reason": {}});
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_patch_asks_for_a_size_and_for_health_and_for_nothing_else() {
        let asked = |changes: &[Change]| read(&before(), changes);
        let size = |value: Value| asked(&[change(Op::Replace, "node_count", None, value)]).map(|a| a.node_count);
        assert_eq!(size(json!(3)).ok(), Some(Some(3)));
        assert_eq!(size(json!("3")).ok(), Some(Some(3)), "magnum-ui sends every value as text");
        assert_eq!(size(json!(2)).ok(), Some(Some(2)), "the size that is there is asked for all the same");
        assert!(size(json!(-1)).is_err_and(|e| e.to_string().contains("node_count")));
        assert_eq!(asked(&[change(Op::Remove, "node_count", None, Value::Null)]).expect("taken").node_count, Some(1));

        let health = asked(&[
            change(Op::Replace, "health_status", None, json!("UNHEALTHY")),
            change(Op::Replace, "health_status_reason", None, json!("{'api': 'ok', 'n-0.Ready': 'False'}")),
        ])
        .expect("taken");
        assert_eq!(health.node_count, None);
        let columns = health.health().expect("health");
        assert_eq!(columns.health_status, Some(Some("UNHEALTHY".into())));
        assert_eq!(columns.health_status_reason, Some(Some(r#"{"api": "ok", "n-0.Ready": "False"}"#.into())));
        assert!(asked(&[change(Op::Replace, "health_status", None, json!("FINE"))]).is_err());
        let gone = asked(&[change(Op::Remove, "health_status", None, Value::Null)]).expect("taken");
        assert_eq!(gone.health_status, Some(None));
        assert_eq!(asked(&[]).expect("taken"), Asked::default());
    }

    #[test]
    fn other_properties_may_be_replaced_by_themselves_only() {
        let one = |op, field: &str, key: Option<&str>, value| read(&before(), &[change(op, field, key, value)]).map_err(|e| e.to_string());
        assert!(one(Op::Replace, "name", None, json!("blue")).is_ok());
        assert!(one(Op::Replace, "labels", None, json!("{'a': 'b'}")).is_ok());
        for (op, field, key, value) in [
            (Op::Replace, "name", None, json!("green")),
            (Op::Remove, "name", None, Value::Null),
            (Op::Add, "labels", Some("c"), json!("d")),
        ] {
            let told = one(op, field, key, value).expect_err("refused");
            assert_eq!(told, format!("cannot change cluster property(ies) {field}."));
        }
        assert!(one(Op::Replace, "nonsense", None, json!(1)).is_err_and(|e| e.contains("nonsense")));
    }
}
