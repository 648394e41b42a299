//! Events as clients see them, in a page and in a stream.

use model::operation::{CloudFault, Leak, OperationEvent, Thing};
use serde::Serialize;

use super::operation::time;
use super::shape::{MAYBE_COUNT, MAYBE_TEXT, NEXT, Object, Property, Shape};
use super::time::Time;

static ERROR: Object = Object {
    name: "CloudError",
    properties: &[
        Property::always("service", Shape::Text, "The service that was asked, by its project's name."),
        Property::always("operation", Shape::Text, "What it was asked for."),
        Property::always("status", MAYBE_COUNT, "The HTTP status of its answer; null without an answer."),
        Property::always("message", Shape::Text, "Its own words."),
        Property::always("request_id", MAYBE_TEXT, "Its own id of the request, for its logs."),
    ],
    like: None,
};

static THING: Object = Object {
    name: "Thing",
    properties: &[
        Property::always("kind", Shape::Text, "What it is."),
        Property::always("name", Shape::Text, "Its name in the cloud."),
        Property::always("id", MAYBE_TEXT, "Its id; null when it is not known."),
    ],
    like: None,
};

static LEAK: Object = Object {
    name: "Leak",
    properties: &[
        Property::always("kind", Shape::Text, "What it is."),
        Property::always("name", Shape::Text, "Its name in the cloud."),
        Property::always("id", MAYBE_TEXT, "Its id; null when it is not known."),
        Property::always("reason", Shape::Text, "Why it was left."),
    ],
    like: None,
};

static EVENT: Object = Object {
    name: "Event",
    properties: &[
        Property::always("id", Shape::Integer(1), "Its number; those of a cluster grow with time."),
        Property::always("operation_id", Shape::Text, "The uuid of the operation that it is about."),
        Property::always("cluster_id", Shape::Text, "The uuid of the cluster."),
        Property::always("kind", Shape::Text, "What happened: accepted, claimed, taken_over, step, cloud_error, ended and others."),
        Property::always("message", Shape::Text, "What happened, in words or by name."),
        Property::always("at", Shape::Time, "When it happened."),
        Property::sometimes("user_id", Shape::Text, "Who asked."),
        Property::sometimes("request_id", Shape::Text, "The id of his request."),
        Property::sometimes("error", Shape::Object(&ERROR), "The call to the cloud that failed."),
        Property::sometimes("thing", Shape::Object(&THING), "The thing in the cloud that it is about."),
        Property::sometimes("removed", Shape::List(&Shape::Object(&THING)), "What was removed from the cloud."),
        Property::sometimes("gone", Shape::List(&Shape::Object(&THING)), "What was to be removed and was gone already."),
        Property::sometimes("leaks", Shape::List(&Shape::Object(&LEAK)), "What was left in the cloud."),
    ],
    like: None,
};

/// A list.
pub static PAGE: Object = Object {
    name: "Events",
    properties: &[Property::always("events", Shape::List(&Shape::Object(&EVENT)), "The events."), NEXT],
    like: None,
};

/// One event.
#[derive(Serialize)]
pub struct EventView<'a> {
    id: i64,
    operation_id: &'a str,
    cluster_id: &'a str,
    kind: &'a str,
    message: &'a str,
    at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CloudFault>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thing: Option<Thing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<Vec<Thing>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gone: Option<Vec<Thing>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leaks: Option<Vec<Leak>>,
}

/// A page of events.
#[derive(Serialize)]
pub struct EventPage<'a> {
    pub events: Vec<EventView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<'a> EventView<'a> {
    /// Of a row.
    pub fn of(row: &'a OperationEvent) -> Self {
        let details = row.details();
        Self {
            id: row.id,
            operation_id: &row.operation_uuid,
            cluster_id: &row.cluster_uuid,
            kind: &row.kind,
            message: match row.kind.as_str() {
                // host:pid:random; only the host is of use to anybody outside.
                "claimed" | "taken_over" => row.message.rsplitn(3, ':').last().unwrap_or_default(),
                _ => &row.message,
            },
            at: time(row.at_ms),
            user_id: details.user.map(|user| user.0),
            request_id: details.request_id,
            error: details.error,
            thing: details.thing,
            removed: details.removed,
            gone: details.gone,
            leaks: details.leaks,
        }
    }
}
