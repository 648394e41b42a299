//! The operator's authorities in the bundle by which everything in the container verifies its peers.

use std::fs;
use std::io::ErrorKind;

use super::{Doing, Places, Trouble};

/// What the image came with.
const SHIPPED: &str = "/usr/share/ca-certificates/shipped.crt";
/// Where OpenSSL, rustls and Go look.
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Where kolla-ansible puts them (`kolla_copy_ca_into_containers`).
const GIVEN: &str = "/var/lib/kolla/share/ca-certificates";

/// Makes the bundle of what the image came with and what the operator gave; without any of these nothing is done.
///
/// # Errors
/// Also when a file that was given holds no certificate.
pub(super) fn copy(places: &Places) -> Result<(), Trouble> {
    let folder = places.at(GIVEN);
    let mut names = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => {
            let entries = entries.doing(|| format!("list {GIVEN}"))?;
            entries.collect::<Result<Vec<_>, _>>().doing(|| format!("list {GIVEN}"))?
        }
    };
    names.sort_by_key(fs::DirEntry::file_name);
    let read = |path: &std::path::Path| fs::read_to_string(path).doing(|| format!("read {}", places.name_of(path).display()));
    let mut bundle = read(&places.at(SHIPPED))?;
    for file in names.iter().map(fs::DirEntry::path).filter(|path| path.is_file()) {
        let text = read(&file)?;
        if !text.contains("-----BEGIN CERTIFICATE-----") {
            return Err(Trouble::Wrong(format!("{} holds no certificate in PEM", places.name_of(&file).display())));
        }
        if !bundle.ends_with('\n') {
            bundle.push('\n');
        }
        bundle.push_str(&text);
    }
    super::install::write(places, BUNDLE, bundle.as_bytes())
}
