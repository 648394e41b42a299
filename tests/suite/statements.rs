//! What a page costs the database: as many statements for a thousand rows as for twenty, and few.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::client::Client;
use tests::database::{Database, copy, needed};
use tests::statements::Statements;
use tests::world::{Mix, Options, World};

/// Statements for one page at most.
const MOST: usize = 4;
const SIZES: [usize; 2] = [20, 1000];

#[tokio::test]
async fn a_page_takes_four_statements_at_most_whatever_its_size() -> Result<()> {
    let database = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
    let statements = Statements::count(&database.address()).await?;
    // Nobody but the API comes this way, and nobody works on what is asked for: the rows are as they were made.
    let api = format!("[database]\nconnection = {}\n", database.connection_by(statements.port()));
    // One thread: another would have a connection of its own to make.
    let environment = [("OS_API__WORKERS".to_owned(), "1".to_owned())].into();
    let options = Options { apis: 1, conductors: 0, api, environment, database: Some(database.clone()), ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;
    let (demo, admin) = (world.demo().at("1.12"), world.user("admin", "admin"));
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let quota = json!({"project_id": world.cloud.project_id("demo"), "resource": "Cluster", "hard_limit": 7});
    admin.post("/v1/quotas", &quota).await?.expect(201)?;

    let lists: [(&Client, String); 9] = [
        (&demo, "clusters".into()),
        (&demo, "clusters/detail".into()),
        (&demo, format!("clusters/{cluster}/nodegroups")),
        (&demo, "clustertemplates".into()),
        (&demo, "clustertemplates/detail".into()),
        (&admin, "quotas?all_tenants=True".into()),
        (&demo, "operations".into()),
        (&demo, format!("clusters/{cluster}/operations")),
        (&demo, format!("clusters/{cluster}/events")),
    ];
    let mut found: Vec<Vec<usize>> = vec![Vec::new(); lists.len()];
    for size in SIZES {
        fill(&database, &template, &cluster, size).await?;
        for ((client, list), counts) in lists.iter().zip(&mut found) {
            let path = format!("/v1/{list}{}limit=1000", if list.contains('?') { '&' } else { '?' });
            // Whatever is done once only, such as a connection, has been done then.
            rows(client, &path).await?;
            statements.take();
            let shown = rows(client, &path).await?;
            let sent = statements.take();
            ensure!(shown == size, "{path} shows {shown} rows of {size}");
            ensure!((1..=MOST).contains(&sent.len()), "{path} with {size} rows took {} statements: {sent:#?}", sent.len());
            counts.push(sent.len());
        }
    }
    for ((_, list), counts) in lists.iter().zip(&found) {
        ensure!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{list} took {counts:?} statements for {SIZES:?} rows");
    }
    database.empty().await?;
    world.finish().await
}

async fn rows(client: &Client, path: &str) -> Result<usize> {
    let body = client.get(path).await?.expect(200)?.body;
    let list = body.as_array().or_else(|| body.as_object()?.values().find_map(Value::as_array));
    Ok(list.with_context(|| format!("no list in the answer to {path}"))?.len())
}

/// Copies what there is until there are so many rows in each list: each cluster with its own template, default groups and operation.
async fn fill(database: &Database, template: &str, cluster: &str, size: usize) -> Result<()> {
    let mut conn = database.open().await?;
    let conn = &mut conn;
    let more = async |table: &str, of: &str| -> Result<usize> {
        let there: Vec<usize> = database.rows(&format!("SELECT COUNT(*) FROM {table} WHERE {of}")).await?;
        Ok(size - there.first().context("a count")?)
    };
    let times = |count: usize| {
        format!("(WITH RECURSIVE n (at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < {count}) SELECT at FROM n) AS times")
    };
    let new = [("uuid", "UUID()")];
    let count = more("cluster_template", "TRUE").await?;
    copy(conn, "cluster_template", &new, &format!("{} WHERE original.uuid = '{template}'", times(count))).await?;
    let set = [("uuid", "UUID()"), ("cluster_template_id", "theirs.uuid"), ("name", "UUID()")];
    let unused = "theirs.uuid NOT IN (SELECT cluster_template_id FROM cluster)";
    copy(conn, "cluster", &set, &format!("cluster_template AS theirs WHERE original.uuid = '{cluster}' AND {unused}")).await?;
    let set = [("uuid", "UUID()"), ("cluster_id", "theirs.uuid")];
    let bare = "theirs.uuid NOT IN (SELECT cluster_id FROM nodegroup)";
    let defaults = format!("original.cluster_id = '{cluster}' AND original.is_default");
    copy(conn, "nodegroup", &set, &format!("cluster AS theirs WHERE {defaults} AND {bare}")).await?;
    let count = more("nodegroup", &format!("cluster_id = '{cluster}'")).await?;
    let set = [("uuid", "UUID()"), ("name", "UUID()"), ("is_default", "FALSE")];
    let one = format!("original.cluster_id = '{cluster}' AND original.name = 'default-worker'");
    copy(conn, "nodegroup", &set, &format!("{} WHERE {one}", times(count))).await?;
    let others: [(&str, &[(&str, &str)]); 3] = [("quotas", &[("project_id", "UUID()")]), ("operation", &new), ("operation_event", &[])];
    for (table, set) in others {
        let count = more(table, "TRUE").await?;
        copy(conn, table, set, &format!("{} WHERE original.id = (SELECT MIN(id) FROM {table})", times(count))).await?;
    }
    Ok(())
}
