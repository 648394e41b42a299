//! Every route on one page.
//!
//! A line says all that is known of a route before its handler runs; the OpenAPI document is made of the same lines.

use model::operation::{OperationKind, OperationState};
use model::store;

use super::{Holds, Parameter, Route, Takes};
use crate::microversion::{self, MIN, NODEGROUPS};
use crate::policy::Act::{self, *};
use crate::view::shape::ACCEPTED;
use crate::view::shape::Shape::{self, Nothing, Object};
use crate::view::{
    certificate as certificate_view, cluster as cluster_view, event as event_view, federation as federation_view, label as label_view,
    nodegroup as nodegroup_view, operation as operation_view, quota as quota_view, service as service_view, stats as stats_view,
    template as template_view,
};
use crate::{certificate, cluster, credential, dry_run, event, federation, label, nodegroup, operation, quota, service, stats, template};

const LIMIT: Parameter = Parameter { name: "limit", holds: Holds::From(1), since: MIN, about: "Items at most; the server may give fewer." };
const MARKER: Parameter =
    Parameter { name: "marker", holds: Holds::Uuid, since: MIN, about: "The uuid of the last item of the page before." };
/// The column to sort by: one of these.
const fn sort_key(columns: &'static [&'static str]) -> Parameter {
    Parameter { name: "sort_key", holds: Holds::OneOf(columns), since: MIN, about: "The column to sort by; default id." }
}
const SORT_DIR: Parameter = Parameter { name: "sort_dir", holds: Holds::OneOf(&["asc", "desc"]), since: MIN, about: "Default asc." };
const OPERATION_PAGE: &[Parameter] = &[MARKER, LIMIT, sort_key(store::history::SORT_KEYS), SORT_DIR, OF_CLUSTER, IN_STATE, OF_KIND];
const OPERATIONS_OF_CLUSTER: &[Parameter] = &[MARKER, LIMIT, sort_key(store::history::SORT_KEYS), SORT_DIR, IN_STATE, OF_KIND];
const OF_CLUSTER: Parameter =
    Parameter { name: "cluster", holds: Holds::Uuid, since: MIN, about: "Only operations on the cluster of this uuid, which may be gone." };
const IN_STATE: Parameter =
    Parameter { name: "state", holds: Holds::OneOf(OperationState::WORDS), since: MIN, about: "Only operations in this state." };
const OF_KIND: Parameter =
    Parameter { name: "kind", holds: Holds::OneOf(OperationKind::WORDS), since: MIN, about: "Only operations of this kind." };
const EVENT_PAGE: &[Parameter] = &[
    Parameter { name: "marker", holds: Holds::From(1), since: MIN, about: "The id of the last event of the page before." },
    LIMIT,
    Parameter { name: "last_event_id", holds: Holds::From(1), since: MIN, about: "Of a stream: as the header Last-Event-ID." },
];
const CANCELLED: Parameter = Parameter {
    name: "operation",
    holds: Holds::Uuid,
    since: MIN,
    about: "The operation to cancel; default: the oldest of the cluster that is unfinished.",
};
const CLUSTER_PAGE: &[Parameter] = &[MARKER, LIMIT, sort_key(store::cluster::SORT_KEYS), SORT_DIR];
const TEMPLATE_PAGE: &[Parameter] = &[MARKER, LIMIT, sort_key(store::template::SORT_KEYS), SORT_DIR];

const FEDERATION_PAGE: &[Parameter] = &[MARKER, LIMIT, sort_key(store::federation::SORT_KEYS), SORT_DIR];

const ROLE: Parameter = Parameter { name: "role", holds: Holds::Text, since: MIN, about: "Only groups of this role." };
const GROUP_PAGE: &[Parameter] = &[MARKER, LIMIT, sort_key(store::nodegroup::SORT_KEYS), SORT_DIR, ROLE];

const ROLLBACK: Parameter =
    Parameter { name: "rollback", holds: Holds::Boolean, since: microversion::ROLLBACK, about: "Whether a failed change is taken back." };

const DRY_RUN: Parameter = Parameter {
    name: dry_run::PARAMETER,
    holds: Holds::Boolean,
    since: MIN,
    about: "Whether nothing is done: the answer is 200 and tells what would be. What would be refused is refused.",
};

const CA_CERT_TYPE: Parameter =
    Parameter { name: "ca_cert_type", holds: Holds::Text, since: MIN, about: "etcd, front_proxy, or (anything else) the cluster's own." };

const INFO: Parameter = Parameter {
    name: "info",
    holds: Holds::Boolean,
    since: MIN,
    about: "Whether the answer also tells what the cluster's certificates say of themselves: until when they are valid, for example.",
};

const NUMBER: Parameter =
    Parameter { name: "marker", holds: Holds::From(0), since: MIN, about: "The number of the last item of the page before; 0 is none." };
const ALL_TENANTS: Parameter =
    Parameter { name: "all_tenants", holds: Holds::Boolean, since: MIN, about: "Every project's, not only those of the own one." };
const QUOTA_PAGE: &[Parameter] = &[NUMBER, LIMIT, sort_key(store::quota::SORT_KEYS), SORT_DIR, ALL_TENANTS];

const DRIVER: Parameter = Parameter { name: "driver", holds: Holds::Text, since: MIN, about: "Only the labels of this driver." };

const STATS_OF: &[Parameter] = &[
    Parameter { name: "project_id", holds: Holds::Text, since: MIN, about: "Only of this project; others than the own one for admins." },
    Parameter { name: "type", holds: Holds::OneOf(&["cluster"]), since: MIN, about: "What is counted, in any case." },
];

const IGNORED_ROLLBACK: Parameter = Parameter { name: "rollback", holds: Holds::Boolean, since: MIN, about: "Taken and ignored." };

/// A handler as the table holds it.
macro_rules! to {
    ($handler:path) => {
        |cx| Box::pin($handler(cx))
    };
    ($handler:path, $variant:expr) => {
        |cx| Box::pin($handler(cx, $variant))
    };
}

/// A route of the first microversion, without parameters and body: its status and shape when all is well, and the policies it asks.
const fn route(
    method: &'static str,
    path: &'static str,
    name: &'static str,
    success: u16,
    answer: Shape,
    acts: &'static [Act],
    handler: fn(crate::context::Context) -> futures::future::BoxFuture<'static, Result<crate::answer::Answer, crate::error::ApiError>>,
) -> Route {
    Route { method, path, name, since: MIN, acts, query: &[], body: Takes::Nothing, success, answer, streams: false, handler }
}

#[rustfmt::skip]
pub static ROUTES: &[Route] = &[
    Route { query: CLUSTER_PAGE, ..route("GET", "clusters", "list_clusters", 200, Object(&cluster_view::PAGE), &[ClusterGetAll, ClusterGetAllEverywhere], to!(cluster::list::list)) },
    Route { query: CLUSTER_PAGE, ..route("GET", "clusters/detail", "list_clusters_detail", 200, Object(&cluster_view::DETAIL_PAGE), &[ClusterDetail, ClusterDetailEverywhere], to!(cluster::list::detail)) },
    Route { query: &[DRY_RUN], body: Takes::Object(&cluster_view::CREATE), ..route("POST", "clusters", "create_cluster", 202, Object(&ACCEPTED), &[ClusterCreate], to!(cluster::create::create)) },
    route("GET", "clusters/{cluster}", "show_cluster", 200, Object(&cluster_view::CLUSTER), &[ClusterGet, ClusterGetOneEverywhere], to!(cluster::show::show)),
    Route { query: &[DRY_RUN], ..route("DELETE", "clusters/{cluster}", "delete_cluster", 204, Nothing, &[ClusterDelete, ClusterDeleteEverywhere], to!(cluster::delete::delete)) },
    Route { body: Takes::Patch, query: &[ROLLBACK], ..route("PATCH", "clusters/{cluster}", "update_cluster", 202, Object(&ACCEPTED), &[ClusterUpdate, ClusterUpdateHealth, ClusterUpdateEverywhere], to!(cluster::update::update)) },
    Route { since: microversion::RESIZE, query: &[DRY_RUN], body: Takes::Object(&cluster_view::RESIZE), ..route("POST", "clusters/{cluster}/actions/resize", "resize_cluster", 202, Object(&ACCEPTED), &[ClusterResize], to!(cluster::resize::resize)) },
    Route { since: microversion::RESIZE, query: &[DRY_RUN], body: Takes::Object(&cluster_view::UPGRADE), ..route("POST", "clusters/{cluster}/actions/upgrade", "upgrade_cluster", 202, Object(&ACCEPTED), &[ClusterUpgrade, ClusterUpgradeEverywhere], to!(cluster::upgrade::upgrade)) },

    route("POST", "clusters/{cluster}/actions/retry", "retry_cluster", 202, Object(&operation_view::ACTED), &[ClusterRetry, ClusterUpdateEverywhere], to!(cluster::exits::retry)),
    Route { query: &[CANCELLED], ..route("POST", "clusters/{cluster}/actions/cancel", "cancel_cluster", 202, Object(&operation_view::ACTED), &[ClusterCancel, ClusterUpdateEverywhere], to!(cluster::exits::cancel)) },
    route("POST", "clusters/{cluster}/actions/force-delete", "force_delete_cluster", 202, Object(&operation_view::ACTED), &[ClusterForceDelete], to!(cluster::exits::force_delete)),
    route("POST", "clusters/{cluster}/actions/abandon", "abandon_cluster", 202, Object(&operation_view::ACTED), &[ClusterAbandon], to!(cluster::exits::abandon)),
    Route { body: Takes::Object(&cluster_view::TRANSFER), ..route("POST", "clusters/{cluster}/actions/transfer", "transfer_cluster", 202, Object(&ACCEPTED), &[ClusterTransfer], to!(cluster::transfer::transfer)) },

    Route { query: OPERATION_PAGE, ..route("GET", "operations", "list_operations", 200, Object(&operation_view::PAGE), &[OperationGetAll, OperationGetAllEverywhere], to!(operation::list::all)) },
    route("GET", "operations/{operation}", "show_operation", 200, Object(&operation_view::OPERATION), &[OperationGet, OperationGetOneEverywhere], to!(operation::show::show)),
    Route { query: OPERATIONS_OF_CLUSTER, ..route("GET", "clusters/{cluster}/operations", "list_cluster_operations", 200, Object(&operation_view::PAGE), &[OperationGetAll, OperationGetAllEverywhere], to!(operation::list::of_cluster)) },
    Route { query: EVENT_PAGE, streams: true, ..route("GET", "clusters/{cluster}/events", "list_cluster_events", 200, Object(&event_view::PAGE), &[EventGetAll, OperationGetAllEverywhere], to!(event::list::list)) },

    Route { since: NODEGROUPS, query: GROUP_PAGE, ..route("GET", "clusters/{cluster}/nodegroups", "list_nodegroups", 200, Object(&nodegroup_view::PAGE), &[NodegroupGetAll, NodegroupGetAllEverywhere], to!(nodegroup::list::list)) },
    Route { since: NODEGROUPS, body: Takes::Object(&nodegroup_view::CREATE), ..route("POST", "clusters/{cluster}/nodegroups", "create_nodegroup", 202, Object(&nodegroup_view::NODEGROUP), &[NodegroupCreate], to!(nodegroup::create::create)) },
    Route { since: NODEGROUPS, ..route("GET", "clusters/{cluster}/nodegroups/{nodegroup}", "show_nodegroup", 200, Object(&nodegroup_view::NODEGROUP), &[NodegroupGet, NodegroupGetOneEverywhere], to!(nodegroup::show::show)) },
    Route { since: NODEGROUPS, body: Takes::Patch, ..route("PATCH", "clusters/{cluster}/nodegroups/{nodegroup}", "update_nodegroup", 202, Object(&nodegroup_view::NODEGROUP), &[NodegroupUpdate], to!(nodegroup::update::update)) },
    Route { since: NODEGROUPS, ..route("DELETE", "clusters/{cluster}/nodegroups/{nodegroup}", "delete_nodegroup", 204, Nothing, &[NodegroupDelete], to!(nodegroup::delete::delete)) },

    Route { query: TEMPLATE_PAGE, ..route("GET", "clustertemplates", "list_clustertemplates", 200, Object(&template_view::PAGE), &[TemplateGetAll, TemplateGetAllEverywhere], to!(template::list::list, template::list::LIST)) },
    Route { query: TEMPLATE_PAGE, ..route("GET", "clustertemplates/detail", "list_clustertemplates_detail", 200, Object(&template_view::PAGE), &[TemplateDetail, TemplateDetailEverywhere], to!(template::list::list, template::list::DETAIL)) },
    Route { body: Takes::Object(&template_view::SCHEMA), ..route("POST", "clustertemplates", "create_clustertemplate", 201, Object(&template_view::TEMPLATE), &[TemplateCreate, TemplatePublish], to!(template::create::create)) },
    route("GET", "clustertemplates/{template}", "show_clustertemplate", 200, Object(&template_view::TEMPLATE), &[TemplateGet, TemplateGetOneEverywhere], to!(template::show::show)),
    Route { body: Takes::Patch, ..route("PATCH", "clustertemplates/{template}", "update_clustertemplate", 200, Object(&template_view::TEMPLATE), &[TemplateUpdate, TemplateUpdateEverywhere, TemplatePublish], to!(template::update::update)) },
    route("DELETE", "clustertemplates/{template}", "delete_clustertemplate", 204, Nothing, &[TemplateDelete, TemplateDeleteEverywhere], to!(template::delete::delete)),

    Route { query: &[CA_CERT_TYPE, INFO], ..route("GET", "certificates/{cluster}", "show_certificate", 200, Object(&certificate_view::AUTHORITY), &[CertificateGet], to!(certificate::show::show)) },
    Route { body: Takes::Object(&certificate_view::SIGN), ..route("POST", "certificates", "sign_certificate", 201, Object(&certificate_view::SIGNED), &[CertificateCreate], to!(certificate::sign::sign)) },
    route("PATCH", "certificates/{cluster}", "rotate_ca", 202, Object(&ACCEPTED), &[CertificateRotate], to!(certificate::rotate::rotate)),

    Route { since: microversion::CREDENTIALS, ..route("PATCH", "credentials/{cluster}", "rotate_credential", 202, Object(&ACCEPTED), &[CredentialRotate], to!(credential::rotate::rotate)) },

    Route { query: QUOTA_PAGE, ..route("GET", "quotas", "list_quotas", 200, Object(&quota_view::PAGE), &[QuotaGetAll], to!(quota::list::list)) },
    Route { body: Takes::Object(&quota_view::CREATE), ..route("POST", "quotas", "create_quota", 201, Object(&quota_view::QUOTA), &[QuotaCreate], to!(quota::create::create)) },
    route("GET", "quotas/{project}/{resource}", "show_quota", 200, Object(&quota_view::QUOTA), &[QuotaGet], to!(quota::show::show)),
    Route { body: Takes::Object(&quota_view::UPDATE), ..route("PATCH", "quotas/{project}/{resource}", "update_quota", 202, Object(&quota_view::QUOTA), &[QuotaUpdate], to!(quota::update::update)) },
    route("DELETE", "quotas/{project}/{resource}", "delete_quota", 204, Nothing, &[QuotaDelete], to!(quota::delete::delete)),

    Route { query: STATS_OF, ..route("GET", "stats", "show_stats", 200, Object(&stats_view::STATS), &[StatsGetAll], to!(stats::show)) },

    Route { query: FEDERATION_PAGE, ..route("GET", "federations", "list_federations", 200, Object(&federation_view::PAGE), &[FederationGetAll], to!(federation::list::short)) },
    Route { query: FEDERATION_PAGE, ..route("GET", "federations/detail", "list_federations_detail", 200, Object(&federation_view::DETAIL_PAGE), &[FederationDetail], to!(federation::list::detail)) },
    Route { body: Takes::Object(&federation_view::CREATE), ..route("POST", "federations", "create_federation", 202, Object(&ACCEPTED), &[FederationCreate], to!(federation::create::create)) },
    route("GET", "federations/{federation}", "show_federation", 200, Object(&federation_view::FEDERATION), &[FederationGet], to!(federation::show::show)),
    Route { query: &[IGNORED_ROLLBACK], body: Takes::Patch, ..route("PATCH", "federations/{federation}", "update_federation", 202, Object(&ACCEPTED), &[FederationUpdate], to!(federation::update::update)) },
    route("DELETE", "federations/{federation}", "delete_federation", 204, Nothing, &[FederationDelete], to!(federation::delete::delete)),

    Route { query: &[DRIVER], ..route("GET", "labels", "list_labels", 200, Object(&label_view::LIST), &[TemplateGetAll], to!(label::list::list)) },
    route("GET", "mservices", "list_services", 200, Object(&service_view::LIST), &[ServiceGetAll], to!(service::list::list)),
];
