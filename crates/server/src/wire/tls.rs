//! Certificate and key of the API, read again when their files change: a renewed certificate needs no restart.
//!
//! The files are looked at when a client connects, at most every few seconds. What cannot be used is logged and the old pair stays.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::config::Config;

/// How often the files are looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How the API speaks TLS; none when it does not.
pub(super) fn server(config: &Config) -> anyhow::Result<Option<Arc<ServerConfig>>> {
    let (true, Some(chain), Some(key)) = (config.api.enabled_ssl, &config.api.ssl_cert_file, &config.api.ssl_key_file) else {
        return Ok(None);
    };
    let files = Files { chain: chain.clone(), key: key.clone() };
    let resolver = Renewing::new(files, LOOK_EVERY)?;
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("choose TLS versions")?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(Arc::new(tls)))
}

#[derive(Debug)]
struct Files {
    chain: PathBuf,
    key: PathBuf,
}

/// When each file was last changed, as far as that can be told.
type Changed = [Option<SystemTime>; 2];

impl Files {
    fn load(&self) -> anyhow::Result<Arc<CertifiedKey>> {
        let chain = read(&self.chain, "ssl_cert_file")?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
            .collect::<Result<_, _>>()
            .with_context(|| format!("[api] ssl_cert_file: {} is not PEM", self.chain.display()))?;
        ensure!(!chain.is_empty(), "[api] ssl_cert_file: no certificate in {}", self.chain.display());
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key, "ssl_key_file")?)
            .map_err(|_| anyhow::anyhow!("[api] ssl_key_file: no private key (PEM, unencrypted) in {}", self.key.display()))?;
        let pair = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .with_context(|| format!("[api] ssl_key_file: use {} with {}", self.key.display(), self.chain.display()))?;
        Ok(Arc::new(pair))
    }

    fn changed(&self) -> Changed {
        [&self.chain, &self.key].map(|path| std::fs::metadata(path).and_then(|file| file.modified()).ok())
    }
}

fn read(path: &Path, option: &str) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("[api] {option}: read {}", path.display()))
}

/// Gives every client the newest pair that could be used.
#[derive(Debug)]
struct Renewing {
    files: Files,
    look_every: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pair: Arc<CertifiedKey>,
    changed: Changed,
    looked: Instant,
}

impl Renewing {
    fn new(files: Files, look_every: Duration) -> anyhow::Result<Self> {
        // Looked at before they are read: a change in between is then seen at the next look.
        let (changed, looked) = (files.changed(), Instant::now());
        let state = State { pair: files.load()?, changed, looked };
        Ok(Self { files, look_every, state: Mutex::new(state) })
    }

    fn pair(&self) -> Arc<CertifiedKey> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= self.look_every {
            state.looked = Instant::now();
            let changed = self.files.changed();
            if changed != state.changed {
                state.changed = changed;
                match self.files.load() {
                    Ok(pair) => {
                        state.pair = pair;
                        tracing::info!("The certificate of the API was read again");
                    }
                    Err(error) => tracing::error!("failed to read the changed certificate, the old one stays: {error:#}"),
                }
            }
        }
        state.pair.clone()
    }
}

impl ResolvesServerCert for Renewing {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.pair())
    }
}

#[cfg(test)]
mod tests;
