//! A collector of traces: takes OTLP over HTTP and keeps the spans.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::heard::Heard;

/// A span that came.
#[derive(Clone, Debug)]
pub struct Span {
    /// The program that sent it.
    pub service: String,
    pub name: String,
    pub trace: Vec<u8>,
    pub id: Vec<u8>,
    pub parent: Vec<u8>,
}

/// Listens on loopback until it is dropped.
pub struct Collector {
    address: String,
    spans: Arc<Mutex<Vec<Span>>>,
    serving: JoinHandle<()>,
}

impl Collector {
    /// Starts listening.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let address = format!("http://{}", listener.local_addr()?);
        let spans: Arc<Mutex<Vec<Span>>> = Arc::default();
        let kept = spans.clone();
        // Where the world finds what came: all of it, not only what tests look at.
        let heard = Heard::of(&address);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, heard) = (kept.clone(), heard.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| take(request, kept.clone(), heard.clone()));
                    // A client that leaves is nobody's affair.
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { address, spans, serving })
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What came so far.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn take(request: Request<Incoming>, kept: Arc<Mutex<Vec<Span>>>, heard: Arc<Heard>) -> Result<Response<Full<Bytes>>> {
    let is_right =
        request.uri().path() == "/v1/traces" && request.headers().get("content-type").is_some_and(|kind| kind == "application/x-protobuf");
    if !is_right {
        return Ok(Response::builder().status(400).body(Full::default())?);
    }
    let body = request.into_body().collect().await?.to_bytes();
    // Texts are in it as they are.
    heard.keep("a trace", &String::from_utf8_lossy(&body));
    let sent = ExportTraceServiceRequest::decode(body).context("decode")?;
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    for of_process in sent.resource_spans {
        let attributes = of_process.resource.map(|resource| resource.attributes).unwrap_or_default();
        let named = attributes.into_iter().find(|attribute| attribute.key == "service.name");
        let service = match named.and_then(|attribute| attribute.value).and_then(|value| value.value) {
            Some(Value::StringValue(name)) => name,
            _ => String::new(),
        };
        for span in of_process.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            kept.push(Span {
                service: service.clone(),
                name: span.name,
                trace: span.trace_id,
                id: span.span_id,
                parent: span.parent_span_id,
            });
        }
    }
    Ok(Response::new(Full::default()))
}
