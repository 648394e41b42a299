//! Whether the project has room for the nodes that an operation adds, asked of Nova before anything moves: else machines would fail one by one,
//! and be tried for ever.
//!
//! It promises nothing, and only says no where Nova would: what it cannot tell, it lets pass. Only what grows is counted. Machines that
//! replace others come and go as the chart says, which may be one before the other.

use model::nodegroup::Nodegroup;
use model::operation::{OperationEvent, OperationKind, OutcomeCode, Progress};
use provider_clients::{CloudError, ComputeLimits, Flavor, Session};

use super::{ASKED, Wish, choices, replicas};
use crate::driver::capi_helm::scaling::{self, Scale};
use crate::driver::capi_helm::seen::Seen;
use crate::driver::capi_helm::{Bench, lookup};
use crate::outcome::{Failure, Turn};
use crate::stack;

/// The event of having found no room for the first time; its text is what is short.
const SHORT: &str = "quota_short";

/// None where the operation may go on. Else it waits a little: what was deleted just now is counted by Nova until its servers are gone. `flavors`:
/// all that there are, where they have been looked up already.
///
/// # Errors
/// What is short, with what is left of it, when there was no room for a while.
pub(super) async fn room(
    bench: &Bench<'_>,
    session: &Session,
    wish: &Wish<'_>,
    seen: &Seen,
    events: &[OperationEvent],
    flavors: Option<Vec<Flavor>>,
) -> Result<Option<Turn>, Failure> {
    // Once helm was asked, some of what is counted may be the operation's own.
    if events.iter().any(|e| e.kind == ASKED) {
        return Ok(None);
    }
    let grown = grown(bench, wish, seen)?;
    if grown.is_empty() {
        return Ok(None);
    }
    let Some(short) = short(session, &grown, flavors).await else { return Ok(None) };
    let patience = 2 * bench.cx.settings.timing.settle;
    let since = events.iter().find(|e| e.kind == SHORT).map(|e| stack::age(e.at()));
    if since.is_some_and(|since| since >= patience) {
        return Err(Failure::fail(OutcomeCode::Quota, short));
    }
    if since.is_none() {
        let progress = Progress { step: "quota", waiting_for: Some(short.clone()), ..Progress::default() };
        stack::record(bench.cx, bench.work, &progress, &[(SHORT, &short)]).await?;
    }
    Ok(Some(Turn::Again { after: patience / 10 }))
}

/// The groups that are to have more nodes than before, each with the servers that are to be made for it.
fn grown<'a>(bench: &Bench<'_>, wish: &'a Wish<'_>, seen: &Seen) -> Result<Vec<(u64, &'a Nodegroup)>, Failure> {
    if matches!(wish.kind, OperationKind::ClusterUpgrade | OperationKind::NodegroupDelete) {
        return Ok(Vec::new());
    }
    let choices = choices(bench)?;
    let concerned = wish.groups.iter().filter(|group| wish.target.is_none_or(|target| target.uuid == group.uuid));
    let mut grown = Vec::new();
    for group in concerned {
        let wanted = match scaling::of(&choices, group).map_err(|text| Failure::fail(OutcomeCode::User, text))? {
            Scale::Fixed => i64::from(group.node_count()),
            Scale::Between { least, .. } => least,
        };
        let is_more = replicas(seen, group).is_none_or(|before| wanted > i64::from(before));
        let more = usize::try_from(wanted).unwrap_or(0).saturating_sub(machines(seen, group));
        if is_more && more > 0 {
            grown.push((more as u64, group));
        }
    }
    Ok(grown)
}

/// How many machines a group has. Each may have a server already, which Nova counts as used long before the machine says so.
fn machines(seen: &Seen, group: &Nodegroup) -> usize {
    if group.is_master() { seen.masters().count() } else { seen.machines_of(&group.name).count() }
}

/// What is short, if anything is.
async fn short(session: &Session, grown: &[(u64, &Nodegroup)], flavors: Option<Vec<Flavor>>) -> Option<String> {
    let nova = session.nova();
    let limits = told(nova.limits().await, "the project's quota")?;
    let flavors = match flavors {
        Some(flavors) => flavors,
        None => told(nova.flavors().await, "flavors")?,
    };
    let mut added: Vec<(u64, Flavor)> = Vec::new();
    for (more, group) in grown {
        // A flavor that is gone is told where it is needed.
        let flavor = group.flavor_id.as_deref().and_then(|wanted| lookup::flavor(&flavors, wanted))?;
        let specs = told(nova.extra_specs(&flavor.id).await, "the extra specs of a flavor");
        // With these Nova may count other resources than what the flavor says.
        let counts_otherwise = specs.is_none_or(|specs| specs.keys().any(|key| key.starts_with("resources") || key == "hw:cpu_policy"));
        let flavor = if counts_otherwise { Flavor { vcpus: 0, ram: 0, ..flavor.clone() } } else { flavor.clone() };
        added.push((*more, flavor));
    }
    fits(&limits, &added).err()
}

/// None where Nova does not tell: it says no itself then.
fn told<T>(answer: Result<T, CloudError>, what: &str) -> Option<T> {
    answer
        .inspect_err(
            |error| tracing::warn!(%error, "Nova does not tell {what}; whether there is room for new nodes shows when they are made"),
        )
        .ok()
}

/// Whether so many nodes of each flavor fit.
fn fits(limits: &ComputeLimits, added: &[(u64, Flavor)]) -> Result<(), String> {
    let sum = |of: fn(&Flavor) -> u64| added.iter().map(|(count, flavor)| count * of(flavor)).sum::<u64>();
    let nodes = sum(|_| 1);
    let wants =
        [(nodes, "instances", limits.instances), (sum(|f| f.vcpus), "cores", limits.cores), (sum(|f| f.ram), "MiB of memory", limits.ram)];
    let short: Vec<String> = wants
        .into_iter()
        .filter_map(|(wanted, what, limit)| {
            let left = limit.left().filter(|left| wanted > *left)?;
            Some(format!("{wanted} {what} are needed and {left} are left"))
        })
        .collect();
    if short.is_empty() {
        return Ok(());
    }
    Err(format!("the project's compute quota has no room for {nodes} more nodes: {}", short.join(", ")))
}

#[cfg(test)]
mod tests {
    use provider_clients::Limit;

    use super::*;

    #[test]
    fn what_is_short_is_told_with_what_is_left() {
        let flavor = |ram, vcpus| Flavor { ram, vcpus, ..Flavor::default() };
        let (small, large) = (flavor(2048, 2), flavor(8192, 4));
        let limits = |instances, cores, ram| ComputeLimits {
            instances: Limit { most: instances, used: 2 },
            cores: Limit { most: cores, used: 4 },
            ram: Limit { most: ram, used: 0 },
        };
        let added = [(3, small), (1, large)];
        assert_eq!(fits(&limits(Some(6), Some(14), Some(14_336)), &added), Ok(()));
        assert_eq!(fits(&limits(None, None, None), &added), Ok(()));
        let says = |limits| fits(&limits, &added).expect_err("no room");
        assert!(says(limits(Some(5), None, None)).ends_with("4 more nodes: 4 instances are needed and 3 are left"));
        assert!(
            says(limits(None, Some(13), Some(100)))
                .ends_with("10 cores are needed and 9 are left, 14336 MiB of memory are needed and 100 are left")
        );
        // Lowered below what is used.
        assert!(says(limits(Some(1), None, None)).ends_with("and 0 are left"));
    }
}
