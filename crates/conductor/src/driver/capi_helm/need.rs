//! What a cluster takes of the project's quotas: the servers of machines that come to its groups. What else Cluster API makes for it is not
//! ours to say.

use std::collections::BTreeMap;

use model::cluster::Cluster;
use model::nodegroup::Nodegroup;
use model::operation::OutcomeCode;
use model::template::ClusterTemplate;

use super::labels::Choices;
use super::scaling::{self, Scale};
use crate::outcome::Failure;
use crate::room::Need;

/// What there is of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Present {
    /// Nodes that it is to have so far; none where there is no such group.
    pub wanted: Option<i32>,
    /// Each may have a server.
    pub machines: usize,
    /// The size that was asked for last of a group that is scaled by load, where this request asks for none.
    pub asked: Option<i64>,
}

/// The servers that are to be made for groups that are to have more nodes than before, each with its flavor.
///
/// # Errors
/// When a group cannot be scaled as its labels and bounds say.
pub(super) fn of<'a>(
    choices: &Choices<'_>,
    groups: impl Iterator<Item = &'a Nodegroup>,
    present: impl Fn(&Nodegroup) -> Present,
) -> Result<Need, Failure> {
    let mut need = Need::default();
    for group in groups {
        let present = present(group);
        let wanted = match scaling::of(choices, group, present.asked).map_err(|text| Failure::fail(OutcomeCode::User, text))? {
            Scale::Fixed => i64::from(group.node_count()),
            Scale::Between { least, .. } => least,
        };
        let is_more = present.wanted.is_none_or(|before| wanted > i64::from(before));
        let more = usize::try_from(wanted).unwrap_or(0).saturating_sub(present.machines);
        if is_more && more > 0 {
            need.nodes.push((more as u64, group.flavor_id.clone().unwrap_or_default()));
        }
    }
    Ok(need)
}

/// As [`of`], by the rows alone: of groups with the sizes that they are to have.
///
/// # Errors
/// As [`of`].
pub(crate) fn by_rows<'a>(
    (cluster, template): (&Cluster, &ClusterTemplate),
    defaults: &BTreeMap<&'static str, String>,
    groups: impl Iterator<Item = &'a Nodegroup>,
    present: impl Fn(&Nodegroup) -> Present,
) -> Result<Need, Failure> {
    of(&Choices::new(template.labels(), cluster.labels(), defaults), groups, present)
}

#[cfg(test)]
mod tests {
    use model::json::Labels;
    use model::nodegroup::DEFAULT_WORKER;

    use super::*;
    use crate::driver::capi_helm::tests::group;

    #[test]
    fn machines_that_come_are_counted_and_those_that_load_decides_on_are_not() {
        let workers = Nodegroup { flavor_id: Some("w".into()), ..group(DEFAULT_WORKER, "worker", 4, true) };
        let need = |labels: &[(&str, &str)], present: Present| {
            let labels = Labels(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
            let defaults = BTreeMap::new();
            let need = of(&Choices::new(Labels::default(), labels, &defaults), [&workers].into_iter(), |_| present);
            need.expect("it can be scaled").nodes
        };
        let scaled = [("auto_scaling_enabled", "true"), ("min_node_count", "2"), ("max_node_count", "9")];
        assert_eq!(need(&[], Present::default()), [(4, "w".to_owned())]);
        assert_eq!(need(&scaled, Present::default()), [(2, "w".to_owned())]);
        assert_eq!(need(&[], Present { wanted: Some(3), machines: 3, asked: None }), [(1, "w".to_owned())]);
        // A server of the fourth may be on its way already.
        assert_eq!(need(&[], Present { wanted: Some(3), machines: 4, asked: None }), []);
        assert_eq!(need(&[], Present { wanted: Some(6), machines: 2, asked: None }), []);
        // Without a lower bound, what was asked for last.
        let open = [("auto_scaling_enabled", "true"), ("max_node_count", "9")];
        assert_eq!(need(&open, Present { wanted: Some(2), machines: 2, asked: Some(3) }), [(1, "w".to_owned())]);
        assert_eq!(need(&open, Present { wanted: Some(2), machines: 2, asked: None }), [(2, "w".to_owned())]);
    }
}
