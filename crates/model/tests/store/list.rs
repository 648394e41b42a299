use model::id::ProjectId;
use model::store::template::Visible;
use model::store::{Conn, Page, Scope, SortDir, Store, StoreError, cluster, service, template};
use rstest::rstest;

use crate::world::{Kind, World, accept, spec};

fn page(sort_key: &str, sort_dir: SortDir, limit: i64, marker: Option<String>) -> Page {
    Page { limit, marker, sort_key: sort_key.into(), sort_dir }
}

async fn names(store: &Store, sort_key: &str, dir: SortDir) -> Vec<String> {
    let mut all = Vec::new();
    let mut marker = None;
    loop {
        let p = page(sort_key, dir, 2, marker.clone());
        let scope = Scope::Project(ProjectId("p1".into()));
        let rows = store.read(async |conn: &mut Conn| cluster::list(conn, &scope, &p).await).await.unwrap();
        let Some(last) = rows.last() else { return all };
        marker = Some(last.uuid.clone());
        all.extend(rows.into_iter().map(|r| r.name.unwrap_or_default()));
        assert!(all.len() < 20, "paging never ends");
    }
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn pages_join_without_gap_or_repeat_whatever_the_order(#[case] kind: Kind) {
    let world = World::new(kind).await;
    for name in ["delta", "alpha", "beta", "alpha", "gamma"] {
        let mut s = spec(name);
        // A column that is NULL in some rows and equal in others.
        s.keypair = (name > "b").then(|| "key".into());
        accept(&world.store, &s).await;
    }
    let other = {
        let mut s = spec("foreign");
        s.project = ProjectId("p2".into());
        s
    };
    accept(&world.store, &other).await;
    assert_eq!(names(&world.store, "id", SortDir::Asc).await, ["delta", "alpha", "beta", "alpha", "gamma"]);
    assert_eq!(names(&world.store, "id", SortDir::Desc).await, ["gamma", "alpha", "beta", "alpha", "delta"]);
    assert_eq!(names(&world.store, "name", SortDir::Asc).await, ["alpha", "alpha", "beta", "delta", "gamma"]);
    assert_eq!(names(&world.store, "name", SortDir::Desc).await, ["gamma", "delta", "beta", "alpha", "alpha"]);
    assert_eq!(names(&world.store, "keypair", SortDir::Asc).await, ["alpha", "alpha", "delta", "beta", "gamma"]);
    assert_eq!(names(&world.store, "keypair", SortDir::Desc).await, ["gamma", "beta", "delta", "alpha", "alpha"]);
    assert_eq!(names(&world.store, "uuid", SortDir::Asc).await.len(), 5);

    for key in cluster::SORT_KEYS {
        assert_eq!(names(&world.store, key, SortDir::Desc).await.len(), 5, "{key}");
    }
    let everything = Visible { own: Scope::All, public: true, hidden: true };
    for key in template::SORT_KEYS {
        let p = page(key, SortDir::Asc, 2, None);
        let rows = world.store.read(async |conn: &mut Conn| template::list(conn, &everything, &p).await).await;
        assert!(rows.is_ok(), "{key}");
    }

    let bad = page("node_count", SortDir::Asc, 2, None);
    let error = world.store.read(async |conn: &mut Conn| cluster::list(conn, &Scope::All, &bad).await).await.unwrap_err();
    assert!(matches!(error, StoreError::BadSortKey { .. }));
    let unseen = page("id", SortDir::Asc, 2, Some(other.id.to_string()));
    let scope = Scope::Project(ProjectId("p1".into()));
    let error = world.store.read(async |conn: &mut Conn| cluster::list(conn, &scope, &unseen).await).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn names_are_found_once_never_or_too_often(#[case] kind: Kind) {
    let world = World::new(kind).await;
    for name in ["one", "twin", "twin"] {
        accept(&world.store, &spec(name)).await;
    }
    let by = async |name: &str| {
        let name = name.to_owned();
        world.store.read(async |conn: &mut Conn| cluster::fetch_by_name(conn, &Scope::All, &name).await).await
    };
    assert!(by("one").await.is_ok());
    assert!(matches!(by("twin").await, Err(StoreError::Ambiguous { .. })));
    assert!(matches!(by("none").await, Err(StoreError::NotFound { .. })));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn the_heartbeat_grows(#[case] kind: Kind) {
    let world = World::new(kind).await;
    for _ in 0..2 {
        world.store.write(async |conn: &mut Conn| service::beat(conn, "ctl-1").await).await.unwrap();
    }
    let services = world.store.read(async |conn: &mut Conn| service::list(conn).await).await.unwrap();
    assert_eq!(services.iter().map(|s| (s.id, s.report_count)).collect::<Vec<_>>(), [(1, 2)]);
    assert!(services[0].is_up(model::time::whole_seconds(model::time::now()), 180));
}
