//! How sections declare their options, and how an option gets its value.
//!
//! One declaration yields the struct, the defaults, the table of known keys and the sample file, so that none of them can
//! fall behind the others.

use super::error::{ConfigError, OptionAt};
use super::source::{Found, Place, Sources};
use super::substitute::substitute;
use super::value::Value;
use super::{known, sections};

/// One option as declared.
pub(super) struct OptionInfo {
    pub name: &'static str,
    pub default: Option<&'static str>,
    /// What it means, line by line, as doc comments have it (each with a leading blank).
    pub help: &'static [&'static str],
}

/// A struct that is filled from one section.
pub(super) trait Section: Sized {
    const ABOUT: &'static [&'static str];
    const OPTIONS: &'static [OptionInfo];

    /// Reads every option from the section of that name.
    fn read(reader: &Reader<'_>, section: &str) -> Result<Self, ConfigError>;

    /// Sets one option from a text that stands elsewhere; none when there is no option of this name. The error completes "must be".
    fn set(&mut self, name: &str, text: &str) -> Option<Result<(), String>>;
}

/// Declares a section: `name: Type = "default"`, or without default for an option that may be unset.
macro_rules! section {
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
    ($(#[doc = $about:literal])+ $name:ident {
        $($(#[doc = $help:literal])+ $field:ident : $type:ty $(= $default:literal)?),* $(,)?
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone)]
        pub struct $name { $($(#[doc = $help])+ pub $field: $type),* }

        impl $crate::config::options::Section for $name {
            const ABOUT: &'static [&'static str] = &[$($about),+];
            const OPTIONS: &'static [$crate::config::options::OptionInfo] = &[$(
                $crate::config::options::OptionInfo {
                    name: stringify!($field),
                    default: $crate::config::options::section!(@default $($default)?),
                    help: &[$($help),+],
                }
            ),*];

            fn read(
                reader: &$crate::config::options::Reader<'_>,
                section: &str,
            ) -> Result<Self, $crate::config::error::ConfigError> {
                let mut defaults = <Self as $crate::config::options::Section>::OPTIONS.iter();
                Ok(Self { $($field: {
                    let option = defaults.next().expect("OPTIONS has an entry for each field, in order");
                    reader.get(section, option)?
                }),* })
            }

            fn set(&mut self, name: &str, text: &str) -> Option<Result<(), String>> {
                $(if name == stringify!($field) {
                    return Some(<$type as $crate::config::value::Value>::parse(text).map(|value| self.$field = value));
                })*
                None
            }
        }
    };
}
pub(super) use section;

/// Old names that still count, weaker than the new one: section, option, old section, old option.
const ALIASES: &[(&str, &str, &str, &str)] = &[
    ("DEFAULT", "log_dir", "DEFAULT", "logdir"),
    ("DEFAULT", "log_file", "DEFAULT", "logfile"),
    ("database", "connection", "DEFAULT", "sql_connection"),
    ("oslo_middleware", "max_request_body_size", "DEFAULT", "osapi_max_request_body_size"),
    ("oslo_middleware", "max_request_body_size", "DEFAULT", "max_request_body_size"),
    ("keystone_auth", "username", "keystone_auth", "user_name"),
    ("keystone_auth", "username", "keystone_auth", "user-name"),
    ("keystone_auth", "project_name", "keystone_auth", "tenant_name"),
    ("keystone_auth", "project_name", "keystone_auth", "tenant-name"),
    ("keystone_auth", "project_id", "keystone_auth", "tenant_id"),
    ("keystone_authtoken", "username", "keystone_authtoken", "user_name"),
    ("keystone_authtoken", "username", "keystone_authtoken", "user-name"),
    ("keystone_authtoken", "username", "keystone_authtoken", "admin_user"),
    ("keystone_authtoken", "password", "keystone_authtoken", "admin_password"),
    ("keystone_authtoken", "project_name", "keystone_authtoken", "tenant_name"),
    ("keystone_authtoken", "project_name", "keystone_authtoken", "tenant-name"),
    ("keystone_authtoken", "project_name", "keystone_authtoken", "admin_tenant_name"),
    ("keystone_authtoken", "project_id", "keystone_authtoken", "tenant_id"),
    ("capi_helm_cluster_labels", "csi_cinder_availability_zone", "capi_helm", "csi_cinder_availability_zone"),
    ("capi_helm_cluster_labels", "csi_cinder_reclaim_policy", "capi_helm", "csi_cinder_reclaim_policy"),
    ("capi_helm_cluster_labels", "csi_cinder_volume_binding_mode", "capi_helm", "csi_cinder_volume_binding_mode"),
    ("capi_helm_cluster_labels", "csi_cinder_fstype", "capi_helm", "csi_cinder_fstype"),
    ("capi_helm_cluster_labels", "csi_cinder_allow_volume_expansion", "capi_helm", "csi_cinder_allow_volume_expansion"),
    ("capi_helm_cluster_labels", "etcd_blockdevice_size", "capi_helm", "etcd_volume_size"),
    ("capi_helm_cluster_labels", "etcd_blockdevice_volume_type", "capi_helm", "etcd_volume_type"),
    ("keystone_authtoken", "www_authenticate_uri", "keystone_authtoken", "auth_uri"),
    ("oslo_messaging_rabbit", "ssl", "oslo_messaging_rabbit", "rabbit_use_ssl"),
    ("oslo_messaging_rabbit", "ssl_ca_file", "oslo_messaging_rabbit", "kombu_ssl_ca_certs"),
    ("oslo_messaging_rabbit", "ssl_cert_file", "oslo_messaging_rabbit", "kombu_ssl_certfile"),
    ("oslo_messaging_rabbit", "ssl_key_file", "oslo_messaging_rabbit", "kombu_ssl_keyfile"),
];

/// Sections that had another name once: every option of them is looked for there too.
const OLD_SECTIONS: &[(&str, &str)] = &[("cluster", "bay"), ("cluster_heat", "bay_heat"), ("cluster_template", "baymodel")];

/// Whether the key is one we read, under its own or an old name.
pub(super) fn is_honoured(section: &str, key: &str) -> bool {
    let renamed = OLD_SECTIONS.iter().find(|(_, old)| *old == section).map(|(new, _)| *new);
    let dashes = section.starts_with("keystone_auth") && key.contains('-');
    declared(section, key).is_some()
        || ALIASES.iter().any(|(_, _, old_section, old_key)| *old_section == section && *old_key == key)
        || renamed.is_some_and(|section| declared(section, key).is_some())
        || (dashes && declared(section, &key.replace('-', "_")).is_some())
}

/// What the names of the sections of management clusters begin with; all of these have the same options.
pub(super) const MANAGEMENT: &str = "capi_management:";

/// The default of an option as a file would have it; none where there is none, or no such option.
pub(super) fn default_of(section: &str, key: &str) -> Option<&'static str> {
    declared(section, key).and_then(|option| option.default)
}

fn declared(section: &str, key: &str) -> Option<&'static OptionInfo> {
    let section = if section.starts_with(MANAGEMENT) { "capi_management:NAME" } else { section };
    sections().iter().filter(|(name, _, _)| *name == section).find_map(|(_, _, options)| options.iter().find(|option| option.name == key))
}

/// Gives options their values.
pub(super) struct Reader<'a> {
    pub(super) sources: &'a Sources,
}

impl Reader<'_> {
    /// The value of an option: environment, files, default, in this order.
    pub(super) fn get<T: Value>(&self, section: &str, option: &OptionInfo) -> Result<T, ConfigError> {
        let key = option.name;
        let at = |place| Box::new(OptionAt { section: section.to_owned(), key: key.to_owned(), place });
        let mut found = self.find(section, key, T::MULTI);
        if T::EMPTY_IS_UNSET && found.as_ref().is_some_and(|found| found.texts.last().is_some_and(|text| text.trim().is_empty())) {
            found = None;
        }
        let found = match (found, option.default) {
            (Some(found), _) => found,
            (None, Some(default)) => Found { texts: vec![default.to_owned()], place: Place::Default },
            (None, None) => {
                return T::unset().ok_or_else(|| ConfigError::Value {
                    option: at(Place::Default),
                    rule: "set: it has no default".to_owned(),
                    shown: String::new(),
                });
            }
        };
        let mut path = vec![(section.to_owned(), key.to_owned())];
        let texts = found
            .texts
            .iter()
            .map(|text| self.expand(text, section, &mut path))
            .collect::<Result<Vec<_>, _>>()
            // What follows a dollar sign may be most of a password.
            .map_err(
                |reason| if T::SECRET { "a $ in it begins no name of an option (write $$ for a dollar sign)".to_owned() } else { reason },
            )
            .map_err(|reason| ConfigError::Substitution { option: at(found.place.clone()), reason })?;
        T::parse_all(&texts).map_err(|rule| ConfigError::Value {
            option: at(found.place),
            rule,
            shown: match texts.last() {
                Some(text) if !T::SECRET => format!(", not {text:?}"),
                _ => String::new(),
            },
        })
    }

    fn find(&self, section: &str, key: &str, multi: bool) -> Option<Found> {
        let mut names = vec![(section, key)];
        let dashed = key.replace('_', "-");
        if section.starts_with("keystone_auth") && dashed != key {
            names.push((section, &dashed));
        }
        for (new_section, new_key, old_section, old_key) in ALIASES {
            if *new_section == section && *new_key == key {
                names.push((old_section, old_key));
            }
        }
        for (new, old) in OLD_SECTIONS {
            if *new == section {
                names.push((old, key));
            }
        }
        self.sources.find(&names, multi)
    }

    /// Replaces the names in a text that stands in `section`; `path` holds the options being expanded.
    fn expand(&self, text: &str, section: &str, path: &mut Vec<(String, String)>) -> Result<String, String> {
        substitute(text, |name| {
            let (section, key) =
                self.resolve(section, name).ok_or_else(|| format!("${name} names no option (write $$ for a dollar sign)"))?;
            let step = (section.to_owned(), key.to_owned());
            if path.contains(&step) {
                let names: Vec<_> = path.iter().chain([&step]).map(|(section, key)| format!("{section}.{key}")).collect();
                return Err(format!("options refer to each other in a circle: {}", names.join(" -> ")));
            }
            let text = self
                .find(section, key, false)
                .and_then(|mut found| found.texts.pop())
                .or_else(|| declared(section, key).and_then(|option| option.default.map(str::to_owned)))
                .unwrap_or_default();
            path.push(step);
            let value = self.expand(&text, section, path)?;
            path.pop();
            Ok(value)
        })
    }

    /// The option a name means: `section.option`, or one of the same section, or one of `[DEFAULT]`.
    fn resolve<'n>(&self, section: &'n str, name: &'n str) -> Option<(&'n str, &'n str)> {
        let exists = |section: &str, key: &str| {
            self.find(section, key, false).is_some() || declared(section, key).is_some() || known::is_known(section, key)
        };
        if let Some((section, key)) = name.split_once('.') {
            return exists(section, key).then_some((section, key));
        }
        [section, "DEFAULT"].into_iter().find(|section| exists(section, name)).map(|section| (section, name))
    }
}
