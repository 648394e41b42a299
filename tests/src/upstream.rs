//! Upstream's own code on a database of a test: its migration tool, and the objects through which its API reads rows.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

const TOOL: &str = include_str!("../suite/upstream/tool.py");

/// One release of upstream.
pub struct Upstream {
    release: String,
    folder: PathBuf,
    conf: PathBuf,
}

impl Upstream {
    /// A release, for the database that a `magnum.conf` names.
    ///
    /// # Errors
    /// When the releases are not installed and `xtask` is not there to install them.
    pub fn new(release: &str, conf: &Path) -> Result<Self> {
        let folder = folder()?;
        ensure!(folder.join(release).is_dir(), "{} has no release {release}", folder.display());
        Ok(Self { release: release.to_owned(), folder, conf: conf.to_owned() })
    }

    /// `magnum-db-manage` with these arguments; its standard output.
    ///
    /// # Errors
    /// When it ends otherwise than well.
    pub fn manage(&self, arguments: &[&str]) -> Result<String> {
        let conf = self.conf.display().to_string();
        self.run(&[&["manage", "--config-file", &conf], arguments].concat())
    }

    /// All rows as upstream's objects read them, by the objects' names.
    ///
    /// # Errors
    /// When upstream fails on a row.
    pub fn read(&self) -> Result<Value> {
        let conf = self.conf.display().to_string();
        serde_json::from_str(&self.run(&["read", &conf])?).context("what upstream has read")
    }

    /// All options that upstream and its libraries declare: section and name.
    pub fn options(&self) -> Result<Vec<(String, String)>> {
        serde_json::from_str(&self.run(&["options"])?).context("upstream's options")
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        command.args(["-W", "ignore", "-c", TOOL]).args(arguments).env("PYTHONPATH", self.folder.join(&self.release));
        let output: Output = command.output().context("run upstream's tool")?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "upstream {} {arguments:?}: {}: {words}", self.release, output.status);
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

/// `MAGNUM_TEST_UPSTREAM`, else what `xtask upstream` installs.
fn folder() -> Result<PathBuf> {
    const VARIABLE: &str = "MAGNUM_TEST_UPSTREAM";
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let xtask =
        env::var_os("XTASK").with_context(|| format!("neither {VARIABLE} nor XTASK is set: run the tests by `cargo xtask test`"))?;
    let output = Command::new(xtask).arg("upstream").output().context("run xtask upstream")?;
    ensure!(output.status.success(), "xtask upstream: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}
