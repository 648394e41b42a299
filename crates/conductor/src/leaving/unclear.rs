//! What a deletion may leave without anybody's having seen it: things that were asked for and whose answer was lost.
//!
//! A deletion waits until they cannot appear any more, and looks for them then. One that is to end in a bounded time may not have the time
//! for it: then each is told, with what is needed to find it.

use model::cluster::Cluster;
use model::operation::{Leak, OperationEvent, Thing};
use model::resource::{CloudResource, ResourceKind};

use super::report::{FOUND_GONE, REMOVE, leak};
use crate::credentials::trustee_of;

/// Why it may be left.
const REASON: &str = "it was asked for without a clear answer, and may have appeared after it was looked for";

/// Those of these things that this deletion has not removed, and that are not among the `told` ones.
pub(crate) fn may_appear(cluster: &Cluster, unclear: &[CloudResource], events: &[OperationEvent], told: &[Leak]) -> Vec<Leak> {
    let is_told = |row: &CloudResource| told.iter().any(|leak| leak.kind == row.kind && leak.name == row.name);
    unclear
        .iter()
        .filter(|row| !is_told(row) && !was_removed(events, row) && !went_with_trustee(events, row, told))
        .filter_map(|row| row.kind().map(|kind| leak(kind, &row.name, None, &with_marks(cluster, kind, REASON))))
        .collect()
}

/// Whether it is a trust whose trustee was removed: it goes with him, by whose name it is called, and none comes when he is gone.
fn went_with_trustee(events: &[OperationEvent], row: &CloudResource, told: &[Leak]) -> bool {
    let (trustee, name) = (ResourceKind::Trustee.as_str(), trustee_of(&row.name));
    let is_left = || told.iter().any(|leak| leak.kind == trustee && leak.name == name);
    row.kind() == Some(ResourceKind::Trust) && removed(events, trustee, name) && !is_left()
}

/// Whether it was there when it was removed.
fn was_removed(events: &[OperationEvent], row: &CloudResource) -> bool {
    removed(events, &row.kind, &row.name)
}

/// Whether such a thing was there when it was removed: some removals are told before anybody knows whether there is anything, and the end of
/// these says that there was nothing. One that is told twice as often was there the first time.
fn removed(events: &[OperationEvent], of: &str, name: &str) -> bool {
    let is_it = |thing: Thing| thing.kind == of && thing.name == name;
    let count = |kind: &str| events.iter().filter(|e| e.kind == kind && e.details().thing.is_some_and(is_it)).count();
    count(REMOVE) > count(FOUND_GONE)
}

/// A reason, after what there is to find a thing by whose id is not known. First, for a reason may be cut.
pub(super) fn with_marks(cluster: &Cluster, kind: ResourceKind, reason: &str) -> String {
    let project = cluster.project().0;
    if kind != ResourceKind::Trust {
        return format!("project {project}: {reason}");
    }
    // Trusts have no names: only who gave it, and to whom, tells one from others.
    let (trustor, trustee) = (cluster.user().0, cluster.trustee_user_id.as_deref().unwrap_or("not known"));
    format!("project {project}, trustor {trustor}, trustee {trustee}: {reason}")
}

#[cfg(test)]
mod tests {
    use model::operation::EventDetails;
    use model::resource::OnDelete;

    use super::*;
    use crate::driver::capi_helm::tests as rows;
    use crate::stack::tests as events;

    fn row(kind: ResourceKind, name: &str) -> CloudResource {
        CloudResource {
            id: 1,
            cluster_uuid: "c".into(),
            kind: kind.as_str().into(),
            name: name.into(),
            resource_id: None,
            on_delete: OnDelete::Remove.as_str().into(),
            created_ms: 0,
            updated_ms: 0,
        }
    }

    fn event(kind: &str, of: ResourceKind, name: &str) -> OperationEvent {
        let thing = Thing { kind: of.as_str().into(), name: name.into(), id: None };
        let details = EventDetails { thing: Some(thing), ..EventDetails::default() };
        OperationEvent { details: Some(details.column()), ..events::event(kind, name) }
    }

    fn names(leaks: &[Leak]) -> Vec<(&str, &str)> {
        leaks.iter().map(|leak| (leak.kind.as_str(), leak.name.as_str())).collect()
    }

    #[test]
    fn each_is_told_with_its_kind_its_name_and_its_project() {
        let cluster = Cluster { trustee_user_id: Some("the-trustee".into()), ..rows::cluster() };
        let unclear = [
            row(ResourceKind::Trustee, "c_p"),
            row(ResourceKind::Trust, "c_p"),
            row(ResourceKind::StackOwner, "c_p_stacks"),
            row(ResourceKind::KeyPair, "owner/key"),
            row(ResourceKind::ApplicationCredential, "magnum-c-01234567"),
            row(ResourceKind::Certificate, "magnum_c_client_01234567"),
        ];
        let told = may_appear(&cluster, &unclear, &[], &[]);
        let expected: Vec<_> = unclear.iter().map(|row| (row.kind.as_str(), row.name.as_str())).collect();
        assert_eq!(names(&told), expected);
        assert!(told.iter().all(|leak| leak.id.is_none() && leak.reason.starts_with("project p")), "{told:?}");
        let trust = &told[1].reason;
        assert!(trust.starts_with("project p, trustor u, trustee the-trustee: it was asked for"), "{trust}");
    }

    #[test]
    fn what_was_found_and_removed_or_is_told_already_is_not_told() {
        let (user, owner) = (ResourceKind::Trustee, ResourceKind::StackOwner);
        let unclear = [row(user, "a"), row(owner, "a"), row(user, "b")];
        let left = |events: &[OperationEvent], told: &[Leak]| may_appear(&rows::cluster(), &unclear, events, told).len();
        assert_eq!(left(&[], &[]), 3);
        assert_eq!(left(&[event(REMOVE, user, "a")], &[]), 2);
        // It was looked for, and was not there yet.
        assert_eq!(left(&[event(REMOVE, user, "a"), event(FOUND_GONE, user, "a")], &[]), 3);
        // The answer to its removal was lost.
        assert_eq!(left(&[event(REMOVE, user, "a"), event(REMOVE, user, "a"), event(FOUND_GONE, user, "a")], &[]), 2);
        // A key pair does not go with its owner, also where he is removed first.
        let key = [row(ResourceKind::KeyPair, "a/key")];
        let left_of_key = |events: &[OperationEvent]| may_appear(&rows::cluster(), &key, events, &[]).len();
        assert_eq!((left_of_key(&[event(REMOVE, owner, "a")]), left_of_key(&[event(REMOVE, ResourceKind::KeyPair, "a/key")])), (1, 0));
        // A trust goes with its trustee, and stays where he does; so does one that was to take the place of another.
        for name in ["a", "a_next"] {
            let trust = [row(ResourceKind::Trust, name)];
            let left_of_trust = |told: &[Leak]| may_appear(&rows::cluster(), &trust, &[event(REMOVE, user, "a")], told).len();
            assert_eq!((left_of_trust(&[]), left_of_trust(&[leak(user, "a", None, "keystone does not answer")])), (0, 1), "{name}");
        }
        assert_eq!(left(&[event(REMOVE, user, "c")], &[leak(user, "b", None, "keystone does not answer")]), 2);
    }
}
