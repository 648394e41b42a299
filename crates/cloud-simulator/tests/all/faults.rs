//! What a test can make go wrong.

use std::time::{Duration, Instant};

use cloud_simulator::{Fault, How};
use reqwest::Method;

use crate::world::{World, cluster};

fn fault(at: &str, nth: u32, how: How) -> Fault {
    Fault { at: at.to_owned(), nth, how }
}

#[tokio::test]
async fn a_status_fault_answers_in_the_form_of_the_service_at_the_nth_call_only() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let stacks = world.stacks_path();
    world.cloud.inject(fault("heat.stack_create", 2, How::Status(503, "later".to_owned())));
    assert_eq!(world.post(&stacks, &demo, cluster("one")).await.0, 201);
    let (status, body) = world.post(&stacks, &demo, cluster("two")).await;
    assert_eq!(status, 503);
    assert_eq!(body["error"]["message"], "later");
    assert_eq!(world.post(&stacks, &demo, cluster("two")).await.0, 201);
    assert_eq!(world.cloud.calls("heat.stack_create"), 3);
    assert_eq!(world.cloud.stacks().len(), 2);
}

#[tokio::test]
async fn accept_then_lose_makes_the_stack_and_gives_no_answer() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    world.cloud.inject(fault("heat.stack_create", 1, How::AcceptThenLose));
    let lost = world.send(Method::POST, &world.stacks_path(), &demo, Some(cluster("one"))).await;
    assert!(lost.is_err(), "{lost:?}");
    assert_eq!(world.cloud.stacks().len(), 1);
    assert_eq!(world.post(&world.stacks_path(), &demo, cluster("one")).await.0, 409);
}

#[tokio::test]
async fn refuse_does_nothing_and_gives_no_answer() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    world.cloud.inject(fault("heat.any", 0, How::Refuse));
    assert!(world.send(Method::POST, &world.stacks_path(), &demo, Some(cluster("one"))).await.is_err());
    assert!(world.send(Method::GET, &world.stacks_path(), &demo, None).await.is_err());
    assert!(world.cloud.stacks().is_empty());
    world.cloud.clear_faults();
    assert_eq!(world.post(&world.stacks_path(), &demo, cluster("one")).await.0, 201);
}

#[tokio::test]
async fn unauthorized_looks_like_an_unknown_token() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    world.cloud.inject(fault("nova.flavor_list", 1, How::Unauthorized));
    assert_eq!(world.get("/compute/v2.1/flavors", &demo).await.0, 401);
    assert_eq!(world.get("/compute/v2.1/flavors", &demo).await.0, 200);
}

#[tokio::test]
async fn slow_answers_late_and_holds_up_nobody_else() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let delay = Duration::from_millis(400);
    world.cloud.inject(fault("neutron.network_list", 1, How::Slow(delay)));
    let start = Instant::now();
    let slow = async {
        assert_eq!(world.get("/network/v2.0/networks", &demo).await.0, 200);
        start.elapsed()
    };
    let other = async {
        assert_eq!(world.get("/image/v2/images", &demo).await.0, 200);
        start.elapsed()
    };
    let (slow, other) = tokio::join!(slow, other);
    assert!(slow >= delay && other < slow, "{slow:?} {other:?}");
}

#[tokio::test]
async fn a_stopped_cloud_answers_no_more() {
    let world = World::quick().await;
    let url = world.simulator.auth_url();
    world.simulator.stop().await;
    assert!(world.client.get(url).send().await.is_err());
}

#[tokio::test]
async fn a_dropped_cloud_closes_its_port() {
    let World { simulator, cloud: _, client, .. } = World::quick().await;
    let url = simulator.auth_url();
    assert_eq!(client.get(&url).send().await.expect("an answer").status(), 200);
    drop(simulator);
    let start = Instant::now();
    while client.get(&url).send().await.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(10), "the port is still open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
