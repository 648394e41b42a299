//! Rows that upstream fails on, or could do nothing with: shown to the operator, never fatal.
//!
//! What makes upstream fail is observed, not guessed: each rule stands for a row that its 20.0.2 was given. No value of a row is repeated but
//! words of an enumeration: labels may hold secrets.

use std::collections::BTreeMap;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde_json::Value;

use crate::certificate::keeper::is_url;
use crate::cluster::Cluster;
use crate::cluster::status::Status;
use crate::driver::DriverName;
use crate::nodegroup::Nodegroup;
use crate::operation::OperationState;
use crate::quota::Resource;
use crate::schema::{cluster, cluster_template, federation, nodegroup, operation, quotas, x509keypair};
use crate::store::Store;
use crate::store::connection::{Conn, on_conn};
use crate::store::error::StoreError;
use crate::store::named::{has_uuid, lacks_uuid};

/// Rows in a query.
const PAGE: i64 = 500;

/// Findings that are kept; the others are counted.
const MOST: usize = 1000;

/// The words of `health_status`.
const HEALTH: [&str; 3] = ["HEALTHY", "UNHEALTHY", "UNKNOWN"];

/// Something about a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub table: &'static str,
    /// The row's uuid, or whose it is.
    pub row: String,
    pub column: &'static str,
    /// What is wrong and what upstream does about it.
    pub problem: String,
}

/// What the rows are.
#[derive(Debug, Default)]
pub struct Audit {
    pub clusters: usize,
    pub nodegroups: usize,
    pub templates: usize,
    /// Clusters that their status says are being changed, while no operation of ours is unfinished: upstream's work, or what it left.
    pub in_progress: Vec<String>,
    /// Operations that have not ended.
    pub in_flight: i64,
    /// Clusters whose certificates are in Barbican, and those whose are not, as far as the forms of their references tell.
    pub in_barbican: usize,
    pub beside_barbican: usize,
    pub findings: Vec<Finding>,
    /// How many more there are than `findings` holds.
    pub more: usize,
}

impl Audit {
    fn add(&mut self, table: &'static str, row: &str, column: &'static str, problem: impl Into<String>) {
        if self.findings.len() == MOST {
            self.more += 1;
            return;
        }
        self.findings.push(Finding { table, row: row.to_owned(), column, problem: problem.into() });
    }
}

/// What a template says of the driver.
#[derive(Clone, Debug, Queryable)]
struct Template {
    id: i32,
    uuid: String,
    server_type: Option<String>,
    cluster_distro: Option<String>,
    coe: Option<String>,
    labels: Option<String>,
    driver: Option<String>,
}

/// Reads all rows of a database that has upstream's tables, a page at a time. `has_driver`: whether templates can name one.
pub async fn audit(store: &Store, has_driver: bool) -> Result<Audit, StoreError> {
    let mut audit = Audit::default();
    let mut templates = BTreeMap::new();
    let mut last = 0;
    loop {
        let page = store.read(async |conn: &mut Conn| template_page(conn, last, has_driver).await).await?;
        let Some(end) = page.last() else { break };
        last = end.id;
        for template in page {
            about_template(&mut audit, &template);
            templates.insert(template.uuid.clone(), template);
        }
    }
    let mut last = 0;
    loop {
        let (page, groups, busy) = store.read(async |conn: &mut Conn| cluster_page(conn, last).await).await?;
        let Some(end) = page.last() else { break };
        last = end.id;
        for row in page {
            let own: Vec<&Nodegroup> = groups.iter().filter(|group| group.cluster_id == row.uuid).collect();
            if row.status().is_some_and(Status::is_in_progress) && !busy.contains(&row.uuid) {
                audit.in_progress.push(row.uuid.clone());
            }
            about_cluster(&mut audit, &row, &own, templates.get(row.cluster_template_id.as_deref().unwrap_or_default()));
        }
    }
    about_nameless(&mut audit, store).await?;
    about_quotas(&mut audit, store).await?;
    audit.in_flight = store.read(async |conn: &mut Conn| count_unfinished(conn).await).await?;
    Ok(audit)
}

async fn template_page(conn: &mut Conn, last: i32, has_driver: bool) -> Result<Vec<Template>, StoreError> {
    use cluster_template as t;
    Ok(on_conn!(conn, |c| {
        let page = t::table.filter(t::id.gt(last).and(has_uuid!(t))).order(t::id.asc()).limit(PAGE);
        if has_driver {
            page.select((t::id, t::uuid, t::server_type, t::cluster_distro, t::coe, t::labels, t::driver)).load(&mut **c).await
        } else {
            let nothing = diesel::dsl::sql::<diesel::sql_types::Nullable<diesel::sql_types::Text>>("NULL");
            page.select((t::id, t::uuid, t::server_type, t::cluster_distro, t::coe, t::labels, nothing)).load(&mut **c).await
        }
    })?)
}

type ClusterPage = (Vec<Cluster>, Vec<Nodegroup>, Vec<String>);

async fn cluster_page(conn: &mut Conn, last: i32) -> Result<ClusterPage, StoreError> {
    let page: Vec<Cluster> = on_conn!(conn, |c| {
        let page = cluster::table.filter(cluster::id.gt(last).and(has_uuid!(cluster))).order(cluster::id.asc()).limit(PAGE);
        page.select(Cluster::as_select()).load(&mut **c).await
    })?;
    let ids: Vec<&str> = page.iter().map(|row| row.uuid.as_str()).collect();
    let groups = on_conn!(conn, |c| {
        let of_page = nodegroup::table.filter(nodegroup::cluster_id.eq_any(&ids)).order(nodegroup::id.asc());
        of_page.select(Nodegroup::as_select()).load(&mut **c).await
    })?;
    let busy = if has_operations(conn).await? {
        on_conn!(conn, |c| {
            let of_page = operation::table.filter(operation::cluster_uuid.eq_any(&ids));
            of_page.filter(operation::state.eq_any(OperationState::UNFINISHED)).select(operation::cluster_uuid).load(&mut **c).await
        })?
    } else {
        Vec::new()
    };
    Ok((page, groups, busy))
}

/// Whether our own tables are there: an upstream database may be looked at before it is adopted.
async fn has_operations(conn: &mut Conn) -> Result<bool, StoreError> {
    Ok(crate::store::dialect::count_tables(conn, &["operation"]).await? == 1)
}

/// Operations that have not ended, also of a database that has no table of ours.
pub(super) async fn count_unfinished(conn: &mut Conn) -> Result<i64, StoreError> {
    if !has_operations(conn).await? {
        return Ok(0);
    }
    Ok(on_conn!(conn, |c| {
        operation::table.filter(operation::state.eq_any(OperationState::UNFINISHED)).count().get_result(&mut **c).await
    })?)
}

/// What is told of a row without a uuid.
fn nameless(table: &str) -> String {
    let told = "is missing: no request can name the row, and this program shows it nowhere and does nothing with it";
    match table {
        "cluster" => {
            let counts =
                "it counts in the quota of clusters of its project all the same, until somebody deletes it from the table by this number";
            format!("{told}; {counts}")
        }
        _ => told.to_owned(),
    }
}

/// Rows without a uuid. They are in none of the counts: nothing can refer to them.
async fn about_nameless(audit: &mut Audit, store: &Store) -> Result<(), StoreError> {
    macro_rules! look {
        ($($table:ident),+) => {$(
            let ids: Vec<i32> = store
                .read(async |conn: &mut Conn| {
                    Ok(on_conn!(conn, |c| {
                        let nameless = $table::table.filter(lacks_uuid!($table));
                        nameless.select($table::id).order($table::id.asc()).limit(MOST as i64).load(&mut **c).await
                    })?)
                })
                .await?;
            for id in ids {
                audit.add(stringify!($table), &format!("number {id}"), "uuid", nameless(stringify!($table)));
            }
        )+};
    }
    look!(cluster, cluster_template, x509keypair, federation);
    Ok(())
}

async fn about_quotas(audit: &mut Audit, store: &Store) -> Result<(), StoreError> {
    let odd: Vec<(Option<String>, Option<String>)> = store
        .read(async |conn: &mut Conn| {
            Ok(on_conn!(conn, |c| {
                let known = Resource::ALL.map(Resource::as_str);
                let odd = quotas::table.filter(quotas::resource.is_null().or(quotas::resource.ne_all(known)));
                odd.select((quotas::project_id, quotas::resource)).limit(MOST as i64).load(&mut **c).await
            })?)
        })
        .await?;
    for (project, resource) in odd {
        let row = format!("project {}", project.as_deref().unwrap_or("none"));
        audit.add("quotas", &row, "resource", format!("{:?} is no resource that has quotas", resource.as_deref().unwrap_or("NULL")));
    }
    Ok(())
}

fn about_template(audit: &mut Audit, template: &Template) {
    const TABLE: &str = "cluster_template";
    audit.templates += 1;
    match template.coe.as_deref() {
        Some("kubernetes") => {}
        Some(coe) => {
            audit.add(
                TABLE,
                &template.uuid,
                "coe",
                format!("{coe:?} is of old releases: upstream cannot read it, and fails whole lists of templates"),
            );
        }
        None => audit.add(TABLE, &template.uuid, "coe", "is NULL: no driver serves it"),
    }
    if let Some(problem) = object(template.labels.as_deref()) {
        audit.add(TABLE, &template.uuid, "labels", problem);
    }
    if let Some(driver) = template.driver.as_deref().filter(|name| DriverName::parse(name).is_none()) {
        audit.add(
            TABLE,
            &template.uuid,
            "driver",
            format!("{driver:?} is a driver that this program has not: its clusters can be shown, not changed"),
        );
    }
    let (server_type, distro) =
        (template.server_type.as_deref().unwrap_or_default(), template.cluster_distro.as_deref().unwrap_or_default());
    let is_served = DriverName::of_nameless(server_type, distro, template.coe.as_deref().unwrap_or_default()).is_some();
    if template.driver.is_none() && template.coe.as_deref() == Some("kubernetes") && !is_served {
        audit.add(
            TABLE,
            &template.uuid,
            "cluster_distro",
            format!("no driver serves ({server_type:?}, {distro:?}, \"kubernetes\"), and the template names none"),
        );
    }
}

fn about_cluster(audit: &mut Audit, row: &Cluster, groups: &[&Nodegroup], template: Option<&Template>) {
    const TABLE: &str = "cluster";
    audit.clusters += 1;
    if let Some(word) = row.status.as_deref().filter(|_| row.status().is_none()) {
        audit.add(TABLE, &row.uuid, "status", format!("{word:?} is no status: upstream cannot read it, and stops following all clusters"));
    }
    if let Some(word) = row.health_status.as_deref().filter(|word| !HEALTH.contains(word)) {
        audit.add(TABLE, &row.uuid, "health_status", format!("{word:?} is no health: upstream cannot read it"));
    }
    let labels = match row.labels.as_deref() {
        None => Some("is NULL: upstream fails when it changes the cluster or looks at its health".to_owned()),
        labels => object(labels),
    };
    if let Some(problem) = labels {
        audit.add(TABLE, &row.uuid, "labels", problem);
    }
    if let Some(problem) = object(row.health_status_reason.as_deref()) {
        audit.add(TABLE, &row.uuid, "health_status_reason", problem);
    }
    if template.is_none() {
        audit.add(TABLE, &row.uuid, "cluster_template_id", "there is no such template: nobody knows the cluster's driver");
    }
    if row.stack_id.is_none() && row.status().is_some_and(Status::is_in_progress) {
        audit.add(TABLE, &row.uuid, "stack_id", "is NULL while the cluster is in progress: upstream skips it for ever");
    }
    match row.ca_cert_ref.as_deref() {
        Some(reference) if is_url(reference) => audit.in_barbican += 1,
        Some(_) => audit.beside_barbican += 1,
        None => {}
    }
    for (role, is_there) in [
        ("master", groups.iter().any(|g| g.is_default() && g.is_master())),
        ("worker", groups.iter().any(|g| g.is_default() && !g.is_master())),
    ] {
        if !is_there {
            audit.add(TABLE, &row.uuid, "uuid", format!("the cluster has no default {role} group: upstream fails when it looks for it"));
        }
    }
    for group in groups {
        about_group(audit, group);
    }
}

fn about_group(audit: &mut Audit, group: &Nodegroup) {
    const TABLE: &str = "nodegroup";
    audit.nodegroups += 1;
    if let Some(word) = group.status.as_deref().filter(|_| group.status().is_none()) {
        audit.add(TABLE, &group.uuid, "status", format!("{word:?} is no status: upstream cannot read it"));
    }
    if group.role.is_none() {
        audit.add(TABLE, &group.uuid, "role", "is NULL: upstream cannot read it");
    }
    if let Some(problem) = object(group.labels.as_deref()) {
        audit.add(TABLE, &group.uuid, "labels", problem);
    }
    let addresses = match group.node_addresses.as_deref() {
        None => Some("is NULL: upstream fails to show or list the cluster"),
        Some(text) => match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(_)) => None,
            _ => Some("is no JSON list: upstream cannot read it"),
        },
    };
    if let Some(problem) = addresses {
        audit.add(TABLE, &group.uuid, "node_addresses", problem);
    }
}

/// What is wrong with a column that holds an object of plain values; NULL is not.
fn object(column: Option<&str>) -> Option<String> {
    match serde_json::from_str::<Value>(column?) {
        Ok(Value::Object(map)) => {
            let (key, value) = map.iter().find(|(_, value)| !matches!(value, Value::String(_) | Value::Bool(_) | Value::Number(_)))?;
            let is = if value.is_null() { "null" } else { "no plain value" };
            Some(format!("the value of {key:?} is {is}: upstream cannot read it"))
        }
        Ok(_) => Some("is no JSON object: upstream cannot read it".to_owned()),
        Err(_) => Some("is no JSON: upstream cannot read it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_judged_as_upstream_reads_them() {
        for (text, wanted) in [
            (None, None),
            (Some("{}"), None),
            (Some(r#"{"a": "b", "c": 5, "d": true}"#), None),
            (Some(""), Some("is no JSON")),
            (Some("[]"), Some("is no JSON object")),
            (Some(r#"{"a": null}"#), Some("\"a\" is null")),
            (Some(r#"{"a": {"secret": 1}}"#), Some("\"a\" is no plain value")),
        ] {
            let problem = object(text);
            match wanted {
                None => assert_eq!(problem, None, "{text:?}"),
                Some(words) => {
                    assert!(problem.as_deref().is_some_and(|p| p.contains(words) && !p.contains("secret")), "{text:?}: {problem:?}")
                }
            }
        }
    }

    #[test]
    fn findings_are_bounded_and_the_others_counted() {
        let mut audit = Audit::default();
        for _ in 0..MOST + 3 {
            audit.add("cluster", "x", "status", "y");
        }
        assert_eq!((audit.findings.len(), audit.more), (MOST, 3));
    }
}
