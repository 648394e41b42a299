//! From a bound socket to the service: TLS, the watched connection, HTTP/1.1.
//!
//! This is what actix-web's own `HttpServer` does, with a stream of ours in the middle (`connection.rs` says why).

use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_http::HttpService;
use actix_service::{IntoServiceFactory, ServiceFactoryExt, map_config};
use actix_web::dev::{AppConfig, Server, fn_service};
use actix_web::rt::net::TcpStream;
use actix_web::{App, web};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::Connection;
use crate::context::Shared;

/// How long what a client still sends is read after an answer that did not wait for it, so that the client comes to see the answer.
const LINGER: Duration = Duration::from_secs(2);

/// Serves on a bound socket, with TLS when there is a configuration for it.
pub fn listen(shared: &Arc<Shared>, listener: TcpListener, tls: Option<Arc<ServerConfig>>) -> io::Result<Server> {
    let limits = shared.settings.limits;
    let workers = shared.settings.workers.max(1);
    let address = listener.local_addr()?;
    let shared = shared.clone();
    let builder = Server::build()
        .workers(workers)
        .max_concurrent_connections((limits.connections / workers).max(1))
        .shutdown_timeout(limits.drain.as_secs())
        // Signals are the program's affair.
        .disable_signals();
    let stopping = builder.graceful_shutdown_signal();
    let (ending, feed) = (stopping.clone(), shared.feed.clone());
    // Streams never end by themselves: they would keep the server until the end of its grace.
    shared.runtime.spawn(async move {
        ending.notified().await;
        feed.close();
    });
    let service = move || {
        let app = App::new().app_data(web::Data::from(shared.clone())).default_service(web::to(super::entry));
        let app = app.into_factory().map_err(|error: actix_web::Error| error.error_response());
        let stopping = stopping.clone();
        let http = HttpService::build()
            .keep_alive(limits.idle)
            .client_request_timeout(limits.head)
            .client_disconnect_timeout(LINGER)
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .local_addr(address)
            .on_connect_ext(|connection: &Connection<Wire>, data| {
                data.insert(connection.watch());
            })
            .h1(map_config(app, |()| AppConfig::default()));
        let acceptor = tls.clone().map(TlsAcceptor::from);
        fn_service(move |stream: TcpStream| {
            let acceptor = acceptor.clone();
            async move {
                let peer = stream.peer_addr().ok();
                // Answers are written in one go; waiting for more to send only delays them.
                let _ = stream.set_nodelay(true);
                let wire = match acceptor {
                    None => Wire::Plain(stream),
                    Some(acceptor) => Wire::Tls(shake_hands(&acceptor, stream, limits.head).await.inspect_err(|error| {
                        tracing::debug!(%error, peer = ?peer, "TLS handshake failed");
                    })?),
                };
                Ok::<_, io::Error>((Connection::new(wire, limits), peer))
            }
        })
        .map_err(|_| ())
        .and_then(http.map_err(|_| ()))
    };
    Ok(builder.listen("api", listener, service)?.run())
}

async fn shake_hands(acceptor: &TlsAcceptor, stream: TcpStream, limit: Duration) -> io::Result<Box<TlsStream<TcpStream>>> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake takes too long");
    tokio::time::timeout(limit, acceptor.accept(stream)).await.map_err(late)?.map(Box::new)
}

/// What the bytes go over.
enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Hands a call to the stream inside.
macro_rules! inside {
    ($self:ident, $inner:ident => $call:expr) => {
        match $self.get_mut() {
            Wire::Plain(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
            Wire::Tls(stream) => {
                let $inner = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        inside!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        inside!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, stream => stream.poll_shutdown(cx))
    }
}
