//! One HTTP server on a thread of its own, for whatever is simulated.

use std::{io, net::TcpListener, thread, time::Duration};

use actix_web::{
    App, HttpServer,
    dev::ServerHandle,
    web::{PayloadConfig, ServiceConfig},
};
use tokio::sync::oneshot;

/// Heat takes templates with their files up to half a megabyte, Helm keeps a release in a secret of a megabyte; leave room for what a
/// client adds.
const LARGEST_BODY: usize = 8 * 1024 * 1024;

/// Starts it; works from any runtime. `name` is the thread's.
///
/// # Errors
/// When the thread or the server cannot be started.
pub(crate) async fn start<F>(name: &'static str, listener: TcpListener, configure: F) -> io::Result<ServerHandle>
where
    F: Fn(&mut ServiceConfig) + Clone + Send + 'static,
{
    let (started, starting) = oneshot::channel();
    thread::Builder::new().name(name.to_owned()).spawn(move || serve(name, listener, configure, started))?;
    starting.await.map_err(|_| io::Error::other(format!("the thread {name} ended before its server started")))?
}

fn serve<F>(name: &'static str, listener: TcpListener, configure: F, started: oneshot::Sender<io::Result<ServerHandle>>)
where
    F: Fn(&mut ServiceConfig) + Clone + Send + 'static,
{
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // Nobody waits any more when the receiver is gone.
            let _ = started.send(Err(error));
            return;
        }
    };
    runtime.block_on(async move {
        let server = HttpServer::new(move || App::new().app_data(PayloadConfig::new(LARGEST_BODY)).configure(configure.clone()))
            .workers(1)
            .keep_alive(Duration::from_secs(75))
            .shutdown_timeout(1)
            .disable_signals()
            .listen(listener);
        match server {
            Ok(server) => {
                let server = server.run();
                if started.send(Ok(server.handle())).is_ok()
                    && let Err(error) = server.await
                {
                    tracing::error!(%error, "{name} ended");
                }
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    });
}
