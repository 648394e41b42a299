//! Weaknesses that upstream is known for, by their numbers, where no other test of the suite bears the number.

use anyhow::{Context, Result, ensure};
use lapin::options::BasicGetOptions;
use lapin::{Connection, ConnectionProperties};
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::stack::Stack;
use openssl::x509::extension::SubjectKeyIdentifier;
use openssl::x509::{X509, X509NameBuilder, X509Req, X509ReqBuilder};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{Client, text};
use tests::kubeconfig;
use tests::servers::PrivateServer;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// A node group without its stack took the whole cluster for gone: rows, trust and certificates went, the cluster's own stack stayed.
#[rstest]
#[tokio::test]
async fn w3b_a_group_whose_stack_is_gone_does_not_leave_the_clusters_stack_behind(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    let own = world.only_stack().await?;
    demo.post(&format!("/v1/clusters/{cluster}/nodegroups"), &json!({"name": "more", "node_count": 1})).await?.expect(202)?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    let group = world.cloud.stacks().into_iter().find(|stack| stack.id != own).context("the stack of the group")?;
    ensure!(world.cloud.remove_stack(&group.id), "{group:?}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.cloud.stacks().is_empty(), "{:?}", world.cloud.stacks());
    world.finish().await
}

/// New authorities were stored although the driver had failed, and from then on clients got one that the cluster did not use.
#[tokio::test]
async fn w5_a_rotation_that_the_nodes_cannot_follow_changes_no_authority() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo().at("1.10");
    let cluster = world.complete_cluster(&demo).await?;
    let stack = world.only_stack().await?;
    let sql = format!(
        "SELECT CONCAT_WS(',', ca_cert_ref, etcd_ca_cert_ref, front_proxy_ca_cert_ref, magnum_cert_ref) FROM cluster WHERE uuid = '{cluster}'"
    );
    let path = format!("/v1/certificates/{cluster}");
    let before = world.database()?.rows::<String>(&sql).await?;
    let authority = text(&demo.get(&path).await?.expect(200)?.body, "pem");
    world.cloud.hold_stacks(true);
    demo.patch(&path, &json!({})).await?.expect(202)?;
    world.progress_is_told(&demo, &cluster).await?;
    ensure!(world.cloud.fail_stack(&stack, "No valid host was found"));
    demo.wait_for(&cluster, "UPDATE_FAILED", PATIENCE).await?;
    // Who signs is as before, and a client that asks now trusts it.
    ensure!(world.database()?.rows::<String>(&sql).await? == before, "who signs has changed");
    let shown = text(&demo.get(&path).await?.expect(200)?.body, "pem");
    ensure!(shown.starts_with(authority.trim_end()), "{shown}");
    world.cloud.hold_stacks(false);
    world.keep_secrets_of_stacks();
    world.finish().await
}

/// Two of four pairs of keys stayed behind.
#[tokio::test]
async fn w6_every_key_pair_goes_with_its_cluster() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let sql = "SELECT COUNT(*) FROM x509keypair";
    let made: Vec<i64> = world.database()?.rows(sql).await?;
    ensure!(made == [4], "{made:?}");
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, PATIENCE).await?;
    ensure!(world.database()?.rows::<i64>(sql).await? == [0]);
    world.finish().await
}

/// Every object was loaded through a conductor.
#[tokio::test]
async fn w9_the_api_needs_no_conductor_to_answer() -> Result<()> {
    let mut world = World::start(Mix::Distributed, Options { conductors: 0, ..Options::default() }).await?;
    let demo = world.demo().at("1.10");
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;
    for path in ["clusters", "clusters/detail", "clusters/blue", "clusters/blue/nodegroups", "clustertemplates", "clusters/blue/operations"]
    {
        demo.get(&format!("/v1/{path}")).await?.expect(200)?;
    }
    world.start_conductor()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.finish().await
}

/// One row that could not be read made the whole list a 500, and stopped the periodic tasks.
#[tokio::test]
async fn w12_a_row_that_cannot_be_read_hides_no_other() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let other = demo.create_cluster("green", "small").await?;
    demo.wait_for(&other, "CREATE_COMPLETE", PATIENCE).await?;
    let database = world.database()?;
    let before: Vec<String> = database.rows(&format!("SELECT labels FROM cluster WHERE uuid = '{cluster}'")).await?;
    let break_it =
        format!("UPDATE cluster SET labels = '{{broken', health_status = 'FINE', health_status_reason = '[' WHERE uuid = '{cluster}'");
    database.rows::<i64>(&break_it).await?;
    database.rows::<i64>(&format!("UPDATE nodegroup SET node_addresses = '5', labels = '[]' WHERE cluster_id = '{cluster}'")).await?;
    for path in ["/v1/clusters", "/v1/clusters/detail"] {
        let body = demo.get(path).await?.expect(200)?.body;
        let listed: Vec<String> = body["clusters"].as_array().into_iter().flatten().map(|row| text(row, "uuid")).collect();
        ensure!(listed == [cluster.clone(), other.clone()], "{path}: {listed:?}");
    }
    // Work goes on beside it.
    let resize = json!({"node_count": 1});
    demo.at("1.10").post(&format!("/v1/clusters/{other}/actions/resize"), &resize).await?.expect(202)?;
    demo.wait_for(&other, "UPDATE_COMPLETE", PATIENCE).await?;
    let labels = before.first().context("labels")?;
    let mend =
        format!("UPDATE cluster SET labels = '{labels}', health_status = NULL, health_status_reason = NULL WHERE uuid = '{cluster}'");
    database.rows::<i64>(&mend).await?;
    database.rows::<i64>(&format!("UPDATE nodegroup SET node_addresses = '[]', labels = '{{}}' WHERE cluster_id = '{cluster}'")).await?;
    world.keep_secrets_of_stacks();
    world.finish().await
}

/// The same of every list, and of rows that no request can name: these are in none of them, and cut none short.
#[tokio::test]
async fn w12_no_list_breaks_at_a_row_that_somebody_has_spoilt() -> Result<()> {
    let world = World::start(Mix::Distributed, Options::sweeping()).await?;
    let (demo, admin) = (world.demo().at("1.12"), world.user("admin", "admin").at("1.12"));
    let cluster = world.complete_cluster(&demo).await?;
    let database = world.database()?;
    let project = world.cloud.project_id("demo");
    admin.post("/v1/quotas", &json!({"project_id": project, "resource": "Cluster", "hard_limit": 7})).await?.expect(201)?;
    database.execute(&format!("INSERT INTO federation (uuid, name, project_id) VALUES (UUID(), 'fine', '{project}')"), Vec::new()).await?;
    wait::until("all conductors", PATIENCE, async || {
        let there = listed(&admin, "/v1/mservices").await?.len();
        Ok(Seen::when(there == 3, || format!("{there} conductors")))
    })
    .await?;
    // Each with how many rows more it is to show: spoilt ones that have a name.
    let mut lists: Vec<(&Client, String, usize)> =
        vec![(&admin, "/v1/clusters".into(), 0), (&admin, "/v1/quotas?all_tenants=True".into(), 2), (&admin, "/v1/mservices".into(), 1)];
    for (list, more) in [
        ("clusters", 0),
        ("clusters/detail", 0),
        ("clusters/blue/nodegroups", 1),
        ("clusters/blue/operations", 0),
        ("clusters/blue/events", 0),
        ("operations", 0),
        ("clustertemplates", 1),
        ("clustertemplates/detail", 1),
        ("federations", 1),
        ("federations/detail", 1),
    ] {
        lists.push((&demo, format!("/v1/{list}"), more));
    }
    let mut before = Vec::new();
    for (client, path, _) in &lists {
        before.push(listed(client, path).await?);
    }

    let group = uuid::Uuid::new_v4();
    for sql in [
        format!("INSERT INTO cluster (name, project_id, user_id, status) VALUES ('blue', '{project}', 'u', 'UPDATE_IN_PROGRESS')"),
        format!("INSERT INTO cluster_template (name, project_id, public) VALUES ('small', '{project}', TRUE)"),
        format!("INSERT INTO federation (name, project_id) VALUES ('fine', '{project}')"),
        "INSERT INTO x509keypair (certificate, private_key) VALUES ('none', 'none')".to_owned(),
        format!(
            "INSERT INTO nodegroup (uuid, name, cluster_id, project_id, labels, node_addresses) \
             VALUES ('{group}', 'odd', '{cluster}', '{project}', '[]', '5')"
        ),
        format!(
            "INSERT INTO cluster_template (uuid, project_id, coe, server_type, labels, driver) \
             VALUES (UUID(), '{project}', 'swarm', NULL, '[5', 'none_such')"
        ),
        format!("INSERT INTO federation (uuid, project_id, member_ids, properties) VALUES (UUID(), '{project}', '5', '[')"),
        "INSERT INTO quotas (hard_limit) VALUES (3)".to_owned(),
        "INSERT INTO quotas (project_id, resource, hard_limit) VALUES ('p', 'Pod', -1)".to_owned(),
        "INSERT INTO magnum_service (report_count) VALUES (0)".to_owned(),
        format!("UPDATE operation SET payload = '{{broken', cloud_error = '[', outcome_code = 'NOPE' WHERE cluster_uuid = '{cluster}'"),
        format!("UPDATE operation_event SET details = '[' WHERE cluster_uuid = '{cluster}'"),
        "UPDATE cluster_template SET labels = '{broken', tags = NULL, public = NULL WHERE name = 'small' AND uuid IS NOT NULL".to_owned(),
    ] {
        database.execute(&sql, Vec::new()).await?;
    }
    for ((client, path, more), before) in lists.iter().zip(&before) {
        let all = listed(client, path).await?;
        ensure!(all.starts_with(before) && all.len() == before.len() + more, "{path} shows {all:?}, and {before:?} before");
        // The conductors are listed without pages.
        if !path.ends_with("mservices") {
            ensure!(walked(client, path).await? == all, "the pages of {path} are not {all:?}");
        }
    }
    for path in ["clusters/blue", "clustertemplates/small", "federations/fine"] {
        demo.get(&format!("/v1/{path}")).await?.expect(200)?;
    }
    demo.get(&format!("/v1/certificates/{cluster}")).await?.expect(200)?;

    // Sweeps find what else there is to be taken up.
    for sql in [
        format!("DELETE FROM nodegroup WHERE uuid = '{group}'"),
        format!(
            "UPDATE cluster SET status = 'UPDATE_IN_PROGRESS', status_reason = NULL, updated_at = UTC_TIMESTAMP() - INTERVAL 1 HOUR \
             WHERE uuid = '{cluster}'"
        ),
    ] {
        database.execute(&sql, Vec::new()).await?;
    }
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    for table in ["cluster", "x509keypair"] {
        database.execute(&format!("DELETE FROM {table} WHERE uuid IS NULL"), Vec::new()).await?;
    }
    world.finish().await
}

/// The rows of an answer, each by its uuid, or by its number where it has none.
async fn listed(client: &Client, path: &str) -> Result<Vec<String>> {
    let body = client.get(path).await?.expect(200)?.body;
    let rows = body.as_object().and_then(|page| page.values().find_map(Value::as_array)).with_context(|| format!("no list in {body}"))?;
    Ok(rows.iter().map(|row| row["uuid"].as_str().map_or_else(|| row["id"].to_string(), str::to_owned)).collect())
}

/// The rows of all pages of one row.
async fn walked(client: &Client, path: &str) -> Result<Vec<String>> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let marker = all.last().map(|last| format!("&marker={last}")).unwrap_or_default();
        let page = listed(client, &format!("{path}{}limit=1{marker}", if path.contains('?') { '&' } else { '?' })).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
        ensure!(all.len() <= 500, "the pages of {path} have no end");
    }
}

/// Each start made a queue with a new name, and the old ones stayed.
#[tokio::test]
async fn w14_conductors_that_come_and_go_leave_no_queue_behind() -> Result<()> {
    let broker = PrivateServer::start("rabbitmq").await?;
    let mut world = World::start(Mix::Distributed, Options { amqp: Some(broker.url()?), ..Options::default() }).await?;
    let demo = world.demo();
    let first = world.complete_cluster(&demo).await?;
    let before = broker.queues().await?;
    ensure!(before.len() == 1, "{before:?}");
    for _ in 0..2 {
        world.kill_all("conductor")?;
        world.start_conductor()?;
    }
    demo.delete_cluster(&first).await?;
    demo.wait_gone(&first, PATIENCE).await?;
    let after = broker.queues().await?;
    ensure!(after == before, "{before:?} before, {after:?} after");
    world.finish().await
}

/// A request with this extension was a 500, and validity was in local time.
#[tokio::test]
async fn w15_a_request_with_a_subject_key_identifier_is_signed_from_now_in_utc() -> Result<()> {
    let world = World::usual(Mix::Distributed).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let csr = String::from_utf8(with_key_identifier()?.to_pem()?)?;
    let signed = demo.post("/v1/certificates", &json!({"cluster_uuid": cluster, "csr": csr})).await?.expect(201)?.body;
    let certificate = X509::from_pem(text(&signed, "pem").as_bytes())?;
    let now = openssl::asn1::Asn1Time::days_from_now(0)?;
    let since = certificate.not_before().diff(&now)?;
    // A day back, as upstream, for clocks that differ; and no time zone's hours beside it.
    let seconds = i64::from(since.days) * 86_400 + i64::from(since.secs);
    ensure!((86_400..86_460).contains(&seconds), "valid since {since:?} before now");
    world.finish().await
}

fn with_key_identifier() -> Result<X509Req> {
    let key = PKey::from_rsa(Rsa::generate(2048)?)?;
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_text("CN", "somebody")?;
    let mut request = X509ReqBuilder::new()?;
    request.set_subject_name(&name.build())?;
    request.set_pubkey(&key)?;
    let mut extensions = Stack::new()?;
    extensions.push(SubjectKeyIdentifier::new().build(&request.x509v3_context(None))?)?;
    request.add_extensions(&extensions)?;
    request.sign(&key, MessageDigest::sha256())?;
    Ok(request.build())
}

/// Messages carried the caller's token, the trustee's password and keys in clear.
#[tokio::test]
async fn w17_a_message_carries_the_id_of_an_operation_and_nothing_else() -> Result<()> {
    let broker = PrivateServer::start("rabbitmq").await?;
    // The queue is made by whoever listens: a conductor that is gone before the request.
    let mut world = World::start(Mix::Distributed, Options { amqp: Some(broker.url()?), conductors: 1, ..Options::default() }).await?;
    let queue = wait::until("the queue", PATIENCE, async || {
        let mut queues = broker.queues().await?;
        ensure!(queues.len() <= 1, "{queues:?}");
        Ok(Seen::from_option(queues.pop(), "no queue"))
    })
    .await?;
    world.kill_all("conductor")?;
    let token = world.token("demo", "demo");
    let demo = world.client(Some(&token)).at("1.10");
    let template = demo.create_template("small").await?;
    let cluster = demo.create_cluster("blue", &template).await?;

    let runtime = lapin::runtime::default_runtime()?;
    let connection = Connection::connect_with_runtime(&broker.url()?, ConnectionProperties::default(), runtime).await?;
    let channel = connection.create_channel().await?;
    // The answer does not wait for the ring.
    let rung = wait::until("a message", PATIENCE, async || {
        let message = channel.basic_get(queue.as_str().into(), BasicGetOptions { no_ack: false }).await?;
        Ok(Seen::from_option(message, "none"))
    })
    .await?;
    let operations: Vec<(String, String)> = world.database()?.rows("SELECT uuid, COALESCE(sealed_token, '') FROM operation").await?;
    let [(operation, sealed)] = &operations[..] else { anyhow::bail!("{} operations", operations.len()) };
    ensure!(rung.delivery.data == operation.as_bytes(), "{:?}", String::from_utf8_lossy(&rung.delivery.data));
    // A quorum queue adds one header of its own.
    let headers: Vec<&str> = rung.delivery.properties.headers().iter().flat_map(|h| h.inner().keys()).map(|key| key.as_str()).collect();
    ensure!(headers.iter().all(|key| key.starts_with("x-")), "{headers:?}");
    // What must be kept of the token until there is a trust is sealed, and wiped after that.
    ensure!(!sealed.is_empty() && !sealed.contains(&token), "the token is stored in clear, or not at all");
    // Given back with the connection.
    connection.close(200, "done".into()).await?;
    world.start_conductor()?;
    demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let left: Vec<String> = world.database()?.rows("SELECT uuid FROM operation WHERE sealed_token IS NOT NULL").await?;
    ensure!(left.is_empty(), "{left:?} still have a token");
    // What the stacks' owner does alone keeps it no longer than that is known, however long it lasts.
    world.cloud.hold_stacks(true);
    demo.post(&format!("/v1/clusters/{cluster}/actions/resize"), &json!({"node_count": 3})).await?.expect(202)?;
    let asked = wait::until("Heat to be asked", PATIENCE, async || {
        let asked = world.cloud.calls("heat.stack_update");
        Ok(Seen::when(asked > 0, || format!("{asked} requests")))
    });
    asked.await?;
    let left: Vec<String> = world.database()?.rows("SELECT uuid FROM operation WHERE sealed_token IS NOT NULL").await?;
    ensure!(left.is_empty(), "{left:?} still have a token");
    world.cloud.hold_stacks(false);
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    world.finish().await
}

/// Who had made a cluster was the only one to get its certificates, and what was done with it ended with his trust: when he left, nobody could go
/// on. The default policy is upstream's still; an administrator hands the cluster on.
#[rstest]
#[tokio::test]
async fn w18_a_cluster_whose_creator_is_deleted_is_worked_with_and_its_certificates_are_handed_on(
    #[values(Mix::Embedded, Mix::Distributed)] mix: Mix,
) -> Result<()> {
    let world = World::usual(mix).await?;
    let cluster = world.complete_cluster(&world.demo()).await?;
    let (colleague, admin) = (world.user("member2", "demo"), world.user("admin", "admin"));
    ensure!(world.cloud.remove_user("demo"));
    colleague.resize(&cluster, 3).await?;
    let complete = colleague.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    ensure!(complete["node_count"] == 3, "{complete}");

    let (_, csr) = kubeconfig::request()?;
    let sign = json!({"cluster_uuid": cluster, "csr": csr});
    colleague.get(&format!("/v1/certificates/{cluster}")).await?.expect_error(403, "certificate:get")?;
    colleague.post("/v1/certificates", &sign).await?.expect_error(403, "certificate:create")?;
    let taker = json!({"user_id": world.cloud.user_id("member2")});
    admin.post(&format!("/v1/clusters/{cluster}/actions/transfer"), &taker).await?.expect(202)?;
    let access = kubeconfig::access(&colleague, &cluster).await?;
    let authority = X509::from_pem(access.ca_pem.as_bytes())?.public_key()?;
    ensure!(X509::from_pem(access.certificate_pem.as_bytes())?.verify(&authority)?, "the cluster's authority did not sign it");

    world.keep_secrets_of_stacks();
    colleague.delete_cluster(&cluster).await?;
    colleague.wait_gone(&cluster, PATIENCE).await?;
    world.finish().await
}

/// Whose certificates are for all members of a project says so in his policy file.
#[tokio::test]
async fn w18_certificates_are_for_all_members_of_the_project_where_the_policy_says_so() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 1, ..Options::default() }).await?;
    let cluster = world.complete_cluster(&world.demo()).await?;
    let (colleague, stranger) = (world.user("member2", "demo"), world.user("demo2", "demo2"));
    let path = format!("/v1/certificates/{cluster}");
    colleague.get(&path).await?.expect_error(403, "certificate:get")?;
    world.put("policy.yaml", "\"certificate:get\": \"rule:project_member\"\n\"certificate:create\": \"rule:project_member\"\n")?;
    wait::until("the policy to be in force", PATIENCE, async || {
        let answer = colleague.get(&path).await?;
        Ok(Seen::when(answer.status == 200, || answer.text))
    })
    .await?;
    kubeconfig::access(&colleague, &cluster).await?;
    stranger.get(&path).await?.expect_error(404, &cluster)?;
    world.user("reader", "demo").get(&path).await?.expect_error(403, "certificate:get")?;
    world.finish().await
}

/// Each create asked a discovery service of the outside world, and failed when that did not answer.
#[tokio::test]
async fn w20_a_create_asks_no_discovery_service() -> Result<()> {
    // Nobody listens there.
    let conductor = "[cluster]\netcd_discovery_service_endpoint_format = http://127.0.0.1:1/new?size=%(size)d\n".to_owned();
    let world = World::start(Mix::Distributed, Options { conductor, ..Options::default() }).await?;
    let demo = world.demo();
    world.complete_cluster(&demo).await?;
    world.finish().await
}
