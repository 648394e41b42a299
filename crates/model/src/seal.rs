//! Sealing of what must not lie in the database in the clear: the caller's token that travels with an operation until a trust exists (always),
//! and the secrets in upstream's columns ([`vault`], where the operator says so).
//!
//! AES-256-GCM. What a text belongs to is bound in, so that a sealed one cannot be moved to another row.

pub mod vault;

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::{hmac, pbkdf2};
use secrecy::{ExposeSecret, SecretBox, SecretString};

use crate::id::OperationId;

/// Names the form of what is sealed, and how its key is derived.
///
/// Processes of two releases run beside each other while a deployment is upgraded, and each must open what the other has sealed. So another
/// form or derivation gets another name and comes in two releases: the first opens both and seals the old one, the second seals the new one.
const VERSION: &str = "v1:";

/// Rounds of PBKDF2: every guess at a secret costs as many. So many are some 20 ms of a CPU that has instructions for SHA-256, and about three
/// times that of one that has none; once in a process, before it serves.
const ROUNDS: NonZeroU32 = NonZeroU32::new(60_000).expect("more than zero");
/// Salt of PBKDF2. A fixed one: all processes of a deployment must come to the same key, and have nothing but the secret in common. It keeps
/// tables that were made for other programs from being of use.
const SALT: &[u8] = b"magnum service secret v1";
/// Secrets whose keys a process remembers: it has two, the password of the service's user and `memcache_secret_key`.
const REMEMBERED: usize = 4;

/// A key; overwritten when the last who has it is dropped.
type Key = Arc<SecretBox<[u8; 32]>>;

/// What the secrets of this process were stretched to.
static STRETCHED: Mutex<Stretched> = Mutex::new(Stretched(Vec::new()));

/// Seals and opens tokens, and knows the passwords of users that the service keeps, under a key derived from a secret that the API and the
/// conductors of one deployment share anyway (the service user's password).
///
/// Whoever reads what is sealed can try passwords on it at home, so each try is made dear (PBKDF2, RFC 8018): a short password stays a bad one.
#[derive(Clone)]
pub struct Sealer {
    key: Key,
    /// Of passwords; the others are for sealing only.
    users: Key,
    /// For passwords that operations carry: a sealed token is none.
    carried: Key,
}

/// A sealed text that cannot be opened: another secret sealed it, it belongs to another operation, or it was changed.
#[derive(Debug, thiserror::Error)]
#[error("a stored credential cannot be opened with this service's secret")]
pub struct Unsealable;

impl Sealer {
    /// A sealer for a shared secret. The first one for a secret is work of some 20 ms; further ones in the same process are not.
    pub fn new(secret: &SecretString) -> Self {
        let stretched = stretched(secret);
        Self {
            key: derived(&stretched, b"magnum operation token v1"),
            users: derived(&stretched, b"magnum user v1"),
            carried: derived(&stretched, b"magnum operation password v1"),
        }
    }

    /// Seals a token for one operation.
    pub fn seal(&self, operation: &OperationId, token: &SecretString) -> String {
        format!("{VERSION}{}", close(&self.key, operation.as_str().as_bytes(), token.expose_secret()))
    }

    /// Seals a password that one operation is to give to somebody.
    pub fn seal_password(&self, operation: &OperationId, password: &SecretString) -> String {
        format!("{VERSION}{}", close(&self.carried, operation.as_str().as_bytes(), password.expose_secret()))
    }

    /// Opens what [`Sealer::seal_password`] made for the same operation.
    ///
    /// # Errors
    /// [`Unsealable`].
    pub fn open_password(&self, operation: &OperationId, sealed: &str) -> Result<SecretString, Unsealable> {
        sealed.strip_prefix(VERSION).and_then(|sealed| open(&self.carried, operation.as_str().as_bytes(), sealed)).ok_or(Unsealable)
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
    /// A sealer for a shared secret. The first one for a secret is work of some 20 ms; further ones in the same process are not.
    pub fn new(secret: &SecretString) -> Self {
        let stretched = stretched(secret);
        Self { key: derived(&stretched, b"magnum cache v1"), names: derived(&stretched, b"magnum cache names v1") }
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

/// Secrets and what they were stretched to, the oldest first. Who makes a sealer for a secret again, as simulations and tests do by the
/// thousand, does not pay again; what is kept is the key that the sealers of the process hold anyway.
struct Stretched(Vec<(SecretString, Key)>);

impl Stretched {
    /// The key that a secret is stretched to.
    fn key(&mut self, secret: &SecretString) -> Key {
        if let Some((_, key)) = self.0.iter().find(|(known, _)| known.expose_secret() == secret.expose_secret()) {
            return key.clone();
        }
        let mut key = Box::new([0_u8; 32]);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, SALT, secret.expose_secret().as_bytes(), key.as_mut_slice());
        let key = Arc::new(SecretBox::new(key));
        if self.0.len() == REMEMBERED {
            self.0.remove(0);
        }
        self.0.push((secret.clone(), key.clone()));
        key
    }
}

/// The key that a secret is stretched to, by PBKDF2 with HMAC-SHA-256.
fn stretched(secret: &SecretString) -> Key {
    STRETCHED.lock().unwrap_or_else(PoisonError::into_inner).key(secret)
}

/// A key for one purpose.
fn derived(stretched: &Key, purpose: &[u8]) -> Key {
    Arc::new(SecretBox::new(Box::new(hmac_sha256(stretched.expose_secret(), purpose))))
}

/// HMAC-SHA-256 (RFC 2104) of a message.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// The same in base 64.
fn keyed_hash(key: &Key, of: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(hmac_sha256(key.expose_secret(), of))
}

/// Nonce, sealed text and tag, in base 64; `of` is what the text belongs to.
fn close(key: &Key, of: &[u8], text: &str) -> String {
    let nonce: [u8; NONCE_LEN] = crate::random::bytes();
    let mut all = Vec::with_capacity(NONCE_LEN + text.len() + AES_256_GCM.tag_len());
    all.extend_from_slice(&nonce);
    all.extend_from_slice(text.as_bytes());
    let tag = cipher(key)
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(of), &mut all[NONCE_LEN..])
        .expect("a text that is shorter than AES-GCM's limit of 64 GiB");
    all.extend_from_slice(tag.as_ref());
    STANDARD.encode(all)
}

/// What [`close`] has sealed; none when it was changed, belongs to something else, or another key sealed it.
fn open(key: &Key, of: &[u8], sealed: &str) -> Option<SecretString> {
    let mut all = STANDARD.decode(sealed).ok()?;
    let nonce = Nonce::try_assume_unique_for_key(all.get(..NONCE_LEN)?).ok()?;
    // In its own buffer: no second copy is left behind.
    let clear = cipher(key).open_within(nonce, Aad::from(of), &mut all, NONCE_LEN..).ok()?.len();
    all.truncate(clear);
    String::from_utf8(all).ok().map(SecretString::from)
}

/// AES-256-GCM by a key.
fn cipher(key: &Key) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.expose_secret()).expect("AES-256 with a key of 32 bytes"))
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

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn the_mac_agrees_with_rfc_4231() {
        let short = hmac_sha256(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hex(&short), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hmac_sha256(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(&long), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn a_secret_is_stretched_once_and_few_are_remembered() {
        let mut all = Stretched(Vec::new());
        let first = all.key(&"0".into());
        assert!(Arc::ptr_eq(&first, &all.key(&"0".into())));
        for more in 1..=REMEMBERED {
            assert!(all.key(&more.to_string().into()).expose_secret() != first.expose_secret());
        }
        assert_eq!(all.0.len(), REMEMBERED);
        let again = all.key(&"0".into());
        assert!(!Arc::ptr_eq(&first, &again) && first.expose_secret() == again.expose_secret());
    }

    /// Sealed by Python (`hashlib.pbkdf2_hmac`, `hmac`, and `AESGCM` of `cryptography`), by the derivations above: whatever library does it,
    /// rows of any day open.
    #[test]
    fn the_form_is_that_of_other_libraries() {
        let sealer = Sealer::new(&"secret".into());
        let operation = OperationId::new("7d1b2c3e-4f50-4617-8283-94a5b6c7d8e9".to_owned());
        let opened = sealer.open(&operation, "v1:AAECAwQFBgcICQoLbANTs0Nu9exG6n9xSZHAsmGYdsjZiM4mPnqB");
        assert_eq!(opened.expect("opens").expose_secret(), "gAAAA-token");
        assert_eq!(sealer.password("one").expose_secret(), "aB1-jrOH08aH80I-v6qajnf7_f5GQMIkFh9uHr9jKCdOR5w");
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
        // Nor for another purpose, in either direction.
        let password = sealer.seal_password(&one, &"Ab3-password".into());
        assert_eq!(sealer.open_password(&one, &password).expect("opens").expose_secret(), "Ab3-password");
        assert!(sealer.open_password(&one, &sealed).is_err() && sealer.open(&one, &password).is_err());
        for short in ["v1:", "v1:AAAA", "v1:AAAAAAAAAAAAAAAAAAAAAAAA", "v2:AAAA", ""] {
            assert!(sealer.open(&one, short).is_err(), "{short}");
        }
    }
}
