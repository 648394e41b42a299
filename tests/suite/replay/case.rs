//! The recordings, as they are in the files.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

/// Requests and answers that belong together.
pub struct Case {
    /// The file's name without ending: `20.0.2-025-cli-template-create`.
    pub name: String,
    pub exchanges: Vec<Exchange>,
}

/// One request and what upstream answered.
pub struct Exchange {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// A text is sent as it is, anything else as JSON; null is no body.
    pub body: Value,
    /// None when upstream cut the connection.
    pub status: Option<u16>,
    pub answer_headers: Map<String, Value>,
    pub answer: Value,
}

impl Case {
    /// `20.0.2` or `23.0.0`.
    pub fn version(&self) -> &str {
        self.name.get(..6).unwrap_or_default()
    }

    /// Its place in the story, three digits.
    pub fn number(&self) -> &str {
        self.name.get(7..10).unwrap_or_default()
    }
}

/// Where the recordings are: beside the source, which is also where the tests run.
pub fn folder() -> PathBuf {
    let root = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    root.join("recorded")
}

/// All cases of both stories, in order.
pub fn read_all() -> Result<Vec<Case>> {
    let folder = folder().join("exchanges");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("list {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let cases: Vec<Case> = files.iter().map(|path| read(path).with_context(|| path.display().to_string())).collect::<Result<_>>()?;
    ensure!(cases.len() > 200, "only {} recordings in {}", cases.len(), folder.display());
    Ok(cases)
}

fn read(path: &Path) -> Result<Case> {
    let name = path.file_stem().and_then(|name| name.to_str()).context("a name")?.to_owned();
    let all: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
    let all = all.as_array().context("a list of exchanges")?;
    let exchanges = all.iter().map(exchange).collect::<Result<Vec<_>>>()?;
    ensure!(!exchanges.is_empty(), "no exchange");
    Ok(Case { name, exchanges })
}

fn exchange(recorded: &Value) -> Result<Exchange> {
    let (request, response) = (&recorded["request"], &recorded["response"]);
    let text = |key: &str| request[key].as_str().map(str::to_owned).with_context(|| format!("no {key}"));
    let status = match &response["status"] {
        Value::Null => None,
        number => Some(u16::try_from(number.as_u64().context("a status")?)?),
    };
    // Of a request whose connection was cut only the body was kept.
    let usual = [("Accept", "application/json"), ("X-Auth-Token", "TOKEN"), ("Content-Type", "application/json")];
    let headers = match request["headers"].as_object() {
        Some(headers) => headers.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect(),
        None => usual.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
    };
    Ok(Exchange {
        method: text("method")?,
        path: text("path")?,
        headers,
        body: request["body"].clone(),
        status,
        answer_headers: response["headers"].as_object().cloned().unwrap_or_default(),
        answer: response["body"].clone(),
    })
}
