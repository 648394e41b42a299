//! The rows that are measured against.

use anyhow::{Context, Result};
use mysql_async::prelude::Queryable;
use tests::client::{self, Client};

use crate::{Bench, FEW, MANY};

impl Bench {
    /// One cluster through the API, then copies of its rows: 20 in one project, 1000 in another.
    pub async fn fill(&self) -> Result<(String, String)> {
        let user = Client::new(client::http()?, &[format!("http://{}", self.address)], Some(&self.few_token));
        let template = user.create_template("bench").await?;
        let cluster = user.create_cluster("bench", &template).await?;
        let mut conn = self.database.open().await?;
        conn.query_drop(
            "UPDATE cluster SET status = 'CREATE_COMPLETE', api_address = 'https://172.24.4.17:6443', \
             stack_id = '0b7f6d2e-6c2d-4a51-9f6c-1f1d6e0a4c11'",
        )
        .await?;
        conn.query_drop("UPDATE nodegroup SET status = 'CREATE_COMPLETE', node_addresses = '[\"10.0.0.4\", \"10.0.0.5\"]'").await?;
        for (project, count) in [(&self.few_project, FEW - 1), (&self.many_project, MANY)] {
            for number in 0..count {
                let copy = uuid::Uuid::new_v4().to_string();
                let name = format!("bench-{number}");
                self.copy(&mut conn, "cluster", "uuid", &cluster, &[("uuid", &copy), ("project_id", project), ("name", &name)]).await?;
                let set = [("uuid", "UUID()"), ("cluster_id", &copy), ("project_id", project)];
                self.copy(&mut conn, "nodegroup", "cluster_id", &cluster, &set).await?;
            }
        }
        // Else the database plans by what it counted when the tables were empty, until it gets round to counting again.
        conn.query_drop("ANALYZE TABLE cluster, nodegroup").await?;
        conn.disconnect().await?;
        Ok((template, cluster))
    }

    /// Copies rows with some columns set otherwise.
    async fn copy(&self, conn: &mut mysql_async::Conn, table: &str, key: &str, value: &str, set: &[(&str, &str)]) -> Result<()> {
        let columns: Vec<String> =
            conn.query_map(format!("SHOW COLUMNS FROM {table}"), |row: mysql_async::Row| row.get(0).unwrap_or_default()).await?;
        let columns: Vec<&String> = columns.iter().filter(|column| *column != "id").collect();
        let quoted: Vec<String> = columns.iter().map(|column| format!("`{column}`")).collect();
        let values: Vec<String> = columns
            .iter()
            .map(|column| match set.iter().find(|(name, _)| name == column) {
                Some((_, "UUID()")) => "UUID()".to_owned(),
                Some((_, value)) => format!("'{value}'"),
                None => format!("`{column}`"),
            })
            .collect();
        let sql = format!("INSERT INTO {table} ({}) SELECT {} FROM {table} WHERE {key} = '{value}'", quoted.join(", "), values.join(", "));
        conn.query_drop(sql).await.with_context(|| format!("copy a row of {table}"))
    }
}
