//! The configuration: `magnum.conf` read as oslo.config reads it, one struct for each section.
//!
//! What upstream accepts starts here too. Unknown keys never stop a start, they are reported once; a value that does not
//! fit its type does, with section, key, place and rule. Secrets are in types that do not print.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

mod capi;
mod cloud;
mod cluster;
mod database;
mod document;
mod error;
mod host;
mod ini;
mod known;
mod messaging;
mod options;
mod requests;
mod sample;
mod service;
mod source;
mod substitute;
#[cfg(test)]
mod tests;
mod transport;
mod value;
mod watch;

pub use capi::{CapiHelm, CapiHelmClusterLabels, CapiManagement};
pub use cloud::{Authtoken, Client, Credentials, Interface, MemcacheStrategy};
pub use cluster::{CertManager, Certificates, Cinder, Cluster, ClusterHeat, ClusterTemplate, Drivers, Kubernetes, Quotas, Trust, X509};
pub use database::{Database, DatabaseUrl, MysqlUrl};
pub use document::document;
pub use error::{ConfigError, OptionAt};
pub use messaging::{Notifications, Policy, Rabbit};
pub use requests::{Cors, Middleware, Requests};
pub use sample::sample;
pub use service::{Api, Conductor, Operations, Service};
pub use source::Place;
pub use transport::{TransportHost, TransportUrl};
pub use value::{Positive, Repeated};
pub use watch::{Metrics, Tracing};

use model::placement::DEFAULT;
use options::{OptionInfo, Reader, Section};
use source::Sources;

/// The command line options that name configuration files. A later file wins over an earlier one, directories win over
/// files.
#[derive(Debug, Clone, Default, Args)]
pub struct Cli {
    /// Configuration file; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub config_file: Vec<PathBuf>,
    /// Directory whose *.conf files are read in order of their names; may be repeated.
    #[arg(long, value_name = "DIR")]
    pub config_dir: Vec<PathBuf>,
}

/// Why a key of a configuration file has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Upstream has the option, this program does not need it.
    NoEffect,
    /// Nobody knows it: a misspelling perhaps.
    Unknown,
}

/// A key of a configuration file that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub section: String,
    pub key: String,
    pub place: Place,
    pub reason: Reason,
}

type SectionInfo = (&'static str, &'static [&'static str], &'static [OptionInfo]);

/// Declares the whole configuration: field, type, section.
macro_rules! config {
    ($($(#[doc = $help:literal])* $field:ident : $type:ident in $section:literal),* $(,)?) => {
        /// Everything the programs are told.
        #[derive(Debug, Clone)]
        pub struct Config {
            $($(#[doc = $help])* #[doc = concat!("`[", $section, "]`")] pub $field: $type,)*
            /// `[capi_management:NAME]` of each management cluster, by its name.
            pub capi_management: BTreeMap<String, CapiManagement>,
            /// The section whose `cafile` and `insecure` count in calls to the cloud.
            pub trust_section: String,
            /// The files read, weakest first.
            pub files: Vec<PathBuf>,
            /// Keys of these files that have no effect.
            pub unknown: Vec<Finding>,
            directories: Vec<PathBuf>,
        }

        /// Name, meaning and options of every section.
        fn sections() -> &'static [SectionInfo] {
            const SECTIONS: &[SectionInfo] = &[$(($section, $type::ABOUT, $type::OPTIONS)),*];
            SECTIONS
        }

        impl Config {
            fn read(sources: &Sources) -> Result<Self, ConfigError> {
                let reader = Reader { sources };
                let config = Self {
                    $($field: $type::read(&reader, $section)?,)*
                    capi_management: BTreeMap::new(),
                    trust_section: String::new(),
                    files: sources.files(),
                    unknown: Vec::new(),
                    directories: Vec::new(),
                };
                config.completed(sources, &reader)
            }
        }
    };
}

config! {
    service: Service in "DEFAULT",
    api: Api in "api",
    conductor: Conductor in "conductor",
    operations: Operations in "operations",
    database: Database in "database",
    certificates: Certificates in "certificates",
    x509: X509 in "x509",
    trust: Trust in "trust",
    cluster: Cluster in "cluster",
    cluster_heat: ClusterHeat in "cluster_heat",
    cluster_template: ClusterTemplate in "cluster_template",
    drivers: Drivers in "drivers",
    capi_helm: CapiHelm in "capi_helm",
    /// What holds for a management cluster whose section says nothing; no file can set it.
    capi_management_unset: CapiManagement in "capi_management:NAME",
    capi_helm_cluster_labels: CapiHelmClusterLabels in "capi_helm_cluster_labels",
    kubernetes: Kubernetes in "kubernetes",
    cinder: Cinder in "cinder",
    quotas: Quotas in "quotas",
    heat_client: Client in "heat_client",
    glance_client: Client in "glance_client",
    nova_client: Client in "nova_client",
    neutron_client: Client in "neutron_client",
    cinder_client: Client in "cinder_client",
    octavia_client: Client in "octavia_client",
    barbican_client: Client in "barbican_client",
    /// Completed from `[keystone_authtoken]`.
    keystone_auth: Credentials in "keystone_auth",
    keystone_authtoken: Authtoken in "keystone_authtoken",
    /// The login in the section about callers' tokens.
    keystone_authtoken_login: Credentials in "keystone_authtoken",
    oslo_messaging_rabbit: Rabbit in "oslo_messaging_rabbit",
    oslo_messaging_notifications: Notifications in "oslo_messaging_notifications",
    oslo_middleware: Middleware in "oslo_middleware",
    requests: Requests in "requests",
    cors: Cors in "cors",
    oslo_policy: Policy in "oslo_policy",
    metrics: Metrics in "metrics",
    tracing: Tracing in "tracing",
}

impl Config {
    /// Reads the files the command line names (or those in the usual places) and the environment.
    pub fn load(cli: &Cli, program: &str) -> anyhow::Result<Self> {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let variables = std::env::vars_os().filter_map(utf8_pair);
        Ok(Self::load_from(cli, program, home.as_deref().map(Path::new), variables)?)
    }

    /// `load` with the outside world as arguments.
    fn load_from(
        cli: &Cli,
        program: &str,
        home: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let sources = Sources::load(cli, program, home)?.with_environment(variables);
        let mut config = Self::read(&sources)?;
        config.directories.extend(cli.config_dir.iter().cloned());
        let parents = cli.config_file.iter().rev().filter_map(|file| file.parent());
        config.directories.extend(parents.map(Path::to_owned));
        config.directories.extend(source::default_directories(home));
        Ok(config)
    }

    /// Reads a text as if it were the only file, without the environment.
    pub fn parse_for_test(text: &str) -> anyhow::Result<Self> {
        let mut sources = Sources::default();
        sources.add_text(Path::new("magnum.conf"), text)?;
        Ok(Self::read(&sources)?)
    }

    /// What one option alone cannot say: logins that stand elsewhere, the host's name, keys nobody read.
    fn completed(mut self, sources: &Sources, reader: &Reader<'_>) -> Result<Self, ConfigError> {
        let mut login_sections = Vec::new();
        let mut names = ["keystone_auth", "keystone_authtoken"].map(str::to_owned);
        for (login, name) in [&mut self.keystone_auth, &mut self.keystone_authtoken_login].into_iter().zip(&mut names) {
            if let Some(section) = login.auth_section.as_deref().map(ini::section_name) {
                *login = Credentials::read(reader, &section)?;
                login_sections.push(section.clone());
                *name = section;
            }
        }
        let [own, other] = names;
        self.trust_section = if self.keystone_auth.has_trust() { own } else { other };
        self.keystone_auth = self.keystone_auth.or(&self.keystone_authtoken_login);
        // The one of kubeconfig_file has no other name; whether there is one, the section does not say.
        for name in self.capi_helm.management_clusters.iter().map(String::as_str).chain([DEFAULT]) {
            let section = CapiManagement::read(reader, &format!("{}{name}", options::MANAGEMENT))?;
            self.capi_management.insert(name.to_owned(), section);
        }
        self.database.connection = self.database.connection.map(|url| url.with(&self.database.connection_parameters));
        self.service.host = self.service.host.or_else(host::fully_qualified_name);
        if self.api.enabled_ssl {
            for (key, file) in [("ssl_cert_file", &self.api.ssl_cert_file), ("ssl_key_file", &self.api.ssl_key_file)] {
                if file.is_none() {
                    let need = "enabled_ssl needs it";
                    return Err(ConfigError::Missing { section: "api", key, need });
                }
            }
        }
        let is_read = |section: &str, key: &str| {
            let is_login = login_sections.iter().any(|login| login == section);
            // Of a management cluster that nobody names nothing is read. NAME is the sample file's.
            let is_named = |name: &str| name == "name" || self.capi_management.contains_key(name);
            if section.strip_prefix(options::MANAGEMENT).is_some_and(|name| !is_named(name)) {
                return false;
            }
            options::is_honoured(section, key) || (is_login && options::is_honoured("keystone_auth", key))
        };
        // Read, but for nothing: worth a word where somebody wants something else than what is so anyway.
        let is_idle = |section: &str, key: &str| {
            let text = sources.find(&[(section, key)], false).and_then(|mut found| found.texts.pop()).unwrap_or_default();
            let text = text.trim();
            known::is_inert(section, key) && !text.is_empty() && Some(text) != options::default_of(section, key)
        };
        let reason = |section: &str, key: &str| match is_read(section, key) {
            true => is_idle(section, key).then_some(Reason::NoEffect),
            false if known::is_known(section, key) => Some(Reason::NoEffect),
            false => Some(Reason::Unknown),
        };
        let finding = |(section, key, place): (&str, &str, Place)| {
            let reason = reason(section, key)?;
            Some(Finding { section: section.to_owned(), key: key.to_owned(), place, reason })
        };
        self.unknown = sources.keys().into_iter().filter_map(finding).collect();
        let of_notifications = self.oslo_messaging_notifications.transport_url.as_ref();
        for (section, url) in [("DEFAULT", Some(&self.service.transport_url)), ("oslo_messaging_notifications", of_notifications)] {
            if let (Some(url), Some(found)) = (url, sources.find(&[(section, "transport_url")], false)) {
                self.unknown.extend(url.without_effect(section, &found.place));
            }
        }
        Ok(self)
    }

    /// The database's address, or an error that names the missing key.
    pub fn database_url(&self) -> Result<&DatabaseUrl, ConfigError> {
        self.database.connection.as_ref().ok_or(ConfigError::Missing {
            section: "database",
            key: "connection",
            need: "the service keeps everything in a database",
        })
    }

    /// A file beside the configuration, such as the policy file: absolute names as they are, others searched where
    /// oslo.config searches. None when there is no such file.
    pub fn find_file(&self, name: &Path) -> Option<PathBuf> {
        if name.is_absolute() {
            return name.exists().then(|| name.to_owned());
        }
        self.directories.iter().map(|directory| directory.join(name)).find(|path| path.exists())
    }

    /// The `system_scope` that somebody has set for the service user.
    fn scope_without_effect(&self) -> Option<&str> {
        self.keystone_auth.system_scope.as_deref().or(self.keystone_authtoken_login.system_scope.as_deref())
    }

    /// Logs once which keys have no effect. Call it when logging works.
    pub fn report_unknown(&self) {
        let list = |reason| {
            let keys: Vec<String> = self
                .unknown
                .iter()
                .filter(|finding| finding.reason == reason)
                .map(|finding| format!("[{}] {} ({})", finding.section, finding.key, finding.place))
                .collect();
            (!keys.is_empty()).then(|| keys.join(", "))
        };
        for driver in self.oslo_messaging_notifications.without_effect() {
            tracing::warn!(
                "[oslo_messaging_notifications] driver = {driver} has no effect: notifications go to messaging or messagingv2 only"
            );
        }
        if let Some(scope) = self.scope_without_effect() {
            tracing::warn!(
                "[keystone_auth] system_scope = {scope} (or that of [keystone_authtoken]) has no effect: the service user's token is for its \
                 project, to which Heat's address and Barbican's secrets belong"
            );
        }
        if let Some(keys) = list(Reason::Unknown) {
            tracing::warn!("Unknown configuration options are ignored: {keys}");
        }
        if let Some(keys) = list(Reason::NoEffect) {
            tracing::info!("Configuration options that have no effect here: {keys}");
        }
    }
}

fn utf8_pair((name, value): (OsString, OsString)) -> Option<(String, String)> {
    Some((name.into_string().ok()?, value.into_string().ok()?))
}
