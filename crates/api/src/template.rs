//! Cluster templates.

pub mod create;
pub mod delete;
pub mod list;
pub mod show;
pub mod update;

use model::driver::DriverName;
use model::id::TemplateId;
use model::json::Labels;
use model::store::template::Visible;
use model::store::{Conn, Scope, StoreError, template};
use model::template::ClusterTemplate;
use serde_json::Value;

use crate::cloud_checks::{Found, Wanted};
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::schema::{self, is_uuid_like};

/// The one template that a path or body names: by uuid if it looks like one, else by name.
pub async fn find(conn: &mut Conn, visible: &Visible, ident: &str) -> Result<ClusterTemplate, StoreError> {
    if is_uuid_like(ident) {
        template::fetch(conn, visible, &TemplateId::new(ident)).await
    } else {
        template::fetch_by_name(conn, visible, ident).await
    }
}

/// What a caller sees without any all-projects right: his own, and the public ones.
pub fn usable(cx: &Context) -> Visible {
    Visible { own: cx.own_scope(), public: true, hidden: cx.caller.is_admin }
}

/// The same within a scope that may be wider.
pub fn visible(cx: &Context, scope: Scope) -> Visible {
    Visible { own: scope, ..usable(cx) }
}

/// Whether the caller may make templates public or hidden (T-16, T-24).
fn allow_publish(cx: &Context) -> Result<(), ApiError> {
    match cx.allow_own(Act::TemplatePublish) {
        Ok(_) => Ok(()),
        Err(ApiError::Policy(rule)) => Err(ApiError::Forbidden(format!(
            "Not authorized to set public or hidden flag for cluster template: policy {rule} does not allow it."
        ))),
        Err(other) => Err(other),
    }
}

/// The size of the boot volume that labels or configuration ask for (C-13).
pub fn boot_volume_size(cx: &Context, labels: &Labels) -> Result<i64, ApiError> {
    match labels.0.get("boot_volume_size") {
        None => Ok(cx.shared.settings.default_boot_volume_size),
        Some(text) => text
            .trim()
            .parse()
            .map_err(|_| schema::invalid("labels[boot_volume_size]", &Value::String(text.clone()), "It must be an integer number of GB")),
    }
}

/// What a template names in other services.
pub fn wanted(row: &ClusterTemplate) -> Wanted<'_> {
    Wanted {
        flavors: [&row.flavor_id, &row.master_flavor_id].into_iter().flatten().map(String::as_str).collect(),
        image: row.image_id.as_deref(),
        external_network: row.external_network_id.as_deref(),
        fixed_network: row.fixed_network.as_deref(),
        fixed_subnet: row.fixed_subnet.as_deref(),
        keypair: None,
    }
}

/// Whether all of it is there (T-13 to T-15).
pub fn check_found(row: &ClusterTemplate, found: &Found) -> Result<(), ApiError> {
    if let Some(image) = &row.image_id {
        found.image(image)?;
    }
    for flavor in [&row.flavor_id, &row.master_flavor_id].into_iter().flatten() {
        found.flavor(flavor)?;
    }
    found.networks(&wanted(row))
}

/// A driver that serves the server type, distribution and kind of a template's clusters, whichever the template names (C-06).
pub fn serving(row: &ClusterTemplate, disabled: &[String]) -> Result<DriverName, ApiError> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (server, distro, coe) = (text(&row.server_type), text(&row.cluster_distro), text(&row.coe));
    DriverName::for_triple(&server, &distro, &coe, disabled)
        .ok_or_else(|| ApiError::Invalid(format!("Cluster type ({server}, {distro}, {coe}) not supported.")))
}

/// Whether this cloud allows the network driver (T-05).
pub fn check_network_driver(cx: &Context, row: &ClusterTemplate) -> Result<(), ApiError> {
    let allowed = &cx.shared.settings.allowed_network_drivers;
    match row.network_driver.as_deref() {
        Some(driver) if !allowed.iter().any(|a| a == driver || a == "all") => {
            let rule = format!("This cloud allows {}", allowed.join(", "));
            Err(schema::invalid("network_driver", &Value::from(driver), &rule))
        }
        _ => Ok(()),
    }
}

/// Whether the storage driver has the volume that it needs (T-07).
pub fn check_storage(row: &ClusterTemplate) -> Result<(), ApiError> {
    if row.docker_storage_driver.as_deref() == Some("devicemapper") && row.docker_volume_size.unwrap_or(0) < 3 {
        return Err(ApiError::Invalid("docker_volume_size must be at least 3 GB with the storage driver devicemapper.".into()));
    }
    Ok(())
}

/// Whether the name servers are addresses (T-18).
pub fn check_name_servers(row: &ClusterTemplate) -> Result<(), ApiError> {
    match row.dns_nameserver.as_deref() {
        Some(servers) if !servers.split(',').all(|s| s.trim().parse::<std::net::Ipv4Addr>().is_ok()) => {
            let rule = "It must be an IPv4 address, or several separated by commas";
            Err(schema::invalid("dns_nameserver", &Value::from(servers), rule))
        }
        _ => Ok(()),
    }
}

/// Root disk rules for both flavors (T-17, T-25).
pub fn check_root_disks(cx: &Context, row: &ClusterTemplate, found: &Found) -> Result<(), ApiError> {
    let size = boot_volume_size(cx, &row.labels())?;
    for flavor in [&row.flavor_id, &row.master_flavor_id].into_iter().flatten() {
        found.root_disk(flavor, size)?;
    }
    Ok(())
}

const LETTERS: [&str; 24] = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi", "omicron", "pi",
    "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
];

/// A name for what came without one: `zeta-22-cluster`.
pub fn greek_name(noun: &str) -> String {
    let letter = LETTERS[rand::random_range(0..LETTERS.len())];
    format!("{letter}-{}-{noun}", rand::random_range(1..=24))
}
