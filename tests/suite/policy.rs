//! Policy files that change while the product runs, and routes that ask the rules which they declare. What the rules themselves say is asked in
//! `isolation.rs`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use cloud_simulator::TokenScope;
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::{self, Client, text};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

#[rstest]
#[tokio::test]
async fn changed_policy_files_are_in_force_without_restart_and_bad_ones_are_not() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { conductors: 1, ..Options::default() }).await?;
    let reader = world.user("reader", "demo");
    let is_refused = async |wanted: bool| {
        wait::until("the policy to be in force in both processes", PATIENCE, async || {
            let answers = [reader.get("/v1/clusters").await?, reader.get("/v1/clusters").await?];
            let refused = answers.iter().filter(|answer| answer.status == 403).count();
            Ok(Seen::when(refused == if wanted { 2 } else { 0 }, || format!("{refused} of 2 refuse")))
        })
        .await
    };
    is_refused(false).await?;
    world.put("policy.yaml", "\"cluster:get_all\": \"role:member\"\n")?;
    is_refused(true).await?;
    reader.get("/v1/clusters").await?.expect_error(403, "Policy doesn't allow cluster:get_all to be performed")?;
    world.put("policy.d/10-open.yaml", "\"cluster:get_all\": \"rule:everybody\"\n\"everybody\": \"@\"\n")?;
    is_refused(false).await?;
    // A file that cannot be read changes nothing; that it was looked at is in the log.
    world.put("policy.d/20-bad.yaml", "\"cluster:get_all\": \"role:member and\"\n")?;
    wait::until("both processes to have refused the file", PATIENCE, async || {
        let complaints = world.logs("api").iter().filter(|log| log.contains("20-bad.yaml: rule cluster:get_all")).count();
        Ok(Seen::when(complaints == 2, || format!("{complaints} of 2")))
    })
    .await?;
    is_refused(false).await?;
    world.put("policy.d/20-bad.yaml", "\"cluster:get_all\": \"!\"\n")?;
    is_refused(true).await?;
    world.finish().await
}

/// The rule of one route alone, which only reads: whether it holds tells which file is in force.
const MARK: &str = "stats:get_all";

/// A request to a route, and the rules that the route declares.
struct Line {
    method: Method,
    path: String,
    body: Option<String>,
    rules: Vec<String>,
}

#[tokio::test]
async fn every_route_asks_every_rule_that_it_declares() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 1, ..Options::default() }).await?;
    let demo = world.demo().at("latest");
    let lines = lines(&world, &demo).await?;
    // The owner of the cluster, the same with every right in his project, and an admin of another one.
    let token = world.cloud.token_with("demo", TokenScope::Project("demo"), &["admin"]);
    world.keep_secret(&token, "a caller's token");
    let (admin, elsewhere) = (world.client(Some(&token)).at("latest"), world.user("admin", "admin").at("latest"));
    let (inside, outside) = ([("the owner", &demo), ("an admin", &admin)], [("an admin of another project", &elsewhere)]);
    let (mut asked, mut wrong) = (0, Vec::new());
    for (at, forbidden) in batches(&lines).iter().enumerate() {
        forbid(&world, &demo, forbidden, at % 2 == 0).await?;
        for line in &lines {
            for rule in line.rules.iter().filter(|rule| forbidden.contains(rule.as_str())) {
                let callers = if rule.ends_with("_all_projects") { &outside[..] } else { &inside[..] };
                for (who, caller) in callers {
                    asked += 1;
                    let answer = caller.send(line.method.clone(), &line.path, line.body.clone()).await?;
                    // With blanks: cluster:get is the beginning of others.
                    if let Err(error) = answer.expect_error(403, &format!(" {rule} ")) {
                        wrong.push(format!("{} {} by {who} without {rule}: {error:#}", line.method, line.path));
                    }
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
    ensure!(asked > 100, "only {asked} requests: are the rules of routes still told?");
    world.finish().await
}

/// The rules in sets of which no route declares two: whoever is refused is so for one of them. The last set is empty, so that nothing is
/// forbidden in the end.
fn batches(lines: &[Line]) -> Vec<BTreeSet<&str>> {
    let all: BTreeSet<&str> = lines.iter().flat_map(|line| line.rules.iter().map(String::as_str)).collect();
    let declares = |line: &Line, rule: &str| line.rules.iter().any(|own| own == rule);
    let mut batches: Vec<BTreeSet<&str>> = Vec::new();
    for rule in all {
        let is_beside = |other: &&str| lines.iter().any(|line| declares(line, rule) && declares(line, other));
        match batches.iter_mut().find(|batch| !batch.iter().any(is_beside)) {
            Some(batch) => {
                batch.insert(rule);
            }
            None => batches.push([rule].into()),
        }
    }
    batches.push(BTreeSet::new());
    batches
}

/// Takes rules out of everybody's reach, and no others, and waits until it is so. A request that came earlier would be carried out.
async fn forbid(world: &World, demo: &Client, rules: &BTreeSet<&str>, is_marked: bool) -> Result<()> {
    let file: BTreeMap<&str, &str> = rules.iter().copied().chain(is_marked.then_some(MARK)).map(|rule| (rule, "!")).collect();
    world.put("policy.yaml", &serde_json::to_string(&file)?)?;
    let wanted = if is_marked { 403 } else { 200 };
    wait::until("the policy to be in force", PATIENCE, async || {
        let status = demo.get("/v1/stats").await?.status;
        Ok(Seen::when(status == wanted, || status.to_string()))
    })
    .await
}

/// A request about things of project `demo` to every route that needs a token, by the document that the service makes of its own table.
async fn lines(world: &World, demo: &Client) -> Result<Vec<Line>> {
    let (cluster, project) = (world.complete_cluster(demo).await?, world.cloud.project_id("demo"));
    // Nothing that the service does makes one.
    let federation = format!(
        "INSERT INTO federation (uuid, name, project_id, hostcluster_id, member_ids, status, properties) \
         VALUES (UUID(), 'fed', '{project}', '{cluster}', '[]', 'CREATE_COMPLETE', '{{}}')"
    );
    world.database()?.execute(&federation, Vec::new()).await?;
    let operations = demo.get("/v1/operations").await?.expect(200)?.body;
    let operation = text(&operations["operations"][0], "uuid");
    let parts = [
        ("{cluster}", cluster.as_str()),
        ("{nodegroup}", "default-worker"),
        ("{operation}", operation.as_str()),
        ("{template}", "small"),
        ("{federation}", "fed"),
        ("{project}", project.as_str()),
        ("{resource}", "Cluster"),
    ];
    let document = demo.get("/v1/openapi.json").await?.expect(200)?.body;
    let mut lines = Vec::new();
    for (path, item) in document["paths"].as_object().context("paths")? {
        let path = parts.iter().fold(path.clone(), |path, (part, value)| path.replace(part, value));
        ensure!(!path.contains('{'), "nobody knows what to ask {path} about");
        for (method, operation) in item.as_object().context("operations")? {
            if operation["security"] == json!([]) {
                continue;
            }
            let name = text(operation, "operationId");
            let rules: Vec<String> = text(operation, "description").split('`').skip(1).step_by(2).map(str::to_owned).collect();
            ensure!(!rules.is_empty(), "{name} declares no rule");
            let body = body(&name, &cluster, &project, &world.cloud.user_id("demo"));
            ensure!(body.is_some() == operation["requestBody"].is_object(), "{name} takes a body that is not given, or none");
            lines.push(Line { method: method.to_uppercase().parse()?, path: path.clone(), body: body.map(|body| body.to_string()), rules });
        }
    }
    Ok(lines)
}

/// The body of a request that gets as far as every rule of its route.
fn body(name: &str, cluster: &str, project: &str, owner: &str) -> Option<Value> {
    let patch = |path: &str, value: Value| json!([{"op": "replace", "path": path, "value": value}]);
    Some(match name {
        "create_cluster" => client::cluster("red", "small"),
        "update_cluster" => patch("/node_count", json!(3)),
        "resize_cluster" => json!({"node_count": 3}),
        "upgrade_cluster" => json!({"cluster_template": "small"}),
        "transfer_cluster" => json!({"user_id": owner}),
        "create_nodegroup" => json!({"name": "more", "node_count": 1}),
        "update_nodegroup" => patch("/max_node_count", json!(9)),
        "create_clustertemplate" => {
            let mut body = client::template("tall");
            body["public"] = json!(true);
            body
        }
        "update_clustertemplate" => patch("/public", json!(true)),
        "sign_certificate" => json!({"cluster_uuid": cluster, "csr": "none"}),
        "create_quota" | "update_quota" => json!({"project_id": project, "resource": "Cluster", "hard_limit": 5}),
        "create_federation" => json!({"name": "other", "hostcluster_id": cluster, "properties": {"dns-zone": "z"}}),
        "update_federation" => patch("/properties", json!("{'dns-zone': 'z'}")),
        _ => return None,
    })
}
