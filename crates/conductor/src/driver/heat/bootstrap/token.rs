//! The bootstrap token of a cluster, derived from its CA key: rendering again, also much later for new workers, gives the same token, and
//! nobody without the key can guess it.

use sha2::{Digest, Sha256};

const BLOCK: usize = 64;

/// `[a-z0-9]{6}.[a-z0-9]{16}`.
pub(crate) fn bootstrap_token(ca_key: &str, cluster_uuid: &str) -> String {
    let mac = hmac_sha256(ca_key.as_bytes(), format!("bootstrap token of cluster {cluster_uuid}").as_bytes());
    let letters: Vec<char> = mac.iter().map(|byte| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[usize::from(*byte) % 36])).collect();
    format!("{}.{}", letters[..6].iter().collect::<String>(), letters[6..22].iter().collect::<String>())
}

/// RFC 2104.
fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0u8; BLOCK];
    match key.len() > BLOCK {
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let inner = Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_token_has_kubeadms_form_and_belongs_to_one_cluster() {
        let token = bootstrap_token("key", "uuid-1");
        let (id, secret) = token.split_once('.').expect("two parts");
        assert_eq!((id.len(), secret.len()), (6, 16));
        assert!(token.chars().all(|c| c == '.' || c.is_ascii_lowercase() || c.is_ascii_digit()), "{token}");
        assert_eq!(token, bootstrap_token("key", "uuid-1"));
        assert_ne!(token, bootstrap_token("key", "uuid-2"));
        assert_ne!(token, bootstrap_token("other", "uuid-1"));
    }
}
