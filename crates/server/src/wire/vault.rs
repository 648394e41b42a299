//! The keys of secrets at rest, out of the file that the configuration names.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use model::seal::vault::Vault;
use secrecy::SecretString;

use crate::config::Config;

const OPTION: &str = "[certificates] seal_key_file";

/// Others of the machine (`chmod o=`): whoever can read the keys and the database has the secrets.
const OTHERS: u32 = 0o007;

/// What seals and opens the secrets in the rows.
pub(super) fn vault(config: &Config) -> anyhow::Result<Vault> {
    let certificates = &config.certificates;
    let Some(path) = &certificates.seal_key_file else {
        ensure!(
            !certificates.seal_secrets,
            "[certificates] seal_secrets is true, and seal_key_file is not set: name the file of keys there"
        );
        return Ok(Vault::default());
    };
    let vault = Vault::parse(&keys(path)?, certificates.seal_secrets).with_context(|| format!("{OPTION}: {}", path.display()))?;
    Ok(vault)
}

fn keys(path: &Path) -> anyhow::Result<SecretString> {
    let metadata = std::fs::metadata(path).with_context(|| format!("{OPTION}: look at {}", path.display()))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        bail!("{OPTION}: {} may be used by everybody on this machine (mode {mode:03o}): chmod o= it", path.display());
    }
    let bytes = super::read(path, OPTION)?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{OPTION}: {} is no text", path.display()))?;
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_keys_is_nobody_elses() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let absent = format!("{:#}", keys(&path).expect_err("absent"));
        assert!(absent.contains(OPTION) && absent.contains("No such file"), "{absent}");
        std::fs::write(&path, "a-key-of-its-own").expect("written");
        for (mode, is_taken) in [(0o600, true), (0o640, true), (0o644, false), (0o602, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            match keys(&path) {
                Ok(_) => assert!(is_taken, "{mode:o}"),
                Err(error) => {
                    let text = format!("{error:#}");
                    assert!(!is_taken && text.contains(OPTION) && !text.contains("a-key-of-its-own"), "{mode:o}: {text}");
                }
            }
        }
    }
}
