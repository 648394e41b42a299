//! The rows that are measured against.

use anyhow::Result;
use mysql_async::prelude::Queryable;
use tests::client::{self, Client};
use tests::database;

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
                let (copied, project) = (format!("'{copy}'"), format!("'{project}'"));
                let name = format!("'bench-{number}'");
                let set = [("uuid", &copied[..]), ("project_id", &project[..]), ("name", &name[..])];
                database::copy(&mut conn, "cluster", &set, &format!("(SELECT 1) AS once WHERE original.uuid = '{cluster}'")).await?;
                let set = [("uuid", "UUID()"), ("cluster_id", &copied[..]), ("project_id", &project[..])];
                database::copy(&mut conn, "nodegroup", &set, &format!("(SELECT 1) AS once WHERE original.cluster_id = '{cluster}'"))
                    .await?;
            }
        }
        // Else the database plans by what it counted when the tables were empty, until it gets round to counting again.
        conn.query_drop("ANALYZE TABLE cluster, nodegroup").await?;
        conn.disconnect().await?;
        Ok((template, cluster))
    }
}
