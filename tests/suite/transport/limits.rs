//! What is refused for its size or its number.

use anyhow::{Context, Result, ensure};
use tests::raw::Raw;

use super::{head, world};

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_whether_it_says_so_or_not() -> Result<()> {
    let world = world("[oslo_middleware]\nmax_request_body_size = 1000\n").await?;
    let before = world.counts().await?;
    let head = head(&world, "POST /v1/clusters") + "Content-Type: application/json\r\n";

    // Refused by its length, before a byte of it is sent.
    let mut declared = Raw::connect(world.addresses()[0]).await?;
    declared.send(format!("{head}Content-Length: 1000000000\r\n\r\n")).await?;
    let answer = declared.answer().await?.expect_error(413)?;
    ensure!(answer.body.contains("1000 bytes"), "{answer:?}");

    // Refused once it is too long.
    let mut chunked = Raw::connect(world.addresses()[0]).await?;
    chunked.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n3e8\r\n")).await?;
    chunked.send([b' '; 1000]).await?;
    chunked.send("\r\n1\r\n \r\n").await?;
    chunked.answer().await?.expect_error(413)?;

    // The limit itself is allowed: read, and refused for what it says.
    let mut full = Raw::connect(world.addresses()[0]).await?;
    full.send(format!("{head}Content-Length: 1000\r\n\r\n{:1000}", "{}")).await?;
    full.answer().await?.expect_error(400)?;
    ensure!(world.counts().await? == before);
    world.finish().await
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() -> Result<()> {
    let world = world("").await?;
    let address = world.addresses()[0];
    let head = head(&world, "GET /v1/clusters");

    let mut long_header = Raw::connect(address).await?;
    long_header.send(format!("{head}X-Long: {}\r\n\r\n", "x".repeat(70_000))).await?;
    long_header.answer().await?.expect_error(431)?;

    let mut long_path = Raw::connect(address).await?;
    long_path.send(format!("GET /v1/clusters/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(17_000))).await?;
    long_path.answer().await?.expect_error(414)?;

    // Beyond what is read at all: the library answers, without a body, and closes.
    let many: String = (0..200).map(|n| format!("X-{n}: x\r\n")).collect();
    for too_much in [format!("X-Long: {}\r\n\r\n", "x".repeat(300_000)), format!("{many}\r\n")] {
        let mut client = Raw::connect(address).await?;
        // The server may have closed before everything is sent.
        let _ = client.send(format!("{head}{too_much}")).await;
        ensure!(client.answer().await?.status == 431);
    }
    let mut nonsense = Raw::connect(address).await?;
    nonsense.send("this is no HTTP\r\n\r\n").await?;
    ensure!(nonsense.answer().await?.status == 400);
    world.demo().get("/v1/clusters").await?.expect(200)?;
    world.finish().await
}

#[tokio::test]
async fn a_project_that_asks_too_often_is_told_when_to_come_back_and_others_are_served() -> Result<()> {
    let world = world("[requests]\nproject_rate = 0.01\nproject_burst = 5\n").await?;
    let demo = world.demo();
    for _ in 0..5 {
        demo.get("/v1/clusters").await?.expect(200)?;
    }
    for _ in 0..3 {
        let refused = demo.get("/v1/clusters").await?.expect_error(429, "try again")?;
        let seconds: u64 = refused.header("retry-after").parse()?;
        ensure!((1..=100).contains(&seconds), "{seconds}");
    }
    // Nobody else is held up: another project, and what needs no token.
    world.user("demo2", "demo2").get("/v1/clusters").await?.expect(200)?;
    for path in ["/", "/v1", "/healthcheck"] {
        world.client(None).get(path).await?.expect(200)?;
    }
    world.client(None).get("/v1/clusters").await?.expect(401)?;
    world.finish().await
}

#[tokio::test]
async fn without_a_rate_nobody_is_held_up() -> Result<()> {
    let world = world("").await?;
    let demo = world.demo();
    for _ in 0..200 {
        demo.get("/v1/clusters").await?.expect(200)?;
    }
    world.finish().await
}

#[tokio::test]
async fn odd_request_lines_and_framing_are_answered_and_never_taken_for_something_else() -> Result<()> {
    let world = world("").await?;
    let address = world.addresses()[0];
    let post = head(&world, "POST /v1/clusters") + "Content-Type: application/json\r\n";
    for (what, request, status) in [
        ("HAProxy's default check", "OPTIONS / HTTP/1.0\r\n\r\n".to_owned(), 200),
        ("a check of the server as a whole", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 200),
        ("no Host", "GET / HTTP/1.0\r\n\r\n".to_owned(), 200),
        ("the form for proxies", "GET http://elsewhere.example.org/v1 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 200),
        ("a method of nobody", "BREW /v1/clusters HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 401),
        ("a path that climbs", "GET /v1/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 401),
        ("two lengths", format!("{post}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}"), 400),
        ("a negative length", format!("{post}Content-Length: -2\r\n\r\n{{}}"), 400),
        ("a length and chunks", format!("{post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400),
        ("a name with a blank", "GET / HTTP/1.1\r\nHo st: x\r\n\r\n".to_owned(), 400),
        ("HTTP/2 without asking", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 400),
    ] {
        let mut client = Raw::connect(address).await?;
        client.send(&request).await?;
        let answer = client.answer().await.with_context(|| format!("{what}: {request:?}"))?;
        ensure!(answer.status == status, "{what}: expected {status}: {answer:?}");
    }
    // The end of such a body cannot be found: nothing is done, and the connection is closed.
    let mut client = Raw::connect(address).await?;
    client.send(format!("{post}Transfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n")).await?;
    client.closed().await.context("a chunk without a size")?;
    let log = world.close().await?;
    ensure!(!log.contains(" ERROR "), "a client's nonsense is no operator's affair: {log}");
    Ok(())
}

#[tokio::test]
async fn requests_that_are_sent_in_one_go_are_answered_in_their_order() -> Result<()> {
    let world = world("").await?;
    let mut client = Raw::connect(world.addresses()[0]).await?;
    let (list, missing) = (head(&world, "GET /v1/clusters"), head(&world, "GET /v1/clusters/blue"));
    client.send(format!("{list}\r\n{missing}\r\n{list}\r\n")).await?;
    for status in [200, 404, 200] {
        let answer = client.answer().await?;
        ensure!(answer.status == status, "expected {status}: {answer:?}");
    }
    world.finish().await
}
