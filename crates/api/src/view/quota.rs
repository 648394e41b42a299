//! Quotas as clients send and see them (rest-api.md 8.3).

use model::quota::{Quota, Resource};
use serde::Serialize;

use super::page::Next;
use super::schema::{Field, Kind, Schema};
use super::shape::{MAYBE_TIME, NEXT, Object, Property, Shape};
use super::time::Time;

const RESOURCES: &[&str] = &["Cluster", "Node"];
const LIMIT: Kind = Kind::Integer { min: 0, max: i32::MAX };

/// The body of `POST /v1/quotas`.
pub static CREATE: Schema = Schema {
    argument: "quota",
    fields: &[
        Field::needed("project_id", Kind::Text { min: 1, max: 255 }, "The project that it limits."),
        Field::optional(
            "resource",
            Kind::OneOf(RESOURCES),
            "Cluster (the default): clusters in whatever status. Node: nodes that their groups want, masters included; those that are to go, until they have gone.",
        ),
        Field::optional("hard_limit", LIMIT, "How many there may be; 1 when absent."),
        Field::optional("id", Kind::Integer { min: 1, max: i32::MAX }, "Taken and ignored."),
        Field::read_only("created_at"),
        Field::read_only("updated_at"),
    ],
};

/// The body of `PATCH /v1/quotas/{project}/{resource}`, a plain object.
pub static UPDATE: Schema = Schema {
    argument: "quotapatch",
    fields: &[
        Field::optional("hard_limit", LIMIT, "How many there may be; 1 when absent."),
        Field::optional("project_id", Kind::Text { min: 1, max: 255 }, "Taken and ignored: the path says which."),
        Field::optional("resource", Kind::OneOf(RESOURCES), "Taken and ignored: the path says which."),
        Field::optional("id", Kind::Integer { min: 1, max: i32::MAX }, "Taken and ignored."),
        Field::read_only("created_at"),
        Field::read_only("updated_at"),
    ],
};

/// A quota, stored or by default.
pub static QUOTA: Object = Object {
    name: "Quota",
    properties: &[
        Property::sometimes("id", Shape::Integer(1), "Its number; absent where the default of the configuration holds."),
        Property::always("project_id", Shape::Text, ""),
        Property::always("resource", Shape::OneOf(RESOURCES), ""),
        Property::always("hard_limit", Shape::Integer(-1), "How many there may be; -1: no limit."),
        Property::sometimes("created_at", MAYBE_TIME, "When it was made."),
        Property::sometimes("updated_at", MAYBE_TIME, "When it was last changed."),
    ],
    like: Some(&CREATE),
};

/// One page.
pub static PAGE: Object = Object {
    name: "QuotaPage",
    properties: &[Property::always("quotas", Shape::List(&Shape::Object(&QUOTA)), "The quotas of this page."), NEXT],
    like: None,
};

/// A stored quota.
#[derive(Serialize)]
pub struct QuotaView<'a> {
    id: i32,
    hard_limit: i32,
    project_id: &'a str,
    resource: &'a str,
    created_at: Option<Time>,
    updated_at: Option<Time>,
}

impl<'a> QuotaView<'a> {
    /// Of its row.
    pub fn of(row: &'a Quota) -> Self {
        Self {
            id: row.id,
            hard_limit: row.hard_limit,
            project_id: row.project_id.as_deref().unwrap_or_default(),
            // Rows of resources that nobody knows any more count as upstream's only one.
            resource: row.resource.as_deref().and_then(Resource::parse).unwrap_or(Resource::Cluster).as_str(),
            created_at: Time::of(row.created_at),
            updated_at: Time::of(row.updated_at),
        }
    }
}

/// What holds for a project without a row.
#[derive(Serialize)]
pub struct DefaultView<'a> {
    pub hard_limit: i64,
    pub project_id: &'a str,
    pub resource: &'static str,
}

/// A page of quotas.
#[derive(Serialize)]
pub struct QuotaPage<'a> {
    pub quotas: Vec<QuotaView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next<'a>>,
}
