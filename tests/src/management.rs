//! A management cluster for a test, with all that the product must be told of it: a kubeconfig, the chart, the real helm.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_simulator::{ManagementCluster, ManagementOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The management cluster, and the folder with what belongs to it.
pub struct Management {
    pub cluster: ManagementCluster,
    folder: TempDir,
    helm: PathBuf,
    is_three: bool,
}

impl Management {
    /// Starts one whose controllers take so long for a step; `major` is that of helm, `3` or `4`.
    ///
    /// # Errors
    /// When it cannot be started, or there is no helm: a test that needs one does not pass without.
    pub async fn start(step: Duration, major: &str) -> Result<Self> {
        let cluster = ManagementCluster::start(ManagementOptions { step }).await.context("start a management cluster")?;
        let folder = tempfile::tempdir().context("make a folder")?;
        let management = Self { cluster, folder, helm: helm(major)?, is_three: major == "3" };
        management.write_kubeconfig(&management.cluster.kubeconfig())?;
        Ok(management)
    }

    /// What the product finds in its environment.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("chart/openstack-cluster");
        let text = |path: &Path| path.display().to_string();
        [
            ("KUBECONFIG_FILE", text(&self.kubeconfig())),
            ("HELM_CHART_REPO", String::new()),
            ("HELM_CHART_NAME", text(&chart)),
            ("DEFAULT_HELM_CHART_VERSION", String::new()),
            ("HELM_PROGRAM", text(&self.helm)),
            ("HELM_HOME", text(&self.folder.path().join("helm"))),
        ]
        .into_iter()
        .map(|(name, value)| (format!("OS_CAPI_HELM__{name}"), value))
        .collect()
    }

    /// As [`Self::environment`], with controllers that are restarted when authorities are rotated.
    pub fn with_controllers(&self) -> BTreeMap<String, String> {
        let mut environment = self.environment();
        environment.insert("OS_CAPI_HELM__CONTROLLER_DEPLOYMENTS".into(), self.cluster.install_controllers().join(","));
        environment.insert("OS_CAPI_HELM__CA_ROTATION_PAUSE_SECONDS".into(), "1".into());
        environment
    }

    /// What the product finds in its environment when there are several, by their names, and none is upstream's.
    ///
    /// # Panics
    /// Without any.
    pub fn several(named: &[(&str, &Self)]) -> BTreeMap<String, String> {
        let (_, first) = named.first().expect("there is one");
        let mut environment = first.environment();
        environment.remove("OS_CAPI_HELM__KUBECONFIG_FILE");
        let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        environment.insert("OS_CAPI_HELM__MANAGEMENT_CLUSTERS".into(), names.join(","));
        for (name, management) in named {
            let variable = format!("OS_CAPI_MANAGEMENT:{}__KUBECONFIG_FILE", name.to_uppercase());
            environment.insert(variable, management.kubeconfig().display().to_string());
        }
        environment
    }

    /// Where the kubeconfig is.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Writes a file beside the kubeconfig, which may name it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        std::fs::write(self.folder.path().join(name), text).with_context(|| format!("write {name}"))
    }

    /// Gives the product another kubeconfig.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_kubeconfig(&self, text: &str) -> Result<()> {
        std::fs::write(self.kubeconfig(), text).context("write the kubeconfig")
    }

    /// Runs helm against it, as an operator would.
    ///
    /// # Errors
    /// When it fails, with its words.
    pub fn helm(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.helm);
        command.args(arguments).arg("--kubeconfig").arg(self.kubeconfig()).env("HOME", self.folder.path());
        let output = command.output().context("run helm")?;
        ensure!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The names of all releases with their status.
    ///
    /// # Errors
    /// As [`Self::helm`].
    pub fn releases(&self) -> Result<Vec<(String, String)>> {
        // Of the fourth major version on, all is what it lists.
        let all: &[&str] = if self.is_three { &["--all"] } else { &[] };
        let printed = self.helm(&[&["list", "--all-namespaces", "--output", "json"], all].concat())?;
        let all: Vec<Value> = serde_json::from_str(&printed).context("read the list of releases")?;
        let text = |release: &Value, key: &str| release[key].as_str().unwrap_or_default().to_owned();
        Ok(all.iter().map(|release| (text(release, "name"), text(release, "status"))).collect())
    }

    /// What there is of each kind, but for templates: helm keeps those, as the chart says.
    pub fn left(&self) -> Vec<String> {
        let mut left = self.cluster.leftovers();
        left.retain(|line| !line.contains("Template "));
        left
    }

    /// The only object of a kind whose name ends so.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn object(&self, kind: &str, name_end: &str) -> Result<Value> {
        let mut all = self.cluster.objects(kind);
        all.retain(|object| object["metadata"]["name"].as_str().is_some_and(|name| name.ends_with(name_end)));
        ensure!(all.len() == 1, "{} objects {kind} …{name_end}", all.len());
        all.pop().context("one")
    }
}

/// A template of an image that was made for Cluster API.
pub fn template(name: &str) -> Value {
    json!({"name": name, "coe": "kubernetes", "image_id": "ubuntu-capi", "external_network_id": "public", "keypair_id": "key",
        "flavor_id": "m1.medium", "master_flavor_id": "m1.medium", "master_lb_enabled": true, "driver": "k8s_capi_helm_v1"})
}

/// One with an image of the next Kubernetes.
pub fn next_template(name: &str) -> Value {
    let mut next = template(name);
    next["image_id"] = "ubuntu-capi-next".into();
    next
}

/// The real helm: `MAGNUM_TEST_HELM` (`MAGNUM_TEST_HELM4`), else what `xtask helm` fetches.
fn helm(major: &str) -> Result<PathBuf> {
    let variable = if major == "4" { "MAGNUM_TEST_HELM4" } else { "MAGNUM_TEST_HELM" };
    if let Some(path) = env::var_os(variable).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let xtask =
        env::var_os("XTASK").with_context(|| format!("neither {variable} nor XTASK is set: run the tests by `cargo xtask test`"))?;
    let output = Command::new(xtask).args(["helm", major]).output().context("run xtask helm")?;
    ensure!(output.status.success(), "xtask helm: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}
