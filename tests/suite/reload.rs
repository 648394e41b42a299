//! SIGHUP: what is read again while a process goes on.

use std::fs;

use anyhow::{Result, ensure};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

#[tokio::test]
async fn a_hang_up_opens_the_log_again_and_changes_its_level() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (log, old) = (folder.path().join("magnum-api.log"), folder.path().join("magnum-api.log.1"));
    let own = format!("[DEFAULT]\nlog_dir = {}\n", folder.path().display());
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 0, api: own, ..Options::default() }).await?;
    let api = world.pids("api")[0];
    let debug = "request answered method=GET";
    let says = async |what: &str, words: &str| {
        wait::until(what, PATIENCE, async || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            Ok(Seen::when(text.contains(words), || text))
        })
        .await
    };
    world.demo().get("/v1/clusters").await?.expect(200)?;
    fs::rename(&log, &old)?;
    world.hang_up(api)?;
    says("the log to be opened again", "SIGHUP: the log file is opened again, debug = false").await?;
    ensure!(!fs::read_to_string(&old)?.contains(debug), "the log was at the level DEBUG from the start");

    let shared = world.configuration()?;
    world.put("magnum.conf", &format!("{shared}[DEFAULT]\ndebug = true\n"))?;
    world.hang_up(api)?;
    says("the level to change", "debug = true").await?;
    world.demo().get("/v1/clusters").await?.expect(200)?;
    says("a line of the level DEBUG", debug).await?;

    world.put("magnum.conf", "[DEFAULT]\ndebug = perhaps\n")?;
    world.hang_up(api)?;
    says("the refusal", "SIGHUP: the level of the log is as it was").await?;
    world.demo().get("/v1/clusters").await?.expect(200)?;
    world.put("magnum.conf", &shared)?;
    world.close().await.map(drop)
}
