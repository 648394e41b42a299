//! Who calls, and what is signed: tokens that are known and tokens that are not, a full cache of them, and certificates.
//!
//! Keystone is the simulated one: what a real one takes for an answer is its own figure, and is in none of the CPU times shown.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use tests::kubeconfig;
use tests::load::{Account, Http, Request, Until};
use tests::world::{Mix, Options, World};

use crate::report;
use crate::{Cell, request};

const CONNECTIONS: usize = 8;

/// What is to be measured.
#[derive(Args)]
pub struct Plan {
    /// Seconds for each cell of the table that is not counted
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Tokens that the API has not seen before, one request with each
    #[arg(long, default_value_t = 20_000)]
    tokens: usize,
}

/// Measures and prints; false when a request was not answered as it should be.
pub async fn measure(plan: &Plan) -> Result<bool> {
    let options = Options { apis: 1, conductors: 1, stack: Duration::from_millis(300), ..Options::default() };
    let world = World::start(Mix::Distributed, options).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    let address = world.api().strip_prefix("http://").context("the API speaks plain HTTP")?;
    let pid = *world.pids("api").first().context("an API")?;
    let time = || Until::Time(Duration::from_secs_f64(plan.seconds.clamp(0.1, 600.0)));
    let token = world.token("demo", "demo");
    let (_, csr) = kubeconfig::request()?;
    let body = json!({"cluster_uuid": cluster, "csr": csr}).to_string();
    let show = format!("/v1/clusters/{cluster}");
    let shown = request("GET", &show, Some(&token), None);
    let signed = request("POST", "/v1/certificates", Some(&token), Some(&body));
    let same = |request: &Request<'_>, wanted| (0..CONNECTIONS).map(|_| Http::new(address, request, wanted)).collect();

    let mut cells = vec![Cell::measured(pid, "one cluster, known token", same(&shown, 200), time()).await?];
    let before = Account::of(pid)?.resident;
    let each = (plan.tokens / CONNECTIONS).max(1);
    let mut strangers = Vec::new();
    for _ in 0..CONNECTIONS {
        let tokens: Vec<String> = (0..each).map(|_| world.cloud.token_for("demo", "demo")).collect();
        let requests: Vec<_> = tokens.iter().map(|token| request("GET", &show, Some(token), None)).collect();
        strangers.push(Http::of(address, &requests.iter().map(|request| (request, 200)).collect::<Vec<_>>()));
    }
    cells.push(Cell::measured(pid, "one cluster, new tokens", strangers, Until::Turns(u64::try_from(each)?)).await?);
    let after = Account::of(pid)?.resident;
    cells.push(Cell::measured(pid, "one cluster, full cache", same(&shown, 200), time()).await?);
    cells.push(Cell::measured(pid, "POST /v1/certificates", same(&signed, 201), time()).await?);
    report::table(&cells);
    let more = (after as f64 - before as f64) / 1024.0;
    println!("\nafter {} tokens, of which the API remembers what is within its bound: {more:.1} MiB more than before", each * CONNECTIONS);
    demo.delete_cluster(&cluster).await?;
    demo.wait_gone(&cluster, Duration::from_secs(60)).await?;
    world.finish().await?;
    Ok(cells.iter().all(|cell| cell.outcome.errors == 0))
}
