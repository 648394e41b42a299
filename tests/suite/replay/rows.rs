//! From what the API showed to the rows of upstream's tables that it was read from.

use anyhow::{Context, Result};
use mysql_async::Value as Cell;
use serde_json::{Value, json};
use tests::database::Database;
use uuid::Uuid;

use super::library::{Library, Shown};
use super::scene::{Thing, text};

/// Keys of bodies that are no columns.
const NOT_COLUMNS: [&str; 13] = [
    "links",
    "merge_labels",
    "labels_added",
    "labels_overridden",
    "labels_skipped",
    "node_count",
    "master_count",
    "node_addresses",
    "master_addresses",
    "faults",
    "cluster_id",
    "node_labels",
    "node_taints",
];

/// A row: its table, and columns with values.
pub type Row = (&'static str, Shown);

/// The rows of what is to be there.
pub fn rows(things: &[Thing], library: &Library) -> Vec<Row> {
    let mut rows = Vec::new();
    let keypair = json!(Uuid::new_v4().to_string());
    if things.iter().any(|thing| thing.kind == "cluster") {
        rows.push(certificate(&keypair, library));
    }
    for thing in things {
        match thing.kind {
            "template" => rows.push(("cluster_template", columns(&thing.body, &[]))),
            "quota" => rows.push(("quotas", columns(&thing.body, &[]))),
            "cluster" => {
                let mut row = columns(&thing.body, &[]);
                for column in ["ca_cert_ref", "magnum_cert_ref", "etcd_ca_cert_ref", "front_proxy_ca_cert_ref"] {
                    row.insert(column.to_owned(), keypair.clone());
                }
                rows.push(("cluster", row));
                for role in ["master", "worker"] {
                    rows.push(("nodegroup", default_group(&thing.body, role, library)));
                }
            }
            "nodegroup" => {
                let owner = things.iter().find(|other| other.kind == "cluster" && other.body.get("name") == thing.body.get("of"));
                if let Some(owner) = owner {
                    rows.push(("nodegroup", group(&thing.body, &owner.body)));
                }
            }
            _ => {}
        }
    }
    rows
}

fn columns(body: &Shown, also: &[&str]) -> Shown {
    let is_column = |key: &str| !NOT_COLUMNS.contains(&key) || also.contains(&key);
    body.iter().filter(|(key, _)| is_column(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// One certificate for all purposes of all clusters: that of the story, if it shows one.
fn certificate(uuid: &Value, library: &Library) -> Row {
    let shown = library.before("certificate", "any", "999").unwrap_or_default();
    let mut row = Shown::new();
    row.insert("uuid".to_owned(), uuid.clone());
    row.insert("certificate".to_owned(), json!(text(&shown, "pem")));
    row.insert("private_key".to_owned(), json!("never read"));
    ("x509keypair", row)
}

/// A default node group of a cluster: as the story shows it, or as it must have been by what the story shows of the cluster.
fn default_group(cluster: &Shown, role: &str, library: &Library) -> Shown {
    let name = format!("default-{role}");
    let shown = library.before("nodegroup", &format!("{name} of {}", text(cluster, "name")), "999");
    let (count, flavor, addresses) = match role {
        "master" => ("master_count", "master_flavor_id", "master_addresses"),
        _ => ("node_count", "flavor_id", "node_addresses"),
    };
    let of_cluster = |key: &str| cluster.get(key).cloned().unwrap_or_default();
    let mut body = json!({
        "uuid": Uuid::new_v4().to_string(), "name": name, "role": role, "is_default": true, "image_id": "fedora-coreos",
        "flavor_id": of_cluster(flavor), "node_count": of_cluster(count), "node_addresses": of_cluster(addresses),
        "min_node_count": i32::from(role == "master"), "status": of_cluster("status"),
    });
    // Of a failed cluster only the groups with a fault have failed.
    if let Some(faults) = cluster.get("faults").and_then(Value::as_object) {
        match faults.get(&name) {
            Some(fault) => body["status_reason"] = fault.clone(),
            None => body["status"] = json!("CREATE_COMPLETE"),
        }
    }
    if let (Some(body), Some(shown)) = (body.as_object_mut(), shown) {
        body.extend(shown);
    }
    group(body.as_object().unwrap_or(&Shown::new()), cluster)
}

fn group(body: &Shown, cluster: &Shown) -> Shown {
    let mut row = columns(body, &["node_count", "node_addresses"]);
    row.remove("of");
    row.insert("cluster_id".to_owned(), cluster.get("uuid").cloned().unwrap_or_default());
    for key in ["project_id", "labels", "docker_volume_size", "stack_id"] {
        row.insert(key.to_owned(), cluster.get(key).cloned().unwrap_or_default());
    }
    row
}

/// Removes everything that a case may have left, and stores these rows.
pub async fn store(database: &Database, rows: Vec<Row>) -> Result<()> {
    database.empty().await?;
    for (table, row) in rows {
        let (names, cells): (Vec<String>, Vec<Cell>) = row.iter().map(|(name, value)| (format!("`{name}`"), cell(name, value))).unzip();
        let marks = vec!["?"; names.len()].join(", ");
        let sql = format!("INSERT INTO `{table}` ({}) VALUES ({marks})", names.join(", "));
        database.execute(&sql, cells).await.with_context(|| format!("{row:?}"))?;
    }
    Ok(())
}

fn cell(name: &str, value: &Value) -> Cell {
    match value {
        Value::Null => Cell::NULL,
        Value::Bool(flag) => Cell::from(*flag),
        Value::Number(number) => Cell::from(number.as_i64()),
        // MariaDB's DATETIME has neither zone nor fraction.
        Value::String(time) if name.ends_with("_at") => Cell::from(time.get(..19).unwrap_or(time).replace('T', " ")),
        Value::String(text) => Cell::from(text.as_str()),
        Value::Array(_) | Value::Object(_) => Cell::from(value.to_string()),
    }
}
