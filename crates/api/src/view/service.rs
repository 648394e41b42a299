//! Services as clients see them.

use chrono::NaiveDateTime;
use model::service::Service;
use serde::Serialize;

use super::shape::{MAYBE_TEXT, MAYBE_TIME, Object, Property, Shape};
use super::time::Time;

/// The list of services.
pub static LIST: Object = Object {
    name: "Services",
    properties: &[Property::always("mservices", Shape::List(&Shape::Object(&SERVICE)), "The services.")],
    like: None,
};

static SERVICE: Object = Object {
    name: "Service",
    properties: &[
        Property::always("id", Shape::Integer(1), "Its number."),
        Property::always("host", MAYBE_TEXT, "Where it runs."),
        Property::always("binary", MAYBE_TEXT, "What runs: magnum-conductor."),
        Property::always("state", Shape::OneOf(&["up", "down"]), "Whether it was heard of lately."),
        Property::always("report_count", Shape::Integer(0), "How often it was heard of."),
        Property::always("disabled", Shape::Boolean, "Without effect on the state."),
        Property::always("disabled_reason", MAYBE_TEXT, "Why it is disabled."),
        Property::always("created_at", MAYBE_TIME, "When it was first heard of."),
        Property::always("updated_at", MAYBE_TIME, "When it was changed last."),
    ],
    like: None,
};

#[derive(Serialize)]
struct ServiceView<'a> {
    id: i32,
    host: &'a Option<String>,
    binary: &'a Option<String>,
    state: &'static str,
    report_count: i32,
    disabled: bool,
    disabled_reason: &'a Option<String>,
    created_at: Option<Time>,
    updated_at: Option<Time>,
}

/// The list of services; it has no pages.
#[derive(Serialize)]
pub struct ServiceList<'a> {
    mservices: Vec<ServiceView<'a>>,
}

impl<'a> ServiceList<'a> {
    /// Of these rows; whether one is up depends on the time.
    pub fn of(rows: &'a [Service], now: NaiveDateTime, down_after: i64) -> Self {
        let view = |s: &'a Service| ServiceView {
            id: s.id,
            host: &s.host,
            binary: &s.binary,
            state: if s.is_up(now, down_after) { "up" } else { "down" },
            report_count: s.report_count,
            disabled: s.disabled.unwrap_or(false),
            disabled_reason: &s.disabled_reason,
            created_at: Time::of(s.created_at),
            updated_at: Time::of(s.updated_at),
        };
        Self { mservices: rows.iter().map(view).collect() }
    }
}
