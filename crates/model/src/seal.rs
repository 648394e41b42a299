//! Sealing of what must not lie in the database in the clear: the caller's token that travels with an operation until a trust exists.
//!
//! AES-256-GCM under a key derived from a secret that the API and the conductors of one deployment share anyway (the service user's
//! password). The operation's id is bound in, so that a sealed token cannot be moved to another row.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use openssl::symm::{Cipher, decrypt_aead, encrypt_aead};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::id::OperationId;

const VERSION: &str = "v1:";
const NONCE: usize = 12;
const TAG: usize = 16;

/// Seals and opens tokens.
#[derive(Clone)]
pub struct Sealer {
    key: [u8; 32],
}

/// A sealed text that cannot be opened: another secret sealed it, it belongs to another operation, or it was changed.
#[derive(Debug, thiserror::Error)]
#[error("a stored credential cannot be opened with this service's secret")]
pub struct Unsealable;

impl Sealer {
    /// A sealer for a shared secret.
    pub fn new(secret: &SecretString) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"magnum operation token v1\0");
        hash.update(secret.expose_secret().as_bytes());
        Self { key: hash.finalize().into() }
    }

    /// Seals a token for one operation.
    pub fn seal(&self, operation: &OperationId, token: &SecretString) -> String {
        let nonce: [u8; NONCE] = crate::random::bytes();
        let mut tag = [0u8; TAG];
        let sealed = encrypt_aead(
            Cipher::aes_256_gcm(),
            &self.key,
            Some(&nonce),
            operation.as_str().as_bytes(),
            token.expose_secret().as_bytes(),
            &mut tag,
        )
        .expect("AES-GCM with a key and a nonce of the right size");
        let all: Vec<u8> = nonce.into_iter().chain(sealed).chain(tag).collect();
        format!("{VERSION}{}", STANDARD.encode(all))
    }

    /// Opens what [`Sealer::seal`] made for the same operation.
    pub fn open(&self, operation: &OperationId, sealed: &str) -> Result<SecretString, Unsealable> {
        let all = sealed.strip_prefix(VERSION).and_then(|b| STANDARD.decode(b).ok()).ok_or(Unsealable)?;
        if all.len() < NONCE + TAG {
            return Err(Unsealable);
        }
        let (nonce, rest) = all.split_at(NONCE);
        let (body, tag) = rest.split_at(rest.len() - TAG);
        let clear = decrypt_aead(Cipher::aes_256_gcm(), &self.key, Some(nonce), operation.as_str().as_bytes(), body, tag)
            .map_err(|_| Unsealable)?;
        String::from_utf8(clear).map(SecretString::from).map_err(|_| Unsealable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_only_for_its_operation_and_secret() {
        let sealer = Sealer::new(&"secret".into());
        let (one, other) = (OperationId::generate(), OperationId::generate());
        let sealed = sealer.seal(&one, &"gAAAA-token".into());
        assert!(!sealed.contains("gAAAA"));
        assert_eq!(sealer.open(&one, &sealed).expect("opens").expose_secret(), "gAAAA-token");
        assert!(sealer.open(&other, &sealed).is_err());
        assert!(Sealer::new(&"another".into()).open(&one, &sealed).is_err());
        assert!(sealer.open(&one, "v1:AAAA").is_err());
    }
}
