//! Labels that drivers know, as clients see them.

use model::driver::DriverName;
use model::labels::{Kind, Label};
use serde::Serialize;

use super::shape::{MAYBE_TEXT, Object, Property, Shape, TEXTS};

static LABEL: Object = Object {
    name: "Label",
    properties: &[
        Property::always("driver", Shape::Text, "The driver that knows it."),
        Property::always("name", Shape::Text, "The key."),
        Property::always(
            "type",
            Shape::OneOf(&[
                "string",
                "boolean",
                "integer",
                "cidr",
                "cidr_list",
                "cidr_v6",
                "domain",
                "url",
                "sha256",
                "image_prefix",
                "enum_list",
                "options",
                "enum",
            ]),
            "What its value may be. All values are texts; other ones are refused.",
        ),
        Property::always("values", Shape::Nullable(&TEXTS), "The words of an enum, or of a list of them."),
        Property::always("default", MAYBE_TEXT, "What holds without it."),
        Property::always("description", Shape::Text, "What it means."),
        Property::always("since", Shape::Text, "The first release that knows it."),
        Property::always(
            "effect",
            Shape::OneOf(&["at_creation", "at_deletion", "new_nodes", "unused"]),
            "at_creation: counts when the cluster is made. at_deletion: counts when it is deleted. new_nodes: nodes made later have it, running ones do not. unused: kept, without effect.",
        ),
    ],
    like: None,
};

/// All of them; they have no pages.
pub static LIST: Object = Object {
    name: "LabelList",
    properties: &[Property::always("labels", Shape::List(&Shape::Object(&LABEL)), "The labels, by driver and name.")],
    like: None,
};

#[derive(Serialize)]
struct LabelView {
    driver: &'static str,
    name: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    values: Option<&'static [&'static str]>,
    default: Option<&'static str>,
    description: &'static str,
    since: &'static str,
    effect: &'static str,
}

/// The labels of drivers.
#[derive(Serialize)]
pub struct LabelList {
    labels: Vec<LabelView>,
}

impl LabelList {
    /// Of these drivers.
    pub fn of(drivers: impl Iterator<Item = DriverName>) -> Self {
        let labels = drivers.flat_map(|driver| driver.labels().iter().map(move |label| view(driver, label))).collect();
        Self { labels }
    }
}

fn view(driver: DriverName, label: &'static Label) -> LabelView {
    LabelView {
        driver: driver.as_str(),
        name: label.name,
        kind: label.kind.as_str(),
        values: match label.kind {
            Kind::OneOf(words) | Kind::SomeOf(words) => Some(words),
            _ => None,
        },
        default: label.default,
        description: label.about,
        since: label.since,
        effect: label.effect.as_str(),
    }
}
