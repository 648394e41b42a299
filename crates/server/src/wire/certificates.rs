//! Where certificates are kept: the keepers that stand behind `model::certificate::keeper`.

mod barbican;
mod files;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::certificate::keeper::{Held, Keeper, Keepers};
use provider_clients::Session;

use crate::config::{CertManager, Config};

/// The keepers of the configuration; Barbican is asked as the service user, to whose project everything there belongs.
pub(super) fn keepers(config: &Config, service: &Session) -> Keepers {
    let certificates = &config.certificates;
    let new = match certificates.cert_manager_type {
        CertManager::X509Keypair => Held::Database,
        CertManager::Barbican => Held::Barbican,
        CertManager::Local => Held::Local,
    };
    if new == Held::Local {
        tracing::warn!(
            path = %certificates.storage_path.display(),
            "Certificates are kept in files ([certificates] cert_manager_type = local): all processes must share this folder"
        );
    }
    let barbican = in_barbican(service);
    let local: Arc<dyn Keeper> = Arc::new(files::Files::new(certificates.storage_path.clone()));
    Keepers { new, barbican: Some(barbican), local: Some(local) }
}

/// Key pairs in Barbican, which is asked with this session.
pub fn in_barbican(session: &Session) -> Arc<dyn Keeper> {
    Arc::new(barbican::Containers::new(session.barbican()))
}
