//! What deletions of one cluster leave to each other of what Kubernetes made: volumes that none of them has looked for, and things that one has kept.
//!
//! Volumes are looked for when the cluster's stack is gone. The deletion that saw it go may end before that, or not be able to look; the next one
//! sees neither stack nor volumes, and would tell nobody of them. So it stands in the inventory from the transaction that forgets the stack until
//! somebody has looked.

use model::id::ClusterId;
use model::operation::{Leak, OperationEvent, Progress};
use model::resource::{CloudResource, OnDelete, ResourceKind, UNSEEN_VOLUMES};
use model::store::{Conn, StoreError, operation, resource};

use super::report::{KEEP, leak};
use super::{BALANCERS_GONE, VOLUMES_GONE};
use crate::cluster::Rows;
use crate::context::Context;
use crate::outcome::Failure;
use crate::worker::Work;

/// Why a thing is left that is in the inventory as one to be kept.
const KEPT_BEFORE: &str = "a deletion before this one found that it is not to be removed";

/// Records that volumes may be left of a cluster whose stack is gone.
pub(crate) async fn volumes_are_unseen(conn: &mut Conn, cluster: &ClusterId) -> Result<(), StoreError> {
    resource::record(conn, cluster, ResourceKind::Volume, UNSEEN_VOLUMES, None).await
}

/// Records that volumes were looked for: those that there are stand in the inventory by their ids. Where it could not be told which there are, that
/// stays for a deletion after this one, and keeps this one from nothing.
pub(super) async fn looked(cx: &Context, work: &Work, rows: &Rows, are_known: bool) -> Result<(), Failure> {
    // The stack may have gone in this turn.
    if are_known && !rows.stack().may_exist && !rows.made_inside(ResourceKind::Volume).any(CloudResource::is_unseen) {
        return Ok(());
    }
    let (id, progress) = (&rows.cluster.cluster_id(), &Progress { step: "kubernetes", ..Progress::default() });
    cx.store
        .write(async |conn: &mut Conn| {
            operation::record(conn, work.claim(), progress).await?;
            match are_known {
                true => resource::forget_one(conn, id, ResourceKind::Volume, UNSEEN_VOLUMES).await,
                false => resource::record_for(conn, id, ResourceKind::Volume, UNSEEN_VOLUMES, None, OnDelete::Keep).await,
            }
        })
        .await?;
    Ok(())
}

/// Those of the things that are `kept` by the inventory which this deletion has not come to look at, and that are not among the `told` ones.
pub(crate) fn kept_before<'a>(events: &[OperationEvent], kept: impl Iterator<Item = &'a CloudResource>, told: &[Leak]) -> Vec<Leak> {
    let own: Vec<Leak> = events.iter().filter(|e| e.kind == KEEP).flat_map(|e| e.details().leaks.unwrap_or_default()).collect();
    let has = |kind: &str| events.iter().any(|e| e.kind == kind);
    let was_looked_for = |row: &CloudResource| has(if row.kind() == Some(ResourceKind::Volume) { VOLUMES_GONE } else { BALANCERS_GONE });
    let is_it = |leak: &Leak, row: &CloudResource| {
        leak.kind == row.kind && (leak.name == row.name || (leak.id.is_some() && leak.id == row.resource_id))
    };
    let is_told = |row: &CloudResource| told.iter().chain(&own).any(|leak| is_it(leak, row));
    kept.filter(|row| !was_looked_for(row) && !is_told(row))
        .filter_map(|row| row.kind().map(|kind| leak(kind, &row.name, row.resource_id.clone(), KEPT_BEFORE)))
        .collect()
}

#[cfg(test)]
mod tests {
    use model::operation::EventDetails;

    use super::*;
    use crate::stack::tests as events;

    fn row(kind: ResourceKind, id: &str) -> CloudResource {
        CloudResource {
            id: 1,
            cluster_uuid: "c".into(),
            kind: kind.as_str().into(),
            name: format!("data ({id})"),
            resource_id: Some(id.into()),
            on_delete: OnDelete::Keep.as_str().into(),
            created_ms: 0,
            updated_ms: 0,
        }
    }

    fn event(kind: &str, leaks: Option<Vec<Leak>>) -> OperationEvent {
        let details = EventDetails { leaks, ..EventDetails::default() };
        OperationEvent { details: Some(details.column()), ..events::event(kind, "") }
    }

    #[test]
    fn what_was_kept_is_told_by_whoever_does_not_come_to_look_at_it() {
        let kept = [row(ResourceKind::Volume, "a"), row(ResourceKind::Volume, "b"), row(ResourceKind::LoadBalancer, "c")];
        let ids = |events: &[OperationEvent], told: &[Leak]| -> Vec<String> {
            kept_before(events, kept.iter(), told).into_iter().filter_map(|leak| leak.id).collect()
        };
        assert_eq!(ids(&[], &[]), ["a", "b", "c"]);
        // Whoever has looked has told of it, or seen that it is gone.
        assert_eq!(ids(&[event(BALANCERS_GONE, None)], &[]), ["a", "b"]);
        assert_eq!(ids(&[event(BALANCERS_GONE, None), event(VOLUMES_GONE, None)], &[]), [""; 0]);
        // It was cut off while it told.
        let of = |id: &str| leak(ResourceKind::Volume, "data", Some(id.to_owned()), "kept");
        assert_eq!(ids(&[event(KEEP, Some(vec![of("a")]))], &[of("b")]), ["c"]);
    }

    #[test]
    fn a_volume_is_told_from_the_word_that_nobody_has_looked_for_any() {
        let word = CloudResource { name: UNSEEN_VOLUMES.into(), resource_id: None, ..row(ResourceKind::Volume, "a") };
        assert!(word.is_unseen() && !row(ResourceKind::Volume, "a").is_unseen());
        let named_so = CloudResource { resource_id: Some("a".into()), ..word.clone() };
        assert!(!named_so.is_unseen());
        let told = kept_before(&[], [&word].into_iter(), &[]);
        assert_eq!((told.len(), told[0].name.as_str(), &told[0].id), (1, UNSEEN_VOLUMES, &None));
    }
}
