//! Every exchange that was recorded with the real Magnum, made again with ours: the same status, headers and body, but for what
//! `tests/recorded/differences.yaml` names.
//!
//! The API runs alone, without conductors: what a case asks for is accepted and stays a row, so that no case can disturb the next one.

mod case;
mod compare;
mod differences;
mod library;
mod rows;
mod scene;

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use reqwest::Method;
use serde_json::Value;
use tests::client;
use tests::world::{Mix, Options, World};

use case::{Case, Exchange};
use compare::Ours;
use differences::Differences;
use library::Library;
use scene::Scenes;

/// Pairs of a recorded text and ours: ids of projects and users.
type Names = Vec<(String, String)>;

#[tokio::test]
async fn every_recorded_exchange_is_answered_as_recorded_but_for_listed_differences() -> Result<()> {
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 0, ..Options::default() }).await?;
    let (cases, scenes, mut listed) = (case::read_all()?, Scenes::read()?, Differences::read()?);
    let names: Names = scenes
        .people
        .iter()
        .flat_map(|(name, ids)| [(ids.project.clone(), world.cloud.project_id(name)), (ids.user.clone(), world.cloud.user_id(name))])
        .collect();
    let libraries: BTreeMap<&str, Library> = ["20.0.2", "23.0.0"].map(|version| (version, Library::of(&cases, version))).into();
    let tokens: BTreeMap<&str, String> = [("admin", "admin"), ("demo", "demo"), ("demo2", "demo2"), ("reader", "demo"), ("nobody", "demo")]
        .map(|(user, project)| (user, world.token(user, project)))
        .into();

    let mut problems = Vec::new();
    let mut exchanges = 0;
    for case in &cases {
        let library = libraries.get(case.version()).with_context(|| format!("{}: an unknown version", case.name))?;
        let scene = scenes.of(case);
        let things = scene.things(case, library, &scenes.people).with_context(|| case.name.clone())?;
        let rows = rows::rows(&things, library).into_iter().map(|(table, row)| (table, rename(row, &names))).collect();
        rows::store(world.database()?, rows).await.with_context(|| case.name.clone())?;
        let token = tokens.get(scene.who()).with_context(|| format!("{}: an unknown person", case.name))?;
        for (number, exchange) in case.exchanges.iter().enumerate() {
            exchanges += 1;
            let (ours, text) = ask(&world, exchange, token, &names).await.with_context(|| case.name.clone())?;
            for difference in compare::compare(number, exchange, &ours) {
                if !listed.explain(case, &difference, &text) {
                    let (at, theirs, own) = (&difference.at, &difference.theirs, &difference.ours);
                    let all = if at == "status" { text.as_str() } else { "" };
                    problems.push(format!("{}: {at}: recorded {theirs}, ours {own} {all}", case.name));
                }
            }
        }
    }
    rows::store(world.database()?, Vec::new()).await?;
    world.finish().await?;
    problems.extend(listed.left_over().into_iter().map(|what| format!("listed, but it does not differ or gives no reason: {what}")));
    ensure!(problems.is_empty(), "{} of {exchanges} exchanges:\n{}", problems.len(), problems.join("\n"));
    Ok(())
}

/// Makes a request again. The answer, in the recording's ids and addresses, and its text as it came.
async fn ask(world: &World, exchange: &Exchange, token: &str, names: &Names) -> Result<(Ours, String)> {
    let to_ours = |text: &str| names.iter().fold(text.to_owned(), |text, (recorded, ours)| text.replace(recorded, ours));
    let base = world.api();
    let mut request = client::http()?.request(Method::from_str(&exchange.method)?, format!("{base}{}", to_ours(&exchange.path)));
    for (name, value) in &exchange.headers {
        request = request.header(name, if value == "TOKEN" { token } else { value });
    }
    request = match &exchange.body {
        Value::Null => request,
        Value::String(text) => request.body(text.clone()),
        json => request.body(to_ours(&json.to_string())),
    };
    let response = request.send().await?;
    let status = response.status().as_u16();
    let mut headers: Vec<(String, String)> =
        response.headers().iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned())).collect();
    let id = headers.iter().find(|(name, _)| name == "x-openstack-request-id").map(|(_, id)| id.as_str()).unwrap_or_default();
    ensure!(id.strip_prefix("req-").is_some_and(|id| uuid::Uuid::parse_str(id).is_ok()), "no request id: {id:?}");
    let text = response.text().await?;
    let body: Value = match text.as_str() {
        "" => Value::Null,
        text => serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))?,
    };

    let mut replaced = vec![(base.to_owned(), recorded_base(&exchange.answer))];
    replaced.extend(names.iter().map(|(recorded, ours)| (ours.clone(), recorded.clone())));
    // What was made here has another uuid, of the same form.
    if let (Some(recorded), Some(ours)) = (exchange.answer["uuid"].as_str(), body["uuid"].as_str())
        && exchange.method == "POST"
        && ours.len() == 36
    {
        replaced.push((ours.to_owned(), recorded.to_owned()));
    }
    let to_recorded = |text: &str| replaced.iter().fold(text.to_owned(), |text, (ours, recorded)| text.replace(ours, recorded));
    for (_, value) in &mut headers {
        *value = to_recorded(value);
    }
    let body = if body.is_null() { body } else { serde_json::from_str(&to_recorded(&body.to_string()))? };
    Ok((Ours { status, headers, body }, text))
}

/// The address that upstream had, by the first link of its answer.
fn recorded_base(answer: &Value) -> String {
    let text = answer.to_string();
    let found = ["28520", "28523"].into_iter().map(|port| format!("http://127.0.0.1:{port}")).find(|base| text.contains(base));
    found.unwrap_or_else(|| "http://none".to_owned())
}

fn rename(row: library::Shown, names: &Names) -> library::Shown {
    let renamed = |value: Value| match value {
        Value::String(text) => names.iter().find(|(recorded, _)| *recorded == text).map_or(text, |(_, ours)| ours.clone()).into(),
        other => other,
    };
    row.into_iter().map(|(key, value)| (key, renamed(value))).collect()
}

#[test]
fn the_recordings_are_whole() -> Result<()> {
    let cases = case::read_all()?;
    let of = |version: &str| cases.iter().filter(|case| case.version() == version).map(Case::number).collect::<Vec<_>>();
    if of("20.0.2") != of("23.0.0") {
        bail!("the two stories do not have the same cases");
    }
    Ok(())
}
