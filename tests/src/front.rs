//! Ends TLS before a server that speaks none.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::pki::Pair;

/// Listens on loopback until it is dropped.
pub struct Front {
    port: u16,
    serving: JoinHandle<()>,
}

impl Front {
    /// Before the server at this address, with this certificate; `clients` is the authority of those who may come, where not all may.
    pub async fn start(behind: &str, server: &Pair, clients: Option<&Pair>) -> Result<Self> {
        let acceptor = acceptor(server, clients)?;
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let port = listener.local_addr()?.port();
        let behind = behind.to_owned();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                tokio::spawn(async move {
                    // Whoever does not believe us leaves here, and so does whom we do not believe.
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let Ok(mut server) = TcpStream::connect(&behind).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                });
            }
        });
        Ok(Self { port, serving })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// A server's side of TLS, with this certificate; `clients` is the authority of those who may come, where not all may.
pub(crate) fn acceptor(server: &Pair, clients: Option<&Pair>) -> Result<TlsAcceptor> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(authority) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.certificate_pem()?.as_bytes())?)?;
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?)
        }
        None => builder.with_no_client_auth(),
    };
    let chain = vec![CertificateDer::from_pem_slice(server.certificate_pem()?.as_bytes())?];
    let config = builder.with_single_cert(chain, PrivateKeyDer::from_pem_slice(server.key_pem()?.as_bytes())?)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl Drop for Front {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
