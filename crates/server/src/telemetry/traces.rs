//! Traces for OpenTelemetry: the spans that logs hang on, sent to a collector by OTLP over HTTP.
//!
//! Off unless an address is configured; then nothing of this costs anything. Spans are sent in batches by a thread of the library, which
//! drops them when the collector cannot keep up: a trace must never hold up work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use provider_clients::Tracing;
use tokio::runtime::Handle;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::config;

/// Where the specification of OpenTelemetry says that the address may stand.
const ENDPOINT_VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// How long one batch may take, and the last one at the end of the process.
const SEND: Duration = Duration::from_secs(10);
const LAST: Duration = Duration::from_secs(3);

/// The sending side; keep it until the end of the process and then [`Traces::end`] it, while the runtime still works.
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts sending when the configuration or the environment names a collector.
    pub fn start(config: &config::Tracing, program: &str, runtime: &Handle) -> anyhow::Result<Option<Self>> {
        if !is_wanted(config) {
            return Ok(None);
        }
        let client = Sender {
            client: reqwest::Client::builder().no_proxy().timeout(SEND).build().context("make an HTTP client")?,
            runtime: runtime.clone(),
        };
        let mut exporter = opentelemetry_otlp::SpanExporter::builder().with_http().with_http_client(client).with_timeout(SEND);
        if let Some(base) = &config.otlp_endpoint {
            exporter = exporter.with_endpoint(format!("{}/v1/traces", base.trim_end_matches('/')));
        }
        let exporter = exporter.build().context("[tracing] otlp_endpoint")?;
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(config.sample_ratio)));
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(program.to_owned());
        }
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_sampler(sampler).with_resource(resource.build());
        Ok(Some(Self(provider.build())))
    }

    pub(super) fn tracer(&self) -> SdkTracer {
        self.0.tracer("magnum")
    }

    /// Sends what is left.
    pub fn end(self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST) {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// Whether a collector is named.
pub fn is_wanted(config: &config::Tracing) -> bool {
    let named = |variable: &str| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    config.otlp_endpoint.as_ref().is_some_and(|endpoint| !endpoint.is_empty()) || ENDPOINT_VARIABLES.iter().any(|v| named(v))
}

/// Where spans belong, by the W3C's header.
#[derive(Default)]
struct W3c(TraceContextPropagator);

/// What the rest of the process asks about traces; none when there are none.
pub fn tracing(config: &config::Tracing) -> Option<Arc<dyn Tracing>> {
    is_wanted(config).then(|| Arc::new(W3c::default()) as Arc<dyn Tracing>)
}

impl Tracing for W3c {
    fn traceparent(&self, span: &tracing::Span) -> Option<String> {
        let context = span.context();
        if !context.span().span_context().is_valid() {
            return None;
        }
        let mut headers = std::collections::HashMap::new();
        self.0.inject_context(&context, &mut headers);
        headers.remove("traceparent")
    }

    fn follow(&self, span: &tracing::Span, traceparent: &str) {
        let headers = std::collections::HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
        let parent = self.0.extract(&headers);
        if parent.span().span_context().is_valid()
            && let Err(error) = span.set_parent(parent)
        {
            tracing::debug!(%error, "a span stays outside of its trace");
        }
    }
}

/// Sends batches on the runtime of the process: the library's thread has none.
struct Sender {
    client: reqwest::Client,
    runtime: Handle,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

#[async_trait::async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let (parts, body) = request.into_parts();
            let answer = client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body).send().await?;
            let mut response = Response::builder().status(answer.status());
            if let Some(headers) = response.headers_mut() {
                *headers = answer.headers().clone();
            }
            Ok::<_, HttpError>(response.body(answer.bytes().await?)?)
        });
        sent.await?
    }
}
