//! Everything in one process: API, conductor, SQLite, a doorbell in memory and, unless a real one is named, a simulated cloud.
//!
//! It is the same program: it writes a `magnum.conf` into its data folder and wires the roles from it as the two services do.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use cloud_simulator::{Options, SERVICE_PASSWORD, Simulator};
use model::queue::{Doorbell, Listener, memory};
use model::store::migrate;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::config::{Cli, Config};
use crate::shutdown::Shutdown;
use crate::wire::{self, ApiRole, ConductorRole};

/// Where a standalone installation can be reached; printed as one line of JSON when it is ready.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub api_url: String,
    pub auth_url: String,
}

/// What is decided on the command line.
#[derive(Clone, Debug)]
pub struct Plan {
    pub listen: SocketAddr,
    /// The Keystone of the cloud to use; none: a simulated cloud in this process.
    pub cloud: Option<String>,
    /// How long the simulated cloud takes for a stack.
    pub stack_duration: Duration,
    /// Print what to export for the `openstack` client.
    pub explain: bool,
}

/// Starts the simulated cloud if one is wanted. It lives as long as what is returned.
pub async fn simulated_cloud(plan: &Plan) -> anyhow::Result<(Option<Simulator>, String)> {
    if let Some(url) = &plan.cloud {
        return Ok((None, url.clone()));
    }
    let options = Options { stack_duration: plan.stack_duration, delete_duration: plan.stack_duration / 3, ..Options::default() };
    let simulator = Simulator::start(options).await.context("start the simulated cloud")?;
    let auth_url = simulator.auth_url();
    Ok((Some(simulator), auth_url))
}

/// Writes the configuration of the installation and reads it back.
pub fn configuration(data: &Path, auth_url: &str) -> anyhow::Result<Config> {
    let path = data.join("magnum.conf");
    let database = data.join("magnum.sqlite");
    let text = format!(
        "[DEFAULT]\nhost = standalone\nstate_path = {data}\n\
         [database]\nconnection = sqlite:///{database}\n\
         [operations]\npoll_min_ms = 250\npoll_max_ms = 2000\nscan_seconds = 1\nsettle_seconds = 5\n\
         [certificates]\ncert_manager_type = x509keypair\n\
         [keystone_auth]\nauth_url = {auth_url}\nauth_type = password\nusername = magnum\npassword = {SERVICE_PASSWORD}\n\
         project_name = service\nuser_domain_name = Default\nproject_domain_name = Default\n\
         [keystone_authtoken]\nwww_authenticate_uri = {auth_url}\ninterface = public\nregion_name = RegionOne\n\
         [trust]\ntrustee_domain_name = magnum\ntrustee_domain_admin_name = magnum_domain_admin\n\
         trustee_domain_admin_password = {SERVICE_PASSWORD}\ntrustee_domain_admin_domain_name = magnum\n",
        data = data.display(),
        database = database.display(),
    );
    write_private(data, &path, &text).with_context(|| format!("write {}", path.display()))?;
    Config::load(&Cli { config_file: vec![path], config_dir: Vec::new() }, "magnum-standalone")
}

/// Writes a file of the folder that only its owner can read, in the place of one that others could.
fn write_private(folder: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Runs both roles until the shutdown begins.
pub async fn run(plan: &Plan, config: &Config, simulator: Option<&Simulator>, shutdown: &Shutdown) -> anyhow::Result<()> {
    let store = wire::store(config)?;
    migrate::upgrade(&store).await.context("make the schema")?;
    let (bell, ears) = memory::channel();
    let doorbell = Doorbell::Memory(bell);
    let shown = wire::metrics(config, config.metrics.api_port, &store).await?;
    shown.metrics.show_doorbell(&doorbell);
    let metrics = shown.metrics.clone();
    let listener = TcpListener::bind(plan.listen).with_context(|| format!("listen on {}", plan.listen))?;
    let api_url = format!("http://{}", listener.local_addr()?);
    if let Some(simulator) = simulator {
        simulator.cloud().set_container_infra_url(format!("{api_url}/v1"));
    }
    let auth_url = config.keystone_auth.auth_url.clone().unwrap_or_default();
    announce(plan, &Ready { api_url, auth_url })?;
    let api = wire::api(
        config,
        ApiRole { store: store.clone(), metrics: metrics.clone(), doorbell: Some(doorbell.clone()), listener: Some(listener) },
        shutdown,
    );
    let conductor = wire::conductor(config, ConductorRole { store, metrics, doorbell: Some((doorbell, Listener::Memory(ears))) }, shutdown);
    // One role that fails ends the other: half a service helps nobody.
    let stop_both = async |role: anyhow::Result<()>| {
        shutdown.begin();
        role
    };
    let (api, conductor) = futures::join!(async { stop_both(api.await).await }, async { stop_both(conductor.await).await });
    api.and(conductor)
}

/// The listener is bound and takes connections from here on.
fn announce(plan: &Plan, ready: &Ready) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(ready)?)?;
    if plan.explain {
        writeln!(
            out,
            "\nThe simulated cloud is up. In another shell:\n\n\
             \x20 export OS_AUTH_URL={} OS_IDENTITY_API_VERSION=3 OS_REGION_NAME=RegionOne\n\
             \x20 export OS_USERNAME=demo OS_PASSWORD=demo OS_PROJECT_NAME=demo OS_USER_DOMAIN_NAME=Default OS_PROJECT_DOMAIN_NAME=Default\n\
             \x20 openstack coe cluster template create small --coe kubernetes --image fedora-coreos --external-network public \\\n\
             \x20   --flavor m1.small --master-flavor m1.small\n\
             \x20 openstack coe cluster create blue --cluster-template small\n\
             \x20 openstack coe cluster list\n\n\
             Ctrl-C ends it.",
            ready.auth_url
        )?;
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_an_installation_writes_only_its_owner_can_read() {
        let folder = tempfile::tempdir().expect("a folder");
        // Of an earlier release.
        let conf = folder.path().join("magnum.conf");
        fs::write(&conf, "[DEFAULT]\n").expect("a file");
        fs::set_permissions(&conf, Permissions::from_mode(0o644)).expect("set");
        let config = configuration(folder.path(), "http://127.0.0.1:5000/v3").expect("a configuration");
        let store = wire::store(&config).expect("a store");
        migrate::upgrade(&store).await.expect("the schema");
        let mut names = Vec::new();
        for entry in fs::read_dir(folder.path()).expect("the folder") {
            let entry = entry.expect("an entry");
            let mode = entry.metadata().expect("a file").permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{entry:?}: {mode:o}");
            names.push(entry.file_name());
        }
        assert!(names.iter().any(|name| name == "magnum.conf") && names.iter().any(|name| name == "magnum.sqlite"), "{names:?}");
    }
}
