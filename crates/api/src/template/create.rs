//! `POST /v1/clustertemplates`: rules T-01 to T-19.

use model::driver::DriverName;
use model::id::TemplateId;
use model::store::template::{self, Visible};
use model::store::{Conn, Scope, StoreError};
use model::template::ClusterTemplate;
use serde_json::Value;

use super::{boot_volume_size, check_found, check_name_servers, check_network_driver, check_root_disks, check_storage, greek_name, wanted};
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
    check_network_driver(&cx, &row)?;
    check_storage(&row)?;
    // As upstream: only where no driver is named must the image be there before anybody asks for the caller's right (T-08 to T-12).
    let named = row.driver.clone();
    if let Some(name) = &named {
        installed(&cx, name)?;
        cx.allow_own(Act::TemplateCreate)?;
    }
    let found = cloud_checks::look_up(&cx, &wanted(&row)).await?;
    let image = found.only_image(row.image_id.as_deref().unwrap_or_default())?;
    row.cluster_distro = image.os_distro.clone().or(row.cluster_distro);
    let driver = driver(&cx, named.or_else(|| image.magnum_driver.clone()), &row)?;
    cx.allow_own(Act::TemplateCreate)?;
    // Its image says which distribution it is, or is refused here.
    check_found(&row, &found)?;
    row.driver = Some(driver.as_str().to_owned());
    if body.given("network_driver").is_none() {
        choose_network_driver(&mut row, driver);
    }
    label::check(&cx, driver, &row.labels())?;
    // Its clusters may be of any project.
    label::check_place(&cx, driver, &row.labels(), None)?;
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
    check_name_servers(&row)?;
    store(&cx, &row, body.given("uuid").is_some()).await
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
/// them the one that serves the triple. Where none does, it is the first that is there, and only making a cluster is refused (C-06).
fn driver(cx: &Context, named: Option<String>, row: &ClusterTemplate) -> Result<DriverName, ApiError> {
    let settings = &cx.shared.settings;
    if let Some(name) = named.or_else(|| settings.default_driver.clone()) {
        return installed(cx, &name);
    }
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (server, distro, coe) = (text(&row.server_type), text(&row.cluster_distro), text(&row.coe));
    let can_work = |d: &DriverName| !is_disabled(cx, *d) && (*d != DriverName::K8sCapiHelmV1 || !settings.management_clusters.is_empty());
    let cluster_api = DriverName::of_nameless(&server, &distro, &coe).filter(|d| *d == DriverName::K8sCapiHelmV1 && can_work(d));
    let found = cluster_api.map_or_else(|| super::serving(row, &settings.disabled_drivers), Ok);
    found.or_else(|unserved| DriverName::ALL.iter().copied().filter(can_work).min_by_key(|d| d.as_str()).ok_or(unserved))
}

/// The driver of this name, if it is there (T-10).
fn installed(cx: &Context, name: &str) -> Result<DriverName, ApiError> {
    let found = DriverName::parse(name).filter(|driver| !is_disabled(cx, *driver));
    found.ok_or_else(|| ApiError::Invalid(format!("Driver {name} is not installed.")))
}

fn is_disabled(cx: &Context, driver: DriverName) -> bool {
    cx.shared.settings.disabled_drivers.iter().any(|name| name == driver.as_str())
}

/// The network driver where nobody asked for one: the default, unless the driver cannot make it.
fn choose_network_driver(row: &mut ClusterTemplate, driver: DriverName) {
    if let Some(possible) = driver.network_drivers()
        && !possible.iter().any(|name| row.network_driver.as_deref() == Some(name))
    {
        row.network_driver = possible.first().map(|name| (*name).to_owned());
    }
}

/// `is_chosen`: the uuid is the caller's choice.
async fn store(cx: &Context, row: &ClusterTemplate, is_chosen: bool) -> Result<Answer, ApiError> {
    let everything = Visible { own: Scope::All, public: true, hidden: true };
    let id = row.template_id();
    let (everything, id) = (&everything, &id);
    let stored = cx
        .shared
        .store
        .write(async |conn: &mut Conn| {
            // In old databases of upstream the row of a cluster's template may be gone: whoever gave another one its uuid would say what the
            // cluster's nodes are made of. None comes to refer to it after this look, for that needs the row.
            if is_chosen && template::is_in_use(conn, id).await? {
                return Err(StoreError::Duplicate { what: "a cluster template with this uuid" });
            }
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
