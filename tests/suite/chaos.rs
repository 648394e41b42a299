//! The chaos run in small, and that its check can fail.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::chaos::check::Wrong;
use tests::chaos::{self, Plan, Run};

#[tokio::test]
async fn a_short_chaos_run_loses_doubles_and_leaves_nothing() -> Result<()> {
    let answer = Duration::from_secs(5);
    let plan = Plan { operations: 70, seed: 7, in_flight: 14, on_cluster_api: 3, stack: Duration::from_secs(1), answer, ..Plan::default() };
    let report = chaos::run(plan).await?;
    // How fast takeovers are is for the long run to say: a handful of them on a busy machine says nothing.
    ensure!(report.findings.is_empty(), "{}", report.text());
    ensure!(report.operations.len() >= 70 && report.troubles.iter().any(|count| count.times > 0), "{}", report.text());
    Ok(())
}

#[tokio::test]
async fn the_check_of_the_chaos_run_finds_what_is_lost_doubled_stuck_and_left_behind() -> Result<()> {
    let stack = Duration::from_millis(300);
    let plan =
        Plan { operations: 12, in_flight: 4, on_cluster_api: 1, stack, with_trouble: false, shows_findings: false, ..Plan::default() };
    let mut run = Run::begin(plan).await?;
    run.trouble().await?;
    run.calm().await?;
    ensure!(run.check(false).await?.is_empty(), "nothing has been tampered with");

    let forgotten = run.forget_a_notification().context("nothing was told")?;
    let found = run.check(false).await?;
    ensure!(found.len() == 1 && found[0].wrong == Wrong::Lost && found[0].what.ends_with("0 times"), "{forgotten}: {found:#?}");

    // An accepted operation is not there any more; another is there twice; a third has not ended; the inventory has forgotten a stack.
    let database = run.world.database()?;
    let ids: Vec<String> = database.rows("SELECT uuid FROM operation ORDER BY id LIMIT 3").await?;
    let tamper = [
        format!("DELETE FROM operation WHERE uuid = '{}'", ids[0]),
        format!(
            "INSERT INTO operation (uuid, kind, cluster_uuid, project_id, user_id, request_id, state, step, attempt, generation, due_ms, \
             deadline_ms, progress_done, progress_total, payload, created_ms, updated_ms, finished_ms) SELECT CONCAT('x', SUBSTR(uuid, 2)), \
             kind, cluster_uuid, project_id, user_id, request_id, state, step, attempt, generation, due_ms, deadline_ms, progress_done, \
             progress_total, payload, created_ms, updated_ms, finished_ms FROM operation WHERE uuid = '{}'",
            ids[1]
        ),
        format!("UPDATE operation SET finished_ms = NULL WHERE uuid = '{}'", ids[2]),
        "DELETE FROM cloud_resource WHERE kind = 'heat_stack' LIMIT 1".to_owned(),
    ];
    for sql in tamper {
        database.execute(&sql, Vec::new()).await?;
    }
    let found = run.check(false).await?;
    for wrong in [Wrong::Lost, Wrong::Doubled, Wrong::Stuck, Wrong::Orphan] {
        ensure!(found.iter().any(|finding| finding.wrong == wrong), "{wrong:?} was not found: {found:#?}");
    }
    let report = run.end().await?;
    ensure!(!report.is_good() && report.text().contains("| lost | 2 |"), "{}", report.text());
    Ok(())
}
