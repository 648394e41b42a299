//! Malformed and forbidden requests: `tests/bad_input/*.yaml`. Each gets its status and a message that says what is wrong, and none of them writes.
//!
//! The API runs alone, without conductors, so that nothing but the requests could change a row.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tests::client::{self, Client, text};
use tests::world::{Mix, Options, World};

/// Stands for the id of the project demo2.
const OTHER: &str = "DEMO2";

/// Cases that have something in common.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    send: String,
    #[serde(rename = "as")]
    who: Option<String>,
    at: Option<String>,
    #[serde(default)]
    base: Map<String, Value>,
    cases: Vec<Case>,
}

/// One request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    what: String,
    send: Option<String>,
    #[serde(rename = "as")]
    who: Option<String>,
    at: Option<String>,
    #[serde(default)]
    with: Map<String, Value>,
    #[serde(default)]
    without: Vec<String>,
    /// Absent: the group's base. Null: none.
    #[serde(default, with = "there_or_not")]
    body: Option<Value>,
    text: Option<String>,
    bytes: Option<Vec<u8>>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    status: u16,
    #[serde(default)]
    says: String,
}

/// Tells a null that is written from one that is not.
mod there_or_not {
    use serde::{Deserialize, Deserializer};
    use serde_json::Value;

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Value>, D::Error> {
        Value::deserialize(from).map(Some)
    }
}

#[tokio::test]
async fn every_malformed_request_is_refused_with_its_reason_and_writes_nothing() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 0, ..Options::default() }).await?;
    set_up(&world).await?;
    let tokens: BTreeMap<&str, String> = [("admin", "admin"), ("demo", "demo"), ("demo2", "demo2"), ("reader", "demo"), ("nobody", "demo")]
        .map(|(user, project)| (user, world.token(user, project)))
        .into();
    let http = client::http()?;
    let database = world.database()?;
    let other = world.cloud.project_id("demo2");
    let mut before = database.checksums().await?;
    let (mut sent, mut problems) = (0, Vec::new());
    for group in read_all()? {
        for case in &group.cases {
            sent += 1;
            let problem = ask(&http, world.api(), &tokens, &other, &group, case).await.with_context(|| case.what.clone())?;
            problems.extend(problem.map(|problem| format!("{} ({}): {problem}", case.what, case.send.as_ref().unwrap_or(&group.send))));
            let after = database.checksums().await?;
            if after != before {
                problems.push(format!("{} ({}): wrote something: {after:?}, before {before:?}", case.what, group.send));
                before = after;
            }
        }
    }
    database.empty().await?;
    world.finish().await?;
    ensure!(problems.is_empty(), "{} problems in {sent} requests:\n{}", problems.len(), problems.join("\n"));
    ensure!(sent >= 150, "only {sent} requests");
    Ok(())
}

/// What is there before: see `tests/bad_input/README.md`.
async fn set_up(world: &World) -> Result<()> {
    let demo = world.demo();
    let (own, other, admin) = (world.cloud.project_id("demo"), world.cloud.project_id("demo2"), world.cloud.project_id("admin"));
    for (project, name, is_external) in [(&own, "twin", false), (&admin, "twin-public", true)] {
        world.cloud.add_network(project, name, is_external);
        world.cloud.add_network(project, name, is_external);
    }
    for name in ["small", "used", "double", "double", "torn"] {
        demo.create_template(name).await?;
    }
    let mut insecure = client::template("insecure");
    insecure["tls_disabled"] = json!(true);
    demo.post("/v1/clustertemplates", &insecure).await?.expect(201)?;
    let mut metal = client::template("metal");
    metal["server_type"] = json!("bm");
    demo.post("/v1/clustertemplates", &metal).await?.expect(201)?;
    for name in ["mapped", "shrunk"] {
        let mut mapped = client::template(name);
        mapped["docker_storage_driver"] = json!("devicemapper");
        mapped["docker_volume_size"] = json!(5);
        demo.post("/v1/clustertemplates", &mapped).await?.expect(201)?;
    }
    world.user("demo2", "demo2").create_template("theirs").await?;
    for name in ["blue", "busy", "leaving", "double", "double"] {
        make_cluster(&demo, name, "used").await?;
    }
    make_cluster(&demo, "plain", "insecure").await?;
    let database = world.database()?;
    let blue = text(&demo.cluster("blue").await?, "uuid");
    for sql in [
        "UPDATE cluster_template SET docker_volume_size = NULL WHERE name = 'shrunk'".to_owned(),
        "UPDATE cluster_template SET external_network_id = 'twin-public' WHERE name = 'torn'".to_owned(),
        "UPDATE cluster SET status = 'CREATE_COMPLETE', api_address = 'https://192.0.2.1:6443'".to_owned(),
        "UPDATE cluster SET status = 'CREATE_IN_PROGRESS' WHERE name = 'busy'".to_owned(),
        "UPDATE cluster SET status = 'DELETE_IN_PROGRESS' WHERE name = 'leaving'".to_owned(),
        "UPDATE nodegroup SET status = 'CREATE_COMPLETE'".to_owned(),
        "DELETE FROM operation".to_owned(),
        format!(
            "INSERT INTO nodegroup (uuid, name, cluster_id, project_id, flavor_id, image_id, node_count, min_node_count, max_node_count, role, \
             is_default, status) VALUES (UUID(), 'extra', '{blue}', '{own}', 'm1.small', 'fedora-coreos', 1, 1, 3, 'worker', 0, 'CREATE_COMPLETE')"
        ),
        format!("INSERT INTO quotas (project_id, resource, hard_limit) VALUES ('{own}', 'Cluster', 20), ('{other}', 'Cluster', 0)"),
    ] {
        database.execute(&sql, Vec::new()).await?;
    }
    Ok(())
}

async fn make_cluster(demo: &Client, name: &str, template: &str) -> Result<()> {
    demo.at("latest").post("/v1/clusters", &client::cluster(name, template)).await?.expect(202)?;
    Ok(())
}

fn read_all() -> Result<Vec<Group>> {
    let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let mut groups = Vec::new();
    for entry in fs::read_dir(Path::new(&root).join("bad_input"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let file: Vec<Group> = serde_saphyr::from_str(&fs::read_to_string(&path)?).with_context(|| path.display().to_string())?;
            groups.extend(file);
        }
    }
    Ok(groups)
}

/// Sends a case; what is wrong with the answer, if anything is.
async fn ask(
    http: &reqwest::Client,
    base: &str,
    tokens: &BTreeMap<&str, String>,
    other: &str,
    group: &Group,
    case: &Case,
) -> Result<Option<String>> {
    let (method, path) = case.send.as_ref().unwrap_or(&group.send).split_once(' ').context("method and path")?;
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    headers.insert("Accept".to_owned(), "application/json".to_owned());
    let version = case.at.as_ref().or(group.at.as_ref()).map_or("latest", String::as_str);
    if version != "none" {
        headers.insert("OpenStack-API-Version".to_owned(), format!("container-infra {version}"));
    }
    match case.who.as_ref().or(group.who.as_ref()).map_or("demo", String::as_str) {
        "nobody-at-all" => {}
        "stranger" => drop(headers.insert("X-Auth-Token".to_owned(), "gAAAAAnotATokenOfThisCloud".to_owned())),
        who => drop(headers.insert("X-Auth-Token".to_owned(), tokens.get(who).context("an unknown person")?.clone())),
    }
    let path = path.replace(OTHER, other);
    let body = case.bytes.clone().or_else(|| body(group, case).map(|body| body.replace(OTHER, other).into_bytes()));
    if body.is_some() {
        headers.insert("Content-Type".to_owned(), "application/json".to_owned());
    }
    headers.extend(case.headers.clone());
    let mut request = http.request(Method::from_str(method)?, format!("{base}{path}"));
    for (name, value) in &headers {
        request = request.header(name, value);
    }
    if let Some(body) = body {
        request = request.body(body);
    }
    let response = request.send().await?;
    let status = response.status().as_u16();
    let answer = response.text().await?;
    if status != case.status {
        return Ok(Some(format!("{status} in the place of {}: {answer}", case.status)));
    }
    if method == "HEAD" {
        return Ok(None);
    }
    let Ok(json) = serde_json::from_str::<Value>(&answer) else { return Ok(Some(format!("no JSON: {answer}"))) };
    let message = ["detail", "description"].map(|key| text(&json["errors"][0], key)).concat() + &text(&json["error"], "message");
    let is_told = message.to_lowercase().contains(&case.says.to_lowercase());
    Ok((!is_told).then(|| format!("does not say {:?}: {answer}", case.says)))
}

fn body(group: &Group, case: &Case) -> Option<String> {
    if let Some(text) = &case.text {
        return Some(text.clone());
    }
    if let Some(body) = &case.body {
        return (!body.is_null()).then(|| body.to_string());
    }
    // The base belongs to the group's method.
    let method = |send: &str| send.split(' ').next().map(str::to_owned);
    if case.send.as_ref().is_some_and(|send| method(send) != method(&group.send)) {
        return None;
    }
    let mut body = group.base.clone();
    body.extend(case.with.clone());
    body.retain(|key, _| !case.without.contains(key));
    (!body.is_empty()).then(|| Value::Object(body).to_string())
}
