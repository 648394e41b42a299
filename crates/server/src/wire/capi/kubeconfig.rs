//! The kubeconfig of a management cluster, read again when it changes, or a file that it names: a token that is rotated beside it, a client
//! certificate that is renewed.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provider_clients::{Kubeconfig, Management, Watchers};
use tokio::sync::watch;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Of one call to a management cluster.
const CONNECT: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(20);

/// A client, or why there is none.
type Opened = Result<Management, Arc<str>>;

/// What all files said that were read, or why they could not be.
type Contents = Vec<(PathBuf, Result<Vec<u8>, io::ErrorKind>)>;

/// Looks at a kubeconfig as long as it is run.
pub(in crate::wire) struct Reload {
    name: String,
    path: PathBuf,
    watchers: Watchers,
    known: Contents,
    sender: watch::Sender<Opened>,
}

/// Reads files and keeps what they said.
struct Reader {
    folder: PathBuf,
    contents: RefCell<Contents>,
}

impl Reader {
    fn new(kubeconfig: &Path) -> Self {
        Self { folder: kubeconfig.parent().unwrap_or(Path::new("/")).to_owned(), contents: RefCell::default() }
    }

    fn read(&self, name: &Path) -> io::Result<Vec<u8>> {
        let path = self.folder.join(name);
        let read = std::fs::read(&path);
        self.contents.borrow_mut().push((path, read.as_ref().map(Clone::clone).map_err(io::Error::kind)));
        read
    }
}

/// What a kubeconfig and the files it names say, and all that was read for it.
fn parse(path: &Path) -> (Result<Kubeconfig, String>, Contents) {
    let reader = Reader::new(path);
    let shown = path.display();
    let parsed = reader.read(path).map_err(|error| format!("its kubeconfig {shown} cannot be read: {error}")).and_then(|text| {
        let parsed = Kubeconfig::parse(&String::from_utf8_lossy(&text), &|name| reader.read(Path::new(name)));
        parsed.map_err(|error| format!("its kubeconfig {shown} cannot be used: {}", error.0))
    });
    (parsed, reader.contents.into_inner())
}

fn open(path: &Path, parsed: Result<Kubeconfig, String>, watchers: Watchers) -> Result<Management, String> {
    let made = Management::new(&parsed?, CONNECT, TIMEOUT, watchers);
    made.map_err(|error| format!("its kubeconfig {} cannot be used: {error}", path.display()))
}

/// A client of the management cluster that a kubeconfig leads to; the error says what is wrong with it.
pub(in crate::wire) fn client(path: &Path, watchers: Watchers) -> Result<Management, String> {
    open(path, parse(path).0, watchers)
}

impl Reload {
    /// Reads the files for the first time.
    pub(super) fn begin(name: &str, path: PathBuf, watchers: Watchers) -> (Self, watch::Receiver<Opened>) {
        let (sender, opened) = watch::channel(Err(Arc::from("its kubeconfig was not read yet")));
        let mut reload = Self { name: name.to_owned(), path, watchers, known: Contents::new(), sender };
        reload.look();
        (reload, opened)
    }

    /// Runs until it is dropped.
    pub(in crate::wire) async fn run(mut self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look();
        }
    }

    /// Reads the files; who uses the management cluster from here on uses what they say now.
    fn look(&mut self) {
        let (parsed, contents) = parse(&self.path);
        // Nothing is said twice, and who works with a client keeps it.
        if contents == self.known {
            return;
        }
        self.known = contents;
        let opened = open(&self.path, parsed, self.watchers.clone());
        match &opened {
            Ok(management) => {
                tracing::info!(
                    management_cluster = self.name,
                    server = management.server(),
                    "The management cluster's kubeconfig was read"
                );
            }
            Err(reason) => tracing::error!(management_cluster = self.name, reason, "The management cluster cannot be asked"),
        }
        drop(self.sender.send_replace(opened.map_err(Arc::from)));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        fs::write(folder.join(name), text).expect("written");
    }

    fn kubeconfig(server: &str, user: &str) -> String {
        format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: {server}}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        )
    }

    #[test]
    fn a_token_in_a_file_of_its_own_is_read_again_when_that_file_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kubeconfig");
        write(folder.path(), "kubeconfig", &kubeconfig("http://h", "{tokenFile: token}"));
        let (mut reload, mut opened) = Reload::begin("blue", path.clone(), Watchers::default());
        let reason = opened.borrow_and_update().as_ref().expect_err("no token").to_string();
        assert!(reason.contains(&path.display().to_string()) && reason.contains("tokenFile: "), "{reason}");
        reload.look();
        assert!(!opened.has_changed().expect("alive"), "nothing was different");
        for token in ["hunter22", "hunter23"] {
            write(folder.path(), "token", token);
            reload.look();
            assert!(opened.has_changed().expect("alive"), "{token}");
            assert!(opened.borrow_and_update().is_ok(), "{token}");
            reload.look();
            assert!(!opened.has_changed().expect("alive"), "{token}");
        }
        write(folder.path(), "kubeconfig", &kubeconfig("http://other", "{tokenFile: token}"));
        reload.look();
        assert_eq!(opened.borrow_and_update().as_ref().expect("a client").server(), "http://other/");
        fs::remove_file(&path).expect("removed");
        reload.look();
        assert!(opened.borrow_and_update().as_ref().is_err_and(|reason| reason.contains("cannot be read")));
    }

    #[test]
    fn a_program_to_run_is_refused_with_the_names_of_file_and_field() {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), "kubeconfig", &kubeconfig("https://h", "{exec: {command: aws}}"));
        let reason = client(&folder.path().join("kubeconfig"), Watchers::default()).expect_err("exec");
        assert!(reason.contains("/kubeconfig cannot be used: exec is not supported (of the user \"u\""), "{reason}");
    }
}
