//! Logging in the form the rest of an OpenStack deployment reads: one line for each event, as oslo.log writes it, to
//! standard error and to the log file.
//!
//! Writing happens on a thread of its own behind a bounded queue: a full disk or a stuck terminal must not stop the
//! service. When the queue is full, lines are counted and dropped, and the count is logged. Keep the guard until the end
//! of `main`; dropping it writes what is queued.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

mod fields;
mod layer;
mod line;
mod traces;
mod writer;

pub use layer::OsloLayer;
pub use traces::{Traces, tracing};
pub use writer::{Sink, Writer};

use crate::config::Service;

/// Environment variable that replaces the filter, in the syntax of tracing-subscriber (`info,conductor=debug`).
pub const FILTER_VARIABLE: &str = "MAGNUM_LOG";

/// Libraries that are told to be quiet, as oslo.log does for those of Python.
const QUIET: &str =
    "h2=info,hyper=info,hyper_util=info,reqwest=info,rustls=info,mio=info,mysql_async=info,lapin=info,actix_server=info,actix_http=info";

/// Lines that may wait to be written.
const QUEUE_LINES: usize = 8192;

/// The log of the process. Dropping it writes what is queued.
pub struct Logs {
    writer: Writer,
    filter: reload::Handle<EnvFilter, Registry>,
}

impl Logs {
    /// Opens the log file again, after a rotation.
    ///
    /// # Errors
    /// When the thread that writes does not take it in time.
    pub fn reopen(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.writer.reopen(), "the thread that writes the log has ended");
        Ok(())
    }

    /// Logs at level DEBUG from now on, or at INFO; what the environment says stays stronger.
    ///
    /// # Errors
    /// When the environment's filter cannot be read, or the log has ended.
    pub fn set_debug(&self, debug: bool) -> anyhow::Result<()> {
        let wanted = std::env::var(FILTER_VARIABLE).ok();
        self.filter.reload(filter(wanted.as_deref(), debug)?).context("change the level of the log")
    }
}

/// Starts logging for the whole process, and hands its spans to the traces. Call it once; keep what it returns.
pub fn init(service: &Service, program: &str, traces: Option<&Traces>) -> anyhow::Result<Logs> {
    let mut sinks = Vec::new();
    let file = log_path(service, program);
    if let Some(path) = &file {
        sinks.push(Sink::append_to(path).with_context(|| format!("open log file {}", path.display()))?);
    }
    if service.use_stderr || file.is_none() {
        sinks.push(Sink::stderr());
    }
    let wanted = std::env::var(FILTER_VARIABLE).ok();
    let (level, filter) = reload::Layer::new(filter(wanted.as_deref(), service.debug)?);
    let writer = Writer::start(sinks, QUEUE_LINES).context("start the log writer")?;
    tracing_subscriber::registry()
        .with(level)
        .with(OsloLayer::new(writer.handle(), service.use_json))
        .with(traces.map(spans))
        .try_init()
        .context("start logging")?;
    Ok(Logs { writer, filter })
}

/// Spans only: events are the log's, and would double it.
fn spans<S>(traces: &Traces) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    tracing_opentelemetry::layer()
        .with_tracer(traces.tracer())
        .with_location(false)
        .with_threads(false)
        .with_filter(filter_fn(|metadata| metadata.is_span()))
}

fn filter(wanted: Option<&str>, debug: bool) -> anyhow::Result<EnvFilter> {
    match wanted.filter(|text| !text.trim().is_empty()) {
        Some(text) => EnvFilter::try_new(text).with_context(|| format!("read {FILTER_VARIABLE}")),
        None if debug => EnvFilter::try_new(format!("debug,{QUIET}")).context("read the built-in filter"),
        // What clients send that is no HTTP is an error to this library; to us it is nobody's affair.
        None => EnvFilter::try_new("info,actix_http=off").context("read the built-in filter"),
    }
}

/// The log file by oslo.log's rule: `log_file` in `log_dir`, or `<program>.log` in `log_dir`, or none.
fn log_path(service: &Service, program: &str) -> Option<PathBuf> {
    let directory = service.log_dir.as_deref();
    match (&service.log_file, directory) {
        (Some(file), directory) => Some(directory.unwrap_or(Path::new("")).join(file)),
        (None, Some(directory)) => Some(directory.join(format!("{program}.log"))),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests;
