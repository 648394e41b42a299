//! What runs in every cluster beside Kubernetes itself: manifests of their projects, each at a version.
//!
//! The first master applies them, and each that replaces another one, unless one that stays is older. One that cannot be applied fails the master, so
//! that no cluster is called complete which lacks what was asked for.

use std::fmt::Write as _;

use super::access::{Access, CloudProvider, PARAMETER};
use super::bootstrap::BASE;
use super::catalogue::{self, Release};
use super::parameters::choices::{self, Choices};
use super::render::RenderError;
use super::stack_input::StackInput;
use super::{auto_healer, autoscaler, cloud_config, ingress, keystone_auth, monitoring};

/// Where documents of ours are on a master, below our folder.
pub(super) const FOLDER: &str = "addons";

/// The volume driver of templates whose clusters get volumes from Cinder.
pub(super) const CINDER: &str = "cinder";

/// The label of clusters that resize themselves.
pub(super) const AUTO_SCALING: &str = "auto_scaling_enabled";

/// The project of the cloud provider.
macro_rules! cloud_provider {
    ($path:literal) => {
        Manifest::Project(concat!("https://raw.githubusercontent.com/kubernetes/cloud-provider-openstack/TAG/manifests/", $path))
    };
}

/// An add-on.
#[derive(Debug)]
pub(super) struct Addon {
    name: &'static str,
    wanted: Wanted,
    /// The label that says which version.
    tag: &'static str,
    /// Without it, by the version of Kubernetes.
    version: fn(&Release) -> &'static str,
    /// Its manifests, in the order in which they are applied.
    manifests: &'static [Manifest],
    /// Labels that say the version of an image of the manifests, by the image's name.
    images: &'static [(&'static str, &'static str)],
}

/// When an add-on is installed.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// By a label; the second is what holds without it.
    Label(&'static str, bool),
    /// With the cloud provider.
    CloudProvider,
    /// With it too, whose login it needs, where a label says so.
    Login(&'static str),
    /// Where users log in with Keystone.
    Keystone,
    /// With it too, where the auto healer is asked for.
    Healer,
    /// Where this one is asked for to serve ingresses; that of Octavia needs the cloud provider too.
    Ingress(ingress::Ingress),
    /// With the cloud provider too, where the template's volume driver is `cinder`, and a label does not say otherwise.
    Cinder(&'static str),
    /// Where the cluster is watched.
    Monitoring,
}

/// A manifest.
#[derive(Clone, Copy, Debug)]
enum Manifest {
    /// Its project's, by address; `TAG` is the version, `REACHED` how an ingress controller is reached.
    Project(&'static str),
    /// Ours, written for the cluster.
    Ours(Document),
}

/// A document of ours.
#[derive(Clone, Copy, Debug)]
enum Document {
    CloudConfig,
    CloudController,
    Autoscaler,
    AutoHealer,
    OctaviaIngress,
    KeystonePolicy,
    KeystoneAuth,
    Prometheus,
    KubeStateMetrics,
    NodeExporter,
}

impl Document {
    fn file(self) -> &'static str {
        match self {
            Self::CloudConfig => "cloud-config.json",
            Self::CloudController => "cloud-controller-manager.json",
            Self::Autoscaler => "cluster-autoscaler.json",
            Self::AutoHealer => "magnum-auto-healer.json",
            Self::OctaviaIngress => "octavia-ingress-controller.json",
            // `scripts/master.sh` knows it.
            Self::KeystonePolicy => "keystone-auth-policy.json",
            Self::KeystoneAuth => "keystone-auth.json",
            Self::Prometheus => "prometheus.json",
            Self::KubeStateMetrics => "kube-state-metrics.json",
            Self::NodeExporter => "node-exporter.json",
        }
    }

    /// None where the cluster is told nothing by it.
    fn write(self, input: &StackInput<'_>, choices: &Choices, tag: &str) -> Result<Option<String>, RenderError> {
        Ok(Some(match self {
            Self::CloudConfig => cloud_config::secret(choices, login(input)?),
            Self::CloudController => cloud_config::controller(input, choices, tag, &cloud_config::secret(choices, login(input)?)),
            Self::Autoscaler => autoscaler::documents(input, choices, login(input)?, tag),
            Self::AutoHealer => auto_healer::documents(input, choices, login(input)?, tag),
            Self::OctaviaIngress => ingress::documents(input, choices, login(input)?, tag),
            Self::KeystonePolicy => return Ok(keystone_auth::policy(input)),
            Self::KeystoneAuth => keystone_auth::documents(input, choices, tag)?,
            Self::Prometheus => monitoring::prometheus(input.labels, choices, tag)?,
            Self::KubeStateMetrics => monitoring::kube_state_metrics(choices, tag),
            Self::NodeExporter => monitoring::node_exporter(choices, tag),
        }))
    }
}

/// What the cloud provider gets.
fn login<'a>(input: &StackInput<'a>) -> Result<&'a Access, RenderError> {
    match input.cloud {
        CloudProvider::Given(access) => Ok(access),
        _ => Err(RenderError::new(PARAMETER, "what the cloud provider gets was not looked up")),
    }
}

const ADDONS: [Addon; 13] = [
    // First: nodes take no other pods before it runs.
    Addon {
        name: "openstack-cloud-controller-manager",
        wanted: Wanted::CloudProvider,
        tag: "cloud_provider_tag",
        version: |of| of.cloud_provider,
        manifests: &[
            Manifest::Ours(Document::CloudConfig),
            cloud_provider!("controller-manager/cloud-controller-manager-roles.yaml"),
            cloud_provider!("controller-manager/cloud-controller-manager-role-bindings.yaml"),
            Manifest::Ours(Document::CloudController),
        ],
        images: &[],
    },
    Addon {
        name: "cinder-csi",
        wanted: Wanted::Cinder("cinder_csi_enabled"),
        tag: "cinder_csi_plugin_tag",
        version: |of| of.cloud_provider,
        manifests: &[
            cloud_provider!("cinder-csi-plugin/csi-cinder-driver.yaml"),
            cloud_provider!("cinder-csi-plugin/cinder-csi-controllerplugin-rbac.yaml"),
            cloud_provider!("cinder-csi-plugin/cinder-csi-controllerplugin.yaml"),
            cloud_provider!("cinder-csi-plugin/cinder-csi-nodeplugin-rbac.yaml"),
            cloud_provider!("cinder-csi-plugin/cinder-csi-nodeplugin.yaml"),
        ],
        images: &[
            ("csi_attacher_tag", "csi-attacher"),
            ("csi_liveness_probe_tag", "livenessprobe"),
            ("csi_node_driver_registrar_tag", "csi-node-driver-registrar"),
            ("csi_provisioner_tag", "csi-provisioner"),
            ("csi_resizer_tag", "csi-resizer"),
            ("csi_snapshotter_tag", "csi-snapshotter"),
        ],
    },
    Addon {
        name: "keystone-auth",
        wanted: Wanted::Keystone,
        tag: "k8s_keystone_auth_tag",
        version: |of| of.cloud_provider,
        manifests: &[Manifest::Ours(Document::KeystonePolicy), Manifest::Ours(Document::KeystoneAuth)],
        images: &[],
    },
    Addon {
        name: "cluster-autoscaler",
        wanted: Wanted::Login(AUTO_SCALING),
        tag: "autoscaler_tag",
        version: |of| of.autoscaler,
        manifests: &[Manifest::Ours(Document::Autoscaler)],
        images: &[],
    },
    Addon {
        name: "magnum-auto-healer",
        wanted: Wanted::Healer,
        tag: "magnum_auto_healer_tag",
        version: |of| of.cloud_provider,
        manifests: &[Manifest::Ours(Document::AutoHealer)],
        images: &[],
    },
    Addon {
        name: "octavia-ingress-controller",
        wanted: Wanted::Ingress(ingress::Ingress::Octavia),
        tag: "octavia_ingress_controller_tag",
        version: |of| of.cloud_provider,
        manifests: &[Manifest::Ours(Document::OctaviaIngress)],
        images: &[],
    },
    // `scripts/master.sh` knows it.
    Addon {
        name: "ingress-nginx",
        wanted: Wanted::Ingress(ingress::Ingress::Nginx),
        tag: "nginx_ingress_controller_tag",
        version: |of| of.ingress_nginx,
        manifests: &[Manifest::Project(
            "https://raw.githubusercontent.com/kubernetes/ingress-nginx/controller-TAG/deploy/static/provider/REACHED/deploy.yaml",
        )],
        images: &[],
    },
    Addon {
        name: "metrics-server",
        wanted: Wanted::Label("metrics_server_enabled", true),
        tag: "metrics_server_tag",
        version: |of| of.metrics_server,
        manifests: &[Manifest::Project("https://github.com/kubernetes-sigs/metrics-server/releases/download/TAG/components.yaml")],
        images: &[],
    },
    Addon {
        name: "node-problem-detector",
        wanted: Wanted::Label("npd_enabled", true),
        tag: "node_problem_detector_tag",
        version: |of| of.node_problem_detector,
        manifests: &[
            Manifest::Project("https://raw.githubusercontent.com/kubernetes/node-problem-detector/TAG/deployment/rbac.yaml"),
            Manifest::Project(
                "https://raw.githubusercontent.com/kubernetes/node-problem-detector/TAG/deployment/node-problem-detector-config.yaml",
            ),
            Manifest::Project(
                "https://raw.githubusercontent.com/kubernetes/node-problem-detector/TAG/deployment/node-problem-detector.yaml",
            ),
        ],
        images: &[],
    },
    Addon {
        name: "dashboard",
        wanted: Wanted::Label("kube_dashboard_enabled", false),
        tag: "kube_dashboard_version",
        version: |of| of.dashboard,
        manifests: &[Manifest::Project("https://raw.githubusercontent.com/kubernetes/dashboard/TAG/aio/deploy/recommended.yaml")],
        images: &[],
    },
    // Before the others that watch: with it comes their namespace.
    Addon {
        name: "prometheus",
        wanted: Wanted::Monitoring,
        tag: "prometheus_tag",
        version: |of| of.prometheus,
        manifests: &[Manifest::Ours(Document::Prometheus)],
        images: &[],
    },
    Addon {
        name: "kube-state-metrics",
        wanted: Wanted::Monitoring,
        tag: "kube_state_metrics_tag",
        version: |of| of.kube_state_metrics,
        manifests: &[Manifest::Ours(Document::KubeStateMetrics)],
        images: &[],
    },
    Addon {
        name: "node-exporter",
        wanted: Wanted::Monitoring,
        tag: "node_exporter_tag",
        version: |of| of.node_exporter,
        manifests: &[Manifest::Ours(Document::NodeExporter)],
        images: &[],
    },
];

/// An add-on that a cluster gets, and at which version.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    addon: &'static Addon,
    tag: String,
    /// Versions of images that differ from the manifests', as `NAME=VERSION`.
    images: Vec<String>,
}

impl Addon {
    fn is_wanted(&self, input: &StackInput<'_>) -> Result<bool, RenderError> {
        match self.wanted {
            Wanted::Label(name, default) => Ok(choices::flag(input, name)?.unwrap_or(default)),
            Wanted::CloudProvider => Ok(input.cloud.is_there()),
            Wanted::Keystone => Ok(input.keystone.is_some()),
            // A cluster that has none has it by an option that has changed since, or from before: it goes on without.
            Wanted::Login(name) => Ok(input.cloud.is_there() && input.verify_ca && choices::flag(input, name)?.unwrap_or(false)),
            // Words that a new cluster may not have are those of one that was made before they were read.
            Wanted::Healer => Ok(input.cloud.is_there() && auto_healer::is_asked_for(input.labels) == Ok(true)),
            Wanted::Ingress(this) => {
                let is_possible = this == ingress::Ingress::Nginx || input.cloud.is_there();
                Ok(is_possible && ingress::asked_for(input.labels) == Ok(Some(this)))
            }
            // Its stack says whether; a version that cannot be may have come with another template since, and what is there stays as it is.
            Wanted::Monitoring => Ok(input.has_monitoring && matches!(monitoring::asked_for(input.labels), Ok(Some(_)))),
            Wanted::Cinder(name) => {
                Ok(choices::flag(input, name)?.unwrap_or(true) && input.volume_driver == Some(CINDER) && input.cloud.is_there())
            }
        }
    }
}

/// The add-ons of a cluster, in the order in which they are installed.
pub(super) fn choose(input: &StackInput<'_>, release: &Release) -> Result<Vec<Chosen>, RenderError> {
    let mut chosen = Vec::new();
    for addon in &ADDONS {
        if addon.is_wanted(input)? {
            let is_given = |label: &str| input.labels.get(label).is_some_and(|tag| !tag.trim().is_empty());
            let images = addon.images.iter().filter(|(label, _)| is_given(label));
            let default = (addon.version)(release);
            let images = images.map(|(label, name)| Ok(format!("{name}={}", choices::version(input, label, default)?)));
            let images = images.collect::<Result<_, RenderError>>()?;
            chosen.push(Chosen { addon, tag: choices::version(input, addon.tag, default)?, images });
        }
    }
    Ok(chosen)
}

/// What a master applies. Holds secrets: no `Debug`.
pub(super) struct Files {
    pub list: String,
    /// Documents of ours, by the names of their files.
    pub documents: Vec<(&'static str, String)>,
}

/// What a master applies: the list, a line for each manifest with the add-on, where it is, what it must be where that is known, and which images
/// have other versions; and the files of documents of ours.
///
/// # Errors
/// When nobody has looked up what the cloud provider gets, or where Keystone is, and the cluster has what needs it.
pub(super) fn files(input: &StackInput<'_>, choices: &Choices) -> Result<Files, RenderError> {
    let (mut list, mut documents) = (String::new(), Vec::new());
    for Chosen { addon, tag, images } in &choices.addons {
        for manifest in addon.manifests {
            let place = match manifest {
                Manifest::Project(address) => address.replace("TAG", tag).replace("REACHED", ingress::manifest_of_nginx(input.cloud)),
                Manifest::Ours(document) => {
                    let Some(text) = document.write(input, choices, tag)? else { continue };
                    documents.push((document.file(), text));
                    format!("file://{BASE}/{FOLDER}/{}", document.file())
                }
            };
            // `scripts/master.sh` takes the sum off.
            let sum = catalogue::sum(&place).map(|sum| format!("sha256={sum}"));
            let words: Vec<&str> = sum.iter().chain(images).map(String::as_str).collect();
            let line = format!("{} {} {}", addon.name, input.download(&place), words.join(","));
            writeln!(list, "{}", line.trim_end()).expect("a text takes it");
        }
    }
    Ok(Files { list, documents })
}

#[cfg(test)]
mod tests {
    use model::driver::DriverName;
    use model::kubernetes::Version;

    use super::*;
    use crate::driver::heat::catalogue::KUBE_VERSION;

    #[test]
    fn users_are_told_the_defaults_that_hold() {
        let default = |name: &str| DriverName::K8sFedoraCoreosV1.label(name).and_then(|label| label.default);
        let release = catalogue::of(Version::parse(KUBE_VERSION).expect("a version").minor);
        for addon in &ADDONS {
            match addon.wanted {
                Wanted::Label(name, wanted) => assert_eq!(default(name), Some(if wanted { "true" } else { "false" }), "{}", addon.name),
                Wanted::Cinder(name) => assert_eq!(default(name), Some("true"), "{}", addon.name),
                Wanted::Login(name) => assert_eq!(default(name), Some("false"), "{}", addon.name),
                Wanted::Keystone => assert_eq!(default(keystone_auth::PARAMETER), Some("true"), "{}", addon.name),
                Wanted::Healer => assert_eq!(default(auto_healer::LABEL), Some("false"), "{}", addon.name),
                Wanted::Ingress(_) => assert_eq!(default(ingress::LABEL), None, "{}", addon.name),
                Wanted::Monitoring => assert_eq!(default(monitoring::PARAMETER), Some("false"), "{}", addon.name),
                Wanted::CloudProvider => {}
            }
            assert_eq!(default(addon.tag), Some((addon.version)(release)), "{}", addon.name);
        }
    }

    #[test]
    fn the_version_follows_that_of_kubernetes() {
        let version = |minor| (ADDONS[0].version)(catalogue::of(minor));
        assert_eq!([31, 33, 34, 40].map(version), ["v1.31.3", "v1.33.0", "v1.34.1", "v1.36.0"]);
    }
}
