//! Whether a cluster has addresses for the nodes that one of its groups is to have.

use model::nodegroup::Nodegroup;
use model::operation::{Before, OutcomeCode};
use model::store::{Conn, operation};

use super::Rows;
use crate::context::Context;
use crate::driver;
use crate::outcome::Failure;
use crate::plan::Seen;

/// Refuses a group so many nodes where there are no addresses for them beside those of the other groups. `seen` is the stack that they join, or
/// are to join. Without the template's row nobody knows.
pub(crate) async fn suffice(cx: &Context, rows: &Rows, group: &Nodegroup, seen: &Seen, nodes: u64) -> Result<(), Failure> {
    let Some(template) = &rows.template else { return Ok(()) };
    let cluster = rows.cluster.cluster_id();
    let unfinished = cx.store.read(async |conn: &mut Conn| operation::unfinished(conn, &cluster).await).await?;
    let waiting: Vec<Before> = unfinished.iter().filter_map(|waits| waits.payload().ok()?.before).collect();
    let others = rows.groups.iter().filter(|other| other.uuid != group.uuid).map(|other| present(other, &waiting));
    match driver::too_many(&rows.cluster, template, seen, nodes + others.sum::<u64>()) {
        Some(reason) => Err(Failure::fail(OutcomeCode::User, reason)),
        None => Ok(()),
    }
}

/// The nodes that a group has until what waits is done, which its row tells of already. One that never had a stack has none.
fn present(group: &Nodegroup, waiting: &[Before]) -> u64 {
    if !group.is_default() && group.stack_id.is_none() {
        return 0;
    }
    let before = waiting.iter().find_map(|before| before.groups.contains_key(&group.nodegroup_id()).then_some(before.node_count)?);
    u64::try_from(before.unwrap_or_else(|| group.node_count())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(stack_id: Option<&str>) -> Nodegroup {
        Nodegroup { uuid: "g".into(), node_count: Some(200), stack_id: stack_id.map(Into::into), ..Nodegroup::default() }
    }

    fn about(group: &Nodegroup, node_count: Option<i32>) -> Before {
        let groups = [(group.nodegroup_id(), "UPDATE_COMPLETE".to_owned())].into();
        Before { groups, node_count, ..Before::default() }
    }

    #[test]
    fn a_group_has_what_it_had_until_what_waits_is_done() {
        let made = group(Some("s"));
        assert_eq!(present(&made, &[]), 200);
        // A replacement says nothing of sizes; of two resizes the first says what there is.
        let waiting = [about(&made, None), about(&made, Some(10)), about(&made, Some(50))];
        assert_eq!(present(&made, &waiting), 10);
        assert_eq!(present(&group(None), &[]), 0);
    }
}
