//! What is set up inside clusters: who may do what with a token of Keystone, a manifest of the operator's, and where nodes download from.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;
use url::Url;

use crate::config::Config;

const POLICY: &str = "[kubernetes] keystone_auth_default_policy";
const MANIFEST: &str = "[kubernetes] post_install_manifest_url";
const MIRROR: &str = "[kubernetes] downloads_mirror_url";

/// Longest policy: masters are made with it, and Nova takes 64 KiB of user data in all.
const POLICY_LIMIT: usize = 6 * 1024;

/// The operator's policy for Keystone authentication in Kubernetes; none where the file is not there, as upstream.
pub(super) fn keystone_policy(config: &Config) -> anyhow::Result<Option<String>> {
    policy(&config.kubernetes.keystone_auth_default_policy)
}

fn policy(path: &Path) -> anyhow::Result<Option<String>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            tracing::info!("{POLICY}: there is no {}; clusters get a policy of ours", path.display());
            return Ok(None);
        }
        Err(error) => return Err(error).with_context(|| format!("{POLICY}: read {}", path.display())),
    };
    if text.len() > POLICY_LIMIT {
        bail!("{POLICY}: {} must have at most {POLICY_LIMIT} bytes, not {}", path.display(), text.len());
    }
    match serde_json::from_str(&text) {
        // Written anew: as operators indent it, it takes more of the user data than it must.
        Ok(Value::Array(rules)) if rules.iter().all(is_rule) => Ok(Some(Value::Array(rules).to_string())),
        Ok(_) => bail!("{POLICY}: {} must be a JSON list of rules, each with users or match", path.display()),
        Err(error) => bail!("{POLICY}: {} is no JSON: {error}", path.display()),
    }
}

/// The webhook does not start with others.
fn is_rule(rule: &Value) -> bool {
    let is_texts = |list: &Value| list.as_array().is_some_and(|all| all.iter().all(Value::is_string));
    let is_map = |map: &Value| map.as_object().is_some_and(|map| map.values().all(is_texts));
    let is_match = |one: &Value| one["type"].is_string() && is_texts(&one["values"]);
    let permits = |name: &str| rule.get(name).is_none_or(is_map);
    let by_users = rule.get("users").is_some_and(is_map) && permits("resource_permissions") && permits("nonresource_permissions");
    by_users || rule["match"].as_array().is_some_and(|all| all.iter().all(is_match))
}

/// Where the operator's manifest is.
pub(super) fn post_install_manifest(config: &Config) -> anyhow::Result<Option<String>> {
    address(MANIFEST, config.kubernetes.post_install_manifest_url.as_deref())
}

/// Where nodes download from in the place of the projects' own sites; it ends with a slash.
pub(super) fn downloads_mirror(config: &Config) -> anyhow::Result<Option<String>> {
    mirror(config.kubernetes.downloads_mirror_url.as_deref())
}

/// Hosts and paths are put behind it.
fn mirror(given: Option<&str>) -> anyhow::Result<Option<String>> {
    match address(MIRROR, given)? {
        Some(address) if address.contains(['?', '#', '$']) => bail!("{MIRROR} must have no query, and none of the signs # and $"),
        found => Ok(found.map(|address| format!("{}/", address.trim_end_matches('/')))),
    }
}

/// It ends up in a list that nodes read by words.
fn address(option: &str, given: Option<&str>) -> anyhow::Result<Option<String>> {
    let Some(address) = given.map(str::trim).filter(|address| !address.is_empty()) else { return Ok(None) };
    let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let is_plain = address.chars().all(|c| c.is_ascii_graphic() && !"'\"\\`{}[]".contains(c));
    match url.filter(|_| is_plain) {
        Some(_) => Ok(Some(address.to_owned())),
        None => bail!("{option} must be an http or https URL without spaces, quotes and brackets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_list_of_rules_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.json");
        assert_eq!(policy(&path).unwrap(), None);
        std::fs::write(&path, "[ {\"users\": {\"roles\": [\"k8s_admin\"]}} ]\n").unwrap();
        assert_eq!(policy(&path).unwrap().as_deref(), Some("[{\"users\":{\"roles\":[\"k8s_admin\"]}}]"));
        for (text, rule) in [
            ("{}", "must be a JSON list of rules"),
            ("[1]", "each with users or match"),
            (r#"[{"users": ["k8s_admin"]}]"#, "each with"),
            (r#"[{"match": [{"type": "role"}]}]"#, "each with"),
            ("[", "is no JSON: EOF"),
            (&" ".repeat(6200), "at most 6144 bytes, not 6200"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = policy(&path).unwrap_err().to_string();
            assert!(error.starts_with(POLICY) && error.contains(rule), "{error}");
        }
        assert!(policy(dir.path()).is_err(), "a folder");
    }

    #[test]
    fn a_manifest_is_fetched_by_http_alone() {
        let manifest = |given| address(MANIFEST, given);
        assert_eq!(manifest(None).unwrap(), None);
        assert_eq!(manifest(Some(" ")).unwrap(), None);
        let good = "https://example.org/manifests/all.yaml?ref=1";
        assert_eq!(manifest(Some(good)).unwrap().as_deref(), Some(good));
        for bad in ["/etc/x.yaml", "file:///etc/x.yaml", "https://", "https://a/b c", "https://a/'x'", "https://a/{b,c}", "ftp://a/b"] {
            assert!(manifest(Some(bad)).unwrap_err().to_string().starts_with(MANIFEST), "{bad}");
        }
    }

    #[test]
    fn a_mirror_is_an_address_that_others_are_put_behind() {
        assert_eq!(mirror(None).unwrap(), None);
        for given in ["http://mirror.example:8080/k8s", "http://mirror.example:8080/k8s/", " http://mirror.example:8080/k8s// "] {
            assert_eq!(mirror(Some(given)).unwrap().as_deref(), Some("http://mirror.example:8080/k8s/"), "{given}");
        }
        for bad in ["mirror.example", "file:///mirror", "https://a/?at=", "https://a/#b", "https://a/$b", "https://a/'b'", "https://a/b c"]
        {
            assert!(mirror(Some(bad)).unwrap_err().to_string().starts_with(MIRROR), "{bad}");
        }
    }
}
