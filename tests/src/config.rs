//! The `magnum.conf` of a test.

use cloud_simulator::SERVICE_PASSWORD;

/// What differs from test to test.
#[derive(Clone, Debug)]
pub struct Settings {
    pub database: String,
    pub transport: String,
    /// Name of the queue: one for each test.
    pub topic: String,
    pub auth_url: String,
}

/// What all services of a test share. Times are short, so that what is left to time is soon seen.
pub fn shared(settings: &Settings) -> String {
    let Settings { database, transport, topic, auth_url } = settings;
    let login = format!(
        "auth_url = {auth_url}\nauth_type = password\nusername = magnum\npassword = {SERVICE_PASSWORD}\nproject_name = service\n\
         user_domain_name = Default\nproject_domain_name = Default\n"
    );
    format!(
        "[DEFAULT]\ntransport_url = {transport}\n\
         [database]\nconnection = {database}\n\
         [conductor]\ntopic = {topic}\n\
         [operations]\nlease_seconds = 4\nheartbeat_seconds = 1\nscan_seconds = 1\nsettle_seconds = 2\npoll_min_ms = 100\npoll_max_ms = 500\n\
         housekeeping_seconds = 1\nforce_delete_seconds = 16\n\
         [certificates]\ncert_manager_type = x509keypair\n\
         [keystone_auth]\n{login}\
         [keystone_authtoken]\nwww_authenticate_uri = {auth_url}\nregion_name = RegionOne\ninterface = public\n{login}\
         [trust]\ntrustee_domain_name = magnum\ntrustee_domain_admin_name = magnum_domain_admin\n\
         trustee_domain_admin_password = {SERVICE_PASSWORD}\ntrustee_domain_admin_domain_name = magnum\n"
    )
}

/// The times of a real deployment, which are the defaults, in place of those of [`shared`].
pub const PRODUCTION_TIMES: &str = "[operations]\nlease_seconds = 8\nheartbeat_seconds = 2\nscan_seconds = 2\nsettle_seconds = 30\n\
                                    poll_min_ms = 1000\npoll_max_ms = 3000\nhousekeeping_seconds = 60\nforce_delete_seconds = 600\n";

/// Room for many clusters of one project.
pub const MANY_CLUSTERS: &str = "[quotas]\nmax_clusters_per_project = 1000000\n";

/// What an API process has for itself.
pub fn api(name: &str, port: u16, workers: usize) -> String {
    format!("[DEFAULT]\nhost = {name}\n[api]\nhost = 127.0.0.1\nport = {port}\nworkers = {workers}\n")
}

/// What a conductor has for itself: services are told apart by their host.
pub fn conductor(name: &str) -> String {
    format!("[DEFAULT]\nhost = {name}\ngraceful_shutdown_timeout = 10\n[conductor]\nworkers = 2\n")
}
