//! Queries on `cluster_template`.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::connection::{Conn, on_conn};
use super::error::StoreError;
use super::many::{Many, among};
use super::named::has_uuid;
use super::page::Page;
use super::recurring::Recur;
use super::scope::Scope;
use super::{cluster as clusters, operation};
use crate::id::TemplateId;
use crate::schema::cluster_template;
use crate::template::ClusterTemplate;

/// Which templates a query sees: the caller's own, and the public ones as far as they are not hidden from him.
#[derive(Clone, Debug)]
pub struct Visible {
    pub own: Scope,
    /// Public templates of others too.
    pub public: bool,
    /// Hidden public ones as well (admins).
    pub hidden: bool,
}

macro_rules! visible {
    ($query:expr, $visible:expr) => {{
        let query = $query;
        let public = cluster_template::public.eq(true);
        let shown = cluster_template::hidden.eq(false).or(cluster_template::hidden.is_null());
        match (&$visible.own, $visible.public, $visible.hidden) {
            (Scope::All, _, _) => query,
            (Scope::Project(p), true, true) => query.filter(cluster_template::project_id.eq(p.0.clone()).or(public)),
            (Scope::Project(p), true, false) => query.filter(cluster_template::project_id.eq(p.0.clone()).or(public.and(shown))),
            (Scope::Project(p), false, _) => query.filter(cluster_template::project_id.eq(p.0.clone())),
            (Scope::User(u), true, true) => query.filter(cluster_template::user_id.eq(u.0.clone()).or(public)),
            (Scope::User(u), true, false) => query.filter(cluster_template::user_id.eq(u.0.clone()).or(public.and(shown))),
            (Scope::User(u), false, _) => query.filter(cluster_template::user_id.eq(u.0.clone())),
        }
    }};
}

/// The templates that have a uuid.
macro_rules! with_uuid {
    () => {
        cluster_template::table.select(ClusterTemplate::as_select()).filter(has_uuid!(cluster_template))
    };
}

/// The template with this uuid, if visible.
pub async fn find(conn: &mut Conn, visible: &Visible, id: &TemplateId) -> Result<Option<ClusterTemplate>, StoreError> {
    Ok(on_conn!(conn, |c| {
        let query =
            cluster_template::table.select(ClusterTemplate::as_select()).filter(cluster_template::uuid.eq(id.as_str())).into_boxed();
        visible!(query, visible).first(&mut **c).await.optional()
    })?)
}

/// The template with this uuid.
pub async fn fetch(conn: &mut Conn, visible: &Visible, id: &TemplateId) -> Result<ClusterTemplate, StoreError> {
    find(conn, visible, id).await?.ok_or_else(|| StoreError::NotFound { what: "cluster template", key: id.to_string() })
}

/// The template with this row number, if visible: clients may address a template by it when they make a cluster.
pub async fn fetch_by_number(conn: &mut Conn, visible: &Visible, number: i32) -> Result<ClusterTemplate, StoreError> {
    let found = on_conn!(conn, |c| {
        let query = with_uuid!().filter(cluster_template::id.eq(number)).into_boxed();
        visible!(query, visible).first(&mut **c).await.optional()
    })?;
    found.ok_or_else(|| StoreError::NotFound { what: "cluster template", key: number.to_string() })
}

/// The one visible template with this name.
pub async fn fetch_by_name(conn: &mut Conn, visible: &Visible, name: &str) -> Result<ClusterTemplate, StoreError> {
    let mut rows: Vec<ClusterTemplate> = on_conn!(conn, |c| {
        let query = with_uuid!().filter(cluster_template::name.eq(name)).limit(2).into_boxed();
        visible!(query, visible).load(&mut **c).await
    })?;
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        (Some(_), false) => Err(StoreError::Ambiguous { what: "cluster template", key: name.into() }),
        (None, _) => Err(StoreError::NotFound { what: "cluster template", key: name.into() }),
    }
}

/// The template with this uuid, whoever owns it.
pub async fn with_uuid(conn: &mut Conn, uuid: &str) -> Result<Option<ClusterTemplate>, StoreError> {
    Ok(on_conn!(conn, |c| {
        cluster_template::table
            .select(ClusterTemplate::as_select())
            .filter(cluster_template::uuid.eq(uuid))
            .first(&mut **c)
            .await
            .optional()
    })?)
}

/// The columns that a list can be sorted by.
pub const SORT_KEYS: &[&str] = &[
    "id",
    "uuid",
    "name",
    "flavor_id",
    "keypair_id",
    "image_id",
    "external_network_id",
    "dns_nameserver",
    "apiserver_port",
    "project_id",
    "user_id",
    "docker_volume_size",
    "fixed_network",
    "master_flavor_id",
    "cluster_distro",
    "coe",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "registry_enabled",
    "network_driver",
    "labels",
    "tls_disabled",
    "public",
    "server_type",
    "volume_driver",
    "insecure_registry",
    "docker_storage_driver",
    "master_lb_enabled",
    "fixed_subnet",
    "floating_ip_enabled",
    "hidden",
    "tags",
    "driver",
    "created_at",
    "updated_at",
];

/// Uuid and label column of the templates with these uuids.
pub async fn labels(conn: &mut Conn, ids: &[&str]) -> Result<Vec<(String, Option<String>)>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let many = Many::of("cluster_template.uuid", ids);
    Ok(on_conn!(conn, |c| {
        let query = cluster_template::table.select((cluster_template::uuid, cluster_template::labels)).into_boxed();
        among!(query, cluster_template::uuid, many).load(&mut **c).await
    })?)
}

/// One page.
pub async fn list(conn: &mut Conn, visible: &Visible, page: &Page) -> Result<Vec<ClusterTemplate>, StoreError> {
    let marker = match &page.marker {
        Some(uuid) => Some(fetch(conn, visible, &TemplateId::new(uuid.clone())).await?),
        None => None,
    };
    let order = page.order("cluster template", "cluster_template", SORT_KEYS)?;
    let rows: Vec<ClusterTemplate> = on_conn!(conn, |c| {
        let query = with_uuid!().limit(page.limit).order(order).into_boxed();
        let mut query = visible!(query, visible);
        if let Some(marker) = &marker {
            query = query.filter(order.behind(marker.id));
        }
        query.load(&mut **c).await?
    });
    if let (true, Some(marker)) = (rows.is_empty(), &marker) {
        // Nothing is behind a row that went meanwhile.
        fetch(conn, visible, &marker.template_id()).await?;
    }
    Ok(rows)
}

/// Inserts a template (its `id` is assigned by the database).
///
/// # Errors
/// [`StoreError::Duplicate`] when the uuid is taken.
pub async fn insert(conn: &mut Conn, row: &ClusterTemplate) -> Result<(), StoreError> {
    let result = on_conn!(conn, |c| diesel::insert_into(cluster_template::table).values(row).execute(&mut **c).await);
    match result.map_err(StoreError::from) {
        Err(StoreError::Duplicate { .. }) => Err(StoreError::Duplicate { what: "a cluster template with this uuid" }),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

/// Writes a changed template over its row, if the row is still as `seen`.
///
/// # Errors
/// [`StoreError::Stale`] when somebody has written meanwhile; [`StoreError::NotFound`] when it has gone.
pub async fn replace(conn: &mut Conn, seen: &ClusterTemplate, row: &ClusterTemplate) -> Result<(), StoreError> {
    // Locked first, compared then: `updated_at` has whole seconds, and says nothing of two changes in the same one.
    touch(conn, &seen.template_id()).await?;
    let visible = Visible { own: Scope::All, public: true, hidden: true };
    if fetch(conn, &visible, &seen.template_id()).await? != *seen {
        return Err(StoreError::Stale { what: "cluster template" });
    }
    on_conn!(conn, |c| {
        diesel::update(cluster_template::table.filter(cluster_template::id.eq(seen.id))).set(row).recurring().execute(&mut **c).await
    })?;
    Ok(())
}

/// Whether a cluster refers to it, or is being brought to it.
pub async fn is_in_use(conn: &mut Conn, id: &TemplateId) -> Result<bool, StoreError> {
    Ok(clusters::any_with_template(conn, id).await? || operation::is_upgraded_to(conn, id).await?)
}

/// Removes a template that is not in use.
///
/// # Errors
/// [`StoreError::InUse`].
pub async fn delete(conn: &mut Conn, id: &TemplateId) -> Result<(), StoreError> {
    // Delete first, look after: the row lock keeps a create or an upgrade of a cluster, which touches the template (see `touch`), behind us.
    on_conn!(conn, |c| diesel::delete(cluster_template::table.filter(cluster_template::uuid.eq(id.as_str()))).execute(&mut **c).await)?;
    if is_in_use(conn, id).await? {
        return Err(StoreError::InUse { what: "cluster template", key: id.to_string() });
    }
    Ok(())
}

/// The template as it is now, whatever this transaction has read before; nobody changes or deletes it for the rest of the transaction.
///
/// # Errors
/// [`StoreError::NotFound`] when it has gone meanwhile.
pub async fn lock(conn: &mut Conn, id: &TemplateId) -> Result<ClusterTemplate, StoreError> {
    let is_it = cluster_template::uuid.eq(id.as_str());
    let found: Vec<ClusterTemplate> = match conn {
        Conn::Mysql(c) => cluster_template::table.select(ClusterTemplate::as_select()).filter(is_it).for_update().load(&mut **c).await?,
        // Whoever writes is alone there.
        Conn::Sqlite(c) => cluster_template::table.select(ClusterTemplate::as_select()).filter(is_it).load(&mut **c).await?,
    };
    found.into_iter().next().ok_or_else(|| StoreError::NotFound { what: "cluster template", key: id.to_string() })
}

/// Locks the template's row against deletion for the rest of the transaction, by a write that changes nothing.
///
/// # Errors
/// [`StoreError::NotFound`] when it has gone meanwhile.
pub async fn touch(conn: &mut Conn, id: &TemplateId) -> Result<(), StoreError> {
    let rows = on_conn!(conn, |c| {
        diesel::update(cluster_template::table.filter(cluster_template::uuid.eq(id.as_str())))
            .set(cluster_template::uuid.eq(id.as_str()))
            .recurring()
            .execute(&mut **c)
            .await
    })?;
    if rows == 0 { Err(StoreError::NotFound { what: "cluster template", key: id.to_string() }) } else { Ok(()) }
}
