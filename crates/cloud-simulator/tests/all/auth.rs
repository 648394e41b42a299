//! Tokens, and the services that want one.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::world::{World, text};

fn demo() -> serde_json::Value {
    json!({"project": {"name": "demo", "domain": {"id": "default"}}})
}

#[tokio::test]
async fn a_password_gives_a_token_with_roles_and_catalogue() {
    let world = World::quick().await;
    world.cloud.set_container_infra_url("http://127.0.0.1:9511/v1");
    let (status, token, body) = world.log_in("demo", "demo", "Default", demo()).await;
    assert_eq!(status, 201);
    let roles: Vec<&str> = body["token"]["roles"].as_array().expect("roles").iter().filter_map(|role| role["name"].as_str()).collect();
    assert!(roles.contains(&"member") && roles.contains(&"reader"), "{roles:?}");
    let kinds: Vec<&str> =
        body["token"]["catalog"].as_array().expect("catalog").iter().filter_map(|entry| entry["type"].as_str()).collect();
    for kind in ["identity", "orchestration", "compute", "network", "image", "load-balancer", "volumev3", "key-manager", "container-infra"]
    {
        assert!(kinds.contains(&kind), "{kind} is not in {kinds:?}");
    }

    let service = world.cloud.token_for("magnum", "service");
    let (status, seen) = world.validate(&service, &token).await;
    assert_eq!(status, 200);
    assert_eq!(seen["token"]["project"]["name"], "demo");
    assert_eq!(seen["token"]["expires_at"], body["token"]["expires_at"]);
}

#[tokio::test]
async fn a_wrong_password_and_a_project_without_role_are_both_401() {
    let world = World::quick().await;
    let (status, _, body) = world.log_in("demo", "wrong", "Default", demo()).await;
    assert_eq!(status, 401);
    assert_eq!(body["error"]["title"], "Unauthorized");
    let (status, ..) = world.log_in("demo2", "demo2", "Default", demo()).await;
    assert_eq!(status, 401);
    let (status, ..) = world.log_in("demo", "demo", "magnum", demo()).await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn an_expired_token_is_refused_and_not_found() {
    let world = World::quick().await;
    let token = world.cloud.token_for("demo", "demo");
    let service = world.cloud.token_for("magnum", "service");
    assert_eq!(world.get("/compute/v2.1/flavors/detail", &token).await.0, 200);
    world.cloud.expire_token(&token);
    assert_eq!(world.get("/compute/v2.1/flavors/detail", &token).await.0, 401);
    assert_eq!(world.validate(&service, &token).await.0, 404);

    world.cloud.set_token_lifetime(Duration::ZERO);
    let (_, short, _) = world.log_in("demo", "demo", "Default", demo()).await;
    assert_eq!(world.get("/compute/v2.1/flavors/detail", &short).await.0, 401);
}

#[tokio::test]
async fn every_service_wants_a_token_and_shows_its_version_without() {
    let world = World::quick().await;
    let stacks = world.stacks_path();
    for path in [
        "/identity/v3/users",
        stacks.as_str(),
        "/compute/v2.1/flavors",
        "/network/v2.0/networks",
        "/image/v2/images",
        "/load-balancer/v2.0/lbaas/loadbalancers",
        "/volume/v3/types",
        "/key-manager/v1/containers",
    ] {
        assert_eq!(world.get(path, "unknown").await.0, 401, "{path}");
    }
    for path in ["/identity/v3", "/orchestration", "/compute/v2.1", "/network", "/image", "/load-balancer", "/volume", "/key-manager"] {
        let response = world.client.get(world.url(path)).send().await.expect("an answer");
        assert!([200, 300].contains(&response.status().as_u16()), "{path}");
    }
}

#[tokio::test]
async fn only_the_domain_administrator_makes_trustees() {
    let world = World::quick().await;
    let domain_admin = world.domain_admin().await;
    let demo = world.cloud.token_for("demo", "demo");
    let user = json!({"user": {"name": "trustee", "password": "one"}});
    assert_eq!(world.post("/identity/v3/users", &demo, user.clone()).await.0, 403);
    let (status, made) = world.post("/identity/v3/users", &domain_admin, user.clone()).await;
    assert_eq!(status, 201);
    assert_eq!(world.post("/identity/v3/users", &domain_admin, user).await.0, 409);

    let domain = text(&made["user"]["domain_id"]);
    let (_, found) = world.get(&format!("/identity/v3/users?name=trustee&domain_id={domain}"), &domain_admin).await;
    assert_eq!(found["users"].as_array().map(Vec::len), Some(1));

    let path = format!("/identity/v3/users/{}", text(&made["user"]["id"]));
    let changed = world.send(Method::PATCH, &path, &domain_admin, Some(json!({"user": {"password": "two"}}))).await;
    assert_eq!(changed.expect("an answer").status(), 200);
    assert_eq!(world.log_in("trustee", "one", "magnum", json!("unscoped")).await.0, 401);
    assert_eq!(world.log_in("trustee", "two", "magnum", json!("unscoped")).await.0, 201);
    assert_eq!(world.delete(&path, &domain_admin).await.0, 204);
    assert_eq!(world.delete(&path, &domain_admin).await.0, 404);
}

#[tokio::test]
async fn a_token_made_from_a_token_ends_with_it() {
    let world = World::quick().await;
    let (_, token, first) = world.log_in("demo", "demo", "Default", demo()).await;
    let identity = json!({"methods": ["token"], "token": {"id": token}});
    let (status, _, second) = world.authenticate(identity, demo()).await;
    assert_eq!(status, 201);
    assert_eq!(first["token"]["expires_at"], second["token"]["expires_at"]);
}
