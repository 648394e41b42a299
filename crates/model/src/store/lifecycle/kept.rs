//! The sizes that a replacement of nodes had settled on when it failed, for whoever goes on with it.
//!
//! Nobody could tell them any more: rows say the most nodes that there may be, and the stack has some nodes more while others are replaced.

use std::collections::BTreeMap;

use super::{is_about_one, names};
use crate::id::NodegroupId;
use crate::operation::{NewOperation, Operation, OperationKind, OperationState, Payload};
use crate::store::connection::Conn;
use crate::store::error::StoreError;
use crate::store::{history, nodegroup};

/// What the failed operation that `new` goes on with was to keep, but of groups about which there was another one since: of these, rows and
/// stack tell.
pub(super) async fn by_failed(conn: &mut Conn, new: &NewOperation) -> Result<BTreeMap<NodegroupId, i32>, StoreError> {
    let finished = history::finished(conn, &new.cluster, history::LOOKED_THROUGH).await?;
    let groups = nodegroup::of_cluster(conn, &new.cluster).await?;
    let Some(at) = finished.iter().position(|ended| is_gone_on_with(ended, new)) else { return Ok(BTreeMap::new()) };
    let (since, failed) = (&finished[..at], &finished[at]);
    // One that was cancelled before it had begun carries what it was handed. Of what a newer version was asked for nobody here knows what it is
    // about.
    let is_open = matches!(failed.state(), Some(OperationState::Failed | OperationState::Cancelled | OperationState::Superseded));
    if !is_open || since.iter().any(|later| later.understood().is_none()) {
        return Ok(BTreeMap::new());
    }
    // What was cancelled before it had begun has not changed its group.
    let may_have_changed = |o: &&Operation| is_about_one(o) && o.state() != Some(OperationState::Cancelled);
    let about: Vec<Payload> = since.iter().filter(may_have_changed).filter_map(|later| later.payload().ok()).collect();
    // What a rotation that ended well has kept is in the rows.
    let is_rotated = |o: &&Operation| o.kind() == Some(OperationKind::CaRotate) && o.state() == Some(OperationState::Succeeded);
    let settled: Vec<Payload> = since.iter().filter(is_rotated).filter_map(|later| later.payload().ok()).collect();
    let mut sizes = failed.payload().unwrap_or_default().sizes;
    sizes.retain(|id, _| {
        let group = groups.iter().find(|group| group.uuid == id.as_str());
        let is_settled = settled.iter().any(|payload| payload.sizes.contains_key(id));
        group.is_some_and(|group| !is_settled && !about.iter().any(|payload| names(payload, group)))
    });
    Ok(sizes)
}

/// Whether `new` does again what this one did. A rotation of authorities goes on where the one before it stopped, whoever asks for it.
fn is_gone_on_with(ended: &Operation, new: &NewOperation) -> bool {
    match &new.payload.retry_of {
        Some(failed) => ended.uuid == failed.as_str(),
        None => new.kind == OperationKind::CaRotate && ended.kind() == Some(OperationKind::CaRotate),
    }
}
