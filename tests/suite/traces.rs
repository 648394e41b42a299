//! One trace from a request to what it makes in the cloud.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use tests::collector::{Collector, Span};
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// The spans from this one up to the root, as `service name`.
fn line_of(spans: &[Span], from: &Span) -> Vec<String> {
    let mut line = vec![format!("{} {}", from.service, from.name)];
    let mut at = from;
    while let Some(parent) = spans.iter().find(|span| span.id == at.parent && span.trace == at.trace) {
        line.push(format!("{} {}", parent.service, parent.name));
        at = parent;
    }
    line
}

#[rstest]
#[case(Mix::Embedded, "magnum-standalone", "magnum-standalone")]
#[case(Mix::Distributed, "magnum-api", "magnum-conductor")]
#[tokio::test]
async fn a_call_to_the_cloud_is_in_the_trace_of_the_request(#[case] mix: Mix, #[case] api: &str, #[case] conductor: &str) -> Result<()> {
    let collector = Collector::start().await?;
    let environment: BTreeMap<String, String> = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address()), ("OTEL_BSP_SCHEDULE_DELAY", "100")]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let world = World::start(mix, Options { environment, ..Options::default() }).await?;
    let demo = world.demo();
    let cluster = world.complete_cluster(&demo).await?;
    demo.resize(&cluster, 3).await?;
    demo.wait_for(&cluster, "UPDATE_COMPLETE", PATIENCE).await?;
    for (call, operation, request) in [
        ("heat stack_create", "cluster_create", "POST clusters"),
        ("heat stack_update", "cluster_resize", "POST clusters/{cluster}/actions/resize"),
    ] {
        let wanted =
            [format!("{conductor} {call}"), format!("{conductor} turn"), format!("{conductor} {operation}"), format!("{api} {request}")];
        wait::until("the trace", PATIENCE, async || {
            let spans = collector.spans();
            let calls = spans.iter().filter(|span| span.name == call);
            let lines: Vec<Vec<String>> = calls.map(|call| line_of(&spans, call)).collect();
            let is_there = lines.iter().any(|line| line == &wanted);
            Ok(Seen::when(is_there, || format!("{lines:#?} of {} spans", spans.len())))
        })
        .await?;
    }
    let spans = collector.spans();
    let create = spans.iter().find(|span| span.name == "heat stack_create").context("the call")?;
    // Another request is another trace.
    let other = spans.iter().find(|span| span.name == "POST clustertemplates").context("the template's request")?;
    ensure!(create.trace != other.trace && create.trace.len() == 16);
    ensure!(!spans.iter().any(|span| span.name.contains(&cluster)), "an id in a name");
    world.finish().await
}
