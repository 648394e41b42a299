//! Rows without a uuid, or with an empty one, which upstream's columns allow and only a hand can have made: they spoil nothing but themselves.

use model::cluster::CreateSpec;
use model::id::{ClusterId, ProjectId};
use model::store::adoption::{self, UPSTREAM_PREVIOUS};
use model::store::health::Look;
use model::store::template::Visible;
use model::store::{Conn, Page, Scope, SortDir, StoreError, cluster, credential_health, federation, found, health, quota, template};
use model::template::ClusterTemplate;
use rstest::rstest;

use crate::world::{Kind, World, spec};

/// In each table a row as it should be, one of the same name without a uuid, and another good one. The clusters, which nobody works on.
async fn fill(world: &World) -> [CreateSpec; 2] {
    let specs = ["twin", "other"].map(spec);
    for (spec, driver) in specs.iter().zip([Some("k8s_fedora_coreos_v1"), None]) {
        let row = ClusterTemplate {
            uuid: spec.template.to_string(),
            project_id: Some("p1".into()),
            name: Some(spec.name.clone()),
            driver: driver.map(str::to_owned),
            ..ClusterTemplate::default()
        };
        let stored = world.store.write(async |conn: &mut Conn| {
            cluster::insert(conn, spec).await?;
            template::insert(conn, &row).await
        });
        stored.await.expect("stored");
        let federation = format!("INSERT INTO federation (uuid, name, project_id) VALUES ('{}', '{}', 'p1')", spec.id, spec.name);
        world.execute(&federation).await;
        if driver.is_some() {
            for sql in [
                "INSERT INTO cluster (uuid, name, project_id, status) VALUES (NULL, 'twin', 'p1', 'CREATE_IN_PROGRESS')",
                "INSERT INTO cluster (uuid, name, project_id, status) VALUES ('', 'twin', 'p1', 'CREATE_IN_PROGRESS')",
                "INSERT INTO cluster_template (uuid, name, project_id, driver) VALUES (NULL, 'twin', 'p1', 'k8s_fedora_coreos_v1')",
                "INSERT INTO federation (uuid, name, project_id) VALUES (NULL, 'twin', 'p1')",
                "INSERT INTO x509keypair (uuid, certificate) VALUES (NULL, 'of nobody')",
            ] {
                world.execute(sql).await;
            }
        }
    }
    specs
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn no_list_breaks_or_is_shorter_and_no_name_is_ambiguous(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let [twin, _] = fill(&world).await;
    let scope = Scope::Project(ProjectId("p1".into()));
    // Both good rows are on the first page, as if there were no others between them.
    let page = Page { limit: 2, marker: None, sort_key: "id".into(), sort_dir: SortDir::Asc };
    let visible = Visible { own: scope.clone(), public: false, hidden: false };

    let read = async |conn: &mut Conn| {
        let clusters = (cluster::list(conn, &scope, &page).await?, cluster::list_short(conn, &scope, &page).await?);
        let named = cluster::fetch_by_name(conn, &scope, "twin").await?;
        Ok::<_, StoreError>((clusters, named))
    };
    let ((detailed, short), named) = world.store.read(read).await.expect("clusters");
    assert_eq!(detailed.iter().map(|row| row.name()).collect::<Vec<_>>(), [Some("twin"), Some("other")]);
    assert_eq!(short.iter().map(|row| row.name()).collect::<Vec<_>>(), [Some("twin"), Some("other")]);
    assert_eq!(named.uuid, twin.id.as_str());

    let read = async |conn: &mut Conn| {
        let rows = template::list(conn, &visible, &page).await?;
        let named = template::fetch_by_name(conn, &visible, "twin").await?;
        Ok::<_, StoreError>((rows, named))
    };
    let (rows, named) = world.store.read(read).await.expect("templates");
    assert_eq!(rows.iter().map(|row| row.name.as_deref()).collect::<Vec<_>>(), [Some("twin"), Some("other")]);
    assert_eq!(named.uuid, twin.template.as_str());
    let between = named.id + 1;
    let numbered = world.store.read(async |conn: &mut Conn| template::fetch_by_number(conn, &visible, between).await).await;
    assert!(matches!(numbered, Err(StoreError::NotFound { .. })), "{numbered:?}");

    let read = async |conn: &mut Conn| {
        let rows = federation::list(conn, &scope, &page).await?;
        let named = federation::fetch_by_name(conn, &scope, "twin").await?;
        Ok::<_, StoreError>((rows, named))
    };
    let (rows, named) = world.store.read(read).await.expect("federations");
    assert_eq!(rows.iter().map(|row| row.name.as_deref()).collect::<Vec<_>>(), [Some("twin"), Some("other")]);
    assert_eq!(named.uuid, twin.id.as_str());
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn conductors_find_what_else_there_is_to_do(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let ids = fill(&world).await.map(|spec| spec.id);
    let left = world.store.read(async |conn: &mut Conn| found::unattended(conn, 0, 10).await).await.expect("found");
    assert_eq!(left.into_iter().map(|one| one.cluster).collect::<Vec<_>>(), ids);

    world.execute("UPDATE cluster SET status = 'CREATE_COMPLETE'").await;
    let look = Look { owner: "one".into(), at_ms: 100, due_ms: 200 };
    let enrolled = world.store.write(async |conn: &mut Conn| {
        health::enrol(conn, 0, 10).await?;
        credential_health::enrol(conn, 0, || 0, 10).await
    });
    enrolled.await.expect("enrolled");
    let claimed = world.store.write(async |conn: &mut Conn| {
        Ok((health::claim(conn, &look, 0, 10, &[]).await?, credential_health::claim(conn, &look, 10).await?))
    });
    let (healths, credentials) = claimed.await.expect("claimed");
    let mut seen: Vec<ClusterId> = healths.clusters.iter().map(|row| row.cluster_id()).collect();
    seen.sort();
    let mut logins: Vec<ClusterId> = credentials.iter().map(|(row, _)| row.cluster_id()).collect();
    logins.sort();
    let mut all = ids.to_vec();
    all.sort();
    assert_eq!((&seen, &logins), (&all, &all));
}

#[rstest]
#[case(Kind::Sqlite)]
#[case(Kind::MariaDb)]
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_tells_of_them_and_a_database_with_them_is_given_back(#[case] kind: Kind) {
    let world = World::new(kind).await;
    let [twin, _] = fill(&world).await;
    let audit = adoption::audit(&world.store, true).await.expect("audited");
    assert_eq!((audit.clusters, audit.templates), (2, 2));
    let told = audit.findings.iter().filter(|finding| finding.column == "uuid" && finding.problem.starts_with("is missing"));
    let told: Vec<(&str, String)> = told.map(|finding| (finding.table, finding.row.clone())).collect();
    let wanted = [("cluster", 2), ("cluster", 3), ("cluster_template", 2), ("x509keypair", 1), ("federation", 2)];
    assert_eq!(told, wanted.map(|(table, number)| (table, format!("number {number}"))));
    // Nobody else would tell why a project that shows one cluster has no room for a third.
    let counts = audit.findings.iter().filter(|finding| finding.problem.contains("counts in the quota of clusters"));
    assert_eq!(
        counts.map(|finding| (finding.table, finding.row.as_str())).collect::<Vec<_>>(),
        [("cluster", "number 2"), ("cluster", "number 3")]
    );
    let project = ProjectId("p1".into());
    let used = world.store.read(async |conn: &mut Conn| quota::usage(conn, Some(&project)).await).await.expect("counted");
    assert_eq!(used.clusters, 4);

    // Upstream's older schema has no room for drivers: they are set aside, by the uuids of their templates.
    world.execute(&format!("UPDATE adoption SET found_revision = '{UPSTREAM_PREVIOUS}'")).await;
    let released = adoption::release(&world.store, false).await.expect("given back");
    assert_eq!(released.kept.iter().map(|kept| kept.of.as_str()).collect::<Vec<_>>(), [twin.template.as_str()]);
}
