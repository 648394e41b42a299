use std::time::Duration;

use model::id::OperationId;
use model::queue::amqp::{AmqpOptions, Bell, Broker, Listener, Reach};
use model::queue::{Doorbell, Listener as Ears};

fn options() -> AmqpOptions {
    let text = std::env::var("MAGNUM_TEST_AMQP_URL").expect("MAGNUM_TEST_AMQP_URL is set by `cargo xtask test`");
    let url = url::Url::parse(&text).expect("an amqp:// URL");
    let broker = Broker {
        host: url.host_str().expect("a host").to_owned(),
        port: url.port().unwrap_or(5672),
        user: url.username().to_owned(),
        password: url.password().unwrap_or_default().into(),
    };
    let reach = Reach { brokers: vec![broker], vhost: "/".into(), tls: None, heartbeat: 10 };
    AmqpOptions { reach, queue: format!("test-{}", uuid::Uuid::new_v4()), prefetch: 16 }
}

async fn hear(listener: &mut Ears) -> model::queue::Ring {
    tokio::time::timeout(Duration::from_secs(20), listener.next()).await.expect("a ring in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_ring_is_heard_by_one_of_the_competing_listeners() {
    let options = options();
    let bell = Doorbell::Amqp(Bell::start(options.clone()));
    let (mut one, mut two) = (Ears::Amqp(Listener::start(options.clone())), Ears::Amqp(Listener::start(options)));
    // More than are sent together.
    let sent: std::collections::BTreeSet<_> = (0..200).map(|_| OperationId::generate()).collect();
    for id in &sent {
        bell.ring(id.clone());
    }
    let mut heard = std::collections::BTreeSet::new();
    while heard.len() < sent.len() {
        let ring = tokio::time::timeout(Duration::from_secs(20), async {
            tokio::select! { ring = one.next() => ring, ring = two.next() => ring }
        })
        .await
        .expect("a ring in time");
        assert!(heard.insert(ring.operation.clone()), "heard twice: {}", ring.operation);
        ring.taken().await;
    }
    assert_eq!(heard, sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_that_nobody_took_comes_again() {
    let options = options();
    let bell = Doorbell::Amqp(Bell::start(options.clone()));
    let id = OperationId::generate();
    let mut first = Ears::Amqp(Listener::start(options.clone()));
    bell.ring(id.clone());
    let ring = hear(&mut first).await;
    assert_eq!(ring.operation, id);
    drop((ring, first));
    let mut second = Ears::Amqp(Listener::start(options));
    let again = hear(&mut second).await;
    assert_eq!(again.operation, id);
    again.taken().await;
}

/// What a process rings as it stops is heard by the others, though the bell is gone with it.
#[test]
fn what_has_settled_outlives_whoever_rang() {
    const RINGS: u64 = 200;
    let options = options();
    let process = || tokio::runtime::Runtime::new().expect("a runtime");
    let rung = process().block_on(async {
        let bell = Doorbell::Amqp(Bell::start(options.clone()));
        (0..RINGS).for_each(|_| bell.ring(OperationId::generate()));
        bell.settled(Duration::from_secs(20)).await;
        bell.counts()
    });
    assert_eq!((rung.rung, rung.failed), (RINGS, 0));
    process().block_on(async {
        let mut listener = Ears::Amqp(Listener::start(options));
        for _ in 0..RINGS {
            hear(&mut listener).await.taken().await;
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn ringing_without_a_broker_never_waits() {
    let mut nowhere = options();
    nowhere.reach.brokers[0].port = 1;
    let bell = Doorbell::Amqp(Bell::start(nowhere));
    let started = std::time::Instant::now();
    for _ in 0..10_000 {
        bell.ring(OperationId::generate());
    }
    assert!(started.elapsed() < Duration::from_secs(2));
    // Nor does a process that stops wait for it to come back.
    bell.settled(Duration::from_millis(50)).await;
    assert_eq!(bell.counts().rung, 0);
    assert!(started.elapsed() < Duration::from_secs(4));
}
