//! Thousands of clusters in flight within seconds: one that was asked for, copied.
//!
//! What is measured begins where a cluster waits for its stack. To ask for 20,000 of them takes longer than all measurements together, for
//! on the machine of a measurement all services share few cores. So the rows of one that waits are copied, each with an id of its own
//! and nobody who works on it, and so is its stack. To a conductor they are what a conductor that died has left.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cloud_simulator::StackCopy;
use model::cluster::stack_mark;
use mysql_async::prelude::Queryable;
use tests::database::{self, Database};
use tests::wait::{self, Seen};
use tests::world::World;

/// Tables that have rows of a cluster while it is made, and where they name it.
const TABLES: [(&str, &str); 7] = [
    ("cluster", "uuid"),
    ("nodegroup", "cluster_id"),
    ("nodegroup_nodes", "cluster_uuid"),
    ("operation", "cluster_uuid"),
    ("operation_event", "cluster_uuid"),
    ("cloud_resource", "cluster_uuid"),
    ("event_guard", "cluster_uuid"),
];

/// Columns that hold an id which a copy must have of its own.
const IDS: [&str; 6] = ["uuid", "cluster_uuid", "cluster_id", "stack_id", "operation_uuid", "nodegroup_uuid"];

/// Copies the only cluster so often; returns how many of them the conductors took up in a second.
pub async fn make(world: &World, copies: usize) -> Result<f64> {
    let stacks = world.cloud.stacks();
    let [stack] = stacks.as_slice() else { anyhow::bail!("{} stacks, and one is to be copied", stacks.len()) };
    let database = world.database()?;
    let clusters: Vec<String> = database.rows("SELECT uuid FROM cluster").await?;
    let [cluster] = clusters.as_slice() else { anyhow::bail!("{} clusters, and one is to be copied", clusters.len()) };
    // It waits, so nothing of it changes while it is copied.
    wait::until("the cluster to wait for its stack", Duration::from_secs(60), async || {
        let told: Vec<Option<String>> = database.rows("SELECT stack_id FROM cluster").await?;
        Ok(Seen::when(told == [Some(stack.id.clone())], || format!("{told:?}")))
    })
    .await?;
    let numbers = 1..=copies;
    let of = |number| {
        let id = id(cluster, number)?;
        let name = stack.name.replace(&stack_mark(cluster), &stack_mark(&id));
        ensure!(name != stack.name, "the stack's name {name} does not tell whose it is");
        Ok(StackCopy { id: self::id(&stack.id, number)?, name, parameters: vec![("cluster_uuid", id)] })
    };
    ensure!(world.cloud.copy_stack(&stack.id, numbers.map(of).collect::<Result<_>>()?), "the stack {} is gone", stack.id);
    let looks = || world.cloud.calls("heat.stack_show");
    let (begun, before) = (Instant::now(), looks());
    copy_rows(database, cluster, copies).await?;
    wait::until("the copies to be taken up", Duration::from_secs(1800), async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let left: Vec<i64> = database.rows("SELECT COUNT(*) FROM operation WHERE owner IS NULL AND finished_ms IS NULL").await?;
        // Whoever has taken one looks at its stack, and then waits.
        let looked = looks() - before;
        Ok(Seen::when(left == [0] && looked >= copies, || format!("{left:?} of {copies} are left, {looked} are looked at")))
    })
    .await?;
    Ok(copies as f64 / begun.elapsed().as_secs_f64())
}

/// The id of a copy: its number in the place of the first eight digits.
fn id(of: &str, number: usize) -> Result<String> {
    Ok(format!("{number:08x}{}", of.get(8..).context("an id")?))
}

async fn copy_rows(database: &Database, cluster: &str, copies: usize) -> Result<()> {
    let ids = IDS.map(|column| (column, copied(column)));
    let mut conn = database.open().await?;
    conn.query_drop("START TRANSACTION").await?;
    for (table, key) in TABLES {
        let mut set: Vec<(&str, &str)> = ids.iter().map(|(column, value)| (*column, value.as_str())).collect();
        let of_stack = format!("IF(original.kind = 'stack', {}, original.resource_id)", copied("resource_id"));
        match table {
            "operation" => set.extend([("owner", "NULL"), ("lease_ms", "NULL")]),
            // The trustee and the trust are those of the first.
            "cloud_resource" => set.push(("resource_id", &of_stack)),
            _ => {}
        }
        // The user whom its stacks belong to is nobody else's, nor is his key pair: his password is made of his cluster's name. Copies work through
        // the trust.
        let only = if table == "cloud_resource" { "AND original.kind NOT IN ('stack_owner', 'nova_keypair')" } else { "" };
        let rows = format!("seq_1_to_{copies} AS number WHERE original.`{key}` = '{cluster}' {only}");
        database::copy(&mut conn, table, &set, &rows).await?;
    }
    conn.query_drop("COMMIT").await?;
    // Else the database plans by what it counted when the tables were empty, until it gets round to counting again.
    conn.query_drop(format!("ANALYZE TABLE {}", TABLES.map(|(table, _)| table).join(", "))).await?;
    Ok(conn.disconnect().await?)
}

fn copied(column: &str) -> String {
    format!("CONCAT(LPAD(LOWER(HEX(number.seq)), 8, '0'), SUBSTRING(original.`{column}`, 9))")
}
