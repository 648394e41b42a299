//! `POST /v1/clustertemplates`: rules T-01 to T-19.

use model::driver::DriverName;
use model::id::TemplateId;
use model::store::template::{self, Visible};
use model::store::{Conn, Scope, StoreError};
use model::template::ClusterTemplate;
use serde_json::Value;

use super::{boot_volume_size, check_fields, check_found, check_root_disks, greek_name, wanted};
use crate::answer::{self, Answer};
use crate::cloud_checks;
use crate::context::Context;
use crate::error::ApiError;
use crate::label;
use crate::policy::Act;
use crate::view::schema::{self, Body, plain_uuid};
use crate::view::template::{SCHEMA, TemplateView, assign, attributes, empty};

/// Makes a template.
pub async fn create(cx: Context) -> Result<Answer, ApiError> {
    let body = cx.read(&SCHEMA)?;
    let mut row = read(&cx, &body)?;
    check_fields(&cx, &row)?;
    let wanted = wanted(&row);
    let found = cloud_checks::look_up(&cx, &wanted).await?;
    let image = found.image(row.image_id.as_deref().unwrap_or_default())?;
    let named = row.driver.clone().or_else(|| image.magnum_driver.clone());
    let distro = image.os_distro.clone().unwrap_or_default();
    let driver = driver(&cx, named, &row, &distro)?;
    row.driver = Some(driver.as_str().to_owned());
    choose_network_driver(&cx, &mut row, driver, body.given("network_driver").is_some())?;
    label::check(&cx, driver, &row.labels())?;
    // Its clusters may be of any project.
    label::check_place(&cx, driver, &row.labels(), None)?;
    cx.allow_own(Act::TemplateCreate)?;
    check_found(&mut row, &found)?;
    if row.is_public() || row.is_hidden() {
        super::allow_publish(&cx)?;
    }
    // Explicit null of a flavor says "none", which needs a boot volume; leaving the key out says "the cluster will name one".
    let size = boot_volume_size(&cx, &row.labels())?;
    for key in ["flavor_id", "master_flavor_id"] {
        if body.is_null(key) && size <= 0 {
            return Err(schema::invalid(key, &Value::Null, "It must name a flavor unless the label boot_volume_size is above 0"));
        }
    }
    check_root_disks(&cx, &row, &found)?;
    store(&cx, &row).await
}

/// The request as a row (T-01).
fn read(cx: &Context, body: &Body) -> Result<ClusterTemplate, ApiError> {
    // Whatever the spelling: the column holds the plain one only.
    let uuid = body.text("uuid").map_or_else(|| TemplateId::generate().as_str().to_owned(), plain_uuid);
    let project = cx.caller.project_id.clone().ok_or_else(|| ApiError::Forbidden("A template needs a project-scoped token.".into()))?;
    let mut row = empty(uuid, project.0, cx.caller.user_id.0.clone());
    for field in attributes() {
        if let Some(value) = body.given(field.name) {
            assign(&mut row, field.name, value)?;
        }
    }
    if body.is_null("server_type") {
        return Err(schema::invalid("server_type", &Value::Null, "It must be vm or bm"));
    }
    if row.name.is_none() {
        row.name = Some(greek_name("template"));
    }
    if row.network_driver.is_none() {
        row.network_driver = Some(cx.shared.settings.default_network_driver.clone());
    }
    Ok(row)
}

/// The driver: the one that the request names, else the image, else the configuration (T-08), if it is there (T-10); without any of
/// them the one that serves the triple (T-11).
fn driver(cx: &Context, named: Option<String>, row: &ClusterTemplate, distro: &str) -> Result<DriverName, ApiError> {
    let settings = &cx.shared.settings;
    if let Some(name) = named.or_else(|| settings.default_driver.clone()) {
        let found = DriverName::parse(&name).filter(|d| !settings.disabled_drivers.iter().any(|x| x == d.as_str()));
        return found.ok_or_else(|| ApiError::Invalid(format!("Driver {name} is not installed.")));
    }
    let (server, coe) = (row.server_type.as_deref().unwrap_or("vm"), row.coe.as_deref().unwrap_or_default());
    let is_disabled = |driver: DriverName| settings.disabled_drivers.iter().any(|x| x == driver.as_str());
    let cluster_api = DriverName::of_nameless(server, distro, coe)
        .filter(|driver| *driver == DriverName::K8sCapiHelmV1 && !settings.management_clusters.is_empty() && !is_disabled(*driver));
    let found = cluster_api.or_else(|| DriverName::for_triple(server, distro, coe, &settings.disabled_drivers));
    found.ok_or_else(|| ApiError::Invalid(format!("Cluster type ({server}, {distro}, {coe}) not supported.")))
}

/// The network driver of a driver that has few of them: one that it cannot have is refused, one that nobody asked for is not forced on it.
fn choose_network_driver(cx: &Context, row: &mut ClusterTemplate, driver: DriverName, is_asked: bool) -> Result<(), ApiError> {
    let Some(allowed) = driver.network_drivers() else { return Ok(()) };
    if !is_asked && !allowed.contains(&cx.shared.settings.default_network_driver.as_str()) {
        row.network_driver = allowed.first().map(|name| (*name).to_owned());
    }
    match row.network_driver.as_deref() {
        Some(name) if !allowed.contains(&name) => {
            let rule = format!("With the driver {} it must be one of {}", driver.as_str(), allowed.join(", "));
            Err(schema::invalid("network_driver", &Value::from(name), &rule))
        }
        _ => Ok(()),
    }
}

async fn store(cx: &Context, row: &ClusterTemplate) -> Result<Answer, ApiError> {
    let everything = Visible { own: Scope::All, public: true, hidden: true };
    let id = row.template_id();
    let (everything, id) = (&everything, &id);
    let stored = cx
        .shared
        .store
        .write(async |conn: &mut Conn| {
            template::insert(conn, row).await?;
            let row = template::fetch(conn, everything, id).await?;
            let location = format!("{}/v1/clustertemplates/{}", cx.base, row.uuid);
            let answer = answer::in_store(Answer::created(&TemplateView { row: &row, base: &cx.base }, location))?;
            cx.keep(conn, &answer).await?;
            Ok(answer)
        })
        .await;
    stored.map_err(|error| match error {
        StoreError::Duplicate { .. } => ApiError::Conflict(format!("A ClusterTemplate with UUID {} already exists.", row.uuid)),
        other => other.into(),
    })
}
