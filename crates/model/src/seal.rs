//! Sealing of what must not lie in the database in the clear: the caller's token that travels with an operation until a trust exists (always),
//! and the secrets in upstream's columns ([`vault`], where the operator says so).
//!
//! AES-256-GCM. What a text belongs to is bound in, so that a sealed one cannot be moved to another row.

pub mod vault;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use openssl::symm::{Cipher, decrypt_aead, encrypt_aead};
use secrecy::{ExposeSecret, SecretBox, SecretString};
use sha2::{Digest, Sha256};

use crate::id::OperationId;

const VERSION: &str = "v1:";
const NONCE: usize = 12;
const TAG: usize = 16;

/// A key; overwritten when the last who has it is dropped.
type Key = Arc<SecretBox<[u8; 32]>>;

/// Seals and opens tokens, and knows the passwords of users that the service keeps, under a key derived from a secret that the API and the
/// conductors of one deployment share anyway (the service user's password).
#[derive(Clone)]
pub struct Sealer {
    key: Key,
    /// Of passwords; the other one is for sealing only.
    users: Key,
}

/// A sealed text that cannot be opened: another secret sealed it, it belongs to another operation, or it was changed.
#[derive(Debug, thiserror::Error)]
#[error("a stored credential cannot be opened with this service's secret")]
pub struct Unsealable;

impl Sealer {
    /// A sealer for a shared secret.
    pub fn new(secret: &SecretString) -> Self {
        Self { key: derived(secret, b"magnum operation token v1\0"), users: derived(secret, b"magnum user v1\0") }
    }

    /// Seals a token for one operation.
    pub fn seal(&self, operation: &OperationId, token: &SecretString) -> String {
        format!("{VERSION}{}", close(&self.key, operation.as_str().as_bytes(), token.expose_secret()))
    }

    /// The password of a user that the service keeps for itself, by the user's name: nobody stores it, and everyone who has the secret knows it.
    ///
    /// It begins with a letter of each case, a digit and a sign, for a Keystone that asks for them (`[security_compliance] password_regex`).
    pub fn password(&self, user: &str) -> SecretString {
        SecretString::from(format!("aB1-{}", keyed_hash(&self.users, user.as_bytes())))
    }

    /// Opens what [`Sealer::seal`] made for the same operation.
    pub fn open(&self, operation: &OperationId, sealed: &str) -> Result<SecretString, Unsealable> {
        sealed.strip_prefix(VERSION).and_then(|sealed| open(&self.key, operation.as_str().as_bytes(), sealed)).ok_or(Unsealable)
    }
}

/// Seals what the processes of one deployment tell each other through a cache that others can read and write.
pub struct CacheSealer {
    key: Key,
    /// Of names.
    names: Key,
}

impl CacheSealer {
    /// A sealer for a shared secret.
    pub fn new(secret: &SecretString) -> Self {
        Self { key: derived(secret, b"magnum cache v1\0"), names: derived(secret, b"magnum cache names v1\0") }
    }

    /// The name under which something stands, which says nothing about it: `magnum/v1/` and 43 signs of base 64.
    pub fn name(&self, of: &[u8]) -> String {
        format!("magnum/{VERSION}{}", keyed_hash(&self.names, of))
    }

    /// Seals a text for the name that it is to stand under.
    pub fn close(&self, name: &str, text: &str) -> String {
        close(&self.key, name.as_bytes(), text)
    }

    /// Opens what [`CacheSealer::close`] sealed for that name; none for anything else.
    pub fn open(&self, name: &str, sealed: &str) -> Option<SecretString> {
        open(&self.key, name.as_bytes(), sealed)
    }
}

/// A key for one purpose.
fn derived(secret: &SecretString, purpose: &[u8]) -> Key {
    let mut hash = Sha256::new();
    hash.update(purpose);
    hash.update(secret.expose_secret().as_bytes());
    Arc::new(SecretBox::new(Box::new(hash.finalize().into())))
}

/// HMAC-SHA-256 in base 64.
fn keyed_hash(key: &Key, of: &[u8]) -> String {
    let sign = || {
        let key = PKey::hmac(key.expose_secret())?;
        let mut signer = Signer::new(MessageDigest::sha256(), &key)?;
        signer.update(of)?;
        signer.sign_to_vec()
    };
    URL_SAFE_NO_PAD.encode(sign().expect("an HMAC with a key of 32 bytes"))
}

/// Nonce, sealed text and tag, in base 64; `of` is what the text belongs to.
fn close(key: &Key, of: &[u8], text: &str) -> String {
    let nonce: [u8; NONCE] = crate::random::bytes();
    let mut tag = [0u8; TAG];
    let sealed = encrypt_aead(Cipher::aes_256_gcm(), key.expose_secret(), Some(&nonce), of, text.as_bytes(), &mut tag)
        .expect("AES-GCM with a key and a nonce of the right size");
    let all: Vec<u8> = nonce.into_iter().chain(sealed).chain(tag).collect();
    STANDARD.encode(all)
}

/// What [`close`] has sealed; none when it was changed, belongs to something else, or another key sealed it.
fn open(key: &Key, of: &[u8], sealed: &str) -> Option<SecretString> {
    let all = STANDARD.decode(sealed).ok()?;
    let (nonce, rest) = all.split_at_checked(NONCE)?;
    let (body, tag) = rest.split_at_checked(rest.len().checked_sub(TAG)?)?;
    let clear = decrypt_aead(Cipher::aes_256_gcm(), key.expose_secret(), Some(nonce), of, body, tag).ok()?;
    String::from_utf8(clear).ok().map(SecretString::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_of_one_user_and_one_secret() {
        let password = |secret: &str, user: &str| Sealer::new(&secret.into()).password(user).expose_secret().to_owned();
        let one = password("secret", "one");
        assert_eq!(one, password("secret", "one"));
        assert_eq!(one.len(), 47, "{one}");
        assert!(one != password("secret", "other") && one != password("another", "one"));
    }

    #[test]
    fn what_is_in_a_cache_opens_under_its_name_and_by_its_secret_only() {
        let sealer = CacheSealer::new(&"secret".into());
        let (one, other) = (sealer.name(b"one"), sealer.name(b"other"));
        assert!(one.len() == 53 && one.starts_with("magnum/v1:") && one != other, "{one}");
        let sealed = sealer.close(&one, "member of demo");
        assert!(!sealed.contains("demo"));
        assert_eq!(sealer.open(&one, &sealed).expect("opens").expose_secret(), "member of demo");
        assert!(sealer.open(&other, &sealed).is_none() && sealer.open(&one, "anything").is_none());
        let stranger = CacheSealer::new(&"another".into());
        assert!(stranger.open(&one, &sealed).is_none() && stranger.name(b"one") != one);
    }

    #[test]
    fn a_token_opens_only_for_its_operation_and_secret() {
        let sealer = Sealer::new(&"secret".into());
        let (one, other) = (OperationId::generate(), OperationId::generate());
        let sealed = sealer.seal(&one, &"gAAAA-token".into());
        assert!(!sealed.contains("gAAAA"));
        assert_eq!(sealer.open(&one, &sealed).expect("opens").expose_secret(), "gAAAA-token");
        assert!(sealer.open(&other, &sealed).is_err());
        assert!(Sealer::new(&"another".into()).open(&one, &sealed).is_err());
        for short in ["v1:", "v1:AAAA", "v1:AAAAAAAAAAAAAAAAAAAAAAAA", "v2:AAAA", ""] {
            assert!(sealer.open(&one, short).is_err(), "{short}");
        }
    }
}
