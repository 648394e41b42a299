//! What a request would do, as clients see it.

use model::forecast::{Amount, Forecast, Intent, Leaving, QuotaUse, Replacement, Thing};
use model::operation::OperationKind;
use serde::Serialize;

use super::shape::{MAYBE_COUNT, MAYBE_TEXT, Object, Property, Shape, TEXTS};

const MAYBE_BOOLEAN: Shape = Shape::Nullable(&Shape::Boolean);
const AMOUNTS: Shape = Shape::List(&Shape::Object(&AMOUNT));
const ACTIONS: &[&str] = &["create", "resize", "upgrade", "delete"];

static AMOUNT: Object = Object {
    name: "Amount",
    properties: &[
        Property::always("type", Shape::OneOf(Thing::WORDS), "What is counted."),
        Property::always("count", Shape::Integer(1), "How many."),
    ],
    like: None,
};

static REPLACEMENT: Object = Object {
    name: "NodeReplacement",
    properties: &[
        Property::always("nodegroup", Shape::Text, "The name of the nodegroup."),
        Property::always("nodes", Shape::Integer(0), "Its nodes, which others would replace."),
        Property::always("at_once", MAYBE_COUNT, "How many are replaced together; null where that is not known."),
        Property::always("rounds", MAYBE_COUNT, "How often some are replaced; null where that is not known."),
    ],
    like: None,
};

static LEAVING: Object = Object {
    name: "LeavingNode",
    properties: &[
        Property::always("nodegroup", Shape::Text, "The name of the nodegroup."),
        Property::always("number", Shape::Text, "The number of the node in it."),
        Property::always("server_id", MAYBE_TEXT, "The id of its Nova server."),
    ],
    like: None,
};

static QUOTA: Object = Object {
    name: "QuotaUse",
    properties: &[
        Property::always("service", Shape::Text, "The service that counts, by its project's name."),
        Property::always("resource", Shape::Text, "What it counts."),
        Property::always("needed", MAYBE_COUNT, "How much would be taken; null where it is not known how the service counts it."),
        Property::always("told", Shape::Boolean, "Whether the service tells what the project may have."),
        Property::always("limit", MAYBE_COUNT, "What the project may have; null without a limit, or where it is not told."),
        Property::always("used", MAYBE_COUNT, "What of it is in use; null where limit is."),
        Property::always("free", MAYBE_COUNT, "What is left of it; null where limit is."),
        Property::always("enough", MAYBE_BOOLEAN, "Whether there is enough; null where that is not known."),
    ],
    like: None,
};

/// What a request with `dry_run` is answered with.
pub static FORECAST: Object = Object {
    name: "Forecast",
    properties: &[
        Property::always("action", Shape::OneOf(ACTIONS), "What was asked about."),
        Property::always("cluster_id", MAYBE_TEXT, "The uuid of the cluster; null of one that is yet to be made."),
        Property::always("driver", MAYBE_TEXT, "The driver of the cluster; null where none serves its template."),
        Property::always("made", AMOUNTS, "What would be made, as far as it is counted."),
        Property::always("replaced", Shape::List(&Shape::Object(&REPLACEMENT)), "Nodes that others would replace."),
        Property::always("removed", AMOUNTS, "What would be removed, as far as it is counted."),
        Property::always("nodes_to_remove", Shape::List(&Shape::Object(&LEAVING)), "The nodes that the request names, as they were found."),
        Property::always("quotas", Shape::List(&Shape::Object(&QUOTA)), "What it would take of the project's quotas in the cloud."),
        Property::always(
            "possible",
            MAYBE_BOOLEAN,
            "Whether it would come to a good end as things are; null where nothing is against it and not all that matters is known.",
        ),
        Property::always("reasons", TEXTS, "Why possible is not true."),
        Property::always("notes", TEXTS, "What else is worth knowing."),
    ],
    like: None,
};

#[derive(Serialize)]
struct AmountView {
    r#type: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct ReplacementView<'a> {
    nodegroup: &'a str,
    nodes: u64,
    at_once: Option<u64>,
    rounds: Option<u64>,
}

#[derive(Serialize)]
struct LeavingView<'a> {
    nodegroup: &'a str,
    number: &'a str,
    server_id: Option<&'a str>,
}

#[derive(Serialize)]
struct QuotaView {
    service: &'static str,
    resource: &'static str,
    needed: Option<u64>,
    told: bool,
    limit: Option<u64>,
    used: Option<u64>,
    free: Option<u64>,
    enough: Option<bool>,
}

/// A forecast.
#[derive(Serialize)]
pub struct ForecastView<'a> {
    action: &'static str,
    cluster_id: Option<&'a str>,
    driver: Option<&'static str>,
    made: Vec<AmountView>,
    replaced: Vec<ReplacementView<'a>>,
    removed: Vec<AmountView>,
    nodes_to_remove: Vec<LeavingView<'a>>,
    quotas: Vec<QuotaView>,
    possible: Option<bool>,
    reasons: Vec<&'a str>,
    notes: &'a [String],
}

impl<'a> ForecastView<'a> {
    /// Of an operation that nobody has stored.
    pub fn of(intent: &'a Intent, told: &'a Forecast) -> Self {
        Self {
            action: intent.kind.phrase(),
            cluster_id: (intent.kind != OperationKind::ClusterCreate).then_some(intent.cluster.uuid.as_str()),
            driver: intent.driver().map(|driver| driver.as_str()),
            made: told.made.iter().map(AmountView::from).collect(),
            replaced: told.replaced.iter().map(ReplacementView::from).collect(),
            removed: told.removed.iter().map(AmountView::from).collect(),
            nodes_to_remove: told.leaving.iter().map(LeavingView::from).collect(),
            quotas: told.quotas.iter().map(QuotaView::from).collect(),
            possible: told.is_possible(),
            reasons: told.obstacles.iter().chain(&told.unknown).map(String::as_str).collect(),
            notes: &told.notes,
        }
    }
}

impl From<&Amount> for AmountView {
    fn from(amount: &Amount) -> Self {
        Self { r#type: amount.thing.as_str(), count: amount.count }
    }
}

impl<'a> From<&'a Replacement> for ReplacementView<'a> {
    fn from(of: &'a Replacement) -> Self {
        Self { nodegroup: &of.nodegroup, nodes: of.nodes, at_once: of.at_once, rounds: of.rounds() }
    }
}

impl<'a> From<&'a Leaving> for LeavingView<'a> {
    fn from(node: &'a Leaving) -> Self {
        Self { nodegroup: &node.nodegroup, number: &node.number, server_id: node.server_id.as_deref() }
    }
}

impl From<&QuotaUse> for QuotaView {
    fn from(quota: &QuotaUse) -> Self {
        let QuotaUse { service, resource, needed, is_told, limit, used, .. } = *quota;
        Self { service, resource, needed, told: is_told, limit, used, free: quota.free(), enough: quota.is_enough() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_that_can_be_asked_about_has_its_word() {
        let kinds =
            [OperationKind::ClusterCreate, OperationKind::ClusterResize, OperationKind::ClusterUpgrade, OperationKind::ClusterDelete];
        assert_eq!(kinds.map(OperationKind::phrase), ACTIONS);
    }
}
