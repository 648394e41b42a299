//! Lists: every key that the document names sorts, both ways, and pages of one show every row once.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use tests::client::Client;
use tests::wait::PATIENCE;
use tests::world::{Mix, World};

#[rstest]
#[tokio::test]
async fn every_list_sorts_by_every_key_that_the_document_names(#[values(Mix::Embedded, Mix::Distributed)] mix: Mix) -> Result<()> {
    let world = World::usual(mix).await?;
    let admin = world.user("admin", "admin").at("1.14");
    let mut clusters = Vec::new();
    for name in ["blue", "green"] {
        let template = admin.create_template(name).await?;
        clusters.push(admin.create_cluster(name, &template).await?);
    }
    // A row whose columns change while the pages are walked may be met twice or not at all, in any list that is sorted by them.
    for cluster in &clusters {
        admin.wait_for(cluster, "CREATE_COMPLETE", PATIENCE).await?;
    }
    for (project, resource) in [("demo", "Cluster"), ("demo2", "Node")] {
        let quota = json!({"project_id": world.cloud.project_id(project), "resource": resource, "hard_limit": 7});
        admin.post("/v1/quotas", &quota).await?.expect(201)?;
    }
    let document = admin.get("/v1/openapi.json").await?.expect(200)?.body;
    let mut sorted = 0;
    for (path, item) in document["paths"].as_object().context("paths")? {
        let Some(keys) = sort_keys(&item["get"]) else { continue };
        let path = path.replace("{cluster}", &clusters[0]);
        let path = if path == "/v1/quotas" { format!("{path}?all_tenants=True&") } else { format!("{path}?") };
        let everything = ids(&admin.get(&format!("{path}limit=100")).await?.expect(200)?.body)?;
        // Federations are never stored, and each of the clusters has had one operation.
        let least =
            if path.contains("/federations") { 0 } else { 2 - usize::from(path.ends_with("/operations?") && path.contains("/clusters/")) };
        ensure!(everything.len() >= least, "{path} lists {everything:?}");
        for key in &keys {
            for dir in ["asc", "desc"] {
                let walked = walk(&admin, &path, &format!("limit=1&sort_key={key}&sort_dir={dir}")).await?;
                let once: BTreeSet<&String> = walked.iter().collect();
                ensure!(once.len() == walked.len() && once == everything.iter().collect(), "{path} by {key} {dir}: {walked:?}");
                sorted += 1;
            }
        }
        let unknown = admin.get(&format!("{path}sort_key=beauty")).await?;
        unknown.expect_error(400, "beauty")?;
    }
    ensure!(sorted >= 60, "{sorted} lists were sorted");
    for cluster in &clusters {
        admin.delete_cluster(cluster).await?;
        admin.wait_gone(cluster, PATIENCE).await?;
    }
    world.finish().await
}

/// The keys that a list of the document sorts by; none for what is no list.
fn sort_keys(get: &Value) -> Option<Vec<String>> {
    let parameter = get["parameters"].as_array()?.iter().find(|parameter| parameter["name"] == "sort_key")?;
    Some(parameter["schema"]["enum"].as_array()?.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect())
}

/// What all pages show, one after the other. The link to the next page has the list's own parameters only, as upstream's; filters are the
/// client's to repeat.
async fn walk(client: &Client, path: &str, first: &str) -> Result<Vec<String>> {
    let mut next = Some(first.to_owned());
    let mut seen = Vec::new();
    while let Some(query) = next {
        let page = client.get(&format!("{path}{query}")).await?.expect(200)?.body;
        seen.extend(ids(&page)?);
        ensure!(seen.len() <= 100, "the pages of {first} have no end");
        next = page["next"].as_str().and_then(|link| link.split_once('?')).map(|(_, query)| query.to_owned());
    }
    Ok(seen)
}

/// What tells the rows of a page apart.
fn ids(page: &Value) -> Result<Vec<String>> {
    let rows = page.as_object().and_then(|page| page.values().find_map(Value::as_array)).or(page.as_array()).context("rows")?;
    Ok(rows.iter().map(|row| if row["uuid"].is_string() { row["uuid"].to_string() } else { row["id"].to_string() }).collect())
}
