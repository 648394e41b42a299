//! Tokens, endpoints and what every call carries.

use std::sync::{Arc, Mutex};

use provider_clients::{
    Call, Cloud, CloudOptions, Credential, Ending, ErrorKind, Interface, Observer, Service, StackFilter, Tracing, Watchers,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::server::{Reply, Server, password, token};
use crate::{new_stack, not_found};

#[tokio::test]
async fn a_401_renews_the_token_once_and_repeats_the_call_once() {
    let server = Server::cloud(|_, asked, _| match asked.header("x-auth-token") {
        Some("token-2") => Reply::json(201, json!({"stack": {"id": "id1"}})),
        _ => Reply::json(401, json!({"error": {"message": "This server could not verify"}})),
    })
    .await;
    let session = server.session();
    assert_eq!(session.heat().create_stack(&new_stack()).await.expect("made"), "id1");
    assert_eq!(server.asked("POST", "/v1/p1/stacks").len(), 2);
    assert_eq!(session.token().await.expect("a token").expose_secret(), "token-2");

    let server = Server::cloud(|_, _, _| Reply::json(401, json!({"error": {"message": "no"}}))).await;
    let error = server.session().heat().create_stack(&new_stack()).await.expect_err("refused");
    assert!(error.is_unauthorized() && !error.may_have_made());
    assert_eq!(server.asked("POST", "/v1/p1/stacks").len(), 2);
    assert_eq!(server.asked("POST", "/v3/auth/tokens").len(), 2);
}

#[tokio::test]
async fn a_token_that_was_handed_to_us_is_never_renewed() {
    let server = Server::start(|url, asked, _| match asked.is("GET", "/v3/auth/tokens") {
        true => Reply::json(200, token(url)),
        false => Reply::json(401, json!({"error": {"message": "expired"}})),
    })
    .await;
    let cloud = Cloud::new(server.options()).expect("good options");
    let error = cloud.session(Credential::Token("theirs".into())).nova().keypair("k").await.expect_err("refused");
    assert_eq!((error.service(), error.status()), (Service::Compute, Some(401)));
    let shown = server.asked("GET", "/v3/auth/tokens");
    assert_eq!(shown.len(), 1);
    assert_eq!((shown[0].header("x-auth-token"), shown[0].header("x-subject-token")), (Some("theirs"), Some("theirs")));
    assert_eq!(server.asked("GET", "/v2.1/os-keypairs/k").len(), 1);
}

#[tokio::test]
async fn many_waiters_share_one_login() {
    let server = Server::cloud(|_, _, _| not_found()).await;
    let session = server.session();
    let calls = (0..20).map(|_| session.token());
    let tokens = futures::future::try_join_all(calls).await.expect("tokens");
    assert!(tokens.iter().all(|token| token.expose_secret() == "token-1"));
    assert_eq!(server.asked("POST", "/v3/auth/tokens").len(), 1);
}

#[tokio::test]
async fn many_waiters_share_one_failed_login() {
    let server =
        Server::start(|_, _, _| Reply::json(401, json!({"error": {"message": "The request you have made requires authentication."}})))
            .await;
    let session = server.session();
    let calls = (0..20).map(|_| session.token());
    let outcomes = futures::future::join_all(calls).await;
    assert!(outcomes.iter().all(|it| { it.as_ref().is_err_and(|e| e.kind() == ErrorKind::Auth && e.is_unauthorized()) }));
    assert_eq!(server.asked("POST", "/v3/auth/tokens").len(), 1);
    assert!(session.token().await.is_err());
    assert_eq!(server.asked("POST", "/v3/auth/tokens").len(), 2, "a later caller tries again");
}

#[tokio::test]
async fn a_token_that_ends_soon_is_renewed_before_use() {
    let server = Server::start(|url, _, before| {
        let mut body = token(url);
        if before == 0 {
            body["token"]["expires_at"] = (chrono::Utc::now() + chrono::TimeDelta::seconds(30)).to_rfc3339().into();
        }
        Reply::json(201, body).with("X-Subject-Token", format!("token-{}", before + 1))
    })
    .await;
    let session = server.session();
    for wanted in ["token-1", "token-2", "token-2"] {
        assert_eq!(session.token().await.expect("a token").expose_secret(), wanted);
    }
}

#[tokio::test]
async fn interface_and_region_choose_the_endpoint() {
    let server = Server::start(|_, _, _| {
        let endpoint = |interface, region, url| json!({"interface": interface, "region": region, "region_id": region, "url": url});
        let mut body = token("http://unused");
        body["token"]["catalog"] = json!([
            {"type": "network", "name": "neutron", "endpoints": [
                endpoint("public", "A", "http://public-a:9696"), endpoint("internal", "A", "http://internal-a:9696"),
                endpoint("public", "B", "http://public-b:9696/"), endpoint("internal", "B", "http://internal-b:9696/v2.0")]},
            {"type": "volume", "endpoints": [endpoint("public", "B", "http://old:8776/v2/p")]},
            {"type": "volumev3", "endpoints": [endpoint("public", "B", "http://cinder-b:8776/v3/p")]},
            {"type": "identity", "endpoints": [endpoint("public", "B", "http://keystone-b:5000")]},
            {"type": "container-infrastructure-management", "endpoints": [endpoint("public", "B", "http://magnum-b:9511/v1")]},
        ]);
        Reply::json(201, body).with("X-Subject-Token", "t")
    })
    .await;
    let session = |options| Cloud::new(options).expect("good options").session(password());
    let url = async |options: &CloudOptions, service| session(options.clone()).endpoint(service).await.map(|url| url.to_string());

    let any = server.options();
    assert_eq!(url(&any, Service::Network).await.expect("an endpoint"), "http://public-a:9696/v2.0");
    let mut b = CloudOptions { region: Some("B".into()), ..server.options() };
    assert_eq!(url(&b, Service::Network).await.expect("an endpoint"), "http://public-b:9696/v2.0");
    assert_eq!(url(&b, Service::BlockStorage).await.expect("an endpoint"), "http://cinder-b:8776/v3/p");
    assert_eq!(url(&b, Service::ContainerInfra).await.expect("an endpoint"), "http://magnum-b:9511/v1");
    b.interfaces.insert(Service::Network, Interface::Internal);
    assert_eq!(url(&b, Service::Network).await.expect("an endpoint"), "http://internal-b:9696/v2.0");
    let public = session(b.clone()).keystone().public_endpoint().await.expect("an endpoint");
    assert_eq!(public.as_str(), "http://keystone-b:5000/v3");

    let error = session(b).heat().stacks(&StackFilter::default()).await.expect_err("no Heat");
    assert_eq!(error.kind(), ErrorKind::NoEndpoint);
    assert!(!error.retry_may_help());
    assert!(error.to_string().contains("no public endpoint of type orchestration in region B"), "{error}");
}

#[tokio::test]
async fn validate_asks_as_the_service_and_knows_unknown_tokens() {
    let server = Server::cloud(|url, asked, _| match (asked.header("x-auth-token"), asked.header("x-subject-token")) {
        (Some("token-1"), _) => Reply::json(401, json!({})),
        (_, Some("good")) => {
            let mut body = token(url);
            body["token"]["OS-TRUST:trust"] = json!({"id": "t1"});
            Reply::json(200, body)
        }
        _ => not_found(),
    })
    .await;
    let cloud = Cloud::new(server.options()).expect("good options");
    let service = cloud.session(password());
    let good = SecretString::from("good");
    let info = cloud.validate(&service, &good, false).await.expect("an answer").expect("a known token");
    assert_eq!((info.user_id.as_str(), info.project_id.as_deref(), info.trust_id.as_deref()), ("u1", Some("p1"), Some("t1")));
    assert_eq!(info.roles, ["admin"]);
    assert!(cloud.validate(&service, &"bad".into(), false).await.expect("an answer").is_none());
    // The facts serve for a session without another question.
    let session = cloud.session_known(good, Arc::new(info));
    assert_eq!(session.endpoint(Service::Image).await.expect("an endpoint").path(), "/v2");
    assert_eq!(server.asked("GET", "/v3/auth/tokens").len(), 3);
}

#[tokio::test]
async fn tokens_of_others_are_checked_at_the_configured_interface_of_keystone_and_all_else_is_asked_where_we_log_in() {
    let server = Server::start(|url, asked, _| {
        let mut body = token(url);
        let endpoint = |interface: &str| json!({"interface": interface, "region": "RegionOne", "url": format!("{url}/{interface}")});
        body["token"]["catalog"] =
            json!([{"type": "identity", "name": "keystone", "endpoints": [endpoint("public"), endpoint("internal")]}]);
        match asked.method.as_str() {
            "POST" => Reply::json(201, body).with("X-Subject-Token", "ours"),
            _ => Reply::json(200, body),
        }
    })
    .await;
    for (interface, checked_at, times) in [
        (None, "/v3/auth/tokens", 1),
        (Some(Interface::Internal), "/internal/v3/auth/tokens", 1),
        // The catalogue has no such one.
        (Some(Interface::Admin), "/v3/auth/tokens", 2),
    ] {
        let mut options = CloudOptions { region: Some("RegionOne".into()), ..server.options() };
        options.interfaces.extend(interface.map(|interface| (Service::Identity, interface)));
        let cloud = Cloud::new(options).expect("good options");
        let service = cloud.session(password());
        assert!(cloud.validate(&service, &"theirs".into(), false).await.expect("an answer").is_some());
        assert_eq!(server.asked("GET", checked_at).len(), times, "{interface:?}");
        // Whatever it is answered with.
        let _ = service.keystone().project("p").await;
    }
    assert_eq!(server.asked("GET", "/v3/projects/p").len(), 3);
    assert_eq!(server.asked("POST", "/v3/auth/tokens").len(), 3);
}

#[tokio::test]
async fn calls_carry_the_request_id() {
    let server = Server::cloud(|_, _, _| not_found()).await;
    let session = server.session().with_request_id("req-42".into());
    assert_eq!(session.nova().keypair("k").await.expect("an answer"), None);
    assert_eq!(server.asked("GET", "/v2.1/os-keypairs/k")[0].header("x-openstack-request-id"), Some("req-42"));
}

/// Every span is in one and the same trace.
struct OneTrace;

impl Tracing for OneTrace {
    fn traceparent(&self, _: &tracing::Span) -> Option<String> {
        Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into())
    }

    fn follow(&self, _: &tracing::Span, _: &str) {}
}

/// Keeps what it was told.
#[derive(Default)]
struct Kept(Mutex<Vec<(&'static str, Ending)>>);

impl Observer for Kept {
    fn ended(&self, call: &Call) {
        self.0.lock().expect("no panic").push((call.operation, call.ending));
    }
}

#[tokio::test]
async fn services_are_told_of_the_trace_only_when_there_is_one_and_every_call_is_observed() {
    let server = Server::cloud(|_, _, _| not_found()).await;
    let kept = Arc::new(Kept::default());
    let watchers = Watchers { observer: Some(kept.clone()), tracing: Some(Arc::new(OneTrace)) };
    let traced = Cloud::watched(server.options(), watchers).expect("good options").session(password());
    assert!(traced.nova().keypair("k").await.expect("an answer").is_none());
    assert!(server.session().nova().keypair("k").await.expect("an answer").is_none());
    let asked = server.asked("GET", "/v2.1/os-keypairs/k");
    let told: Vec<bool> =
        asked.iter().map(|asked| asked.header("traceparent").is_some_and(|h| h.ends_with("b7ad6b7169203331-01"))).collect();
    assert_eq!(told, [true, false]);
    let seen = kept.0.lock().expect("no panic").clone();
    assert_eq!(seen.iter().map(|(_, ending)| *ending).collect::<Vec<_>>(), [Ending::Answered(201), Ending::Answered(404)]);
}
