//! How every program starts and ends: configuration, logs, runtime, exit code.

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;

use crate::config::{Cli, Config};
use crate::shutdown::Shutdown;
use crate::telemetry::{self, Logs, Traces};

/// Runs a long-lived program until it is told to stop: reads the configuration, starts logging, and reports how it ended. Exit code 0
/// after an orderly stop, 1 otherwise. `threads` tells how many the runtime has.
pub fn serve<F, Fut>(name: &str, cli: &Cli, threads: impl FnOnce(&Config) -> usize, run: F) -> ExitCode
where
    F: FnOnce(Config, Shutdown) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    let config = match Config::load(cli, name) {
        Ok(config) => config,
        Err(error) => return refuse(name, &error),
    };
    let (cli, program, threads) = (cli.clone(), name.to_owned(), threads(&config));
    run_reloading(name, config, threads, move || Config::load(&cli, &program), run)
}

/// `serve` with a configuration at hand, which is not read again.
pub fn serve_with<F, Fut>(name: &str, config: Config, threads: usize, run: F) -> ExitCode
where
    F: FnOnce(Config, Shutdown) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    let same = config.clone();
    run_reloading(name, config, threads, move || Ok(same.clone()), run)
}

/// Of each thread; no more of it is taken than is touched. A turn of an operation goes many calls deep, and in builds without optimisation
/// the steps that wait for the cloud take several times what they take otherwise: 2 MiB, tokio's default, were not enough.
const STACK: usize = 8 << 20;

fn run_reloading<F, Fut>(
    name: &str,
    config: Config,
    threads: usize,
    load: impl Fn() -> anyhow::Result<Config> + Send + Sync + 'static,
    run: F,
) -> ExitCode
where
    F: FnOnce(Config, Shutdown) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    // One TLS provider for the whole process; a second call, in tests, finds it set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).thread_stack_size(STACK).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return refuse(name, &error.into()),
    };
    let started = Traces::start(&config.tracing, name, runtime.handle())
        .and_then(|traces| Ok((telemetry::init(&config.service, name, traces.as_ref())?, traces)));
    let (logs, traces) = match started {
        Ok((logs, traces)) => (Arc::new(logs), traces),
        Err(error) => return refuse(name, &error),
    };
    config.report_unknown();
    let shutdown = Shutdown::new(std::time::Duration::from_secs(config.service.graceful_shutdown_timeout.max(1)));
    let ended = runtime.block_on(async {
        let signals = tokio::spawn({
            let (shutdown, logs) = (shutdown.clone(), logs.clone());
            async move { shutdown.begin_when_signalled(move || reload(&load, &logs)).await }
        });
        let ended = run(config, shutdown).await;
        signals.abort();
        ended
    });
    let code = match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{name} ends: {error:#}");
            ExitCode::FAILURE
        }
    };
    if let Some(traces) = traces {
        traces.end();
    }
    // What still runs has been told to stop and had its time.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    drop(logs);
    code
}

/// SIGHUP: the log file is opened again, and the level of the log is what magnum.conf says now. A magnum.conf that cannot be read changes
/// nothing, but a rotation goes on.
fn reload(load: &impl Fn() -> anyhow::Result<Config>, logs: &Logs) {
    if let Err(error) = logs.reopen() {
        tracing::error!("SIGHUP: the log file is as it was: {error:#}");
    }
    match load().and_then(|config| logs.set_debug(config.service.debug).map(|()| config.service.debug)) {
        Ok(wanted) => tracing::info!(
            "SIGHUP: the log file is opened again, debug = {wanted}. Policies, the API's certificate and the kubeconfig are read again whenever \
             they change; other options need a restart"
        ),
        Err(error) => tracing::error!("SIGHUP: the level of the log is as it was: {error:#}"),
    }
}

/// A start that failed before there were logs.
pub fn refuse(name: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("{name}: {error:#}");
    ExitCode::FAILURE
}
