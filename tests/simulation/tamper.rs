//! The checks can fail: whatever is changed behind everybody's back, once all has ended well, is found.

use cloud_simulator::{Cloud, StackCopy};
use model::cluster::ClusterChange;
use model::id::{ClusterId, NodegroupId, OperationId, TemplateId};
use model::nodegroup::{Nodegroup, NodegroupChange, Nodes};
use model::operation::{OperationKind, Payload};
use model::quota::Resource;
use model::store::{Conn, Store, StoreError, cluster, nodegroup, nodes, quota};
use rstest::rstest;

use crate::book::{Entry, Promise};
use crate::rows::Rows;
use crate::scene::{self, Weather};
use crate::workload::Act;
use crate::world::{Options, World, empty_database};

/// What is done behind everybody's back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tamper {
    OneNodeTooMany,
    OneNodeTooFewOfTheDefault,
    OneMasterTooMany,
    OneNodeTooManyInTheStack,
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
        };
        changed.expect("it is stored");
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
