//! What must hold at the end of every test.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use model::id::{ClusterId, OperationId};
use model::operation::OperationState;
use model::store::{Conn, operation};

use super::World;
use crate::client::text;
use crate::process::Process;
use crate::wait::{self, PATIENCE, Seen};
use crate::{agreement, told};

/// Rows that live only as long as a cluster.
const OF_CLUSTERS: [&str; 6] = ["cluster", "nodegroup", "nodegroup_nodes", "ca_rotation", "x509keypair", "cloud_resource"];

impl World {
    /// Deletes what clusters are left, and checks that everything ends and nothing stays behind: no unfinished operation, no
    /// stuck status, no orphan in the cloud, no row of a cluster, no process that died, no secret where it may not be.
    pub async fn finish(mut self) -> Result<()> {
        self.keep_secrets_of_stacks();
        self.keep_secrets_of_rows().await?;
        self.keep_secrets_of_barbican();
        // Once while the clusters are there, and at the end once more: a secret may also come into the rows as they go.
        self.no_secret_in_what_is_kept().await?;
        self.delete_clusters().await?;
        let left = wait::until("all operations to end", PATIENCE, async || {
            let count = self.unfinished().await?;
            Ok(Seen::when(count == 0, || format!("{count} unfinished")))
        });
        left.await?;
        let leftovers = self.cloud.leftovers(None);
        ensure!(leftovers.is_empty(), "left in the cloud: {leftovers:#?}");
        if let Some(database) = &self.database {
            let has_secrets = "finished_ms IS NOT NULL AND (sealed_token IS NOT NULL OR payload LIKE '%\"sealed\\_%')";
            let kept: Vec<String> = database.rows(&format!("SELECT uuid FROM operation WHERE {has_secrets}")).await?;
            ensure!(kept.is_empty(), "operations that have ended and have secrets still: {kept:?}");
            let counts = database.counts().await?;
            for table in OF_CLUSTERS {
                ensure!(counts.get(table) == Some(&0), "rows left in {table}: {counts:?}");
            }
        }
        self.end().await
    }

    /// The end of a world without clusters whose API a test stops or has stopped: everything is stopped, no secret may be where it may not be.
    /// Returns what was logged.
    pub async fn close(mut self) -> Result<String> {
        self.end().await?;
        Ok(self.processes.iter().map(Process::log).collect())
    }

    /// Everything is stopped, no secret may be where it may not be, and the database goes.
    async fn end(&mut self) -> Result<()> {
        self.hear_metrics().await;
        self.nobody_died()?;
        self.stop()?;
        self.no_secret_in_what_was_told()?;
        self.no_secret_in_what_is_kept().await?;
        if let Some(database) = &self.database {
            database.drop().await?;
        }
        self.is_finished = true;
        Ok(())
    }

    /// Waits until rows, inventory and simulated cloud say the same of a cluster, of the one that there is or of one that is gone.
    pub async fn agrees(&self, cluster: &str, patience: Duration) -> Result<()> {
        let ids = self.operations_of(cluster).await?;
        // What came late may have something to remove still.
        wait::until("rows, inventory and cloud to agree", patience, async || {
            let found = agreement::look(self.store()?, &self.cloud, &[ClusterId::new(cluster)], &ids).await?.findings;
            Ok(Seen::when(found.is_empty(), || format!("{found:#?}")))
        })
        .await
    }

    /// Checks what the outbox would tell others of a cluster's operations, where nobody hears it ([`crate::notifications::unheard`]).
    pub async fn tells_what_was_done(&self, cluster: &str) -> Result<()> {
        let (store, ids) = (self.store()?, self.operations_of(cluster).await?);
        let odd = told::odd(&told::waiting(store).await?, &agreement::rows(store, &ids).await?);
        ensure!(odd.is_empty(), "{odd:#?}");
        Ok(())
    }

    async fn operations_of(&self, cluster: &str) -> Result<Vec<OperationId>> {
        let ids: Vec<String> = self.database()?.rows(&format!("SELECT uuid FROM operation WHERE cluster_uuid = '{cluster}'")).await?;
        Ok(ids.into_iter().map(OperationId::new).collect())
    }

    /// Operations that have not ended.
    pub async fn unfinished(&self) -> Result<i64> {
        let states = [OperationState::Queued, OperationState::Running];
        let ids = self.store()?.read(async |conn: &mut Conn| operation::due(conn, &states, i64::MAX, 1000).await).await?;
        Ok(i64::try_from(ids.len())?)
    }

    async fn delete_clusters(&self) -> Result<()> {
        let admin = self.user("admin", "admin");
        let body = admin.get("/v1/clusters/detail").await?.expect(200)?.body;
        let clusters = body["clusters"].as_array().context("a list")?;
        for cluster in clusters {
            let status = text(cluster, "status");
            ensure!(!status.ends_with("_IN_PROGRESS"), "left at the end of the test: {cluster}");
        }
        for cluster in clusters {
            let owner = ["demo", "demo2"].into_iter().find(|name| cluster["project_id"] == self.cloud.project_id(name));
            let owner = owner.with_context(|| format!("a cluster of no known project: {cluster}"))?;
            let client = self.user(owner, owner);
            let uuid = text(cluster, "uuid");
            client.delete_cluster(&uuid).await?;
            client.wait_gone(&uuid, PATIENCE).await?;
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if process.ended().is_none() {
                let status = process.terminate(Duration::from_secs(20))?;
                ensure!(status.success(), "{} ended with {status} when asked to stop", process.name());
            }
        }
        Ok(())
    }
}
