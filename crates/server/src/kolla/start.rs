//! `kolla_start`: from the container's first process to the service.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::install::COMMAND;
use super::{Doing, Places, Trouble, variable};

const LOGS: &str = "/var/log/kolla/magnum";
/// The programs that need root's rights, where the image has them.
const PRIVILEGED: [&str; 2] = ["/usr/local/bin/kolla_set_configs", "/usr/local/bin/kolla_copy_cacerts"];
/// In the image of the API only, which is the one that bootstraps.
const DATABASE_TOOL: &str = "/usr/local/bin/magnum-db-manage";

/// Settles the configuration and becomes the service; returns only with an error, or after a bootstrap.
pub(super) fn start(places: &Places) -> Result<(), Trouble> {
    for program in PRIVILEGED {
        must(Command::new(program), program)?;
    }
    let text = fs::read_to_string(places.at(COMMAND)).doing(|| format!("read {COMMAND}"))?;
    if variable("KOLLA_SKIP_EXTEND_START").is_none() {
        logs(places)?;
        // Set but empty counts too: kolla-ansible sets it so.
        if std::env::var_os("KOLLA_BOOTSTRAP").is_some() && places.at(DATABASE_TOOL).exists() {
            let mut upgrade = Command::new(DATABASE_TOOL);
            upgrade.arg("upgrade");
            return must(upgrade, "magnum-db-manage upgrade");
        }
    }
    let mut words = text.split_whitespace();
    let program = words.next().ok_or_else(|| Trouble::Wrong(format!("{COMMAND} is empty")))?;
    println!("Running command: {}", text.trim());
    let error = Command::new(program).args(words).exec();
    Err(Trouble::Failed { what: format!("start {program}"), error })
}

/// The folder of the logs, which others may read.
fn logs(places: &Places) -> Result<(), Trouble> {
    let folder = places.at(LOGS);
    if !folder.is_dir() {
        return fs::DirBuilder::new().recursive(true).mode(0o755).create(&folder).doing(|| format!("make {LOGS}"));
    }
    let mode = fs::metadata(&folder).doing(|| format!("look at {LOGS}"))?.permissions().mode();
    // One that others opened further, with a group of its own, stays as it is.
    if mode & 0o755 == 0o755 {
        return Ok(());
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).doing(|| format!("open {LOGS}"))
}

fn must(mut command: Command, name: &str) -> Result<(), Trouble> {
    let status = command.status().doing(|| format!("start {name}"))?;
    if status.success() { Ok(()) } else { Err(Trouble::Wrong(format!("{name} failed: {status}"))) }
}
