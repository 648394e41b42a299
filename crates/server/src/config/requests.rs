//! How requests are taken: `[cors]`, `[oslo_middleware]`, `[requests]`.

use super::options::section;
use super::value::Positive;

section! {
    /// Pages of which other origins may use the API in a browser.
    Cors {
        /// Origins whose pages may read answers, as <protocol>://<host>[:<port>]; * allows every one. Empty: none.
        allowed_origin: Vec<String>,
        /// Pages may send what the browser knows of the user.
        allow_credentials: bool = "true",
        /// Answer headers that pages may read.
        expose_headers: Vec<String> = "X-Auth-Token,X-Subject-Token,X-Service-Token,X-OpenStack-Request-ID,X-Server-Management-Url",
        /// Seconds for which a browser may remember a preflight.
        max_age: i64 = "3600",
        /// Methods that pages may use.
        allow_methods: Vec<String> = "GET,PUT,POST,DELETE,PATCH",
        /// Request headers that pages may send.
        allow_headers: Vec<String> = "X-Auth-Token,X-Identity-Status,X-Roles,X-Service-Catalog,X-User-Id,X-Tenant-Id,X-OpenStack-Request-ID,X-Server-Management-Url",
    }
}

section! {
    /// What to believe of a request, and how much of it to read.
    Middleware {
        /// Believe Forwarded, and X-Forwarded-Proto, -Host, -Port, -Prefix and -For, when making links and naming clients.
        enable_proxy_headers_parsing: bool = "false",
        /// Most bytes of a request's body; a longer one is answered with 413.
        max_request_body_size: Positive = "114688",
    }
}

section! {
    /// Times and rates of requests. Not known to upstream.
    Requests {
        /// Seconds that a client has for the head of a request, and for a TLS handshake.
        head_timeout: Positive = "10",
        /// Seconds that a client has for a body.
        body_timeout: Positive = "30",
        /// Seconds that a request may be worked on before it is answered with 503.
        answer_timeout: Positive = "60",
        /// Seconds that a client may leave an answer lying without taking anything of it.
        send_timeout: Positive = "30",
        /// Seconds that a connection is kept open for the next request.
        idle_timeout: Positive = "75",
        /// Seconds between the signal to stop and the end of serving: health checks fail meanwhile, so that load balancers send their
        /// requests elsewhere. Longer than a load balancer takes to notice; part of graceful_shutdown_timeout.
        drain_delay: u64 = "0",
        /// Seconds for which an image, flavor, network, subnet or key pair that was found for a user is not looked up for him again, 300 at
        /// most; 0 looks each time. What was not found is never remembered.
        cloud_check_cache_seconds: u64 = "10",
        /// Most open connections.
        max_connections: Positive = "8192",
        /// Most open streams of events; one project may have half of them.
        max_event_streams: Positive = "256",
        /// Requests a second that a project may make of each API process in the long run; 0 sets no limit. More are answered with 429.
        project_rate: f64 = "0",
        /// Requests that a project may make at once after a pause, when project_rate is set.
        project_burst: Positive = "50",
    }
}
