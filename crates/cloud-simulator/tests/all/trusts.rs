//! Trusts and what they let a trustee do.

use serde_json::{Value, json};

use crate::world::{World, cluster, text};

async fn trust(world: &World, token: &str, trustor: &str, trustee: &str, more: Value) -> (reqwest::StatusCode, Value) {
    let mut trust = json!({
        "trustor_user_id": trustor,
        "trustee_user_id": trustee,
        "project_id": world.cloud.project_id("demo"),
        "impersonation": true,
        "roles": [{"name": "member"}],
    });
    for (key, value) in more.as_object().expect("an object") {
        trust[key] = value.clone();
    }
    world.post("/identity/v3/OS-TRUST/trusts", token, json!({"trust": trust})).await
}

async fn user_id(world: &World, token: &str) -> String {
    text(&world.validate(token, token).await.1["token"]["user"]["id"])
}

#[tokio::test]
async fn a_trustee_acts_as_the_trustor_until_the_trust_is_deleted() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let demo_id = user_id(&world, &demo).await;
    let trustee = world.trustee("trustee", "pw").await;
    let (status, made) = trust(&world, &demo, &demo_id, &trustee, json!({})).await;
    assert_eq!(status, 201, "{made}");
    let id = text(&made["trust"]["id"]);

    let (status, token, body) = world.as_trustee(&trustee, "pw", &id).await;
    assert_eq!(status, 201, "{body}");
    assert_eq!(body["token"]["user"]["id"], demo_id.as_str());
    assert_eq!(body["token"]["OS-TRUST:trust"]["trustee_user"]["id"], trustee.as_str());
    assert!(body["token"]["roles"].as_array().is_some_and(|roles| roles.iter().any(|role| role["name"] == "reader")));

    let path = format!("/identity/v3/OS-TRUST/trusts?trustee_user_id={trustee}&trustor_user_id={demo_id}");
    assert_eq!(world.get(&path, &demo).await.1["trusts"].as_array().map(Vec::len), Some(1));
    // The trustee's token acts as the trustor, so it may delete the trust, and dies with it.
    assert_eq!(world.delete(&format!("/identity/v3/OS-TRUST/trusts/{id}"), &token).await.0, 204);
    assert_eq!(world.get("/network/v2.0/networks", &token).await.0, 401);
    assert_eq!(world.as_trustee(&trustee, "pw", &id).await.0, 404);
}

#[tokio::test]
async fn nobody_but_the_trustor_makes_or_deletes_a_trust() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let demo_id = user_id(&world, &demo).await;
    let other = world.cloud.token_for("member2", "demo");
    let trustee = world.trustee("trustee", "pw").await;
    assert_eq!(trust(&world, &other, &demo_id, &trustee, json!({})).await.0, 403);
    assert_eq!(trust(&world, &demo, &demo_id, &trustee, json!({"roles": [{"name": "admin"}]})).await.0, 404);
    let (_, made) = trust(&world, &demo, &demo_id, &trustee, json!({})).await;
    let path = format!("/identity/v3/OS-TRUST/trusts/{}", text(&made["trust"]["id"]));
    assert_eq!(world.delete(&path, &other).await.0, 403);
    assert_eq!(world.delete(&path, &demo).await.0, 204);
    assert_eq!(world.delete(&path, &demo).await.0, 404);
}

#[tokio::test]
async fn deleting_the_trustee_deletes_its_trusts() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let demo_id = user_id(&world, &demo).await;
    let trustee = world.trustee("trustee", "pw").await;
    let (_, made) = trust(&world, &demo, &demo_id, &trustee, json!({})).await;
    let admin = world.domain_admin().await;
    assert_eq!(world.delete(&format!("/identity/v3/users/{trustee}"), &admin).await.0, 204);
    let path = format!("/identity/v3/OS-TRUST/trusts/{}", text(&made["trust"]["id"]));
    assert_eq!(world.get(&path, &demo).await.0, 404);
    assert_eq!(world.cloud.leftovers(None), Vec::<String>::new());
}

#[tokio::test]
async fn heat_takes_a_trust_scoped_token_only_when_the_trust_may_be_handed_on() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let demo_id = user_id(&world, &demo).await;
    let trustee = world.trustee("trustee", "pw").await;
    let (_, closed) = trust(&world, &demo, &demo_id, &trustee, json!({})).await;
    let (_, token, _) = world.as_trustee(&trustee, "pw", &text(&closed["trust"]["id"])).await;
    assert_eq!(world.post(&world.stacks_path(), &token, cluster("a")).await.0, 403);

    let (_, open) = trust(&world, &demo, &demo_id, &trustee, json!({"allow_redelegation": true})).await;
    let (_, token, _) = world.as_trustee(&trustee, "pw", &text(&open["trust"]["id"])).await;
    assert_eq!(world.post(&world.stacks_path(), &token, cluster("a")).await.0, 201);
}

#[tokio::test]
async fn a_trust_is_handed_on_as_often_as_it_says_and_what_was_made_from_it_ends_with_it() {
    let world = World::quick().await;
    let demo = world.cloud.token_for("demo", "demo");
    let demo_id = user_id(&world, &demo).await;
    let mut trustees = Vec::new();
    for name in ["first", "second", "third"] {
        trustees.push(world.trustee(name, "pw").await);
    }
    let [first, second, third] = &trustees[..] else { panic!("three") };
    // As often as Keystone lets any, where nobody says otherwise.
    let mut counts = Vec::new();
    for more in [
        json!({}),
        json!({"allow_redelegation": false, "redelegation_count": 2}),
        json!({"allow_redelegation": true}),
        json!({"allow_redelegation": true, "redelegation_count": 0}),
        json!({"allow_redelegation": true, "redelegation_count": 1}),
    ] {
        let (status, made) = trust(&world, &demo, &demo_id, first, more).await;
        assert_eq!(status, 201, "{made}");
        counts.push(made["trust"]["redelegation_count"].clone());
    }
    assert_eq!(counts, [0, 0, 3, 0, 1]);
    // Those that never end may be alike.
    let ends = |at: &str| json!({"expires_at": at});
    let mut answers = Vec::new();
    for more in [ends("2100-01-01T00:00:00.000000Z"), ends("2100-01-01T00:00:00.000000Z"), ends("2100-01-02T00:00:00.000000Z")] {
        answers.push(trust(&world, &demo, &demo_id, third, more).await.0.as_u16());
    }
    assert_eq!(answers, [201, 409, 201]);
    let too_often = json!({"allow_redelegation": true, "redelegation_count": 4});
    assert_eq!(trust(&world, &demo, &demo_id, first, too_often).await.0, 403);

    let (_, own) = trust(&world, &demo, &demo_id, first, json!({"allow_redelegation": true, "redelegation_count": 1})).await;
    let own = text(&own["trust"]["id"]);
    let (_, token, _) = world.as_trustee(first, "pw", &own).await;
    // Keystone counts down by itself.
    let counted = json!({"allow_redelegation": true, "redelegation_count": 1});
    let (status, refused) = trust(&world, &token, &demo_id, second, counted).await;
    assert!(status == 403 && refused.to_string().contains("upon redelegation is forbidden"), "{refused}");
    let (status, child) = trust(&world, &token, &demo_id, second, json!({"allow_redelegation": true})).await;
    assert_eq!((status.as_u16(), &child["trust"]["redelegation_count"]), (201, &json!(0)), "{child}");
    assert_eq!(child["trust"]["redelegated_trust_id"], own.as_str());
    let child = text(&child["trust"]["id"]);
    let (status, token, _) = world.as_trustee(second, "pw", &child).await;
    assert_eq!(status, 201);
    let (status, refused) = trust(&world, &token, &demo_id, third, json!({})).await;
    assert!(status == 403 && refused.to_string().contains("Remaining redelegation depth of 0"), "{refused}");

    // A list tells no roles; whoever was given a trust sees it, in whatever he may log in.
    let (_, listed) = world.get(&format!("/identity/v3/OS-TRUST/trusts?trustor_user_id={demo_id}"), &demo).await;
    assert!(
        listed["trusts"].as_array().is_some_and(|all| all.len() == 9 && all.iter().all(|trust| trust.get("roles").is_none())),
        "{listed}"
    );
    let identity = json!({"methods": ["password"], "password": {"user": {"id": second, "password": "pw"}}});
    let (status, unscoped, _) = world.authenticate(identity, json!("unscoped")).await;
    assert_eq!(status, 201);
    let (_, listed) = world.get(&format!("/identity/v3/OS-TRUST/trusts?trustee_user_id={second}"), &unscoped).await;
    assert_eq!(listed["trusts"][0]["id"], child.as_str(), "{listed}");
    let (_, shown) = world.get(&format!("/identity/v3/OS-TRUST/trusts/{child}"), &unscoped).await;
    assert_eq!(shown["trust"]["roles"][0]["name"], "member", "{shown}");

    assert_eq!(world.delete(&format!("/identity/v3/OS-TRUST/trusts/{own}"), &demo).await.0, 204);
    assert_eq!(world.get("/network/v2.0/networks", &token).await.0, 401);
    assert_eq!(world.as_trustee(second, "pw", &child).await.0, 404);
    assert_eq!(world.get(&format!("/identity/v3/OS-TRUST/trusts/{child}"), &demo).await.0, 404);
}
