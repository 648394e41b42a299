use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

/// What the pipe between the two ends holds.
const PIPE: usize = 64;

fn limits() -> Limits {
    let seconds = Duration::from_secs;
    Limits { head: seconds(10), idle: seconds(75), send: seconds(30), ..Limits::default() }
}

fn pair() -> (DuplexStream, Connection<DuplexStream>) {
    let (client, server) = duplex(PIPE);
    (client, Connection::new(server, limits()))
}

/// Seconds after which the read ends with the time-out.
async fn read_ends_after(connection: &mut Connection<DuplexStream>) -> u64 {
    let started = Instant::now();
    let error = connection.read_u8().await.expect_err("nothing comes");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    started.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_is_let_go_after_idle_and_head_time() {
    let (_client, mut connection) = pair();
    assert_eq!(read_ends_after(&mut connection).await, 85);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_has_begun_must_be_complete_in_time_however_it_trickles() {
    let (mut client, mut connection) = pair();
    // The first request is through, the second one trickles: the library's own clock does not run any more.
    drop(connection.watch().serve());
    let trickle = async {
        loop {
            client.write_all(b"x").await.expect("the pipe is open");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let started = Instant::now();
    let read = async {
        loop {
            if let Err(error) = connection.read_u8().await {
                return error;
            }
        }
    };
    let error = tokio::select! { error = read => error, () = trickle => unreachable!("it goes on for ever") };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(started.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_timed_here_while_a_request_is_worked_on() {
    let (mut client, mut connection) = pair();
    client.write_all(b"head").await.expect("write");
    let mut head = [0; 4];
    connection.read_exact(&mut head).await.expect("read");
    let serving = connection.watch().serve();
    let hours = tokio::time::timeout(Duration::from_secs(7200), connection.read_u8()).await;
    assert!(hours.is_err(), "{hours:?}");
    drop(serving);
    assert_eq!(read_ends_after(&mut connection).await, 85);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_taken_ends_the_connection() {
    let (_client, mut connection) = pair();
    let started = Instant::now();
    let error = connection.write_all(&[0; PIPE + 1]).await.expect_err("nobody reads");
    assert_eq!((error.kind(), started.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_taken_byte_by_byte_ends_the_connection() {
    let (mut client, mut connection) = pair();
    let take = async {
        while client.read_u8().await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let started = Instant::now();
    let error = tokio::select! {
        wrote = async { connection.write_all(&[0; 100_000]).await } => wrote.expect_err("too slow"),
        () = take => unreachable!("the connection outlives this block"),
    };
    assert_eq!((error.kind(), started.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_thin_line_gets_a_large_answer() {
    let (mut client, mut connection) = pair();
    let size = 2 * 1024 * 1024;
    let take = async {
        let mut taken = 0;
        let mut buffer = [0; PIPE];
        while taken < size {
            taken += client.read(&mut buffer).await.expect("the answer goes on");
            // 64 bytes each 10 ms: 6.4 kB a second.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let started = Instant::now();
    let give = async {
        connection.write_all(&vec![0; size]).await?;
        connection.flush().await
    };
    let (given, ()) = tokio::join!(give, take);
    given.expect("taken fast enough");
    assert!(started.elapsed() > limits().send * 5);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_events_keeps_its_connection() {
    let (mut client, mut connection) = pair();
    drop(connection.watch().serve());
    for _ in 0..10 {
        let pause = tokio::time::timeout(Duration::from_secs(60), connection.read_u8()).await;
        assert!(pause.is_err(), "{pause:?}");
        connection.write_all(b"event").await.expect("write");
        let mut event = [0; 5];
        client.read_exact(&mut event).await.expect("read");
    }
}
