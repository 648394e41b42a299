//! The name of a cluster's API in a DNS zone of its project: a record of the cluster's stack, made by Designate, that names the address by which
//! clients reach the API. Whether a cluster has one is a parameter of its stack: it was made with the stack, and stays as long.

use model::json::Labels;
use model::labels::{Kind, is_host_label};
use serde_json::{Map, Value};

use super::render::RenderError;

/// The label that names the zone, and the parameter of the stack.
const ZONE: &str = "api_dns_zone";
/// The parameter of the whole name.
const NAME: &str = "api_dns_name";
/// The longest name that DNS has.
const LONGEST: usize = 253;

/// The name of a new cluster's API, as DNS writes it, with a dot at the end; none where the labels ask for none.
///
/// # Errors
/// When the zone is no name, or the cluster's name cannot be part of it.
pub(super) fn of_new(labels: &Labels, cluster: &str) -> Result<Option<String>, RenderError> {
    let Some(zone) = labels.get(ZONE).map(str::trim).filter(|zone| !zone.is_empty()) else { return Ok(None) };
    // Templates that are older than the label may have any word there.
    Kind::Domain.check(zone).map_err(|rule| RenderError::new(ZONE, rule))?;
    let zone = zone.strip_suffix('.').unwrap_or(zone).to_ascii_lowercase();
    if !is_host_label(cluster) {
        let rule = format!("needs a cluster whose name is a host name (letters, digits and -, 63 at most), which {cluster} is not");
        return Err(RenderError::new(ZONE, rule));
    }
    let name = format!("{}.{zone}", cluster.to_ascii_lowercase());
    match name.len() <= LONGEST {
        true => Ok(Some(format!("{name}."))),
        false => Err(RenderError::new(ZONE, format!("must leave room for the cluster's name: {LONGEST} characters at most together"))),
    }
}

/// The name that a stack's parameters tell.
pub(super) fn seen(parameters: &Map<String, Value>) -> Option<String> {
    parameters.get(NAME).and_then(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The parameters of a stack, by name; empty ones say that there is no record.
pub(super) fn parameters(name: Option<&str>) -> [(&'static str, &str); 2] {
    let name = name.unwrap_or_default();
    // The cluster's name is the first part, and only that.
    [(ZONE, name.split_once('.').map_or("", |(_, zone)| zone)), (NAME, name)]
}

/// The name as certificates have it.
pub(super) fn in_certificates(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(zone: &str, cluster: &str) -> Result<Option<String>, RenderError> {
        of_new(&Labels([(ZONE.to_owned(), zone.to_owned())].into_iter().collect()), cluster)
    }

    #[test]
    fn the_name_is_the_clusters_in_the_zone() {
        assert_eq!(of("", "blue"), Ok(None));
        for zone in ["k8s.example.org", "k8s.example.org.", " K8s.Example.org "] {
            assert_eq!(of(zone, "Blue"), Ok(Some("blue.k8s.example.org.".to_owned())), "{zone}");
        }
        assert_eq!(parameters(Some("blue.k8s.example.org.")), [(ZONE, "k8s.example.org."), (NAME, "blue.k8s.example.org.")]);
        assert_eq!(parameters(None), [(ZONE, ""), (NAME, "")]);
        assert_eq!(in_certificates("blue.k8s.example.org."), "blue.k8s.example.org");
        let longest = ["a"; 4].map(|part| part.repeat(62)).join(".");
        let all = [("example.org", "a_b"), ("example.org", "a.b"), ("example.org", ""), ("example", "blue"), (longest.as_str(), "blue")];
        for (zone, cluster) in all {
            assert_eq!(of(zone, cluster).expect_err(cluster).field, ZONE, "{cluster}");
        }
    }

    #[test]
    fn a_stack_that_says_nothing_has_no_name() {
        let of = |value: Value| seen(&[(NAME.to_owned(), value)].into_iter().collect());
        assert_eq!(seen(&Map::new()), None);
        assert_eq!(of("".into()), None);
        assert_eq!(of("blue.example.org.".into()).as_deref(), Some("blue.example.org."));
    }
}
