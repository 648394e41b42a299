//! The keeper: a second process that stops what a run started once that run has ended, however it ended (Ctrl-C, kill -9).
//!
//! It holds the reading end of a pipe whose writing end only the run holds; the end of the pipe is the end of the run. It is
//! in a process group of its own, so Ctrl-C in the terminal does not reach it.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{lab, paths, process, servers};

/// Stopping all, and removing what servers and machines of a run have written: a dozen machines leave some gigabytes, for which a slow disk takes
/// minutes.
const LONGEST: Duration = Duration::from_secs(900);

#[derive(Args)]
pub struct Options {
    /// Servers to stop; the folder is removed
    #[arg(long)]
    dir: PathBuf,
    /// Also take the lab down
    #[arg(long)]
    lab: bool,
}

/// The running keeper, seen from the run.
pub struct Keeper {
    child: Child,
}

impl Keeper {
    /// Starts a keeper for the servers in `dir`, and for the lab when this run brings it up.
    pub fn start(dir: &Path, lab: bool) -> Result<Self> {
        let mut command = Command::new(paths::this_program());
        command.arg("keep").arg("--dir").arg(dir).stdin(Stdio::piped()).process_group(0);
        if lab {
            command.arg("--lab");
        }
        Ok(Self { child: command.spawn().context("start the keeper")? })
    }

    /// Ends the run: returns once all is stopped.
    pub fn finish(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        if !process::wait(&mut self.child, "the keeper", LONGEST)?.success() {
            bail!("not everything could be stopped");
        }
        Ok(())
    }
}

/// The keeper itself.
pub fn run(options: &Options) -> Result<u8> {
    std::io::stdin().read_to_end(&mut Vec::new()).context("wait for the run to end")?;
    let lab = if options.lab { lab::down(false) } else { Ok(()) };
    servers::down(&options.dir)?;
    paths::remove(&options.dir)?;
    lab.map(|()| 0)
}
