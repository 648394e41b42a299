//! How the API takes requests, over real sockets: limits, slow clients, browsers, proxies, TLS, the end of a process.
//!
//! Times are those of the configuration, set as short as it allows.

mod limits;
mod slow;
mod stop;
mod tls;

use anyhow::{Context, Result, ensure};
use reqwest::header::HeaderMap;
use serde_json::json;
use tests::raw::Raw;
use tests::wait::{self, PATIENCE, Seen};
use tests::world::{Mix, Options, World};

/// One API process with this much more configuration, and nobody who works.
async fn world(api: &str) -> Result<World> {
    let options = Options { apis: 1, conductors: 0, api: api.to_owned(), ..Options::default() };
    World::start(Mix::Distributed, options).await
}

/// The head of a request of the user `demo`, but for its end.
fn head(world: &World, request_line: &str) -> String {
    format!("{request_line} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nX-Auth-Token: {}\r\n", world.token("demo", "demo"))
}

async fn with_headers(world: &World, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(u16, HeaderMap, String)> {
    let address = world.addresses()[0].to_owned();
    let client = tests::client::http()?;
    let mut request = client.request(method.parse()?, format!("http://{address}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.with_context(|| format!("{method} {path}"))?;
    Ok((response.status().as_u16(), response.headers().clone(), response.text().await?))
}

#[tokio::test]
async fn a_browser_is_told_which_pages_may_use_the_api() -> Result<()> {
    let world = world("[cors]\nallowed_origin = https://horizon.example.org\n").await?;
    let origin = ("Origin", "https://horizon.example.org");
    let asks = [origin, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "x-auth-token, content-type")];
    for path in ["/v1/clusters", "/v1/nosuch", "/"] {
        let (status, headers, body) = with_headers(&world, "OPTIONS", path, &asks).await?;
        ensure!(status == 200 && body.is_empty(), "{path}: {status} {body}");
        for (name, value) in [
            ("access-control-allow-origin", "https://horizon.example.org"),
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-methods", "POST"),
            ("access-control-allow-headers", "x-auth-token,content-type"),
            ("access-control-max-age", "3600"),
        ] {
            ensure!(headers.get(name).is_some_and(|seen| seen == value), "{path}: {name}: {headers:?}");
        }
    }
    let token = world.token("demo", "demo");
    for (path, token, status) in [("/v1/clusters", token.as_str(), 200), ("/v1/clusters", "", 401), ("/v1/clusters/blue", &token, 404)] {
        let (seen, headers, _) = with_headers(&world, "GET", path, &[origin, ("X-Auth-Token", token)]).await?;
        ensure!(seen == status && headers.get("access-control-allow-origin").is_some_and(|seen| seen == origin.1), "{seen} {headers:?}");
        ensure!(
            headers.get("access-control-expose-headers").is_some_and(|seen| seen.to_str().unwrap_or("").contains("X-OpenStack-Request-ID"))
        );
        let vary: Vec<_> = headers.get_all("vary").iter().filter_map(|vary| vary.to_str().ok()).collect();
        ensure!(vary.iter().any(|vary| vary.ends_with("Origin")), "{vary:?}");
    }
    let other = [("Origin", "https://evil.example.org"), ("X-Auth-Token", token.as_str())];
    let (status, headers, _) = with_headers(&world, "GET", "/v1/clusters", &other).await?;
    ensure!(status == 200 && !headers.contains_key("access-control-allow-origin"), "{headers:?}");
    world.finish().await
}

/// Values of headers that ask for a microversion, the status that is due, and the version that the answer is of.
const ASKED: [(&[&[u8]], u16, &str); 8] = [
    (&[], 200, "1.1"),
    (&[b"container-infra 1.4"], 200, "1.4"),
    // One list, in one header or in two: 406 as upstream's.
    (&[b"compute 2.1, container-infra 1.4"], 406, ""),
    (&[b"container-infra 1.9", b"compute 2.1"], 406, ""),
    (&[b"container-infra 1.4", b"container-infra 1.9"], 406, ""),
    // No text at all, and some of it in what would do without it.
    (&[b"\xff\xfe"], 406, ""),
    (&[b"container-infra 1.4\xe9"], 406, ""),
    (&[b"container-infra 1.4", b"\xff"], 406, ""),
];

#[tokio::test]
async fn the_microversion_is_read_out_of_all_headers_of_its_name() -> Result<()> {
    let world = world("").await?;
    for (versions, status, served) in ASKED {
        let mut request = head(&world, "GET /v1/clusters").into_bytes();
        for version in versions {
            request.extend_from_slice(b"OpenStack-API-Version: ");
            request.extend_from_slice(version);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        let mut raw = Raw::connect(world.addresses()[0]).await?;
        raw.send(request).await?;
        let answer = raw.answer().await?;
        let told = answer.header("openstack-api-version").unwrap_or_default();
        let wanted = if served.is_empty() { String::new() } else { format!("container-infrastructure-management {served}") };
        let asked: Vec<_> = versions.iter().map(|version| String::from_utf8_lossy(version)).collect();
        ensure!(answer.status == status && told == wanted, "{asked:?}: {answer:?}");
    }
    world.finish().await
}

#[tokio::test]
async fn links_are_those_of_the_proxy_only_if_the_operator_believes_it() -> Result<()> {
    let told = [("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "api.example.org"), ("X-Forwarded-Prefix", "/magnum")];
    let self_link = async |world: &World| -> Result<String> {
        let (_, _, body) = with_headers(world, "GET", "/", &told).await?;
        let body: serde_json::Value = serde_json::from_str(&body)?;
        Ok(tests::client::text(&body["versions"][0]["links"][0], "href"))
    };
    let believing = world("[oslo_middleware]\nenable_proxy_headers_parsing = true\n").await?;
    ensure!(self_link(&believing).await? == "https://api.example.org/magnum/v1/");
    let usual = world("").await?;
    ensure!(self_link(&usual).await? == format!("http://{}/v1/", usual.addresses()[0]));
    believing.finish().await?;
    usual.finish().await
}

#[tokio::test]
async fn every_line_of_a_request_carries_its_id_and_the_one_the_client_gave() -> Result<()> {
    // What a request asks of the cloud is told at the level DEBUG.
    let environment = [("MAGNUM_LOG".to_owned(), "info,api=debug,provider_clients=debug".to_owned())].into();
    let api = "[oslo_middleware]\nenable_proxy_headers_parsing = true\n".to_owned();
    let world = World::start(Mix::Distributed, Options { apis: 1, conductors: 0, api, environment, ..Options::default() }).await?;
    let template = world.demo().create_template("small").await?;
    // The one call that the process makes for no request.
    wait::until("the trustee domain to be known", PATIENCE, async || {
        let log = world.logs("api").concat();
        Ok(Seen::when(log.contains("[-] cloud call answered"), || log))
    })
    .await?;
    let (given, token) = (format!("req-{}", uuid::Uuid::new_v4()), world.token("demo", "demo"));
    let asking = world.client(Some(&token)).with("X-OpenStack-Request-ID", &given).with("X-Forwarded-For", "192.0.2.77");
    let patch = json!([{"op": "replace", "path": "/flavor_id", "value": "m1.medium"}]);
    let answer = asking.patch(&format!("/v1/clustertemplates/{template}"), &patch).await?.expect(200)?;
    let id = answer.header("x-openstack-request-id");
    ensure!(id.starts_with("req-") && id != given, "{id}");
    with_headers(&world, "DELETE", "/v1/clusters/x", &[("X-Auth-Token", &token), ("X-OpenStack-Request-ID", "req-forged")]).await?;
    // The log is complete when its process has ended.
    let log = world.close().await?;
    let lines: Vec<&str> = log.lines().collect();
    let answered = |method: &str| {
        let end = format!("request answered method={method} ");
        lines.iter().position(|line| line.contains(&end)).with_context(|| log.clone())
    };
    // Whatever is told between the answers to the request before and to this one is told of this one.
    let of_request = &lines[answered("POST")? + 1..=answered("PATCH")?];
    let ids = format!("[{given} {id} ");
    for line in of_request {
        ensure!(line.contains(&ids), "without the ids {ids}: {line}");
    }
    for service in ["keystone", "nova", "glance", "neutron"] {
        let asked = format!("cloud call answered service={service} ");
        ensure!(of_request.iter().any(|line| line.contains(&asked)), "no call to {service}: {of_request:#?}");
    }
    let last = lines[answered("PATCH")?];
    ensure!(last.contains("client=192.0.2.77") && last.contains("status=200"), "{last}");
    ensure!(!log.contains("forged"), "another form than req-<uuid> is nobody's id: {log}");
    Ok(())
}
