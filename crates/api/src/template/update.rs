//! `PATCH /v1/clustertemplates/{uuid or name}`: rules T-20 to T-26.

use model::json::Labels;
use model::store::{Conn, StoreError, template};
use model::template::ClusterTemplate;

use super::{check_found, check_name_servers, check_network_driver, check_root_disks, check_storage, wanted};
use crate::answer::Answer;
use crate::cloud_checks;
use crate::context::Context;
use crate::error::ApiError;
use crate::label;
use crate::policy::Act;
use crate::view::patch::{self, Change};
use crate::view::template::{SCHEMA, TemplateView, assign, attributes};

/// Attributes that cannot be removed (T-22).
const MANDATORY: &[&str] = &[
    "network_driver",
    "external_network_id",
    "tls_disabled",
    "public",
    "server_type",
    "coe",
    "registry_enabled",
    "cluster_distro",
    "hidden",
    "image_id",
];

/// Changes a template.
pub async fn update(cx: Context) -> Result<Answer, ApiError> {
    let changes = cx.patch(MANDATORY, &[])?;
    // An admin must pass the policy for all projects, and still sees only what he could use: his own, and the public ones.
    cx.wide_scope(Act::TemplateUpdateEverywhere)?;
    let (visible, ident) = (&super::usable(&cx), cx.arg("template"));
    let (seen, in_use) = cx
        .shared
        .store
        .read(async |conn: &mut Conn| {
            let row = super::find(conn, visible, ident).await?;
            let in_use = template::is_in_use(conn, &row.template_id()).await?;
            Ok((row, in_use))
        })
        .await?;
    cx.allow_object(Act::TemplateUpdate, &seen)?;
    let mut row = patched(&seen, &changes)?;
    let changed = changed_columns(&seen, &row);
    if changed.iter().any(|c| matches!(*c, "public" | "hidden")) {
        super::allow_publish(&cx)?;
    }
    if in_use && !allowed_in_use(&changed, &row) {
        return Err(ApiError::Invalid(format!("ClusterTemplate {} is referenced by one or multiple clusters.", seen.uuid)));
    }
    if changed.is_empty() {
        return Answer::ok(&TemplateView { row: &seen, base: &cx.base });
    }
    // A change of words needs no question to the cloud, nor can it be refused for what the cloud has lost meanwhile.
    if !changed.iter().all(|c| matches!(*c, "name" | "public" | "hidden" | "tags")) {
        check_network_driver(&cx, &row)?;
        // What came here under other rules, and is not touched, stands in the way of nothing else.
        if row.docker_storage_driver != seen.docker_storage_driver || row.docker_volume_size != seen.docker_volume_size {
            check_storage(&row)?;
        }
        if row.dns_nameserver != seen.dns_nameserver {
            check_name_servers(&row)?;
        }
        let labels = given_labels(&seen, &row);
        if let Some(driver) = row.driver_name() {
            label::check(&cx, driver, &labels)?;
            label::check_place(&cx, driver, &labels, None)?;
        }
        let found = cloud_checks::look_up(&cx, &wanted(&row)).await?;
        check_found(&row, &found)?;
        // A new image brings its distribution with it, unless the patch says which it is.
        if let Some(image) = row.image_id.as_deref().filter(|_| row.image_id != seen.image_id)
            && !changes.iter().any(|change| change.field == "cluster_distro")
        {
            row.cluster_distro = found.image(image)?.os_distro.clone();
        }
        check_root_disks(&cx, &row, &found)?;
    }
    row.updated_at = Some(model::time::whole_seconds(model::time::now()));
    // As upstream: the answer is the row as it was saved, before the database stamped the change.
    let shown = ClusterTemplate { updated_at: seen.updated_at, ..row.clone() };
    let answer = Answer::ok(&TemplateView { row: &shown, base: &cx.base })?;
    let (cx, kept, seen, row, changed) = (&cx, &answer, &seen, &row, &changed);
    cx.shared
        .store
        .write(async |conn: &mut Conn| {
            template::replace(conn, seen, row).await?;
            // A cluster may have been made from it while the cloud was asked.
            if !allowed_in_use(changed, row) && template::is_in_use(conn, &row.template_id()).await? {
                return Err(StoreError::InUse { what: "cluster template", key: row.uuid.clone() });
            }
            cx.keep(conn, kept).await
        })
        .await?;
    Ok(answer)
}

/// The row as the patch would have it.
pub fn patched(seen: &ClusterTemplate, changes: &[Change]) -> Result<ClusterTemplate, ApiError> {
    let before = patch::document(&TemplateView { row: seen, base: "" })?;
    let after = patch::applied(&before, changes, &SCHEMA)?;
    let mut row = seen.clone();
    for field in attributes() {
        if let Some(value) = after.get(field.name).filter(|value| before.get(field.name) != Some(value)) {
            assign(&mut row, field.name, value)?;
        }
    }
    Ok(row)
}

/// The labels that have another value now; all of them where another driver is to read them.
fn given_labels(before: &ClusterTemplate, after: &ClusterTemplate) -> Labels {
    let (old, mut given) = (before.labels(), after.labels());
    if before.driver_name() == after.driver_name() {
        given.0.retain(|name, value| old.0.get(name) != Some(value));
    }
    given
}

/// Which fields have another value now.
fn changed_columns(before: &ClusterTemplate, after: &ClusterTemplate) -> Vec<&'static str> {
    let (a, b) = (before, after);
    let mut changed = Vec::new();
    let mut note = |name, differs: bool| {
        if differs {
            changed.push(name);
        }
    };
    note("name", a.name != b.name);
    note("public", a.is_public() != b.is_public());
    note("hidden", a.is_hidden() != b.is_hidden());
    note("tags", a.tags != b.tags);
    let others = a.flavor_id != b.flavor_id
        || a.master_flavor_id != b.master_flavor_id
        || a.keypair_id != b.keypair_id
        || a.image_id != b.image_id
        || a.external_network_id != b.external_network_id
        || a.dns_nameserver != b.dns_nameserver
        || a.apiserver_port != b.apiserver_port
        || a.docker_volume_size != b.docker_volume_size
        || a.fixed_network != b.fixed_network
        || a.fixed_subnet != b.fixed_subnet
        || a.cluster_distro != b.cluster_distro
        || a.coe != b.coe
        || a.http_proxy != b.http_proxy
        || a.https_proxy != b.https_proxy
        || a.no_proxy != b.no_proxy
        || a.registry_enabled != b.registry_enabled
        || a.network_driver != b.network_driver
        || a.labels() != b.labels()
        || a.tls_disabled != b.tls_disabled
        || a.server_type != b.server_type
        || a.volume_driver != b.volume_driver
        || a.insecure_registry != b.insecure_registry
        || a.docker_storage_driver != b.docker_storage_driver
        || a.master_lb_enabled != b.master_lb_enabled
        || a.floating_ip_enabled != b.floating_ip_enabled
        || a.driver != b.driver;
    note("others", others);
    changed
}

/// A template in use may change in one way only (T-26): name, public to true, hidden, or tags to a value.
fn allowed_in_use(changed: &[&str], row: &ClusterTemplate) -> bool {
    match changed {
        ["name" | "hidden"] => true,
        ["public"] => row.is_public(),
        ["tags"] => row.tags.is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::view::patch::Op;
    use crate::view::template::empty;

    fn change(op: Op, field: &str, key: Option<&str>, value: Value) -> Change {
        Change { op, field: field.into(), key: key.map(str::to_owned), value }
    }

    #[test]
    fn patches_apply_as_upstream_applies_them() {
        let apply =
            |row: &ClusterTemplate, op, field: &str, key: Option<&str>, value: Value| patched(row, &[change(op, field, key, value)]);
        let row = empty("u".into(), "p".into(), "u".into());
        let row = apply(&row, Op::Replace, "labels", None, "{'a': 'b'}".into()).expect("applies");
        let row = apply(&row, Op::Add, "labels", Some("c"), true.into()).expect("applies");
        assert_eq!(row.labels.as_deref(), Some(r#"{"a": "b", "c": "True"}"#));
        assert!(apply(&row, Op::Remove, "labels", Some("zz"), Value::Null).is_err());
        let row = apply(&row, Op::Add, "tags", None, "x".into()).expect("applies");
        assert!(apply(&row, Op::Add, "tags", None, "y".into()).is_err());
        assert!(apply(&row, Op::Replace, "nonsense", None, "y".into()).is_err());
        let row = apply(&row, Op::Replace, "docker_volume_size", None, "5".into()).expect("decimal text is taken");
        let row = apply(&row, Op::Remove, "floating_ip_enabled", None, Value::Null).expect("applies");
        assert_eq!((row.docker_volume_size, row.floating_ip_enabled), (Some(5), Some(true)));
        let row = apply(&row, Op::Replace, "labels", None, "None".into()).expect("None clears");
        assert_eq!(row.labels.as_deref(), Some("{}"));
    }

    #[test]
    fn a_template_in_use_changes_in_one_way_only() {
        let before = empty("u".into(), "p".into(), "u".into());
        let judge = |edit: fn(&mut ClusterTemplate)| {
            let mut after = before.clone();
            edit(&mut after);
            allowed_in_use(&changed_columns(&before, &after), &after)
        };
        assert!(judge(|t| t.name = Some("x".into())));
        assert!(judge(|t| t.public = Some(true)));
        assert!(judge(|t| t.tags = Some("x".into())));
        assert!(!judge(|_| {}));
        assert!(!judge(|t| t.flavor_id = Some("x".into())));
        assert!(!judge(|t| {
            t.name = Some("x".into());
            t.hidden = Some(true);
        }));
    }
}
