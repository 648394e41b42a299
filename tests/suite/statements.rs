//! What the API asks of the database: as many statements for a thousand rows as for twenty, and few; and what it asks again is prepared.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::client::{self, Client};
use tests::database::{Database, copy, needed};
use tests::statements::{Prepared, Statements};
use tests::world::{Mix, Options, World};

/// Statements for one page at most.
const MOST: usize = 4;
const SIZES: [usize; 2] = [20, 1000];
/// For one change of a cluster.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who asks for which list, below `/v1/`.
type Lists<'a> = Vec<(&'a Client, String)>;

#[tokio::test]
async fn a_page_takes_four_statements_at_most_whatever_its_size() -> Result<()> {
    let database = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
    let statements = Statements::count(&database.address()).await?;
    let world = counted(&database, &statements).await?;
    let (demo, admin) = (world.demo().at("1.12"), world.user("admin", "admin").at("1.12"));
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    let project = world.cloud.project_id("demo");
    let quota = json!({"project_id": project, "resource": "Cluster", "hard_limit": 7});
    admin.post("/v1/quotas", &quota).await?.expect(201)?;
    // Neither is made by any request.
    let federation = format!(
        "INSERT INTO federation (uuid, name, project_id, hostcluster_id, member_ids, properties) \
         VALUES (UUID(), 'many', '{project}', '{cluster}', '[\"{cluster}\"]', '{{\"dns-zone\": \"x\"}}')"
    );
    let service = "INSERT INTO magnum_service (report_count, host, `binary`) VALUES (1, 'one', 'magnum-conductor')";
    for sql in [federation.as_str(), service] {
        database.execute(sql, Vec::new()).await?;
    }

    // The admin's are those of all projects.
    let mut lists: Lists<'_> = vec![
        (&admin, "quotas?all_tenants=True".into()),
        (&demo, "federations".into()),
        (&demo, "federations/detail".into()),
        (&demo, "clusters/blue/operations".into()),
    ];
    for list in ["clusters", "clusters/detail", "clustertemplates", "clustertemplates/detail", "operations"] {
        lists.extend([(&demo, list.to_owned()), (&admin, list.to_owned())]);
    }
    let of_cluster = ["nodegroups", "operations", "events"].map(|list| format!("clusters/{cluster}/{list}"));
    lists.extend(of_cluster.iter().flat_map(|list| [(&demo, list.clone()), (&admin, list.clone())]));
    // What was asked of a cluster outlives it.
    let outliving: Lists<'_> = of_cluster[1..].iter().flat_map(|list| [(&demo, list.clone()), (&admin, list.clone())]).collect();

    let mut found: Vec<Vec<[usize; 3]>> = Vec::new();
    for size in SIZES {
        fill(&database, &template, &cluster, size).await?;
        let mut counts = Vec::new();
        for (client, list) in &lists {
            counts.push(pages(&statements, client, list, size).await?);
        }
        // Without pages: the conductors, and what comes out of the program itself.
        page(&statements, &admin, "/v1/mservices", size).await?;
        statements.take();
        demo.get("/v1/labels").await?.expect(200)?;
        let sent = statements.take();
        ensure!(sent.is_empty(), "the labels of drivers took {sent:#?}");

        // Gone, and back afterwards.
        database.execute(&format!("UPDATE cluster SET uuid = REVERSE(uuid) WHERE uuid = '{cluster}'"), Vec::new()).await?;
        demo.get(&format!("/v1/clusters/{cluster}")).await?.expect(404)?;
        for (client, list) in &outliving {
            counts.push(pages(&statements, client, list, size).await?);
        }
        database.execute(&format!("UPDATE cluster SET uuid = '{cluster}' WHERE uuid = REVERSE('{cluster}')"), Vec::new()).await?;
        found.push(counts);
    }
    for (at, (_, list)) in lists.iter().chain(&outliving).enumerate() {
        let counts: Vec<[usize; 3]> = found.iter().map(|counts| counts[at]).collect();
        ensure!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{list} took {counts:?} statements for {SIZES:?} rows");
    }
    end(world, &database).await
}

/// An API whose statements are counted. Nobody else comes this way, and nobody works on what is asked for: the rows are as they were made.
async fn counted(database: &Database, statements: &Statements) -> Result<World> {
    // One connection: a request that comes while the connection of the answer before it is still in use would have another made, which takes statements.
    let api = format!("[database]\nconnection = {}\nmax_pool_size = 1\nmax_overflow = 0\n", database.connection_by(statements.port()));
    // Nor another thread with a connection of its own.
    let environment = [("OS_API__WORKERS".to_owned(), "1".to_owned())].into();
    let options = Options { apis: 1, conductors: 0, api, environment, database: Some(database.clone()), ..Options::default() };
    World::start(Mix::Distributed, options).await
}

/// Ends such a world, whose clusters and conductors nobody else takes away.
async fn end(world: World, database: &Database) -> Result<()> {
    database.execute("DELETE FROM magnum_service", Vec::new()).await?;
    database.empty().await?;
    world.finish().await
}

/// Statements of an accepted POST: its template, and a transaction of the project's turn, its quotas, the template again, cluster, groups, operation
/// and event.
const OF_A_POST: usize = 10;

#[tokio::test]
async fn what_is_asked_again_is_prepared() -> Result<()> {
    let database = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
    let statements = Statements::count(&database.address()).await?;
    let world = counted(&database, &statements).await?;
    let demo = world.demo().at("1.12");
    let template = demo.create_template("small").await?;
    // Nobody works on anything here: each request finds a cluster at rest.
    let rest = async || -> Result<()> {
        for table in ["operation_event", "operation"] {
            database.execute(&format!("DELETE FROM {table}"), Vec::new()).await?;
        }
        for made in ["cluster SET api_address = 'https://192.0.2.1:6443', status", "nodegroup SET status"] {
            database.execute(&format!("UPDATE {made} = 'CREATE_COMPLETE'"), Vec::new()).await?;
        }
        Ok(())
    };
    // The project's own would add to what a POST asks.
    let (admin, theirs) = (world.user("admin", "admin").at("1.12"), world.cloud.project_id("admin"));
    let quota = |limit: usize| json!({"project_id": theirs, "resource": "Cluster", "hard_limit": limit});
    admin.post("/v1/quotas", &quota(20)).await?.expect(201)?;
    for (round, name) in ["first", "second", "third"].into_iter().enumerate() {
        let (cluster, path) = (json!({"name": name, "cluster_template_id": template}), format!("/v1/clusters/{name}"));
        let group = json!({"name": "more", "node_count": 1});
        let change = json!([{"op": "replace", "path": "/node_count", "value": 3}]);
        let template_change = json!([{"op": "replace", "path": "/docker_volume_size", "value": 10 + round}]);
        let limits = format!("/v1/quotas/{theirs}/Cluster");
        let all = ["create", "resize", "update", "nodegroup create", "delete", "template create", "template update", "quota update"];
        for what in all {
            statements.take();
            statements.take_prepared();
            let answer = match what {
                "create" => demo.post("/v1/clusters", &cluster).await?.expect(202),
                "resize" => demo.post(&format!("{path}/actions/resize"), &json!({"node_count": 2})).await?.expect(202),
                "update" => demo.patch(&path, &change).await?.expect(202),
                "nodegroup create" => demo.post(&format!("{path}/nodegroups"), &group).await?.expect(202),
                "delete" => demo.delete(&path).await?.expect(204),
                "template create" => demo.post("/v1/clustertemplates", &client::template(name)).await?.expect(201),
                "template update" => demo.patch(&format!("/v1/clustertemplates/{name}"), &template_change).await?.expect(200),
                _ => admin.patch(&limits, &quota(21 + round)).await?.expect(202),
            };
            answer.with_context(|| format!("{what} of {name}"))?;
            let (run, prepared) = (statements.take(), statements.take_prepared());
            ensure!(round == 0 || prepared.is_empty(), "{what} of the {name} cluster prepared {prepared:#?}");
            ensure!(round == 0 || what != "create" || run.len() == OF_A_POST, "{what} took {} statements: {run:#?}", run.len());
            rest().await?;
        }
    }
    end(world, &database).await
}

/// What a conductor asks with a number of values that the code does not decide on, so that no text of it recurs: by what only it says.
const OF_MANY: [&str; 12] = [
    "DELETE FROM `x509keypair`",
    "DELETE FROM `notification`",
    // Leases that are lengthened, one or many.
    "UPDATE `operation` SET `lease_ms` = ? WHERE",
    "FORCE INDEX (uniq_operation0uuid)",
    "SELECT `operation`.`uuid`, `operation`.`generation` FROM",
    // Looks at the health of clusters and at their credentials.
    "`cluster_health`.`cluster_uuid` IN (",
    "`cluster`.`uuid` IN (",
    "`capi_placement`.`management_cluster`",
    "`capi_placement`.`cluster_uuid` IN (",
    // The sweep.
    "`cloud_resource`.`cluster_uuid` IN (",
    "`operation`.`cluster_uuid` IN (",
    "`idempotency_key`.`id` IN (",
];

/// Statements that a connection of a conductor keeps at most after its work on a cluster: docs/operators-guide.md gives a server room for more.
const KEPT: usize = 100;

// The end of a world waits for its processes on this thread; what a conductor asks of the database meanwhile is carried by another.
#[tokio::test(flavor = "multi_thread")]
async fn a_conductor_prepares_nothing_twice() -> Result<()> {
    let database = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
    let statements = Statements::count(&database.address()).await?;
    let conductor = format!("[database]\nconnection = {}\n", database.connection_by(statements.port()));
    let options = Options { apis: 1, conductors: 1, conductor, database: Some(database.clone()), ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;
    let demo = world.demo().at("1.12");
    let template = demo.create_template("small").await?;
    for name in ["first", "second"] {
        let cluster = demo.create_cluster(name, &template).await?;
        demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
        demo.resize(&cluster, 2).await?.expect(202)?;
        demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
        demo.delete_cluster(&cluster).await?;
        demo.wait_gone(&cluster, PATIENCE).await?;
    }
    world.finish().await?;
    let mut prepared = statements.take_prepared();
    ensure!(prepared.len() > 20, "the conductor came another way: {prepared:#?}");
    prepared.retain(|one| !OF_MANY.iter().any(|words| one.text.contains(words)));
    prepared.sort();
    let twice: Vec<&Prepared> = prepared.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
    ensure!(twice.is_empty(), "prepared again: {twice:#?}");
    let most = prepared.chunk_by(|one, next| one.connection == next.connection).map(<[Prepared]>::len).max();
    ensure!(most.is_some_and(|most| most <= KEPT), "a connection keeps {most:?}: {prepared:#?}");
    Ok(())
}

/// How many statements a list of so many rows takes: for its first page, for one behind a marker, and for the empty one behind the last row.
async fn pages(statements: &Statements, client: &Client, list: &str, size: usize) -> Result<[usize; 3]> {
    let path = format!("/v1/{list}{}limit=1000", if list.contains('?') { '&' } else { '?' });
    let (all, first) = page(statements, client, &path, size).await?;
    let (begin, end) = all.first().zip(all.last()).with_context(|| format!("{list} is empty"))?;
    let (_, middle) = page(statements, client, &format!("{path}&marker={begin}"), size - 1).await?;
    let (_, last) = page(statements, client, &format!("{path}&marker={end}"), 0).await?;
    Ok([first, middle, last])
}

/// A page of so many rows, and how many statements it takes.
async fn page(statements: &Statements, client: &Client, path: &str, wanted: usize) -> Result<(Vec<String>, usize)> {
    // What is done once only, such as a connection, or for a connection that has rested while the page before was written, has been done then.
    client.get("/v1/operations?limit=1").await?.expect(200)?;
    statements.take();
    let shown = rows(client, path).await?;
    let sent = statements.take();
    ensure!(shown.len() == wanted, "{path} shows {} rows of {wanted}", shown.len());
    ensure!((1..=MOST).contains(&sent.len()), "{path} with {wanted} rows took {} statements: {sent:#?}", sent.len());
    Ok((shown, sent.len()))
}

/// What a page shows, each by what the next page would be asked for with.
async fn rows(client: &Client, path: &str) -> Result<Vec<String>> {
    let body = client.get(path).await?.expect(200)?.body;
    let list = body.as_array().or_else(|| body.as_object()?.values().find_map(Value::as_array));
    let list = list.with_context(|| format!("no list in the answer to {path}"))?;
    Ok(list.iter().map(|row| row["uuid"].as_str().map_or_else(|| row["id"].to_string(), str::to_owned)).collect())
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
    let others: [(&str, &[(&str, &str)]); 5] = [
        ("quotas", &[("project_id", "UUID()")]),
        ("operation", &new),
        ("operation_event", &[]),
        ("federation", &new),
        ("magnum_service", &[("host", "UUID()")]),
    ];
    for (table, set) in others {
        let count = more(table, "TRUE").await?;
        copy(conn, table, set, &format!("{} WHERE original.id = (SELECT MIN(id) FROM {table})", times(count))).await?;
    }
    Ok(())
}
