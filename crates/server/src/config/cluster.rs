//! What clusters are made of: templates, drivers, trusts, certificates, limits.

use std::path::PathBuf;

use provider_clients::Networks;
use secrecy::SecretString;

use super::cloud::Interface;
use super::options::section;
use super::value::{Positive, words};

words! {
    /// Where new cluster certificates are kept.
    CertManager {
        /// Barbican, in the project of the service user.
        Barbican = "barbican",
        /// The table `x509keypair`.
        X509Keypair = "x509keypair",
        /// Files.
        Local = "local",
    }
}

section! {
    /// Where cluster certificates are kept.
    Certificates {
        /// Where new certificates go: barbican, x509keypair (the database) or local (files, for a single machine). Those that are there
        /// already are found wherever they are.
        cert_manager_type: CertManager = "barbican",
        /// Folder of certificates that are kept in files. All processes must share it.
        storage_path: PathBuf = "/var/lib/magnum/certificates/",
        /// File of keys by which secrets in the database are sealed: one a line, 32 bytes in base 64 (`openssl rand -base64 32`). The first
        /// seals, all open. Read at the start; every API and conductor needs the same. Not known to upstream.
        seal_key_file: Option<PathBuf>,
        /// Seal the secrets that are written to the database (passwords of trustees, private keys and their passphrases). What is there
        /// already is sealed by `magnum-db-manage seal`. Upstream cannot read them; `unseal` takes it back. Not known to upstream.
        seal_secrets: bool = "false",
    }
}

section! {
    /// Rules for certificates that tenants ask for.
    X509 {
        /// Sign requests that ask for a certificate authority.
        allow_ca: bool = "false",
        /// Extensions that a request may carry.
        allowed_extensions: Vec<String> = "keyUsage,extendedKeyUsage,subjectAltName,basicConstraints,subjectKeyIdentifier",
        /// Key usages that a request may carry.
        allowed_key_usage: Vec<String> = "Digital Signature,Key Encipherment,Non Repudiation",
        /// Days for which a certificate is valid.
        term_of_validity: Positive = "1825",
        /// Most seconds for which a certificate that a tenant asks for is valid; who asks for more (`expiry_seconds`) is refused. Unset:
        /// term_of_validity.
        max_signed_seconds: Option<Positive>,
        /// Bits of an RSA key.
        rsa_key_size: Positive = "2048",
    }
}

section! {
    /// The user and the trust that stand for a cluster in Keystone.
    Trust {
        /// Give the trust to the nodes, so that Kubernetes can use the cloud.
        cluster_user_trust: bool = "false",
        /// Domain of the trustees. If only the name is set, the id is looked up.
        trustee_domain_id: Option<String>,
        /// Name of the domain of the trustees.
        trustee_domain_name: Option<String>,
        /// Id of the user who administers that domain.
        trustee_domain_admin_id: Option<String>,
        /// Name of the user who administers that domain.
        trustee_domain_admin_name: Option<String>,
        /// Password of that user.
        trustee_domain_admin_password: Option<SecretString>,
        /// Domain of that user. Unset: trustee_domain_id.
        trustee_domain_admin_domain_id: Option<String>,
        /// Name of the domain of that user. Unset: trustee_domain_name.
        trustee_domain_admin_domain_name: Option<String>,
        /// Roles to delegate. Empty: all roles of the caller.
        roles: Vec<String>,
        /// Interface of the Keystone address given to nodes.
        trustee_keystone_interface: Interface = "public",
        /// Region of the Keystone address given to nodes.
        trustee_keystone_region_name: Option<String>,
    }
}

section! {
    /// Clusters in general. Also read from `[bay]`.
    Cluster {
        /// Address that makes a discovery URL for etcd; `%(size)d` stands for the number of masters.
        etcd_discovery_service_endpoint_format: String = "https://discovery.etcd.io/new?size=%(size)d",
        /// Policy of the server group of a cluster's nodes.
        nodes_affinity_policy: String = "soft-anti-affinity",
        /// Seconds to wait for load balancers to go before a cluster's network is deleted.
        pre_delete_lb_timeout: u64 = "60",
    }
}

section! {
    /// Clusters made by Heat.
    ClusterHeat {
        /// Minutes a cluster may take to come up when its request does not say.
        create_timeout: Positive = "60",
    }
}

section! {
    /// Rules for cluster templates.
    ClusterTemplate {
        /// Network drivers that a template may name; `all` allows every supported one.
        kubernetes_allowed_network_drivers: Vec<String> = "flannel,calico",
        /// Network driver of a template that names none.
        kubernetes_default_network_driver: String = "flannel",
    }
}

section! {
    /// Cluster drivers.
    Drivers {
        /// Nodes verify the certificates of OpenStack's services.
        verify_ca: bool = "true",
        /// File of certificate authorities (PEM) that is copied to nodes.
        openstack_ca_file: Option<PathBuf>,
        /// Folder with Heat templates of your own in the place of those that are shipped, for clusters that are made afterwards: kubecluster.yaml,
        /// kubemaster.yaml, kubeminion.yaml, nodegroup.yaml, or some of them. They are checked when a conductor starts.
        heat_template_dir: Option<PathBuf>,
        /// Drivers not to use.
        disabled_drivers: Vec<String>,
        /// Drivers to use although they are marked as beta.
        enabled_beta_drivers: Vec<String>,
        /// Driver of templates that name none.
        default_driver: Option<String>,
        /// Refuse labels that the driver does not know, instead of keeping them without effect.
        strict_labels: bool = "false",
    }
}

section! {
    /// What is set up in Kubernetes.
    Kubernetes {
        /// Whether users log in to the Kubernetes of new Heat clusters with Keystone, unless the label keystone_auth_enabled says false.
        /// Whoever may name users or groups in a domain of Keystone can take names there that Kubernetes gives rights to
        /// (SECURITY.md): turn it off where tenants administer domains.
        keystone_auth: bool = "true",
        /// Whether secrets of new Heat clusters are encrypted in etcd. Off as long as there is a conductor of a release that does not know this
        /// option: masters that such a one makes could not read them.
        encrypt_secrets: bool = "true",
        /// Policy of Keystone authentication in new clusters: a JSON list of rules, in which `$PROJECT_ID` is the project of the cluster. Where
        /// the file is not there, a policy of ours for the roles k8s_admin, k8s_developer and k8s_viewer.
        keystone_auth_default_policy: PathBuf = "/etc/magnum/keystone_auth_default_policy.json",
        /// Manifest (http or https) that every new cluster of the Heat driver gets, once, after all else.
        post_install_manifest_url: Option<String>,
        /// Mirror (http or https) that nodes of the Heat driver download from in the place of the projects' own sites: what those have at
        /// https://HOST/PATH it has at HOST/PATH below this address, published checksums too. It has no images, for which there is the label
        /// container_infra_prefix. What nodes reach is in operators-guide.md. Not known to upstream.
        downloads_mirror_url: Option<String>,
        /// Seconds between two health checks of a cluster, as long as the conductors keep up: each makes 32 at once, and one that gets no answer lasts up
        /// to ten seconds. A negative number turns them off.
        health_polling_interval: i64 = "60",
        /// Networks where no cluster's API is asked for its health: its address comes from its stack, which is its user's to change. Names are
        /// resolved first, and an IPv4 address counts in every IPv6 form too (mapped, translated, 6to4, NAT64 by 64:ff9b::/96 and 64:ff9b:1::/48). The
        /// default is this machine, link-local, unspecified and multicast; name it again beside the networks of the cloud's own services, which belong
        /// here too, as does a NAT64 prefix of your own. Empty: none. Not known to upstream.
        health_denied_networks: Networks = "127.0.0.0/8,::1/128,169.254.0.0/16,fe80::/10,0.0.0.0/8,::/128,224.0.0.0/4,ff00::/8",
    }
}

section! {
    /// Volumes of nodes.
    Cinder {
        /// Volume type for container images, unless a label says otherwise. Unset: Cinder's own default. Of the Heat driver.
        default_docker_volume_type: Option<String>,
        /// Volume type for etcd, unless a label says otherwise. Unset: Cinder's own default. Of the Heat driver; for Cluster API [capi_helm_cluster_labels] says it.
        default_etcd_volume_type: Option<String>,
        /// Volume type to boot from, unless a label says otherwise. Unset: Cinder's own default.
        default_boot_volume_type: Option<String>,
        /// Size in GiB of the volume to boot from; 0 boots from the flavor's disk.
        default_boot_volume_size: u32 = "0",
    }
}

section! {
    /// Limits.
    Quotas {
        /// Clusters of a project that has no quota of its own.
        max_clusters_per_project: u32 = "20",
        /// Nodes, masters included, of a project that has no quota of its own. Unset: no limit, as upstream has none.
        max_nodes_per_project: Option<u32>,
    }
}
