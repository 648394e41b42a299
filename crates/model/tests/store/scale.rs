//! What queries cost as clusters become many. Upstream's tables are of another character set than ours: a comparison between the two that is
//! not written with care cannot use upstream's index, and reads every row of one table for every row of the other.

use model::id::{ClusterId, ProjectId};
use model::quota::{Demand, Resource};
use model::resource::ResourceKind;
use model::store::health::Look;
use model::store::housekeeping::{self, Place, Removed};
use model::store::{Conn, Store, StoreError, credential_health, health, placement, quota, resource};

use crate::world::{Kind, World, accept, spec};

const CLUSTERS: i64 = 150;
/// Rows read for each cluster at most.
const EACH: i64 = 12;

#[derive(diesel::QueryableByName)]
struct Reads {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    counted: i64,
}

/// Rows that this connection has read so far.
async fn reads(conn: &mut Conn) -> Result<i64, StoreError> {
    use diesel_async::RunQueryDsl;
    let Conn::Mysql(c) = conn else { return Err(StoreError::Config("only MariaDB counts them".into())) };
    let sql = "SELECT CAST(SUM(variable_value) AS SIGNED) AS counted FROM information_schema.session_status WHERE variable_name LIKE 'handler_read%'";
    let row: Reads = diesel::sql_query(sql).get_result(&mut **c).await?;
    Ok(row.counted)
}

/// Counts what a query reads, and that it grows no faster than the clusters.
macro_rules! is_linear {
    ($store:expr, $what:literal, |$conn:ident| $query:expr) => {{
        let store: &Store = $store;
        let read = store
            .write(async |$conn: &mut Conn| {
                let before = reads($conn).await?;
                $query;
                Ok::<_, StoreError>(reads($conn).await? - before)
            })
            .await
            .expect("the query runs");
        assert!(read <= CLUSTERS * EACH, "{} read {read} rows for {CLUSTERS} clusters", $what);
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_of_all_clusters_grows_no_faster_than_they_do() {
    let world = World::new(Kind::MariaDb).await;
    let store = &world.store;
    for n in 0..CLUSTERS {
        let spec = spec(&format!("c{n}"));
        accept(store, &spec).await;
        let id: &ClusterId = &spec.id;
        store
            .write(async |conn: &mut Conn| {
                placement::record(conn, id, "blue").await?;
                resource::record(conn, id, ResourceKind::HelmRelease, id.as_str(), None).await
            })
            .await
            .expect("recorded");
    }
    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'; ").await;
    store.write(async |conn: &mut Conn| health::enrol(conn, 0, 1000).await).await.expect("enrolled");
    world.execute("ANALYZE TABLE cluster, capi_placement, cluster_health, cloud_resource, operation").await;

    is_linear!(store, "the count of each management cluster", |conn| assert_eq!(placement::counts(conn).await?["blue"], CLUSTERS));
    is_linear!(store, "clusters elsewhere", |conn| assert_eq!(placement::elsewhere(conn, "green", 10).await?.0, CLUSTERS));
    is_linear!(store, "places without a cluster", |conn| assert_eq!(placement::remove_ownerless(conn, 10).await?, 0));
    is_linear!(store, "looks at health", |conn| health::enrol(conn, 0, 1000).await?);
    is_linear!(store, "looks at credentials", |conn| credential_health::enrol(conn, 0, || 0, 1000).await?);
    let look = Look { owner: "one".into(), at_ms: 1, due_ms: 2 };
    is_linear!(store, "credentials that are due", |conn| assert_eq!(credential_health::claim(conn, &look, 5).await?.len(), 5));
    is_linear!(store, "how credentials stand", |conn| assert_eq!(credential_health::summary(conn).await?.unseen, CLUSTERS));
    let limited = new_cluster(Some(10_000));
    is_linear!(store, "a reservation under a quota of nodes", |conn| quota::reserve(conn, &ProjectId("p1".into()), &limited).await?);
    is_linear!(store, "things without a cluster", |conn| assert!(resource::ownerless(conn, 0, i64::MAX, 10).await?.is_empty()));
    // All are old, and each has to stay.
    world.execute("UPDATE operation SET state = 'SUCCEEDED', finished_ms = id").await;
    world.execute("ANALYZE TABLE operation").await;
    let first = Place::default();
    is_linear!(store, "operations that are old", |conn| assert_eq!(
        housekeeping::remove_operations(conn, i64::MAX, first, 10).await?,
        Removed { count: 0, next: None }
    ));
}

/// What a cluster of three nodes takes of the quotas of its project, of which this is the one of nodes.
fn new_cluster(nodes: Option<i64>) -> [Demand; 2] {
    [(Resource::Cluster, 1, Some(i64::MAX)), (Resource::Node, 3, nodes)].map(|(resource, count, default)| Demand {
        resource,
        count,
        default,
        group: None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_counted_only_where_they_are_limited() {
    let world = World::new(Kind::MariaDb).await;
    let store = &world.store;
    for n in 0..CLUSTERS {
        accept(store, &spec(&format!("c{n}"))).await;
    }
    let cost = async |nodes: Option<i64>| {
        let demands = new_cluster(nodes);
        let counted = store.write(async |conn: &mut Conn| {
            let before = reads(conn).await?;
            quota::reserve(conn, &ProjectId("p1".into()), &demands).await?;
            Ok::<_, StoreError>(reads(conn).await? - before)
        });
        counted.await.expect("granted")
    };
    let (without, with) = (cost(None).await, cost(Some(10_000)).await);
    // Each cluster has two groups.
    assert!(without + 2 * CLUSTERS <= with, "{without} rows read without a quota of nodes, {with} with one");
}
