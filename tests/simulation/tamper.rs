//! The checks can fail: whatever is changed behind everybody's back, once all has ended well, is found.

use cloud_simulator::{Cloud, Mishap, NewLoadBalancer, StackCopy};
use model::cluster::ClusterChange;
use model::id::{ClusterId, NodegroupId, OperationId, TemplateId};
use model::nodegroup::{Nodegroup, NodegroupChange, Nodes};
use model::operation::{OperationKind, OutcomeCode, Payload, StepLimits};
use model::quota::Resource;
use model::resource::ResourceKind;
use model::store::{Conn, Store, StoreError, cluster, nodegroup, nodes, notification, operation, quota};
use rstest::rstest;

use crate::book::{Entry, Promise};
use crate::kubernetes::Thing;
use crate::mishaps::ABSENT;
use crate::rows::Rows;
use crate::scene::{self, Weather};
use crate::steps::BOUNDED;
use crate::workload::Act;
use crate::world::{Options, World, empty_database};

/// What is done behind everybody's back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tamper {
    OneNodeTooMany,
    OneNodeTooFewOfTheDefault,
    OneMasterTooMany,
    OneNodeTooManyInTheStack,
    MemberThatIsNoNode,
    NodeLabelGone,
    BoundOff,
    ClusterLabelGone,
    OtherTemplate,
    OtherVersion,
    OtherVersionOfTheStack,
    GroupGone,
    QuotaOff,
    QuotaGone,
    TrusteeOfNobody,
    SecondTrustee,
    AcceptedAndLost,
    OneTellingGone,
    PasswordOfAnEndedOne,
}

impl World {
    /// Everything that is found now.
    fn found(&mut self, is_end: bool) -> Vec<String> {
        self.check(is_end);
        scene::with(|s| std::mem::take(&mut s.findings))
    }

    /// A cluster with another group, of both of which everything was changed that can be, in a world in which nothing goes wrong.
    fn at_rest() -> Self {
        let mut world = Self::begin(Options { seed: 1, prints: false, bug: None }, &empty_database());
        scene::with(|s| s.weather = Weather::default());
        world.user.is_pressed = false;
        world.clusters = vec![ClusterId::generate()];
        let acts = [Act::Create, Act::AddGroup, Act::UpdateGroup, Act::Relabel, Act::ResizeGroup, Act::Patch];
        for act in acts {
            world.ask(0, act);
            assert!(world.until_ended(), "{act:?} has not ended");
        }
        let accepted = world.book.of(&world.clusters[0]).count();
        assert_eq!(accepted, acts.len(), "not all was accepted");
        assert_eq!(world.found(false), Vec::<String>::new());
        world
    }

    fn rows_now(&self) -> Rows {
        self.runtime.block_on(Rows::read(&self.parts.store, &self.clusters[0])).expect("rows")
    }

    fn tamper(&mut self, what: Tamper) {
        let rows = self.rows_now();
        let named = |fits: &dyn Fn(&Nodegroup) -> bool| rows.groups.iter().find(|group| fits(group)).expect("such a group");
        let (added, master) = (named(&|g| !g.is_default()), named(&|g| g.is_master()));
        let workers = named(&|g| g.is_default() && !g.is_master());
        let (cluster, store, cloud) = (self.clusters[0].clone(), self.parts.store.clone(), scene::with(|s| s.cloud.cloud()));
        let sized =
            |group: &Nodegroup, more: i32| NodegroupChange { node_count: Some(group.node_count() + more), ..NodegroupChange::default() };
        let changed = match what {
            Tamper::OneNodeTooMany => self.runtime.block_on(change_group(&store, added, &sized(added, 1))),
            Tamper::OneNodeTooFewOfTheDefault => self.runtime.block_on(change_group(&store, workers, &sized(workers, -1))),
            Tamper::OneMasterTooMany => self.runtime.block_on(change_group(&store, master, &sized(master, 1))),
            Tamper::OneNodeTooManyInTheStack => {
                change_stack(&cloud, added, ("number_of_minions", (added.node_count() + 1).to_string()));
                Ok(())
            }
            Tamper::MemberThatIsNoNode => {
                let stack = workers.stack_id.as_deref().expect("a stack");
                assert!(cloud.spoil_member(stack, "kube_minions/0", Mishap::Says(ABSENT.to_owned())), "there is no such member");
                Ok(())
            }
            Tamper::OtherVersionOfTheStack => {
                change_stack(&cloud, workers, ("kube_version", "v1.30.0".to_owned()));
                Ok(())
            }
            Tamper::NodeLabelGone => self.runtime.block_on(no_labels(&store, &cluster, &added.nodegroup_id())),
            Tamper::BoundOff => {
                let change = NodegroupChange { max_node_count: Some(Some(99)), ..NodegroupChange::default() };
                self.runtime.block_on(change_group(&store, workers, &change))
            }
            Tamper::ClusterLabelGone => {
                let change = ClusterChange { labels: Some(Some("{}".into())), ..ClusterChange::default() };
                self.runtime.block_on(change_cluster(&store, &cluster, &change))
            }
            Tamper::OtherTemplate => {
                let other = TemplateId::generate().as_str().to_owned();
                let change = ClusterChange { cluster_template_id: Some(Some(other)), ..ClusterChange::default() };
                self.runtime.block_on(change_cluster(&store, &cluster, &change))
            }
            Tamper::OtherVersion => {
                let change = ClusterChange { coe_version: Some(Some("v1.30.0".into())), ..ClusterChange::default() };
                self.runtime.block_on(change_cluster(&store, &cluster, &change))
            }
            Tamper::GroupGone => self.runtime.block_on(remove_group(&store, &added.nodegroup_id())),
            Tamper::QuotaOff => self.runtime.block_on(quota_off(&store, &self.book.project.0, Some(1))),
            Tamper::QuotaGone => self.runtime.block_on(quota_off(&store, &self.book.project.0, None)),
            Tamper::TrusteeOfNobody => {
                cloud.add_user(&format!("{}_trustee", ClusterId::generate()), "magnum");
                Ok(())
            }
            Tamper::SecondTrustee => {
                cloud.add_user(&format!("{cluster}_trustee"), "magnum");
                Ok(())
            }
            Tamper::AcceptedAndLost => {
                let promise = Promise::of(OperationKind::CredentialRotate, &Payload::default());
                self.book.note(Entry { cluster, operation: OperationId::generate(), promise });
                Ok(())
            }
            Tamper::OneTellingGone => self.runtime.block_on(forget_last(&store)),
            Tamper::PasswordOfAnEndedOne => self.runtime.block_on(leave_password(&store, &self.operations[0])),
        };
        changed.expect("it is stored");
    }

    /// Kubernetes has made something of each kind.
    fn with_things(&mut self) {
        for _ in 0..200 {
            let has = |kind: &ResourceKind| self.things.iter().any(|thing| thing.kind == *kind);
            if [ResourceKind::LoadBalancer, ResourceKind::FloatingIp, ResourceKind::Volume].iter().all(has) {
                return;
            }
            self.act_inside(0);
        }
        panic!("Kubernetes makes only {:?}", self.things);
    }

    /// Ends the world, and what it left on this thread.
    fn end(self) {
        drop(self);
        drop(scene::take());
    }
}

/// Puts one that is otherwise the same in the place of a group's stack, by its name and id.
fn change_stack(cloud: &Cloud, group: &Nodegroup, parameter: (&'static str, String)) {
    let stack = cloud.stacks().into_iter().find(|s| group.stack_id.as_deref() == Some(s.id.as_str())).expect("its stack");
    let copy = StackCopy { id: stack.id.clone(), name: stack.name, parameters: vec![parameter] };
    assert!(cloud.copy_stack(&stack.id, vec![copy]), "there is no such stack");
}

async fn change_group(store: &Store, group: &Nodegroup, change: &NodegroupChange) -> Result<(), StoreError> {
    let id = &group.nodegroup_id();
    store.write(async |conn: &mut Conn| nodegroup::record(conn, id, change).await).await
}

async fn remove_group(store: &Store, id: &NodegroupId) -> Result<(), StoreError> {
    store.write(async |conn: &mut Conn| nodegroup::delete(conn, id).await).await
}

async fn no_labels(store: &Store, cluster: &ClusterId, group: &NodegroupId) -> Result<(), StoreError> {
    let none = &Nodes::default();
    store.write(async |conn: &mut Conn| nodes::record(conn, cluster, group, none).await).await
}

async fn change_cluster(store: &Store, id: &ClusterId, change: &ClusterChange) -> Result<(), StoreError> {
    store.write(async |conn: &mut Conn| cluster::record(conn, id, change).await).await
}

/// What was told last was not.
async fn forget_last(store: &Store) -> Result<(), StoreError> {
    store
        .write(async |conn: &mut Conn| {
            let last = notification::first(conn, i64::MAX).await?.pop().expect("something was told");
            notification::remove(conn, &[last.id]).await
        })
        .await
}

/// An operation that has ended carries a password.
async fn leave_password(store: &Store, id: &OperationId) -> Result<(), StoreError> {
    store
        .write(async |conn: &mut Conn| {
            let seen = operation::find(conn, id).await?.expect("it is there");
            let payload = Payload { sealed_password: Some("v1:drawn".into()), ..seen.payload().expect("a payload") };
            operation::record_payload(conn, &seen, &payload).await
        })
        .await
}

/// The project is granted so many nodes more; none: its quota is taken away.
async fn quota_off(store: &Store, project: &str, more: Option<i32>) -> Result<(), StoreError> {
    store
        .write(async |conn: &mut Conn| {
            let row = quota::fetch(conn, project, Resource::Node).await?;
            match more {
                Some(more) => quota::record(conn, &row, row.hard_limit + more).await,
                None => quota::delete(conn, &row).await,
            }
        })
        .await
}

#[rstest]
#[case(Tamper::OneNodeTooMany, "nodes, ")]
#[case(Tamper::OneNodeTooFewOfTheDefault, "nodes, ")]
#[case(Tamper::OneMasterTooMany, "group default-master")]
#[case(Tamper::OneNodeTooManyInTheStack, "its stack")]
#[case(Tamper::MemberThatIsNoNode, "which is no node")]
#[case(Tamper::NodeLabelGone, "get the labels")]
#[case(Tamper::BoundOff, "nodes at most")]
#[case(Tamper::ClusterLabelGone, "has the label owner")]
#[case(Tamper::OtherTemplate, "is of template")]
#[case(Tamper::OtherVersion, "is of version Some(\"v1.30.0\")")]
#[case(Tamper::OtherVersionOfTheStack, "the stack of cluster")]
#[case(Tamper::GroupGone, "was added, was never removed")]
#[case(Tamper::QuotaOff, "quota of Node")]
#[case(Tamper::QuotaGone, "quota of Node")]
#[case(Tamper::TrusteeOfNobody, "a user of a cluster that is gone")]
#[case(Tamper::SecondTrustee, "2 users that are trustee")]
#[case(Tamper::AcceptedAndLost, "was accepted and is not there")]
#[case(Tamper::OneTellingGone, "was told success 0 times")]
#[case(Tamper::PasswordOfAnEndedOne, "has ended and has secrets still")]
fn what_is_changed_behind_everybodys_back_is_found(#[case] what: Tamper, #[case] told: &str) {
    let mut world = World::at_rest();
    world.tamper(what);
    let found = world.found(false);
    assert!(found.iter().any(|line| line.contains(told)), "{what:?} is not found: {found:?}");
    world.end();
}

#[test]
fn what_is_left_of_a_cluster_that_was_deleted_is_found() {
    let mut world = World::at_rest();
    let groups = world.rows_now().groups;
    world.ask(0, Act::Delete);
    assert!(world.until_ended(), "it is not deleted");
    assert_eq!(world.found(true), Vec::<String>::new());
    let (cluster, store) = (world.clusters[0].clone(), world.parts.store.clone());
    world.runtime.block_on(no_labels(&store, &cluster, &groups[0].nodegroup_id())).expect("it is stored");
    scene::with(|s| s.cloud.cloud()).add_user(&format!("{cluster}_trustee"), "magnum");
    let found = world.found(true);
    for told in ["1 groups are left", "left behind: user"] {
        assert!(found.iter().any(|line| line.contains(told)), "{told} is not found: {found:?}");
    }
    world.end();
}

#[rstest]
#[case(ResourceKind::LoadBalancer)]
#[case(ResourceKind::FloatingIp)]
#[case(ResourceKind::Volume)]
fn what_kubernetes_made_is_missed_as_long_as_its_cluster_is_there(#[case] kind: ResourceKind) {
    let mut world = World::at_rest();
    world.with_things();
    assert_eq!(world.found(false), Vec::<String>::new());
    let thing = world.things.iter().find(|thing| thing.kind == kind).expect("such a thing").clone();
    assert!(scene::with(|s| s.cloud.cloud()).remove_reported(kind.as_str(), "", Some(&thing.id)));
    let found = world.found(false);
    assert!(found.iter().any(|line| line.contains(&thing.id) && line.contains("nobody had it removed")), "{found:?}");
    world.end();
}

#[test]
fn what_kubernetes_made_goes_with_its_cluster_or_is_told_and_what_is_not_is_found() {
    let mut world = World::at_rest();
    world.with_things();
    world.ask(0, Act::Delete);
    assert!(world.until_ended(), "it is not deleted");
    assert_eq!(world.found(true), Vec::<String>::new());
    let (cluster, project) = (world.clusters[0].clone(), world.user.project.0.clone());
    let id = scene::with(|s| s.cloud.cloud()).add_load_balancer(NewLoadBalancer { project, ..NewLoadBalancer::default() });
    world.things.push(Thing { cluster: cluster.clone(), kind: ResourceKind::LoadBalancer, id, stays: false });
    world.things.push(Thing { cluster, kind: ResourceKind::Volume, id: "no such volume".into(), stays: true });
    let found = world.found(true);
    for told in ["nobody was told", "whose labels do not say that volumes go"] {
        assert!(found.iter().any(|line| line.contains(told)), "{told} is not found: {found:?}");
    }
    world.end();
}

#[test]
fn a_trust_that_outlasts_new_credentials_is_found() {
    let mut world = World::at_rest();
    world.ask(0, Act::RotateCredential);
    assert!(world.until_ended(), "there are none");
    assert_eq!(world.found(false), Vec::<String>::new());
    let trustee = world.rows_now().cluster.and_then(|row| row.trustee_username).expect("a trustee");
    let (_, trust) = scene::with(|s| s.cloud.cloud()).token_through_trust("demo", "demo", &trustee, 0);
    let found = world.found(false);
    assert!(found.iter().any(|line| line.contains(&trust) && line.contains("outlasted its new credentials")), "{found:?}");
    world.end();
}

/// Nothing else would end it before the operation's own time is over, for which nobody waits here.
#[test]
fn a_step_that_comes_to_no_end_ends_its_operation_in_time_and_a_longer_one_is_found() {
    let mut world = World::begin(Options { seed: BOUNDED, prints: false, bug: None }, &empty_database());
    scene::with(|s| s.weather = Weather::default());
    world.user.is_pressed = false;
    world.clusters = vec![ClusterId::generate()];
    let cloud = scene::with(|s| s.cloud.cloud());
    cloud.hold_stacks(true);
    world.ask(0, Act::Create);
    assert!(world.until_ended(), "it has not ended");
    let rows = world.rows_now();
    let [create] = &rows.operations[..] else { panic!("{} operations", rows.operations.len()) };
    let reason = create.outcome_reason.as_deref().unwrap_or_default();
    assert_eq!(create.outcome(), Some(OutcomeCode::Timeout), "{reason}");
    assert!(reason.starts_with("step stack: not done within 1 minute") && reason.contains("Likely cure: "), "{reason}");
    let limits = world.parts.step_limits.clone();
    assert_eq!(world.outlived(&limits, 10_000), Vec::<String>::new());
    let shorter = StepLimits::read("stack:30").expect("a step that there is");
    let found = world.outlived(&shorter, 10_000);
    assert!(found.len() == 1 && found[0].starts_with("step stack of cluster_create"), "{found:?}");
    cloud.hold_stacks(false);
    world.ask(0, Act::Delete);
    assert!(world.until_ended(), "it is not deleted");
    assert_eq!(world.found(true), Vec::<String>::new());
    world.end();
}

/// What a refused request must not change is compared as text.
#[rstest]
#[case(Tamper::OneNodeTooMany)]
#[case(Tamper::NodeLabelGone)]
#[case(Tamper::ClusterLabelGone)]
#[case(Tamper::OtherTemplate)]
#[case(Tamper::GroupGone)]
fn a_change_of_rows_is_seen_in_their_text(#[case] what: Tamper) {
    let mut world = World::at_rest();
    let before = world.rows_now().as_text();
    assert_eq!(world.rows_now().as_text(), before);
    world.tamper(what);
    assert_ne!(world.rows_now().as_text(), before, "{what:?}");
    world.end();
}
