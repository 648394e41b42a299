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
/// Without any lower bound it is the size that was asked for last: that of the row where this operation asks for one (or makes the group), else
/// `asked`, which the release tells. Not the row's, which is what the autoscaler had made when some operation ended: it would rise with the load
/// and never fall again. Nor a column of the row: users would see there, and be held to, a bound that they never set. Nor former operations,
/// whose rows are removed some day. What is asked of a release stays in it, whatever has become of the operation.
///
/// # Errors
/// Bounds that leave no room.
pub(super) fn of(choices: &Choices<'_>, group: &Nodegroup, asked: Option<i64>) -> Result<Scale, String> {
    if !choices.flag("auto_scaling_enabled") || group.is_master() {
        return Ok(Scale::Fixed);
    }
    let count = i64::from(group.node_count());
    let is_default = group.is_default() && group.name == DEFAULT_WORKER;
    let own_least = group.min_node_count.map(i64::from).filter(|least| !(is_default && *least == 1));
    // Zero is Magnum's word for no upper bound.
    let own_most = group.max_node_count.map(i64::from).filter(|most| *most != 0);
    let label = |name: &str| if is_default { choices.number(name) } else { None };
    let own = label("min_node_count").or(own_least);
    let upper = label("max_node_count").or(own_most);
    let most = upper.unwrap_or(count);
    // An upper bound may have been set since that leaves no room for it.
    let kept = asked.filter(|least| own.is_none() && upper.is_some() && (1..most).contains(least));
    let least = own.or(kept).unwrap_or(count);
    let wrong = |rule: &str| Err(format!("nodegroup {}: autoscaling between {least} and {most} with {count} nodes: {rule}", group.name));
    if least < 1 {
        return wrong("the lower bound must be at least 1");
    }
    // A size above what is there has its autoscaler make more only when there is load.
    if least > count && kept.is_none() {
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
        scale_after(labels, group, None)
    }

    /// Where so many nodes were asked for last.
    fn scale_after(labels: &[(&str, &str)], group: &Nodegroup, asked: Option<i64>) -> Result<Scale, String> {
        let labels = Labels(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        of(&Choices::new(Labels::default(), labels, &BTreeMap::new()), group, asked)
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

    #[test]
    fn the_lower_bound_is_what_was_asked_for_last_and_not_what_the_autoscaler_has_made() {
        let upper = [("auto_scaling_enabled", "true"), ("max_node_count", "5")];
        let of = |count: i32, asked: Option<i64>| scale_after(&upper, &group(DEFAULT_WORKER, "worker", count, true), asked);
        let between = |least: i64| -> Result<Scale, String> { Ok(Scale::Between { least, most: 5 }) };
        for count in [1, 2, 3, 5, 6] {
            assert_eq!(of(count, Some(2)), between(2), "{count}");
        }
        // Nothing was asked for before, or there is no room for it any more.
        for asked in [None, Some(0), Some(5), Some(9)] {
            assert_eq!(of(3, asked), between(3), "{asked:?}");
            assert_eq!(of(5, asked), Ok(Scale::Fixed), "{asked:?}");
            assert!(of(6, asked).is_err(), "{asked:?}");
        }
        // A bound of the group's own, no upper bound, no scaling.
        let labels = [upper[0], upper[1], ("min_node_count", "1")];
        let default = group(DEFAULT_WORKER, "worker", 4, true);
        assert_eq!(scale_after(&labels, &default, Some(2)), between(1));
        assert_eq!(scale_after(&upper, &Nodegroup { min_node_count: Some(3), ..default.clone() }, Some(2)), between(3));
        assert_eq!(scale_after(&upper[..1], &default, Some(2)), Ok(Scale::Fixed));
        assert_eq!(scale_after(&upper[1..], &default, Some(2)), Ok(Scale::Fixed));
    }
}
