//! What an operation wants of its cluster, and what is seen of the size of the group that it is about.

use std::time::Duration;

use model::cluster::status::{Concerns, Status};
use model::nodegroup::Nodegroup;
use model::operation::{OperationKind, OutcomeCode};

use super::{choices, machines, replicas};
use crate::driver::capi_helm::Bench;
use crate::driver::capi_helm::scaling::{self, Scale};
use crate::driver::capi_helm::seen::{Extent, Seen, Wanted, WantedGroup};
use crate::outcome::Failure;
use crate::worker::Size;

/// What an operation wants of its cluster.
pub(super) struct Wish<'a> {
    pub(super) kind: OperationKind,
    /// All groups that the release is to have, with the sizes they are to have.
    pub(super) groups: Vec<Nodegroup>,
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
        // Of those that are scaled by load, the release says no size.
        let asked = |group: &Nodegroup| replicas(seen, group).filter(|_| scaling::of(&choices, group) == Ok(Scale::Fixed));
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
                // What a later operation wants is its to do: it may yet be cancelled.
                use Status::{CreateFailed, CreateInProgress, DeleteFailed, DeleteInProgress, UpdateFailed, UpdateInProgress};
                match (group.status(), replicas(seen, &group)) {
                    // One that is gone but for its row, or never came, must not come on the way.
                    (Some(CreateInProgress | CreateFailed | UpdateInProgress | UpdateFailed | DeleteInProgress | DeleteFailed), None)
                        if !group.is_default() =>
                    {
                        continue;
                    }
                    (Some(UpdateInProgress), Some(now)) => group.node_count = Some(now),
                    (Some(UpdateFailed), Some(_)) => group.node_count = Some(kept(group.node_count(), true, asked(&group))),
                    _ => {}
                }
            }
            groups.push(group);
        }
        let gone = (kind == OperationKind::NodegroupDelete).then(|| target.map(|g| g.name.clone())).flatten();
        let (nodes_to_remove, before) = (payload.nodes_to_remove, before.node_count);
        Ok(Self { kind, groups, target, gone, nodes_to_remove, aim: None, before, most })
    }

    /// What all this must come to before the operation has ended.
    pub(super) fn wanted(&self, bench: &Bench<'_>, version: &str, age: Duration) -> Result<Wanted, Failure> {
        let choices = choices(bench)?;
        let masters = self.groups.iter().find(|g| g.is_master()).map_or(1, |g| i64::from(g.node_count()));
        let all = self.brings_all();
        let is_asked = |group: &&Nodegroup| !group.is_master() && (all || self.target.is_none_or(|t| t.uuid == group.uuid));
        let groups = self.groups.iter().filter(is_asked).map(|group| {
            let scale = scaling::of(&choices, group).map_err(|text| Failure::fail(OutcomeCode::User, text))?;
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

/// The size of a group for which none is asked: that of its row, `known`; but after a change that ended badly the row says the most nodes that there
/// may be, and the release what was asked for last.
fn kept(known: i32, has_failed: bool, asked: Option<i32>) -> i32 {
    asked.filter(|_| has_failed).map_or(known, |asked| asked.min(known))
}

#[cfg(test)]
mod tests {
    use model::capi::derived;
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
