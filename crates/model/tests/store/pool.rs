use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::store::{Conn, Store, StoreError, cluster};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

use crate::world::{Kind, World};

/// Longer than a connection may rest without being asked whether it lives.
const RESTED: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(20);

/// Stands before MariaDB, and keeps its answers back while it is told to.
struct Relay {
    port: u16,
    connections: Arc<AtomicUsize>,
    held: watch::Sender<bool>,
}

impl Relay {
    async fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (held, holding) = watch::channel(false);
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(carry(client, server, holding.clone()));
            }
        });
        Self { port, connections, held }
    }
}

async fn carry(client: TcpStream, server: u16, mut holding: watch::Receiver<bool>) {
    let server = TcpStream::connect(("127.0.0.1", server)).await.expect("MariaDB listens");
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.into_split(), server.into_split());
    let there = tokio::io::copy(&mut from_client, &mut to_server);
    let back = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = tokio::io::AsyncReadExt::read(&mut from_server, &mut buffer).await {
            if holding.wait_for(|held| !held).await.is_err() || to_client.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        _ = there => {}
        () = back => {}
    }
}

async fn count(store: &Store) -> Result<i64, StoreError> {
    store.read(async |conn: &mut Conn| cluster::count_all(conn).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_given_up_while_it_was_asked_whether_it_lives_is_lent_to_nobody() {
    let world = World::new(Kind::MariaDb).await;
    let relay = Relay::before(world.port().expect("MariaDB has one")).await;
    let store = world.by(relay.port);
    assert_eq!(count(&store).await.expect("a count"), 0);
    assert_eq!(relay.connections.load(Ordering::SeqCst), 1);

    tokio::time::sleep(RESTED).await;
    relay.held.send_replace(true);
    // The question is on its way, and nobody waits for its answer any more.
    assert!(tokio::time::timeout(Duration::from_millis(200), count(&store)).await.is_err(), "the answer is kept back");
    assert_eq!(store.pool_use().open, 0);
    relay.held.send_replace(false);
    let counted = tokio::time::timeout(PATIENCE, count(&store)).await.expect("in time").expect("a count");
    assert_eq!((counted, relay.connections.load(Ordering::SeqCst)), (0, 2));
}

/// What must not wait behind everything else has connections of its own.
#[tokio::test(flavor = "multi_thread")]
async fn connections_aside_are_free_while_all_others_are_lent() {
    let world = World::new(Kind::MariaDb).await;
    let store = world.by(world.port().expect("MariaDB listens"));
    let aside = store.aside(1);
    let (is_lent, may_end) = (Notify::new(), Notify::new());
    let lent = store.read(async |_: &mut Conn| {
        is_lent.notify_one();
        may_end.notified().await;
        Ok::<_, StoreError>(())
    });
    let beside = async {
        is_lent.notified().await;
        let counted = count(&aside).await;
        may_end.notify_one();
        counted
    };
    let (lent, counted) = tokio::join!(lent, beside);
    assert!(lent.is_ok() && counted.is_ok_and(|count| count == 0));
}
