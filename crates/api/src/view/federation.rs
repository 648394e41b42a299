//! Federations as clients send and see them (rest-api.md 8.6).

use std::collections::BTreeMap;

use model::federation::Federation;
use serde::Serialize;

use super::links::Links;
use super::page::Next;
use super::schema::{Field, Kind, Schema};
use super::shape::{LINKS, MAYBE_TEXT, MAYBE_TIME, NEXT, Object, Property, Shape, TEXTS};
use super::time::Time;

/// The body of `POST /v1/federations`.
pub static CREATE: Schema = Schema {
    argument: "federation",
    fields: &[
        Field::optional("name", Kind::Name, "Its name; made up when absent."),
        Field::needed("hostcluster_id", Kind::Text { min: 1, max: 255 }, "The cluster that hosts it, by uuid or name."),
        Field::optional("member_ids", Kind::Texts, "The clusters that belong to it."),
        Field::needed("properties", Kind::StringMap, "Must have the key dns-zone."),
        Field::optional("uuid", Kind::Uuid, "Taken and ignored."),
        Field::optional("status", Kind::Text { min: 0, max: 20 }, "Taken and ignored."),
        Field::optional("status_reason", Kind::Text { min: 0, max: 255 }, "Taken and ignored."),
        Field::read_only("links"),
        Field::read_only("created_at"),
        Field::read_only("updated_at"),
    ],
};

const UUID: Property = Property::always("uuid", Shape::Uuid, "Its id.");
const NAME: Property = Property::always("name", MAYBE_TEXT, "");
const HOST: Property = Property::always("hostcluster_id", MAYBE_TEXT, "The uuid of the cluster that hosts it.");
const MEMBERS: Property = Property::always("member_ids", TEXTS, "");
const STATUS: Property = Property::always("status", MAYBE_TEXT, "As of clusters.");
const PROPERTIES: Property = Property::always("properties", Shape::StringMap, "");
const SELF: Property = Property::always("links", LINKS, "Itself.");

/// One federation.
pub static FEDERATION: Object = Object {
    name: "Federation",
    properties: &[
        UUID,
        NAME,
        HOST,
        MEMBERS,
        STATUS,
        PROPERTIES,
        SELF,
        Property::always("status_reason", MAYBE_TEXT, "Why the status is what it is."),
        Property::always("created_at", MAYBE_TIME, "When it was made."),
        Property::always("updated_at", MAYBE_TIME, "When it was last changed."),
    ],
    like: Some(&CREATE),
};

static SHORT: Object =
    Object { name: "FederationSummary", properties: &[UUID, NAME, HOST, MEMBERS, STATUS, PROPERTIES, SELF], like: Some(&CREATE) };

/// One page, short.
pub static PAGE: Object = Object {
    name: "FederationPage",
    properties: &[Property::always("federations", Shape::List(&Shape::Object(&SHORT)), "The federations of this page."), NEXT],
    like: None,
};

/// One page, in full.
pub static DETAIL_PAGE: Object = Object {
    name: "FederationDetailPage",
    properties: &[Property::always("federations", Shape::List(&Shape::Object(&FEDERATION)), "The federations of this page."), NEXT],
    like: None,
};

/// A federation.
#[derive(Serialize)]
pub struct FederationView<'a> {
    uuid: &'a str,
    name: Option<&'a str>,
    hostcluster_id: Option<&'a str>,
    member_ids: Vec<String>,
    status: Option<&'a str>,
    properties: BTreeMap<String, String>,
    links: Links<'a>,
    #[serde(flatten)]
    detail: Option<Detail<'a>>,
}

#[derive(Serialize)]
struct Detail<'a> {
    status_reason: Option<&'a str>,
    created_at: Option<Time>,
    updated_at: Option<Time>,
}

impl<'a> FederationView<'a> {
    /// Without what only the detail form has.
    pub fn short(row: &'a Federation, base: &'a str) -> Self {
        Self {
            uuid: &row.uuid,
            name: row.name.as_deref(),
            hostcluster_id: row.hostcluster_id.as_deref(),
            member_ids: row.members(),
            status: row.status.as_deref(),
            properties: row.properties().0.into_iter().collect(),
            links: Links { base, collection: "federations", id: &row.uuid },
            detail: None,
        }
    }

    /// In full.
    pub fn full(row: &'a Federation, base: &'a str) -> Self {
        let detail = Detail {
            status_reason: row.status_reason.as_deref(),
            created_at: Time::of(row.created_at),
            updated_at: Time::of(row.updated_at),
        };
        Self { detail: Some(detail), ..Self::short(row, base) }
    }
}

/// A page of federations.
#[derive(Serialize)]
pub struct FederationPage<'a> {
    pub federations: Vec<FederationView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Next<'a>>,
}
