//! `GET /metrics` on a listener of its own: whoever may reach the API may not therefore see its numbers.
//!
//! One request a connection, a few connections at a time, each with a deadline: a scraper asks every few seconds.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::Metrics;

/// What Prometheus expects of the format that the library writes.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Connections at the same time; more are closed at once.
const CONNECTIONS: usize = 16;
/// From the beginning of a connection to its end.
const DEADLINE: Duration = Duration::from_secs(10);

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Most likely no file handle is free: that passes.
                tracing::debug!(%error, "failed to take a connection for metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let answering = service_fn(|request| answer(request, &metrics));
            let served = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), answering);
            if !matches!(tokio::time::timeout(DEADLINE, served).await, Ok(Ok(()))) {
                tracing::debug!("a client of the metrics left early or was too slow");
            }
            drop(place);
        });
    }
}

async fn answer(request: Request<Incoming>, metrics: &Metrics) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => match metrics.text().await {
            Ok(text) => (StatusCode::OK, FORMAT, text),
            Err(error) => {
                tracing::error!(%error, "failed to write the metrics");
                (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", String::new())
            }
        },
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", String::new()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET"));
    }
    Ok(response)
}
