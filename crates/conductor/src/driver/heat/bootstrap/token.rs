//! The bootstrap token of a cluster, derived from its CA key: rendering again, also much later for new workers, gives the same token, and
//! nobody without the key can guess it.

use model::seal::hmac_sha256;

/// `[a-z0-9]{6}.[a-z0-9]{16}`.
pub(crate) fn bootstrap_token(ca_key: &str, cluster_uuid: &str) -> String {
    let mac = hmac_sha256(ca_key.as_bytes(), format!("bootstrap token of cluster {cluster_uuid}").as_bytes());
    let letters: Vec<char> = mac.iter().map(|byte| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[usize::from(*byte) % 36])).collect();
    format!("{}.{}", letters[..6].iter().collect::<String>(), letters[6..22].iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

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
