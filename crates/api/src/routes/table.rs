//! Every route on one page.
//!
//! A line says all that is known of a route before its handler runs; the OpenAPI document is made of the same lines.

use super::{Holds, Parameter, Route, Takes};
use crate::microversion::MIN;
use crate::policy::Act::{self, *};
use crate::view::certificate::SIGN;
use crate::view::cluster::Depth;
use crate::view::{cluster as cluster_view, template as template_view};
use crate::{certificate, cluster, service, template};

const LIMIT: Parameter = Parameter { name: "limit", holds: Holds::Count, since: MIN, about: "Items at most; the server may give fewer." };
const MARKER: Parameter =
    Parameter { name: "marker", holds: Holds::Uuid, since: MIN, about: "The uuid of the last item of the page before." };
const SORT_KEY: Parameter = Parameter { name: "sort_key", holds: Holds::Text, since: MIN, about: "The column to sort by; default id." };
const SORT_DIR: Parameter = Parameter { name: "sort_dir", holds: Holds::OneOf(&["asc", "desc"]), since: MIN, about: "Default asc." };
const PAGE: &[Parameter] = &[MARKER, LIMIT, SORT_KEY, SORT_DIR];

const CA_CERT_TYPE: Parameter =
    Parameter { name: "ca_cert_type", holds: Holds::Text, since: MIN, about: "etcd, front_proxy, or (anything else) the cluster's own." };

/// A handler as the table holds it.
macro_rules! to {
    ($handler:path) => {
        |cx| Box::pin($handler(cx))
    };
    ($handler:path, $variant:expr) => {
        |cx| Box::pin($handler(cx, $variant))
    };
}

/// A route of the first microversion, without parameters and body.
const fn route(
    method: &'static str,
    path: &'static str,
    name: &'static str,
    success: u16,
    acts: &'static [Act],
    handler: fn(crate::context::Context) -> futures::future::BoxFuture<'static, Result<crate::answer::Answer, crate::error::ApiError>>,
) -> Route {
    Route { method, path, name, since: MIN, acts, query: &[], body: Takes::Nothing, success, handler }
}

#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    Route { query: PAGE, ..route("GET", "clusters", "list_clusters", 200, &[ClusterGetAll, ClusterGetAllEverywhere], to!(cluster::list::list, Depth::Short)) },
    Route { query: PAGE, ..route("GET", "clusters/detail", "list_clusters_detail", 200, &[ClusterDetail, ClusterDetailEverywhere], to!(cluster::list::list, Depth::Detail)) },
    Route { body: Takes::Object(&cluster_view::CREATE), ..route("POST", "clusters", "create_cluster", 202, &[ClusterCreate], to!(cluster::create::create)) },
    route("GET", "clusters/{cluster}", "show_cluster", 200, &[ClusterGet, ClusterGetOneEverywhere], to!(cluster::show::show)),
    route("DELETE", "clusters/{cluster}", "delete_cluster", 204, &[ClusterDelete, ClusterDeleteEverywhere], to!(cluster::delete::delete)),

    Route { query: PAGE, ..route("GET", "clustertemplates", "list_clustertemplates", 200, &[TemplateGetAll, TemplateGetAllEverywhere], to!(template::list::list, template::list::LIST)) },
    Route { query: PAGE, ..route("GET", "clustertemplates/detail", "list_clustertemplates_detail", 200, &[TemplateDetail, TemplateDetailEverywhere], to!(template::list::list, template::list::DETAIL)) },
    Route { body: Takes::Object(&template_view::SCHEMA), ..route("POST", "clustertemplates", "create_clustertemplate", 201, &[TemplateCreate, TemplatePublish], to!(template::create::create)) },
    route("GET", "clustertemplates/{template}", "show_clustertemplate", 200, &[TemplateGet, TemplateGetOneEverywhere], to!(template::show::show)),
    Route { body: Takes::Patch, ..route("PATCH", "clustertemplates/{template}", "update_clustertemplate", 200, &[TemplateUpdate, TemplateUpdateEverywhere, TemplatePublish], to!(template::update::update)) },
    route("DELETE", "clustertemplates/{template}", "delete_clustertemplate", 204, &[TemplateDelete, TemplateDeleteEverywhere], to!(template::delete::delete)),

    Route { query: &[CA_CERT_TYPE], ..route("GET", "certificates/{cluster}", "show_certificate", 200, &[CertificateGet], to!(certificate::show::show)) },
    Route { body: Takes::Object(&SIGN), ..route("POST", "certificates", "sign_certificate", 201, &[CertificateCreate], to!(certificate::sign::sign)) },

    route("GET", "mservices", "list_services", 200, &[ServiceGetAll], to!(service::list::list)),
];
