//! Bounds of groups that are scaled by load. Pure.

use model::nodegroup::{DEFAULT_WORKER, Nodegroup};

use super::labels::Choices;

/// How the size of a group is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Fixed,
    Between { least: i64, most: i64 },
}

/// The bounds of a group, where it has any.
///
/// The default group's come from labels as well: its own lower bound of 1 is what Magnum writes by itself and counts as none.
///
/// # Errors
/// Bounds that leave no room.
pub(super) fn of(choices: &Choices<'_>, group: &Nodegroup) -> Result<Scale, String> {
    if !choices.flag("auto_scaling_enabled") || group.is_master() {
        return Ok(Scale::Fixed);
    }
    let count = i64::from(group.node_count());
    let is_default = group.is_default() && group.name == DEFAULT_WORKER;
    let own_least = group.min_node_count.map(i64::from).filter(|least| !(is_default && *least == 1));
    // Zero is Magnum's word for no upper bound.
    let own_most = group.max_node_count.map(i64::from).filter(|most| *most != 0);
    let label = |name: &str| if is_default { choices.number(name) } else { None };
    let least = label("min_node_count").or(own_least).unwrap_or(count);
    let most = label("max_node_count").or(own_most).unwrap_or(count);
    let wrong = |rule: &str| Err(format!("nodegroup {}: autoscaling between {least} and {most} with {count} nodes: {rule}", group.name));
    if least < 1 {
        return wrong("the lower bound must be at least 1");
    }
    if least > count {
        return wrong("the lower bound must not be above the number of nodes");
    }
    if most < least {
        return wrong("the upper bound must not be below the lower one");
    }
    Ok(if least == most { Scale::Fixed } else { Scale::Between { least, most } })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::json::Labels;

    use super::*;
    use crate::driver::capi_helm::tests::group;

    fn scale(labels: &[(&str, &str)], group: &Nodegroup) -> Result<Scale, String> {
        let labels = Labels(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        of(&Choices::new(Labels::default(), labels, &BTreeMap::new()), group)
    }

    #[test]
    fn bounds_come_from_the_group_and_for_the_default_group_from_labels() {
        let on = ("auto_scaling_enabled", "true");
        let default = Nodegroup { min_node_count: Some(1), ..group(DEFAULT_WORKER, "worker", 2, true) };
        assert_eq!(scale(&[("max_node_count", "5")], &default), Ok(Scale::Fixed));
        assert_eq!(scale(&[on], &default), Ok(Scale::Fixed));
        assert_eq!(scale(&[on, ("min_node_count", "1"), ("max_node_count", "5")], &default), Ok(Scale::Between { least: 1, most: 5 }));
        let other = Nodegroup { min_node_count: Some(1), max_node_count: Some(4), ..group("gpu", "worker", 2, false) };
        assert_eq!(scale(&[on, ("max_node_count", "9")], &other), Ok(Scale::Between { least: 1, most: 4 }));
        for (least, most, rule) in
            [(Some(0), Some(4), "at least 1"), (Some(3), Some(4), "above the number"), (Some(2), Some(1), "below the lower")]
        {
            let wrong = Nodegroup { min_node_count: least, max_node_count: most, ..other.clone() };
            assert!(scale(&[on], &wrong).is_err_and(|text| text.contains(rule)), "{least:?} {most:?}");
        }
    }
}
