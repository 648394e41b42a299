use model::store::StoreError;
use model::store::migrate::{self, Fitness};
use rstest::rstest;

use crate::world::{Kind, World};

/// Steps that there are, for either database.
fn steps() -> usize {
    std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/mysql")).expect("the folder of steps").count()
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_database_gets_upstreams_revision_and_upgrading_again_changes_nothing(#[case] kind: Kind) {
    let world = World::empty(kind).await;
    assert_eq!(migrate::version(&world.store).await.unwrap(), None);
    assert!(migrate::fitness(&world.store).await.unwrap() == Fitness::Incomplete);
    let done = migrate::upgrade(&world.store).await.unwrap();
    assert_eq!(done.migrations.len(), steps());
    assert_eq!(migrate::version(&world.store).await.unwrap().as_deref(), Some(migrate::UPSTREAM_HEAD));
    assert_eq!(migrate::fitness(&world.store).await.unwrap(), Fitness::Fit);
    assert!(migrate::upgrade(&world.store).await.unwrap().migrations.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_upgrades_at_once_make_one_schema() {
    let world = World::empty(Kind::MariaDb).await;
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            tokio::spawn({
                let s = world.store.clone();
                async move { migrate::upgrade(&s).await }
            })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        made += task.await.unwrap().unwrap().migrations.len();
    }
    assert_eq!(made, steps());
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_revision_is_refused_and_left_alone(#[case] kind: Kind) {
    let world = World::new(kind).await;
    world.execute("UPDATE alembic_version SET version_num = 'b3e1cf4a2d5e'").await;
    let error = migrate::upgrade(&world.store).await.unwrap_err();
    assert!(matches!(&error, StoreError::Schema(text) if text.contains("b3e1cf4a2d5e")), "{error}");
    assert_eq!(migrate::version(&world.store).await.unwrap().as_deref(), Some("b3e1cf4a2d5e"));
}
