//! What an operation wants of its cluster, by its payload and the rows.

use std::time::Duration;

use model::cluster::status::{Concerns, Status};
use model::nodegroup::Nodegroup;
use model::operation::{OperationKind, OutcomeCode};

use super::{choices, replicas};
use crate::driver::capi_helm::Bench;
use crate::driver::capi_helm::scaling::{self, Scale};
use crate::driver::capi_helm::seen::{Seen, Wanted, WantedGroup};
use crate::outcome::Failure;

/// What an operation wants of its cluster.
pub(super) struct Wish<'a> {
    pub kind: OperationKind,
    /// All groups that the release is to have, with the sizes they are to have.
    pub groups: Vec<Nodegroup>,
    /// The group that the operation is about.
    pub target: Option<&'a Nodegroup>,
    /// The name of a group that goes.
    pub gone: Option<String>,
    pub nodes_to_remove: Vec<String>,
    /// What is told of a phase of a rotation.
    pub aim: Option<&'static str>,
}

impl<'a> Wish<'a> {
    pub fn read(bench: &'a Bench<'_>, seen: &Seen) -> Result<Self, Failure> {
        let rows = bench.rows;
        let kind = bench.work.operation.kind().ok_or(Failure::Stale)?;
        let payload = bench.work.payload()?;
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
        let mut groups = Vec::with_capacity(rows.groups.len());
        for group in &rows.groups {
            let mut group = group.clone();
            if is_target(&group) {
                if kind == OperationKind::NodegroupDelete {
                    continue;
                }
                group.node_count = payload.node_count.or(group.node_count);
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
                    _ => {}
                }
            }
            groups.push(group);
        }
        let gone = (kind == OperationKind::NodegroupDelete).then(|| target.map(|g| g.name.clone())).flatten();
        Ok(Self { kind, groups, target, gone, nodes_to_remove: payload.nodes_to_remove, aim: None })
    }

    /// What all this must come to before the operation has ended.
    pub fn wanted(&self, bench: &Bench<'_>, version: &str, age: Duration) -> Result<Wanted, Failure> {
        let choices = choices(bench)?;
        let masters = self.groups.iter().find(|g| g.is_master()).map_or(1, |g| i64::from(g.node_count()));
        let all = self.brings_all();
        let is_asked = |group: &&Nodegroup| !group.is_master() && (all || self.target.is_none_or(|t| t.uuid == group.uuid));
        let groups = self.groups.iter().filter(is_asked).map(|group| {
            let scale = scaling::of(&choices, group).map_err(|text| Failure::fail(OutcomeCode::User, text))?;
            let count = (scale == Scale::Fixed).then(|| i64::from(group.node_count()));
            Ok(WantedGroup { name: group.name.clone(), count })
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
    pub fn brings_all(&self) -> bool {
        self.kind == OperationKind::ClusterUpgrade && self.target.is_some_and(Nodegroup::is_default)
    }

    /// Whether there may be flavors of nodes that there were not.
    pub fn brings_flavors(&self) -> bool {
        use OperationKind::{CaRotate, ClusterResize, ClusterUpdate, NodegroupDelete};
        !matches!(self.kind, ClusterResize | ClusterUpdate | NodegroupDelete | CaRotate)
    }

    /// What it is called where progress is told.
    pub fn verb(&self) -> String {
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
}
