//! Upstream's tables need not be of one collation, nor of ours: it never compares one with another.
//!
//! What they are of is learned once in a process; nextest gives each of these tests one.

use model::placement::DEFAULT;
use model::seal::vault::Vault;
use model::store::health::{self, Look};
use model::store::housekeeping::{self, Place};
use model::store::{Conn, Page, Scope, SortDir, StoreError, cluster, credential_health, found, placement, resource};
use rstest::rstest;

use crate::world::{World, accept, spec};

const LOOK: i64 = 10;

#[rstest]
// `cluster` says its character set, and `nodegroup` has what the database was made with.
#[case::made_so("CHARACTER SET utf8mb3 COLLATE utf8mb3_unicode_ci", "SELECT 1")]
#[case::converted("CHARACTER SET utf8mb4", "ALTER TABLE cluster CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")]
#[case::of_another_default("CHARACTER SET utf8mb3", "ALTER TABLE cluster CONVERT TO CHARACTER SET utf8mb3 COLLATE utf8mb3_bin")]
#[tokio::test(flavor = "multi_thread")]
async fn tables_of_different_collations_are_compared(#[case] made: &str, #[case] then: &str) -> Result<(), StoreError> {
    let world = World::made_with(made).await;
    world.execute(then).await;
    // As a process that finds them so.
    let store = &world.with(Vault::default());
    let one = spec("one");
    accept(store, &one).await;
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE', stack_id = 'one-abcdefghijkl'").await;
    let page = &Page { limit: LOOK, marker: None, sort_key: "id".into(), sort_dir: SortDir::Asc };
    let (short, all) = store
        .read(async |conn: &mut Conn| {
            Ok::<_, StoreError>((cluster::list_short(conn, &Scope::All, page).await?, cluster::list(conn, &Scope::All, page).await?))
        })
        .await?;
    assert_eq!((short.len(), all.len()), (1, 1));
    assert_eq!(all[0].nodegroups().map(|group| group.node_count).sum::<i32>(), 3);
    let id = &one.id;
    let look = &Look { owner: "one".into(), at_ms: 200, due_ms: 1200 };
    store
        .write(async |conn: &mut Conn| {
            health::enrol(conn, 100, LOOK).await?;
            assert_eq!(health::claim(conn, look, 0, 2, &[]).await?.clusters.len(), 1);
            credential_health::enrol(conn, 0, || 100, LOOK).await?;
            assert_eq!(placement::counts(conn).await?.get(DEFAULT), Some(&1));
            placement::record(conn, id, "blue").await?;
            assert_eq!(placement::counts(conn).await?.into_iter().collect::<Vec<_>>(), [("blue".to_owned(), 1)]);
            assert_eq!(placement::remove_ownerless(conn, LOOK).await?, 0);
            assert!(resource::ownerless(conn, 0, i64::MAX, LOOK).await?.is_empty() && found::unattended(conn, 0, LOOK).await?.is_empty());
            housekeeping::remove_operations(conn, i64::MAX, Place::default(), LOOK).await.map(drop)
        })
        .await
}
