//! Where the API server of a master writes down what was asked of it.

use model::labels::options::Argument;

use crate::driver::heat::render::RenderError;

pub(crate) const OPTION: &str = "audit-log-path";
/// Unless the user says otherwise.
const FOLDER: &str = "/var/log/kubernetes/audit";
/// The user's file is there: what is mounted from elsewhere may be mounted already, or be what the node is run by.
const LOGS: &str = "/var/log";
/// The API server's own output, which kubelet keeps with that of its container.
const OUTPUT: &str = "-";

/// The file.
pub(crate) fn file() -> String {
    format!("{FOLDER}/audit.log")
}

/// The folder of the file on the master; none where there is no file, or (in a cluster that was made before this was asked) one of the container.
pub(crate) fn folder(options: &[Argument]) -> Option<&str> {
    match given(options) {
        Some(path) => in_logs(path),
        None => Some(FOLDER),
    }
}

/// Whether the file that the user says is kept.
pub(super) fn check(options: &[Argument]) -> Result<(), RenderError> {
    match given(options).filter(|path| ![OUTPUT, ""].contains(path) && in_logs(path).is_none()) {
        Some(path) => {
            let rule = format!("--{OPTION} must be {OUTPUT} or a file below {LOGS}, which alone masters keep, not {path}");
            Err(RenderError::new("kubeapi_options", rule))
        }
        None => Ok(()),
    }
}

/// kubeadm takes the greater text of an option that is given twice.
fn given(options: &[Argument]) -> Option<&str> {
    options.iter().filter(|option| option.name == OPTION).map(|option| option.value.as_str()).max()
}

fn in_logs(path: &str) -> Option<&str> {
    let (folder, file) = path.rsplit_once('/')?;
    let is_there = folder.strip_prefix(LOGS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_plain = folder.split('/').skip(1).chain([file]).all(|part| !["", ".", ".."].contains(&part));
    (is_there && is_plain).then_some(folder)
}
