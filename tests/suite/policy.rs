//! Policy files that change while the product runs. What the rules themselves say is asked in `isolation.rs`.

use anyhow::Result;
use rstest::rstest;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

#[rstest]
#[tokio::test]
async fn changed_policy_files_are_in_force_without_restart_and_bad_ones_are_not() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { conductors: 1, ..Options::default() }).await?;
    let reader = world.user("reader", "demo");
    let is_refused = async |wanted: bool| {
        wait::until("the policy to be in force in both processes", PATIENCE, async || {
            let answers = [reader.get("/v1/clusters").await?, reader.get("/v1/clusters").await?];
            let refused = answers.iter().filter(|answer| answer.status == 403).count();
            Ok(Seen::when(refused == if wanted { 2 } else { 0 }, || format!("{refused} of 2 refuse")))
        })
        .await
    };
    is_refused(false).await?;
    world.put("policy.yaml", "\"cluster:get_all\": \"role:member\"\n")?;
    is_refused(true).await?;
    reader.get("/v1/clusters").await?.expect_error(403, "Policy doesn't allow cluster:get_all to be performed")?;
    world.put("policy.d/10-open.yaml", "\"cluster:get_all\": \"rule:everybody\"\n\"everybody\": \"@\"\n")?;
    is_refused(false).await?;
    // A file that cannot be read changes nothing; that it was looked at is in the log.
    world.put("policy.d/20-bad.yaml", "\"cluster:get_all\": \"role:member and\"\n")?;
    wait::until("both processes to have refused the file", PATIENCE, async || {
        let complaints = world.logs("api").iter().filter(|log| log.contains("20-bad.yaml: rule cluster:get_all")).count();
        Ok(Seen::when(complaints == 2, || format!("{complaints} of 2")))
    })
    .await?;
    is_refused(false).await?;
    world.put("policy.d/20-bad.yaml", "\"cluster:get_all\": \"!\"\n")?;
    is_refused(true).await?;
    world.finish().await
}
