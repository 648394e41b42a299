use model::id::ProjectId;
use model::store::beside::Group;
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
        marker = Some(last.uuid().to_owned());
        all.extend(rows.into_iter().map(|r| r.name().unwrap_or_default().to_owned()));
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

/// MariaDB sorts by the first bytes of a long text, and compares all of it.
#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn texts_that_differ_too_late_to_be_sorted_by_lose_no_row_between_two_pages(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let mut ids = Vec::new();
    for name in ["c", "b", "a", "d"] {
        let spec = spec(name);
        accept(&world.store, &spec).await;
        ids.push((name, spec.id));
    }
    // In order of what counts; where that is the same for all, in order of the rows.
    for (beginning, wanted) in
        [("x".repeat(254), ["a", "b", "c", "d"]), ("x".repeat(255), ["c", "b", "a", "d"]), ("x".repeat(1100), ["c", "b", "a", "d"])]
    {
        for (name, id) in &ids {
            world.execute(&format!("UPDATE cluster SET labels = '{beginning}{name}' WHERE uuid = '{id}'")).await;
        }
        assert_eq!(names(&world.store, "labels", SortDir::Asc).await, wanted, "behind {} letters", beginning.len());
        let mut backwards = names(&world.store, "labels", SortDir::Desc).await;
        backwards.reverse();
        assert_eq!(backwards, wanted, "behind {} letters, backwards", beginning.len());
    }
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

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn a_listed_cluster_has_its_groups_beside_it_as_they_are_stored(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let (none, some) = (spec("none"), spec("some"));
    for spec in [&none, &some] {
        accept(&world.store, spec).await;
    }
    world.execute(&format!("DELETE FROM nodegroup WHERE cluster_id = '{}'", none.id)).await;
    // More addresses than MySQL lets through where nobody says otherwise, and what rows of long ago may hold.
    let many = format!("[{}]", vec!["\"10.0.0.1\""; 4_000].join(", "));
    world.execute(&format!("UPDATE nodegroup SET node_addresses = '{many}', node_count = 3 WHERE name = 'default-master'")).await;
    world.execute("UPDATE nodegroup SET node_addresses = NULL, node_count = NULL WHERE name = 'default-worker'").await;
    let copy = |name: &str, role: &str, addresses: &str| {
        format!(
            "INSERT INTO nodegroup (uuid, name, cluster_id, project_id, role, node_count, node_addresses) \
             VALUES ('{name}', '{name}', '{}', 'p1', {role}, 2, '{addresses}')",
            some.id
        )
    };
    for (name, role, addresses) in [("a", "'Master'", "[\"é\"]"), ("b", "'master '", ""), ("c", "NULL", "no json"), ("d", "'master'", "[]")]
    {
        world.execute(&copy(name, role, addresses)).await;
    }

    let page = page("id", SortDir::Asc, 10, None);
    let read = async |conn: &mut Conn| {
        let scope = Scope::Project(ProjectId("p1".into()));
        Ok::<_, StoreError>((cluster::list(conn, &scope, &page).await?, cluster::list_short(conn, &scope, &page).await?))
    };
    let (detailed, short) = world.store.read(read).await.unwrap();
    let group = |is_master, node_count, addresses| Group { is_master, node_count, addresses };
    let wanted = [
        group(true, 3, many.as_str()),
        group(false, 1, ""),
        group(false, 2, "[\"é\"]"),
        group(false, 2, ""),
        group(false, 2, "no json"),
        group(true, 2, "[]"),
    ];
    assert_eq!(detailed[0].nodegroups().collect::<Vec<_>>(), []);
    assert_eq!(detailed[1].nodegroups().collect::<Vec<_>>(), wanted);
    assert_eq!(short[0].nodegroups().collect::<Vec<_>>(), []);
    let without = wanted.map(|group| Group { addresses: "", ..group });
    assert_eq!(short[1].nodegroups().collect::<Vec<_>>(), without);
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn packed_rows_tell_null_from_empty_and_keep_every_column_apart(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let s = spec("größe");
    accept(&world.store, &s).await;
    world
        .execute(
            "UPDATE cluster SET keypair = '', stack_id = NULL, flavor_id = 'f', master_flavor_id = '', health_status = NULL, \
             fixed_subnet = 'last', docker_volume_size = 7, create_timeout = NULL, floating_ip_enabled = 1, master_lb_enabled = NULL",
        )
        .await;
    let page = page("id", SortDir::Asc, 10, None);
    let read = async |conn: &mut Conn| {
        let whole = cluster::fetch(conn, &Scope::All, &s.id).await?;
        Ok::<_, StoreError>((whole, cluster::list(conn, &Scope::All, &page).await?, cluster::list_short(conn, &Scope::All, &page).await?))
    };
    let (whole, detailed, short) = world.store.read(read).await.unwrap();
    let (detailed, short) = (&detailed[0], &short[0]);
    assert_eq!(detailed.keypair(), Some(""));
    assert_eq!(detailed.stack_id(), None);

    assert_eq!((detailed.uuid(), short.uuid()), (whole.uuid.as_str(), whole.uuid.as_str()));
    macro_rules! same {
        (in both: $($both:ident),+; in detail: $($column:ident),+; of both: $($number:ident),+; of detail: $($other:ident),+) => {
            $(assert_eq!((detailed.$both(), short.$both()), (whole.$both.as_deref(), whole.$both.as_deref()), stringify!($both));)+
            $(assert_eq!(detailed.$column(), whole.$column.as_deref(), stringify!($column));)+
            $(assert_eq!((detailed.$number, short.$number), (whole.$number, whole.$number), stringify!($number));)+
            $(assert_eq!(detailed.$other, whole.$other, stringify!($other));)+
        };
    }
    same!(
        in both: name, cluster_template_id, stack_id, status, keypair, labels, master_flavor_id, flavor_id, health_status;
        in detail: api_address, project_id, user_id, discovery_url, status_reason, coe_version, container_version, health_status_reason,
            fixed_network, fixed_subnet;
        of both: create_timeout, docker_volume_size;
        of detail: id, created_at, updated_at, floating_ip_enabled, master_lb_enabled
    );
}
