//! What an operation wants of its cluster, and what is seen of the size of the group that it is about.

use std::collections::HashMap;
use std::time::Duration;

use model::cluster::status::{Concerns, Status};
use model::nodegroup::Nodegroup;
use model::operation::{OperationKind, OutcomeCode};

use super::{choices, machines, replicas};
use crate::driver::capi_helm::Bench;
use crate::driver::capi_helm::labels::Choices;
use crate::driver::capi_helm::scaling::{self, Scale};
use crate::driver::capi_helm::seen::{Extent, Seen, Wanted, WantedGroup};
use crate::outcome::Failure;
use crate::worker::Size;

/// What an operation wants of its cluster.
pub(super) struct Wish<'a> {
    pub(super) kind: OperationKind,
    /// All groups that the release is to have, with the sizes they are to have.
    pub(super) groups: Vec<Nodegroup>,
    /// Sizes that were asked for last, by uuid, of those that are scaled by load and for which this operation asks for none.
    pub(super) asked_last: HashMap<String, i64>,
    /// The group that the operation is about.
    pub(super) target: Option<&'a Nodegroup>,
    /// The name of a group that goes.
    pub(super) gone: Option<String>,
    pub(super) nodes_to_remove: Vec<String>,
    /// What is told of a phase of a rotation.
    pub(super) aim: Option<&'static str>,
    /// Nodes that the target had when nothing was asked yet, and the most that it may have, as far as the payload tells.
    before: Option<i32>,
    most: Option<i32>,
}

/// How far an operation has come with its release.
#[derive(Clone, Copy)]
pub(super) struct Course {
    /// helm was run.
    pub(super) is_asked: bool,
    /// It has ended well.
    pub(super) is_applied: bool,
    /// What other operations have asked for before is not on its way any more.
    pub(super) is_settled: bool,
}

impl<'a> Wish<'a> {
    pub(super) fn read(bench: &'a Bench<'_>, seen: &Seen) -> Result<Self, Failure> {
        let rows = bench.rows;
        let kind = bench.work.operation.kind().ok_or(Failure::Stale)?;
        let payload = bench.work.payload()?;
        let (before, most) = (payload.before.clone().unwrap_or_default(), payload.most_nodes());
        let target = match kind.concerns() {
            Concerns::OneGroup if kind == OperationKind::NodegroupDelete => {
                rows.groups.iter().find(|g| payload.nodegroup.as_ref().is_some_and(|id| g.uuid == id.as_str()))
            }
            Concerns::OneGroup => Some(rows.group(&payload)?),
            Concerns::AllGroups | Concerns::NoGroup => None,
        };
        if kind == OperationKind::NodegroupDelete && target.is_some_and(Nodegroup::is_default) {
            return Err(Failure::fail(OutcomeCode::User, "a default nodegroup goes with its cluster only"));
        }
        let is_target = |group: &Nodegroup| target.is_some_and(|t| t.uuid == group.uuid);
        let choices = choices(bench)?;
        // Of those that are scaled by load, the release says a lower bound and no size.
        let is_fixed = |group: &Nodegroup| scaling::of(&choices, group, seen.least(&group.name)) == Ok(Scale::Fixed);
        let asked = |group: &Nodegroup| replicas(seen, group).filter(|_| is_fixed(group));
        let mut groups = Vec::with_capacity(rows.groups.len());
        for group in &rows.groups {
            let mut group = group.clone();
            if is_target(&group) {
                if kind == OperationKind::NodegroupDelete {
                    continue;
                }
                let known = before.node_count.unwrap_or_else(|| group.node_count());
                let has_failed = before.group(&group.nodegroup_id()).is_some_and(Status::is_failed);
                group.node_count = Some(payload.node_count.unwrap_or_else(|| kept(known, has_failed, asked(&group))));
            } else if target.is_some() || kind == OperationKind::CaRotate {
                let now = replicas(seen, &group).filter(|_| !is_going(seen, &group));
                let (last, least) = (asked(&group), seen.least(&group.name));
                let Some(left_alone) = passed_by(group, &choices, now, (last, least)) else { continue };
                group = left_alone;
            }
            groups.push(group);
        }
        let asks = |group: &Nodegroup| is_target(group) && payload.node_count.is_some();
        let unasked = groups.iter().filter(|group| !asks(group));
        let asked_last = unasked.filter_map(|group| Some((group.uuid.clone(), seen.least(&group.name)?))).collect();
        let gone = (kind == OperationKind::NodegroupDelete).then(|| target.map(|g| g.name.clone())).flatten();
        let (nodes_to_remove, before) = (payload.nodes_to_remove, before.node_count);
        Ok(Self { kind, groups, asked_last, target, gone, nodes_to_remove, aim: None, before, most })
    }

    /// What all this must come to before the operation has ended.
    pub(super) fn wanted(&self, bench: &Bench<'_>, version: &str, age: Duration) -> Result<Wanted, Failure> {
        let choices = choices(bench)?;
        let masters = self.groups.iter().find(|g| g.is_master()).map_or(1, |g| i64::from(g.node_count()));
        let all = self.brings_all();
        let is_asked = |group: &&Nodegroup| !group.is_master() && (all || self.target.is_none_or(|t| t.uuid == group.uuid));
        let groups = self.groups.iter().filter(is_asked).map(|group| {
            let asked = self.asked_last.get(&group.uuid).copied();
            let scale = scaling::of(&choices, group, asked).map_err(|text| Failure::fail(OutcomeCode::User, text))?;
            let size = match scale {
                Scale::Fixed => Extent::Exactly(i64::from(group.node_count())),
                Scale::Between { least, most: _ } => Extent::AtLeast(least),
            };
            Ok(WantedGroup { name: group.name.clone(), size })
        });
        Ok(Wanted {
            masters,
            groups: groups.collect::<Result<_, Failure>>()?,
            gone: self.gone.iter().cloned().collect(),
            version: version.to_owned(),
            conditions: bench.capi.settings.control_plane_conditions.clone(),
            now: model::time::now(),
            age,
            patience: bench.cx.settings.timing.settle,
            all_gone: self.kind == OperationKind::CaRotate,
        })
    }

    /// Whether the whole release is brought to another template, whichever group the request names.
    pub(super) fn brings_all(&self) -> bool {
        self.kind == OperationKind::ClusterUpgrade && self.target.is_some_and(Nodegroup::is_default)
    }

    /// Whether there may be flavors of nodes that there were not.
    pub(super) fn brings_flavors(&self) -> bool {
        use OperationKind::{CaRotate, ClusterResize, ClusterUpdate, NodegroupDelete};
        !matches!(self.kind, ClusterResize | ClusterUpdate | NodegroupDelete | CaRotate)
    }

    /// What it is called where progress is told.
    pub(super) fn verb(&self) -> String {
        let named = |verb: &str| self.target.map_or_else(|| verb.to_owned(), |group| format!("{verb} nodegroup {}", group.name));
        match self.kind {
            OperationKind::ClusterCreate => "creating".to_owned(),
            OperationKind::ClusterUpgrade => "upgrading".to_owned(),
            OperationKind::NodegroupCreate => named("creating"),
            OperationKind::NodegroupDelete => named("deleting"),
            OperationKind::ClusterResize | OperationKind::ClusterUpdate => named("resizing"),
            _ => self.aim.map_or_else(|| named("updating"), str::to_owned),
        }
    }

    /// How many nodes the target has, where it is there: those that it is to have, and what has not gone yet of those that it had or was to have.
    /// Whatever else there is of machines takes the place of others.
    pub(super) fn count(&self, seen: &Seen) -> Option<i32> {
        let group = self.target?;
        let asked = replicas(seen, group)?;
        let there = i32::try_from(machines(seen, group)).unwrap_or(i32::MAX);
        Some(asked.max(there.min(self.most.unwrap_or(asked))))
    }

    /// What is seen of the size of the target. While helm may be at work, nobody knows what it has asked for; and fewer nodes than the target had
    /// are believed only when no helm of an operation before can be.
    pub(super) fn size(&self, seen: &Seen, course: Course) -> Option<Size> {
        let count = self.count(seen)?;
        let is_so = match course.is_asked {
            true => course.is_applied,
            false => course.is_settled || Some(count) >= self.before,
        };
        Some(if is_so { Size::Is(count) } else { Size::Asked(count) })
    }
}

/// A group as it is asked for by an operation that is about another one; none where it is left out. It has `now` so many nodes by the object that
/// makes them, if there is one that stays; so many were `asked` for last, or at `least`, where it is scaled by load.
fn passed_by(
    mut group: Nodegroup,
    choices: &Choices<'_>,
    now: Option<i32>,
    (asked, least): (Option<i32>, Option<i64>),
) -> Option<Nodegroup> {
    use Status::{CreateFailed, CreateInProgress, DeleteFailed, DeleteInProgress, UpdateFailed, UpdateInProgress};
    match (group.status(), now) {
        // One that is gone but for its row, or never came, must not come on the way.
        (Some(CreateInProgress | CreateFailed | UpdateInProgress | UpdateFailed | DeleteInProgress | DeleteFailed), None)
            if !group.is_default() =>
        {
            return None;
        }
        // What a later operation wants is its to do: it may yet be cancelled. One to delete the group may have come behind it.
        (Some(CreateInProgress | UpdateInProgress | DeleteInProgress), Some(now)) => {
            let counted = Nodegroup { node_count: Some(now), ..group.clone() };
            // New bounds are in the row at once: of fewer nodes than the lower one, as its autoscaler may have left, there is no document.
            if scaling::of(choices, &counted, least).is_ok() {
                group = counted;
            }
        }
        (Some(CreateFailed | UpdateFailed | DeleteFailed), Some(_)) => group.node_count = Some(kept(group.node_count(), true, asked)),
        _ => {}
    }
    Some(group)
}

/// Whether a group is on its way out, as after a deletion that was cut off: it is not asked for again, for helm would make it anew once it is gone.
fn is_going(seen: &Seen, group: &Nodegroup) -> bool {
    let is_removed = matches!(group.status(), Some(Status::DeleteInProgress | Status::DeleteFailed));
    is_removed && seen.deployment(&group.name).is_some_and(|deployment| !deployment["metadata"]["deletionTimestamp"].is_null())
}

/// The size of a group for which none is asked: that of its row, `known`; but after a change that ended badly the row says the most nodes that there
/// may be, and the release what was asked for last.
fn kept(known: i32, has_failed: bool, asked: Option<i32>) -> i32 {
    asked.filter(|_| has_failed).map_or(known, |asked| asked.min(known))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::capi::derived;
    use model::json::Labels;
    use serde_json::{Value, json};

    use super::*;
    use crate::driver::capi_helm::tests::group;

    #[test]
    fn a_group_that_failed_keeps_what_was_asked_for_last_and_any_other_what_its_row_says() {
        for (known, has_failed, asked, size) in
            [(10, true, Some(3), 3), (10, true, Some(12), 10), (10, true, None, 10), (10, false, Some(3), 10), (10, false, None, 10)]
        {
            assert_eq!(kept(known, has_failed, asked), size, "{known} {has_failed} {asked:?}");
        }
    }

    #[test]
    fn a_group_that_an_operation_is_not_about_has_what_it_has_and_none_of_what_others_may_yet_want_or_have_failed_at() {
        use Status::{CreateFailed, CreateInProgress, DeleteFailed, DeleteInProgress, UpdateFailed, UpdateInProgress};
        let nothing = BTreeMap::new();
        let choices = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Choices::new(Labels::default(), Labels(labels), &nothing)
        };
        let (fixed, scaled) = (choices(&[]), choices(&[("auto_scaling_enabled", "true")]));
        let sizes = |word: Status, now: Option<i32>, is_default: bool| {
            // The row says the wish of one that waits, or the most that there may be.
            let row = Nodegroup { status: Some(word.as_str().into()), ..group("gpu", "worker", 9, is_default) };
            passed_by(row, &fixed, now, (now, None)).map(|group| group.node_count())
        };
        for status in [CreateInProgress, UpdateInProgress, DeleteInProgress, CreateFailed, UpdateFailed, DeleteFailed] {
            assert_eq!(sizes(status, Some(3), false), Some(3), "{status:?}");
            assert_eq!(sizes(status, None, false), None, "{status:?}");
            assert_eq!(sizes(status, None, true), Some(9), "{status:?}");
        }
        for status in [Status::CreateComplete, Status::UpdateComplete] {
            assert_eq!((sizes(status, Some(3), false), sizes(status, None, false)), (Some(9), Some(9)), "{status:?}");
        }
        // Of those that are scaled by load, where an update waits that raises the lower bound.
        let bounds = |least: i32| Nodegroup {
            status: Some(UpdateInProgress.as_str().into()),
            min_node_count: Some(least),
            max_node_count: Some(9),
            ..group("gpu", "worker", 9, false)
        };
        let size_of =
            |row: Nodegroup, now: i32, last: Option<i64>| passed_by(row, &scaled, Some(now), (None, last)).map(|group| group.node_count());
        for (least, size) in [(1, 3), (4, 9)] {
            assert_eq!(size_of(bounds(least), 3, None), Some(size), "{least}");
        }
        // Without a lower bound of its own it has the one that the release tells, also where there are more nodes than a new upper bound allows.
        for (last, size) in [(None, 9), (Some(2), 6)] {
            let row = Nodegroup { min_node_count: None, max_node_count: Some(5), ..bounds(1) };
            assert_eq!(size_of(row, 6, last), Some(size), "{last:?}");
        }
        // More were asked for by whoever made room for others, and failed.
        assert_eq!(sizes(DeleteFailed, Some(12), false), Some(9));
    }

    #[test]
    fn a_group_whose_deletion_was_cut_off_is_on_its_way_out_when_its_deployment_is() {
        let deployment = |leaves: bool| {
            let since = if leaves { json!("2026-01-01T00:00:00Z") } else { Value::Null };
            json!({"metadata": {"name": derived("blue", "gpu"), "deletionTimestamp": since}, "spec": {"replicas": 3}})
        };
        let with = |deployments: Vec<Value>| Seen { release: "blue".into(), deployments, ..Seen::default() };
        let gpu = |status: Status| Nodegroup { status: Some(status.as_str().into()), ..group("gpu", "worker", 3, false) };
        for status in Status::ALL.iter().copied() {
            let is_removed = matches!(status, Status::DeleteInProgress | Status::DeleteFailed);
            assert_eq!(is_going(&with(vec![deployment(true)]), &gpu(status)), is_removed, "{status:?}");
            // Its deletion waits, and may be cancelled.
            assert!(!is_going(&with(vec![deployment(false)]), &gpu(status)), "{status:?}");
            assert!(!is_going(&with(Vec::new()), &gpu(status)), "{status:?}");
        }
    }

    /// A deployment that is to have so many machines, and so many of its machines.
    fn seen(asked: i64, there: usize) -> Seen {
        let deployment = json!({"metadata": {"name": derived("blue", "gpu")}, "spec": {"replicas": asked}});
        let machine: Value = json!({"metadata": {"labels": {"capi.stackhpc.com/node-group": "gpu"}}});
        Seen { release: "blue".into(), deployments: vec![deployment], machines: vec![machine; there], ..Seen::default() }
    }

    #[test]
    fn machines_that_have_not_gone_are_nodes_and_those_that_take_the_place_of_others_are_none() {
        let gpu = group("gpu", "worker", 3, false);
        let size = |(before, wanted): (i32, Option<i32>), seen: &Seen, (is_asked, is_applied): (bool, bool), is_settled: bool| {
            let wish = Wish {
                kind: OperationKind::ClusterResize,
                groups: Vec::new(),
                asked_last: HashMap::new(),
                target: Some(&gpu),
                gone: None,
                nodes_to_remove: Vec::new(),
                aim: None,
                before: Some(before),
                most: wanted.max(Some(before)),
            };
            wish.size(seen, Course { is_asked, is_applied, is_settled })
        };
        let (none, asked, applied) = ((false, false), (true, false), (true, true));
        for (sizes, asked_for, there, course, is_settled, wanted) in [
            // Fewer nodes: some are drained still.
            ((10, Some(3)), 3, 8, applied, false, Size::Is(8)),
            ((10, Some(3)), 3, 3, applied, false, Size::Is(3)),
            // More: they are to come.
            ((3, Some(10)), 10, 4, applied, false, Size::Is(10)),
            // An upgrade has another one come before one goes.
            ((3, None), 3, 4, applied, true, Size::Is(3)),
            // helm may have sent it, or not.
            ((10, Some(3)), 10, 10, asked, true, Size::Asked(10)),
            // Whatever was asked for before: the row says that it is no more.
            ((10, Some(3)), 10, 10, none, false, Size::Is(10)),
            ((10, Some(3)), 4, 4, none, false, Size::Asked(4)),
            ((10, Some(3)), 4, 4, none, true, Size::Is(4)),
        ] {
            let told = size(sizes, &seen(asked_for, there), course, is_settled);
            assert_eq!(told, Some(wanted), "{sizes:?} {asked_for} {there} {course:?} {is_settled}");
        }
        assert_eq!(size((3, None), &Seen::default(), none, true), None, "there is no such group");
    }
}
