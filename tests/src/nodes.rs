//! The nodes of clusters, as the simulator has them.

use std::collections::BTreeSet;
use std::io::Read;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use model::seal::hmac_sha256;
use openssl::sha::sha256;
use serde_json::Value;

use crate::client::{Client, text};
use crate::world::World;

/// The ends of the names of all servers, such as `master-0`, with their ids.
pub fn servers_by_id(world: &World) -> Vec<(String, String)> {
    let lines = world.cloud.leftovers(None);
    let server = |line: &String| {
        let (name, id) = line.strip_prefix("server ")?.split_once(" (")?;
        let (rest, number) = name.rsplit_once('-')?;
        Some((format!("{}-{number}", rest.rsplit_once('-')?.1), id.trim_end_matches(')').to_owned()))
    };
    lines.iter().filter_map(server).collect()
}

/// The ends of the names of all servers.
pub fn servers(world: &World) -> BTreeSet<String> {
    servers_by_id(world).into_iter().map(|(name, _)| name).collect()
}

/// A set of such ends.
pub fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What a cluster's events of a kind say, in order.
pub async fn told(demo: &Client, cluster: &str, kind: &str) -> Result<Vec<String>> {
    let body = demo.get(&format!("/v1/clusters/{cluster}/events?limit=500")).await?.expect(200)?.body;
    let events = body["events"].as_array().context("events")?;
    Ok(events.iter().filter(|event| event["kind"] == kind).map(|event| text(event, "message")).collect())
}

/// The content of a file that a node has from its Ignition configuration: written by Ignition, or taken out of the documents.
pub fn file(user_data: &Value, path: &str) -> Result<String> {
    if let Some(content) = written(user_data, path)? {
        return Ok(content);
    }
    let place = path.strip_prefix("/etc/kubernetes-bootstrap/").with_context(|| format!("no file {path}"))?;
    taken_out(user_data, place)?.with_context(|| format!("no file {path}"))
}

/// A document of Kubernetes that an Ignition configuration brings, by its place below the driver's folder; none when it brings no such one.
pub fn document(user_data: &Value, place: &str) -> Result<Option<Value>> {
    let found = taken_out(user_data, place)?;
    found.map(|text| serde_json::from_str(&text)).transpose().with_context(|| format!("{place} is no JSON"))
}

/// What Ignition writes to a place; none when it writes nothing there.
fn written(user_data: &Value, path: &str) -> Result<Option<String>> {
    let files = user_data["storage"]["files"].as_array().context("no files")?;
    let Some(file) = files.iter().find(|file| file["path"] == path) else { return Ok(None) };
    let source = file["contents"]["source"].as_str().context("a source")?;
    unpacked(source.strip_prefix("data:;base64,").context("base64")?).map(Some)
}

/// What a master takes out of its documents, as `unpack_documents` of the driver's script does.
fn taken_out(user_data: &Value, place: &str) -> Result<Option<String>> {
    let all = written(user_data, "/etc/kubernetes-bootstrap/documents")?.context("no documents")?;
    let found = all.lines().find_map(|line| line.strip_prefix(place)?.strip_prefix(' '));
    Ok(found.map(|text| format!("{}\n", text.replace('\u{1f}', "\n"))))
}

/// What the masters of the only stack are made with.
pub fn masters(world: &World) -> Result<Value> {
    let stacks = world.cloud.stacks();
    let data = stacks.iter().find_map(|stack| stack.parameters.get("master_user_data")).and_then(Value::as_str).context("masters")?;
    Ok(serde_json::from_str(data)?)
}

/// What workers of the only stack are made with.
pub fn workers(world: &World) -> Result<Value> {
    let stacks = world.cloud.stacks();
    let data = stacks.iter().find_map(|stack| stack.parameters.get("worker_user_data")).and_then(Value::as_str).context("workers")?;
    Ok(serde_json::from_str(data)?)
}

/// The order that new workers bring with them, for masters with this key; the text is whom they replace, by their names, and how many they are.
pub fn order(authority: &str, text: &str) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let key = hex(&sha256(format!("orders to masters\n{}", authority.trim_end()).as_bytes()));
    hex(&hmac_sha256(key.as_bytes(), text.as_bytes()))
}

/// The text that a first-boot document holds packed: base64 of gzip.
pub fn unpacked(packed: &str) -> Result<String> {
    let mut content = String::new();
    GzDecoder::new(STANDARD.decode(packed)?.as_slice()).read_to_string(&mut content)?;
    Ok(content)
}
