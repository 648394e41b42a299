//! Key pairs in files of one folder, named as upstream names them: `<reference>.crt`, `.key` and `.pass`.
//!
//! Only for a single machine or a shared folder: every process must see the same files. Nobody but the service's user can read them.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use futures::FutureExt;
use futures::future::BoxFuture;
use model::certificate::keeper::{Keeper, KeeperError};
use model::certificate::{NewKeypair, StoredKeypair};
use secrecy::ExposeSecret;

/// The certificate is written last and removed last: where it is, the pair is whole.
const CERTIFICATE: &str = "crt";
const KEY: &str = "key";
const PASSPHRASE: &str = "pass";
/// Upstream may have written one; nothing reads it.
const INTERMEDIATES: &str = "int";

/// Pairs in a folder.
#[derive(Clone)]
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The file of a part. A reference comes from the database: it must not lead anywhere else.
    fn path(&self, reference: &str, part: &str) -> Result<PathBuf, KeeperError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if reference.is_empty() || !reference.chars().all(is_plain) {
            return Err(KeeperError::NotFound(reference.to_owned()));
        }
        Ok(self.folder.join(format!("{reference}.{part}")))
    }

    fn find(&self, name: &str) -> Result<Option<String>, KeeperError> {
        let path = self.path(name, CERTIFICATE)?;
        Ok(path.try_exists().map_err(|e| failed("look at", &path, &e))?.then(|| name.to_owned()))
    }

    fn store(&self, name: &str, pair: &NewKeypair) -> Result<String, KeeperError> {
        use std::os::unix::fs::DirBuilderExt;
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.folder).map_err(|e| failed("make", &self.folder, &e))?;
        for (part, text) in [
            (PASSPHRASE, pair.passphrase.expose_secret()),
            (KEY, pair.encrypted_key.expose_secret()),
            (CERTIFICATE, pair.certificate.as_str()),
        ] {
            self.write(&self.path(name, part)?, text)?;
        }
        Ok(name.to_owned())
    }

    /// At once as a whole. A temporary file is readable by its owner only.
    fn write(&self, path: &Path, text: &str) -> Result<(), KeeperError> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).map_err(|e| failed("make a file in", &self.folder, &e))?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(|e| failed("write", path, &e))?;
        file.persist(path).map_err(|e| failed("write", path, &e.error))?;
        Ok(())
    }

    fn fetch(&self, reference: &str) -> Result<StoredKeypair, KeeperError> {
        let read = |part: &str| -> Result<Option<String>, KeeperError> {
            let path = self.path(reference, part)?;
            match std::fs::read_to_string(&path) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(failed("read", &path, &error)),
            }
        };
        let missing = || KeeperError::NotFound(reference.to_owned());
        let (certificate, key) = (read(CERTIFICATE)?.ok_or_else(missing)?, read(KEY)?.ok_or_else(missing)?);
        Ok(StoredKeypair::outside(reference, certificate, key.into(), read(PASSPHRASE)?.map(Into::into)))
    }

    fn delete(&self, reference: &str) -> Result<bool, KeeperError> {
        let mut any = false;
        for part in [PASSPHRASE, KEY, INTERMEDIATES, CERTIFICATE] {
            // A reference that is no file name is that of a row.
            let Ok(path) = self.path(reference, part) else { return Ok(false) };
            match std::fs::remove_file(&path) {
                Ok(()) => any = true,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed("remove", &path, &error)),
            }
        }
        Ok(any)
    }

    /// Files are read and written on a thread that may wait.
    fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, KeeperError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, KeeperError>> {
        let this = self.clone();
        async move {
            let done = tokio::task::spawn_blocking(move || work(&this)).await;
            done.unwrap_or_else(|e| Err(KeeperError::Unavailable { reason: format!("files of certificates: {e}"), fault: None }))
        }
        .boxed()
    }
}

impl Keeper for Files {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, KeeperError>> {
        let name = name.to_owned();
        self.on_thread(move |files| files.find(&name))
    }

    fn store<'a>(&'a self, name: &'a str, pair: &'a NewKeypair) -> BoxFuture<'a, Result<String, KeeperError>> {
        let (name, pair) = (name.to_owned(), pair.clone());
        self.on_thread(move |files| files.store(&name, &pair))
    }

    fn fetch<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<StoredKeypair, KeeperError>> {
        let reference = reference.to_owned();
        self.on_thread(move |files| files.fetch(&reference))
    }

    fn delete<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, Result<bool, KeeperError>> {
        let reference = reference.to_owned();
        self.on_thread(move |files| files.delete(&reference))
    }

    fn delete_named<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<bool, KeeperError>> {
        Keeper::delete(self, name)
    }
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> KeeperError {
    KeeperError::Unavailable { reason: format!("{what} {}: {error}", path.display()), fault: None }
}
