//! Statistics as clients see them (rest-api.md 8.4).

use model::quota::Usage;
use serde::Serialize;

use super::shape::{Object, Property, Shape};

/// What a project, or the whole cloud, uses.
pub static STATS: Object = Object {
    name: "Stats",
    properties: &[
        Property::always("clusters", Shape::Integer(0), "Clusters, in whatever status."),
        Property::always("nodes", Shape::Integer(0), "Nodes that their groups want, masters included."),
    ],
    like: None,
};

/// The two numbers.
#[derive(Serialize)]
pub struct StatsView {
    clusters: i64,
    nodes: i64,
}

impl From<Usage> for StatsView {
    fn from(usage: Usage) -> Self {
        Self { clusters: usage.clusters, nodes: usage.nodes.max(0) }
    }
}
