//! The objects that the driver itself applies: a namespace, the secret of the credential, the secrets of certificates. Pure.

use model::capi::derived;
use model::cluster::Cluster;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// The name of the one cloud in `clouds.yaml`.
const CLOUD: &str = "openstack";
/// The label by which all secrets of a cluster are found, whatever they are called.
const CLUSTER_LABEL: &str = "magnum.openstack.org/cluster-uuid";
/// Characters of a label's value at most.
const LABEL: usize = 63;

/// The selector of a cluster's secrets.
pub(super) fn secrets_of(cluster: &Cluster) -> String {
    format!("{CLUSTER_LABEL}={}", cluster.uuid)
}

/// A project's namespace.
pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// An application credential and where it is good.
pub(super) struct CloudLogin<'a> {
    pub auth_url: &'a str,
    pub region: Option<&'a str>,
    pub interface: &'a str,
    pub verify: bool,
    pub id: &'a str,
    pub secret: &'a SecretString,
    /// PEM.
    pub ca: &'a str,
}

/// Whose secret it is and where it belongs.
pub(super) struct Place<'a> {
    pub namespace: &'a str,
    pub release: &'a str,
    pub cluster: &'a Cluster,
    /// Whose credential the cluster works with.
    pub user_id: &'a str,
}

/// The secret with which controllers, and what runs in the cluster, speak to the cloud.
pub(super) fn credential(place: &Place<'_>, login: &CloudLogin<'_>) -> Value {
    let auth = json!({
        "auth_url": login.auth_url,
        "application_credential_id": login.id,
        "application_credential_secret": login.secret.expose_secret(),
    });
    let mut cloud = json!({
        "identity_api_version": 3,
        "interface": login.interface,
        "verify": login.verify,
        "auth_type": "v3applicationcredential",
        "auth": auth,
    });
    if let Some(region) = login.region {
        cloud["region_name"] = region.into();
    }
    // JSON is YAML as well, and quotes what needs quotes.
    let clouds = json!({"clouds": {CLOUD: cloud}}).to_string();
    secret(place, "cloud-credentials", "Opaque", json!({"cacert": login.ca, "clouds.yaml": clouds}))
}

/// A secret from which Cluster API takes an authority (or the key pair of service accounts) instead of making its own.
pub(super) fn certificate(place: &Place<'_>, part: &str, certificate: &str, key: &SecretString) -> Value {
    secret(place, part, "cluster.x-k8s.io/secret", json!({"tls.crt": certificate, "tls.key": key.expose_secret()}))
}

/// A secret of a cluster.
pub(super) fn secret(place: &Place<'_>, part: &str, kind: &str, data: Value) -> Value {
    let cut = |text: &str| text.chars().take(LABEL).collect::<String>();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": kind,
        "metadata": {
            "name": derived(place.release, part),
            "namespace": place.namespace,
            "labels": {
                "magnum.openstack.org/project-id": cut(&place.cluster.project().0),
                "magnum.openstack.org/user-id": cut(place.user_id),
                CLUSTER_LABEL: cut(&place.cluster.uuid),
                "cluster.x-k8s.io/cluster-name": place.release,
            },
        },
        "stringData": data,
    })
}

/// A text that a secret holds.
pub(super) fn held_text(secret: &Value, key: &str) -> Option<String> {
    String::from_utf8(BASE64_STANDARD.decode(secret["data"][key].as_str()?).ok()?).ok()
}

/// What a credential's secret holds; upstream's as well.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub id: String,
    pub secret: SecretString,
}

/// Reads the application credential out of its secret; none when it is not one that can be used.
pub(super) fn held(secret: &Value) -> Option<Held> {
    let parsed: Value = serde_saphyr::from_str(&held_text(secret, "clouds.yaml")?).ok()?;
    let clouds: &Map<String, Value> = parsed["clouds"].as_object()?;
    let auth = &clouds.get(CLOUD).or_else(|| clouds.values().next())?["auth"];
    let text = |key: &str| auth[key].as_str().filter(|text| !text.is_empty());
    Some(Held { id: text("application_credential_id")?.to_owned(), secret: text("application_credential_secret")?.to_owned().into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::capi_helm::tests::cluster;

    #[test]
    fn a_credential_that_was_stored_is_read_back_also_one_of_upstreams() {
        let cluster = cluster();
        let place = Place { namespace: "magnum-p", release: "blue-abc", cluster: &cluster, user_id: "u" };
        let secret = SecretString::from("s: '\"#\n");
        let login = CloudLogin {
            auth_url: "https://k/v3",
            region: Some("RegionOne"),
            interface: "public",
            verify: true,
            id: "cred",
            secret: &secret,
            ca: "PEM",
        };
        let made = credential(&place, &login);
        assert_eq!(made["metadata"]["name"], "blue-abc-cloud-credentials");
        assert_eq!(made["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "blue-abc");
        let clouds = made["stringData"]["clouds.yaml"].as_str().expect("text");
        let stored = json!({"data": {"clouds.yaml": BASE64_STANDARD.encode(clouds)}});
        let read = held(&stored).expect("held");
        assert_eq!((read.id.as_str(), read.secret.expose_secret()), ("cred", secret.expose_secret()));

        let upstreams = "clouds:\n  openstack:\n    auth:\n      application_credential_id: aa\n      application_credential_secret: bb\n      \
             auth_url: http://k\n    auth_type: v3applicationcredential\n    identity_api_version: 3\n";
        let read = held(&json!({"data": {"clouds.yaml": BASE64_STANDARD.encode(upstreams)}})).expect("held");
        assert_eq!((read.id.as_str(), read.secret.expose_secret()), ("aa", "bb"));
        assert!(held(&json!({"data": {"clouds.yaml": "%"}})).is_none() && held(&json!({})).is_none());
    }

    #[test]
    fn a_certificate_is_where_cluster_api_looks_for_it() {
        let cluster = cluster();
        let place = Place { namespace: "magnum-p", release: "blue-abc", cluster: &cluster, user_id: &"u".repeat(70) };
        let made = certificate(&place, "etcd", "CERT", &"KEY".into());
        assert_eq!((made["type"].as_str(), made["metadata"]["name"].as_str()), (Some("cluster.x-k8s.io/secret"), Some("blue-abc-etcd")));
        assert_eq!(made["stringData"], json!({"tls.crt": "CERT", "tls.key": "KEY"}));
        assert_eq!(made["metadata"]["labels"]["magnum.openstack.org/user-id"].as_str().map(str::len), Some(63));
        assert_eq!(secrets_of(&cluster), format!("magnum.openstack.org/cluster-uuid={}", cluster.uuid));
    }
}
