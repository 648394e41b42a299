//! Who may do what: two projects, every route of the service, every kind of caller. The routes are read from the document that the service
//! makes of its own table, so that one without an expectation here fails the test.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use cloud_simulator::TokenScope;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::kubeconfig;
use tests::raw::Raw;
use tests::wait::PATIENCE;
use tests::world::{Mix, World};
use uuid::Uuid;

/// May do it: that he can is shown where the act itself is tested, for here it would change what the others are asked about.
const MAY: u16 = 0;

/// The callers of the matrix, all about things of project `demo`.
const CALLERS: [&str; 10] = [
    "no role that counts",
    "unscoped",
    "reader",
    "colleague",
    "stranger",
    "foreign reader",
    "system reader",
    "service",
    "domain admin",
    "admin",
];

/// A route by its name, the request about it, and what each caller is answered.
struct Line {
    route: &'static str,
    method: &'static str,
    path: String,
    body: Value,
    expected: [u16; 10],
}

/// What project `demo` owns. Names and ids occur nowhere else.
struct Things {
    project: String,
    cluster: String,
    template: String,
    worker: String,
    operation: String,
    stack: String,
    csr: String,
    /// The id of the user who made the cluster.
    owner: String,
}

const CLUSTER_NAME: &str = "blue-of-demo";
const TEMPLATE_NAME: &str = "small-of-demo";

// Where the thing is looked up before the policy is asked, as upstream does it, whoever does not see it gets 404; where the policy is asked about
// the caller first, whoever may do no such thing gets 403. Neither tells whether there is such a thing.

/// Looked up, then asked: read by all of the project and by an admin.
const READ: [u16; 10] = [403, 403, 200, 200, 404, 404, 404, 404, 403, 200];
/// Asked, then looked up.
const ASKED_READ: [u16; 10] = [403, 403, 200, 200, 404, 404, 403, 403, 403, 200];
/// Looked up, then asked: changed by members of the project, and by an admin of any.
const CHANGE: [u16; 10] = [403, 403, 403, MAY, 404, 404, 404, 404, 403, MAY];
/// The same, and an admin of another project does not find it.
const CHANGE_OWN: [u16; 10] = [403, 403, 403, MAY, 404, 404, 404, 404, 404, 404];
/// Asked, then looked up among what is the project's own.
const ASKED_CHANGE_OWN: [u16; 10] = [403, 403, 403, MAY, 404, 403, 403, 403, 403, 404];
/// Looked up, then asked: for administrators, whatever their token is for.
const EXIT: [u16; 10] = [403, 403, 403, 403, 404, 404, 404, 404, MAY, MAY];
/// A list: everybody who may read sees his own.
const LIST: [u16; 10] = [403, 403, 200, 200, 200, 200, 403, 403, 403, 200];
/// For administrators, whatever their token is for.
const ADMINS: [u16; 10] = [403, 403, 403, 403, 403, 403, 403, 403, MAY, MAY];
/// Administrators see it, whatever their token is for.
const ADMINS_SEE: [u16; 10] = [403, 403, 403, 403, 403, 403, 403, 403, 200, 200];
/// There is none, for anybody; without any role nothing is even looked up.
const NONE: [u16; 10] = [404, 403, 404, 404, 404, 404, 404, 404, 404, 404];

#[rustfmt::skip]
fn lines(its: &Things) -> Vec<Line> {
    let none = || Value::Null;
    let line = |route, method, path: String, body, expected| Line { route, method, path: format!("/v1/{path}"), body, expected };
    let Things { project, cluster, template, worker, operation, csr, owner, .. } = its;
    let patch = |path: &str, value: Value| json!([{"op": "replace", "path": path, "value": value}]);
    vec![
        line("list_clusters", "GET", "clusters".into(), none(), LIST),
        line("list_clusters_detail", "GET", "clusters/detail".into(), none(), LIST),
        line("create_cluster", "POST", "clusters".into(), client::cluster("red", template), CHANGE_OWN),
        line("show_cluster", "GET", format!("clusters/{cluster}"), none(), READ),
        line("delete_cluster", "DELETE", format!("clusters/{cluster}"), none(), CHANGE),
        line("update_cluster", "PATCH", format!("clusters/{cluster}"), patch("/node_count", json!(3)), CHANGE),
        line("resize_cluster", "POST", format!("clusters/{cluster}/actions/resize"), json!({"node_count": 3}), CHANGE_OWN),
        line("upgrade_cluster", "POST", format!("clusters/{cluster}/actions/upgrade"), json!({"cluster_template": template}), CHANGE),
        line("retry_cluster", "POST", format!("clusters/{cluster}/actions/retry"), none(), CHANGE),
        line("cancel_cluster", "POST", format!("clusters/{cluster}/actions/cancel"), none(), CHANGE),
        line("force_delete_cluster", "POST", format!("clusters/{cluster}/actions/force-delete"), none(), EXIT),
        line("abandon_cluster", "POST", format!("clusters/{cluster}/actions/abandon"), none(), EXIT),
        line("transfer_cluster", "POST", format!("clusters/{cluster}/actions/transfer"), json!({"user_id": owner}), EXIT),
        line("list_operations", "GET", "operations".into(), none(), LIST),
        line("show_operation", "GET", format!("operations/{operation}"), none(), READ),
        line("list_cluster_operations", "GET", format!("clusters/{cluster}/operations"), none(), ASKED_READ),
        line("list_cluster_events", "GET", format!("clusters/{cluster}/events"), none(), ASKED_READ),
        line("list_nodegroups", "GET", format!("clusters/{cluster}/nodegroups"), none(), ASKED_READ),
        line("create_nodegroup", "POST", format!("clusters/{cluster}/nodegroups"), json!({"name": "more", "node_count": 1}), ASKED_CHANGE_OWN),
        line("show_nodegroup", "GET", format!("clusters/{cluster}/nodegroups/{worker}"), none(), ASKED_READ),
        line("update_nodegroup", "PATCH", format!("clusters/{cluster}/nodegroups/{worker}"), patch("/max_node_count", json!(9)), CHANGE_OWN),
        line("delete_nodegroup", "DELETE", format!("clusters/{cluster}/nodegroups/{worker}"), none(), ASKED_CHANGE_OWN),
        line("list_clustertemplates", "GET", "clustertemplates".into(), none(), LIST),
        line("list_clustertemplates_detail", "GET", "clustertemplates/detail".into(), none(), LIST),
        line("create_clustertemplate", "POST", "clustertemplates".into(), client::template("tall"), [403, 403, 403, MAY, MAY, 403, 403, 403, 403, MAY]),
        line("show_clustertemplate", "GET", format!("clustertemplates/{template}"), none(), READ),
        line("update_clustertemplate", "PATCH", format!("clustertemplates/{template}"), patch("/name", json!("other")), CHANGE_OWN),
        line("delete_clustertemplate", "DELETE", format!("clustertemplates/{template}"), none(), CHANGE),
        // Only he who made the cluster, and an admin of its project.
        line("show_certificate", "GET", format!("certificates/{cluster}"), none(), [403, 403, 403, 403, 404, 404, 404, 404, 404, 404]),
        line("sign_certificate", "POST", "certificates".into(), json!({"cluster_uuid": cluster, "csr": csr}), [403, 403, 403, 403, 400, 400, 400, 400, 400, 400]),
        line("rotate_ca", "PATCH", format!("certificates/{cluster}"), none(), CHANGE_OWN),
        line("rotate_credential", "PATCH", format!("credentials/{cluster}"), none(), ASKED_CHANGE_OWN),
        line("list_quotas", "GET", "quotas".into(), none(), ADMINS_SEE),
        line("create_quota", "POST", "quotas".into(), json!({"project_id": project, "resource": "Cluster", "hard_limit": 5}), ADMINS),
        line("show_quota", "GET", format!("quotas/{project}/Cluster"), none(), [403, 403, 200, 200, 403, 403, 403, 403, 403, 200]),
        line("update_quota", "PATCH", format!("quotas/{project}/Cluster"), json!({"project_id": project, "resource": "Cluster", "hard_limit": 5}), ADMINS),
        line("delete_quota", "DELETE", format!("quotas/{project}/Cluster"), none(), ADMINS),
        line("show_stats", "GET", format!("stats?project_id={project}"), none(), [403, 403, 200, 200, 403, 403, 403, 403, 403, 200]),
        line("list_federations", "GET", "federations".into(), none(), LIST),
        line("list_federations_detail", "GET", "federations/detail".into(), none(), LIST),
        line("create_federation", "POST", "federations".into(), json!({"name": "f", "hostcluster_id": cluster, "properties": {"dns-zone": "z"}}), [403, 403, 403, MAY, 404, 403, 403, 403, 403, 404]),
        // There is none, for anybody.
        line("show_federation", "GET", format!("federations/{cluster}"), none(), NONE),
        line("update_federation", "PATCH", format!("federations/{cluster}"), patch("/name", json!("g")), NONE),
        line("delete_federation", "DELETE", format!("federations/{cluster}"), none(), NONE),
        line("list_labels", "GET", "labels".into(), none(), LIST),
        line("list_services", "GET", "mservices".into(), none(), ADMINS_SEE),
    ]
}

/// Requests of somebody who has a cluster of his own and names things of others beside it.
///
/// The uuid that a template is to have is not among them: that it is taken is said (409), as upstream says it, whether another project's template
/// has it or a cluster refers to it.
fn beside(its: &Things, own: &str) -> Vec<(&'static str, String, Value)> {
    let Things { cluster, template, worker, operation, .. } = its;
    let none = || Value::Null;
    let get = |path: String| ("GET", format!("/v1/{path}"), none());
    vec![
        get(format!("clusters?marker={cluster}")),
        get(format!("clusters/detail?marker={cluster}")),
        get(format!("operations?marker={operation}")),
        get(format!("operations?cluster={cluster}")),
        get(format!("clusters/{own}/operations?marker={operation}")),
        get(format!("clusters/{own}/nodegroups?marker={worker}")),
        get(format!("clusters/{own}/nodegroups/{worker}")),
        get(format!("clustertemplates?marker={template}")),
        get(format!("clustertemplates/detail?marker={template}")),
        get(format!("federations?marker={cluster}")),
        get(format!("federations/detail?marker={cluster}")),
        ("POST", format!("/v1/clusters/{own}/actions/cancel?operation={operation}"), none()),
        ("POST", format!("/v1/clusters/{own}/actions/resize"), json!({"node_count": 3, "nodegroup": worker})),
        ("POST", format!("/v1/clusters/{own}/actions/upgrade"), json!({"cluster_template": template})),
        ("PATCH", format!("/v1/clusters/{own}"), json!([{"op": "replace", "path": "/cluster_template_id", "value": template}])),
        ("DELETE", format!("/v1/clusters/{own}/nodegroups/{worker}"), none()),
    ]
}

#[tokio::test]
async fn every_route_answers_every_kind_of_caller_as_its_policy_says_and_tells_strangers_nothing() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let (its, own) = (things(&world).await?, of_stranger(&world).await?);
    let lines = lines(&its);
    let document = world.client(None).get("/v1/openapi.json").await?.expect(200)?.body;
    let is_there: BTreeSet<String> = operations(&document).map(|(_, _, operation)| text(operation, "operationId")).collect();
    let expected: BTreeSet<String> = lines.iter().map(|line| line.route.to_owned()).collect();
    ensure!(is_there == expected, "without an expectation, or gone: {:?}", is_there.symmetric_difference(&expected).collect::<Vec<_>>());
    let probes = beside(&its, &own);
    every_id_is_probed(&document, &probes)?;

    let callers = callers(&world);
    let mut wrong = Vec::new();
    for (column, caller) in callers.iter().enumerate() {
        for line in &lines {
            if line.expected[column] == MAY {
                continue;
            }
            let found = ask(caller, line.method, &line.path, &line.body).await?.status;
            if found != line.expected[column] {
                wrong.push(format!("{} {} by {}: {found}, not {}", line.method, line.path, CALLERS[column], line.expected[column]));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));

    // What is another project's is, in every word of the answer, as if it were not there.
    let mut leaks = Vec::new();
    for column in ["stranger", "foreign reader", "system reader", "service"] {
        let at = CALLERS.iter().position(|name| *name == column).context("a caller of that name")?;
        let of_table = lines.iter().filter(|line| line.expected[at] != MAY).map(|line| (line.method, line.path.clone(), line.body.clone()));
        let requests: Vec<_> = if column == "stranger" { of_table.chain(probes.clone()).collect() } else { of_table.collect() };
        for (method, path, body) in requests {
            leaks.extend(told(&callers[at], &its, method, &path, &body).await?.map(|what| format!("{column}: {what}")));
        }
    }
    ensure!(leaks.is_empty(), "{}", leaks.join("\n"));

    // Nothing of this has changed anything.
    let cluster = world.demo().cluster(&its.cluster).await?;
    ensure!(text(&cluster, "name") == CLUSTER_NAME && cluster["node_count"] == 2, "{cluster}");
    ensure!(world.demo().get(&format!("/v1/clustertemplates/{}", its.template)).await?.body["name"] == TEMPLATE_NAME);
    world.finish().await
}

/// Method, path, body, headers, and the status of who has a role.
type Amiss = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)], u16);

/// Requests that are refused before a route is found, or for what it does not take; and what somebody with a role is told.
#[rustfmt::skip]
const AMISS: [Amiss; 17] = [
    ("GET", "/v1/nothing", "1.1", &[], 404),
    ("GET", "/nothing", "latest", &[], 404),
    ("POST", "/v1/nothing", "latest", &[], 405),
    ("GET", "/v1//clusters", "latest", &[], 400),
    ("GET", "/v1/clusters/%ff", "latest", &[], 400),
    ("PUT", "/v1/clusters", "latest", &[], 405),
    ("HEAD", "/v1/clusters", "latest", &[], 405),
    ("PATCH", "/v1/stats", "latest", &[], 405),
    ("DELETE", "/v1/clusters", "latest", &[], 400),
    // Routes of later microversions than the one that is asked for.
    ("GET", "/v1/clusters/blue/nodegroups", "1.8", &[], 406),
    ("POST", "/v1/clusters/blue/actions/resize", "1.6", &[], 406),
    ("PATCH", "/v1/credentials/blue", "1.11", &[], 406),
    // Microversions that there are not, and what cannot be read.
    ("GET", "/v1/clusters", "1.99", &[], 406),
    ("GET", "/v1/clusters", "one.two", &[], 406),
    ("GET", "/v1/clusters", "latest", &[("Accept", "text/html")], 406),
    ("GET", "/v1/clusters?limit=1&limit=2", "latest", &[], 400),
    ("POST", "/v1/clusters", "latest", &[("Idempotency-Key", "a b")], 400),
];

#[tokio::test]
async fn a_token_without_any_role_is_refused_by_403_wherever_it_knocks() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let (its, demo) = (things(&world).await?, world.demo());
    let token = world.cloud.token_with("nobody", TokenScope::Unscoped, &[]);
    world.keep_secret(&token, "a caller's token");
    let nobody = world.client(Some(&token));
    let mut wrong = Vec::new();
    let mut tell = |what: String, answer: &client::Answer, expected: u16| {
        if answer.status != expected {
            wrong.push(format!("{what}: {}, not {expected}", answer.status));
        }
    };
    // Every route, asked as it wants to be asked but for the microversion: none, the first, each that brought routes, and those before.
    let versions = [None, Some("1.1"), Some("1.6"), Some("1.7"), Some("1.8"), Some("1.9"), Some("1.11"), Some("1.12"), Some("latest")];
    for line in lines(&its) {
        for version in versions {
            let caller = version.map_or_else(|| nobody.clone(), |version| nobody.at(version));
            let answer = ask(&caller, line.method, &line.path, &line.body).await?;
            tell(format!("{} at {version:?}", line.route), &answer, 403);
            let served = answer.header("openstack-api-version").split(' ').next_back().unwrap_or_default();
            let asked = version.map_or("1.1", |version| if version == "latest" { "1.14" } else { version });
            ensure!(served == asked, "{} at {version:?} was served at {served}", line.route);
        }
    }
    for (method, path, version, headers, otherwise) in AMISS {
        let body = if method == "POST" { json!({}) } else { Value::Null };
        for (caller, expected) in [(&nobody, 403), (&demo, otherwise)] {
            let caller = headers.iter().fold(caller.at(version), |caller, (name, value)| caller.with(name, value));
            let answer = ask(&caller, method, path, &body).await?;
            tell(format!("{method} {path} at {version} {headers:?}"), &answer, expected);
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));

    // Before its body is read, or found to be too large.
    for (token, expected) in [(token, 403), (world.token("demo", "demo"), 413)] {
        let mut raw = Raw::connect(world.addresses()[0]).await?;
        raw.send(format!("POST /v1/clusters HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\nContent-Length: 1000000000\r\n\r\n")).await?;
        raw.answer().await?.expect_error(expected)?;
    }
    // What needs no token does not look at it.
    for path in ["/", "/v1", "/v1/openapi.json", "/healthcheck"] {
        nobody.get(path).await?.expect(200)?;
    }
    nobody.get("/v1/clusters").await?.expect_error(403, "role")?;
    world.finish().await
}

#[tokio::test]
async fn a_key_of_one_project_says_nothing_to_another() -> Result<()> {
    let world = World::usual(Mix::Embedded).await?;
    let ask = async |user: &str| {
        let client = world.user(user, user).with("Idempotency-Key", "the-same-in-both");
        client.post("/v1/clustertemplates", &client::template("small")).await?.expect(201)?.uuid()
    };
    let (one, other) = (ask("demo").await?, ask("demo2").await?);
    ensure!(one != other, "a stranger was answered with what another project had asked for");
    ensure!(ask("demo").await? == one && ask("demo2").await? == other, "the key does not hold within its project");
    world.finish().await
}

/// The callers, in the order of [`CALLERS`].
fn callers(world: &World) -> Vec<Client> {
    let token = |user: &str, scope, roles: &[&str]| {
        let token = world.cloud.token_with(user, scope, roles);
        world.keep_secret(&token, "a caller's token");
        world.client(Some(&token)).at("latest")
    };
    vec![
        token("nobody", TokenScope::Project("demo"), &["heat_stack_user"]),
        token("nobody", TokenScope::Unscoped, &[]),
        token("reader", TokenScope::Project("demo"), &["reader"]),
        token("member2", TokenScope::Project("demo"), &["member"]),
        token("demo2", TokenScope::Project("demo2"), &["member"]),
        token("reader", TokenScope::Project("demo2"), &["reader"]),
        token("reader", TokenScope::System, &["reader"]),
        token("magnum", TokenScope::Project("service"), &["service"]),
        token("magnum_domain_admin", TokenScope::Domain("magnum"), &["admin"]),
        token("admin", TokenScope::Project("admin"), &["admin"]),
    ]
}

async fn things(world: &World) -> Result<Things> {
    let demo = world.demo();
    let template = demo.create_template(TEMPLATE_NAME).await?;
    let cluster = demo.create_cluster(CLUSTER_NAME, &template).await?;
    let shown = demo.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    let first = async |path: &str, list: &str| {
        let body = demo.at("latest").get(path).await?.expect(200)?.body;
        let found = body[list].as_array().and_then(|all| all.iter().find(|one| one["name"] != "default-master"));
        found.map(|one| text(one, "uuid")).with_context(|| format!("nothing in {body}"))
    };
    let operation = first("/v1/operations", "operations").await?;
    let worker = first(&format!("/v1/clusters/{cluster}/nodegroups"), "nodegroups").await?;
    let project = world.cloud.project_id("demo");
    let (stack, owner) = (text(&shown, "stack_id"), text(&shown, "user_id"));
    Ok(Things { project, cluster, template, worker, operation, stack, csr: kubeconfig::request()?.1, owner })
}

/// A cluster of another project, so that its lists have something to show.
async fn of_stranger(world: &World) -> Result<String> {
    let stranger = world.user("demo2", "demo2");
    let template = stranger.create_template("theirs").await?;
    let cluster = stranger.create_cluster("theirs", &template).await?;
    stranger.wait_for(&cluster, "CREATE_COMPLETE", PATIENCE).await?;
    world.keep_secrets_of_stacks();
    Ok(cluster)
}

/// Every operation of the document that needs a token: method, path, and itself.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all =
        paths.flat_map(|(path, item)| item.as_object().into_iter().flatten().map(|(method, it)| (method.as_str(), path.as_str(), it)));
    all.filter(|(_, _, operation)| operation["security"] != json!([]))
}

/// Every query parameter that holds an id is among the probes, on each route that takes it.
fn every_id_is_probed(document: &Value, probes: &[(&str, String, Value)]) -> Result<()> {
    let mut count = 0;
    for (method, path, operation) in operations(document) {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|p| p["in"] == "query" && p["schema"]["pattern"].is_string()) {
            let name = text(parameter, "name");
            let is_it = |asked: &str| {
                let Some((asked, query)) = asked.split_once('?') else { return false };
                let fits = asked.split('/').count() == path.split('/').count()
                    && asked.split('/').zip(path.split('/')).all(|(a, b)| a == b || b.starts_with('{'));
                fits && query.starts_with(&format!("{name}="))
            };
            ensure!(
                probes.iter().any(|(verb, asked, _)| verb.eq_ignore_ascii_case(method) && is_it(asked)),
                "nobody asks {method} {path} with the {name} of another project"
            );
            count += 1;
        }
    }
    ensure!(count > 5, "only {count} parameters that hold ids: is their pattern still told?");
    Ok(())
}

/// What an answer tells of another project's things; none when it is in every word the answer about things that there never were, and names
/// nothing that the request did not name.
async fn told(caller: &Client, its: &Things, method: &str, path: &str, body: &Value) -> Result<Option<String>> {
    let secrets = [&its.cluster, &its.template, &its.worker, &its.operation, &its.project, &its.stack];
    let names = [CLUSTER_NAME, TEMPLATE_NAME];
    let asked = format!("{path} {body}");
    let answer = ask(caller, method, path, body).await?;
    for secret in secrets.into_iter().map(String::as_str).chain(names).filter(|secret| !asked.contains(secret)) {
        if answer.text.contains(secret) {
            return Ok(Some(format!("{method} {path} is answered with {secret}: {}", answer.text)));
        }
    }
    let unknown: Vec<(&String, String)> = secrets[..5]
        .iter()
        .map(|id| (*id, if id.contains('-') { Uuid::new_v4().to_string() } else { Uuid::new_v4().simple().to_string() }))
        .collect();
    let without = |text: &str| unknown.iter().fold(text.to_owned(), |text, (id, other)| text.replace(id.as_str(), other));
    let by_name = |text: &str| text.replace(&its.cluster, CLUSTER_NAME).replace(&its.template, TEMPLATE_NAME);
    let by_no_name = |text: &str| text.replace(CLUSTER_NAME, "ever-of-none").replace(TEMPLATE_NAME, "never-of-none");
    let parsed = |text: &str| -> Result<Value> { Ok(serde_json::from_str(text)?) };
    let body = body.to_string();
    if without(&asked) != asked {
        let other = ask(caller, method, &without(path), &parsed(&without(&body))?).await?;
        if (other.status, &other.text) != (answer.status, &without(&answer.text)) {
            return Ok(Some(format!(
                "{method} {path}: {} {}, and about nothing: {} {}",
                answer.status, answer.text, other.status, other.text
            )));
        }
    }
    if by_name(&asked) != asked && !path.contains('?') {
        let named = ask(caller, method, &by_name(path), &parsed(&by_name(&body))?).await?;
        let other = ask(caller, method, &by_no_name(&by_name(path)), &parsed(&by_no_name(&by_name(&body)))?).await?;
        if (other.status, &other.text) != (named.status, &by_no_name(&named.text)) {
            return Ok(Some(format!(
                "{method} {path} by name: {} {}, and of none: {} {}",
                named.status, named.text, other.status, other.text
            )));
        }
    }
    Ok(None)
}

async fn ask(caller: &Client, method: &str, path: &str, body: &Value) -> Result<client::Answer> {
    let body = (!body.is_null()).then(|| body.to_string());
    caller.send(method.parse()?, path, body).await
}
